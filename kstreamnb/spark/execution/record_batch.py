"""Record batches: records between tasks and through Spark, many in one row.

A batch holds records of one topic from one producer, as columns. Each record has an *order key*: its root (the
record of an input topic that caused it) and its depth (the number of internal topics that it passed). Sorted by that
key, records of any producers and any micro-batches are in the one canonical order, that of the test driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kstreamnb.core.codec import CopiedValue, SerializedValue, to_bytes
from kstreamnb.core.record import Headers
from kstreamnb.core.serde import Serde
from kstreamnb.spark.execution.kafka_columns import column_to_kafka

Numbers: TypeAlias = npt.NDArray[np.int64]

ORDER = ("max_timestamp", "input_rank", "offset", "depth")
"""The columns of an order key, the most significant first."""
TICK = 1 << 61
"""The ``max_timestamp`` of a wall-clock tick: after every record of its batch."""
COMMIT = TICK + 1
"""The ``max_timestamp`` of records that a commit flushes: after the tick."""

WALL = "@wall"
"""A topic whose timestamps are readings of the wall clock, each a tick.

With the key "set" the clock is only set, and no punctuator fires.
"""

_MANY = 2  # items, for which `itemgetter` returns a tuple
_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
_ENCODED = frozenset({SerializedValue, type(None)})
_BASES: dict[type, Callable[[Any], Any]] = {SerializedValue: bytes, CopiedValue: dict}
_PORTABLE = _PLAIN | _BASES.keys()


@dataclass(slots=True)
class OrderKey:
    """Order keys of some records, as columns of equal length.

    ``max_timestamp`` is the highest timestamp (ms) of the root's partition up to the root, ``input_rank`` the rank of
    that partition among all input partitions, ``offset`` the root's offset, ``depth`` the internal topics in between.
    """

    max_timestamp: Numbers
    input_rank: Numbers
    offset: Numbers
    depth: Numbers

    def __len__(self) -> int:
        return len(self.max_timestamp)

    def take(self, index: Numbers | slice) -> OrderKey:
        """Return the keys at some positions, in that order."""
        return OrderKey(self.max_timestamp[index], self.input_rank[index], self.offset[index], self.depth[index])

    def first(self) -> tuple[int, int, int, int]:
        """Return the first key; zeros if there is none."""
        if not len(self):
            return 0, 0, 0, 0
        return int(self.max_timestamp[0]), int(self.input_rank[0]), int(self.offset[0]), int(self.depth[0])

    def position(self, border: tuple[int, ...]) -> int:
        """Count the sorted keys that are less than a key."""
        low, high = 0, len(self)
        columns = self.max_timestamp, self.input_rank, self.offset, self.depth
        for column, value in zip(columns, border, strict=True):
            part = column[low:high]
            low, high = low + int(np.searchsorted(part, value)), low + int(np.searchsorted(part, value, "right"))
        return low

    def sorted_index(self, producers: Numbers) -> Numbers:
        """Return the positions in canonical order: of equal keys, those of the lower producer come first."""
        return np.lexsort((producers, self.depth, self.offset, self.input_rank, self.max_timestamp))

    def changes(self, *, by_depth: bool) -> npt.NDArray[np.bool_]:
        """Tell for each key but the first whether it differs from the one before it."""
        columns = (self.max_timestamp, self.input_rank, self.offset, *([self.depth] if by_depth else []))
        return np.any([np.diff(column) != 0 for column in columns], axis=0)

    @classmethod
    def concat(cls, orders: Sequence[OrderKey]) -> OrderKey:
        """Concatenate keys."""
        if len(orders) == 1:
            return orders[0]
        return cls(*(np.concatenate([getattr(order, name) for order in orders]) for name in ORDER))

    @classmethod
    def of_root(cls, max_timestamp: int, count: int) -> OrderKey:
        """Return keys of ``count`` records that a tick or a commit caused."""
        zeros = np.zeros(count, np.int64)
        return cls(np.full(count, max_timestamp, np.int64), zeros, zeros, zeros)


def root_order(
    timestamps: Sequence[int] | Numbers, offsets: Sequence[int] | Numbers, input_rank: int, before: int = -1
) -> OrderKey:
    """Return order keys of records of an input partition; ``before`` is the highest timestamp before them."""
    m = np.maximum.accumulate(np.asarray(timestamps, np.int64))
    np.maximum(m, before, out=m)
    zeros = np.zeros(len(m), np.int64)
    return OrderKey(m, zeros + input_rank, np.asarray(offsets, np.int64), zeros)


@dataclass(slots=True)
class RecordBatch:
    """Records of one topic in their order of production.

    ``partition`` is one number, or one per record. ``offsets`` are known only for records of input topics. Keys and
    values are in wire form; with ``kafka`` they are Kafka's own bytes, and a ``raw`` column has bytes that stand for
    `SerializedValue` ones until it is unpacked. ``headers`` is None when no record has any.
    ``clock_ms`` is the wall clock of the micro-batch in ms, -1 if unknown.
    """

    topic: str
    partition: int | Numbers
    order: OrderKey
    timestamps: Numbers
    keys: list[Any]
    values: list[Any]
    headers: list[Headers] | None = None
    offsets: Numbers | None = None
    kafka: bool = False
    clock_ms: int = -1
    raw: tuple[bool, bool] = (False, False)

    @classmethod
    def of_columns(
        cls, topic: str, partition: int | Numbers, order: OrderKey, columns: Sequence[list[Any]], **fields: Any
    ) -> RecordBatch:
        """Return a batch of records, whose columns are timestamp, key, value and headers, with further fields."""
        timestamps, keys, values, headers = columns
        times, kept = np.asarray(timestamps, np.int64), headers if any(headers) else None
        return cls(topic, partition, order, times, keys, values, kept, **fields)

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, begin: int, end: int) -> RecordBatch:
        """Return the records from one position to another."""
        return self.take(slice(begin, end))

    def take(self, index: Numbers | slice) -> RecordBatch:
        """Return the records at some positions, in that order."""
        many = None if isinstance(index, slice) or len(index) < _MANY else itemgetter(*index.tolist())

        def chosen(column: list[Any]) -> list[Any]:
            if many is not None:
                return list(many(column))
            return column[index] if isinstance(index, slice) else [column[at] for at in index.tolist()]

        return replace(
            self,
            partition=self.partition if isinstance(self.partition, int) else self.partition[index],
            order=self.order.take(index),
            timestamps=self.timestamps[index],
            keys=chosen(self.keys),
            values=chosen(self.values),
            headers=None if self.headers is None else chosen(self.headers),
            offsets=None if self.offsets is None else self.offsets[index],
        )

    def records(self, offsets: Numbers | None = None) -> list[tuple[int, int, Any, Any, Headers]]:
        """Return the records as a task takes them: (offset, timestamp, key, value, headers).

        Args:
            offsets: the offsets of records that have none. Default: 0, 1, 2 …
        """
        count = len(self.keys)
        known = offsets if self.offsets is None else self.offsets
        numbers = range(count) if known is None else known.tolist()
        headers = [()] * count if self.headers is None else self.headers
        return list(zip(numbers, self.timestamps.tolist(), self.keys, self.values, headers, strict=True))


def pack(batch: RecordBatch) -> bytes:
    """Serialize a batch."""
    order = batch.order
    columns = (
        batch.topic,
        batch.partition,
        (_thin(order.max_timestamp), _thin(order.input_rank), _thin(order.offset), _thin(order.depth)),
        batch.timestamps,
        (SerializedValue, batch.keys) if batch.raw[0] else _pack_column(batch.keys, kafka=batch.kafka),
        (SerializedValue, batch.values) if batch.raw[1] else _pack_column(batch.values, kafka=batch.kafka),
        batch.headers,
        batch.offsets,
        batch.kafka,
        batch.clock_ms,
    )
    return pickle.dumps(columns, 5)


def unpack(data: bytes) -> RecordBatch:
    """Deserialize a batch."""
    topic, partition, order, timestamps, keys, values, headers, *rest = pickle.loads(data)
    count = len(timestamps)
    columns = OrderKey(*(repeated(column, count) for column in order))
    content = _unpack_column(*keys), _unpack_column(*values), headers
    return RecordBatch(topic, partition, columns, timestamps, *content, *rest)


def to_kafka(column: list[Any], serde: Serde | None) -> list[bytes | None]:
    """Convert a column in wire form to Kafka's bytes; without a serde it holds bytes already."""
    kinds = set(map(type, column))
    if serde is None or kinds <= _ENCODED:
        return [None if item is None else bytes(item) for item in column]
    whole = column_to_kafka(column, serde)
    if whole is not None:
        return whole
    write: Callable[[Any], bytes | None] = serde.serialize
    if SerializedValue not in kinds:
        return [None if item is None else write(item) for item in column]
    return [to_bytes(serde, item) for item in column]


