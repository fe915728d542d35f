"""Runs what users leave running, and fails if it keeps more and more: ``python -m tests.soak --minutes 5``.

Three parts, each in a process: a deployment whose keys come and go, with its servers; a notebook whose cells run again
and again; a test driver that gets record after record. After a while each has the size that it keeps. The last third of
the samples after the warm-up may exceed the first third by the limit of its unit.
"""

from __future__ import annotations

import argparse
import gc
import json
import linecache
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sized
from functools import partial
from pathlib import Path
from typing import cast
from urllib.request import urlopen

import kstreamnb as ks
from kstreamnb.background import background, wait_until

__all__ = ["CELLS", "LIMITS", "PARTS", "application", "main", "too_much"]

Figures = Mapping[str, float]
LIMITS = {
    "mb": (0.10, 8.0),
    "files": (0.10, 60.0),
    "threads": (0.1, 8.0),
    "objects": (0.01, 500.0),
    "rows": (0.1, 10.0),
    "": (0.0, 3.0),
}
"""How much more of a unit, the last word of a name, is no growth: the larger one of a share and an absolute figure."""
_WARM_UP = 0.4
_START_S, _ATTEMPTS = 300, 20
_TOPICS = ("clicks", "views", "orders", "users")
_POSITIONS = {"batch", "lag", "p50 ms", "p99 ms", "run", "records", "jvm mb"}
"""Figures that are printed only: a JVM takes memory up to the limit of its heap."""
_FEWEST, _KEPT_BATCHES = 9, 120  # samples; Spark keeps the files of 100 batches
_STORES = ("by-letter", "by-window", "by-visit", "orders", "users", "named")
_ORDERS_S, _CYCLE_S = 40, 100  # after which an order is deleted, and a key comes back


