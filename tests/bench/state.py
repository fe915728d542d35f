"""Cost of state: ``python -m tests.bench.state [--keys N …] [--disk] [--windows] [--json FILE [--lines FILE]]``.

Fills one task with counted keys through the level, state log and worker cache of a query, with the log in a file, and
prints for each size: CPU seconds to fill, CPU milliseconds of a batch of 100 random keys, bytes of the log, memory
of the process above its start, and CPU seconds of a rebuild. Each size runs in a separate process. The place of the
rows is chosen by ``--memory-limit``, as in a query; ``--disk`` puts them into a file from the beginning. ``--json``
measures both places and writes charts, with ``--lines`` those of the printed lines of several calls: a list of
``{"chart", "x_label", "y_label", "series": [{"name", "points"}]}``.
"""

from __future__ import annotations

import argparse
import gc
import json
import pickle
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import kstreamnb as ks
from kstreamnb.core.heap import gc_relaxed
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.execution import worker_cache
from kstreamnb.spark.execution.record_batch import RecordBatch, pack, root_order
from kstreamnb.spark.execution.rows import REPORT
from kstreamnb.spark.execution.state_log import StateLog
from kstreamnb.spark.execution.stateful_operator import run_group
from kstreamnb.spark.planning.deployment import WorkerOptions
from kstreamnb.spark.planning.placement import plan_application, plan_deployment

__all__ = ["main"]

_FILL, _START_MS = 200_000, 1_790_000_000_000
_PORTION, _MOST_IN_MEMORY, _PRIME = 5_000, 2_000_000, 7_919


@dataclass(frozen=True)
class Figures:
    """The cost of one size: CPU seconds, milliseconds and microseconds, and bytes."""

    keys: int
    on_disk: bool
    fill_us: float
    batch_p50_ms: float
    batch_max_ms: float
    log_bytes: int
    memory_bytes: int
    peak_bytes: int
    rebuild_s: float


class LogInFile:
    """A map state that takes no memory."""

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path, isolation_level=None)
        self._file.execute("PRAGMA journal_mode=OFF")
        self._file.execute("PRAGMA synchronous=OFF")
        self._file.execute("CREATE TABLE log (number INTEGER PRIMARY KEY, token, entry)")

    def getValue(self, key: tuple[int]) -> tuple[str, bytes] | None:
        """A row, or None."""
        found: tuple[str, bytes] | None = self._file.execute(
            "SELECT token, entry FROM log WHERE number = ?", key
        ).fetchone()
        return found

    def updateValue(self, key: tuple[int], row: tuple[str, bytes]) -> None:
        """Set a row."""
        self._file.execute("REPLACE INTO log VALUES (?, ?, ?)", (*key, *row))

    def removeKey(self, key: tuple[int]) -> None:
        """Remove a row."""
        self._file.execute("DELETE FROM log WHERE number = ?", key)

    def iterator(self) -> Iterator[tuple[tuple[int], tuple[str, bytes]]]:
        """All rows."""
        for number, token, entry in self._file.execute("SELECT number, token, entry FROM log"):
            yield (number,), (token, entry)


class OneTask:
    """A task that counts records by key or by window, and the log of its state."""

    def __init__(self, folder: Path, memory_limit: int, *, windows: bool) -> None:
        builder = ks.StreamsBuilder("counted")
        grouped = builder.stream("in").group_by_key()
        if windows:
            counts = grouped.windowed_by(ks.TimeWindows.of("1h")).count(store="counts").to_stream()
            counts.select_key(lambda window, count: window.key).to("out")
        else:
            grouped.count(store="counts").to_stream().to("out")
        application = plan_application(builder.build(), Config(), {"in": 1}, direct=True)
        options = WorkerOptions(kafka=True, memory_limit=memory_limit)
        self.deployment = replace(plan_deployment("counted", [application], 1), options=options)
        self.log, self._offset, self._time = LogInFile(folder / "log.sqlite"), 0, _START_MS

    def batch(self, keys: list[str]) -> tuple[float, dict[str, Any]]:
        """Run one batch; return its CPU seconds and the task's report."""
        (placed,) = self.deployment.tasks
        rows = []
        self._time += 1
        for seq, begin in enumerate(range(0, len(keys), _PORTION)):
            part = keys[begin : begin + _PORTION]
            times = np.full(len(part), self._time, np.int64)
            offsets = np.arange(self._offset, self._offset + len(part))
            self._offset += len(part)
            batch = RecordBatch(
                "in", 0, root_order(times, offsets, 0), times, part, [1] * len(part), None, offsets, clock_ms=1
            )
            rows.append((placed.routing_key, placed.number, 0, seq, pack(batch)))
        began = time.process_time()
        with gc_relaxed():  # as in an operator
            found = list(run_group(self.deployment, placed.level, placed.routing_key, rows, StateLog(self.log)))
        spent = time.process_time() - began
        (report,) = [pickle.loads(row[4]) for row in found if row[1] == REPORT]
        return spent, report