def stretches(changes: npt.NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield where runs of equal values begin and end.

    Args:
        changes: for each value but the first, something that is true if it differs from the one before it.
    """
    return pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), len(changes) + 1])


def _thin(column: Numbers) -> int | Numbers:
    """Return one number for a column that repeats it."""
    if len(column) and column[0] == column[-1] and (column == column[0]).all():
        return int(column[0])
    return column


def repeated(column: int | Numbers, count: int) -> Numbers:
    """Return a column of numbers, in which one number is repeated."""
    return np.full(count, column, np.int64) if isinstance(column, int) else column


def are_portable(column: Sequence[Any]) -> bool:
    """Return whether any process can rebuild all items: builtin values, their wire forms, and the kit's named tuples.

    Example:
        >>> are_portable(["a", 1, None, SerializedValue(b"b")]), are_portable([object()])
        (True, False)
    """
    others = set(map(type, column)) - _PORTABLE
    if not all(map(_is_own, others)):
        return False
    tuples = [item for item in column if isinstance(item, tuple)] if others else []
    return not tuples or are_portable([*chain.from_iterable(tuples)])


def _is_own(kind: type) -> bool:
    """Return whether a type is a named tuple or an enumeration of the kit, which has no content but its fields."""
    return kind.__module__.startswith("kstreamnb.") and (hasattr(kind, "_fields") or issubclass(kind, Enum))


def _pack_column(column: list[Any], *, kafka: bool) -> tuple[type | None, Any]:
    """Return a column and the type that each item but None has; tuple if the types are given with the items.

    Pickle copies builtin values without a call for each, so the column has those from which the items are restored.
    """
    if kafka or (kinds := set(map(type, column))) <= _PLAIN:
        return None, column
    bases = {kind: base for kind in kinds if (base := _base_of(kind)) is not None}
    if len(bases) == 1 and kinds <= bases.keys() | {type(None)}:
        [(kind, base)] = bases.items()
        return kind, [None if item is None else base(item) for item in column]
    typed = [(kind, bases[kind](item)) if (kind := type(item)) in bases else (None, item) for item in column]
    return (tuple, typed) if bases else (None, column)


def _base_of(kind: type) -> Callable[[Any], Any] | None:
    return tuple if hasattr(kind, "_fields") and _is_own(kind) else _BASES.get(kind)


def _unpack_column(kind: type | None, column: Any) -> list[Any]:
    if kind is None:
        return column
    if kind is tuple:
        return [item if kind is None else _restorer(kind)(item) for kind, item in column]
    restore = _restorer(kind)
    return [None if item is None else restore(item) for item in column]


def _restorer(kind: type) -> Callable[[Any], Any]:
    return partial(tuple.__new__, kind) if issubclass(kind, tuple) else kind
