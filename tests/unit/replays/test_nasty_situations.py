"""Explanations of difficult cases: joins of every kind, waiting records, unreadable bytes, silent topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.errors import EngineError
from kstreamnb.replays.replay import Replay
from kstreamnb.replays.replay_sample import replay

Row = tuple[str, Any, Any, int]


def ran(build: Callable[[ks.StreamsBuilder], Any], *rows: Row, partitions: int = 1, **options: Any) -> Replay:
    """Replay (topic, key, value, time) rows through the topology that a function declares."""
    builder = ks.StreamsBuilder("app")
    build(builder)
    records = [ks.TopicRecord(topic, -1, -1, at, key, value) for topic, key, value, at in rows]
    return replay(builder.build(), records, partitions, **options)


def outer(builder: ks.StreamsBuilder) -> None:
    """An outer join of two streams with grace."""
    near = ks.JoinWindows.of(difference="10ms", grace="5ms")
    builder.stream("l").outer_join(builder.stream("r"), lambda a, b: [a, b], near).to("out")


def foreign(builder: ks.StreamsBuilder) -> None:
    """Orders joined with their customers."""
    orders, customers = builder.table("orders"), builder.table("customers", store="customers")
    orders.join(customers, lambda a, b: [a, b], foreign_key=lambda order: order["customer"]).to_stream().to("out")


def tables(builder: ks.StreamsBuilder) -> None:
    """Two tables with the same keys."""
    left, right = builder.table("a", store="as"), builder.table("b", store="bs")
    left.join(right, lambda a, b: [a, b]).to_stream().to("out")


def test_an_outer_join_waits_for_a_partner_until_none_can_come() -> None:
    """The sum of its time, its reach and grace; a millisecond earlier it waits, then it is emitted unmatched."""
    rows: tuple[Row, ...] = (("l", "a", 1, 0), ("r", "b", 2, 30))
    (_, held) = ran(outer, ("l", "a", 1, 20), rows[1]).why_open()
    assert (
        "is emitted alone at stream time 46 (30 + window 10ms + grace 5ms + 1ms), and stream time there is 30"
        in held.answer
    )
    assert {"stream_time_ms": 30, "due_ms": 46, "missing_ms": 16} == held.numbers
    early, due = (ran(outer, ("r", "b", 2, 30), ("l", "z", 0, time)) for time in (45, 46))
    assert [] == early.output("out")
    assert [[None, 2]] == [record.value for record in due.output("out")]
    assert 2 == str(early.why_no_output("out")).count("1 record is held back at outer_join")


def test_a_window_of_a_key_without_a_hash_is_explained() -> None:
    """A JSON list as a key is a list in Python."""
    builder = ks.StreamsBuilder("lists")
    windows = ks.TimeWindows.of_size_and_grace("1m", "0s")
    builder.stream("in", key_serde="json").group_by_key().windowed_by(windows).count(store="counts")
    (answer,) = replay(builder.build(), {"in": [([1, 2], "x", 5)]}).why_open()
    assert answer.answer.startswith("window [0, 60000) of key [1, 2] is open")


def test_a_row_without_its_foreign_row_is_named_with_both_keys() -> None:
    """No such customer; a null one; and a customer without orders."""
    run = ran(
        foreign,
        ("orders", "o1", {"customer": "ann"}, 0),
        ("orders", "o2", {"customer": None}, 1),
        ("customers", "bob", {"name": "Bob"}, 2),
    )
    missing, unwanted = run.why_no_match()
    assert 'row of key "o1" with foreign key "ann" at 0 found no row in table customers' in missing.answer
    assert 'no row had the foreign key "bob" when the row of key "bob" at 2 reached' in unwanted.answer
    assert "its foreign key is null" in run.why_dropped()[0].answer
    assert "no row of the other table had this foreign key (see why_no_match)" in str(run.why_no_output("out"))
    assert [missing] == list(run.why_no_match(key="o1"))


def test_rows_of_two_tables_are_missed_on_either_side() -> None:
    """Each answer names the table that was looked up and its row."""
    run = ran(tables, ("a", "k", 1, 0), ("b", "j", 1, 0))
    left, right = run.why_no_match()
    assert 'no row for key "k" ever arrived; the table held nothing' in left.answer
    assert 'no row for key "j" ever arrived; the table held the key "k"' in right.answer
    assert "there was no row of its key in the other table" in run.why_no_output("out").answer
    assert "every record that reached a join found a partner" != str(run.why_no_match())


@pytest.mark.parametrize("cache", [False, True])
def test_a_row_is_found_whether_or_not_it_is_in_the_cache(cache: bool) -> None:
    """A row in a table's cache counts as a row."""

    def build(builder: ks.StreamsBuilder) -> None:
        builder.stream("s").join(builder.table("t", store="rows"), lambda a, b: a + b).to("out")

    run = ran(build, ("t", "k", 1, 0), ("s", "k", 2, 1), ("s", "z", 2, 2), cache=cache)
    assert ["z"] == [record.key for record in (run.steps[found.steps[0] - 1].record for found in run.why_no_match())]  # type: ignore[union-attr]


