"""Runs five applications in one process, to be killed: ``python -m tests.kafka.deployed SERVERS FOLDER PLAN``.

The plan is JSON: ``applications`` by the point of `POINTS` at which each is to be killed, and, unless it is to run to
its end, ``victim`` ("driver", "jvm", "worker", "broker", "pause" for a broker that is stopped until it is resumed,
"freeze" for a driver, "sleep" for all processes of the deployment), ``times``, and ``skip`` (batches that pass before
a kill). It may have the ``master`` and ``settings`` of a session on a cluster. Every application continues to its own
point and is held there; when all five have arrived, the kill happens. Events are printed as lines of JSON.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import kstreamnb as ks
from tests.kafka.crash_slots import BETWEEN_SLOTS, IN_SLOT, SLOT_POINTS, HeldPublisher, hold_file
from tests.kafka.crash_topology import BATCH, STORES, application, rows_of

__all__ = ["BROKER", "POINTS", "main", "points_of", "slug"]

BEFORE, WHILE, STATE, INSIDE, COMMITTED = POINTS = (
    "before processing",
    "while processing",
    "after state write",
    "inside the commit",
    "after Kafka's commit",
)
_OF_EXECUTORS = (WHILE, IN_SLOT, BETWEEN_SLOTS, STATE, INSIDE)
BROKER = "broker.pid"
"""The file of the folder with the process ids of the brokers to kill."""
_OF_BROKERS = {"broker": signal.SIGKILL, "pause": signal.SIGSTOP}

SETTINGS = {"spark.driver.memory": "512m"}
_PATIENCE_S = 900


def points_of(publish: str) -> tuple[str, ...]:
    """The five points of a batch that is published by the driver, or by executors: its own marker comes last then."""
    return POINTS if publish == "driver" else _OF_EXECUTORS


def slug(text: str) -> str:
    """A text as part of the name of a topic."""
    return re.sub(r"\W+", "-", text.lower())


def say(**what: Any) -> None:
    """Print one line for the parent process."""
    sys.stdout.write(json.dumps(what) + "\n")  # one write: threads of several queries tell what they do
    sys.stdout.flush()


class Doom:
    """Holds each application at its point and kills when all have arrived, as often as the plan says."""

    def __init__(self, plan: dict[str, Any], folder: Path) -> None:
        self.plan, self.victim, self.folder = plan, plan.get("victim"), folder
        self.applications: dict[str, str] = plan["applications"]
        self.times, self.skip = int(plan.get("times", 0)), int(plan.get("skip", 0))
        self.timeout_ms = int(plan.get("timeout_ms", 60_000))
        self.mark = folder / f"{os.getpid()}.mark"
        self.begun: set[str] = set()
        self._chance = random.Random(json.dumps(plan))
        self._blows = 0
        self._left = dict.fromkeys(self.applications, self.skip)
        self._due: set[str] = set()
        self._held: set[str] = set()
        self._turn = threading.Condition()

    def batch_begins(self, point: str) -> None:
        """A batch of the application of a point has its offsets in the log, and nothing is processed yet."""
        with self._turn:
            self.begun.add(point)
            if self._blows < self.times and not self._left[point] and self._aimed():
                self._due.add(point)
            self._left[point] = max(0, self._left[point] - 1)
            if point == WHILE and WHILE in self._due:
                others = set(self.applications) - {WHILE, *SLOT_POINTS}
                self._wait(lambda: self._held >= others)  # it takes a task slot, perhaps the only one
                self.mark.touch()
            if point in SLOT_POINTS and point in self._due:
                self._file("hold", point).write_text(point)
        self.reached(BEFORE, point)

    def _aimed(self) -> bool:
        """Return whether the victims are known: brokers are named once they have recovered from the last blow."""
        return self.victim not in _OF_BROKERS or (self.folder / BROKER).exists()

    def _file(self, word: str, point: str) -> Path:
        return hold_file(self.folder, self.applications[point], word, str(os.getpid()))

    def reached(self, here: str, point: str) -> None:
        """Block here if it is the application's point and its turn, until the kill has happened."""
        with self._turn:
            if here != point or here not in self._due:
                return
            self._held.add(here)
            self._turn.notify_all()
            if here != INSIDE:
                self._wait(lambda: here not in self._held)
                return
            self._due.discard(here)  # it is not held, and may be here again before the blow
        slots = [each for each in SLOT_POINTS if each in self.applications]
        arrived = [self._file("held", each) for each in slots]
        if WHILE in self.applications:
            arrived.append(self.mark.with_suffix(".reached"))
        while not all(each.exists() for each in arrived):
            time.sleep(0.005)
        if IN_SLOT in slots:
            self._file("hold", IN_SLOT).unlink()  # it commits, and is killed within
        threading.Timer(self._chance.choice((0.0005, 0.001, 0.002, 0.004)), self._strike).start()

    def _wait(self, until: Any) -> None:
        if not self._turn.wait_for(until, _PATIENCE_S):
            say(stuck=sorted(self._held))

    def _strike(self) -> None:
        say(blow=self._blows + 1, at=time.monotonic())
        if self.victim == "driver":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.victim == "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self.victim == "sleep":
            os.killpg(0, signal.SIGSTOP)
        elif self.victim == "jvm":
            os.kill(_jvm(), signal.SIGKILL)
        elif self.victim == "worker":
            for pid in _workers(_jvm()):
                os.kill(pid, signal.SIGKILL)
        elif self.victim in _OF_BROKERS:
            brokers = (self.folder / BROKER).read_text().split()
            (self.folder / BROKER).unlink()
            for number in brokers:
                os.kill(int(number), _OF_BROKERS[self.victim])
        with self._turn:
            self._blows += 1
            self._left = dict.fromkeys(self.applications, self.skip)
            self._due.clear()
            for each in self.folder.glob(f"{os.getpid()}.*-*"):
                each.unlink()
            self._held.clear()
            self.mark.unlink(missing_ok=True)
            self.mark.with_suffix(".reached").unlink(missing_ok=True)
            self._turn.notify_all()

    def point_of(self, query: str) -> str:
        """Return the point of the application whose Spark query has this id."""
        for point, name in self.applications.items():
            metadata = self.folder / name / "metadata"
            if metadata.exists() and query in metadata.read_text():
                return point
        raise LookupError(query)


