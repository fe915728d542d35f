"""The option objects of Kafka Streams: frozen values, each with a keyword for everything it carries.

Every ``with_…`` method of Java gives a changed copy here. Methods of the DSL take either an object or the keywords
themselves (``store="x"``, ``name="y"``, ``value_serde=…``); what is given as a keyword wins. A serde may be given by
name ("long"), a duration as text ("5m").
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self, TypedDict, TypeVar

from kstreamnb.core.extractors import extractor_of
from kstreamnb.core.serdes import NamesSerdes
from kstreamnb.core.stores import Stores, StoreSpec
from kstreamnb.core.time import Duration, duration_ms
from kstreamnb.errors import ConfigError, unknown
from kstreamnb.logical.builder import check_resource_name

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
F = TypeVar("F", bound=Callable[..., Any])


class Named(str):
    """The name of an operator: plain text does as well.

    Example:
        >>> Named.as_("clean")
        'clean'
    """

    __slots__ = ()

    @classmethod
    def as_(cls, name: str) -> Self:
        """The name, checked: letters, digits, ".", "_" and "-", at most 249 of them."""
        return cls(check_resource_name(name))


class Copying:
    """A ``with_…`` method: gives a copy of the options with one field changed."""

    def __init__(self, name: str, *, to: bool | None = None) -> None:
        self.name, self.to = name, to
        self.__doc__ = f"Give a copy with another ``{name}``."

    def __get__(self, options: Any, owner: Any = None) -> Any:
        if options is None:
            return self
        if self.to is not None:
            return lambda: replace(options, **{self.name: self.to})
        return lambda value: replace(options, **{self.name: value})


class Options(NamesSerdes):
    """What all option objects do: check names, look up serdes by name, give changed copies."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("name", "store_name"):
            if vars(self).get(name) is not None:
                check_resource_name(vars(self)[name])


@dataclass(frozen=True, kw_only=True)
class LoggedOptions(Options):
    """Options of what is kept in a store: whether it is logged, and how its changelog is configured."""

    logged: bool = True
    log_config: Mapping[str, str] = field(default_factory=dict)

    with_logging_disabled = Copying("logged", to=False)

    def with_logging_enabled(self, config: Mapping[str, str] | None = None) -> Self:
        """Give a copy that is logged, to a topic with this configuration."""
        return replace(self, logged=True, log_config=dict(config or {}))

    @property
    def logging(self) -> dict[str, Any]:
        """The same as fields of a store."""
        return {"logged": self.logged, "log_config": tuple(sorted(self.log_config.items()))}


@dataclass(frozen=True, kw_only=True)
class NamedOptions(Options):
    """Options of what has a name as an operator."""

    name: str | None = None

    @classmethod
    def as_(cls, name: str) -> Self:
        """Options that say a name."""
        return cls(name=name)

    with_name = Copying("name")


class _SerdeMethods(Options):
    @classmethod
    def with_(cls, *serdes: Any, **others: Any) -> Self:
        """Options that say serdes of keys, of values and, of joins, of the other side's values; the rest by keyword."""
        words = ("key_serde", "value_serde", "other_value_serde")[: len(serdes)]
        return cls(**dict(zip(words, serdes, strict=True)), **others)

    with_key_serde = Copying("key_serde")
    with_value_serde = Copying("value_serde")


@dataclass(frozen=True)
class TopicOptions(NamedOptions, _SerdeMethods):
    """Options of what is at a topic: both serdes, and a name."""

    key_serde: Any = None
    value_serde: Any = None


def given(kind: type[Any], options: Any, **keywords: Any) -> Any:
    """``options``, or empty ones of that kind, with the keywords that are not None put in.

    Raises: ConfigError when ``options`` are of another kind, or a keyword means nothing to them.
    """
    if options is not None and not isinstance(options, kind):
        raise ConfigError(f"expected {kind.__name__} options, not a {type(options).__name__}")
    known = [each.name for each in fields(kind)]
    for name in keywords:
        if name not in known:
            raise unknown("option", name, known, error=ConfigError)
    changes = {name: value for name, value in keywords.items() if value is not None}
    base = kind() if options is None else options
    return replace(base, **changes) if changes else base


def serdes_of(options: Any, key_serde: Any, value_serde: Any) -> dict[str, Any]:
    """Both serdes by name: those of the options, or these where the options have none."""
    return {"key_serde": options.key_serde or key_serde, "value_serde": options.value_serde or value_serde}


