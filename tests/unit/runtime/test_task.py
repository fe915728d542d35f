"""Tasks: order, bulk processing, marks, punctuation, state, plans."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle
import pytest

import kstreamnb as ks
from kstreamnb.core.processor import Processor
from kstreamnb.core.record import Record
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import Clock
from kstreamnb.errors import EngineError, ProcessingError, StateError
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import TaskPlan, plan_global_task, plan_tasks
from kstreamnb.runtime.task.task import Task
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology

TEXT = {"key_serde": Serdes.string(), "value_serde": Serdes.string()}


class Where(Processor[Any, Any, Any, Any]):
    """Forwards each record's origin, and ticks every 10 ms of stream time."""

    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule("10ms", "stream_time", self.tick)

    def process(self, record: Record[Any, Any]) -> None:
        meta = self.context.record_metadata()
        assert meta is not None
        self.context.forward(record.with_value(f"{meta.topic}-{meta.partition}@{meta.offset}"))

    def tick(self, now: int) -> None:
        meta = self.context.record_metadata()
        self.context.forward(Record(None, f"tick {meta}", now))


class Counter(Processor[Any, Any, Any, Any]):
    """Counts per key."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.get_state_store("counts")

    def process(self, record: Record[Any, Any]) -> None:
        count = (self.store.get(record.key) or 0) + 1
        self.store.put(record.key, count)
        self.context.forward(record.with_value(str(count)))


def task(supplier: Any, *stores: StoreSpec, topics: tuple[str, ...] = ("a", "b"), **options: Any) -> Task:
    """One task with one processor between topics and "out"."""
    topology = Topology("tasks").add_source("source", *topics, **TEXT).add_processor("node", supplier, "source")
    for store in stores:
        topology.add_state_store(store, "node")
    topology.add_sink("sink", "out", "node", **TEXT)
    (plan,) = plan_tasks(topology, Config(), dict.fromkeys(topics, 1))
    return Task(plan, Clock(0), **options)


def values(task: Task) -> list[Any]:
    """Return the values of the produced rows."""
    return [row[4] for row in task.drain()]


def test_waiting_records_go_by_time_topic_partition_and_offset() -> None:
    """The heads of the partitions are totally ordered; each partition keeps its own order."""
    found = task(Where)
    found.push("b", 0, [(0, 5, "k", "v", ()), (1, 1, "k", "v", ())])
    found.push("a", 0, [(7, 5, "k", "v", ()), (8, 6, "k", "v", ())])
    assert 1 == found.run_ready(limit=1)
    assert 3 == found.run_ready()
    assert ["a-0@7", "b-0@0", "b-0@1", "a-0@8"] == [value for value in values(found) if "tick" not in value]


@pytest.mark.parametrize("size", [3, 30])
def test_marks_tell_which_record_caused_which_row(size: int) -> None:
    """After each record, the number of rows so far, ticks of that record included; in bulk and one by one."""
    found = task(Where)
    marks: list[int] = []
    assert size == found.run("a", 0, [(n, 4 * n, "k", "v", ()) for n in range(size)], marks)
    rows = values(found)
    assert size == len(marks)
    assert len(rows) == marks[-1]
    firsts = [0, *marks[:-1]]
    assert [f"a-0@{n}" for n in range(size)] == [rows[first] for first in firsts]
    assert all("topic=None, partition=-1, offset=-1" in row for row in rows if "tick" in row)


def test_a_failure_in_bulk_names_its_record_and_keeps_the_rest_waiting() -> None:
    """The failing record is identified by the position of the loop; the following ones can still be run."""

    class Refuse(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            if record.value == "bad":
                raise KeyError("no")
            self.context.forward(record)

    found = task(Refuse)
    found.push("a", 0, [(n, n, "k", "bad" if n == 11 else str(n), ()) for n in range(30)])
    with pytest.raises(ProcessingError, match='node "node" failed with KeyError') as error:
        found.run_ready()
    assert ("a", 0, 11, 11) == error.value.coordinates
    assert 12 == found.counters()["consumed"]
    assert 18 == found.run_ready()
    assert [str(n) for n in range(30) if n != 11] == values(found)


def test_records_of_topics_that_no_source_reads_are_refused() -> None:
    """The error names task and topic."""
    with pytest.raises(EngineError, match='task "0_0" does not read topic "c"'):
        task(Where).push("c", 0, [])


def test_changelog_records_have_kafkas_bytes() -> None:
    """All of them, or one that replaces the name, or none."""
    spec = StoreSpec("counts", "key_value", Serdes.string(), Serdes.long())
    rows = [(0, 5, "k", "v", ()), (1, 6, "k", "v", ())]
    found = {}
    for changelog in ("off", "names", "records"):
        made = task(Counter, spec, changelog=changelog)
        made.run("a", 0, rows)
        found[changelog] = made.drain_changelog()
        assert [] == made.drain_changelog()
    assert [] == found["off"]
    assert [("tasks-counts-changelog", -1)] == [(row.topic, row.timestamp) for row in found["names"]]
    assert [(b"k", bytes(7) + b"\x01", 5), (b"k", bytes(7) + b"\x02", 6)] == [
        (row.key, row.value, row.timestamp) for row in found["records"]
    ]


def test_schedules_are_part_of_the_state() -> None:
    """A restored task ticks when the original one would have ticked next."""
    first, second = task(Where), task(Where)
    first.run("a", 0, [(0, 12, "k", "v", ())])
    second.apply_delta(first.delta_of(first.state_keys()))
    second.run("a", 0, [(1, 19, "k", "v", ()), (2, 20, "k", "v", ())])
    assert ["a-0@1", "a-0@2"] == [value for value in values(second) if "tick" not in value]
    assert 1 == sum("tick" in value for value in values(first))


class Alarm(Processor[Any, Any, Any, Any]):
    """Ticks every 10 ms of stream time, beginning with its first record."""

    set_at: int | None = None

    def process(self, record: Record[Any, Any]) -> None:
        if self.set_at is None:
            self.set_at = record.timestamp
            self.context.schedule("10ms", "stream_time", self.tick, start=record.timestamp + 10)

    def tick(self, now: int) -> None:
        self.context.forward(Record(None, "tick", now))


def test_a_schedule_that_a_record_began_ticks_in_a_new_task_at_its_old_due_time() -> None:
    """It does so once the processor of the new task schedules it again."""
    used, fresh = task(Alarm), task(Alarm)
    used.run("a", 0, [(0, 5, "k", "v", ()), (1, 16, "k", "v", ())])
    assert ["tick"] == values(used)
    fresh.apply_delta(used.delta_of(used.state_keys()))
    fresh.run("a", 0, [(2, 24, "k", "v", ()), (3, 25, "k", "v", ())])
    assert ["tick"] == values(fresh)


def test_deltas_need_tracking_and_hold_only_changes() -> None:
    """The second delta contains only the second key."""
    spec = StoreSpec("counts", "key_value", Serdes.string(), Serdes.long())
    with pytest.raises(StateError):
        task(Counter, spec).take_delta()
    found, copy = task(Counter, spec, track=True), task(Counter, spec)
    found.run("a", 0, [(0, 5, "k", "v", ())])
    found.take_delta()
    found.run("a", 0, [(1, 5, "m", "v", ())])
    copy.apply_delta(found.take_delta())
    assert {"m": 1} == copy.stores["counts"].raw


def test_a_plan_travels_to_another_process() -> None:
    """Pickled by value if the processor is the user's own, and equal in behavior."""
    topology = Topology("tasks").add_source("source", "a", **TEXT)
    topology.add_processor("node", Where, "source").add_sink("sink", "out", "node", **TEXT)
    (plan,) = plan_tasks(topology, Config(), {"a": 1})
    again: TaskPlan = pickle.loads(cloudpickle.dumps(plan))
    made = Task(again, Clock(0))
    made.run("a", 0, [(3, 5, "k", "v", ())])
    assert "a-0@3" == values(made)[0]


