"""Functions that read a field no record has are reported before they run."""

from __future__ import annotations

from typing import Any

import kstreamnb as ks

SAMPLE = ks.Sample.from_records([("orders", 0, 0, 0, "a", {"who": "ann", "amount": 5, "price": 3})])


def facts(builder: ks.StreamsBuilder, sample: ks.Sample = SAMPLE) -> list[tuple[str, str]]:
    """Return the findings about fields, with their remedies."""
    issues = ks.testing.check(builder.build(), sample=sample)
    return [(each.fact, each.remedy) for each in issues if "reads the field" in each.fact]


def test_a_mistyped_field_is_named_with_the_one_probably_meant() -> None:
    """The function is not run: a runtime error would come later and only for the first record."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("orders").filter(lambda key, value: value["amuont"] > 3).to("out")
    assert facts(builder) == [
        ('it reads the field "amuont", which no record of "orders" in the sample has', 'did you mean "amount"?')
    ]


def test_get_is_looked_at_too() -> None:
    """It returns None for every record, without an error."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("orders").map_values(lambda value: value.get("colour")).to("out")
    assert facts(builder)[0][1] == "the fields are who, amount and price"


def test_an_aggregate_behind_a_repartition_is_checked() -> None:
    """Grouping changes keys and topics, not values."""
    builder = ks.StreamsBuilder("shop")
    by_name = builder.stream("orders").group_by(lambda key, value: value["who"])
    by_name.aggregate(lambda: 0, lambda key, value, total: total + value["amont"], store="totals")
    assert [remedy for _, remedy in facts(builder)] == ['did you mean "amount"?']


def test_behind_a_change_of_values_nothing_is_claimed() -> None:
    """The result of map_values is unknown without a run."""
    builder = ks.StreamsBuilder("shop")
    made = builder.stream("orders").map_values(lambda value: {"total": value["amount"]})
    made.filter(lambda key, value: value["total"] > 3).to("out")
    assert facts(builder) == []


def test_the_merger_of_sessions_takes_aggregates() -> None:
    """Their fields are not those of records; the aggregator beside it is checked."""
    adders = (lambda key, order, total: {"sum": total["sum"] + order["amount"]}, lambda key, order, _: order["amuont"])
    for adder, found in zip(adders, (0, 1), strict=True):
        builder = ks.StreamsBuilder("shop")
        sessions = builder.stream("orders").group_by_key().windowed_by(ks.SessionWindows.of("5m"))
        sessions.aggregate(lambda: {"sum": 0}, adder, lambda key, left, right: {"sum": left["sum"] + right["sum"]})
        assert found == len(facts(builder))


def test_keys_globals_and_other_names_are_not_values() -> None:
    """Only the parameter that holds the value counts."""
    prices: dict[str, Any] = {"hat": 3}
    builder = ks.StreamsBuilder("shop")
    builder.stream("orders").filter(lambda key, value: key["shop"] or prices["hat"] < value["price"]).to("out")
    assert facts(builder) == []


def test_values_that_are_no_dicts_are_left_alone() -> None:
    """Text and numbers have no fields."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("orders").filter(lambda key, value: value["n"]).to("out")
    assert facts(builder, ks.Sample.from_records([("orders", 0, 0, 0, "a", "text")])) == []
