"""Mistakes that the DSL refuses at their line, each with a clear message."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, cast

import pytest

import kstreamnb as ks
from kstreamnb.errors import ConfigError

WINDOWS = ks.JoinWindows.of(difference="5ms")


class Shop:
    """One of each: two streams, two tables and a global table."""

    def __init__(self) -> None:
        self.builder = ks.StreamsBuilder("shop")
        self.orders: Any = self.builder.stream("orders")
        self.paid: Any = self.builder.stream("paid")
        self.names: Any = self.builder.table("names")
        self.prices: Any = self.builder.table("prices")
        self.rates: Any = self.builder.global_table("rates")


def pair(left: Any, right: Any) -> Any:
    """Both."""
    return left, right


def key(*record: Any) -> Any:
    """Return the last argument."""
    return record[-1]


REFUSED: dict[str, Callable[[Shop], object]] = {
    "outer_join of a stream needs another stream": lambda shop: shop.orders.outer_join(shop.names, pair),
    'expected a stream or table to join with, got type "str"': lambda shop: shop.orders.join("names", pair),
    '"join" takes joiner after the other side, got 2': lambda shop: shop.orders.join(shop.names, pair, 1),
    '"join" with a KStream is missing its windows': lambda shop: shop.orders.join(shop.paid, pair),
    '"left_join" with a GlobalKTable is missing its key_selector': lambda shop: shop.orders.left_join(
        shop.rates, joiner=pair
    ),
    'option "grace" does not exist': (lambda shop: shop.orders.join(shop.rates, key, pair, grace="1s")),
    '"join" takes a KTable, got type "KStream"': lambda shop: shop.names.join(shop.orders, pair),
    '"join" takes a joiner, or a foreign key and a joiner': lambda shop: shop.names.join(shop.prices),
    "foreign-key joins of tables cannot be outer joins": lambda shop: shop.names.outer_join(shop.prices, key, pair),
    "a stream needs at least one topic": lambda shop: shop.builder.stream([]),
    'store type must be "persistent" or "in_memory", got "disk"': lambda shop: ks.StreamsBuilder(store_type="disk"),  # type: ignore[arg-type]
    'expected Joined options, got type "StreamJoined"': (
        lambda shop: shop.orders.join(shop.names, pair, joined=ks.StreamJoined())
    ),
    "a branch takes a function or a consumer, not both": lambda shop: ks.Branched("b", key, key),
    "a versioned store needs a name": lambda shop: ks.Materialized(versioned="1h"),
    "expected a list of topics, got a set": lambda shop: shop.builder.stream({"a", "b"}),
    'topic name "na\u2011me" contains the dash': lambda shop: shop.builder.stream(["orders", "na\u2011me"]),
    'topic name "a\u2013b" contains the dash': lambda shop: shop.orders.to("a\u2013b"),
    'application name "my\u2011shop" contains the dash': lambda shop: ks.StreamsBuilder("my\u2011shop"),
    'topic name "c\u2011d" contains the dash': lambda shop: ks.Topology().add_source("in", "c\u2011d"),
    'topic name "e\u2011f" contains the dash': lambda shop: (
        ks.Topology().add_source("in", "a").add_sink("o", "e\u2011f", "in")
    ),
    'dead-letter topic "dead\u2011letters" cannot be the name of a topic': lambda shop: ks.Config.of(
        {"dead_letter_topic": "dead\u2011letters"}
    ),
    'topic name must be a string, got type "int"': lambda shop: shop.orders.to(5),
    'name must be a string, got type "int"': lambda shop: shop.orders.group_by_key().count(store=5),
    'application name must be a string, got type "int"': lambda shop: ks.StreamsBuilder(5),
    "a serde must be Serde, got 5": lambda shop: shop.builder.stream("orders", key_serde=5),
    'no built-in serde is called "lnog"': lambda shop: shop.orders.to("copies", value_serde="lnog"),
    'unknown offset reset "earlyest"': lambda shop: shop.builder.stream("orders", offset_reset="earlyest"),
    "cached must be bool, got 'no'": lambda shop: shop.orders.to_table(cached="no"),
    "partitions must be at least 1, got 0": lambda shop: shop.orders.repartition(partitions=0),
    'retention of type "int" is not a duration': lambda shop: ks.Materialized("s", retention=5),  # type: ignore[arg-type]
    "suppressed must be Suppressed, got '1h'": lambda shop: shop.names.suppress("1h"),
    "strategy must be EmitStrategy, got 'on_window_close'": lambda shop: (
        shop.orders.group_by_key().windowed_by(ks.TimeWindows.of(size="1h")).emit_strategy("on_window_close")
    ),
    '"merge" takes a KStream, got type "KTable"': lambda shop: shop.orders.merge(shop.names),
    "optimize must be str, got type": lambda shop: shop.builder.build(optimize=[]),
    'node "process" needs a supplier of processors, got type "str"': lambda shop: shop.orders.process("Counter"),
    "expected Materialized or Named options": lambda shop: shop.orders.group_by_key().count("totals"),
    "materialized was passed twice": lambda shop: shop.orders.group_by_key().count(
        ks.Materialized("a"), materialized=ks.Materialized("b")
    ),
    "retention must not be negative, got -1s": lambda shop: ks.Materialized("s", retention="-1s"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_mistake_is_refused_where_it_is_made(message: str) -> None:
    """Refused before anything is built, so that the error has the line of the mistake."""
    with pytest.raises(ks.KStreamError) as caught:
        REFUSED[message](Shop())
    assert message in str(caught.value)


MISFITS: list[tuple[Callable[[Shop], object], str, str]] = [
    (lambda shop: shop.orders.filter(lambda value: value > 1), "(key, value)", "(value)"),
    (lambda shop: shop.orders.map_values(lambda value: value, with_key=True), "(key, value)", "(value)"),
    (lambda shop: shop.orders.split().branch(lambda value: value), "(key, value)", "(value)"),
    (lambda shop: shop.orders.join(shop.rates, lambda value: value, pair), "(key, value)", "(value)"),
    (lambda shop: shop.names.group_by(lambda value: (value, value)), "(key, value)", "(value)"),
    (lambda shop: shop.names.map_values(lambda key, value: value), "(value)", "(key, value)"),
    (lambda shop: shop.orders.select_key(str), "(key, value)", "(x=0, /)"),
    (lambda shop: shop.names.to_stream(int), "(key, value)", "(x=0, /)"),
    (lambda shop: shop.names.join(shop.prices, lambda key, value: value, pair), "(value)", "(key, value)"),
    (lambda shop: shop.orders.group_by_key().cogroup(lambda total, value: total), "(key, value, aggregate)", "(total"),
    (lambda shop: shop.orders.group_by_key().aggregate(lambda key: 0, lambda *record: 0), "()", "(key)"),
    (lambda shop: shop.names.group_by(pair).reduce(pair, lambda key, new, old: old), "(aggregate, value)", "(key, new"),
    (lambda shop: shop.orders.join(shop.names, pair, with_key=True), "(key, left, right)", "(left, right)"),
]


@pytest.mark.parametrize(("declared", "wanted", "taken"), MISFITS)
def test_a_function_of_other_arguments_is_refused_where_it_is_said(
    declared: Callable[[Shop], object], wanted: str, taken: str
) -> None:
    """Instead of a TypeError at the first record, far from the line."""
    with pytest.raises(ConfigError) as caught:
        declared(Shop())
    assert f"expected a function taking {wanted}, but this one takes {taken}" in caught.value.message


async def awaited(*arguments: Any) -> Any:
    """Return the arguments, if it is awaited."""
    return arguments


def yielded(*arguments: Any) -> Any:
    """Yield the arguments."""
    yield from arguments


IDLE: list[Callable[[Shop, Any], object]] = [
    lambda shop, idle: shop.orders.filter(idle),
    lambda shop, idle: shop.orders.map_values(functools.partial(idle, 1)),
    lambda shop, idle: shop.orders.peek(idle),
    lambda shop, idle: shop.orders.foreach(type("Callable", (), {"__call__": idle})()),
    lambda shop, idle: shop.orders.split().branch(idle),
    lambda shop, idle: shop.orders.to("out", partitioner=idle),
    lambda shop, idle: shop.orders.join(shop.names, idle),
    lambda shop, idle: shop.names.filter(idle),
    lambda shop, idle: shop.orders.group_by_key().aggregate(idle, pair),
    lambda shop, idle: shop.orders.process(type("Idle", (ks.Processor,), {"process": idle})),
    lambda shop, idle: (
        shop.orders.process(lambda: type("Idle", (ks.Processor,), {"process": idle})()) and shop.builder.build()
    ),
    lambda shop, idle: shop.names.transform_values(type("Idle", (), {"transform": idle})),
]


@pytest.mark.parametrize(("idle", "kind"), [(awaited, "an async function"), (yielded, "a generator function")])
@pytest.mark.parametrize("declared", IDLE)
def test_a_function_that_would_not_run_is_refused(
    declared: Callable[[Shop, Any], object], idle: Any, kind: str
) -> None:
    """A coroutine and a generator count as true, so that a filter would keep every record."""
    with pytest.raises(ConfigError, match=f"expected a plain function, got {kind}") as caught:
        declared(Shop(), idle)
    assert ("def instead of async def" if idle is awaited else "return instead of yield") in str(caught.value.hint)


def test_a_generator_makes_many_records_of_one() -> None:
    """It is what flat_map and flat_map_values take; an async one is refused there, too."""
    shop = Shop()
    assert [("a", 1, 0)] == ks.head(shop.orders.flat_map_values(yielded), {"orders": [("a", 1)]})
    shop.orders.flat_map(yielded)
    for declare in (shop.orders.flat_map, shop.orders.flat_map_values):
        with pytest.raises(ConfigError, match='got an async function, "awaited"'):
            declare(awaited)


def test_a_punctuator_that_would_not_run_is_refused() -> None:
    """Where it is scheduled."""

    class Ticks(ks.Processor):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule("1s", "stream_time", awaited)

    shop = Shop()
    shop.orders.process(Ticks)
    with pytest.raises(ks.KStreamError, match="expected a plain function, got an async function"):
        ks.TopologyTestDriver(shop.builder.build()).create_input_topic("orders").pipe_input("a", 1)


def test_what_is_no_function_is_refused() -> None:
    """The name of a function is not a function."""
    with pytest.raises(ConfigError, match=re.escape('expected a function taking (value), got type "str"')):
        Shop().orders.map_values("upper")


def test_a_sink_is_given_a_function_of_records_and_batch() -> None:
    """Refused before a query starts, instead of in its first batch."""
    for sink in (ks.spark.FunctionSink, ks.spark.FrameSink):
        with pytest.raises(ConfigError, match=r"batch\), but this one takes \(records\)"):
            sink(lambda records: None)  # type: ignore[arg-type, misc]


def test_functions_that_cannot_be_asked_what_they_take_are_taken_at_their_word() -> None:
    """Builtins without a signature, classes, partial functions and decorated ones are accepted as they are."""

    @functools.wraps(pair)
    def flexible(*arguments: Any) -> Any:
        return arguments

    shop = Shop()
    shop.orders.group_by_key().reduce(max)
    shop.orders.group_by_key().aggregate(dict, flexible)
    shop.orders.map_values(str.upper).map_values(int).peek(print)
    shop.orders.map_values(functools.partial(pair, 1)).filter(flexible)
    assert len(shop.builder.build().nodes) == 15


def test_a_mapper_that_wants_the_key_is_told_how_to_get_it() -> None:
    """The hint names the option."""
    with pytest.raises(ConfigError) as caught:
        Shop().orders.map_values(lambda key, value: value)
    assert caught.value.hint == "with_key=True gives it the key as well"


def test_arguments_of_joins_go_by_position_or_by_name() -> None:
    """Both forms declare the same."""
    one, other = Shop(), Shop()
    one.orders.join(one.paid, pair, WINDOWS, ks.StreamJoined(name="paid"))
    one.names.join(one.prices, key, pair)
    other.orders.join(other.paid, joiner=pair, windows=WINDOWS, name="paid")
    other.names.join(other.prices, foreign_key=key, joiner=pair)
    assert one.builder.build() == other.builder.build()


def test_a_foreign_key_of_none_is_refused_instead_of_joining_by_key() -> None:
    """A variable that was never filled changed which rows are joined."""
    builder = ks.StreamsBuilder("none")
    orders, shops, missing = builder.table("orders"), builder.table("shops"), cast("Any", None)
    with pytest.raises(ks.errors.ConfigError, match=r'expected a function taking \(value\), got type "NoneType"'):
        orders.join(shops, missing, lambda order, shop: shop)


def test_a_name_and_a_materialized_may_stand_last_as_in_java() -> None:
    """count(Named.as("n"), Materialized.as("totals")): a line found in every Java program."""
    one, other = Shop(), Shop()
    kept = ks.Materialized.as_("totals").with_value_serde(ks.Serdes.long())
    one.orders.group_by_key().count(ks.Named.as_("n"), kept)
    one.names.map_values(str.upper, ks.Materialized.as_("names"))
    other.orders.group_by_key().count(name="n", store="totals", value_serde="long")
    other.names.map_values(str.upper, store="names")
    assert one.builder.build() == other.builder.build()
    with pytest.raises(ConfigError, match="materialized was passed twice"):
        one.orders.group_by_key().count(kept, materialized=kept)


def test_with_takes_the_serdes_of_joins_and_table_joined_stands_before_materialized() -> None:
    """StreamJoined.with(key, value, other), and join(other, key selector, joiner, TableJoined, Materialized)."""
    text, long = ks.Serdes.string(), ks.Serdes.long()
    assert ks.StreamJoined(text, long, text) == ks.StreamJoined.with_(text, long, text)
    assert ks.Joined(text, long, text, name="j") == ks.Joined.with_(text, long, text, name="j")
    assert ks.Joined(text, long, text, name="j", grace="5s") == ks.Joined.with_(text, long, text, "j", "5s")
    with pytest.raises(TypeError, match="takes from 1 to 4 positional arguments but 5 were given"):
        ks.StreamJoined.with_(text, long, text, "j")  # type: ignore[misc]
    one, other = Shop(), Shop()
    one.names.left_join(one.prices, key, pair, ks.TableJoined.as_("n"), ks.Materialized.as_("kept"))
    other.names.left_join(other.prices, key, pair, table_joined=ks.TableJoined(name="n"), store="kept")
    assert one.builder.build() == other.builder.build()


def test_a_global_table_with_materialized_needs_a_name() -> None:
    """As in Kafka Streams."""
    with pytest.raises(ks.errors.ConfigError, match='the store of global table "rates" needs a name'):
        ks.StreamsBuilder().global_table("rates", materialized=ks.Materialized())


def test_stores_of_ones_own_are_made_what_the_operator_needs() -> None:
    """A table keeps times with its rows; a window store keeps its own retention and kind of expiry."""
    shop = Shop()
    rows = ks.Stores.in_memory_key_value_store("rows")
    windows = ks.Stores.in_memory_window_store("windows", retention="1h", window_size="10ms")
    grouped = shop.orders.group_by_key()
    grouped.count(store=rows)
    grouped.windowed_by(ks.TimeWindows.of(size="10ms")).count(store=windows)
    stores = shop.builder.build().stores
    assert ("timestamped_key_value", False) == (stores["rows"].kind, stores["rows"].persistent)
    assert ("timestamped_window", 3_600_000, False) == (
        stores["windows"].kind,
        stores["windows"].retention_ms,
        stores["windows"].persistent,
    )


def test_retention_of_the_options_is_checked_and_that_of_a_store_of_ones_own_is_kept() -> None:
    """As in Kafka Streams: the store's own is checked only if the options have none."""
    windows = ks.TimeWindows.of(size="10ms", grace="60ms")

    def retention(own: str, option: str | None) -> int | None:
        builder = ks.StreamsBuilder()
        store = ks.Stores.persistent_window_store("mine", retention=own, window_size="10ms")
        options = ks.Materialized.as_(store) if option is None else ks.Materialized.as_(store).with_retention(option)
        builder.stream("in").group_by_key().windowed_by(windows).count(materialized=options)
        return builder.build().stores["mine"].retention_ms

    assert [20, 80, 90] == [retention("20ms", "200ms"), retention("80ms", None), retention("90ms", "70ms")]
    for own, option in (("20ms", None), ("200ms", "20ms")):
        with pytest.raises(ks.errors.ConfigError, match="retains windows for 20 ms, less than size and grace"):
            retention(own, option)