def process_bytes() -> tuple[int, int]:
    """Return the present and the greatest resident memory of this process."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmRSS"].split()[0]) << 10, int(lines["VmHWM"].split()[0]) << 10


def measure(
    keys: int, *, on_disk: bool, memory_limit: int, batches: int, scattered: bool, windows: bool = False
) -> Figures:
    """Measure one size in this process."""
    step = _PRIME if scattered else 1
    with tempfile.TemporaryDirectory(prefix="kstreamnb-bench-", dir="/var/tmp") as name:
        task = OneTask(Path(name), memory_limit, windows=windows)
        task.batch(["warm"])
        gc.collect()
        base, _ = process_bytes()
        fill = 0.0
        for begin in range(0, keys, _FILL):
            if on_disk and begin == 0:
                next(iter(worker_cache.worker_state(task.deployment).tasks.values())).moves = True
            numbers = range(begin, min(keys, begin + _FILL))
            fill += task.batch([f"customer-{n * step % keys:09d}" for n in numbers])[0]
        chance = random.Random(1)
        some = [[f"customer-{chance.randrange(keys):09d}" for _ in range(100)] for _ in range(batches)]
        spent = [task.batch(each)[0] * 1e3 for each in some]
        gc.collect()
        now, peak = process_bytes()
        used_file = next(iter(worker_cache.worker_state(task.deployment).tasks.values())).file is not None
        _, report = task.batch(["customer-000000000"])
        assert report["stores"]["counts"][0] == keys + 1, report
        for path in (worker_cache.local_folder() / task.deployment.key).glob("*"):
            path.unlink()
        worker_cache.forget()
        if used_file:
            task.deployment = replace(task.deployment, options=WorkerOptions(kafka=True, memory_limit=0))
        gc.collect()
        rebuild, report = task.batch(["customer-000000000"])
        assert report["state"] == "rebuild", report
        assert report["stores"]["counts"][0] == keys + 1, report
        return Figures(
            keys,
            used_file,
            round(fill / keys * 1e6, 2),
            round(statistics.median(spent), 3),
            round(max(spent), 2),
            report["state_bytes"],
            now - base,
            peak - base,
            round(rebuild, 2),
        )


def charts(found: list[Figures]) -> list[dict[str, Any]]:
    """Return the charts of some figures."""
    places = {False: "in memory", True: "in a file"}

    def chart(title: str, label: str, field: str, scale: float = 1) -> dict[str, Any]:
        series = [
            {
                "name": name,
                "points": [[each.keys, asdict(each)[field] * scale] for each in found if each.on_disk == on_disk],
            }
            for on_disk, name in places.items()
        ]
        return {"chart": title, "x_label": "keys of the task", "y_label": label, "series": series}

    return [
        chart("A batch of 100 records", "CPU, median (ms)", "batch_p50_ms"),
        chart("Memory of a worker after the fill", "MB", "memory_bytes", 1e-6),
        chart("A rebuild from the state log", "CPU (s)", "rebuild_s"),
    ]


def main(arguments: list[str] | None = None) -> None:
    """Measure each size in a separate process, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.state")
    parser.add_argument("--keys", type=int, nargs="+", default=[100_000, 200_000, 1_000_000])
    parser.add_argument("--disk", action="store_true", help="keep the rows in a file from the beginning")
    parser.add_argument("--scattered", action="store_true", help="let keys come in no order when the store is filled")
    parser.add_argument("--windows", action="store_true", help="count by windows of an hour instead of by key")
    parser.add_argument("--memory-limit", type=int, default=1 << 30)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write charts to a file")
    parser.add_argument(
        "--lines", type=Path, help="write the charts of lines that were printed before, and measure nothing"
    )
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        (keys,) = options.keys
        figures = measure(
            keys,
            on_disk=options.disk,
            memory_limit=options.memory_limit,
            batches=options.batches,
            scattered=options.scattered,
            windows=options.windows,
        )
        print(json.dumps(asdict(figures)))
        return
    if options.lines:
        lines = options.lines.read_text().splitlines()
        options.json.write_text(json.dumps(charts([Figures(**json.loads(line)) for line in lines]), indent=1))
        return
    found = []
    sizes = [
        (keys, on_disk) for keys in options.keys for on_disk in ((False, True) if options.json else (options.disk,))
    ]
    for keys, on_disk in sizes:
        if options.json and keys > _MOST_IN_MEMORY and not on_disk:
            continue
        command = [sys.executable, "-m", "tests.bench.state", "--one", "--keys", str(keys)]
        command += ["--memory-limit", str(options.memory_limit), "--batches", str(options.batches)]
        command += ["--disk"] * on_disk + ["--scattered"] * options.scattered + ["--windows"] * options.windows
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append(Figures(**json.loads(out.splitlines()[-1])))
        print(json.dumps(asdict(found[-1])), flush=True)
    if options.json:
        options.json.write_text(json.dumps(charts(found), indent=1))


if __name__ == "__main__":
    main()
