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

CASES = {"filter and map": 1.05, "keyed count": 3.0, "tumbling count": 4.0}
"""Cases, and how many times bytewax each is to reach."""

KAFKA_CASES = ("session count", "sliding count", "suppressed count", "stream-stream join", "foreign-key join")
"""Cases with JSON values on both sides, each to reach ``KAFKA_AIM`` times Kafka's test driver."""

ISOLATED = "keyed count, isolated JSON values"
REGROUPED = "regrouped count, isolated JSON values"
PARTITIONED = "filter and map, 4 partitions"
ALONE = (ISOLATED, REGROUPED, PARTITIONED, "keyed count, every hop seen", "keyed count, 4 partitions")
PYTHON_CASES = (*KAFKA_CASES, "filter and map", "keyed count", REGROUPED, PARTITIONED)
"""Cases that `peer_python` has, too."""
KAFKA_AIM = 5.0
RECORDS, KEYS, START_MS = 200_000, 100, 1_700_000_000_000
FEWER = {"sliding count": 20_000}
"""Records of cases that take Kafka's test driver more than a quarter of an hour otherwise."""
PEER = Path(__file__).with_name("peer_bytewax.py")
JAVA = Path(__file__).with_name("java")
KIT, BYTEWAX, KAFKA, PYTHON = "kstreamnb", "bytewax", "Kafka's driver", "least Python"


def main() -> int:
    """Measure and print a table; exit with code 1 if a ratio is missed."""
    options = _options()
    if options.measure:
        measure(options.measure, options.repeats)
        return 0
    peers = _peers(options)
    found: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for _ in range(options.rounds):
        for case in options.cases or [*CASES, *([] if options.quick else (*KAFKA_CASES, *ALONE))]:
            kit = [sys.executable, "-m", "tests.bench.driver", "--measure", case, "--repeats", str(options.repeats)]
            found.setdefault((KIT, case), []).append(_run(kit))
            for name, command in peers.items():
                if case in (CASES if name == BYTEWAX else PYTHON_CASES if name == PYTHON else (*CASES, *KAFKA_CASES)):
                    found.setdefault((name, case), []).append(_run([*command, case, str(options.repeats)]))
    for case in PYTHON_CASES:
        outputs = {number for (_, of), runs in found.items() if of == case for _, number in runs if number}
        assert len(outputs) <= 1, f"the engines write different numbers of records for {case}: {outputs}"
    return _report({key: max(runs)[0] for key, runs in found.items()}, [KIT, *peers])


def measure(case: str, repeats: int) -> None:
    """Print the best rate of a case in this process, and the number of records written, as JSON."""
    rates, published = list[float](), 0
    PREPARE[case]()()  # the first run allocates memory
    for _ in range(repeats):
        run = PREPARE[case]()
        start = time.process_time()
        published = run()
        rates.append(FEWER.get(case, RECORDS) / (time.process_time() - start))
    print(json.dumps({"rate": max(rates), "published": published}))


@cache
def input_of(case: str) -> list[Any]:
    """Return the input of a case; `Peer.java` makes the same."""
    from kstreamnb.core.record import TopicRecord

    records = []
    for n in range(FEWER.get(case, RECORDS)):
        topic, key, time = "in", f"k{n % KEYS}", START_MS + n
        if case == "stream-stream join":
            topic, key = ("in", "other")[n % 2], f"k{n // 2 % KEYS}"
        elif case == "foreign-key join" and n % 10 == 9:
            topic, key = "other", f"f{n // 10 % 10}"
        elif case == "session count":
            time += n // 2000 * 1000  # pauses end sessions
        records.append(TopicRecord(topic, -1, -1, time, key, {"key": key, "value": n, "ts": time}))
    return records


def _prepared(case: str, **options: Any) -> Callable[[], int]:
    """Return a function that pipes the case's records into a new driver and returns how many came out."""
    from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver

    driver = TopologyTestDriver(topology(case), **options)
    records = input_of(case)

    def run() -> int:
        driver.pipe(records)
        return len(driver.tasks.logs["out"].rows)

    return run


