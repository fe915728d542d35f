"""Counting and folding in typical uses: clicks, words, inventories, streams and tables of the same records."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kstreamnb as ks
from tests.semantics.scenario import Engine, Row, Scenario, records


# --- S0-60 --------------------------------------------------------------------------------------------------------
def word_count() -> ks.Topology:
    """Count how often each word occurs."""
    builder = ks.StreamsBuilder("x")
    words = builder.stream("text").flat_map_values(str.split)
    words.group_by(lambda key, word: word).count(store="counts").to_stream().to("counts")
    return builder.build()


WORDS = Scenario(
    word_count,
    (Row("text", None, "the duck and the stream", 0), Row("text", None, "the duck", 1)),
    {
        "counts": [
            ("the", 1, 0),
            ("duck", 1, 0),
            ("and", 1, 0),
            ("the", 2, 0),
            ("stream", 1, 0),
            ("the", 3, 1),
            ("duck", 2, 1),
        ]
    },
)


def test_every_word_is_an_update_of_its_count(engine: Engine) -> None:
    """S0-60: without a cache each word causes one update, in the order of the text."""
    assert {"the": 3, "duck": 2, "and": 1, "stream": 1} == engine.check(WORDS).store("counts")


# --- S1-13, S1-15 -------------------------------------------------------------------------------------------------
def stream_and_table() -> ks.Topology:
    """The sum of the same records, read as a stream and, from another topic, as a table."""
    builder = ks.StreamsBuilder()
    sums = builder.stream("inserts").group_by(lambda key, value: "sum").reduce(operator.add)
    sums.to_stream().to("stream-sum")
    rows = builder.table("updates").group_by(lambda key, value: ("sum", value))
    rows.reduce(operator.add, operator.sub).to_stream().to("table-sum")
    return builder.build()


SAME = [("a", 10), ("b", 5), ("a", 7), ("b", None)]
DUALITY = Scenario(
    stream_and_table,
    tuple(Row(topic, key, value, t) for t, (key, value) in enumerate(SAME) for topic in ("inserts", "updates")),
    {
        "stream-sum": [("sum", 10, 0), ("sum", 15, 1), ("sum", 22, 2)],
        "table-sum": [("sum", 10, 0), ("sum", 15, 1), ("sum", 12, 2), ("sum", 7, 3)],
    },
)


def test_a_stream_is_inserts_and_a_table_is_updates_of_the_same_records(engine: Engine) -> None:
    """S1-15: the stream adds all values and skips nulls; the table subtracts the previous row."""
    engine.check(DUALITY)


def table_as_stream() -> ks.Topology:
    """A table and its updates."""
    builder = ks.StreamsBuilder()
    builder.table("in", store="rows").to_stream().to("out")
    return builder.build()


@pytest.mark.parametrize(
    ("steps", "rows"),
    [
        (1, {"key1": "value1"}),
        (2, {"key1": "value1", "key2": "value2"}),
        (3, {"key1": "value3", "key2": "value2"}),
        (4, {"key1": "value3"}),
    ],
)
def test_a_log_is_a_table_at_every_time(engine: Engine, steps: int, rows: dict[str, str]) -> None:
    """S1-13, S2-42: each record changes one row and is an update downstream; a null deletes."""
    log = records("in: key1→value1@0, key2→value2@1, key1→value3@2, key2→@3")[:steps]
    outcome = engine.check(
        Scenario(table_as_stream, log, {"out": [(row.key, row.value, row.timestamp) for row in log]})
    )
    assert rows == outcome.store("rows")


# --- S1-20 --------------------------------------------------------------------------------------------------------
def clicks() -> ks.Topology:
    """Clicks of each user."""
    builder = ks.StreamsBuilder()
    builder.stream("clicks").group_by_key().count(store="clicks-per-user").to_stream().to("counts")
    return builder.build()


CLICKS = Scenario(
    clicks,
    records("clicks: u1→x@5000, u2→x@6000, u2→x@8000, u2→x@9500, u1→x@10000, u1→x@10001"),
    {
        "counts": [
            ("u1", 1, 5000),
            ("u2", 1, 6000),
            ("u2", 2, 8000),
            ("u2", 3, 9500),
            ("u1", 2, 10000),
            ("u1", 3, 10001),
        ]
    },
)


def test_a_count_is_the_changelog_of_its_table(engine: Engine) -> None:
    """S1-20: each click is one update, in the order of the clicks."""
    assert {"u1": 3, "u2": 3} == engine.check(CLICKS).store("clicks-per-user")


def counted_by_hand() -> ks.Topology:
    """The same as an aggregate from 0 by 1."""
    builder = ks.StreamsBuilder()
    counts = builder.stream("clicks").group_by_key().aggregate(int, lambda k, v, n: n + 1, store="clicks-per-user")
    counts.to_stream().to("counts")
    return builder.build()


def test_a_count_is_an_aggregate_from_zero_by_one(engine: Engine) -> None:
    """S2-40: equal outputs and equal rows."""
    by_hand = engine.check(Scenario(counted_by_hand, CLICKS.input, CLICKS.output))
    assert engine.run(CLICKS).store("clicks-per-user") == by_hand.store("clicks-per-user")


@pytest.mark.parametrize("build", [clicks, counted_by_hand])
def test_what_comes_out_is_what_the_changelog_says(build: Any) -> None:
    """S1-20, S2-40: keys, values and times are the output's, whether counted or added up by hand."""
    driver = ks.TopologyTestDriver(build(), {"application.id": "app"}, changelogs=True)
    for row in CLICKS.input:
        driver.create_input_topic("clicks").pipe_input(row.key, row.value, at=row.timestamp)
    value = "long" if build is clicks else "json"
    changes = driver.create_output_topic("app-clicks-per-user-changelog", "string", value).read_records()
    assert CLICKS.output["counts"] == [(record.key, record.value, record.timestamp) for record in changes]


