"""The wall clock of a query: punctuators continue although the machine's clock jumps forwards and backwards."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.core.codec import decoder
from kstreamnb.spark.contracts import QueryBatch
from kstreamnb.spark.execution.batch_output import BatchOutput
from kstreamnb.spark.io.stream_source import QuerySourceReader, SourceSettings
from tests.spark.file_source import FileOffsetSource
from tests.spark.inprocess import Cluster
from tests.spark.memory_sink import MemorySink
from tests.spark.streams import batched, placed
from tests.unit.spark.query.streams import launch, query_without_spark

START_MS, HOUR_MS = 1_790_000_000_000, 3_600_000


class Ticker(ks.Processor):
    """Forwards the time of each tick of the wall clock."""

    def init(self, context: ks.ProcessorContext) -> None:
        """Schedule a tick per second."""
        super().init(context)
        context.schedule("1s", ks.PunctuationType.WALL_CLOCK_TIME, self.tick)

    def process(self, record: ks.Record) -> None:
        """Ignore records."""

    def tick(self, now_ms: int) -> None:
        """Forward the time."""
        self.context.forward(ks.Record("tick", now_ms, now_ms))


def ticking() -> ks.Topology:
    """A punctuator."""
    builder = ks.StreamsBuilder("ticking")
    builder.stream("in").process(Ticker).to("ticks", value_serde="long")
    return builder.build()


class Machine(FileOffsetSource):
    """A source on a machine with this clock."""

    clock_ms = START_MS

    def now_ms(self) -> int:
        """Return the machine's time."""
        return self.clock_ms


class Deployed:
    """A query's reader and tasks, without Spark; half a second passes before each poll for a batch."""

    def __init__(self, folder: Path) -> None:
        deployment = placed(ticking(), 1)
        self.machine = Machine(
            FileOffsetSource.write(folder / "feed", batched(deployment, [("in", "a", 1, 5)], 1)).path
        )
        self.settings = SourceSettings(self.machine, deployment, max_records=1, tick_ms=1000)
        self.cluster = Cluster.of(deployment, str(folder))
        self.restart()
        self.logged: dict[str, Any] = self.reader.initialOffset()

    def restart(self) -> None:
        """Start with a new reader, which knows only the log."""
        self.reader = QuerySourceReader(self.settings)

    def ticks(self, half_seconds: int) -> list[int]:
        """Return the times at which punctuators fired within this time."""
        return [time_ms for _ in range(half_seconds) for time_ms in self._look()]

    def _look(self) -> Iterator[int]:
        self.machine.clock_ms += 500
        end = self.reader.latestOffset(self.logged)
        if end == self.logged:
            return
        rows = [
            row
            for share in self.reader.partitions(self.logged, end)
            for batch in self.reader.read(share)
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]
        self.logged = end
        for _, _, time_ms, _, value, _ in self.cluster.run(rows).records():
            assert time_ms == decoder(ks.Serdes.long())(value)
            yield time_ms


def test_punctuators_continue_when_the_clock_jumps_ahead_and_back(tmp_path: Path) -> None:
    """The log of offsets is an hour ahead; punctuators tick at half speed until the machine has caught up."""
    query = Deployed(tmp_path)
    assert 4 <= len(query.ticks(10)) <= 5
    query.machine.clock_ms += HOUR_MS
    assert 1 <= len(query.ticks(2))
    query.machine.clock_ms -= HOUR_MS
    times = query.ticks(40)
    assert 9 <= len(times) <= 10  # in 20 s
    assert sorted(set(times)) == times
    assert times[0] > START_MS + HOUR_MS
    query.restart()
    again = query.ticks(40)
    assert 9 <= len(again) <= 10
    assert again[0] > times[-1]
    query.machine.clock_ms += 2 * HOUR_MS
    caught_up = query.ticks(10)
    assert len(caught_up) >= 4
    assert query.machine.clock_ms - 1000 <= caught_up[-1] <= query.machine.clock_ms


def test_ticks_of_a_steady_clock_are_those_of_the_machine(tmp_path: Path) -> None:
    """A clock that did not jump is used as it is."""
    query = Deployed(tmp_path)
    times = query.ticks(20)
    steps = accumulate([500] * 20, initial=START_MS)
    assert set(times) <= set(steps)


def test_a_bounded_run_ends_though_a_tick_is_due_after_each_batch(tmp_path: Path) -> None:
    """On a busy machine every batch takes longer than a tick."""
    query = Deployed(tmp_path)
    query.reader.prepareForTriggerAvailableNow()
    planned = []
    for _ in range(20):
        query.machine.clock_ms += 5000
        end = query.reader.latestOffset(query.logged)
        planned += [end] if end != query.logged else []
        query.logged = end
    assert {"in": {"0": 1}} == planned[0]["offsets"]
    assert 2 == len(planned)  # the record, and a tick after it


def test_a_clock_that_went_back_is_told_once_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The batch's clock is ahead of the machine's."""
    query = query_without_spark(tmp_path, MemorySink())
    launch(query, None)
    with caplog.at_level(logging.WARNING, "kstreamnb.query"):
        for number in range(3):
            query.control.action.publish(QueryBatch(number, "", {}, 4_000_000_000_000, BatchOutput()))
    told = [record.getMessage() for record in caplog.records if "wall clock" in record.getMessage()]
    assert 1 == len(told)
    assert "wall clock went back" in told[0]