def too_much(samples: list[Figures]) -> list[str]:
    """Return what has grown between the first and the last third of the samples after the warm-up."""
    steady = samples[int(len(samples) * _WARM_UP) :]
    third = max(1, len(steady) // 3)
    sentences = []
    for name in samples[-1].keys() - _POSITIONS:
        parts = ([each.get(name, 0) for each in part] for part in (steady[:third], steady[-third:]))
        before, after = map(statistics.median, parts)
        share, least = LIMITS.get(name.split()[-1], LIMITS[""])
        if after - before > max(share * before, least):
            sentences.append(f"{name} {before:,.1f} → {after:,.1f}")
    return sentences


# --- processes and folders ------------------------------------------------------------------------------------------


def _text_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # the process has ended
        return ""


def _processes() -> Iterator[tuple[str, int]]:
    """Yield the descendants of this process, without brokers."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (status := _text_of(entry / "stat")):
            children.setdefault(int(status.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    waiting = [os.getpid()]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            command = _text_of(Path(f"/proc/{child}/cmdline"))
            if "kafka.Kafka" not in command:
                yield "jvm" if "SparkSubmit" in command else "workers", child
                waiting.append(child)


def _of_process(pid: int) -> tuple[float, int, int]:
    """Return memory (MB), threads and open files of a process."""
    lines = _text_of(Path(f"/proc/{pid}/status")).splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    files = len(os.listdir(f"/proc/{pid}/fd")) if Path(f"/proc/{pid}/fd").exists() else 0
    return int(status.get("VmRSS", "0 kB").split()[0]) / 1024, int(status.get("Threads", 0)), files


def _of_folder(folder: Path) -> tuple[int, float]:
    """Return the number of files in a folder, and their size (MB)."""
    sizes = []
    for path in folder.rglob("*"):
        try:
            sizes.append(path.lstat().st_size)
        except OSError:  # removed meanwhile
            continue
    return len(sizes), sum(sizes) / 1e6


def _heap_mb(pid: int) -> float:
    """Return what the heap of a JVM holds after a collection (MB)."""
    subprocess.run(["jcmd", str(pid), "GC.run"], capture_output=True, check=False)
    said = subprocess.run(["jcmd", str(pid), "GC.heap_info"], capture_output=True, text=True, check=False).stdout
    return sum(map(int, re.findall(r"(?:generation|heap) .*used (\d+)K", said))) / 1024


def _own_figures() -> dict[str, float]:
    gc.collect()
    memory, threads, files = _of_process(os.getpid())
    return {"memory mb": memory, "threads": threads, "open files": files, "python objects": len(gc.get_objects())}


# --- a deployment ---------------------------------------------------------------------------------------------------


def application(name: str) -> ks.Topology:
    """Count by key and by window, suppress, join streams, and join tables by a foreign key."""
    builder = ks.StreamsBuilder(name)
    long, text = ks.Serdes.long(), ks.Serdes.string()
    clicks, views = (builder.stream(f"{name}-{topic}", value_serde="long") for topic in _TOPICS[:2])
    letters = clicks.group_by(lambda key, number: key[-2:], value_serde="long")
    letters.count(store="by-letter").to_stream().to(f"{name}-letters", value_serde="long")

    windows = ks.TimeWindows.of(size="10s", grace="2s")
    kept = ks.Materialized(store="by-window", retention="30s")
    closed = clicks.group_by_key().windowed_by(windows).count(materialized=kept)
    closed = closed.suppress(ks.Suppressed.until_window_closes(ks.BufferConfig.unbounded()))
    closed.to_stream().to(f"{name}-closed", key_serde=ks.Serdes.time_windowed(text, "10s"), value_serde=long)

    visits = clicks.group_by_key().windowed_by(ks.SessionWindows.of(gap="3s", grace="2s")).count(store="by-visit")
    visits.to_stream().to(f"{name}-visits", key_serde=ks.Serdes.session_windowed(text), value_serde=long)

    near = ks.JoinWindows.of(difference="5s", grace="2s")
    clicks.left_join(views, _pair, near).to(f"{name}-paired", value_serde="string")

    orders = builder.table(f"{name}-orders", value_serde="long", store="orders")
    users = builder.table(f"{name}-users", value_serde="long", store="users")
    named = orders.join(users, _pair, foreign_key=lambda order: f"u{order % 20}", value_serde="string", store="named")
    named.to_stream().to(f"{name}-named", value_serde="string")
    return builder.build()


def _beside() -> ks.Topology:
    """Return a small application, whose tasks run in the same workers."""
    builder = ks.StreamsBuilder("beside")
    views = builder.stream("soak-views", value_serde="long").group_by(lambda key, number: key[-2:], value_serde="long")
    views.count(store="views").to_stream().to("beside-views", value_serde="long")
    return builder.build()


def _pair(left: int | None, right: int | None) -> str:
    return f"{left}/{right}"


def inputs(second: int, rate: int) -> Iterator[tuple[str, str, int | None]]:
    """Yield topic, key and value of the records of a second: keys that come back later, deletions of older orders."""
    if second == 0:
        yield from (("users", f"u{number}", number) for number in range(20))
    for number in range(rate):
        key = f"{second % _CYCLE_S}-{chr(97 + number % 20)}{number % 3}"
        yield "clicks", key, number
        if number % 3 == 0:
            yield "views", key, number
        if number % 10 == 0:
            yield "orders", f"{second % _CYCLE_S}-{number}", second + number
            yield "orders", f"{(second - _ORDERS_S) % _CYCLE_S}-{number}", None


def _feed(servers: str, name: str, rate: int, ended: threading.Event) -> None:
    with ks.kafka.RecordProducer(servers, value_serde="long") as producer:
        for second in range(1 << 30):
            for topic, key, value in inputs(second, rate):
                producer.send(f"{name}-{topic}", key, value)
            if ended.wait(1.0):
                return


def _ask(url: str) -> None:
    """Read a page; once more if the server has cut off the client, as it does after 15 s on a busy machine."""
    for _ in range(_ATTEMPTS):
        try:
            urlopen(url).read()
            return
        except ConnectionError:
            continue
    raise TimeoutError(url)


def _figures_of_query(query: ks.Query, folder: Path) -> dict[str, float]:
    figures = {f"driver {name}": value for name, value in _own_figures().items()}
    totals: dict[str, list[tuple[float, int, int]]] = {}
    for kind, pid in _processes():
        totals.setdefault(kind, []).append(_of_process(pid))
        if kind == "jvm":
            figures["heap mb"] = figures.get("heap mb") or _heap_mb(pid)
    for kind, each in totals.items():
        for unit, column in zip(("mb", "threads", "open files"), zip(*each, strict=True), strict=True):
            figures[f"{kind} {unit}"] = sum(column)
    for name in ("checkpoint", "tmp"):
        figures[f"{name} files"], figures[f"{name} mb"] = _of_folder(folder / name)
    return figures | {"watchers": len(query.control.action.watchers), "metrics": len(query.metrics())}


def deployment(options: argparse.Namespace, sample: Callable[[Figures], None]) -> None:
    """Run two queries on a local broker, ask the servers of one, and restart it once in a while."""
    with tempfile.TemporaryDirectory(prefix="soak-") as text:
        folder, ended, name = Path(text), threading.Event(), "soak"
        (folder / "tmp").mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
        with ks.kafka.local_broker(data=folder / "broker") as broker:
            servers, admin = broker.bootstrap_servers, ks.kafka.Admin(broker.bootstrap_servers)
            for topic in _TOPICS:
                admin.create_topic(f"{name}-{topic}", partitions=2, config={"retention.ms": "120000"})
            background(partial(_feed, servers, name, options.rate, ended), "soak-feed")
            where = {"bootstrap_servers": servers, "trigger": options.trigger}
            query = ks.deploy(application(name), checkpoint=folder / "checkpoint", changelogs=True, **where)
            beside = ks.deploy(_beside(), checkpoint=folder / "beside", **where)
            seconds = deque[float](maxlen=600)
            query.watch(lambda figures: seconds.append(figures.seconds))
            end = time.monotonic() + 60 * options.minutes
            with ks.monitoring.serve_metrics() as metrics, ks.monitoring.serve(query) as stores:
                # All of them, because changes of stores that nobody reads wait in the driver, up to 64 MB.
                rows = [f"{stores.url}/stores/{store}?limit=5" for store in query.stores if store in _STORES]
                for number in range(1, 1 << 30):
                    time.sleep(options.every)
                    if options.restart and number % options.restart == 0:
                        query.restart()
                    if time.monotonic() > end:
                        break
                    assert wait_until(lambda: query.status(lag=False).state == "running", _START_S)
                    for _ in range(options.requests):
                        query.status()
                        for url in (metrics.url, f"{stores.url}/health", *rows):
                            _ask(url)
                    status, batches = query.status(), sorted(seconds) or [0.0]
                    p50, p99 = (1000 * batches[len(batches) * share // 100] for share in (50, 99))
                    known = {"batch": status.batch, "lag": status.lag, "p50 ms": p50, "p99 ms": p99}
                    if status.batch >= _KEPT_BATCHES:
                        sample(known | _figures_of_query(query, folder))
            ended.set()
            query.stop()
            beside.stop()


# --- a notebook -----------------------------------------------------------------------------------------------------

CELLS = (
    'sample = ks.Sample.from_records([("orders", n % 2, n // 2, n * 1000, f"k{n % 5}", {"n": n}) for n in range(60)])',
    'builder = ks.StreamsBuilder("shop")',
    'orders = builder.stream("orders")',
    'large = orders.filter(lambda key, value: value["n"] > 3)',
    'counts = large.group_by_key().count(store="counts")',
    'windows = orders.group_by_key().windowed_by(ks.TimeWindows.of(size="10s", grace="2s")).count(store="w")',
    'counts.to_stream().to("totals")',
    'windows.to_stream().to("windows")',
    "large.head(sample)",
    "builder",
    "topology = builder.build()\ntopology",
    "replay = ks.replay(topology, sample)\nreplay",
    "ks.widgets.stepper(replay)",
    "ks.widgets.explorer(topology)",
    'ks.widgets.browse(replay.output("totals"))',
    "ks.widgets.edit(sample)",
    'replay.why_no_output("totals")',
    "driver = ks.TopologyTestDriver(topology, partitions=2)\ndriver.pipe(sample)\ndriver.store('counts')",
    "sample.statistics()",
    "replay.seek(10)\nreplay.now",
)


def notebook(options: argparse.Namespace, sample: Callable[[Figures], None]) -> None:
    """Run twenty cells again and again; what IPython itself keeps of each run, results and texts, is removed."""
    import comm
    from ipywidgets.widgets.widget import _instances

    from tests.notebook.shells import loaded_shell

    with loaded_shell() as shell:
        shell.ip.displayhook.do_full_cache = False
        end = time.monotonic() + 60 * options.minutes
        for run in range(options.runs):
            for number, cell in enumerate(CELLS):
                shown = shell.run(cell, f"cell-{number}")
                assert "Error" not in shown, shown
            shell.ip.history_manager.reset()
            linecache.cache.clear()
            if run % 5 == 4:
                models = {"widgets": len(_instances), "comms": len(comm.get_comm_manager().comms)}
                sample({"run": run + 1} | models | _own_figures())
            if time.monotonic() > end:
                break


# --- a test driver --------------------------------------------------------------------------------------------------


def driver(options: argparse.Namespace, sample: Callable[[Figures], None]) -> None:
    """Pipe records into one driver, whose windows close and whose outputs are read."""
    running = ks.TopologyTestDriver(application("soak"), partitions=2)
    piped = 0
    for second in range(1 << 30):
        records = [
            ks.TopicRecord(f"soak-{topic}", -1, 0, 1000 * second + at, key, value)
            for at, (topic, key, value) in enumerate(inputs(second, 200))
        ]
        running.pipe(records)
        for name in running.produced_topic_names():  # it keeps what is written until it is read
            if not name.endswith("-changelog"):
                running.create_output_topic(name).read_records()
        running._done.clear()
        piped += len(records)
        if second % 60 == 59:
            stores = {f"{name} rows": len(cast("Sized", running.store(name))) for name in _STORES}
            sample({"records": piped} | stores | _own_figures())
        if piped >= options.records:
            return


PARTS = {each.__name__: each for each in (deployment, notebook, driver)}


def main(arguments: list[str] | None = None) -> int:
    """Run the parts, print their figures as lines of JSON, and return 1 if something has grown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[*PARTS], help=f"of {', '.join(PARTS)}")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--rate", type=int, default=100, help="clicks a second")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two samples")
    parser.add_argument("--trigger", default="500ms", help="time between two batches")
    parser.add_argument("--restart", type=int, default=12, help="samples between two restarts; 0: none")
    parser.add_argument("--requests", type=int, default=5, help="of each kind before each sample")
    parser.add_argument("--runs", type=int, default=100, help="of the notebook")
    parser.add_argument("--records", type=int, default=300_000, help="of the driver")
    parser.add_argument("--log", type=Path, help="a file for the samples")
    options = parser.parse_args(arguments)
    if len(options.parts) > 1:
        given = [each for each in (arguments or sys.argv[1:]) if each not in PARTS]
        commands = [[sys.executable, "-m", "tests.soak", part, *given] for part in options.parts]
        return max(subprocess.run(each, check=False).returncode for each in commands)
    (part,) = options.parts
    samples, began = list[Figures](), time.monotonic()

    def sample(figures: Figures) -> None:
        samples.append(figures)
        shown = {name: round(value, 1) for name, value in figures.items()}
        line = json.dumps({"part": part, "s": round(time.monotonic() - began)} | shown)
        print(line, flush=True)
        if options.log is not None:
            with options.log.open("a") as file:
                file.write(f"{line}\n")

    PARTS[part](options, sample)
    if len(samples) < _FEWEST:
        print(f"{part}: {len(samples)} samples are too few, so run it for longer")
        return 1
    grown = too_much(samples)
    print(f"{part}: {'; '.join(grown)} have grown" if grown else f"{part}: nothing has grown")
    return int(bool(grown))


if __name__ == "__main__":
    sys.exit(main())