def test_a_versioned_table_is_asked_as_of_a_time() -> None:
    """The version came later; a record that waits for its table is held back; another key never came."""

    def build(builder: ks.StreamsBuilder) -> None:
        store = ks.Stores.persistent_versioned_key_value_store("versions", history="1m")
        stream = builder.stream("s")
        stream.join(builder.table("t", store=store), lambda a, b: [a, b], grace="10ms").to("out")

    run = ran(build, ("t", "k", 1, 5), ("s", "k", 5, 2), ("s", "k", 5, 20), ("s", "q", 1, 1))
    early, never = run.why_no_match()
    assert "it looks for the version that was valid at 2; the one of 5 came 3ms later" in early.answer
    assert 'no row for key "q" ever arrived; the table held the key "k"' in never.answer
    (waits,) = run.why_open()
    assert "it is joined at stream time 30 (20 + grace 10ms), and stream time there is 20" in waits.answer
    why = run.why_no_output("out")
    assert "1 record is held back at join" in why.answer
    assert "2 records stopped at join" in why.because[0]


def test_a_suppression_by_time_says_when_it_gives_a_change() -> None:
    """The change is emitted at the stated time, and not before."""

    def build(builder: ks.StreamsBuilder) -> None:
        limit = ks.Suppressed.until_time_limit("1m", ks.BufferConfig.unbounded())
        builder.table("in").suppress(limit).to_stream().to("out")

    (held,) = ran(build, ("in", "k", 1, 7)).why_open()
    assert 60_007 == held.numbers["due_ms"]
    assert [] == ran(build, ("in", "k", 1, 7), ("in", "j", 1, 60_006)).output("out")
    assert ["k"] == [record.key for record in ran(build, ("in", "k", 1, 7), ("in", "j", 1, 60_007)).output("out")]


def test_a_record_that_is_too_old_for_a_store_names_the_retention_that_would_keep_it() -> None:
    """The answer has both numbers; with the suggested retention the record is kept."""

    class Old(ks.Processor):
        def init(self, context: Any) -> None:
            self.store = context.get_state_store("w")

        def process(self, record: ks.Record) -> None:
            self.store.put(record.key, record.value, record.timestamp)

    def drops(retention: str) -> Any:
        builder = ks.StreamsBuilder("old")
        windows = ks.Stores.persistent_window_store("w", retention=retention, window_size="10ms")
        builder.add_state_store(ks.Stores.window_store_builder(windows, ks.Serdes.string(), ks.Serdes.json()))
        builder.stream("in").process(Old, "w")
        records = [ks.TopicRecord("in", 0, -1, at, "k", at) for at in (0, 1_000_000, 5)]
        return replay(builder.build(), records).why_dropped()

    (found,) = drops("20ms")
    assert "stream time 1000000 − retention 20ms = 999980 is after 5" in found.answer
    assert "a retention of 16m39s995ms instead of 20ms would have kept it" == found.remedy
    assert [] == list(drops("999995ms"))


def test_bytes_that_cannot_be_read_name_the_serdes() -> None:
    """With "continue" nothing fails, and the record is among the drops, without a step."""

    def build(builder: ks.StreamsBuilder) -> None:
        builder.stream("in", value_serde=ks.Serdes.long()).to("out")

    config = {"deserialization_handler": "continue"}
    records = ks.Sample.from_text("topic | key | value\nin | k | 3\nin | k | undecoded:616263")
    builder = ks.StreamsBuilder("app")
    build(builder)
    (found,) = replay(builder.build(), records, config=config).why_dropped()
    assert "in-0@1" in found.answer
    assert "value the bytes 616263" in found.answer
    assert 'serdes of key and value, string and long: serde "long" cannot read 3 bytes' in found.answer
    assert () == found.steps


def test_a_topic_of_a_table_that_never_got_a_record_is_named() -> None:
    """It is on no path to the output, but a join reads it."""

    def build(builder: ks.StreamsBuilder) -> None:
        builder.stream("a").join(builder.global_table("t"), lambda _, v: v, lambda v, row: row).to("out")

    assert 'topic "t" got no record' in ran(build, ("a", "k", "id", 0)).why_no_output("out").because
    nothing = ran(build)
    assert 'nothing was written to "out": topic "a" got no record and topic "t" got no record' in str(
        nothing.why_no_output("out")
    )
    assert "no record reached a join" == str(nothing.why_no_match())


def test_a_partitioner_of_ones_own_shows_where_records_really_were() -> None:
    """The partition that Kafka's partitioner would choose, and the one of this run."""

    def build(builder: ks.StreamsBuilder) -> None:
        stream = builder.stream("in").repartition(name="x", partitions=3, partitioner=lambda *_: 1)
        stream.group_by_key().count(store="n").to_stream().to("out")

    run = ran(build, ("in", "k", 1, 0), partitions=3)
    (found,) = run.why_partition("k", "app-x-repartition")
    assert (2, [1]) == (found.numbers["partition"], found.numbers["seen"])
    assert any("records were in partition 1; Kafka's partitioner would choose 2" in fact for fact in found.because)


def test_what_is_not_there_is_said_with_what_is() -> None:
    """Questions about misspelt nodes, stores and joins."""
    run = ran(tables, ("a", "k", 1, 0))
    for ask, name in (
        (run.why_open, "store"),
        (lambda wrong: run.why_no_match(wrong), "join"),
        (lambda wrong: run.why_dropped(node=wrong), "node"),
    ):
        with pytest.raises(EngineError, match=f'{name} "wrong" does not exist'):
            ask("wrong")
    with pytest.raises(EngineError, match='no cut is at topic "wrong"'):
        run.why_cut("wrong")
