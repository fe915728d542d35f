"""A shop: products that run low are ordered once, prices follow demand."""

from __future__ import annotations

from typing import Any

import pytest

import kstreamnb as ks
from tests.semantics.scenario import Engine, Row, Scenario


def price_changes() -> ks.Topology:
    """A product sold six times or more within ten minutes costs ten per cent more."""
    builder = ks.StreamsBuilder()
    prices = builder.table("prices")
    windows = ks.TimeWindows.of(size="10m")
    demand = builder.stream("sales").group_by_key().windowed_by(windows).reduce(lambda total, pieces: total + pieces)
    high = demand.to_stream(lambda window, pieces: window.key).filter(lambda product, pieces: pieces >= 6)
    high.join(prices, lambda pieces, price: price * 11 // 10).to("price-changes")
    return builder.build()


def test_high_demand_raises_the_price_of_what_has_one(engine: Engine) -> None:
    """S1-29: apples go from 100 to 110; pears have no price; five apples in the next ten minutes are not enough."""
    rows = (
        Row("prices", "apple", 100, 0),
        Row("sales", "apple", 3, 1_000),
        Row("sales", "apple", 4, 2_000),
        Row("sales", "pear", 9, 3_000),
        Row("sales", "apple", 5, 600_000),
    )
    engine.check(Scenario(price_changes, rows, {"price-changes": [("apple", 110, 2_000)]}))


def total(_product: str, pieces: int, sum_: int) -> int:
    """One more arrival."""
    return sum_ + pieces


def less(_product: str, pieces: int, sum_: int) -> int:
    """One more departure."""
    return sum_ - pieces


def reorders(once: bool) -> ks.Topology:
    """Order up to twenty when stock falls below five; ``once``: unless an order is already in transit."""
    builder = ks.StreamsBuilder()
    arrived, sold = builder.stream("shipments").group_by_key(), builder.stream("sales").group_by_key()
    ordered = builder.stream("orders").group_by_key()
    on_hand = arrived.cogroup(total).cogroup(sold, less).aggregate(int, store="on-hand")
    on_order = ordered.cogroup(total).cogroup(arrived, less).aggregate(int, store="on-order")
    low = on_hand.to_stream().filter(lambda product, pieces: pieces < 5)
    if once:
        both = low.left_join(on_order, lambda pieces, coming: (pieces, max(coming or 0, 0)))
        low = both.filter(lambda product, each: each[1] == 0).map_values(lambda each: each[0])
    low.map_values(lambda pieces: 20 - pieces).to("orders")
    return builder.build()


LOW = (
    Row("shipments", "apple", 10, 0),
    Row("sales", "apple", 3, 1_000),
    Row("sales", "apple", 4, 2_000),
    Row("sales", "apple", 1, 2_500),
)


@pytest.mark.parametrize(("once", "orders"), [(True, [17]), (False, [17, 18])])
def test_what_is_on_order_is_not_ordered_again(once: bool, orders: list[int]) -> None:
    """S1-30: with the table of pending orders the second low sale orders nothing; without it the order is repeated."""
    driver = ks.TopologyTestDriver(reorders(once))
    for row in LOW:
        driver.create_input_topic(row.topic).pipe_input(row.key, row.value, at=row.timestamp)
    assert orders == driver.create_output_topic("orders").read_values_to_list()


# --- S2-41 --------------------------------------------------------------------------------------------------------
def test_a_left_join_of_tables_keeps_rows_without_a_match(engine: Engine) -> None:
    """S2-41: the joiner gets None for a missing row."""

    def labeled() -> ks.Topology:
        builder = ks.StreamsBuilder()
        joined = builder.table("stock").left_join(builder.table("prices"), lambda pieces, price: [pieces, price])
        joined.to_stream().to("labels")
        return builder.build()

    rows = (Row("stock", "apple", 3, 0), Row("stock", "pear", 5, 1), Row("prices", "apple", 100, 2))
    expected: list[Any] = [("apple", [3, None], 0), ("pear", [5, None], 1), ("apple", [3, 100], 2)]
    engine.check(Scenario(labeled, rows, {"labels": expected}))
