"""The option objects of Kafka Streams: frozen values with a keyword for each setting.

Every ``with_…`` method of Java returns a changed copy. Methods of the DSL take an option object, the same settings as
keywords (``store="x"``, ``name="y"``, ``value_serde=…``), or both; a keyword wins. A serde may be given by its name
("long"), a duration as text ("5m").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self

import attrs

from kstreamnb.core.arguments import expect
from kstreamnb.core.codec import StreamPartitioner
from kstreamnb.core.extractors import TimestampExtractor
from kstreamnb.core.names import check_resource_name
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import serde_or_none
from kstreamnb.core.stores import Stores, StoreSpec
from kstreamnb.core.time import Duration, duration_ms
from kstreamnb.dsl.option_fields import (
    ExtractorLike,
    LoggedOptions,
    NamedOptions,
    Options,
    SerdeLike,
    Setting,
    StoreType,
    TopicOptions,
    check_any_name,
    check_count,
    check_duration,
    check_flag,
    check_function,
    check_name,
    check_number,
    check_offset_reset,
    check_store,
    check_store_type,
    extractor_or_none,
)
from kstreamnb.dsl.type_vars import SK, SV, K, V
from kstreamnb.errors import ConfigError


# --- topics -----------------------------------------------------------------------------------------------------------
@attrs.frozen(slots=False)
class Consumed(TopicOptions, Generic[SK, SV]):
    """Options of a topic that is read.

    Args:
        key_serde: serde of the keys, or its name such as "long". Default: the application's ``default.key.serde``.
        value_serde: serde of the values, or its name. Default: the application's ``default.value.serde``.
        timestamp_extractor: function ``(record, partition_time_ms) -> ms`` that returns a record's event time in epoch
            milliseconds (negative: drop the record), an object with ``extract``, or the name of one of Kafka's.
            Default: the record's own timestamp.
        offset_reset: where to start without a committed offset: "earliest", "latest", "none" (fail) or
            "by_duration:PT1H" (an ISO-8601 duration before now). Default: the application's ``auto.offset.reset``.
        name: name of the operator's node in the topology. Default: a generated name.

    Example:
        >>> consumed = Consumed(value_serde="long", timestamp_extractor=lambda record, partition_time_ms: record.value)
        >>> consumed.value_serde.name
        'long'
    """

    timestamp_extractor: TimestampExtractor | None = attrs.field(default=None, converter=extractor_or_none)
    offset_reset: str | None = attrs.field(default=None, validator=check_offset_reset)

    with_timestamp_extractor = Setting[ExtractorLike]("timestamp_extractor")
    with_offset_reset_policy = Setting[str]("offset_reset")

    @classmethod
    def with_(
        cls,
        key_serde: Serde[K] | str | None = None,
        value_serde: Serde[V] | str | None = None,
        timestamp_extractor: ExtractorLike | None = None,
        offset_reset: str | None = None,
        *,
        name: str | None = None,
    ) -> Consumed[K, V]:
        """Return options in Java's order of arguments; the serdes give a stream its types.

        Args:
            key_serde: serde of the keys, or its name. Default: None, that of the application.
            value_serde: serde of the values, or its name. Default: None, that of the application.
            timestamp_extractor: determines event times. Default: None, the record's own timestamp.
            offset_reset: where to start without a committed offset. Default: None, as the application says.
            name: name of the operator's node in the topology. Default: a generated name.
        """
        return Consumed(key_serde, value_serde, timestamp_extractor, offset_reset, name=name)


@attrs.frozen(slots=False)
class Produced(TopicOptions):
    """Options of a topic that is written.

    Args:
        key_serde: serde of the keys, or its name such as "long". Default: that of the stream, else the application's.
        value_serde: serde of the values, or its name. Default: that of the stream, else the application's.
        partitioner: function ``(topic, key, value, partitions) -> partition`` (0-based; None: by key).
            Default: Kafka's murmur2 of the serialized key.
        name: name of the operator's node in the topology. Default: a generated name.

    Example:
        >>> Produced(key_serde="string", value_serde="long").with_name("totals").name
        'totals'
    """

    partitioner: StreamPartitioner | None = attrs.field(default=None, validator=check_function)

    with_stream_partitioner = Setting[StreamPartitioner]("partitioner")

    @classmethod
    def with_(
        cls,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        partitioner: StreamPartitioner | None = None,
        *,
        name: str | None = None,
    ) -> Self:
        """Return options in Java's order of arguments.

        Args:
            key_serde: serde of the keys, or its name. Default: None, that of the stream or the application.
            value_serde: serde of the values, or its name. Default: None, that of the stream or the application.
            partitioner: function ``(topic, key, value, partitions) -> partition``. Default: None, murmur2 of the key's
                bytes.
            name: name of the operator's node in the topology. Default: a generated name.
        """
        return cls(key_serde, value_serde, partitioner, name=name)

    @classmethod
    def stream_partitioner(cls, partitioner: StreamPartitioner) -> Self:
        """Return options with this partitioner.

        Args:
            partitioner: function ``(topic, key, value, partitions) -> partition``.
        """
        return cls(partitioner=partitioner)


@attrs.frozen(slots=False)
class Grouped(TopicOptions):
    """Serdes of a grouping's repartition topic, and its name.

    Args:
        key_serde: serde of the keys, or its name such as "long". Default: that of the stream, else the application's.
        value_serde: serde of the values, or its name. Default: that of the stream, else the application's.
        name: name of the operator, and prefix of its repartition topic. Default: a generated name.

    Example:
        >>> Grouped(name="by-color", value_serde="json").value_serde.name
        'json'
    """


@attrs.frozen(slots=False)
class Repartitioned(Produced):
    """Options of an explicit repartition topic.

    Args:
        key_serde: serde of the keys, or its name such as "long". Default: that of the stream, else the application's.
        value_serde: serde of the values, or its name. Default: that of the stream, else the application's.
        partitioner: function ``(topic, key, value, partitions) -> partition`` (0-based; None: by key).
            Default: Kafka's murmur2 of the serialized key.
        partitions: number of partitions, at least 1. Default: the largest number among the topics upstream.
        name: name of the operator, and prefix of the topic. Default: a generated name.

    Example:
        >>> Repartitioned(name="by-region", partitions=8).partitions
        8
    """

    partitions: int | None = attrs.field(default=None, validator=check_count)

    with_number_of_partitions = Setting[int]("partitions")

    @classmethod
    def number_of_partitions(cls, partitions: int) -> Self:
        """Return options with this number of partitions.

        Args:
            partitions: number of partitions, at least 1.
        """
        return cls(partitions=partitions)


# --- joins ------------------------------------------------------------------------------------------------------------
@attrs.frozen(slots=False)
class JoinedOptions(TopicOptions):
    """Serdes of a join with a stream on its left, and its name."""

    other_value_serde: Serde | None = attrs.field(default=None, converter=serde_or_none)

    with_other_value_serde = Setting[SerdeLike]("other_value_serde")

    @classmethod
    def with_(
        cls,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        other_value_serde: SerdeLike | None = None,
        *,
        name: str | None = None,
    ) -> Self:
        """Return options with these serdes; everything else has a ``with_…`` method.

        Args:
            key_serde: serde of the keys, or its name. Default: None, that of the stream or the application.
            value_serde: serde of this side's values, or its name. Default: None, that of the stream or the application.
            other_value_serde: serde of the other side's values, or its name. Default: None, that of the other side.
            name: name of the operator's node in the topology. Default: a generated name.
        """
        return cls(key_serde=key_serde, value_serde=value_serde, other_value_serde=other_value_serde, name=name)


@attrs.frozen(slots=False)
class Joined(JoinedOptions):
    """Serdes and name of a stream-table join.

    Args:
        key_serde: serde of the keys, or its name such as "long". Default: that of the stream, else the application's.
        value_serde: serde of the stream's values, or its name. Default: that of the stream, else the application's.
        other_value_serde: serde of the table's values, or its name. Default: that of the table.
        grace: how long a record waits for changes of a versioned table, in stream time. Default: not at all.
        name: name of the operator's node in the topology. Default: a generated name.

    Example:
        >>> Joined(name="with-rate", grace="5m").name
        'with-rate'
    """

    grace: Duration | None = attrs.field(default=None, validator=check_duration)

    with_grace_period = Setting[Duration]("grace")

    @classmethod
    def with_(
        cls,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
        other_value_serde: SerdeLike | None = None,
        name: str | None = None,
        grace: Duration | None = None,
    ) -> Self:
        """Return options with these serdes, name and grace period, in the order of Java.

        Args:
            key_serde: serde of the keys, or its name. Default: None, that of the stream or the application.
            value_serde: serde of this side's values, or its name. Default: None, that of the stream or the application.
            other_value_serde: serde of the other side's values, or its name. Default: None, that of the other side.
            name: name of the operator's node in the topology. Default: a generated name.
            grace: how long a stream's records wait for later versions of the table, in stream time. Default: None, no
                wait.
        """
        return cls(key_serde, value_serde, other_value_serde, name=name, grace=grace)


@attrs.frozen(slots=False)
class StreamJoined(LoggedOptions, JoinedOptions):
    """Serdes, names and stores of a stream-stream join.

    Args:
        key_serde: serde of the keys, or its name such as "long". Default: that of the streams, else the application's.
        value_serde: serde of this stream's values, or its name. Default: that of the stream, else the application's.
        other_value_serde: serde of the other stream's values. Default: that of the stream, else the application's.
        store_name: base name of the window stores and their changelogs. Default: a generated name.
        store_type: "persistent" or "in_memory": whose expiry rules the stores follow. Default: the builder's.
        this_store: store of this stream's records, made by `Stores`, which retains duplicates. Default: a new one.
        other_store: store of the other stream's records. Default: a new one.
        logged: whether the stores have changelog topics. Default: True.
        log_config: settings of the changelog topics by Kafka's names. Default: none.
        name: name of the operator's nodes in the topology. Default: generated names.

    Example:
        >>> StreamJoined(name="clicks-and-views", store_name="recent").store_name
        'recent'
    """

    store_name: str | None = attrs.field(default=None, validator=check_any_name)
    store_type: StoreType | None = attrs.field(default=None, validator=check_store_type)
    this_store: StoreSpec | None = attrs.field(default=None, validator=check_store)
    other_store: StoreSpec | None = attrs.field(default=None, validator=check_store)

    with_store_name = Setting[str]("store_name")
    with_dsl_store_suppliers = Setting[StoreType]("store_type")
    with_this_store_supplier = Setting[StoreSpec]("this_store")
    with_other_store_supplier = Setting[StoreSpec]("other_store")

    @classmethod
    def as_(cls, name: str) -> Self:
        """Return options with this base name of the stores.

        Args:
            name: prefix of the names of both stores.
        """
        return cls(store_name=name)


@attrs.frozen(slots=False)
class GlobalJoined(NamedOptions):
    """The name of a join with a global table; it has no other settings.

    Args:
        name: name of the operator's node in the topology. Default: a generated name.
    """


@attrs.frozen(slots=False)
class TableJoined(NamedOptions):
    """Partitioners and name of a foreign-key join.

    Args:
        partitioner: function ``(topic, key, None, partitions) -> partition`` that chose the partitions of the left
            table's topic. Default: Kafka's murmur2 of the serialized key.
        other_partitioner: the same for the right table's topic. Default: Kafka's murmur2 of the serialized key.
        name: name of the operator's nodes in the topology. Default: generated names.

    Example:
        >>> TableJoined(name="order-customer").name
        'order-customer'
    """

    partitioner: StreamPartitioner | None = attrs.field(default=None, validator=check_function)
    other_partitioner: StreamPartitioner | None = attrs.field(default=None, validator=check_function)

    with_partitioner = Setting[StreamPartitioner]("partitioner")
    with_other_partitioner = Setting[StreamPartitioner]("other_partitioner")

    @classmethod
    def with_(
        cls, partitioner: StreamPartitioner | None = None, other_partitioner: StreamPartitioner | None = None
    ) -> Self:
        """Return options with these partitioners.

        Args:
            partitioner: partitioner of the left table's keys. Default: None, murmur2 of the key's bytes.
            other_partitioner: partitioner of the right table's keys. Default: None, murmur2 of the key's bytes.
        """
        return cls(partitioner, other_partitioner)


# --- lines of text -------------------------------------------------------------------------------------------------
@attrs.frozen(slots=False)
class Printed(NamedOptions):
    """Options of printed records.

    Args:
        label: text in brackets before each line. Default: the name of the stream's node.
        mapper: function ``(key, value) -> text`` of a record. Default: "key, value".
        write: function that receives each line. Default: print it to standard output.
        name: name of the operator's node in the topology. Default: a generated name.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> StreamsBuilder().stream("orders").print(Printed.to_sys_out().with_label("orders"))
    """

    label: str | None = None
    mapper: Callable[[Any, Any], object] | None = attrs.field(default=None, validator=check_function)
    write: Callable[[str], object] | None = attrs.field(default=None, validator=check_function)

    with_label = Setting[str]("label")
    with_key_value_mapper = Setting[Callable[[Any, Any], object]]("mapper")

    @classmethod
    def to_sys_out(cls) -> Self:
        """Return options that print to standard output."""
        return cls()

    @classmethod
    def to_file(cls, path: str) -> Self:
        """Return options that append lines to a file.

        Args:
            path: the file; created with the first line, in UTF-8.

        Raises: ConfigError when the path is empty.
        """
        if not path or type(path) is not str:
            raise ConfigError(f"path must be a file name, got {path!r}")
        return cls(write=_FileWriter(path))


@attrs.frozen
class _FileWriter:
    path: str

    def __call__(self, line: str) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(line + "\n")


# --- tables -----------------------------------------------------------------------------------------------------------
@attrs.frozen(slots=False)
class EmitStrategy(Options):
    """Decides when a windowed aggregation emits results.

    Args:
        on_close: True emits one result per window, when the window closes; False emits every update. Default: False.

    Example:
        >>> from kstreamnb import StreamsBuilder, TimeWindows
        >>> hours = StreamsBuilder().stream("orders").group_by_key().windowed_by(TimeWindows.of(size="1h"))
        >>> finals = hours.emit_strategy(EmitStrategy.on_window_close()).count()
    """

    on_close: bool = attrs.field(default=False, validator=check_flag)

    @classmethod
    def on_window_update(cls) -> Self:
        """Emit every update: the default."""
        return cls(on_close=False)

    @classmethod
    def on_window_close(cls) -> Self:
        """Emit one result per window, when it can no longer change."""
        return cls(on_close=True)


@attrs.frozen(slots=False)
class Materialized(LoggedOptions):
    """Settings of a table's store.

    Args:
        store: name of the store, by which it can be queried, or a store made by `Stores`. Default: a generated name,
            not queryable.
        key_serde: serde of the keys, or its name such as "long". Default: that of the input, else the application's.
        value_serde: serde of the rows, or its name. Default: that of the operator, else the application's.
        retention: how long windows are kept, in stream time; at least their size and grace. Default: exactly that.
        cached: whether the store goes through the record cache, which merges updates of a key until the next commit.
            Default: True.
        store_type: "persistent" or "in_memory": whose expiry rules the store follows. Default: the builder's.
        versioned: keep old versions of a row for this long, in stream time; the store is then versioned and not
            cached. Default: latest version only.
        logged: whether the store has a changelog topic. Default: True.
        log_config: settings of the changelog topic by Kafka's names. Default: none.

    Raises: ConfigError when a versioned store has no name, a store made by `Stores` also has a store type, or the
        retention is negative.

    Example:
        >>> Materialized("totals", value_serde="long").with_logging_disabled().store_name
        'totals'
    """

    store: str | StoreSpec | None = None
    key_serde: Serde | None = attrs.field(default=None, converter=serde_or_none)
    value_serde: Serde | None = attrs.field(default=None, converter=serde_or_none)
    retention: Duration | None = attrs.field(default=None, validator=check_duration)
    cached: bool = attrs.field(default=True, validator=check_flag)
    store_type: StoreType | None = attrs.field(default=None, validator=check_store_type)
    versioned: Duration | None = attrs.field(default=None, validator=check_duration)

    with_key_serde = Setting[SerdeLike]("key_serde")
    with_value_serde = Setting[SerdeLike]("value_serde")
    with_retention = Setting[Duration]("retention")
    with_store_type = Setting[StoreType]("store_type")

    def __attrs_post_init__(self) -> None:
        if self.store is not None and not isinstance(self.store, StoreSpec):
            check_resource_name(self.store)
        if self.versioned is not None and not isinstance(self.store, str):
            raise ConfigError("a versioned store needs a name", hint='add store="…"')
        if self.supplier is not None and self.store_type is not None:
            fact = f'store "{self.store_name}" already has a type, so store_type="{self.store_type}" has no effect'
            java = "Cannot set store type when store supplier is pre-configured."
            raise ConfigError(fact, hint="omit store_type", java=java)
        if self.retention is not None and duration_ms(self.retention, "retention") < 0:
            fact = f"retention must not be negative, got {self.retention}"
            raise ConfigError(fact, java="Retention must not be negative.")

    def with_caching_enabled(self) -> Self:
        """Return a copy with ``cached=True``."""
        return self.changed(cached=True)

    def with_caching_disabled(self) -> Self:
        """Return a copy with ``cached=False``."""
        return self.changed(cached=False)

    @classmethod
    def as_(cls, store: str | StoreSpec) -> Self:
        """Return options with a store of this name, or made from this spec.

        Args:
            store: name of the store, or a `StoreSpec`.
        """
        return cls(store)

    @classmethod
    def with_(cls, key_serde: SerdeLike | None = None, value_serde: SerdeLike | None = None) -> Self:
        """Return options with these serdes; everything else has a ``with_…`` method.

        Args:
            key_serde: serde of the keys, or its name. Default: None, that of the stream or table.
            value_serde: serde of the values, or its name. Default: None, that of the operation or the application.
        """
        return cls(key_serde=key_serde, value_serde=value_serde)

    @property
    def store_name(self) -> str | None:
        """The user's name of the store; None for a generated one."""
        return self.store.name if isinstance(self.store, StoreSpec) else self.store

    @property
    def supplier(self) -> StoreSpec | None:
        """The user's store, versioned or made by `Stores`; None if only its name is known."""
        if self.versioned is None or isinstance(self.store, StoreSpec):
            return self.store if isinstance(self.store, StoreSpec) else None
        return Stores.persistent_versioned_key_value_store(str(self.store), history=self.versioned)

    @property
    def is_versioned(self) -> bool:
        """Whether the store keeps versions."""
        return self.supplier is not None and self.supplier.kind == "versioned"


