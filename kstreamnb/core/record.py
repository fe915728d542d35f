"""Records and their parts: headers, windowed keys, table changes, topic-partitions.

All are tuples: cheap to create, immutable, compared by value. Time is always whole milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, NamedTuple, Self, TypeAlias, TypeVar

from kstreamnb.core.time import time_ms
from kstreamnb.errors import ConfigError, ProcessingError
from kstreamnb.suggesting import Suggesting

K = TypeVar("K")
V = TypeVar("V")

Headers = tuple[tuple[str, bytes | None], ...]
"""Headers of a record, in order; a name may occur more than once."""

AnyHeaders: TypeAlias = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]
"""Headers as a user may write them."""


def headers_of(headers: AnyHeaders) -> Headers:
    """Return headers as Kafka keeps them, from pairs or from a mapping.

    Args:
        headers: pairs of a name and bytes or None, or a mapping of names to those.

    Raises: ConfigError for anything else: Kafka has no other headers.

    Example:
        >>> headers_of({"source": b"roof"})
        (('source', b'roof'),)
    """
    pairs: object = headers.items() if isinstance(headers, Mapping) else headers
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        raise ConfigError(f'headers must be pairs, got type "{type(headers).__name__}"', hint=_WRITE_HEADERS)
    return tuple(map(_header, pairs))


def _header(pair: object) -> tuple[str, bytes | None]:
    match pair:
        case (str(name), bytes() | None as data):
            return name, data
        case (str(name), data):
            message = f'header "{name}" must be bytes or None, got type "{type(data).__name__}"'
            raise ConfigError(message, hint="encode a text: text.encode()" if isinstance(data, str) else None)
    message = f'a header must be a pair (name, bytes), got type "{type(pair).__name__}"'
    raise ConfigError(message, hint=_WRITE_HEADERS)


_WRITE_HEADERS = 'write for example [("source", b"roof")] or {"source": b"roof"}'


class TopicPartition(NamedTuple):
    """One partition of one topic.

    Args:
        topic: name of the topic.
        partition: number of the partition, counted from 0.

    Example:
        >>> print(*TopicPartition("orders", 3))
        orders 3
    """

    topic: str
    partition: int


class TopicRecord(NamedTuple):
    """A record of a topic, as samples contain and output topics return it.

    ``timestamp`` is in ms; ``offset`` counts from 0 in each partition.

    Args:
        topic: name of the topic.
        partition: number of the partition, counted from 0.
        offset: position in its partition, counted from 0.
        timestamp: event time in epoch milliseconds.
        key: the deserialized key, or None.
        value: the deserialized value; None deletes a row of a table.
        headers: pairs of a name and bytes, in order. Default: none.

    Example:
        >>> record = TopicRecord("orders", 0, 17, 1_767_258_000_000, "shoe", {"pieces": 2})
        >>> record.offset, record.value["pieces"], record.headers
        (17, 2, ())
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers = ()


class RecordMetadata(NamedTuple):
    """Topic, partition and offset of the current record; (None, -1, -1) inside a punctuator.

    Args:
        topic: name of the topic, None inside a punctuator.
        partition: number of the partition, -1 inside a punctuator.
        offset: position in the partition, -1 inside a punctuator.

    Example:
        >>> RecordMetadata("orders", 3, 17)
        RecordMetadata(topic='orders', partition=3, offset=17)
    """

    topic: str | None
    partition: int
    offset: int


class OutputMetadata(RecordMetadata):
    """Metadata for a function that chooses a topic: the input record's position, and ``timestamp`` (ms) and ``headers``
    of the record to be written.
    """

    timestamp: int
    headers: Headers

    def __new__(cls, origin: RecordMetadata, timestamp: int, headers: Headers) -> OutputMetadata:
        """Add timestamp and headers of the record to the position of the record that caused it."""
        metadata = super().__new__(cls, *origin)
        metadata.timestamp, metadata.headers = timestamp, headers
        return metadata


class ValueAndTimestamp(NamedTuple):
    """A value of a timestamped store and the event time (ms) it is valid from.

    Args:
        value: the value of the row.
        timestamp: event time of its last update, in epoch milliseconds.

    Example:
        >>> row = ValueAndTimestamp(5, 1000)
        >>> row.value, row.timestamp
        (5, 1000)
    """

    value: Any
    timestamp: int


