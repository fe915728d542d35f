"""Stores that the DSL declares: kinds, retention, caching, logging and names, by Kafka's rules."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import Stores, StoreSpec
from kstreamnb.core.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.options import EmitStrategy, Materialized, StreamJoined, Suppressed
from kstreamnb.errors import ConfigError, TopologyError


def pair(left: Any, right: Any) -> tuple[Any, Any]:
    return left, right


def one(builder: StreamsBuilder) -> StoreSpec:
    (spec,) = builder.build().stores.values()
    return spec


def windowed(windows: Any, *, on_close: bool = False, **options: Any) -> StoreSpec:
    builder = StreamsBuilder()
    grouped = builder.stream("orders").group_by_key().windowed_by(windows)
    if on_close:
        grouped = grouped.emit_strategy(EmitStrategy.on_window_close())
    grouped.count(**options)
    return one(builder)


def test_a_table_is_kept_only_when_it_is_named_or_needed() -> None:
    """A plain table needs no store, a joined one does."""
    builder = StreamsBuilder()
    names = builder.table("names")
    assert builder.build().stores == {}
    builder.stream("orders").join(names, pair)
    assert list(builder.build().stores) == ["names-STATE-STORE-0000000000"]


def test_rows_are_kept_with_their_time_logged_and_cached() -> None:
    """A store of a table or an aggregation is a timestamped one."""
    builder = StreamsBuilder()
    builder.stream("orders", key_serde="long").group_by_key().count(store="counts")
    spec = one(builder)
    assert (spec.kind, spec.logged, spec.cached, spec.persistent) == ("timestamped_key_value", True, True, True)
    assert (spec.key_serde, spec.value_serde) == (Serdes.long(), Serdes.long())


def test_options_reach_the_store_as_keywords_or_as_an_object() -> None:
    """Both forms are equivalent."""
    by_keyword, by_object = StreamsBuilder(), StreamsBuilder()
    by_keyword.table("t", store="s", cached=False, logged=False, store_type="in_memory", value_serde="long")
    options = Materialized("s", value_serde="long", store_type="in_memory").with_caching_disabled()
    by_object.table("t", materialized=options.with_logging_disabled())
    assert one(by_keyword) == one(by_object)
    assert one(by_keyword).persistent is False


def test_a_builder_can_make_in_memory_stores_the_rule() -> None:
    """store_type applies to stores whose declaration names no type."""
    builder = StreamsBuilder(store_type="in_memory")
    builder.table("a", store="a")
    builder.table("b", store="b", store_type="persistent")
    assert {name: spec.persistent for name, spec in builder.build().stores.items()} == {"a": False, "b": True}


@pytest.mark.parametrize(
    ("windows", "kind", "retention_ms", "size_ms"),
    [
        (TimeWindows.of(size="10ms", grace="5ms"), "timestamped_window", 15, 10),
        (SlidingWindows.of(difference="10ms", grace="5ms"), "timestamped_window", 25, 10),
        (SessionWindows.of(gap="10ms", grace="5ms"), "session", 15, None),
    ],
)
def test_windows_are_kept_for_as_long_as_late_records_may_come(
    windows: Any, kind: str, retention_ms: int, size_ms: int | None
) -> None:
    """Size (twice, for sliding windows) and grace."""
    spec = windowed(windows)
    assert (spec.kind, spec.retention_ms, spec.window_size_ms) == (kind, retention_ms, size_ms)
    assert windowed(windows, store="s", retention="1m").retention_ms == 60_000


def test_a_retention_shorter_than_that_is_refused() -> None:
    """With the numbers."""
    with pytest.raises(ConfigError, match=r'store "s" retains windows for 24 ms, less than .* \(25 ms\)'):
        windowed(SlidingWindows.of(difference="10ms", grace="5ms"), store="s", retention="24ms")


@pytest.mark.parametrize(
    ("windows", "cached"),
    [
        (TimeWindows.of(size="10ms"), True),
        (SlidingWindows.of(difference="10ms"), False),
        (SessionWindows.of(gap="10ms"), False),
    ],
)
def test_final_results_come_from_stores_ordered_by_time(windows: Any, cached: bool) -> None:
    """Only stores of fixed windows may be cached, and only theirs have no index by key."""
    spec = windowed(windows, on_close=True)
    assert (spec.extra, spec.cached) == ({"time_ordered": True, "indexed": not cached}, cached)


def test_join_windows_keep_every_record_for_the_span_and_the_grace() -> None:
    """One store per side, and one of pending records if unmatched ones are kept."""
    builder = StreamsBuilder()
    windows = JoinWindows.of(before="3ms", after="4ms", grace="5ms")
    builder.stream("a").left_join(builder.stream("b"), pair, windows, store_name="j")
    stores = builder.build().stores
    assert list(stores) == ["j-this-join-store", "j-outer-other-join-store", "j-left-shared-join-store"]
    side = stores["j-this-join-store"]
    assert (side.kind, side.retention_ms, side.window_size_ms) == ("window", 12, 7)
    assert (side.retain_duplicates, side.cached, side.log_config) == (True, False, (("cleanup.policy", "delete"),))
    assert stores["j-left-shared-join-store"].extra["type"] == "pending_joins"


def test_a_user_s_own_join_store_must_fit_the_windows() -> None:
    """Otherwise records would be lost or kept in vain."""
    builder = StreamsBuilder()
    own = Stores.in_memory_window_store("mine", retention="10ms", window_size="5ms", retain_duplicates=True)
    joined = StreamJoined(this_store=own, store_name="j")
    a, b = builder.stream("a"), builder.stream("b")
    a.join(b, pair, JoinWindows.of(before="5ms", grace="5ms"), joined)
    assert list(builder.build().stores) == ["mine", "j-other-join-store"]
    a.join(b, pair, JoinWindows.of(before="6ms", grace="5ms"), joined.with_name("second"))
    with pytest.raises(TopologyError, match='store "mine" does not fit the windows'):
        builder.build()


@pytest.mark.parametrize("logged", [True, False])
def test_kafka_logs_a_join_s_supplied_store_as_any_window_store(logged: bool) -> None:
    """S0-22: compacted, even if StreamJoined turns logging off; the join's own store is deleted by age."""
    builder = StreamsBuilder()
    own = Stores.in_memory_window_store("mine", retention="10ms", window_size="5ms", retain_duplicates=True)
    joined = StreamJoined(this_store=own, store_name="j", logged=logged)
    builder.stream("a").join(builder.stream("b"), pair, JoinWindows.of(before="5ms", grace="5ms"), joined)
    policies = {topic.store: dict(topic.config)["cleanup.policy"] for topic in builder.build().owned_topics("app")}
    assert policies == {"mine": "compact,delete"} | ({"j-other-join-store": "delete"} if logged else {})


