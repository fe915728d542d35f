"""`Stores`: how a user of the Processor API declares stores, under the names that Kafka's factory has.

Each method gives a frozen `StoreSpec`. Java's two steps (a supplier, then a builder around it) are one call here;
the builders remain for those who know them and put serdes and options on a spec.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kstreamnb.core.durations import Duration, duration_ms
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import ConfigError


class Stores:
    """Specs of every kind of store; options of all: ``key_serde, value_serde, logged, cached, log_config, factory``.

    Stores are logged and uncached unless said otherwise. Durations are texts such as ``"5m"`` or timedeltas.

    Example:
        >>> Stores.persistent_key_value_store("stock").kind
        'key_value'
        >>> Stores.in_memory_window_store("hits", retention="1h", window_size="5m").window_size_ms
        300000
    """

    @staticmethod
    def persistent_key_value_store(name: str, **options: Any) -> StoreSpec:
        """Rows by key, kept as Kafka's RocksDB store keeps them."""
        return _spec(name, "key_value", options)

    @staticmethod
    def in_memory_key_value_store(name: str, **options: Any) -> StoreSpec:
        """Rows by key, kept as Kafka's in-memory store keeps them."""
        return _spec(name, "key_value", options, persistent=False)

    @staticmethod
    def persistent_timestamped_key_value_store(name: str, **options: Any) -> StoreSpec:
        """Rows by key with the event time of each."""
        return _spec(name, "timestamped_key_value", options)

    @staticmethod
    def lru_map(name: str, max_entries: int, **options: Any) -> StoreSpec:
        """The ``max_entries`` rows used last.

        Raises: ConfigError when ``max_entries`` is negative.
        """
        if max_entries < 0:
            raise ConfigError(f'store "{name}" cannot hold {max_entries} rows', java="maxCacheSize cannot be negative")
        return _spec(name, "lru", options, max_entries=max_entries, persistent=False)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, *, history: Duration, segment_interval: Duration | None = None, **options: Any
    ) -> StoreSpec:
        """Rows by key with their history as far back as ``history`` of stream time.

        Raises: ConfigError when ``history`` is negative, ``segment_interval`` is not positive or it is to be cached.
        """
        history_ms = _at_least(0, history, "history", "historyRetention cannot be negative")
        segment_ms = None
        if segment_interval is not None:
            text = "segmentInterval cannot be zero or negative"
            segment_ms = _at_least(1, segment_interval, "segment_interval", text)
        if options.get("cached"):
            raise ConfigError(
                f'versioned store "{name}" cannot be cached', java="Versioned stores do not support caching"
            )
        return _spec(name, "versioned", options, history_ms=history_ms, segment_ms=segment_ms)

    @staticmethod
    def persistent_window_store(
        name: str, *, retention: Duration, window_size: Duration, retain_duplicates: bool = False, **options: Any
    ) -> StoreSpec:
        """Rows by key and window start; expires by whole segments.

        Raises: ConfigError when a duration is negative or ``retention`` is shorter than ``window_size``.
        """
        retention_ms = _at_least(0, retention, "retention", "retentionPeriod cannot be negative")
        size_ms = _at_least(0, window_size, "window_size", "windowSize cannot be negative")
        if retention_ms < size_ms:
            raise ConfigError(
                f'window store "{name}" keeps rows for {retention_ms} ms, shorter than its windows of {size_ms} ms',
                java=f"The retention period of the window store {name} must be no smaller than its window size. "
                f"Got size=[{_iso(size_ms)}], retention=[{_iso(retention_ms)}]",
            )
        fields = {"retention_ms": retention_ms, "window_size_ms": size_ms, "retain_duplicates": retain_duplicates}
        return _spec(name, "window", options, **fields)

    @staticmethod
    def in_memory_window_store(name: str, *, retention: Duration, window_size: Duration, **options: Any) -> StoreSpec:
        """Rows by key and window start; expires exactly. Takes what `persistent_window_store` takes."""
        spec = Stores.persistent_window_store(name, retention=retention, window_size=window_size, **options)
        return replace(spec, persistent=False)

    @staticmethod
    def persistent_timestamped_window_store(
        name: str, *, retention: Duration, window_size: Duration, **options: Any
    ) -> StoreSpec:
        """Rows by key and window start with the event time of each. Takes what `persistent_window_store` takes."""
        spec = Stores.persistent_window_store(name, retention=retention, window_size=window_size, **options)
        return replace(spec, kind="timestamped_window")

    @staticmethod
    def persistent_session_store(name: str, *, retention: Duration, **options: Any) -> StoreSpec:
        """Aggregates by session; expires by whole segments.

        Raises: ConfigError when ``retention`` is negative.
        """
        retention_ms = _at_least(0, retention, "retention", "retentionPeriod cannot be negative")
        return _spec(name, "session", options, retention_ms=retention_ms)

    @staticmethod
    def in_memory_session_store(name: str, *, retention: Duration, **options: Any) -> StoreSpec:
        """Aggregates by session; expires exactly.

        Raises: ConfigError when ``retention`` is negative.
        """
        return Stores.persistent_session_store(name, retention=retention, **{**options, "persistent": False})

    @staticmethod
    def key_value_store_builder(supplier: StoreSpec, key_serde: Any, value_serde: Any, **options: Any) -> StoreSpec:
        """``supplier`` with serdes, and with other ``options`` when given; the same for every kind of store."""
        return replace(supplier, key_serde=key_serde, value_serde=value_serde, **options)

    timestamped_key_value_store_builder = key_value_store_builder
    versioned_key_value_store_builder = key_value_store_builder
    window_store_builder = key_value_store_builder
    timestamped_window_store_builder = key_value_store_builder
    session_store_builder = key_value_store_builder


def _spec(name: str, kind: Any, options: dict[str, Any], **fields: Any) -> StoreSpec:
    if name is None:
        raise ConfigError("a store needs a name", java="name cannot be null")
    return StoreSpec(name, kind, **{**fields, **options})


def _at_least(least: int, value: Duration, what: str, java: str) -> int:
    ms = duration_ms(value, what)
    if ms < least:
        raise ConfigError(f"{what} of a store must be at least {least} ms, not {ms} ms", java=java)
    return ms


def _iso(ms: int) -> str:
    """A duration as Java prints it, such as PT26H3M4.005S."""
    hours, rest = divmod(ms, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds, part = divmod(rest, 1000)
    text = f"{seconds}.{part:03}".rstrip("0") if part else str(seconds)
    tail = f"{text}S" if seconds or part else ""
    return "PT" + (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "") + tail if ms else "PT0S"