def test_a_task_can_meet_other_global_stores() -> None:
    """Replacing the global task binds the nodes to its stores."""

    class Look(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.store = context.get_state_store("names")

        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record.with_value(str(self.store.get(record.key))))

    class Keep(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            self.store = context.get_state_store("names")

        def process(self, record: Record[Any, Any]) -> None:
            self.store.put(record.key, record.value)

    topology = Topology("tasks").add_source("source", "a", **TEXT).add_processor("node", Look, "source")
    topology.add_sink("sink", "out", "node", **TEXT)
    spec = StoreSpec("names", "key_value", Serdes.string(), Serdes.string())
    topology.add_global_store(spec, "global-source", "names", "keeper", Keep, **TEXT)
    (plan,) = plan_tasks(topology, Config(), {"a": 1})
    global_plan = plan_global_task(topology, Config(), {})
    assert global_plan is not None
    one, two = Task(global_plan, Clock(0)), Task(global_plan, Clock(0))
    two.run("names", 0, [(0, 1, "k", "two", ())])
    found = Task(plan, Clock(0), one)
    found.run("a", 0, [(0, 1, "k", "v", ())])
    found.connect(two)
    found.run("a", 0, [(1, 1, "k", "v", ())])
    assert ["None", "two"] == values(found)


def test_a_node_that_names_a_parent_twice_gets_its_records_twice() -> None:
    """As in Kafka Streams."""
    topology = Topology("twice").add_source("source", "in", **TEXT)
    topology.add_processor("node", Where, "source", "source").add_sink("sink", "out", "node", **TEXT)
    driver = TopologyTestDriver(topology)
    driver.create_input_topic("in", **TEXT).pipe_input("k", "v", at=1)
    values = [record.value for record in driver.create_output_topic("out", **TEXT).read_records()]
    assert [value for value in values if "tick" not in value] == ["in-0@0", "in-0@0"]


def _collected(serde: Any, change: Any, *, windowed: bool = False) -> Task:
    """Return a task that collects the values of each key, has ``change`` see each result, and writes it."""
    builder = ks.StreamsBuilder("collected")
    groups = builder.stream("a", key_serde="string", value_serde="string").group_by_key()
    groups = groups.windowed_by(ks.TimeWindows.of_size_with_no_grace("1h")) if windowed else groups
    table = groups.aggregate(list, lambda key, value, seen: [*seen, value], store="seen", value_serde=serde)
    stream = table.to_stream().peek(change) if change else table.to_stream()
    stream.to("out", value_serde=serde)
    (plan,) = plan_tasks(builder.build(), Config(), {"a": 1})
    return Task(plan, Clock(0))


@pytest.mark.parametrize("windowed", [False, True])
def test_an_aggregate_is_written_once_for_its_store_and_a_sink(windowed: bool) -> None:
    """Neither the store nor the sink writes it again."""
    written: list[Any] = []

    def write(value: Any) -> bytes:
        written.append(value)
        return ",".join(value).encode()

    serde = Serdes.serde_from(write, lambda data: data.decode().split(","))
    made = _collected(serde, None, windowed=windowed)
    made.run("a", 0, [(at, at, "k", str(at), ()) for at in range(12)])
    assert len(written) == 12
    assert values(made)[-1] == b"0,1,2,3,4,5,6,7,8,9,10,11"


def test_a_sink_writes_what_a_function_above_it_made_of_an_aggregate() -> None:
    """A function that changes the value in place does not change the row."""
    made = _collected(Serdes.json(), lambda key, value: value.append("seen"))
    made.run("a", 0, [(at, at, "k", str(at), ()) for at in range(12)])
    assert values(made)[1] == b'["0","1","seen"]'
    assert made.stores["seen"].get("k") == ([str(at) for at in range(12)], 11)
