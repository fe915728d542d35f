"""Generated functions, and the blocks they consist of.

``python -m tests.unit.runtime.test_generated_source`` writes the golden files after an intended change.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import kstreamnb as ks
from kstreamnb.core.block import Block
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.operators.aggregates import StreamAggregate, WindowAggregate
from kstreamnb.operators.folding import count_up, zero
from kstreamnb.operators.stateless import (
    Filter,
    Foreach,
    Map,
    MapValues,
    PassThrough,
    Peek,
    Print,
    RepartitionFilter,
    SelectKey,
    TableToStream,
)
from kstreamnb.recording.trace import Recording
from tests.unit.operators.fake_context import FakeContext

GOLDEN = Path(__file__).with_name("golden")
RECORDS = [TopicRecord("in", -1, -1, at, "k", at) for at in range(20)]


def stateless() -> ks.Topology:
    """A filter and a map, in one function with the loop."""
    builder = ks.StreamsBuilder("stateless")
    builder.stream("in").filter(lambda key, value: value % 2 == 0).map_values(lambda value: value * 2).to("out")
    return builder.build()


def counting() -> ks.Topology:
    """A count by key: a stateful node within the loop."""
    builder = ks.StreamsBuilder("counting")
    builder.stream("in").group_by_key().count().to_stream().to("out", value_serde=Serdes.long())
    return builder.build()


def windows() -> ks.Topology:
    """A count in tumbling windows."""
    builder = ks.StreamsBuilder("windows")
    counted = builder.stream("in").group_by_key().windowed_by(ks.TimeWindows.of(size="10ms")).count()
    counted.to_stream().to("out", value_serde=Serdes.long())
    return builder.build()


def suppressed() -> ks.Topology:
    """A suppression within the loop of its count; what it emits continues in another function."""
    builder = ks.StreamsBuilder("suppressed")
    counted = builder.stream("in").group_by_key().windowed_by(ks.TimeWindows.of(size="10ms")).count()
    closed = counted.suppress(ks.Suppressed.until_window_closes())
    closed.to_stream().to("out", value_serde=Serdes.long())
    return builder.build()


def joined() -> ks.Topology:
    """A join of streams: each loop puts its records after the join, and copies a value once."""
    builder = ks.StreamsBuilder("joined")
    windows = ks.JoinWindows.of(difference="5ms")
    builder.stream("in").join(builder.stream("other"), lambda one, other: one + other, windows).to("out")
    return builder.build()


def branches() -> ks.Topology:
    """A node with two children: the first is called, the last is inlined."""
    builder = ks.StreamsBuilder("branches")
    stream = builder.stream("in")
    stream.foreach(lambda key, value: None)
    stream.select_key(lambda key, value: str(value)).to("out")
    return builder.build()


def partitioned() -> ks.Topology:
    """A sink whose partitioner chooses no, one or several partitions."""
    builder = ks.StreamsBuilder("partitioned")
    builder.stream("in").to("out", partitioner=lambda topic, key, value, count: range(value % 3))
    return builder.build()


class Forward(ks.Processor):
    """Passes records on; it could punctuate."""

    def process(self, record: ks.Record) -> None:
        """Forward a record."""
        self.context.forward(record)


def processor() -> ks.Topology:
    """A user's processor, so that the loop looks for due punctuators."""
    builder = ks.StreamsBuilder("processor")
    builder.stream("in").process(Forward).to("out")
    return builder.build()


CASES: dict[str, tuple[Callable[[], ks.Topology], int, bool]] = {
    "stateless": (stateless, 1, False),
    "stateless-partitions": (stateless, 2, False),
    "stateless-recorded": (stateless, 1, True),
    "count": (counting, 1, False),
    "count-recorded": (counting, 1, True),
    "windows": (windows, 1, False),
    "suppressed": (suppressed, 1, False),
    "joined": (joined, 1, False),
    "branches": (branches, 1, False),
    "partitioned": (partitioned, 2, False),
    "processor": (processor, 1, False),
    "processor-recorded": (processor, 1, True),
}


def generated(case: str) -> str:
    """Return the generated source of the first task after some records."""
    topology, partitions, is_recorded = CASES[case]
    observe = Recording() if is_recorded else None
    driver = ks.TopologyTestDriver(topology(), partitions=partitions, verify=False, observe=observe)
    driver.pipe(RECORDS)
    return next(iter(driver.tasks.by_id.values())).generated_source()


