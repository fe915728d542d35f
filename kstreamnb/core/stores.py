"""Declarations of state stores.

A `StoreSpec` is a frozen description; `kstreamnb.state` builds stores from it. Iterators go in the byte order
of the serialized key, as in Kafka Streams. A store returns what was put, even if the object is mutated afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from kstreamnb.core.arguments import expect, expect_number
from kstreamnb.core.record import Headers
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import NamesSerdes
from kstreamnb.core.time import Duration, duration_ms
from kstreamnb.errors import ConfigError, expect_known
from kstreamnb.suggesting import Suggesting

StoreKind: TypeAlias = Literal[
    "key_value", "timestamped_key_value", "versioned", "window", "timestamped_window", "session", "lru", "internal"
]

HeaderUse: TypeAlias = Literal["none", "kept", "logged", "as_configured"]
"""Headers are not kept, kept with the rows, only logged with them, or kept if `Config.dsl_store_format` says so."""

FlushListener: TypeAlias = Callable[[object, object, object, int, Headers], None]
"""``listener(key, new, old, timestamp, headers)``: gets every change that a cached store writes back."""


@dataclass(frozen=True)
class StoreSpec(NamesSerdes):
    """How one store is made; a serde may be given by its name.

    Units: ``retention_ms``, ``window_size_ms``, ``history_ms`` and ``segment_ms`` are milliseconds of stream time.
    ``persistent`` chooses between the expiry rules of Kafka's RocksDB stores (whole segments) and of its in-memory
    stores (exact); where rows are held does not depend on it. ``extra`` belongs to kinds that need more
    (``lru``: ``max_entries``). ``factory`` creates a user's own row storage; it gets the spec. Rows by key need
    ``get(key)``, ``put(key, row)`` and ``all()``; windows ``fetch(key, start)``, ``put(key, row, start)`` and
    ``all()``; sessions ``fetch_session(key, start, end)``, ``put(session, row)``, ``remove(session)`` and
    ``fetch(None)``, which gives all.

    Args:
        name: name of the store: letters, digits, ".", "_" and "-".
        kind: "key_value", "timestamped_key_value", "versioned", "window", "timestamped_window", "session" or "lru".
        key_serde: serde of the keys, or its name. Default: that of the stream or table, else the application's.
        value_serde: serde of the values, or its name. Default: that of the stream or table, else the application's.
        retention_ms: how long rows of windows and sessions are kept, in milliseconds of stream time. Default: None.
        window_size_ms: size of the windows in milliseconds. Default: None, for stores without windows.
        retain_duplicates: keep several rows with the same key and window start, as stream joins need. Default: False.
        history_ms: how long old versions of a versioned store are kept, in milliseconds of stream time. Default: None.
        segment_ms: length of a segment, which expires as a whole, in milliseconds. Default: computed as Kafka does.
        max_entries: maximum number of rows by key; the least recently used row is evicted first. Default: None, no
            limit, except for an ``lru`` store.
        persistent: follow the expiry rules of RocksDB stores, not those of in-memory stores. Default: True.
        logged: write every change to a changelog topic. Default: True.
        cached: collect updates, and forward only the last one of a key at a commit. Default: False.
        changelog_topic: topic that serves as the changelog. Default: a topic of the application's own.
        log_config: settings of the changelog topic by Kafka's names: a mapping, which becomes pairs. Default: none.
        headers: "kept" keeps headers with the rows, "logged" writes those of the current record to the changelog, and
            "as_configured" keeps them if `Config.dsl_store_format` is "headers". Default: "none".
        factory: function ``(spec) -> rows`` that creates your own storage. Default: None, the built-in storage.
        extra: further settings for a ``factory``. Default: none.

    Example:
        >>> spec = StoreSpec("counts", "key_value", key_serde="string", value_serde="long")
        >>> spec.value_serde.name, spec.logged, spec.cached
        ('long', True, False)
    """

    name: str
    kind: StoreKind
    key_serde: Serde | str | None = None
    value_serde: Serde | str | None = None
    retention_ms: int | None = None
    window_size_ms: int | None = None
    retain_duplicates: bool = False
    history_ms: int | None = None
    segment_ms: int | None = None
    max_entries: int | None = None
    persistent: bool = True
    logged: bool = True
    cached: bool = False
    changelog_topic: str | None = None
    log_config: tuple[tuple[str, str], ...] = ()
    headers: HeaderUse = "none"
    factory: Callable[[StoreSpec], Any] | None = field(default=None, compare=False)
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name is None:
            raise ConfigError("a store needs a name", java="name cannot be null")
        expect(self.name, str, "name of a store")
        for flag in ("logged", "cached", "persistent", "retain_duplicates"):
            expect(getattr(self, flag), bool, flag, hint="write True or False")
        given: Any = self.log_config
        if not isinstance(given, tuple):
            object.__setattr__(self, "log_config", tuple(sorted(text_items(given).items())))
        if self.max_entries is not None and self.max_entries < 0:
            fact = f"max_entries must be at least 0, got {self.max_entries}"
            raise ConfigError(fact, java="maxCacheSize cannot be negative")

    def with_logging_enabled(self, config: Mapping[str, str] | None = None) -> StoreSpec:
        """Return a copy with a changelog topic.

        Args:
            config: topic settings by Kafka's names, such as ``{"retention.ms": "60000"}``. Default: none.
        """
        return replace(self, logged=True, log_config=tuple(sorted(text_items(config or {}).items())))

    def with_logging_disabled(self) -> StoreSpec:
        """Return a copy without a changelog topic."""
        return replace(self, logged=False, log_config=())

    def with_caching_enabled(self) -> StoreSpec:
        """Return a copy that collects updates until a commit.

        Raises: ConfigError for a versioned store, which is never cached.
        """
        if self.kind == "versioned":
            message = f'versioned store "{self.name}" cannot be cached'
            raise ConfigError(message, java="Versioned stores do not support caching")
        return replace(self, cached=True)

    def with_caching_disabled(self) -> StoreSpec:
        """Return a copy that forwards every update."""
        return replace(self, cached=False)


def text_items(config: Mapping[str, object]) -> Mapping[str, str]:
    """Return topic settings as text; raise ConfigError for anything but a mapping."""
    expect(config, Mapping, "log_config", hint='write for example {"cleanup.policy": "compact"}')
    return {str(name): str(value) for name, value in config.items()}


LATEST = -1
"""Result of ``put`` of a versioned store for a version that is still valid."""

NOT_PUT = -(2**63)
"""Result of ``put`` of a versioned store for a version that is too old to be kept."""


@dataclass(frozen=True)
class VersionedRecord:
    """A value with the half-open time ``[timestamp, valid_to)`` (ms) it is valid in; ``valid_to`` None is open.

    Args:
        value: the value of this version.
        timestamp: instant from which it is valid, in epoch milliseconds.
        valid_to: instant at which the next version replaces it, in epoch milliseconds. Default: None, still valid.

    Example:
        >>> VersionedRecord("gold", 10, valid_to=20)
        VersionedRecord(value='gold', timestamp=10, valid_to=20)
    """

    value: Any
    timestamp: int
    valid_to: int | None = None


class StoreOptions(TypedDict, total=False):
    """Options of every kind of store."""

    key_serde: Serde | str | None
    value_serde: Serde | str | None
    logged: bool
    cached: bool
    persistent: bool
    changelog_topic: str | None
    log_config: Mapping[str, str] | tuple[tuple[str, str], ...]
    factory: Callable[[StoreSpec], object] | None
    extra: Mapping[str, Any]


class Stores(Suggesting):
    """Specs of every kind of store; options of all: ``key_serde, value_serde, logged, cached, log_config, factory``.

    Stores are logged and uncached by default. Durations are strings such as ``"5m"`` or timedeltas.

    Example:
        >>> Stores.persistent_key_value_store("stock").kind
        'key_value'
        >>> Stores.in_memory_window_store("hits", retention="1h", window_size="5m").window_size_ms
        300000
    """

    @staticmethod
    def persistent_key_value_store(name: str, **options: Unpack[StoreOptions]) -> StoreSpec:
        """Keep rows by key as Kafka's RocksDB store does.

        As a table's store it forgets the times of rows: `persistent_timestamped_key_value_store` keeps them.

        Args:
            name: name of the store.
            options: options of every store. Default: logged and not cached.

        Raises: ConfigError for a store without a name, or an unknown option.
        """
        return _spec(name, "key_value", options)

    @staticmethod
    def in_memory_key_value_store(name: str, **options: Unpack[StoreOptions]) -> StoreSpec:
        """Keep rows by key as Kafka's in-memory store does.

        Args:
            name: name of the store.
            options: options of every store. Default: logged and not cached.

        Raises: ConfigError for a store without a name, or an unknown option.
        """
        return _spec(name, "key_value", options, persistent=False)

    @staticmethod
    def persistent_timestamped_key_value_store(name: str, **options: Unpack[StoreOptions]) -> StoreSpec:
        """Keep rows by key, each with its event time.

        Args:
            name: name of the store.
            options: options of every store. Default: logged and not cached.

        Raises: ConfigError for a store without a name, or an unknown option.
        """
        return _spec(name, "timestamped_key_value", options)

    @staticmethod
    def persistent_timestamped_key_value_store_with_headers(name: str, **options: Unpack[StoreOptions]) -> StoreSpec:
        """Keep rows by key, each with its event time and headers: `ValueTimestampHeaders`.

        Args:
            name: name of the store.
            options: options of every store. Default: logged and not cached.

        Raises: ConfigError for a store without a name, or an unknown option.

        Example:
            >>> Stores.persistent_timestamped_key_value_store_with_headers("stock").headers
            'kept'
        """
        return _spec(name, "timestamped_key_value", options, headers="kept")

    @staticmethod
    def lru_map(name: str, max_entries: int, **options: Unpack[StoreOptions]) -> StoreSpec:
        """Keep the ``max_entries`` most recently used rows.

        Args:
            name: name of the store.
            max_entries: maximum number of rows; one more evicts the least recently used.
            options: options of every store. Default: logged and not cached.

        Raises: ConfigError when ``max_entries`` is negative.
        """
        expect_number(max_entries, "max_entries")
        return _spec(name, "lru", options, max_entries=max_entries, persistent=False)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history: Duration, segment_interval: Duration | None = None, **options: Unpack[StoreOptions]
    ) -> StoreSpec:
        """Keep rows by key with their history for ``history`` of stream time.

        Args:
            name: name of the store.
            history: how long old versions are kept, in stream time, such as "7d".
            segment_interval: length of a segment, which expires as a whole. Default: computed from ``history`` as Kafka
                does.
            options: options of every store. Default: logged; versioned stores are never cached.

        Raises: ConfigError when ``history`` is negative, ``segment_interval`` is not positive or it is to be cached.
        """
        history_ms = _at_least(0, history, "history", "historyRetention cannot be negative")
        java = "segmentInterval cannot be zero or negative"
        segment_ms = None if segment_interval is None else _at_least(1, segment_interval, "segment_interval", java)
        cached = options.pop("cached", False)
        spec = _spec(name, "versioned", options, history_ms=history_ms, segment_ms=segment_ms)
        return spec.with_caching_enabled() if cached else spec

    @staticmethod
    def persistent_window_store(
        name: str,
        retention: Duration,
        window_size: Duration,
        retain_duplicates: bool = False,
        **options: Unpack[StoreOptions],
    ) -> StoreSpec:
        """Keep rows by key and window start; they expire by whole segments.

        As a table's store it forgets the times of rows: `persistent_timestamped_window_store` keeps them.

        Args:
            name: name of the store.
            retention: how long rows are kept, in stream time, such as "1d"; at least ``window_size``.
            window_size: size of the windows, such as "5m".
            retain_duplicates: keep several rows with the same key and window start. Default: False.
            options: options of every store. Default: logged and not cached.

        Raises: ConfigError when a duration is negative or ``retention`` is shorter than ``window_size``.
        """
        retention_ms = _at_least(0, retention, "retention", "retentionPeriod cannot be negative")
        size_ms = _at_least(0, window_size, "window_size", "windowSize cannot be negative")
        if retention_ms < size_ms:
            fact = f'retention of store "{name}" must be at least its window size of {size_ms} ms'
            java = f"The retention period of the window store {name} must be no smaller than its window size."
            java = f"{java} Got size=[{_iso(size_ms)}], retention=[{_iso(retention_ms)}]"
            raise ConfigError(f"{fact}, got {retention_ms} ms", java=java)
        fields = {"retention_ms": retention_ms, "window_size_ms": size_ms, "retain_duplicates": retain_duplicates}
        return _spec(name, "window", options, **fields)

    @staticmethod
    def in_memory_window_store(
        name: str,
        retention: Duration,
        window_size: Duration,
        retain_duplicates: bool = False,
        **options: Unpack[StoreOptions],
    ) -> StoreSpec:
        """Keep rows by key and window start; they expire exactly. Takes what `persistent_window_store` takes.

        Args:
            name: name of the store.
            retention: how long rows are kept, in stream time, such as "1d"; at least ``window_size``.
            window_size: size of the windows, such as "5m".
            retain_duplicates: keep several rows with the same key and window start. Default: False.
            options: options of every store. Default: logged and not cached.
        """
        spec = Stores.persistent_window_store(name, retention, window_size, retain_duplicates, **options)
        return replace(spec, persistent=False)

    @staticmethod
    def persistent_timestamped_window_store(
        name: str,
        retention: Duration,
        window_size: Duration,
        retain_duplicates: bool = False,
        **options: Unpack[StoreOptions],
    ) -> StoreSpec:
        """Keep rows by key and window start, each with its event time. Takes what `persistent_window_store` takes.

        Args:
            name: name of the store.
            retention: how long rows are kept, in stream time, such as "1d"; at least ``window_size``.
            window_size: size of the windows, such as "5m".
            retain_duplicates: keep several rows with the same key and window start. Default: False.
            options: options of every store. Default: logged and not cached.
        """
        spec = Stores.persistent_window_store(name, retention, window_size, retain_duplicates, **options)
        return replace(spec, kind="timestamped_window")

    @staticmethod
    def persistent_timestamped_window_store_with_headers(
        name: str,
        retention: Duration,
        window_size: Duration,
        retain_duplicates: bool = False,
        **options: Unpack[StoreOptions],
    ) -> StoreSpec:
        """Keep rows by key and window start, each with its event time and headers: `ValueTimestampHeaders`.

        Args:
            name: name of the store.
            retention: how long rows are kept, in stream time, such as "1d"; at least ``window_size``.
            window_size: size of the windows, such as "5m".
            retain_duplicates: keep several rows with the same key and window start. Default: False.
            options: options of every store. Default: logged and not cached.

        Example:
            >>> Stores.persistent_timestamped_window_store_with_headers("hits", retention="1h", window_size="5m").kind
            'timestamped_window'
        """
        spec = Stores.persistent_timestamped_window_store(name, retention, window_size, retain_duplicates, **options)
        return replace(spec, headers="kept")

    @staticmethod
    def persistent_session_store(name: str, retention: Duration, **options: Unpack[StoreOptions]) -> StoreSpec:
        """Keep aggregates by session; they expire by whole segments.

        Args:
            name: name of the store.
            retention: how long sessions are kept after their end, in stream time, such as "1d".
            options: options of every store. Default: logged and not cached.

        Raises: ConfigError when ``retention`` is negative.
        """
        retention_ms = _at_least(0, retention, "retention", "retentionPeriod cannot be negative")
        return _spec(name, "session", options, retention_ms=retention_ms)

    @staticmethod
    def persistent_session_store_with_headers(
        name: str, retention: Duration, **options: Unpack[StoreOptions]
    ) -> StoreSpec:
        """Keep aggregates by session, each with its headers: `AggregationWithHeaders`.

        Args:
            name: name of the store.
            retention: how long sessions are kept, in stream time, such as "1d".
            options: options of every store. Default: logged and not cached.

        Example:
            >>> Stores.persistent_session_store_with_headers("visits", retention="1h").headers
            'kept'
        """
        return replace(Stores.persistent_session_store(name, retention=retention, **options), headers="kept")

    @staticmethod
    def in_memory_session_store(name: str, retention: Duration, **options: Unpack[StoreOptions]) -> StoreSpec:
        """Keep aggregates by session; they expire exactly.

        Args:
            name: name of the store.
            retention: how long sessions are kept after their end, in stream time, such as "1d".
            options: options of every store. Default: logged and not cached.

        Raises: ConfigError when ``retention`` is negative.
        """
        return replace(Stores.persistent_session_store(name, retention=retention, **options), persistent=False)

    @staticmethod
    def key_value_store_builder(
        supplier: StoreSpec, key_serde: Serde | str | None, value_serde: Serde | str | None, **options: Any
    ) -> StoreSpec:
        """Combine ``supplier`` with serdes and, if given, other ``options``; the same for every kind of store.

        Rows are plain values even if the ``supplier`` keeps times or headers; other builders keep those.

        Args:
            supplier: the spec to complete, from another method of `Stores`.
            key_serde: serde of the keys, or its name; None for the application's default.
            value_serde: serde of the values, or its name; None for the application's default.
            options: fields of `StoreSpec` to replace. Default: none.

        Raises: ConfigError for an option that is not a field of `StoreSpec`.

        Example:
            >>> spec = Stores.persistent_timestamped_key_value_store("stock")
            >>> Stores.key_value_store_builder(spec, "string", "json").kind
            'key_value'
        """
        spec = _complete(supplier, key_serde, value_serde, options)
        return replace(spec, kind=_PLAIN.get(spec.kind, spec.kind), headers="none")

    versioned_key_value_store_builder = key_value_store_builder
    window_store_builder = key_value_store_builder
    session_store_builder = key_value_store_builder

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: StoreSpec, key_serde: Serde | str | None, value_serde: Serde | str | None, **options: Any
    ) -> StoreSpec:
        """Combine ``supplier`` with serdes, and keep an event time with each row; the same for window stores.

        As in Kafka Streams, a persistent ``supplier`` without times forgets them: rows that are read have time -1.

        Args:
            supplier: the spec to complete, such as that of `lru_map` or `in_memory_key_value_store`.
            key_serde: serde of the keys, or its name; None for the application's default.
            value_serde: serde of the values, or its name; None for the application's default.
            options: fields of `StoreSpec` to replace. Default: none.

        Example:
            >>> spec = Stores.timestamped_key_value_store_builder(Stores.lru_map("stock", 3), "string", "json")
            >>> spec.kind, spec.max_entries
            ('timestamped_key_value', 3)
        """
        return with_times(_complete(supplier, key_serde, value_serde, options))

    timestamped_window_store_builder = timestamped_key_value_store_builder

    @staticmethod
    def timestamped_key_value_store_with_headers_builder(
        supplier: StoreSpec, key_serde: Serde | str | None, value_serde: Serde | str | None, **options: Any
    ) -> StoreSpec:
        """Combine ``supplier`` with serdes and headers; the same for key-value, window and session stores.

        Args:
            supplier: the spec to complete: an in-memory store, or a persistent one with headers.
            key_serde: serde of the keys, or its name; None for the application's default.
            value_serde: serde of the values, or its name; None for the application's default.
            options: fields of `StoreSpec` to replace. Default: none.

        Raises: ConfigError when ``supplier`` cannot keep headers.

        Example:
            >>> spec = Stores.in_memory_key_value_store("stock")
            >>> Stores.timestamped_key_value_store_with_headers_builder(spec, "string", "json").headers
            'kept'
        """
        spec = Stores.timestamped_key_value_store_builder(supplier, key_serde, value_serde, **options)
        can = supplier.kind not in ("lru", "versioned")
        if not can or (spec.persistent and spec.headers != "kept"):
            hint = f"write Stores.persistent_{spec.kind}_store_with_headers" if can else "use another kind of store"
            raise ConfigError(f'store "{spec.name}" of kind {supplier.kind} cannot store headers', hint=hint)
        return replace(spec, headers="kept")

    timestamped_window_store_with_headers_builder = timestamped_key_value_store_with_headers_builder
    session_store_with_headers_builder = timestamped_key_value_store_with_headers_builder


def _complete(supplier: StoreSpec, key_serde: Any, value_serde: Any, options: Mapping[str, Any]) -> StoreSpec:
    expect(supplier, StoreSpec, "supplier", hint='write for example Stores.in_memory_key_value_store("name")')
    expect_known("option", options, [each.name for each in fields(StoreSpec)], error=ConfigError)
    return replace(supplier, key_serde=key_serde, value_serde=value_serde, **options)


_PLAIN: dict[StoreKind, StoreKind] = {"timestamped_key_value": "key_value", "timestamped_window": "window"}
_TIMESTAMPED: dict[StoreKind, StoreKind] = {plain: kind for kind, plain in _PLAIN.items()}
_TIMESTAMPED["lru"] = "timestamped_key_value"


def with_times(supplier: StoreSpec) -> StoreSpec:
    """Return a store whose rows have times, which a plain persistent one forgets: its format has no place for them."""
    kind = _TIMESTAMPED.get(supplier.kind, supplier.kind)
    forgets = supplier.persistent and supplier.factory is None and kind != supplier.kind
    extra = {**supplier.extra, "forgets_times": True} if forgets else supplier.extra
    return replace(supplier, kind=kind, extra=extra)


def _spec(name: str, kind: StoreKind, options: StoreOptions, **fields: Any) -> StoreSpec:
    expect_known("option", options, StoreOptions.__annotations__, error=ConfigError)
    return StoreSpec(name, kind, **{**fields, **options})


def _at_least(least: int, value: Duration, what: str, java: str) -> int:
    ms = duration_ms(value, what)
    if ms < least:
        raise ConfigError(f"{what} of a store must be at least {least} ms, got {ms} ms", java=java)
    return ms


def _iso(ms: int) -> str:
    """Return a duration as Java prints it, such as PT26H3M4.005S."""
    hours, rest = divmod(ms, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    counts = {"H": hours, "M": minutes, "S": f"{rest / 1000:g}" if rest else ""}
    return "PT" + ("".join(f"{count}{unit}" for unit, count in counts.items() if count) or "0S")