def _children(pid: int) -> list[tuple[int, str]]:
    listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    rows = [line.strip().partition(" ") for line in listed.stdout.splitlines()]
    return [(int(number), arguments) for number, _, arguments in rows]


def _jvm() -> int:
    return next(pid for pid, arguments in _children(os.getpid()) if "java" in arguments.split(" ")[0])


def _workers(jvm: int) -> list[int]:
    daemons = [pid for pid, arguments in _children(jvm) if "daemon" in arguments]
    return [pid for daemon in daemons for pid, _ in _children(daemon)]


def _prepare(doom: Doom) -> None:
    """Report the points of a batch to the controller."""
    from pyspark.sql.classic.dataframe import DataFrame

    from kstreamnb.kafka.transactional_writer import TransactionalWriter
    from kstreamnb.spark.io.slot_sink import SlotSink

    ordinary = SlotSink._publisher

    def held(self: Any) -> Any:
        return HeldPublisher(**vars(ordinary(self)), folder=str(doom.folder))

    SlotSink._publisher = held  # type: ignore[method-assign]
    points = {name: point for point, name in doom.applications.items()}
    collect, publish = DataFrame._collect_as_arrow, TransactionalWriter.publish

    def collecting(self: Any, **options: Any) -> Any:
        query = self.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if query is None:  # not a batch: a look at a store
            return collect(self, **options)
        point = doom.point_of(query)
        doom.batch_begins(point)
        batches = collect(self, **options)
        doom.reached(STATE, point)
        return batches

    def publishing(self: Any, *arguments: Any, **options: Any) -> Any:
        def between(step: str) -> None:
            if step == "offsets":
                doom.reached(INSIDE, points[self.application])
            if step == "committed":
                doom.reached(COMMITTED, points[self.application])

        done = publish(self, *arguments, **options, between=between)
        say(published=points[self.application], at=time.monotonic())
        if done.suppressed:
            say(suppressed=points[self.application])
        return done

    DataFrame._collect_as_arrow = collecting
    TransactionalWriter.publish = publishing  # type: ignore[method-assign]


def main(servers: str, folder: str, plan: str) -> int:
    """Process everything available, unless a kill comes first; print the contents of the stores."""
    faulthandler.enable()
    ks.monitoring.log_to(Path(folder) / "queries.jsonl")
    doom = Doom(json.loads(plan), Path(folder))
    executors = IN_SLOT in doom.applications
    settings = {**SETTINGS, **doom.plan.get("settings", {})}
    spark = ks.spark.spark_session(master=doom.plan.get("master"), cores=4 if executors else 1, settings=settings)
    _prepare(doom)
    queries = {}
    for point, name in doom.applications.items():
        queries[point] = ks.deploy(
            application(name, doom.mark if point == WHILE else None),
            spark=spark,
            bootstrap_servers=servers,
            checkpoint=doom.folder / name,
            available_now=True,
            max_records=BATCH,
            changelogs=True,
            producer={"transaction.timeout.ms": doom.timeout_ms},
            publish="executors" if executors else "driver",
            spark_partitions=2 if executors else 1,
        )
        while queries[point].is_active() and point not in doom.begun:
            time.sleep(0.05)  # one after the other: a starting process has 10 s, whatever else is starting
    failed = False
    for point, query in queries.items():
        try:
            query.await_termination(_PATIENCE_S)
        except ks.KStreamError as error:
            failed = True
            say(error=str(error), point=point)
    if failed:
        return 1
    for point, query in queries.items():
        for name in STORES:
            say(point=point, store=name, rows=rows_of(query, name))
        say(point=point, unlike=[str(row) for row in ks.testing.verify_state(query).rows])
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