def spelled_out(function: F) -> F:
    """A function whose signature shows one by one the keywords that it takes as ``**options: Unpack[…]``.

    As in Java, a `Named` and a `Materialized` may stand last without their keyword.
    """
    signature = inspect.signature(function)
    *plain, rest = signature.parameters.values()
    words = rest.annotation.removeprefix("Unpack[").removesuffix("]")
    keywords = function.__globals__[words].__annotations__
    shown = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in keywords]

    @functools.wraps(function)
    def called(*said: Any, **options: Any) -> Any:
        for word, kind in (("materialized", Materialized), ("name", Named)):
            if word not in options and isinstance(said[-1], kind):
                options[word], said = said[-1], said[:-1]
        return function(*said, **options)

    called.__signature__ = signature.replace(parameters=[*plain, *shown])  # type: ignore[attr-defined]
    return called  # type: ignore[return-value]


@dataclass(frozen=True)
class Consumed(TopicOptions):
    """How a topic is read: serdes, timestamps, where to start, and the source's name.

    ``offset_reset`` is "earliest", "latest", "none" or a text such as "by_duration:1h".

    Example:
        >>> consumed = Consumed(value_serde="long", timestamp_extractor=lambda record, partition_time_ms: record.value)
        >>> consumed.value_serde.name
        'long'
    """

    timestamp_extractor: Any = None
    offset_reset: str | None = None

    with_timestamp_extractor = Copying("timestamp_extractor")
    with_offset_reset_policy = Copying("offset_reset")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.timestamp_extractor is not None:
            object.__setattr__(self, "timestamp_extractor", extractor_of(self.timestamp_extractor))


@dataclass(frozen=True)
class Produced(TopicOptions):
    """How a topic is written: serdes, who chooses the partition, and the sink's name.

    Example:
        >>> Produced(key_serde="string", value_serde="long").with_name("totals").name
        'totals'
    """

    partitioner: Any = None

    with_stream_partitioner = Copying("partitioner")
    stream_partitioner = classmethod(lambda cls, partitioner: cls(partitioner=partitioner))


class Grouped(TopicOptions):
    """Serdes of a grouping's repartition topic, and its name.

    Example:
        >>> Grouped(name="by-colour", value_serde="json").value_serde.name
        'json'
    """


@dataclass(frozen=True)
class Joined(TopicOptions):
    """Serdes and name of a stream-table join, and how long records wait for a versioned table (``grace``).

    Example:
        >>> Joined(name="with-rate", grace="5m").name
        'with-rate'
    """

    other_value_serde: Any = None
    grace: Duration | None = None

    with_other_value_serde = Copying("other_value_serde")
    with_grace_period = Copying("grace")


StoreType = Literal["persistent", "in_memory"]
"""Which of Kafka's expiry rules a store follows: RocksDB's or the in-memory store's; both are held in memory here."""


@dataclass(frozen=True)
class StreamJoined(LoggedOptions, TopicOptions):
    """Serdes, names and stores of a stream-stream join; ``store_name`` is the base name of its stores.

    Example:
        >>> StreamJoined(name="clicks-and-views", store_name="recent").store_name
        'recent'
    """

    other_value_serde: Any = None
    store_name: str | None = None
    store_type: StoreType | None = None
    this_store: StoreSpec | None = None
    other_store: StoreSpec | None = None

    with_other_value_serde = Copying("other_value_serde")
    with_store_name = Copying("store_name")
    with_dsl_store_suppliers = Copying("store_type")
    with_this_store_supplier = Copying("this_store")
    with_other_store_supplier = Copying("other_store")

    @classmethod
    def as_(cls, name: str) -> Self:
        """Options that say the base name of the stores."""
        return cls(store_name=name)


class GlobalJoined(NamedOptions):
    """The name of a join with a global table: it takes nothing else."""


@dataclass(frozen=True)
class TableJoined(NamedOptions):
    """Partitioners and name of a foreign-key join: by the left table's keys, and by the other's.

    Example:
        >>> TableJoined(name="order-customer").name
        'order-customer'
    """

    partitioner: Any = None
    other_partitioner: Any = None

    with_partitioner = Copying("partitioner")
    with_other_partitioner = Copying("other_partitioner")

    @classmethod
    def with_(cls, partitioner: Any = None, other_partitioner: Any = None, **others: Any) -> Self:
        """Options that say partitioners."""
        return cls(partitioner, other_partitioner, **others)