def test_a_foreign_key_join_keeps_subscriptions_and_both_tables() -> None:
    """The result is kept only under a name."""
    builder = StreamsBuilder()
    orders, users = builder.table("orders", store="orders"), builder.table("users", store="users")
    orders.join(users, pair, foreign_key=str, name="buyers")
    stores = builder.build().stores
    assert list(stores) == ["orders", "users", "buyers-subscription-store"]
    assert stores["buyers-subscription-store"].extra == {"type": "subscriptions"}


def test_a_suppression_has_a_buffer_and_makes_the_table_above_it_kept() -> None:
    """The buffer is logged by default."""
    builder = StreamsBuilder()
    builder.table("prices").suppress(Suppressed.until_time_limit("5m", name="calm"))
    stores = builder.build().stores
    assert list(stores) == ["prices-STATE-STORE-0000000000", "calm-store"]
    assert (stores["calm-store"].kind, stores["calm-store"].logged) == ("internal", True)


def test_a_suppression_takes_its_name_as_other_operators_do() -> None:
    """The keyword wins over the option object."""
    builder = StreamsBuilder()
    builder.table("prices").suppress(Suppressed.until_time_limit("5m", name="slow"), name="calm")
    assert "calm-store" in builder.build().stores


def test_a_store_is_logged_and_cached_by_javas_methods() -> None:
    """Specs stand for Java's builders of stores."""
    spec = Stores.persistent_key_value_store("stock")
    assert spec.with_caching_enabled().cached
    assert not spec.with_caching_enabled().with_caching_disabled().cached
    logged = spec.with_logging_enabled({"retention.ms": "60000"})
    assert (True, (("retention.ms", "60000"),)) == (logged.logged, logged.log_config)
    assert (False, ()) == (logged.with_logging_disabled().logged, logged.with_logging_disabled().log_config)
    versioned = Stores.persistent_versioned_key_value_store("prices", "1h")
    assert not versioned.with_caching_disabled().cached
    with pytest.raises(ConfigError, match='versioned store "prices" cannot be cached') as caught:
        versioned.with_caching_enabled()
    assert "Versioned stores do not support caching" == caught.value.java


def test_versioned_rows_are_never_cached() -> None:
    """``versioned`` is the short form of a versioned store."""
    builder = StreamsBuilder()
    builder.table("prices", store="prices", versioned="1h")
    spec = one(builder)
    assert (spec.kind, spec.history_ms, spec.cached) == ("versioned", 3_600_000, False)


def test_records_wait_only_for_tables_with_enough_history() -> None:
    """The error states the available retention."""
    builder = StreamsBuilder()
    prices = builder.table("prices", store="prices", versioned="10ms")
    builder.stream("orders").join(prices, pair, grace="11ms")
    with pytest.raises(TopologyError, match="keeps versions for 10 ms"):
        builder.build()


def test_generated_names_can_be_refused() -> None:
    """The error names every store and topic without a user's name."""
    builder = StreamsBuilder(ensure_explicit_names=True)
    builder.stream("orders").group_by(pair).count()
    with pytest.raises(TopologyError, match="generated names") as caught:
        builder.build()
    store = "KSTREAM-AGGREGATE-STATE-STORE-0000000002"
    assert f"state store(s) has not been named: {store}" in str(caught.value.java)
    named = StreamsBuilder(ensure_explicit_names=True)
    named.stream("orders").group_by(pair, name="by-pair").count(store="counts")
    assert list(named.build().stores) == ["counts"]