@attrs.frozen(slots=False)
class BufferConfig(LoggedOptions):
    """Limits of a suppression's buffer.

    Args:
        records_limit: largest number of records. Default: no limit.
        bytes_limit: largest size in bytes, as Kafka estimates them. Default: no limit.
        emit_early: True emits the oldest record when the buffer is full; False fails. Default: False.
        logged: whether the buffer has a changelog topic. Default: True.
        log_config: settings of the changelog topic by Kafka's names. Default: none.

    Example:
        >>> buffer = BufferConfig.max_records(1000).emit_early_when_full()
        >>> buffer.records_limit, buffer.bytes_limit, buffer.emit_early
        (1000, None, True)
    """

    records_limit: int | None = attrs.field(default=None, validator=check_number)
    bytes_limit: int | None = attrs.field(default=None, validator=check_number)
    emit_early: bool = attrs.field(default=False, validator=check_flag)

    with_max_records = Setting[int]("records_limit")
    with_max_bytes = Setting[int]("bytes_limit")

    def emit_early_when_full(self) -> Self:
        """Return a copy with ``emit_early=True``."""
        return self.changed(emit_early=True)

    def shut_down_when_full(self) -> Self:
        """Return a copy with ``emit_early=False``."""
        return self.changed(emit_early=False)

    def with_no_bound(self) -> Self:
        """Return a copy without limits."""
        return self.changed(records_limit=None, bytes_limit=None, emit_early=False)

    @classmethod
    def unbounded(cls) -> Self:
        """Return a buffer without limits."""
        return cls()

    @classmethod
    def max_records(cls, records: int) -> Self:
        """Return a buffer of at most this many records; a full one emits the oldest.

        Args:
            records: limit in records.
        """
        return cls(records_limit=records, emit_early=True)

    @classmethod
    def max_bytes(cls, size: int) -> Self:
        """Return a buffer of at most this many bytes; a full one emits the oldest.

        Args:
            size: limit in bytes.
        """
        return cls(bytes_limit=size, emit_early=True)