@dataclass(frozen=True)
class Repartitioned(TopicOptions):
    """Serdes, partitioner, number of partitions and name of an explicit repartition topic.

    Example:
        >>> Repartitioned(name="by-region", partitions=8).partitions
        8
    """

    partitioner: Any = None
    partitions: int | None = None

    with_stream_partitioner = Copying("partitioner")
    with_number_of_partitions = Copying("partitions")
    number_of_partitions = classmethod(lambda cls, partitions: cls(partitions=partitions))
    stream_partitioner = classmethod(lambda cls, partitioner: cls(partitioner=partitioner))


@dataclass(frozen=True)
class Branched(NamedOptions):
    """What becomes of one branch of a split: its name, and a function or consumer that gets its stream.

    ``function(stream)`` gives the stream that stands in the result, or None for none; ``consumer(stream)`` gives none.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> orders = StreamsBuilder().stream("orders")
        >>> large = Branched.with_consumer(lambda stream: stream.to("large"))
        >>> orders.split().branch(lambda key, pieces: pieces > 9, large).no_default_branch()
        {}
    """

    name: str | None = None
    function: Callable[[Any], Any] | None = None
    consumer: Callable[[Any], object] | None = None

    def __post_init__(self) -> None:  # a branch's name is only a part of one
        if self.function is not None and self.consumer is not None:
            raise ConfigError("a branch has either a function or a consumer")

    @classmethod
    def with_function(cls, function: Callable[[Any], Any], name: str | None = None) -> Self:
        """A branch that a function changes."""
        return cls(name, function)

    @classmethod
    def with_consumer(cls, consumer: Callable[[Any], object], name: str | None = None) -> Self:
        """A branch that ends in a consumer."""
        return cls(name, None, consumer)


@dataclass(frozen=True)
class Printed(NamedOptions):
    """How records are printed: with which label, as which text, where to.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> StreamsBuilder().stream("orders").print(Printed.to_sys_out().with_label("orders"))
    """

    label: str | None = None
    mapper: Callable[[Any, Any], Any] | None = None
    write: Callable[[str], Any] | None = None

    with_label = Copying("label")
    with_key_value_mapper = Copying("mapper")

    @classmethod
    def to_sys_out(cls) -> Self:
        """Print to standard output."""
        return cls()

    @classmethod
    def to_file(cls, path: str) -> Self:
        """Append lines to a file."""
        return cls(write=_FileWriter(path))


@dataclass(frozen=True)
class _FileWriter:
    path: str

    def __call__(self, line: str) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(line + "\n")


@dataclass(frozen=True)
class EmitStrategy:
    """When a windowed aggregation speaks: at every update, or once when a window has closed.

    Example:
        >>> from kstreamnb import StreamsBuilder, TimeWindows
        >>> hours = StreamsBuilder().stream("orders").group_by_key().windowed_by(TimeWindows.of(size="1h"))
        >>> finals = hours.emit_strategy(EmitStrategy.on_window_close()).count()
    """

    on_close: bool = False

    @classmethod
    def on_window_update(cls) -> Self:
        """Emit every update: the default."""
        return cls(on_close=False)

    @classmethod
    def on_window_close(cls) -> Self:
        """Emit one result for each window, when it can change no more."""
        return cls(on_close=True)


@dataclass(frozen=True)
class Materialized(LoggedOptions, _SerdeMethods):
    """How the rows of a table are kept: in which store, with which serdes, logged and cached or not, how long.

    Units: ``retention`` and ``versioned`` are durations of stream time.

    Args:
        store: the store's name, by which it can be queried, or a spec from `Stores`.
        versioned: keep old versions this long: the store is then a versioned one.
        store_type: "persistent" or "in_memory": whose expiry rules the store follows.

    Example:
        >>> Materialized("totals", value_serde="long").with_logging_disabled().store_name
        'totals'
    """

    store: str | StoreSpec | None = None
    key_serde: Any = None
    value_serde: Any = None
    retention: Duration | None = None
    cached: bool = True
    store_type: StoreType | None = None
    versioned: Duration | None = None

    with_retention = Copying("retention")
    with_store_type = Copying("store_type")
    with_caching_enabled = Copying("cached", to=True)
    with_caching_disabled = Copying("cached", to=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.store, str):
            check_resource_name(self.store)
        if self.versioned is not None:
            if not isinstance(self.store, str):
                raise ConfigError("a versioned store needs a name", hint='say store="…" as well')
            spec = Stores.persistent_versioned_key_value_store(self.store, history=self.versioned)
            object.__setattr__(self, "store", spec)
            object.__setattr__(self, "versioned", None)
        if isinstance(self.store, StoreSpec) and self.store_type is not None:
            fact = f'store "{self.store.name}" says itself of what type it is: a store type beside it is one too many'
            java = "Cannot set store type when store supplier is pre-configured."
            raise ConfigError(fact, hint="leave store_type out", java=java)
        if self.retention is not None and duration_ms(self.retention, "retention") < 0:
            raise ConfigError(f"retention {self.retention} is negative", java="Retention must not be negative.")

    @classmethod
    def as_(cls, store: str | StoreSpec) -> Self:
        """Rows kept in a store of this name, or made from this spec."""
        return cls(store)

    @property
    def store_name(self) -> str | None:
        """The user's name of the store."""
        return self.store.name if isinstance(self.store, StoreSpec) else self.store

    @property
    def is_versioned(self) -> bool:
        """Whether the store keeps versions."""
        return isinstance(self.store, StoreSpec) and self.store.kind == "versioned"


