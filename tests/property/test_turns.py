"""Records of several partitions of a task: each in the loop of its partition, or one run after another."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kstreamnb as ks
from kstreamnb.errors import ProcessingError
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.execution import task_batch
from kstreamnb.spark.execution.record_batch import TICK, WALL, OrderKey, RecordBatch, pack, root_order
from kstreamnb.spark.execution.record_merge import Arrival
from kstreamnb.spark.execution.worker_cache import CachedTask, new_task, output_format
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.planning.placement import plan_application, plan_deployment

TOPICS = ("left", "other", "right")
Row = tuple[str, int, str, str, tuple[tuple[str, bytes], ...]]
"""Topic, ms after the last record, key, value, headers."""
ONE_RUN_AFTER_ANOTHER, ALWAYS_IN_TURN = 0, 1 << 40
"""Lengths below which a run is short."""


class Watch(ks.Processor):
    """Forwards what the context says of each record, and punctuators of both kinds."""

    def init(self, context: Any) -> None:
        """Schedule the punctuators."""
        self.context, self.seen = context, 0
        for kind in (ks.PunctuationType.STREAM_TIME, ks.PunctuationType.WALL_CLOCK_TIME):
            context.schedule("7ms", kind, self.look)

    def process(self, record: Any) -> None:
        """Forward the record with its position, headers and stream time."""
        self.seen += 1
        facts = self.context.record_metadata(), record.headers, self.context.current_stream_time_ms()
        self.context.forward(record.with_value(f"{record.value} {facts}"))

    def look(self, now_ms: int) -> None:
        """Forward how many records were seen."""
        self.context.forward(ks.Record("punctuated", f"{now_ms} {self.seen}", now_ms))


def watched(streams: dict[str, Any], builder: Any) -> None:
    """A processor below all topics."""
    merged = streams["left"].merge(streams["right"]).merge(streams["other"])
    merged.process(Watch).to("watched")


def paired(streams: dict[str, Any], builder: Any) -> None:
    """Pairs of two streams, or what the left one has alone."""
    window = ks.JoinWindows.of_time_difference_and_grace("5ms", "2ms")
    streams["left"].outer_join(streams["right"], lambda a, b: f"{a}-{b}", window).to("pairs")


def looked_up(streams: dict[str, Any], builder: Any) -> None:
    """Records with the row of a table of a third topic."""
    table = streams["other"].to_table(store="rows")
    streams["left"].left_join(table, lambda a, b: f"{a} at {b}").to("looked-up")


def suppressed(streams: dict[str, Any], builder: Any) -> None:
    """Windows that are emitted when they close, and tables that wait."""
    grouped = streams["right"].merge(streams["other"]).group_by_key()
    windows = grouped.windowed_by(ks.TimeWindows.of_size_and_grace("9ms", "3ms")).count(store="windows")
    closed = windows.suppress(ks.Suppressed.until_window_closes()).to_stream(lambda window, count: str(window))
    closed.to("closed", value_serde="long")
    waiting = grouped.count(store="counts").suppress(ks.Suppressed.until_time_limit("4ms", name="waiting"))
    waiting.to_stream().to("waiting", value_serde="long")


def converted(streams: dict[str, Any], builder: Any) -> None:
    """A function that fails for some values."""
    for stream in streams.values():
        stream.map_values(lambda value: str(100 // int(value))).to("converted")


PARTS: tuple[Callable[[dict[str, Any], Any], None], ...] = (watched, paired, looked_up, suppressed, converted)
HANDLERS: dict[str, dict[str, Any]] = {
    "none": {},
    "dead letters": {"processing_handler": "continue", "dead_letter_topic": "dead"},
    "unreadable": {"deserialization_handler": "continue"},
    "cached": {"statestore.cache.max.bytes": 100_000},
}


def deployed(parts: list[Any], handlers: str, *, extracts: bool) -> Deployment:
    """Return the deployment of a topology in one partition."""
    builder = ks.StreamsBuilder("turns")
    streams: dict[str, Any] = {topic: builder.stream(topic) for topic in TOPICS[:2]}
    extractor = (lambda record, last_ms: record.timestamp + len(record.value or "")) if extracts else None
    streams["right"] = builder.stream("right", timestamp_extractor=extractor)
    streams["left"].merge(streams["right"]).merge(streams["other"]).to("all")  # so that they are one task
    for part in parts:
        part(streams, builder)
    texts = {"default_key_serde": "string", "default_value_serde": "string", "statestore.cache.max.bytes": 0}
    config = Config.of({**texts, **HANDLERS[handlers]})
    partitions = dict.fromkeys(TOPICS, 1)
    application = plan_application(builder.build(), config, partitions, direct=True, default_partitions=1)
    return plan_deployment("turns", [application], 1)


def arrivals(rows: list[Row], first_ms: int, first: dict[str, int], ticks: int) -> list[Arrival]:
    """Return rows as record batches, and some ticks of the wall clock; numbers the records of each topic."""
    columns: dict[str, list[Any]] = {}
    time = first_ms
    for topic, after_ms, key, value, headers in rows:
        time += after_ms
        offset = first[topic] = first.get(topic, -1) + 1
        columns.setdefault(topic, []).append((offset, max(time, 0), key, value, headers))
    found = []
    for rank, (topic, records) in enumerate(sorted(columns.items())):
        offsets, times, keys, values, headers = map(list, zip(*records, strict=True))
        order = root_order(times, offsets, rank)
        found.append(
            Arrival(
                rank, 0, RecordBatch(topic, 0, order, np.asarray(times), keys, values, headers, np.asarray(offsets))
            )
        )
    order = OrderKey(*(np.asarray(column) for column in ([TICK] * ticks, [0] * ticks, range(ticks), [0] * ticks)))
    clocks = np.asarray([time + 10 * tick for tick in range(ticks)], np.int64)
    return [*found, Arrival(-1, 0, RecordBatch(WALL, 0, order, clocks, [None] * ticks, [None] * ticks))]


def run(deployment: Deployment, batches: list[tuple[list[Row], int]], short: int) -> tuple[list[Any], CachedTask]:
    """Return everything that some batches caused in a new task, and the task; a task that fails is discarded."""
    placed = deployment.tasks[0]
    cached = new_task(deployment, placed, now_ms=1000)
    task, form, found, first = cached.task, output_format(deployment, placed), list[Any](), dict[str, int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_batch, "_SHORT_RUN", short)
        for number, (rows, ticks) in enumerate(batches):
            try:
                made = task_batch.run_batches(task, arrivals(rows, 1000 + 40 * number, first, ticks), {}, form)
                made += task_batch.commit(task, form)
            except ProcessingError as error:
                return [*found, (str(error), error.node, error.coordinates, error.detail, error.hint)], cached
            found.append([pack(batch) for batch in made])
    return [*found, pickle.loads(pickle.dumps(task.delta_of(task.state_keys()))), task.counters()], cached


values = st.sampled_from(["1", "2", "7", "1", "2", "7", "0", "x"])
row = st.tuples(
    st.sampled_from(TOPICS),
    st.integers(-4, 9),
    st.sampled_from("abc"),
    values,
    st.sampled_from([(), (), (("of", b"v"),)]),
)


@given(
    parts=st.lists(st.sampled_from(PARTS), unique=True),
    handlers=st.sampled_from([*HANDLERS]),
    extracts=st.booleans(),
    batches=st.lists(st.tuples(st.lists(row, max_size=30), st.integers(0, 2)), min_size=1, max_size=3),
)
def test_turns_change_nothing(
    parts: list[Any], handlers: str, extracts: bool, batches: list[tuple[list[Row], int]]
) -> None:
    """Output with its order keys, state, counters, and the first error with its record are the same."""
    deployment = deployed(parts, handlers, extracts=extracts)
    each, _ = run(deployment, batches, ONE_RUN_AFTER_ANOTHER)
    turns, _ = run(deployment, batches, ALWAYS_IN_TURN)
    assert turns == each


@pytest.mark.parametrize(("length", "in_turn"), [(1, True), (5, True), (40, False)])
def test_partitions_take_turns_if_their_runs_are_short(length: int, in_turn: bool) -> None:
    """Then their loops are called with one record each; a loop over many records marks what each has produced."""
    rows: list[Row] = [(TOPICS[at // length % 2], 1, "a", "1", ()) for at in range(120)]
    _, cached = run(deployed([watched], "none", extracts=False), [(rows, 0)], task_batch._SHORT_RUN)
    assert ("mark_" not in cached.task.generated_source()) == in_turn
