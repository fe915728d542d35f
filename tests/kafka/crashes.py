"""The crash matrix: who is killed, and when. ``python -m tests.kafka.crashes [--runs 20] [--only PART ...]``.

One application a victim lives through all kills, one after the other, at each of the points in turn. Whenever it can be
looked at, the committed records of its output topics must be the beginning of what an uninterrupted run of the test
driver gives; at the end all of it, and the rows of its stores must be the driver's.
"""

from __future__ import annotations

import argparse
import json
import random  # noqa: TID251 - seeded
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kstreamnb as ks
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.broker import LocalBroker
from kstreamnb.kafka.produce import produce
from kstreamnb.kafka.reader import fetch, pieces_between
from tests.kafka.deployed import BATCH, COUNTS, LETTERS, POINTS, build

__all__ = ["CELLS", "Cell", "committed", "expected", "main", "run_cells"]

START_MS, PARTITIONS, PATIENCE_S = 1_790_000_000_000, 2, 600
VICTIMS = ("driver", "jvm", "worker", "broker")
TWO = "two drivers"
CELLS = [*((victim, point) for victim in VICTIMS for point in POINTS), (TWO, "at once")]
"""Who is killed, and when."""

Parts = dict[int, list[tuple[bytes | None, bytes | None, int]]]