@attrs.frozen(slots=False)
class Suppressed(Options):
    """Decides when a suppression emits the changes that it holds back.

    Args:
        buffer: limits of the buffer. Default: none.
        wait_ms: milliseconds of stream time from the first held change of a key to the emission of the latest one.
            Default: 0.
        until_close: True emits the result of a window when the window closes, instead of after ``wait_ms``.
            Default: False.
        name: name of the operator's node in the topology. Default: a generated name.

    Raises: ConfigError when a buffer that emits early is to wait for windows to close.

    Example:
        >>> Suppressed.until_time_limit("5m", BufferConfig.max_records(1000)).wait_ms
        300000
    """

    buffer: BufferConfig = BufferConfig()
    wait_ms: int = attrs.field(default=0, validator=check_number)
    until_close: bool = attrs.field(default=False, validator=check_flag)
    name: str | None = attrs.field(default=None, validator=check_name)

    with_name = Setting[str]("name")

    def __attrs_post_init__(self) -> None:
        expect(self.buffer, BufferConfig, "buffer", hint="write for example BufferConfig.max_records(1000)")
        if self.until_close and self.buffer.emit_early:
            fact = "a buffer that emits early cannot wait for windows to close"
            raise ConfigError(fact, hint="use BufferConfig.unbounded(), or shut_down_when_full()")

    @classmethod
    def until_time_limit(cls, wait: Duration, buffer: BufferConfig | None = None, *, name: str | None = None) -> Self:
        """Hold the changes of each key for a time after the first one, then emit the latest.

        Args:
            wait: how long, in stream time.
            buffer: limits of the buffer. Default: none.
            name: name of the operator's node in the topology. Default: a generated name.
        """
        return cls(BufferConfig() if buffer is None else buffer, duration_ms(wait, "wait"), name=name)

    @classmethod
    def until_window_closes(cls, buffer: BufferConfig | None = None, *, name: str | None = None) -> Self:
        """Hold the changes of each window until it closes, then emit its final result.

        Args:
            buffer: limits of the buffer, which must not emit early. Default: none.
            name: name of the operator's node in the topology. Default: a generated name.
        """
        return cls(BufferConfig() if buffer is None else buffer, until_close=True, name=name)