class ValueTimestampHeaders(NamedTuple):
    """A row of a store with headers: a value, its event time (ms) and the headers kept with it.

    Args:
        value: the value of the row.
        timestamp: event time of its last update, in epoch milliseconds.
        headers: pairs of a name and a value, which is bytes or None. Default: none.

    Example:
        >>> row = ValueTimestampHeaders(5, 1000, (("trace", b"7"),))
        >>> row.value, row.timestamp, row.headers
        (5, 1000, (('trace', b'7'),))
    """

    value: Any
    timestamp: int
    headers: Headers = ()


class AggregationWithHeaders(NamedTuple):
    """A row of a session store with headers: an aggregate and the headers kept with it.

    Args:
        aggregation: the aggregate of the session.
        headers: pairs of a name and a value, which is bytes or None. Default: none.

    Example:
        >>> AggregationWithHeaders(3, (("trace", b"7"),)).headers
        (('trace', b'7'),)
    """

    aggregation: Any
    headers: Headers = ()


class Change(NamedTuple):
    """One update of a table: the new value, the old one if requested, and whether it is the latest.

    Args:
        new: the new value; None deletes the row.
        old: the value before, if a node downstream needs it. Default: None.
        is_latest: False if the update is older than the row, as in a versioned table. Default: True.

    Example:
        >>> Change(new=2, old=1)
        Change(new=2, old=1, is_latest=True)
    """

    new: Any
    old: Any = None
    is_latest: bool = True


class _WindowedFields(NamedTuple, Generic[K]):
    key: K
    start: int
    end: int


class Windowed(_WindowedFields[K], Suggesting):
    """A key within a window ``[start, end)`` in ms; of a session or a sliding window ``end`` is inclusive.

    Args:
        key: the key of the record.
        start: first instant of the window in epoch milliseconds, inclusive.
        end: last instant of the window in epoch milliseconds; exclusive, but inclusive for sessions and sliding
            windows.

    Example:
        >>> print(Windowed("shoe", 0, 3_600_000))
        shoe@0/3600000
    """

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.key}@{self.start}/{self.end}"


def unwindowed(key: Any) -> Any:
    """Return the key inside a windowed key; return any other key unchanged."""
    return key.key if isinstance(key, Windowed) else key


class _RecordFields(NamedTuple):
    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()


class Record(_RecordFields, Suggesting, Generic[K, V]):
    """The record that a user's processor gets and forwards; immutable.

    Args:
        key: the key, or None.
        value: the value, or None.
        timestamp: event time in epoch milliseconds, at least 0.
        headers: pairs of a name and bytes, in order. Default: none.

    Example:
        >>> Record("shoe", 1, 1000).with_value(2)
        Record(key='shoe', value=2, timestamp=1000, headers=())
    """

    __slots__ = ()

    def __new__(cls, key: K, value: V, timestamp: int, headers: AnyHeaders = ()) -> Record[K, V]:
        """Create a record; raises ProcessingError if the timestamp is negative."""
        timestamp = time_ms(timestamp, "timestamp of a record")
        if timestamp < 0:
            java = f"Timestamp may not be negative. Got: {timestamp}"
            raise ProcessingError(f"the timestamp of a record must not be negative, got {timestamp}", java=java)
        return super().__new__(cls, key, value, timestamp, headers_of(headers) if headers else ())

    def with_key(self, key: object) -> Record[Any, V]:
        """Return a copy of the record with another key.

        Args:
            key: the new key, or None.
        """
        return tuple.__new__(type(self), (key, self.value, self.timestamp, self.headers))

    def with_value(self, value: object) -> Record[K, Any]:
        """Return the same record with another value.

        Args:
            value: the new value, or None.
        """
        return tuple.__new__(type(self), (self.key, value, self.timestamp, self.headers))

    def with_timestamp(self, timestamp: int) -> Self:
        """Return the same record at another event time (ms, not negative).

        Args:
            timestamp: the new event time in epoch milliseconds, at least 0.
        """
        return type(self)(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: AnyHeaders) -> Self:
        """Return the same record with other headers.

        Args:
            headers: pairs of a name and bytes (or None), or a mapping, which replace all headers.
        """
        return tuple.__new__(type(self), (self.key, self.value, self.timestamp, headers_of(headers)))
