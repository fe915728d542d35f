"""How stores are declared, and which declarations are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import Stores, StoreSpec
from kstreamnb.errors import ConfigError

REFUSED: dict[str, Callable[[], object]] = {
    "name cannot be null": lambda: Stores.in_memory_key_value_store(None),
    "maxCacheSize cannot be negative": lambda: Stores.lru_map("s", -1),
    "historyRetention cannot be negative": lambda: Stores.persistent_versioned_key_value_store("s", history="-1ms"),
    "segmentInterval cannot be zero or negative": (
        lambda: Stores.persistent_versioned_key_value_store("s", history="1s", segment_interval="0ms")
    ),
    "Versioned stores do not support caching": (
        lambda: Stores.persistent_versioned_key_value_store("s", history="1s", cached=True)
    ),
    "retentionPeriod cannot be negative": lambda: Stores.persistent_session_store("s", retention="-1s"),
    "windowSize cannot be negative": (lambda: Stores.persistent_window_store("s", retention="1s", window_size="-1ms")),
    "The retention period of the window store s must be no smaller than its window size. "
    "Got size=[PT26H3M4.005S], retention=[PT0S]": (
        lambda: Stores.in_memory_window_store("s", retention="0ms", window_size="93784005ms")
    ),
}


@pytest.mark.parametrize("java", REFUSED)
def test_a_store_that_makes_no_sense_is_refused(java: str) -> None:
    """The error carries Kafka's text."""
    with pytest.raises(ConfigError) as caught:
        REFUSED[java]()
    assert java == caught.value.java


def test_a_builder_refuses_what_the_supplier_would_refuse() -> None:
    """The limit of an LRU store is checked wherever it is given."""
    with pytest.raises(ConfigError, match="max_entries must be at least 0, got -1") as caught:
        Stores.key_value_store_builder(Stores.lru_map("s", 3), "string", "long", max_entries=-1)
    assert "maxCacheSize cannot be negative" == caught.value.java
    with pytest.raises(ConfigError, match="max_entries must be int, got True"):
        Stores.lru_map("s", True)


def test_settings_of_a_changelog_become_text() -> None:
    """As with `Materialized`: a broker refuses numbers."""
    store = Stores.persistent_key_value_store("s").with_logging_enabled({"retention.ms": 60_000})  # type: ignore[dict-item]
    assert store.log_config == (("retention.ms", "60000"),)
    with pytest.raises(ConfigError, match="log_config must be Mapping, got a list of tuple"):
        store.with_logging_enabled([("retention.ms", "1")])  # type: ignore[arg-type]


def test_options_of_a_store_are_checked_where_they_are_given() -> None:
    """Text in place of True or False would count as True; settings may be a mapping, as for `Materialized`."""
    with pytest.raises(ConfigError, match="logged must be bool, got 'no'") as refused:
        Stores.persistent_key_value_store("s", logged="no")  # type: ignore[arg-type]
    assert refused.value.hint == "write True or False"
    with pytest.raises(ConfigError, match="retain_duplicates must be bool, got 'yes'"):
        Stores.persistent_window_store("s", "1m", "1m", "yes")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="log_config must be Mapping, got 'compact'"):
        Stores.persistent_key_value_store("s", log_config="compact")  # type: ignore[arg-type]
    assert Stores.persistent_key_value_store("s", log_config={"b": "1", "a": "2"}).log_config == (
        ("a", "2"),
        ("b", "1"),
    )


def test_a_builder_puts_serdes_and_options_on_a_supplier() -> None:
    """Java's two steps create the same spec as the one call."""
    key, value = Serdes.string(), Serdes.long()
    in_two = Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), key, value, cached=True)
    assert in_two == Stores.persistent_key_value_store("s", key_serde=key, value_serde=value, cached=True)
    assert Stores.in_memory_session_store("s", retention="1m").persistent is False
    assert (
        Stores.persistent_timestamped_window_store("s", retention="1m", window_size="1m").kind == "timestamped_window"
    )


def test_the_builder_decides_whether_rows_have_times_and_headers() -> None:
    """A plain builder around a store with times or headers keeps plain values, as in Java."""
    supplied = Stores.persistent_timestamped_key_value_store_with_headers("s")
    plain = Stores.key_value_store_builder(supplied, "string", "long")
    assert ("key_value", "none") == (plain.kind, plain.headers)
    timed = Stores.timestamped_key_value_store_builder(supplied, "string", "long")
    assert ("timestamped_key_value", "kept") == (timed.kind, timed.headers)
    windowed = Stores.persistent_timestamped_window_store("s", retention="1m", window_size="1m")
    assert Stores.window_store_builder(windowed, "string", "long").kind == "window"
    session = Stores.persistent_session_store_with_headers("s", retention="1m")
    assert Stores.session_store_builder(session, "string", "long").headers == "none"


@pytest.mark.parametrize(
    "window_store",
    [
        Stores.persistent_window_store,
        Stores.in_memory_window_store,
        Stores.persistent_timestamped_window_store,
        Stores.persistent_timestamped_window_store_with_headers,
    ],
)
def test_a_window_store_takes_duplicates_where_java_does(window_store: Callable[..., StoreSpec]) -> None:
    """As the argument after the window's size, or by name."""
    assert window_store("s", "1m", "1m", True) == window_store("s", "1m", "1m", retain_duplicates=True)
    assert window_store("s", "1m", "1m", True).retain_duplicates
