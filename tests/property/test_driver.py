"""Properties that hold for every input of the driver: chunks, order, partitions and checkpoints do not change
results.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.time import Clock
from kstreamnb.core.windows import JoinWindows, TimeWindows
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.errors import ProcessingError
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import plan_tasks
from kstreamnb.runtime.task.task import Task
from kstreamnb.testdriver.execution.input_batch import InputBatch
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver

PARTITIONS = {"left": 3, "right": 3, "table": 3, "counts": 2, "pairs": 2, "late": 1}


@st.composite
def inputs(draw: st.DrawFn) -> list[TopicRecord]:
    """Records of three topics, out of order."""
    rows = st.tuples(
        st.sampled_from(["left", "right", "table"]), st.sampled_from("abcdefg"), st.integers(0, 60), st.integers(0, 9)
    )
    records = draw(st.lists(rows, max_size=40))
    return [TopicRecord(topic, -1, -1, at, key, f"{value}") for topic, key, at, value in records]


def two_levels() -> Any:
    """A table join, a repartitioned windowed count, a stream join across a repartition, and merged outputs."""
    text = Serdes.string()
    builder = StreamsBuilder("levels")
    left, right = (builder.stream(topic, value_serde=text) for topic in ("left", "right"))
    table = builder.table("table", value_serde=text)
    joined = left.left_join(table, lambda a, b: f"{a}+{b}")
    windows = TimeWindows.of(size="10ms", grace="5ms")
    counted = joined.group_by(lambda key, value: value[0]).windowed_by(windows).count()
    counted.to_stream(lambda key, value: str(key)).to("counts", value_serde=Serdes.long())
    moved = right.select_key(lambda key, value: value)
    pairs = moved.join(left, lambda a, b: f"{a}&{b}", JoinWindows.of(difference="8ms"))
    pairs.merge(right).to("pairs", value_serde=text)
    return builder.build()


def contents(driver: TopologyTestDriver) -> dict[str, Any]:
    """Return everything observable from outside."""
    outputs = {}
    for topic in ("counts", "pairs", "late"):
        for record in driver.create_output_topic(topic).read_records():
            outputs.setdefault((topic, record.partition), []).append(record)
    stores = {task: {name: dict(store.raw) for name, store in found.stores.items()} for task, found in tasks(driver)}
    return {"outputs": outputs, "stores": stores, "dropped": driver.metrics()["dropped-records-total"]}


def tasks(driver: TopologyTestDriver) -> list[tuple[str, Task]]:
    """The driver's tasks by id."""
    return list(driver.tasks.by_id.items())


def in_order(records: list[TopicRecord]) -> list[TopicRecord]:
    """Return records in the order of a merge of all partitions by time."""
    router = TopologyTestDriver(two_levels(), partitions=PARTITIONS).router
    batch = InputBatch.serialized(router.serialize(records))
    return [TopicRecord(t, p, -1, at, key, value) for t, p, at, key, value, _ in batch.input_records(router)]


@given(inputs(), st.data())
def test_chunks_of_the_input_do_not_matter(records: list[TopicRecord], data: st.DataObject) -> None:
    """Records piped at once, in chunks or one by one produce the same outputs, stores and drops, offsets included."""
    records = in_order(records)
    whole, parts, single = (TopologyTestDriver(two_levels(), partitions=PARTITIONS) for _ in range(3))
    whole.pipe(records)
    cut = data.draw(st.integers(0, len(records)))
    for part in (records[:cut], records[cut:]):
        if part:
            parts.pipe(part)
    for record in records:
        single.pipe([record])
    expected = contents(single)
    assert expected == contents(whole)
    assert expected == contents(parts)


@given(inputs())
def test_observing_changes_nothing(records: list[TopicRecord]) -> None:
    """With an observer the results are the same, and every consumed record is reported."""
    events: list[Any] = []
    plain = TopologyTestDriver(two_levels(), partitions=PARTITIONS)
    seen = TopologyTestDriver(two_levels(), partitions=PARTITIONS, observe=events.append)
    if records:
        plain.pipe(records)
        seen.pipe(records)
    assert contents(plain) == contents(seen)
    consumed = sum(type(event).__name__ == "RecordConsumed" for event in events)
    assert sum(seen.metrics()["process-total"].values()) == consumed


