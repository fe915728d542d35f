"""Declarations: the order of their replay, identities in notebooks, staleness and removal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb import head, hooks
from kstreamnb.core.record import TopicRecord
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.declarations import DeclarationLog, Identities, Identity
from kstreamnb.errors import TopologyError
from kstreamnb.tools.preview import upstream_part, upstream_topology


class Cells(Identities):
    """Simulates a notebook: a cell's run, and within it the n-th call of each method, form an identity."""

    def __init__(self) -> None:
        self.logs: dict[str | None, DeclarationLog] = {}
        self.cell: str | None = None
        self.runs = 0
        self.counts: dict[str, int] = {}
        self.before: dict[Any, Any] = {}

    def run(self, cell: str) -> Cells:
        self.cell, self.runs, self.counts = cell, self.runs + 1, {}
        for log in self.logs.values():
            self.before |= {each.identity[::2]: each for each in log.declarations() if each.identity.group == cell}
            log.begin(cell, self.runs)
        return self

    def settle(self, log: DeclarationLog) -> None:
        now = {each.identity[::2]: each for each in log.declarations()}
        gone = {key: each for key, each in self.before.items() if key in now and now[key] is not each}
        log.succeed({each: now[key] for key, each in gone.items()})

    def outdated(self, log: DeclarationLog) -> dict[Any, str]:
        return {}

    def declaration_log(self, name: str | None) -> DeclarationLog | None:
        return self.logs.get(name)

    def opened(self, log: DeclarationLog) -> None:
        self.logs[log.name] = log

    def identity(self, log: DeclarationLog, word: str) -> Identity | None:
        if self.cell is None:
            return None
        self.counts[word] = self.counts.get(word, -1) + 1
        return Identity(self.cell, self.runs, (word, self.counts[word]))


@pytest.fixture
def cells() -> Iterator[Cells]:
    """A notebook."""
    notebook = Cells()
    hooks.install(identities=notebook)
    yield notebook
    hooks.install(identities=None)


def names(builder: StreamsBuilder) -> list[str]:
    return list(builder.build().nodes)


def even(key: Any, value: int) -> bool:
    return value % 2 == 0


def large(key: Any, value: int) -> bool:
    return value > 10


def test_outside_notebooks_every_call_declares_something_new() -> None:
    """The same call twice is two operators, as in Java."""
    builder = StreamsBuilder()
    orders = builder.stream("orders")
    orders.filter(even)
    orders.filter(even)
    assert names(builder) == ["KSTREAM-SOURCE-0000000000", "KSTREAM-FILTER-0000000001", "KSTREAM-FILTER-0000000002"]


def test_a_cell_that_runs_again_changes_its_declaration_and_later_handles_follow(cells: Cells) -> None:
    """Editing a predicate and running only its cell updates everything downstream."""
    cells.run("1")
    builder = StreamsBuilder("shop")
    orders = builder.stream("orders")
    cells.run("2")
    clean = orders.filter(even)
    cells.run("3")
    doubled = clean.map_values(lambda value: value * 2)
    assert head(doubled, {"orders": [("a", 4), ("b", 13)]}) == [("a", 8, 0)]
    cells.run("2")
    clean = orders.filter(large)
    assert head(doubled, {"orders": [("a", 4), ("b", 13)]}) == [("b", 26, 1)]
    assert names(builder) == ["KSTREAM-SOURCE-0000000000", "KSTREAM-FILTER-0000000001", "KSTREAM-MAPVALUES-0000000002"]


def test_running_the_builders_cell_again_keeps_the_other_cells_declarations(cells: Cells) -> None:
    """A builder created again by the same cell continues the old one."""
    cells.run("1")
    orders = StreamsBuilder("shop").stream("orders")
    cells.run("2")
    orders.filter(even).to("even")
    cells.run("1")
    builder = StreamsBuilder("shop")
    builder.stream("orders-2")
    assert builder.build().sources()[0].topics == ("orders-2",)
    assert len(builder.declarations()) == 3


def test_a_new_operator_in_an_earlier_cell_is_numbered_as_in_the_final_program(cells: Cells) -> None:
    """Numbers follow cells and lines, not the history of edits."""
    cells.run("1")
    builder = StreamsBuilder("shop")
    orders = builder.stream("orders")
    cells.run("2")
    clean = orders.filter(even)
    cells.run("3")
    clean.to("even")
    cells.run("2")
    orders.peek(print).filter(even)
    assert names(builder) == [
        "KSTREAM-SOURCE-0000000000",
        "KSTREAM-PEEK-0000000001",
        "KSTREAM-FILTER-0000000002",
        "KSTREAM-SINK-0000000003",
    ]