def test_a_join_store_that_forgets_duplicates_is_refused() -> None:
    """Every record of a window may be joined, duplicates too."""
    shop = Shop()
    forgetful = ks.Stores.in_memory_window_store("mine", retention="10ms", window_size="10ms")
    shop.orders.join(shop.paid, pair, WINDOWS, this_store=forgetful)
    with pytest.raises(ks.errors.TopologyError, match='join store "mine" must retain duplicates'):
        shop.builder.build()


def test_records_wait_for_tables_made_of_versioned_ones() -> None:
    """A filter of a versioned table has its history; joins with grace refuse a table without versions."""
    builder = ks.StreamsBuilder()
    names: Any = builder.table("names", store="names", versioned="1h")
    filtered = names.filter(lambda name, row: row is not None)
    builder.stream("orders").join(filtered, pair, grace="1m").to("out")
    assert any(store.kind == "internal" for store in builder.build().stores.values())
    builder.stream("others").join(builder.table("plain"), pair, grace="1m").to("out")
    with pytest.raises(ks.errors.TopologyError, match=r'table "KTABLE-SOURCE-\d+" keeps no versions'):
        builder.build()


def test_buffers_and_options_give_changed_copies() -> None:
    """The object itself is unchanged."""
    buffer = ks.BufferConfig.max_bytes(100)
    changed = buffer.with_max_records(5).shut_down_when_full().with_logging_disabled()
    assert (5, 100, False, False) == (changed.records_limit, changed.bytes_limit, changed.emit_early, changed.logged)
    assert (None, 100, True, True) == (buffer.records_limit, buffer.bytes_limit, buffer.emit_early, buffer.logged)
    assert ks.BufferConfig.unbounded() == changed.with_no_bound().with_logging_enabled({})
    assert ks.Suppressed.until_time_limit("1s").with_name("calm").name == "calm"
    logged = ks.Materialized("s").with_logging_enabled({"retention.ms": "1"})
    assert {"retention.ms": "1"} == logged.log_config


