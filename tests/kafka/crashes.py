"""The crash matrix: which process is killed, and when. ``python -m tests.kafka.crashes [--runs 20] [--only VICTIM
...] [--publish executors]``.

For each victim, five applications run in one process, each held at a different point of a batch when the kill happens,
so that one kill exercises five cells. The same applications survive all kills, one after the other: a checkpoint that
has survived twenty is a harder test than a new one. After each life the committed records of every output topic,
headers included, must be a prefix of the output of an uninterrupted run of the test driver; at the end all of it. Then
the rows of the stores must be the driver's, and every store must equal its log and its changelog topic. A process that
ends by a signal that the matrix did not send is a failure, also a worker or a broker that would be replaced. With
``--keep FOLDER`` everything is kept, and the next call continues.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import kstreamnb as ks
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.bounded_reader import fetch, pieces_between
from kstreamnb.kafka.broker_process import LocalBroker
from kstreamnb.kafka.producer import produce
from kstreamnb.spark.execution.worker_progress import task_positions
from tests.kafka.apps import settle
from tests.kafka.broker_cluster import BrokerCluster, java_of
from tests.kafka.crash_topology import BATCH, INPUTS, OUTPUTS, PARTITIONS, STORES, application, input_records, rows_of
from tests.kafka.deployed import BROKER, points_of, slug

__all__ = ["BROKER_CONFIG", "TWO", "VICTIMS", "Cell", "Ordeal", "RecoveringOrdeal", "main", "run_victim", "wrong_end"]

PATIENCE_S = 1800
TWO, ASLEEP, PAUSED = "two drivers", "asleep", "paused broker"
VICTIMS = ("driver", "jvm", "worker", "broker", PAUSED, ASLEEP, TWO)
BROKER_CONFIG = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000}
TIMEOUT_MS = 10_000  # transaction timeout of the drivers that are stopped
BEYOND_S = 15.0  # minimum time for which they are stopped
PAUSE_S = 5.0  # for which the broker is stopped: its controller calls it away after 2 s
_TOO_BUSY = "failed to connect back"  # the machine was too busy for Spark to start at all
_PROGRAM = ("-m", "tests.kafka.deployed")
_CODE_AFTER_A_BLOW = {"driver": -signal.SIGKILL, "jvm": 1}  # the others survive it

Parts = dict[int, list[tuple[bytes | None, bytes | None, int, tuple[Any, ...]]]]


@dataclass
class Cell:
    """The outcome of one cell: kills, replays that published nothing twice, and differences from the driver's run."""

    victim: str
    point: str
    kills: int = 0
    suppressed: int = 0
    records: int = 0
    lost: int = 0
    doubled: int = 0
    seconds: float = 0.0
    still: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Return whether output and stores equal those of the uninterrupted run."""
        return not (self.wrong or self.lost or self.doubled)


def committed(admin: Admin, topic: str) -> Parts:
    """All committed records of a topic by partition: key, value, timestamp, headers."""
    pieces = pieces_between(admin.offsets([topic], "earliest"), admin.offsets([topic]))
    found: Parts = {}
    for _, partition, records in fetch(admin.servers, pieces):
        found.setdefault(partition, []).extend((r[2], r[3], r[1], tuple(r[4])) for r in records)
    return found


class Undisturbed:
    """Return the output and the stores of the test driver for the same input; more input may follow."""

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        partitions = dict.fromkeys((f"app-{topic}" for topic in (*INPUTS, *OUTPUTS)), PARTITIONS)
        self.driver = ks.TopologyTestDriver(application("app"), partitions=partitions)
        self.written: dict[str, Parts] = {output: {p: [] for p in range(PARTITIONS)} for output in OUTPUTS}

    def feed(self, begin: int, count: int) -> None:
        """More input."""
        self.driver.pipe(input_records("app", begin, count, self.start_ms))
        raw = ks.Serdes.bytes()
        for output, parts in self.written.items():
            for record in self.driver.create_output_topic(f"app-{output}", raw, raw).read_records():
                parts[record.partition].append((record.key, record.value, record.timestamp, tuple(record.headers)))


class Life:
    """One process with the five applications."""

    def __init__(
        self, servers: str, folder: Path, number: int, plan: Mapping[str, Any], program: Sequence[str] = _PROGRAM
    ) -> None:
        self.folder, self.number = folder, number
        self.stopped = 0.0  # when, on the monotonic clock
        self._out, self._errors = folder / f"{number}.out", folder / f"{number}.errors"
        command = [sys.executable, *program, servers, str(folder), json.dumps(plan)]
        with self._out.open("wb") as out, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(command, stdout=out, stderr=errors, start_new_session=True)

    def said(self) -> list[dict[str, Any]]:
        """Return the text it has printed so far."""
        lines = self._out.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    def blows(self) -> int:
        """Return how often it was hit."""
        return sum("blow" in line for line in self.said())

    def end(self) -> int:
        """Wait for the process to end; return its exit code."""
        code = self.process.wait(PATIENCE_S)
        for left in self.folder.glob(f"{self.process.pid}.*"):  # processes that could outlive their driver
            left.unlink()
        return code

    def words(self) -> str:
        """Its last words."""
        errors = [line["error"] for line in self.said() if "error" in line]
        return " | ".join([*errors, self._errors.read_text().strip()[-200:]])


class Ordeal:
    """The five applications of one victim, their broker and input, and their history."""

    batches_of_a_kill = 2
    workers_of_spark_die = False  # without a blow to each of them

    def __init__(
        self,
        victim: str,
        broker: LocalBroker | BrokerCluster,
        folder: Path,
        program: Sequence[str] = _PROGRAM,
        *,
        publish: str = "driver",
        points: Sequence[str] = (),
    ) -> None:
        self.points = points or points_of(publish)
        self.victim, self.broker, self.folder, self.program = victim, broker, folder, program
        self.servers = broker.bootstrap_servers
        self.admin = Admin(self.servers, patience_s=300)  # a broker that was killed scans all its files
        self.admin.topics()  # connected to the broker, so that it waits for one that was killed
        self.applications = {point: slug(f"{folder.name} {point}") for point in self.points}
        self.cells = {point: Cell(victim, point) for point in self.points}
        self.lives = self.processes = self.batches = 0
        self.finished = False
        # Brokers remove old rows from changelogs of windows, and refuse future times, so times are those of today.
        self.start_ms = (int(time.time()) // 3600 - 16) * 3_600_000  # noqa: TID251
        self._begun: list[Life] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._note = folder / "ordeal.json"
        if self._note.exists():
            self._recall()
            return
        self._undisturbed = Undisturbed(self.start_ms)
        for name in self.applications.values():
            for topic in (*INPUTS, *OUTPUTS):
                self.admin.create_topic(f"{name}-{topic}", partitions=PARTITIONS)

    def feed(self, batches: int) -> None:
        """Produce more input, the same for every application."""
        begin, count = self.batches * BATCH, batches * BATCH
        for name in self.applications.values():
            records = input_records(name, begin, count, self.start_ms)
            produce(self.servers, records, value_serde=ks.Serdes.long(), keep_partitions=True)
        self._undisturbed.feed(begin, count)
        self.batches += batches
        self._remember()

    def live(self, runs: int) -> None:
        """Continue until the given number of kills is reached and all input is processed."""
        began = time.monotonic()
        if self.lives < runs:
            self.finished = False
            if self.victim == TWO:
                self.twins(runs)
            elif self.victim in ("driver", "jvm"):
                self.one_by_one(runs)
            else:
                self.within(runs)
        while not self.finished:
            self._end(self._begin())
        for cell in self.cells.values():
            cell.seconds += (time.monotonic() - began) / len(self.cells)
        self._remember()

    def one_by_one(self, runs: int) -> None:
        """Each kill ends the process; the next process continues, and is the next victim."""
        self.feed(3)
        while self.lives < runs:
            self.feed(1)
            life = self._begin(victim=self.victim, skip=self.lives % 2, times=1)
            code = self._end(life)
            if life.blows() and code == _CODE_AFTER_A_BLOW[self.victim]:
                self._survived(life)
            elif self.finished:
                return

    def within(self, runs: int) -> None:
        """The process survives its workers, its broker and being suspended; it is resumed, and the broker restarted."""
        before, ended = self.lives, False
        self.feed(self.batches_of_a_kill * (runs - before) + 2)
        victim, keeper = self._keeper()
        life = self._begin(victim=victim, skip=1, times=runs - before)
        attending = threading.Thread(target=self._attend, args=(keeper, life), daemon=True)
        attending.start()
        while not ended:
            ended = life.process.poll() is not None
            while self.lives < before + life.blows():
                self._survived(life)
            time.sleep(0.05)
        attending.join()
        code = self._end(life)
        if code or self.lives < runs:
            self._wrong(f"the process ended with {code} after {self.lives} kills: {life.words()}")

    def _keeper(self) -> tuple[str, Callable[[Life], None]]:
        """Return the victim that the process kills, and what keeps it going afterwards."""
        if self.victim == "broker":
            self._note_broker()
            return "broker", self._keep_broker
        if self.victim == PAUSED:
            self._note_broker()
            return "pause", self._resume_broker
        return ("sleep", self._keep_awake) if self.victim == ASLEEP else (self.victim, lambda life: None)

    def _attend(self, keeper: Callable[[Life], None], life: Life) -> None:
        """Run what keeps a life going; a life that lost it would wait half an hour."""
        try:
            keeper(life)
        except Exception as error:
            self._wrong(f"{keeper.__name__} of process {life.number} failed: {error}")
            life.process.kill()

    def _keep_broker(self, life: Life) -> None:
        """Restart the broker whenever it was killed; report a death without a blow."""
        deaths, broker = 0, self.broker
        assert isinstance(broker, LocalBroker)
        while life.process.poll() is None:
            if not _lives(self._broker_process):
                deaths += 1
                if deaths > life.blows():
                    self._wrong(f"the broker died {deaths} times of {life.blows()} blows")
                broker.kill()
                time.sleep(0.3)
                broker.start()
                self._note_broker()
            time.sleep(0.02)

    def _resume_broker(self, life: Life) -> None:
        """Resume the broker some seconds after it was stopped."""
        while life.process.poll() is None:
            if _stopped(self._broker_process):
                time.sleep(PAUSE_S)
                os.kill(self._broker_process, signal.SIGCONT)
                self._name_brokers(self._broker_process)
            time.sleep(0.02)

    def _keep_awake(self, life: Life) -> None:
        """Resume all processes of a deployment once its transactions have expired."""
        while life.process.poll() is None:
            if _stopped(life.process.pid):
                time.sleep(BEYOND_S)
                os.killpg(life.process.pid, signal.SIGCONT)
            time.sleep(0.05)

    def _note_broker(self) -> None:
        assert isinstance(self.broker, LocalBroker)
        self._broker_process = java_of(self.broker)
        self._name_brokers(self._broker_process)

    def _name_brokers(self, *processes: int) -> None:
        """Name the brokers that the next blow is to kill."""
        note = self.folder / f"{BROKER}.new"
        note.write_text(" ".join(map(str, processes)))
        note.replace(self.folder / BROKER)

    def twins(self, runs: int) -> None:
        """A driver is stopped inside five batches, a successor takes over, then the first one is resumed.

        It is resumed after its transactions have expired. The successor is the next to be stopped, while the first is
        running again.
        """
        self.feed(3)
        old: Life | None = None
        while self.lives < runs:
            self.feed(1)
            new = self._begin(victim="freeze", skip=self.lives % 2, times=1)
            while new.process.poll() is None and not _stopped(new.process.pid):
                time.sleep(0.05)
            if new.process.poll() is not None:
                self._wrong(f"life {self.lives + 1} ended with {new.end()} before it was stopped: {new.words()}")
                return
            new.stopped = time.monotonic()
            self._wake(old)
            old = new
            self._survived(new)
        last = self._begin()
        while last.process.poll() is None and not any("rows" in line for line in last.said()):
            time.sleep(0.05)
        self._wake(old)
        self._end(last)

    def _wake(self, life: Life | None) -> None:
        """Resume a driver that has a successor; each of its queries must detect that and end."""
        if life is None:
            return
        time.sleep(max(0.0, life.stopped + BEYOND_S - time.monotonic()))
        life.process.send_signal(signal.SIGCONT)
        code, failed = life.end(), {line["point"] for line in life.said() if "error" in line}
        if code <= 0 or failed != set(self.points):
            self._wrong(f"process {life.number} woke up, and only {sorted(failed)} of its queries ended: {code}")
        self._look()

    def _begin(self, **plan: Any) -> Life:
        """The next process."""
        self.processes += 1
        if self.victim in (TWO, ASLEEP):
            plan["timeout_ms"] = TIMEOUT_MS
        life = Life(
            self.servers, self.folder, self.processes, {"applications": self.applications, **plan}, self.program
        )
        self._begun = [each for each in (*self._begun, life) if each.process.poll() is None]
        self._remember()
        return life

    def _end(self, life: Life) -> int:
        """Wait for a process to end; one that reached the end of its input is compared completely."""
        code = life.end()
        for line in life.said():
            if "suppressed" in line:
                self.cells[line["suppressed"]].suppressed += 1
            if "stuck" in line:
                self._wrong(f"process {life.number} stood still with {line['stuck']}")
        if not code:
            self._finish(life)
        elif _TOO_BUSY in life.words() and not life.blows() and code > 0:
            print(f"  {self.victim}: Spark did not start", file=sys.stderr, flush=True)
        elif found := wrong_end(self.victim, code, hit=bool(life.blows())):
            self._wrong(f"process {life.number} {found}: {life.words()}")
            self.finished = True
        return code

    def _finish(self, life: Life) -> None:
        self.finished = True
        for point, name in self.applications.items():
            dead = [str(each) for each in task_positions(self.folder / name / "workers") if not each.alive]
            if dead and self.victim != "worker" and not self.workers_of_spark_die:
                self.cells[point].wrong.append(f"workers died without a blow, at {dead}")
        self._look(whole=True)
        self._measure(life)
        told = {(line["point"], line["store"]): line["rows"] for line in life.said() if "rows" in line}
        for point, cell in self.cells.items():
            for store in STORES:
                if told.get((point, store)) != rows_of(self._undisturbed.driver, store):
                    cell.wrong.append(f'store "{store}" differs after life {self.lives}')
            unlike = next(
                (line["unlike"] for line in life.said() if line.get("point") == point and "unlike" in line), None
            )
            if unlike != []:
                cell.wrong.append(f"stores differ from their logs or changelogs after life {self.lives}: {unlike}")

    def _measure(self, life: Life) -> None:
        """Keep the longest time without output after a blow."""
        blows = [line["at"] for line in life.said() if "blow" in line]
        for point, cell in self.cells.items():
            times = [line["at"] for line in life.said() if line.get("published") == point]
            for begin, end in pairwise([*blows, float("inf")]):
                moments = [begin, *(at for at in times if begin < at < end)]
                cell.still = max(cell.still, *(b - a for a, b in pairwise(moments)), 0.0)

    def _survived(self, life: Life) -> None:
        """Kill once more in every cell."""
        self.lives += 1
        for cell in self.cells.values():
            cell.kills += 1
        self._look()
        self._remember()
        print(f"  {self.victim}: life {self.lives}", file=sys.stderr, flush=True)

    def _look(self, *, whole: bool = False) -> None:
        """Compare the committed output with a prefix of the expected one, or with all of it."""
        there = self.admin.topics()
        for point, cell in self.cells.items():
            cell.records = 0
            for output, parts in self._undisturbed.written.items():
                topic = f"{self.applications[point]}-{output}"
                if whole:
                    settle(self.admin, topic, patience_s=30.0)
                found = committed(self.admin, topic) if topic in there else {}
                for partition, all_of_it in parts.items():
                    here = found.get(partition, [])
                    wanted = all_of_it if whole else all_of_it[: len(here)]
                    cell.records += len(here)
                    if here != wanted:
                        lost, doubled = Counter(wanted) - Counter(here), Counter(here) - Counter(wanted)
                        cell.lost, cell.doubled = max(cell.lost, lost.total()), max(cell.doubled, doubled.total())
                        cell.wrong.append(f"{topic}-{partition} has other records, or another order, in {self.lives}")

    def _wrong(self, text: str) -> None:
        for cell in self.cells.values():
            cell.wrong.append(text)

    def _remember(self) -> None:
        """Record the progress."""
        note = {name: getattr(self, name) for name in ("start_ms", "lives", "processes", "batches", "finished")}
        self._note.write_text(json.dumps({**note, "cells": [asdict(cell) for cell in self.cells.values()]}))

    def _recall(self) -> None:
        note = json.loads(self._note.read_text())
        self.cells = {cell["point"]: Cell(**cell) for cell in note.pop("cells")}
        for name, value in note.items():
            setattr(self, name, value)
        self._undisturbed = Undisturbed(self.start_ms)
        self._undisturbed.feed(0, self.batches * BATCH)

    def cells_of(self, runs: int) -> list[Cell]:
        """Live through the given number of kills and return what was found; no process is left."""
        with closing(self):
            self.live(runs)
        return list(self.cells.values())

    def close(self) -> None:
        """Kill all processes."""
        for life in self._begun:
            if life.process.poll() is None:
                life.process.kill()
                life.end()


class RecoveringOrdeal(Ordeal):
    """Processes outside of the deployment are chosen before each blow, and brought back after it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._recoveries = 0
        super().__init__(*arguments, **options)

    def _aim(self, life: Life) -> None:
        """Name the processes of the next blow."""
        raise NotImplementedError

    def _recover(self) -> None:
        """Bring back what the blow has ended."""
        raise NotImplementedError

    def _keeper(self) -> tuple[str, Callable[[Life], None]]:
        (self.folder / BROKER).unlink(missing_ok=True)
        return "broker", self._keep

    def _keep(self, life: Life) -> None:
        self._aim(life)
        while life.process.poll() is None or life.blows() > self._recoveries:
            if life.blows() > self._recoveries:
                self._recover()
                self._recoveries += 1
                self._aim(life)
            time.sleep(0.02)

    def _survived(self, life: Life) -> None:
        if self.victim not in _CODE_AFTER_A_BLOW:
            while self._recoveries <= self.lives and life.process.poll() is None:
                time.sleep(0.05)
        super()._survived(life)


