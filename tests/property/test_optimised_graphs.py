"""Optimization changes topics and stores, never results: for any rule, any topology of these shapes, and any
records.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from kstreamnb.core.processor import FixedKeyProcessor, FixedKeyRecord, Processor
from kstreamnb.core.record import Record
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.kstream import KStream
from kstreamnb.logical.optimizer.rewrites import RULES
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver

KEYS = st.sampled_from(["a", "b", "ab", "ba", "c"])
VALUES = st.integers(0, 9)
STEPS = st.lists(
    st.sampled_from(["filter", "peek", "rekey", "values", "merge", "process", "process_values"]), max_size=3
)
ENDS = st.sampled_from(["count", "reduce", "table", "join", "raw"])
BRANCHES = st.lists(st.tuples(STEPS, ENDS), min_size=1, max_size=3)
RECORDS = st.lists(st.tuples(st.sampled_from(["orders", "names"]), KEYS, VALUES), max_size=25)
PARTITIONS = {"orders": 3, "names": 2}


class Rekey(Processor):
    """Forwards each record under a key that follows from its value."""

    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record.with_key("abc"[record.value % 3]))


class Increase(FixedKeyProcessor):
    """Forwards each record with a greater value."""

    def process(self, record: FixedKeyRecord[str, int]) -> None:
        self.context.forward(record.with_value(record.value + 1))


def step(stream: KStream[Any, Any], word: str) -> KStream[Any, Any]:
    """One more operator."""
    if word == "filter":
        return stream.filter(lambda key, value: value % 3 != 0)
    if word == "peek":
        return stream.peek(lambda key, value: None)
    if word == "rekey":
        return stream.select_key(lambda key, value: key[-1])
    if word == "process":
        return stream.process(Rekey)
    if word == "process_values":
        return stream.process_values(Increase)
    if word == "values":
        return stream.map_values(lambda value: value + 1)
    return stream.merge(stream.filter(lambda key, value: value > 5))


def declare(branches: list[tuple[list[str], str]]) -> StreamsBuilder:
    """A key change followed by branches that end in stateful operators."""
    builder = StreamsBuilder(process_changes_records=True)  # without it, as in Kafka, results may differ
    keyed = builder.stream("orders").select_key(lambda key, value: key[0])
    names = builder.table("names", store="names")
    for number, (steps, end) in enumerate(branches):
        stream = keyed
        for word in steps:
            stream = step(stream, word)
        if end == "count":
            result = stream.group_by_key().count().to_stream()
        elif end == "raw":
            result = builder.stream("orders").merge(stream).group_by_key().count().to_stream()
        elif end == "reduce":
            result = stream.group_by_key().reduce(max).to_stream()
        elif end == "table":
            result = stream.to_table(store=f"kept-{number}").to_stream()
        else:
            result = stream.repartition(partitions=2).left_join(names, lambda value, name: [value, name])
        result.to(f"out-{number}")
    return builder


def results(
    builder: StreamsBuilder, optimize: bool | str, records: list[tuple[str, str, int]]
) -> dict[tuple[str, Any], list[Any]]:
    """Return the output of each key of each topic, in order."""
    found: dict[tuple[str, Any], list[Any]] = defaultdict(list)
    topology = builder.build(optimize=optimize)
    with TopologyTestDriver(topology, partitions=PARTITIONS) as driver:
        for at, (topic, key, value) in enumerate(records):
            driver.create_input_topic(topic).pipe_input(key, value, at=at)
        for topic in driver.produced_topic_names():
            if topic.startswith("out-"):
                for record in driver.create_output_topic(topic).read_records():
                    found[topic, record.key].append((record.value, record.timestamp))
    return dict(found)


@example([(["process"], "count")], [("orders", "a", 0), ("orders", "b", 0)], True)
@given(BRANCHES, RECORDS, st.sampled_from([True, *RULES]))
def test_an_optimized_topology_gives_the_same_results(
    branches: list[tuple[list[str], str]], records: list[tuple[str, str, int]], optimize: bool | str
) -> None:
    """All rules together, and each one separately."""
    builder = declare(branches)
    assert results(builder, optimize, records) == results(builder, False, records)