@dataclass
class Cell:
    """What became of one cell: kills, replays that published nothing again, and differences to the driver's run."""

    victim: str
    point: str
    kills: int = 0
    suppressed: int = 0
    records: int = 0
    lost: int = 0
    doubled: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether output and stores are those of the uninterrupted run."""
        return not (self.wrong or self.lost or self.doubled)


def rows(begin: int, count: int) -> Iterator[ks.TopicRecord]:
    """Records of the input topic, their times growing."""
    chance = random.Random(begin)
    for at in range(begin, begin + count):
        key = f"{chance.choice('abcd')}{chance.randrange(6)}"
        yield ks.TopicRecord("killed-in", at % PARTITIONS, at // PARTITIONS, START_MS + at, key, at)


def committed(servers: str, topic: str) -> Parts:
    """All committed records of a topic by partition: key, value, timestamp."""
    admin = Admin(servers)
    pieces = pieces_between(admin.offsets([topic], "earliest"), admin.offsets([topic]))
    found: Parts = {}
    for _, partition, records in fetch(servers, pieces):
        found.setdefault(partition, []).extend((r[2], r[3], r[1]) for r in records)
    return dict(sorted(found.items()))


def expected(records: Sequence[ks.TopicRecord]) -> tuple[dict[str, Parts], dict[str, Any]]:
    """What the driver writes, and what its stores hold."""
    driver = ks.TopologyTestDriver(build(), partitions={"killed-in": PARTITIONS, COUNTS: PARTITIONS, LETTERS: 2})
    driver.pipe(records)
    found: dict[str, Parts] = {}
    for topic in (COUNTS, LETTERS):
        parts: Parts = {}
        for record in driver.create_output_topic(topic).read_records():
            row = record.key.encode(), record.value.to_bytes(8, "big"), record.timestamp
            parts.setdefault(record.partition, []).append(row)
        found[topic] = dict(sorted(parts.items()))
    stores = {
        name: sorted(
            [key, value.value, value.timestamp] for key, value in driver.get_timestamped_key_value_store(name).all()
        )
        for name in ("by-key", "by-letter")
    }
    return found, stores


def start(servers: str, checkpoint: Path, **plan: Any) -> subprocess.Popen[str]:
    """A deployment in a process group of its own."""
    command = [sys.executable, "-m", "tests.kafka.deployed", servers, str(checkpoint), json.dumps(plan)]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end_of(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    """How a deployment ended, what it printed, and its last words."""
    out, errors = process.communicate(timeout=PATIENCE_S)
    answer = [line for line in out.splitlines() if line.startswith("{")]
    return process.returncode, json.loads(answer[-1]) if answer else {}, errors[-2000:]


class Ordeal:
    """One application with its broker, its input and what it has lived through."""

    def __init__(self, victim: str, points: Sequence[str], broker: LocalBroker, folder: Path) -> None:
        self.victim, self.points, self.broker = victim, points, broker
        self.servers, self.checkpoint = broker.bootstrap_servers, folder / "checkpoint"
        self.cells = {point: Cell(victim, point) for point in points}
        self.records: list[ks.TopicRecord] = []
        Admin(self.servers).create_topic("killed-in", partitions=PARTITIONS)

    def feed(self, batches: int) -> None:
        """More input."""
        more = list(rows(len(self.records), batches * BATCH))
        produce(self.servers, more, value_serde=ks.Serdes.long(), keep_partitions=True)
        self.records.extend(more)

    def one_by_one(self, runs: int) -> None:
        """Each kill ends the process; the next one goes on, and is the next victim."""
        for number in range(runs * len(self.points)):
            self.feed(3)
            point = self.points[number % len(self.points)]
            cell, began = self.cells[point], time.monotonic()
            plan = {"victim": self.victim, "points": [point], "skip": number % 2, "times": 1}
            code, told, words = self._run(**plan)
            if code == (-signal.SIGKILL if self.victim == "driver" else 1):
                cell.kills += 1
            else:
                cell.wrong.append(f"run {number} ended with {code} instead of a kill: {words[-400:]}")
            cell.suppressed += int(told.get("suppressed", 0))
            self._look(cell)
            cell.seconds += time.monotonic() - began

    def within(self, runs: int) -> None:
        """The process survives its workers and its broker; a broker that was killed comes back after a moment."""
        times = runs * len(self.points)
        self.feed(2 * times + 2)
        note, pid, began = self.checkpoint.with_suffix(".broker"), _java_of(self.broker), time.monotonic()
        note.write_text(str(pid))
        plan = {"victim": self.victim, "points": list(self.points), "skip": 1, "times": times}
        process = start(self.servers, self.checkpoint, **plan)
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(end_of, process)  # reads what it prints
            while not ended.done():
                if not _lives(pid):
                    self.broker.kill()
                    time.sleep(0.3)
                    self.broker.start()
                    pid = _java_of(self.broker)
                    note.write_text(str(pid))
                time.sleep(0.02)
            code, told, words = ended.result()
        kills = Counter(told.get("kills", ()))
        for point, cell in self.cells.items():
            cell.kills, cell.seconds = kills[point], (time.monotonic() - began) / len(self.cells)
            if code or cell.kills < runs:
                cell.wrong.append(f"ended with {code} after {cell.kills} kills: {words[-400:]}")
        self.cells[self.points[-1]].suppressed = int(told.get("suppressed", 0))

    def twins(self, runs: int) -> None:
        """A driver stands still somewhere in a batch, a second one takes over, then the first one wakes up."""
        cell, began = self.cells[self.points[0]], time.monotonic()
        for number in range(runs):
            self.feed(3)
            point = [each for each in POINTS if each != "while processing"][(number + 2) % 4]
            first = start(self.servers, self.checkpoint, victim="freeze", points=[point], skip=number % 2)
            while first.poll() is None and not _stopped(first.pid):
                time.sleep(0.02)
            code, told, words = end_of(start(self.servers, self.checkpoint))
            if code:
                cell.wrong.append(f"the second driver ended with {code}: {words[-400:]}")
            cell.suppressed += int(told.get("suppressed", 0))
            if first.poll() is None:
                first.send_signal(signal.SIGCONT)
                cell.kills += 1
            end_of(first)  # fenced, or it finds that everything is done
            self._look(cell)
        cell.seconds = time.monotonic() - began

    def finish(self) -> None:
        """Let it come to its end, and compare everything."""
        code, told, words = self._run()
        last = self.cells[self.points[-1]]
        last.suppressed += int(told.get("suppressed", 0))
        for cell in self.cells.values():
            self._look(cell, whole=True)
            if code:
                cell.wrong.append(f"the last run ended with {code}: {words[-400:]}")
            _, stores = expected(self.records)
            if told.get("stores") != stores:
                cell.wrong.append(f"the stores differ: {told.get('stores')} instead of {stores}"[:300])

    def _run(self, **plan: Any) -> tuple[int, dict[str, Any], str]:
        """One process to its end, again where the machine was too busy for Spark to start at all."""
        for _ in range(5):
            code, told, words = end_of(start(self.servers, self.checkpoint, **plan))
            if "failed to connect back" not in words:
                break
        return code, told, words

    def _look(self, cell: Cell, *, whole: bool = False) -> None:
        wanted, _ = expected(self.records)
        cell.records = 0
        for topic, parts in wanted.items():
            found = committed(self.servers, topic) if topic in Admin(self.servers).topics() else {}
            for partition, there in parts.items():
                here = found.get(partition, [])
                cell.records += len(here)
                beginning = there if whole else there[: len(here)]
                if here != beginning:
                    lost, doubled = Counter(beginning) - Counter(here), Counter(here) - Counter(beginning)
                    cell.lost, cell.doubled = cell.lost + lost.total(), cell.doubled + doubled.total()
                    cell.wrong.append(f"{topic}-{partition} has other records, or another order")


def run_cells(victim: str, points: Sequence[str], runs: int) -> list[Cell]:
    """One application through so many kills at each point."""
    with LocalBroker() as broker, tempfile.TemporaryDirectory() as folder:
        ordeal = Ordeal(victim, points, broker, Path(folder))
        if victim == TWO:
            ordeal.twins(runs)
        elif victim in ("driver", "jvm"):
            ordeal.one_by_one(runs)
        else:
            ordeal.within(runs)
        ordeal.finish()
        return list(ordeal.cells.values())


def _java_of(broker: LocalBroker) -> int:
    """The JVM under the shell that watches it."""
    assert broker._process is not None
    command = ["ps", "-o", "pid=,comm=", "--ppid", str(broker._process.pid)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    return next(int(line.split()[0]) for line in listed.stdout.splitlines() if line.split()[1] == "java")


def _state(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "gone"


def _lives(pid: int) -> bool:
    return _state(pid) not in ("gone", "Z", "X")


def _stopped(pid: int) -> bool:
    return _state(pid) == "T"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cells and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="kills in each cell")
    parser.add_argument("--only", nargs="*", default=(), help="cells whose victim or point contains one of these")
    chosen = parser.parse_args(arguments)
    print(f"{'killed':12} {'when':22} {'kills':>5} {'replays':>7} {'records':>8} {'lost':>5} {'doubled':>7} {'s':>5}")
    bad = 0
    for victim in (*VICTIMS, TWO):
        points = [
            point
            for who, point in CELLS
            if who == victim and (not chosen.only or any(part in f"{who} {point}" for part in chosen.only))
        ]
        for cell in run_cells(victim, points, chosen.runs) if points else ():
            bad += not cell.ok
            figures = f"{cell.kills:5} {cell.suppressed:7} {cell.records:8,} {cell.lost:5} {cell.doubled:7}"
            end = "equal" if cell.ok else "DIFFERENT"
            print(f"{cell.victim:12} {cell.point:22} {figures} {cell.seconds:5.0f}  {end}", flush=True)
            for line in cell.wrong:
                print(f"    {line}", flush=True)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
