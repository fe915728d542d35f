"""A deployment in a process of its own, to be killed: ``python -m tests.kafka.deployed SERVERS CHECKPOINT [PLAN]``.

The plan is JSON: ``victim`` ("driver", "jvm", "worker", "broker", or "freeze" for a driver that stands still until it
is woken), ``points`` (of `POINTS`, one kill after the other), ``skip`` (batches that pass before each) and ``times``.
The broker's pid stands in a file beside the checkpoint. What the process did is printed as one JSON line at its end.
"""

from __future__ import annotations

import json
import os
import random  # noqa: TID251 - seeded
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import kstreamnb as ks

__all__ = ["BATCH", "COUNTS", "LETTERS", "POINTS", "build", "main"]

BATCH = 40
COUNTS, LETTERS = "killed-counts", "killed-letters"
POINTS = ("before processing", "while processing", "after state write", "inside the commit", "after Kafka's commit")


def build(mark: Path | None = None) -> ks.Topology:
    """Counts by key, then by the first letter of the key: two levels with state.

    Where a file ``mark`` exists, the first record that is processed kills what its text names.
    """
    builder = ks.StreamsBuilder("killed")
    stream = builder.stream("killed-in", value_serde="long").peek(lambda key, value: _kill_at(mark))
    counts = stream.group_by_key().count(store="by-key")
    counts.to_stream().to(COUNTS, value_serde="long")
    letters = counts.to_stream().group_by(lambda key, count: key[0], value_serde="long")
    letters.count(store="by-letter").to_stream().to(LETTERS, value_serde="long")
    return builder.build()


def _kill_at(mark: Path | None) -> None:
    if mark is not None and mark.exists():
        pid = int(mark.read_text() or os.getpid())
        mark.unlink(missing_ok=True)
        os.kill(pid, signal.SIGKILL)


class Doom:
    """Kills its victim when a point is reached, as often as the plan says."""

    def __init__(self, plan: dict[str, Any], mark: Path) -> None:
        self.victim, self.points = plan.get("victim"), plan.get("points", [""])
        self.times, self.skip = int(plan.get("times", 1 if self.victim else 0)), int(plan.get("skip", 0))
        self.mark = mark
        self.chance = random.Random(json.dumps(plan))
        self.kills = 0
        self.told: list[str] = []
        self._left = self.skip
        self._due = False

    def batch_begins(self) -> None:
        """A batch has its offsets in the log, and nothing is processed yet."""
        self._due = self.kills < self.times and self._left == 0
        self._left = max(0, self._left - 1)
        if self._due and self.point == "while processing":
            self._note()
            self.mark.write_text(str(self._pid()))
        self.reached("before processing")

    def reached(self, point: str, *, after_s: float = 0.0) -> None:
        """Kill here, or a moment later beside what goes on."""
        if not self._due or point != self.point:
            return
        self._note()
        if after_s:
            threading.Timer(after_s, self._strike).start()
        else:
            self._strike()

    @property
    def point(self) -> str:
        """Where the next kill is due."""
        return str(self.points[self.kills % len(self.points)])

    def _note(self) -> None:
        self.told.append(self.point)
        self._due, self._left, self.kills = False, self.skip, self.kills + 1

    def _strike(self) -> None:
        if self.victim == "driver":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.victim == "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self.victim == "jvm":
            os.kill(_jvm(), signal.SIGKILL)
        elif self.victim == "worker":
            for pid in _workers(_jvm()):
                os.kill(pid, signal.SIGKILL)
        elif self.victim == "broker":
            os.kill(int(self._pid()), signal.SIGKILL)
        time.sleep(0.05)

    def _pid(self) -> int | str:
        """Whom to kill; a worker kills itself."""
        if self.victim == "broker":
            return int(self.mark.with_suffix(".broker").read_text())
        return {"driver": os.getpid(), "jvm": _jvm(), "worker": ""}[str(self.victim)]


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
    """Bring the points of a batch to the notice of its doom."""
    from pyspark.sql.classic.dataframe import DataFrame

    from kstreamnb.kafka.publisher import Publisher

    to_arrow, publish = DataFrame.toArrow, Publisher.publish

    def collecting(self: Any) -> Any:
        doom.batch_begins()
        table = to_arrow(self)
        doom.reached("after state write")
        return table

    def publishing(self: Any, *arguments: Any) -> Any:
        def between(step: str) -> None:
            if step == "offsets":
                doom.reached("inside the commit", after_s=doom.chance.choice((0.0005, 0.001, 0.002, 0.004)))
            if step == "committed":
                doom.reached("after Kafka's commit")

        return publish(self, *arguments, between=between)

    DataFrame.toArrow = collecting  # type: ignore[method-assign]
    Publisher.publish = publishing  # type: ignore[method-assign]


def main(servers: str, checkpoint: str, plan: str = "{}") -> None:
    """Process everything that is there, unless a kill comes first; print stores and figures."""
    mark = Path(checkpoint).with_suffix(".mark")
    doom = Doom(json.loads(plan), mark)
    _prepare(doom)
    settings = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.memory": "512m",
    }
    spark = ks.spark_session(cores=1, settings=settings)
    query = ks.deploy(
        build(mark),
        spark=spark,
        bootstrap_servers=servers,
        checkpoint=checkpoint,
        available_now=True,
        max_records=BATCH,
        producer={"transaction.timeout.ms": 60_000},
    )
    query.await_termination(400)
    stores = {
        name: sorted((key, value.value, value.timestamp) for key, value in query.store(name, timestamps=True).all())
        for name in ("by-key", "by-letter")
    }
    suppressed = [metric.value for metric in query.metrics() if metric.name == "batches-suppressed-total"]
    print(json.dumps({"kills": doom.told, "suppressed": suppressed[0], "stores": stores}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