@given(inputs(), st.integers(0, 40))
def test_a_task_goes_on_from_its_whole_state_or_deltas_as_if_nothing_had_happened(
    records: list[TopicRecord], cut: int
) -> None:
    """Stopping a task after any record and starting another from its state produces the same rows and the same
    state.
    """
    topology, config = windowed_count(), Config()
    (plan,) = plan_tasks(topology, config, {"left": 1})
    rows = [(n, record.timestamp, record.key, record.value, ()) for n, record in enumerate(records)]
    through, first, second, third = (Task(plan, Clock(0), track=True) for _ in range(4))
    through.run("left", 0, rows)
    deltas = []
    for row in rows[:cut]:
        first.run("left", 0, [row])
        deltas.append(first.take_delta())
    second.apply_delta(first.delta_of(first.state_keys()))
    for delta in deltas:
        third.apply_delta(delta)
    before = first.drain()
    for restored in (second, third):
        restored.run("left", 0, rows[cut:])
    expected = through.drain()
    assert expected == before + second.drain()
    assert expected == before + third.drain()
    assert through.delta_of(through.state_keys()) == second.delta_of(second.state_keys())
    rebuilt = Task(plan, Clock(0), track=True)
    rebuilt.apply_delta(through.delta_of(through.state_keys()))
    assert {name: store.raw for name, store in through.stores.items()} == {
        name: store.raw for name, store in rebuilt.stores.items()
    }


def windowed_count() -> Any:
    """Windowed counts, beside a punctuator."""
    builder = StreamsBuilder("windowed")
    stream = builder.stream("left", value_serde=Serdes.string())
    counted = stream.group_by_key().windowed_by(TimeWindows.of(size="10ms", grace="5ms")).count()
    counted.to_stream(lambda key, value: str(key)).to("counts", value_serde=Serdes.long())
    return builder.build()


@given(inputs(), st.sampled_from("abcdefg"))
def test_keys_of_other_partitions_do_not_matter(records: list[TopicRecord], key: str) -> None:
    """The output of one partition does not depend on the contents of the others."""
    records = [record for record in records if record.topic == "left"]
    every, alone = (TopologyTestDriver(windowed_count(), partitions={"left": 3, "counts": 1}) for _ in range(2))
    place = every.router.count("left")
    assert place == 3
    task = next(index for index in range(3) if partition_of(every, key) == index)
    mine = [record for record in records if partition_of(every, record.key) == task]
    for driver, chosen in ((every, records), (alone, mine)):
        if chosen:
            driver.pipe(chosen)
    keys = {record.key for record in mine}
    outputs = [
        [record for record in driver.create_output_topic("counts").read_records() if record.key[0] in keys]
        for driver in (every, alone)
    ]
    assert [(r.key, r.value, r.timestamp) for r in outputs[1]] == [(r.key, r.value, r.timestamp) for r in outputs[0]]


def partition_of(driver: TopologyTestDriver, key: str) -> int:
    """The partition of a key of the topic "left"."""
    from kstreamnb.core.codec import partition_for

    return partition_for(key.encode(), driver.router.count("left"))


@given(st.lists(st.tuples(st.sampled_from("abcdefg"), st.integers(0, 9)), min_size=5, max_size=30), st.integers(0, 29))
def test_a_failure_in_bulk_keeps_what_came_before(rows: list[tuple[str, int]], bad: int) -> None:
    """A record that fails in the middle of a batch keeps the outputs of those before it, and none after it."""
    bad %= len(rows)

    def refuse(key: str, value: str) -> str:
        if value == "bad":
            raise ValueError(value)
        return value

    builder = StreamsBuilder("failing")
    stream = builder.stream("left", value_serde=Serdes.string()).select_key(refuse)
    stream.group_by_key().count().to_stream().to("counts", value_serde=Serdes.long())
    topology = builder.build()
    records = [
        TopicRecord("left", -1, -1, at, key, "bad" if at == bad else f"{value}") for at, (key, value) in enumerate(rows)
    ]
    many, single = (TopologyTestDriver(topology, partitions={"left": 3, "counts": 2}) for _ in range(2))
    with pytest.raises(ProcessingError) as error:
        many.pipe(records)
    for record in records[:bad]:
        single.pipe([record])
    assert error.value.coordinates is not None
    assert bad == error.value.coordinates[3]
    read = [driver.create_output_topic("counts").read_records() for driver in (single, many)]
    assert read[0] == read[1]
