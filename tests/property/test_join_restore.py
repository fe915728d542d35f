"""A task that continues from a snapshot joins as if it had never stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.processor import Processor
from kstreamnb.core.record import Record
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import Stores
from kstreamnb.core.windows import JoinWindows
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology

TEXT = {"default.key.serde": Serdes.string(), "default.value.serde": Serdes.string()}

rows = st.lists(
    st.tuples(
        st.sampled_from(["left", "right"]),
        st.sampled_from("ab"),
        st.sampled_from([None, "a", "b", "ab", "ba"]),
        st.integers(0, 30),
    ),
    max_size=30,
)


def pair(left: Any, right: Any) -> str:
    """Both values as text."""
    return f"{left}/{right}"


def streams() -> Topology:
    """An outer join of streams."""
    builder = StreamsBuilder()
    windows = JoinWindows.of(before="3ms", after="6ms", grace="2ms")
    builder.stream("left").outer_join(builder.stream("right"), pair, windows).to("out")
    return builder.build()


def stream_and_table() -> Topology:
    """A stream-table join with grace on a versioned table."""
    builder = StreamsBuilder()
    table = builder.table("right", store=Stores.persistent_versioned_key_value_store("rows", history="1m"))
    builder.stream("left").left_join(table, pair, grace="5ms").to("out")
    return builder.build()


def foreign_keys() -> Topology:
    """A foreign-key join."""
    builder = StreamsBuilder()
    table = builder.table("left").left_join(builder.table("right"), lambda value: value[0], pair)
    table.to_stream().to("out")
    return builder.build()


class Summary(Processor[Any, Any, Any, Any]):
    """Counts records and forwards the count every ten milliseconds of stream time."""

    def init(self, context: Any) -> None:
        """Start the punctuator."""
        super().init(context)
        self.seen = context.get_state_store("seen")
        context.schedule("10ms", "stream_time", self.tell)

    def process(self, record: Record[Any, Any]) -> None:
        """Count one."""
        self.seen.put("n", (self.seen.get("n") or "") + "+")

    def tell(self, now: int) -> None:
        """Tell the number."""
        self.context.forward(Record("n", self.seen.get("n"), now))


def processor() -> Topology:
    """A user's processor with a store and a punctuator."""
    store = Stores.in_memory_key_value_store("seen")
    topology = Topology().add_source("in", "left", "right").add_processor("count", Summary, "in")
    return topology.add_state_store(store, "count").add_sink("out", "out", "count")


@pytest.mark.parametrize("build", [streams, stream_and_table, foreign_keys, processor])
@given(rows, st.integers(0, 30))
def test_a_restored_task_joins_on(
    build: Callable[[], Topology], input_rows: list[tuple[str, str, str | None, int]], stop: int
) -> None:
    """The output after a restart is the same for the original task and a restored one."""
    topology = build()
    with TopologyTestDriver(topology, TEXT) as one, TopologyTestDriver(topology, TEXT) as other:
        feed(one, input_rows[:stop])
        read(one)
        for name, task in one.tasks.by_id.items():
            other.tasks.by_id[name].apply_delta(task.delta_of(task.state_keys()))
        feed(one, input_rows[stop:])
        feed(other, input_rows[stop:])
        assert read(one) == read(other)


def feed(driver: TopologyTestDriver, input_rows: list[tuple[str, str, str | None, int]]) -> None:
    """Pipe rows."""
    for topic, key, value, at in input_rows:
        driver.create_input_topic(topic).pipe_input(key, value, at=at)


def read(driver: TopologyTestDriver) -> list[tuple[Any, ...]]:
    """Return the new output since the last call."""
    out = driver.create_output_topic("out")
    return [(record.key, record.value, record.timestamp) for record in out.read_records()]