@pytest.mark.parametrize("case", CASES)
def test_generated_source_is_the_golden_one(case: str) -> None:
    """A change to the code generation shows as a change to these files, and is reviewed as such."""
    assert generated(case) == (GOLDEN / f"{case}.py.txt").read_text()


@pytest.mark.parametrize("case", CASES)
def test_generated_source_is_deterministic(case: str) -> None:
    """Two drivers of the same topology generate the same text, so that its compilation is shared."""
    assert generated(case) == generated(case)


def any_function(*_arguments: object) -> Any:
    """A user's function."""


def fold_blocks() -> list[tuple[str, Block]]:
    """Blocks of every kind of aggregate: counts, initialized folds and reducers, by key and by window."""
    blocks = []
    for initializer, aggregator in ((zero, count_up), (int, any_function), (None, any_function)):
        for fold in (
            StreamAggregate("rows", initializer, aggregator),
            WindowAggregate("rows", ks.TimeWindows(10, 5), initializer, aggregator),
        ):
            kind: Any = "timestamped_window" if isinstance(fold, WindowAggregate) else "timestamped_key_value"
            spec = StoreSpec("rows", kind, value_serde=Serdes.long(), retention_ms=15, window_size_ms=10)
            context: Any = FakeContext(spec)
            block = fold.fuse(context)
            assert block is not None
            blocks.append((f"{type(fold).__name__} {getattr(aggregator, '__name__', '')}", block))
    return blocks


BLOCKS: list[tuple[str, Block]] = [
    *((type(operator).__name__, operator.block()) for operator in (
        Filter(any_function), Filter(any_function, negate=True), Map(any_function), MapValues(any_function),
        MapValues(any_function, with_key=True), SelectKey(any_function), Peek(any_function), Foreach(any_function),
        Print("label"), PassThrough(), RepartitionFilter(), TableToStream(),
    )),
    *fold_blocks(),
]  # fmt: skip


@pytest.mark.parametrize(("name", "block"), BLOCKS)
def test_blocks_declare_what_they_write(name: str, block: Block) -> None:
    """Declared names are compared with those in the parsed lines."""
    lines = "\n ".join(block.render(str, "return"))
    loads, stores = set[str](), set[str]()
    for node in ast.walk(ast.parse(f"def function(key, value, timestamp, headers):\n {lines}")):
        if isinstance(node, ast.Name):
            (stores if isinstance(node.ctx, ast.Store) else loads).add(node.id)
    names = {"key", "value", "timestamp", "headers"}
    assert stores & names == block.writes
    assert set(block.objects) <= loads
    assert not set(block.objects) & names


class Keeping(ks.Processor):
    """Keeps each record in a store, and passes it on."""

    def __init__(self, name: str) -> None:
        self.name = name

    def init(self, context: ks.ProcessorContext) -> None:
        """Find the store."""
        self.context = context
        self.store: Any = context.get_state_store(self.name)

    def process(self, record: ks.Record) -> None:
        """Keep and forward the record."""
        self.store.put(record.key, record.value)
        self.context.forward(record)


NAMES = st.text(st.characters(exclude_characters="\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), min_size=1)


@given(NAMES, NAMES)
@example('"' * 3 + "\\", "'{}\n#\ud800\x00")
@example("out\" + __import__('os')._exit(1) + r\"", "\N{RIGHT-TO-LEFT OVERRIDE}")
def test_names_are_data_in_generated_code(topic: str, node: str) -> None:
    """Whatever characters names of topics, nodes and stores have, records arrive there."""
    topology = ks.Topology().add_source("source" + node, "in" + topic)
    topology.add_processor("p" + node, lambda: Keeping("store" + node), "source" + node)
    topology.add_state_store(ks.Stores.in_memory_key_value_store("store" + node, value_serde="long"), "p" + node)
    topology.add_sink("sink" + node, "out" + topic, "p" + node)
    driver = ks.TopologyTestDriver(topology)
    driver.pipe([TopicRecord("in" + topic, 0, at, at, "k", at) for at in range(3)])
    assert [0, 1, 2] == [record.value for record in driver.create_output_topic("out" + topic).read_records()]
    assert 2 == driver.get_key_value_store("store" + node).get("k")
    run = ks.replay(topology, ks.Sample.from_records([("in" + topic, 0, 0, 0, "k", 7)]))
    assert [7] == [record.value for record in run.output("out" + topic)]


if __name__ == "__main__":
    for case in CASES:
        (GOLDEN / f"{case}.py.txt").write_text(generated(case))