def test_what_loses_its_parent_is_stale_and_named_with_its_place(cells: Cells) -> None:
    """The error of build names the stale declaration and the missing one."""
    cells.run("1")
    builder = StreamsBuilder("shop")
    orders = builder.stream("orders")
    cells.run("2")
    clean = orders.filter(even)
    cells.run("3")
    clean.to("even")
    cells.run("2")
    other = orders.map_values(str)
    with pytest.raises(TopologyError, match="1 declaration is stale") as caught:
        builder.build()
    assert '"to" (test_declarations.py, line' in str(caught.value)
    assert 'was made from "filter" (test_declarations.py, line' in str(caught.value)
    assert list(upstream_topology(other).nodes) == [
        "KSTREAM-SOURCE-0000000000",
        "KSTREAM-MAPVALUES-0000000001",
        "preview-sink",
    ]


def test_forgetting_makes_stale_what_hangs_below_until_that_is_forgotten_too() -> None:
    """Forget removes declarations one by one."""
    builder = StreamsBuilder()
    orders = builder.stream("orders")
    clean = orders.filter(even)
    doubled = clean.map_values(str)
    builder.forget(clean)
    with pytest.raises(TopologyError, match="stale"):
        builder.build()
    builder.forget(doubled)
    assert names(builder) == ["KSTREAM-SOURCE-0000000000"]


def test_handles_of_two_builders_do_not_meet() -> None:
    """A join or merge across builders is refused."""
    left, right = StreamsBuilder("a").stream("left"), StreamsBuilder("b").stream("right")
    with pytest.raises(TopologyError, match="two builders"):
        left.merge(right)


def test_a_preview_has_the_names_of_the_whole_topology() -> None:
    """Only upstream declarations run, under their final names."""
    builder = StreamsBuilder()
    builder.stream("other").filter(even).to("elsewhere")
    counts = builder.stream("orders").group_by_key().count()
    assert list(upstream_topology(counts).nodes) == [
        "KSTREAM-SOURCE-0000000003",
        "KSTREAM-AGGREGATE-0000000005",
        "preview-stream",
        "preview-sink",
    ]


def test_a_mistake_elsewhere_does_not_hinder_a_preview() -> None:
    """Declarations unconnected to the handle may be invalid."""
    builder = StreamsBuilder()
    clean = builder.stream("orders").filter(even)
    builder.global_table("g", store="g", versioned="1s")
    with pytest.raises(TopologyError):
        builder.build()
    assert head(clean, {"orders": [("a", 2)]}) == [("a", 2, 0)]


def test_a_grouped_table_has_nothing_to_preview() -> None:
    """Its records are pairs of an old and a new row, which only an aggregation can use."""
    grouped = StreamsBuilder().table("orders").group_by(lambda key, value: (value, key))
    with pytest.raises(TopologyError, match="has no records"):
        upstream_topology(grouped)
    assert list(upstream_part(grouped).nodes)[-1].startswith("KTABLE-SELECT")


def test_a_grouped_stream_previews_the_records_that_it_groups() -> None:
    """Windowed and grouped handles hold no rows: their input is shown."""
    builder = StreamsBuilder()
    grouped = builder.stream("orders").group_by_key()
    builder.sample = [TopicRecord("orders", 0, 0, 5, "a", 1)]
    for handle in (grouped, grouped.windowed_by(ks.TimeWindows.of_size_with_no_grace("1s"))):
        assert [record.value for record in handle.head().records] == [1]


def test_a_preview_of_nulls_says_where_they_come_from() -> None:
    """An aggregator that changes its aggregate and returns nothing leaves the table empty."""
    builder = StreamsBuilder()
    grouped = builder.stream("orders").group_by_key()
    builder.sample = [TopicRecord("orders", 0, 0, 5, "a", 1)]
    said = "Every value is null: a function that returns nothing gives null."
    for aggregator, notes in ((lambda key, value, all_: all_.append(value), [said]), (lambda *values: values, [])):
        assert [*grouped.aggregate(list, aggregator).head().more()] == notes


def test_a_global_table_previews_the_changes_of_its_topic() -> None:
    """Inserts, updates as pairs of the old and the new row, and deletions."""
    builder = StreamsBuilder()
    prices = builder.global_table("prices")
    values = (3, 4, None, None)
    builder.sample = [TopicRecord("prices", 0, at, at, "p", value) for at, value in enumerate(values)]
    rows = [row[:3] for row in prices.head().table()]
    assert rows == [("+I", '"p"', "3"), ("-U", '"p"', "3"), ("+U", '"p"', "4"), ("-D", '"p"', "4")]
