"""The crash matrix: who is killed, and when. ``python -m tests.kafka.crashes [--runs 20] [--only PART ...]``.

In every cell one application lives through so many kills, one after the other. At its end the committed records of its
output topics and the rows of its stores must be those of an uninterrupted run of the test driver.
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

__all__ = ["CELLS", "Cell", "committed", "expected", "main", "run_cell"]

START_MS, PARTITIONS, PATIENCE_S = 1_790_000_000_000, 2, 600
VICTIMS = ("driver", "jvm", "worker", "broker")
TWO = "two drivers"
CELLS = [*((victim, point) for point in POINTS for victim in VICTIMS), (TWO, "at once")]
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


def run_cell(victim: str, point: str, runs: int) -> Cell:
    """One application through so many kills."""
    cell, began = Cell(victim, point), time.monotonic()
    with LocalBroker() as broker, tempfile.TemporaryDirectory() as folder:
        servers, checkpoint = broker.bootstrap_servers, Path(folder, "checkpoint")
        Admin(servers).create_topic("killed-in", partitions=PARTITIONS)
        records: list[ks.TopicRecord] = []

        def feed(batches: int) -> None:
            more = list(rows(len(records), batches * BATCH))
            produce(servers, more, value_serde=ks.Serdes.long(), keep_partitions=True)
            records.extend(more)

        if victim == TWO:
            _twins(cell, servers, checkpoint, runs, feed)
        elif victim in ("driver", "jvm"):
            _one_by_one(cell, servers, checkpoint, runs, feed)
        else:
            feed(2 * runs + 2)
            _within(cell, broker, checkpoint, runs)
        code, told, words = end_of(start(servers, checkpoint))
        cell.suppressed += int(told.get("suppressed", 0))
        _compare(cell, servers, records, told)
        if code:
            cell.wrong.append(f"the last run ended with {code}: {words[-400:]}")
    cell.seconds = time.monotonic() - began
    return cell


def _one_by_one(cell: Cell, servers: str, checkpoint: Path, runs: int, feed: Any) -> None:
    """Each kill ends the process; the next one goes on, and is the next victim."""
    for number in range(runs):
        feed(3)
        plan = {"victim": cell.victim, "point": cell.point, "skip": number % 3, "times": 1}
        code, told, words = end_of(start(servers, checkpoint, **plan))
        if code == (-signal.SIGKILL if cell.victim == "driver" else 1):
            cell.kills += 1
        else:
            cell.wrong.append(f"run {number} ended with {code} instead of a kill: {words[-400:]}")
        cell.suppressed += int(told.get("suppressed", 0))


def _within(cell: Cell, broker: LocalBroker, checkpoint: Path, runs: int) -> None:
    """The process survives its workers and its broker; a broker that was killed comes back after a moment."""
    note = checkpoint.with_suffix(".broker")
    pid = _java_of(broker)
    note.write_text(str(pid))
    process = start(broker.bootstrap_servers, checkpoint, victim=cell.victim, point=cell.point, skip=1, times=runs)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(end_of, process)  # reads what it prints
        while not ended.done():
            if not _lives(pid):
                broker.kill()
                time.sleep(0.3)
                broker.start()
                pid = _java_of(broker)
                note.write_text(str(pid))
            time.sleep(0.02)
        code, told, words = ended.result()
    cell.kills, cell.suppressed = int(told.get("kills", 0)), int(told.get("suppressed", 0))
    if code or cell.kills < runs:
        cell.wrong.append(f"ended with {code} after {cell.kills} kills: {words[-400:]}")


def _twins(cell: Cell, servers: str, checkpoint: Path, runs: int, feed: Any) -> None:
    """A driver stands still somewhere in a batch, a second one takes over, then the first one wakes up."""
    for number in range(runs):
        feed(3)
        point = [each for each in POINTS if each != "while processing"][number % 4]
        first = start(servers, checkpoint, victim="freeze", point=point, skip=number % 2)
        while first.poll() is None and not _stopped(first.pid):
            time.sleep(0.02)
        code, told, words = end_of(start(servers, checkpoint))
        if code:
            cell.wrong.append(f"the second driver ended with {code}: {words[-400:]}")
        cell.suppressed += int(told.get("suppressed", 0))
        if first.poll() is None:
            first.send_signal(signal.SIGCONT)
            cell.kills += 1
        end_of(first)  # fenced, or it finds that everything is done


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


def _compare(cell: Cell, servers: str, records: Sequence[ks.TopicRecord], told: dict[str, Any]) -> None:
    wanted, stores = expected(records)
    for topic, parts in wanted.items():
        found = committed(servers, topic)
        here = Counter((p, row) for p, rows_ in found.items() for row in rows_)
        there = Counter((p, row) for p, rows_ in parts.items() for row in rows_)
        cell.records += sum(here.values())
        cell.lost += sum((there - here).values())
        cell.doubled += sum((here - there).values())
        if here == there and found != parts:
            cell.wrong.append(f"{topic} has another order")
    if told.get("stores") != stores:
        cell.wrong.append(f"the stores differ: {told.get('stores')} instead of {stores}"[:600])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cells and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="kills in each cell")
    parser.add_argument("--only", nargs="*", default=(), help="cells whose victim or point contains one of these")
    chosen = parser.parse_args(arguments)
    print(f"{'killed':12} {'when':22} {'kills':>5} {'replays':>7} {'records':>8} {'lost':>5} {'doubled':>7} {'s':>5}")
    bad = 0
    for victim, point in CELLS:
        if chosen.only and not any(part in f"{victim} {point}" for part in chosen.only):
            continue
        cell = run_cell(victim, point, chosen.runs)
        bad += not cell.ok
        figures = (
            f"{cell.kills:5} {cell.suppressed:7} {cell.records:8,} {cell.lost:5} {cell.doubled:7} {cell.seconds:5.0f}"
        )
        print(f"{victim:12} {point:22} {figures}  {'equal' if cell.ok else 'DIFFERENT'}", flush=True)
        for line in cell.wrong:
            print(f"    {line}", flush=True)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