# --- S1-27, S1-28 -------------------------------------------------------------------------------------------------
def retail_store() -> ks.Topology:
    """Stock after shipments and sales, and orders when it runs low."""
    builder = ks.StreamsBuilder("retail")
    sales, shipments = builder.stream("sales").group_by_key(), builder.stream("shipments").group_by_key()
    on_hand = (
        shipments.cogroup(lambda product, pieces, total: total + pieces)
        .cogroup(sales, lambda product, pieces, total: total - pieces)
        .aggregate(int, store="inventory-on-hand")
    )
    on_hand.to_stream().to("inventory")
    few = on_hand.to_stream().filter(lambda product, pieces: pieces < 5)
    few.map_values(lambda pieces: 20 - pieces).to("reorders")
    return builder.build()


RETAIL = Scenario(
    retail_store,
    (
        Row("shipments", "apple", 10, 0),
        Row("sales", "apple", 3, 1000),
        Row("sales", "apple", 4, 2000),
        Row("sales", "pear", 1, 3000),
        Row("shipments", "apple", 17, 4000),
        Row("shipments", "pear", 21, 5000),
    ),
    {
        "inventory": [
            ("apple", 10, 0),
            ("apple", 7, 1000),
            ("apple", 3, 2000),
            ("pear", -1, 3000),
            ("apple", 20, 4000),
            ("pear", 20, 5000),
        ],
        "reorders": [("apple", 17, 2000), ("pear", 21, 3000)],
    },
)


def test_two_streams_keep_one_inventory(engine: Engine) -> None:
    """S1-27, S1-28: shipments add, sales subtract, and products running low are ordered."""
    assert {"apple": 20, "pear": 20} == engine.check(RETAIL).store("inventory-on-hand")


# --- S0-15 --------------------------------------------------------------------------------------------------------
def double() -> ks.Topology:
    """A stored table of doubled values."""
    builder = ks.StreamsBuilder()
    builder.table("in", store="source").map_values(lambda value: 2 * value, store="doubled").to_stream().to("out")
    return builder.build()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(-9, 9)), max_size=30))
def test_a_stored_transform_stays_in_step_with_its_source(changes: list[tuple[str, Any]]) -> None:
    """S0-15: after any updates and deletions each row is the function of its source's row, or absent."""
    driver = ks.TopologyTestDriver(double())
    topic = driver.create_input_topic("in")
    for timestamp, (key, value) in enumerate(changes):
        topic.pipe_input(key, value, at=timestamp)
        rows = dict(driver.get_key_value_store("source").all())
        assert {k: 2 * v for k, v in rows.items()} == dict(driver.get_key_value_store("doubled").all())