class Grouping(TypedDict, total=False):
    """Keywords of `Grouped`."""

    key_serde: Any
    value_serde: Any
    name: str | None


class Reading(Grouping, total=False):
    """Keywords of `Consumed`."""

    timestamp_extractor: Any
    offset_reset: str | None


class Writing(Grouping, total=False):
    """Keywords of `Produced`."""

    partitioner: Any


class Through(Writing, total=False):
    """Keywords of `Repartitioned`."""

    partitions: int | None


class Kept(TypedDict, total=False):
    """Keywords of every method whose result may be kept in a store: its name, and short forms of `Materialized`."""

    name: str | None
    store: str | StoreSpec | None
    materialized: Materialized | None
    key_serde: Any
    value_serde: Any
    retention: Duration | None
    cached: bool | None
    logged: bool | None
    store_type: StoreType | None
    versioned: Duration | None


class TableReading(Kept, total=False):
    """Keywords of a table that is read: those of `Consumed` and of `Materialized`."""

    timestamp_extractor: Any
    offset_reset: str | None


@dataclass(frozen=True)
class BufferConfig(LoggedOptions):
    """Limits of a suppression's buffer: records, bytes, and whether a full one lets the oldest go or fails.

    Units: records; bytes as Kafka estimates them.

    Example:
        >>> buffer = BufferConfig.max_records(1000).emit_early_when_full()
        >>> buffer.records_limit, buffer.bytes_limit, buffer.emit_early
        (1000, None, True)
    """

    records_limit: int | None = None
    bytes_limit: int | None = None
    emit_early: bool = False

    with_max_records = Copying("records_limit")
    with_max_bytes = Copying("bytes_limit")
    emit_early_when_full = Copying("emit_early", to=True)
    shut_down_when_full = Copying("emit_early", to=False)

    def with_no_bound(self) -> Self:
        """Give a copy without limits."""
        return replace(self, records_limit=None, bytes_limit=None, emit_early=False)

    @classmethod
    def unbounded(cls) -> Self:
        """No limit."""
        return cls()

    @classmethod
    def max_records(cls, records: int) -> Self:
        """At most so many records; then the oldest goes out early."""
        return cls(records_limit=records, emit_early=True)

    @classmethod
    def max_bytes(cls, size: int) -> Self:
        """At most so many bytes; then the oldest goes out early."""
        return cls(bytes_limit=size, emit_early=True)


@dataclass(frozen=True)
class Suppressed(Options):
    """When held-back changes come out.

    Units: ``wait_ms`` is stream time after the first change that is held back.

    Example:
        >>> Suppressed.until_time_limit("5m", BufferConfig.max_records(1000)).wait_ms
        300000
    """

    buffer: BufferConfig = BufferConfig()
    wait_ms: int = 0
    until_close: bool = False
    name: str | None = None

    with_name = Copying("name")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.until_close and self.buffer.emit_early:
            raise ConfigError(
                "a buffer that lets records go early cannot wait for windows to close",
                hint="use BufferConfig.unbounded(), or shut_down_when_full()",
            )

    @classmethod
    def until_time_limit(cls, wait: Duration, buffer: BufferConfig | None = None, *, name: str | None = None) -> Self:
        """Hold each key's changes back for a while after the first; the last one comes out."""
        return cls(buffer or BufferConfig(), duration_ms(wait, "wait"), name=name)

    @classmethod
    def until_window_closes(cls, buffer: BufferConfig | None = None, *, name: str | None = None) -> Self:
        """Hold each window's changes back until it has closed; its final result comes out."""
        return cls(buffer or BufferConfig(), until_close=True, name=name)
