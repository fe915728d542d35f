"""Forty small user programs, each with one planted mistake, marked by a comment, that a type checker must find.

Nothing here runs: `test_type_checkers` passes the file to mypy and to basedpyright and compares their reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import kstreamnb as ks


@dataclass
class Order:
    """An order of a shop."""

    item: str
    pieces: int
    customer: str


@dataclass
class Customer:
    """Who buys."""

    name: str
    email: str | None


def orders_of(builder: ks.StreamsBuilder) -> ks.KStream[str, Order]:
    """Orders by number."""
    orders: ks.KStream[str, Order] = builder.stream("orders", key_serde="string", value_serde="json")
    return orders


def customers_of(builder: ks.StreamsBuilder) -> ks.KTable[str, Customer]:
    """Customers by number."""
    customers: ks.KTable[str, Customer] = builder.table("customers", store="customers")
    return customers


# --- records ----------------------------------------------------------------------------------------------------------
def p01_a_predicate_takes_key_and_value(orders: ks.KStream[str, Order]) -> ks.KStream[str, Order]:
    large = orders.filter(lambda key, order: order.pieces > 9)
    return large.filter(lambda order: order.pieces > 9)  # error: a predicate takes (key, value)


def p02_a_value_has_its_fields(orders: ks.KStream[str, Order]) -> None:
    orders.filter(lambda key, order: order.pieces > 9).to("large")
    orders.filter(lambda key, order: order.peices > 9).to("large")  # error: no such field


def p03_map_returns_a_pair(orders: ks.KStream[str, Order]) -> ks.KStream[str, int]:
    by_item = orders.map(lambda key, order: (order.item, order.pieces))
    orders.map(lambda key, order: order.item)  # error: not a pair
    return by_item


def p04_map_values_changes_the_type(orders: ks.KStream[str, Order]) -> ks.KStream[str, int]:
    pieces = orders.map_values(lambda order: order.pieces)
    pieces.map_values(lambda count: count.item)  # error: a number has no field
    return pieces.filter(lambda key, count: count > 1)


def p05_with_key_gives_the_key(orders: ks.KStream[str, Order]) -> ks.KStream[str, str]:
    tagged = orders.map_values(lambda key, order: key + order.item, with_key=True)
    orders.map_values(lambda order: order.item, with_key=True)  # error: the mapper takes the key as well
    return tagged


def p06_without_with_key_there_is_none(orders: ks.KStream[str, Order]) -> None:
    orders.map_values(lambda key, order: key + order.item)  # error: with_key=True is missing


def p07_flat_map_returns_pairs(orders: ks.KStream[str, Order]) -> ks.KStream[str, int]:
    pieces = orders.flat_map(lambda key, order: [(order.item, 1)] * order.pieces)
    orders.flat_map(lambda key, order: order.pieces)  # error: not iterable
    return pieces


def p08_flat_map_values_returns_values(lines: ks.KStream[None, str]) -> ks.KStream[str, str]:
    words = lines.flat_map_values(lambda line: line.lower().split())
    lines.flat_map_values(lambda line: len(line))  # error: not iterable
    return words.select_key(lambda key, word: word)


def p09_select_key_changes_the_key(orders: ks.KStream[str, Order]) -> ks.KStream[int, Order]:
    by_pieces = orders.select_key(lambda key, order: order.pieces)
    orders.merge(by_pieces)  # error: the key is now a number
    return by_pieces


def p10_merged_streams_have_one_type(orders: ks.KStream[str, Order], other: ks.KStream[str, int]) -> None:
    orders.merge(orders).to("all")
    orders.merge(other)  # error: values of another type


def p11_a_stream_ends_in_foreach(orders: ks.KStream[str, Order]) -> None:
    orders.peek(lambda key, order: print(order.item)).foreach(lambda key, order: print(key))
    orders.foreach(print).to("out")  # error: nothing comes out of foreach


def p12_a_topic_is_text_or_a_function(orders: ks.KStream[str, Order]) -> None:
    orders.to(lambda key, order, metadata: f"orders-{order.item}")
    orders.to(5)  # error: not a topic


def p13_keywords_are_known(orders: ks.KStream[str, Order]) -> None:
    orders.to("copies", value_serde="json", name="copies")
    orders.to("copies", value_sedre="json")  # error: a mistyped keyword


def p14_branches_are_streams(orders: ks.KStream[str, Order]) -> ks.KStream[str, Order]:
    parts = orders.split(name="by-").branch(lambda key, order: order.pieces > 9, name="large").default_branch()
    parts["by-large"].map_values(lambda order: order.size)  # error: no such field
    return parts["by-0"]


# --- grouping and aggregation -----------------------------------------------------------------------------------------
def p15_count_gives_numbers(orders: ks.KStream[str, Order]) -> ks.KTable[str, int]:
    counts = orders.group_by(lambda key, order: order.item).count(store="counts")
    counts.filter(lambda item, count: count.pieces > 3)  # error: a count is a number
    return counts


def p16_a_group_has_the_new_key(orders: ks.KStream[str, Order]) -> ks.KTable[int, int]:
    by_pieces = orders.group_by(lambda key, order: order.pieces).count()
    by_pieces.filter(lambda pieces, count: pieces.startswith("a"))  # error: the key is a number
    return by_pieces


def p17_reduce_keeps_the_type(amounts: ks.KStream[str, int]) -> ks.KTable[str, int]:
    largest = amounts.group_by_key().reduce(lambda aggregate, value: max(aggregate, value))
    amounts.group_by_key().reduce(lambda aggregate, value: f"{aggregate}")  # error: another type
    return largest


def p18_aggregate_follows_the_initializer(orders: ks.KStream[str, Order]) -> ks.KTable[str, int]:
    pieces = orders.group_by_key().aggregate(lambda: 0, lambda key, order, total: total + order.pieces)
    pieces.map_values(lambda total: total.pieces)  # error: the aggregate is a number
    return pieces


def p19_an_aggregator_takes_three(orders: ks.KStream[str, Order]) -> None:
    orders.group_by_key().aggregate(lambda: 0, lambda order, total: total + order.pieces)  # error: (key, value, total)


def p20_windows_wrap_the_key(orders: ks.KStream[str, Order]) -> ks.KStream[str, int]:
    hours = ks.TimeWindows.of(size="1h", grace=timedelta(minutes=5))
    counts = orders.group_by_key().windowed_by(hours).count()
    counts.to_stream(lambda window, count: window.upper())  # error: the key is a Windowed
    return counts.to_stream(lambda window, count: window.key)


def p21_windows_are_needed(orders: ks.KStream[str, Order]) -> None:
    orders.group_by_key().windowed_by(ks.SlidingWindows.of(difference="5m")).count(store="near")
    orders.group_by_key().windowed_by("5m")  # error: no windows


def p22_sessions_need_a_merger(amounts: ks.KStream[str, int]) -> ks.KTable[ks.Windowed[str], int]:
    sessions = amounts.group_by_key().windowed_by(ks.SessionWindows.of(gap="5m"))
    sessions.aggregate(lambda: 0, lambda key, value, total: total + value)  # error: the merger is missing
    return sessions.aggregate(lambda: 0, lambda key, value, total: total + value, lambda key, a, b: a + b)


def p23_a_strategy_is_a_value(amounts: ks.KStream[str, int]) -> None:
    windowed = amounts.group_by_key().windowed_by(ks.TimeWindows.of(size="1h"))
    windowed.emit_strategy(ks.EmitStrategy.on_window_close()).count()
    windowed.emit_strategy("on_window_close")  # error: not a strategy


def _add(key: str, value: int, total: int) -> int:
    return total + value


def p24_cogroups_share_an_aggregate(spent: ks.KStream[str, int], paid: ks.KStream[str, int]) -> ks.KTable[str, int]:
    both = spent.group_by_key().cogroup(_add).cogroup(paid.group_by_key(), lambda key, value, total: total - value)
    both.aggregate(lambda: "")  # error: the aggregate is a number
    return both.aggregate(lambda: 0, store="balance")


def p25_a_grouped_table_subtracts(customers: ks.KTable[str, Customer]) -> ks.KTable[str, int]:
    by_name = customers.group_by(lambda key, customer: (customer.name, 1))
    by_name.reduce(lambda total, new: total + new)  # error: the subtractor is missing
    return by_name.reduce(lambda total, new: total + new, lambda total, old: total - old)


# --- joins ------------------------------------------------------------------------------------------------------------
def p26_a_joiner_gets_both_values(orders: ks.KStream[str, Order], customers: ks.KTable[str, Customer]) -> None:
    by_customer = orders.select_key(lambda key, order: order.customer)
    by_customer.join(customers, lambda order, customer: f"{order.item} for {customer.name}").to("sold")
    by_customer.join(customers, lambda order, customer: customer.item)  # error: a customer has no item


def p27_a_left_join_may_miss(orders: ks.KStream[str, Order], customers: ks.KTable[str, Customer]) -> None:  # S2-41
    orders.left_join(customers, lambda order, customer: customer.name if customer else "?").to("sold")
    orders.left_join(customers, lambda order, customer: customer.name)  # error: the customer may be None


def p28_streams_join_in_windows(orders: ks.KStream[str, Order], paid: ks.KStream[str, int]) -> None:
    near = ks.JoinWindows.of(difference="5m")
    orders.join(paid, lambda order, amount: amount * order.pieces, near, name="paid").to("paid-orders")
    orders.join(paid, lambda order, amount: amount * order.pieces)  # error: the windows are missing


def p29_outer_joins_may_miss_both(orders: ks.KStream[str, Order], paid: ks.KStream[str, int]) -> None:
    near = ks.JoinWindows.of(before="1m", after="2m")
    orders.outer_join(paid, lambda order, amount: (order, amount), near).to("all")
    orders.outer_join(paid, lambda order, amount: amount * 2, near)  # error: the amount may be None


def p30_global_tables_need_a_key(orders: ks.KStream[str, Order], rates: ks.GlobalKTable[str, float]) -> None:
    orders.join(rates, lambda key, order: order.item, lambda order, rate: order.pieces * rate).to("priced")
    orders.join(rates, lambda order, rate: order.pieces * rate)  # error: the key selector is missing


def p31_a_joiner_may_take_the_key(orders: ks.KStream[str, Order], customers: ks.KTable[str, Customer]) -> None:
    orders.join(customers, lambda key, order, customer: f"{key}: {customer.name}", with_key=True).to("sold")
    orders.join(customers, lambda key, order, customer: f"{key}: {customer.name}")  # error: with_key=True is missing


def p32_tables_join_by_foreign_key(
    customers: ks.KTable[str, Customer], orders: ks.KTable[str, Order]
) -> ks.KTable[str, str]:
    sold = orders.join(customers, lambda order, customer: customer.name, foreign_key=lambda order: order.customer)
    orders.join(customers, lambda order: order.pieces, lambda order, customer: customer.name)  # error: a number as key
    return sold


def p33_tables_with_the_same_key(prices: ks.KTable[str, float], stock: ks.KTable[int, int]) -> None:
    prices.join(prices, lambda left, right: left + right, store="sums")
    prices.outer_join(stock, lambda price, pieces: price)  # error: the keys differ


# --- tables, processors, options --------------------------------------------------------------------------------------
def p34_a_table_is_suppressed_by_options(customers: ks.KTable[str, Customer]) -> ks.KTable[str, Customer]:
    customers.suppress("5m")  # error: not Suppressed options
    return customers.suppress(ks.Suppressed.until_time_limit("5m", ks.BufferConfig.max_records(100)))


class Doubled(ks.Processor[str, int, str, int]):
    """Forwards each record twice."""

    def process(self, record: ks.Record[str, int]) -> None:
        """Forward it."""
        self.context.forward(record)
        self.context.forward(record.with_value(record.value * 2))


def p35_a_processor_has_types(amounts: ks.KStream[str, int], orders: ks.KStream[str, Order]) -> ks.KStream[str, int]:
    orders.process(Doubled)  # error: it takes numbers
    return amounts.process(Doubled, name="doubled")


class Labeled:
    """Puts the key before the value."""

    def transform(self, key: str, value: Customer) -> str:
        """Return a text."""
        return f"{key}: {value.name}"


def p36_a_transformer_has_types(customers: ks.KTable[str, Customer], stock: ks.KTable[str, int]) -> ks.KTable[str, str]:
    stock.transform_values(Labeled)  # error: it takes customers
    return customers.transform_values(Labeled, store="labels")


def p37_options_are_typed() -> ks.Materialized:
    ks.Materialized("counts", retention=5)  # error: not a duration
    return ks.Materialized.as_("counts").with_key_serde("string").with_retention("1h").with_caching_disabled()


def p38_options_fit_the_method(orders: ks.KStream[str, Order], builder: ks.StreamsBuilder) -> None:
    orders.group_by_key(ks.Grouped(name="by-key")).count(ks.Named.as_("n"), ks.Materialized.as_("counts"))
    builder.stream("orders", ks.Produced(name="orders"))  # error: Produced is for writing


def p39_a_builder_builds_a_topology(builder: ks.StreamsBuilder) -> str:
    topology = builder.build(optimize=True)
    topology.descripe()  # error: a mistyped method
    return topology.describe()


def p40_a_driver_drives_a_topology(builder: ks.StreamsBuilder) -> None:
    with ks.TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("orders").pipe_input("a", 1)
        ks.monitoring.StoreApp(driver)
    ks.TopologyTestDriver(builder)  # error: build() is missing
