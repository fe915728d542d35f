"""Comparing outputs, and previews."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.errors import ConfigError
from kstreamnb.replays.preview import preview
from kstreamnb.replays.replay_sample import replay
from kstreamnb.tools.preview import upstream_topology
from kstreamnb.validation.output_diff import diff


def records(*values: Any, topic: str = "out") -> list[ks.TopicRecord]:
    """Records with these values, a millisecond apart."""
    return [ks.TopicRecord(topic, 0, at, at, "k", value) for at, value in enumerate(values)]


def doubled(by: int) -> Any:
    """A replay of numbers times a factor."""
    builder = ks.StreamsBuilder()
    builder.stream("in").map_values(lambda value: value * by).to("out")
    return replay(builder.build(), records(1, 2, 3, topic="in"))


def test_equal_outputs_have_no_difference() -> None:
    """The order of a dict's keys does not matter."""
    found = diff(records({"a": 1, "b": 2}), records({"b": 2, "a": 1}))
    assert (0, 1) == (len(found), found.equal)
    assert not diff(doubled(2), doubled(2))


def test_all_differing_rows_are_shown_not_only_the_first() -> None:
    """A missing record does not make all later ones differ in value."""
    found = diff({"out": [("k", "a", 0), ("k", "b", 1), ("k", "c", 2)]}, {"out": [("k", "a", 0), ("k", "c", 2)]})
    assert [("-", 1, "b")] == [(row.kind, row.index, row.record.value) for row in found]
    assert 2 == found.equal


def test_replays_are_compared_by_topic_and_partition() -> None:
    """Every changed value is a row of each run."""
    found = diff(doubled(2), doubled(3))
    assert [("-", 2), ("-", 4), ("-", 6), ("+", 3), ("+", 6), ("+", 9)] == sorted(
        ((row.kind, row.record.value) for row in found), key=lambda row: (row[0] == "+", row[1])
    )
    assert not diff(doubled(2), doubled(3), topics=["elsewhere"])


def test_a_difference_shows_both_rows_and_whose_they_are() -> None:
    """The rows of both runs are shown side by side."""
    found = str(diff([("k", 1, 0)], [("k", 2, 0)]))
    assert "outputs differ in 2 rows" in found
    assert '"-": only first, "+": only second' in found


def test_long_outputs_are_compared_row_by_row() -> None:
    """Beyond the matching limit, rows are compared by position."""
    one = [("k", n, n) for n in range(5_000)]
    other = [("k", -n if n == 4_000 else n, n) for n in range(5_000)]
    assert [4_000, -4_000] == [row.record.value for row in diff(one, other)]


def test_a_preview_shows_the_first_of_all_records() -> None:
    """Objects that no serde could write are shown as they are; the number of records is stated."""
    builder = ks.StreamsBuilder()
    dates = builder.stream("in").filter(lambda _, n: n % 2 == 0).map_values(lambda n: dt.date(2020, 1, n + 1))
    found = preview(upstream_topology(dates), records(*range(10), topic="in"), 2)
    assert [dt.date(2020, 1, 1), dt.date(2020, 1, 3)] == [record.value for record in found.records]
    assert "2 of 5 records, from 10 input records" == found.title


def test_a_preview_runs_across_repartition_topics_and_tables() -> None:
    """Counts after a change of key, on several partitions."""
    builder = ks.StreamsBuilder()
    counts = builder.stream("in").group_by(lambda _, n: str(n % 3)).count()
    sample = [record._replace(partition=n % 2) for n, record in enumerate(records(*range(7), topic="in"))]
    found = preview(upstream_topology(counts), sample, 10)
    assert 2 == found.partitions
    assert 7 == found.total
    assert 3 == max(record.value for record in found.records)


def test_one_word_compares_topologies_and_runs() -> None:
    """`ks.testing.diff` takes two replays, or two topologies, but not one of each."""
    rows = ks.testing.diff(doubled(2), doubled(3), topics=["out"])
    assert ["-", "-", "-", "+", "+", "+"] == sorted((row.kind for row in rows), key="-+".index)
    assert "outputs differ in 6 rows" in str(rows)
    one, other = ks.StreamsBuilder(), ks.StreamsBuilder()
    one.stream("in").to("out")
    other.stream("in").to("elsewhere")
    assert 'sink "KSTREAM-SINK-0000000001": topic: out -> elsewhere' in str(ks.testing.diff(one.build(), other.build()))
    with pytest.raises(ks.errors.ConfigError, match="expected two topologies or two outputs"):
        ks.testing.diff(one.build(), doubled(2))


@pytest.mark.parametrize("wrong", ["k1", ("k",), 5])
def test_what_is_no_record_is_refused_in_words(wrong: Any) -> None:
    """Text would otherwise be read as a key and a value of one letter each."""
    with pytest.raises(ConfigError, match=r"each record must be a TopicRecord or \(key, value, timestamp\), got"):
        diff([("k", 1)], [wrong])


def test_a_tuple_equals_the_list_that_json_makes_of_it() -> None:
    """They would be shown alike."""
    assert not diff([("k", (1, 2))], [("k", [1, 2])])