def topology(case: str) -> Any:
    """Run the case through the public interface."""
    from kstreamnb.core.serdes import Serdes
    from kstreamnb.core.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows
    from kstreamnb.dsl.builder import StreamsBuilder
    from kstreamnb.dsl.options import Suppressed

    shared = Serdes.serde_from(lambda v: json.dumps(v).encode(), json.loads, name="shared json", immutable=[dict])
    values = Serdes.json() if "isolated" in case or case in KAFKA_CASES else shared
    builder = StreamsBuilder("bench")
    if case == "foreign-key join":
        joined = builder.table("in").join(
            builder.table("other"), with_other, foreign_key=lambda value: f"f{value['value'] % 10}"
        )
        joined.to_stream().to("out")
        return builder.build()
    stream = builder.stream("in", value_serde=values)
    if case.startswith("filter and map"):
        even = stream.filter(lambda key, value: value["value"] % 2 == 0)
        even.map_values(lambda value: {**value, "v2": value["value"] * 2}).to("out", value_serde=values)
    elif case == "stream-stream join":
        stream.join(builder.stream("other"), with_other, JoinWindows.of("100ms")).to("out")
    elif case == REGROUPED:
        stream.group_by(lambda key, _: key[-1]).count().to_stream().to("out", value_serde=Serdes.long())
    elif case.startswith("keyed count"):
        stream.group_by_key().count().to_stream().to("out", value_serde=Serdes.long())
    else:
        windows: Any = {"session count": SessionWindows.of("150ms"), "sliding count": SlidingWindows.of("200ms")}.get(
            case, TimeWindows.of(size="1s")
        )
        counts = stream.group_by_key().windowed_by(windows).count()
        if case == "suppressed count":
            counts = counts.suppress(Suppressed.until_window_closes())
        counts.to_stream().to("out", value_serde=Serdes.long())
    return builder.build()


def with_other(value: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Join two values."""
    return {**value, "other": other["value"]}


def _seen() -> Callable[[], int]:
    events: list[Any] = []
    return _prepared("keyed count", observe=events.append)


PREPARE: dict[str, Callable[[], Callable[[], int]]] = {
    **{case: lambda case=case: _prepared(case) for case in (*CASES, *KAFKA_CASES, *ALONE[:2])},  # type: ignore[misc]
    ALONE[2]: lambda: _prepared("filter and map", partitions=4),
    ALONE[3]: _seen,
    ALONE[4]: lambda: _prepared("keyed count", partitions=4),
}


def _run(command: list[str]) -> tuple[float, int]:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{result.stderr}")
    answer = json.loads(result.stdout.splitlines()[-1])
    return float(answer["rate"]), answer.get("published", 0)


def _peers(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the commands that run a peer, given a case and a number of repeats."""
    peers = {PYTHON: [sys.executable, "-m", "tests.bench.peer_python"]}
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
    print(f"{'case':36}{heads}{'aim':>8}   records by CPU second, best run; aims: ratio to bytewax, else to Kafka's")
    for case in [case for engine, case in rates if engine == KIT]:
        ours = rates[KIT, case]
        line = f"{case:36}{ours:>16,.0f}"
        for engine in engines[1:]:
            theirs = rates.get((engine, case))
            line += " " * 24 if theirs is None else f"{theirs:>16,.0f}{ours / theirs:>8.2f}"
        peer, aim = (BYTEWAX, CASES[case]) if case in CASES else (KAFKA, KAFKA_AIM)
        if (theirs := rates.get((peer, case))) is not None:
            missed += ours / theirs < aim
            line += f"{aim:>8.2f}"
        print(line)
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.driver", description="Throughput of the test driver.")
    parser.add_argument("--peers", help="folder of an environment with bytewax; made when it is not there")
    parser.add_argument("--java", help="folder of the jars of Kafka's test driver; filled when it is not there")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each engine and case")
    parser.add_argument("--repeats", type=int, default=5, help="runs in each process")
    parser.add_argument("--cases", nargs="+", help="only these cases")
    parser.add_argument("--quick", action="store_true", help="only the cases that peers run too")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
