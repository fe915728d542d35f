"""Throughput of the test driver, beside other engines: ``python -m tests.bench.driver [--peers DIR] [--java DIR]``.

The workload is 200,000 records with small dicts as values and 100 keys. Engines run in separate processes, in turns,
and pass records on by reference: the records' serde declares them immutable. Rates are records per second of CPU time,
so that a busy machine changes little. Peers are installed into a separate environment at ``--peers``; the kit does not
depend on them. ``--java`` adds Kafka's own test driver if Maven and Java are present: it cannot pass a value on, so its
rates include reading and writing JSON, as those of the kit's case with isolated values do.

According to ``dis`` and cProfile, a quarter of the half microsecond per record goes into unpacking a named tuple, which
CPython does with an iterator; the rest is one dict lookup, one put and one row of output. Windows cost little as long
as consecutive records of a key share one: partition and windowed key are cached. With JSON values most of the time is
spent reading and writing them, once at each topic and store; flat dicts of the input are copied instead, which takes a
fifth of that.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

CASES = {"filter and map": 1.05, "keyed count": 2.5, "tumbling count": 3.5}
"""Cases, and how many times bytewax each is to reach."""

ISOLATED = "keyed count, isolated JSON values"
ALONE = (ISOLATED, "filter and map, 4 partitions", "keyed count, every hop seen")
RECORDS, KEYS, START_MS = 200_000, 100, 1_700_000_000_000
PEER = Path(__file__).with_name("peer_bytewax.py")
JAVA = Path(__file__).with_name("java")
KIT, BYTEWAX, KAFKA = "kstreamnb", "bytewax", "Kafka's driver"


def main() -> int:
    """Measure and print a table; exit with code 1 if a ratio is missed."""
    options = _options()
    if options.measure:
        measure(options.measure, options.repeats)
        return 0
    peers = _peers(options)
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(options.rounds):
        for case in [*CASES, *([] if options.quick else ALONE)]:
            kit = [sys.executable, "-m", "tests.bench.driver", "--measure", case, "--repeats", str(options.repeats)]
            found.setdefault((KIT, case), []).append(_run(kit))
            for name, command in peers.items() if case in CASES else ():
                found.setdefault((name, case), []).append(_run([*command, case, str(options.repeats)]))
    return _report({key: max(rates) for key, rates in found.items()}, [KIT, *peers])


def measure(case: str, repeats: int) -> None:
    """Print the best rate of a case in this process, as JSON."""
    rates: list[float] = []
    PREPARE[case]()()  # the first run allocates memory
    for _ in range(repeats):
        run = PREPARE[case]()
        start = time.process_time()
        run()
        rates.append(RECORDS / (time.process_time() - start))
    print(json.dumps(max(rates)))


@cache
def _records() -> list[Any]:
    from kstreamnb.core.record import TopicRecord

    return [
        TopicRecord("in", -1, -1, START_MS + n, f"k{n % KEYS}", {"key": f"k{n % KEYS}", "value": n, "ts": START_MS + n})
        for n in range(RECORDS)
    ]


def _prepared(case: str, **options: Any) -> Callable[[], None]:
    """Return a driver over the case's topology, and records to pipe into it."""
    from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver

    driver = TopologyTestDriver(topology(case), **options)
    records = _records()
    return lambda: driver.pipe(records)


def topology(case: str) -> Any:
    """Run the case through the public interface."""
    from kstreamnb.core.serdes import Serdes
    from kstreamnb.core.windows import TimeWindows
    from kstreamnb.dsl.builder import StreamsBuilder

    shared = Serdes.serde_from(lambda v: json.dumps(v).encode(), json.loads, name="shared json", immutable=[dict])
    values = Serdes.json() if "isolated" in case else shared
    builder = StreamsBuilder("bench")
    stream = builder.stream("in", value_serde=values)
    if case.startswith("filter and map"):
        even = stream.filter(lambda key, value: value["value"] % 2 == 0)
        even.map_values(lambda value: {**value, "v2": value["value"] * 2}).to("out", value_serde=values)
    elif case.startswith("keyed count"):
        stream.group_by_key().count().to_stream().to("out", value_serde=Serdes.long())
    else:
        windows = stream.group_by_key().windowed_by(TimeWindows.of(size="1s"))
        windows.count().to_stream().to("out", value_serde=Serdes.long())
    return builder.build()


def _seen() -> Callable[[], None]:
    events: list[Any] = []
    return _prepared("keyed count", observe=events.append)


PREPARE: dict[str, Callable[[], Callable[[], None]]] = {
    **{case: lambda case=case: _prepared(case) for case in CASES},  # type: ignore[misc]
    ISOLATED: lambda: _prepared(ISOLATED),
    ALONE[1]: lambda: _prepared("filter and map", partitions=4),
    ALONE[2]: _seen,
}


def _run(command: list[str]) -> float:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{result.stderr}")
    answer = json.loads(result.stdout.splitlines()[-1])
    return float(answer["rate"] if isinstance(answer, dict) else answer)


def _peers(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the commands that run a peer, given a case and a number of repeats."""
    peers = {}
    if options.peers:
        peers[BYTEWAX] = [str(_peer_python(Path(options.peers))), str(PEER)]
    if options.java:
        jars = _peer_jars(Path(options.java))
        peers[KAFKA] = ["java", "-XX:+UseSerialGC", "-Xmx2g", "-cp", f"{jars}/*", str(JAVA / "Peer.java")]
    return peers


def _peer_python(folder: Path) -> Path:
    """Return the interpreter of the peers' environment, which is created if missing."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "bytewax"], check=True)
    return python


def _peer_jars(folder: Path) -> Path:
    """Return the folder with Kafka's test driver, which Maven fills if it is empty."""
    if missing := [tool for tool in ("mvn", "javac") if shutil.which(tool) is None]:
        raise SystemExit(
            f"--java needs Maven and a Java 17 development kit on the path; not found: {', '.join(missing)}"
        )
    if not folder.exists():
        get = [
            "mvn",
            "-q",
            "-B",
            "-f",
            str(JAVA),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={folder.absolute()}",
        ]
        subprocess.run(get, check=True)
    return folder


def _report(rates: dict[tuple[str, str], float], engines: list[str]) -> int:
    missed = 0
    heads = "".join(f"{engine:>16}" + ("" if engine == KIT else f"{'ratio':>8}") for engine in engines)
    print(f"{'case':36}{heads}{'aim':>8}   records by CPU second, best run; the aim is a ratio to bytewax")
    for case in [case for engine, case in rates if engine == KIT]:
        ours = rates[KIT, case]
        line = f"{case:36}{ours:>16,.0f}"
        for engine in engines[1:]:
            theirs = rates.get((engine, case))
            line += "" if theirs is None else f"{theirs:>16,.0f}{ours / theirs:>8.2f}"
        if (theirs := rates.get((BYTEWAX, case))) is not None:
            missed += ours / theirs < CASES[case]
            line += f"{CASES[case]:>8.2f}"
        print(line)
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.driver", description="Throughput of the test driver.")
    parser.add_argument("--peers", help="folder of an environment with bytewax; made when it is not there")
    parser.add_argument("--java", help="folder of the jars of Kafka's test driver; filled when it is not there")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each engine and case")
    parser.add_argument("--repeats", type=int, default=5, help="runs in each process")
    parser.add_argument("--quick", action="store_true", help="only the cases that peers run too")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