def test_the_sample_of_a_builder_is_what_previews_run_on() -> None:
    """Set once, used by every handle."""
    shop = Shop()
    shop.builder.sample = ks.Sample.from_text("topic | key | value \n orders | shoe | 1")
    assert "shoe" in str(shop.orders.head())
    assert shop.builder.sample is not None


def test_a_store_that_is_given_whole_takes_no_store_type_besides() -> None:
    """A spec, or a versioned store, determines its own type."""
    with pytest.raises(ConfigError, match='store "prices" already has a type'):
        ks.Materialized("prices", versioned="1h", store_type="in_memory")
    with pytest.raises(ConfigError, match='store "prices" already has a type'):
        ks.Materialized(ks.Stores.in_memory_key_value_store("prices")).with_store_type("persistent")


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda shop: shop.orders.count(), "group_by_key().count"),
        (lambda shop: shop.orders.to_table().to("out"), "to_stream().to"),
        (lambda shop: shop.orders.group_by_key().to_stream(), "count().to_stream"),
    ],
)
def test_a_call_that_lacks_a_step_names_the_step(call: Callable[[Any], object], hint: str) -> None:
    """The hint is what to write."""
    with pytest.raises(ks.errors.UnknownNameError) as caught:
        call(Shop())
    assert f'Hint: did you mean "{hint}"?' in caught.value.__notes__