def wrong_end(victim: str, code: int, *, hit: bool) -> str:
    """Return what is wrong with a process that ended with an exit code other than 0; empty if its blow explains it."""
    if hit and code == _CODE_AFTER_A_BLOW.get(victim):
        return ""
    how = f"died of signal {-code}" if code < 0 else f"ended with {code}"
    return f"{how}, which its blow does not explain" if hit else f"{how} without a blow"


def run_victim(victim: str, runs: int, broker: LocalBroker, folder: Path, *, publish: str = "driver") -> list[Cell]:
    """Run one victim through the given number of kills at each point; "driver" or "executors" publish."""
    name = slug(victim if publish == "driver" else f"{victim} {publish}")
    ordeal = Ordeal(victim, broker, folder / name, publish=publish)
    return ordeal.cells_of(runs)


def _state(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "gone"


def _lives(pid: int) -> bool:
    return _state(pid) not in ("gone", "Z", "X")


def _stopped(pid: int) -> bool:
    return _state(pid) == "T"


def show(cell: Cell, width: int, figures: str) -> None:
    """Print the line of a cell in a table, and the first things that were wrong."""
    print(f"{cell.victim:{width}} {cell.point:22} {figures}  {'equal' if cell.ok else 'DIFFERENT'}", flush=True)
    for line in dict.fromkeys(cell.wrong[:3]):
        print(f"    {line.strip()[:300]}", flush=True)


def show_recovered(cell: Cell, width: int) -> None:
    """Print the line of a cell with the longest time in which an application published nothing."""
    show(cell, width, f"{cell.kills:5} {cell.records:8,} {cell.lost:5} {cell.doubled:7} {cell.still:6.1f}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cells and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="kills in each cell")
    parser.add_argument("--only", nargs="*", default=VICTIMS, choices=VICTIMS, help="these victims")
    parser.add_argument("--keep", type=Path, help="the folder of broker, checkpoints and results, to go on later")
    parser.add_argument("--publish", default="driver", choices=("driver", "executors"), help="who publishes")
    chosen = parser.parse_args(arguments)
    print(f"{'killed':12} {'when':22} {'kills':>5} {'replays':>7} {'records':>8} {'lost':>5} {'doubled':>7} {'s':>5}")
    good = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.keep or Path(temporary)
        with LocalBroker(data=folder / "kafka", config=BROKER_CONFIG, timeout_s=180.0) as broker:
            for victim in chosen.only:
                for cell in run_victim(victim, chosen.runs, broker, folder, publish=chosen.publish):
                    good = good and cell.ok
                    lost = f"{cell.kills:5} {cell.suppressed:7} {cell.records:8,} {cell.lost:5} {cell.doubled:7}"
                    show(cell, 12, f"{lost} {cell.seconds:5.0f}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
