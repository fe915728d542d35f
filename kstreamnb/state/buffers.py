"""Buffers of operators: changes that `suppress` holds back, and join records that wait for a table or for a partner."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from kstreamnb.core.record import Headers, RecordMetadata
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import ProcessingError
from kstreamnb.state.codec import LoggedBytes, Origin, context_bytes, context_size, optional_bytes, value_codec
from kstreamnb.state.rows_by_key import TimeIndex
from kstreamnb.state.store import NO_TIME, ChangelogRecord, RawKey, Row, Store, StoreContext

_SAME_AS_PRIOR = -2
_VERSION_3: Headers = (("v", b"\x03"),)


BufferedChange: TypeAlias = tuple[int, object, object, object, int, Headers, Origin | None]
"""``(time, new, old, prior, timestamp, headers, position)``; values in wire form, times in ms."""

JoinKey: TypeAlias = tuple[int, Hashable, int]
"""``(timestamp, wire key, sequence)``."""

WaitingRecord: TypeAlias = tuple[object, Headers, RecordMetadata | None]
"""``(wire value, headers, metadata)``."""

PendingKey: TypeAlias = tuple[int, int, Hashable]
"""``(timestamp, 1 for left or 0 for right, wire key)``."""


class SuppressBuffer(Store[Hashable, BufferedChange]):
    """One change for each key, in the position of the first change that was buffered for the key.

    ``raw`` maps the wire key to ``(time, new, old, prior, timestamp, headers, position)``. ``prior`` is the value
    before the first buffered change. Changes are emitted by time and key bytes. The changelog is written when the store
    is flushed, one record for each added or removed key, with the time of the record that changed it last.
    """

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        self.heap: list[tuple[int, bytes, Hashable]] = []
        self._dirty: dict[Hashable | None, int] = {}
        self._size_bytes: int | None = None

    def put(
        self, at: int, key: object, new: object, old: object, timestamp: int, headers: Headers, position: Origin
    ) -> None:
        """Buffer a change of a key, its values in wire form; its time (ms) counts only if none is buffered yet."""
        raw_key = self.keys.encode(key)
        known = self.raw.get(raw_key)
        at, prior = (at, old) if known is None else (known[0], known[3])
        (self.write if self.watched[0] else self.apply)(raw_key, (at, new, old, prior, timestamp, headers, position))

    def release(
        self, time: int, is_full: Callable[[], bool] = lambda: True
    ) -> Iterator[tuple[object, object, object, int, Headers, RecordMetadata | None]]:
        """Yield changes up to a time (ms), by time and key bytes, as long as the buffer ``is_full``: key, new, old,
        timestamp, headers and metadata of each. Each one is removed when the next is asked for, so it stays if the
        caller fails.
        """
        heap, raw, decode_key, decode, make = self.heap, self.raw, self.keys.decode, self.values.decode, tuple.__new__
        write = self.write if self.watched[0] else self.apply
        while heap and heap[0][0] <= time and is_full():
            at, _, raw_key = heap[0]
            row = raw.get(raw_key)
            if row is not None and row[0] == at:  # otherwise it has left, and perhaps come back
                _, new, old, _, timestamp, headers, position = row
                metadata = None if position is None else make(RecordMetadata, position)
                new, old = new if type(new) is int else decode(new), old if type(old) is int else decode(old)
                yield decode_key(raw_key), new, old, timestamp, headers, metadata
                write(raw_key, None)
            heappop(heap)

    def count(self) -> int:
        """Number of buffered changes."""
        return len(self.raw)

    def size_bytes(self) -> int:
        """Return Kafka's estimate of the memory that the buffered changes take."""
        if self._size_bytes is None:
            self._size_bytes = sum(self._row_size(raw_key, row) for raw_key, row in self.raw.items())
        return self._size_bytes

    def prior(self, key: object) -> tuple[bool, object]:
        """Return whether a change of a key is buffered, and the value before it."""
        row = self.raw.get(self.keys.encode(key))
        return (False, None) if row is None else (True, self.values.decode(row[3]))

    def _row_size(self, raw_key: Hashable, row: BufferedChange) -> int:
        _, new, old, prior, _, headers, metadata = row
        values = [self.values.to_bytes(value) or b"" for value in (new, prior, old)]
        if values[1] == values[2]:
            values.pop()
        return 8 + len(self.keys.to_bytes(raw_key)) + sum(map(len, values)) + context_size(headers, metadata)

    def write(self, raw_key: Hashable | None, row: BufferedChange | None) -> None:
        """Change one row and note it; None deletes."""
        if self._changes is not None:
            self._dirty[raw_key] = self.context.timestamp()
        self._update(raw_key, row)

    def apply(self, raw_key: Hashable | None, row: BufferedChange | None) -> None:
        """Change one row silently; None deletes."""
        old = self.raw.pop(raw_key, None) if row is None else self.raw.get(raw_key)
        if self._size_bytes is not None:
            self._size_bytes -= 0 if old is None else self._row_size(raw_key, old)
            self._size_bytes += 0 if row is None else self._row_size(raw_key, row)
        if row is None:
            return
        self.raw[raw_key] = row
        if old is None or old[0] != row[0]:
            heappush(self.heap, (row[0], self.keys.to_bytes(raw_key), raw_key))
            if len(self.heap) > 2 * len(self.raw) + 8:
                self.heap[:] = [(kept[0], self.keys.to_bytes(key), key) for key, kept in self.raw.items()]
                heapify(self.heap)

    def flush(self) -> None:
        """Log the keys added or removed since the last flush."""
        if self._changes is not None:
            for raw_key, timestamp in self._dirty.items():
                row = self.raw.get(raw_key)
                self._changes.append((raw_key, row, timestamp, () if row is None else _VERSION_3))
        self._dirty.clear()

    def changelog_snapshot(self, timestamp: int) -> Iterator[ChangelogRecord]:
        """Yield the changelog records from which the buffer is restored."""
        for raw_key, row in self.raw.items():
            yield raw_key, row, row[4], _VERSION_3

    def _row_bytes(self, raw_key: Hashable, row: BufferedChange) -> bytes:
        """Return Kafka's changelog bytes (its version 3): context, prior, old and new value, time."""
        time, new, old, prior, timestamp, headers, metadata = row
        old_data, prior_data = self.values.to_bytes(old), self.values.to_bytes(prior)
        same = old_data is not None and old_data == prior_data
        parts = (
            context_bytes(timestamp, headers, metadata),
            optional_bytes(prior_data),
            _SAME_AS_PRIOR.to_bytes(4, signed=True) if same else optional_bytes(old_data),
            optional_bytes(self.values.to_bytes(new)),
            time.to_bytes(8, signed=True),
        )
        return b"".join(parts)

    def _row_from(self, data: bytes, timestamp: int, headers: Headers) -> BufferedChange:
        logged, wire = LoggedBytes(data), self.values.from_bytes
        context = logged.context()
        prior = logged.optional()
        old, new = logged.optional(same=prior), logged.optional()
        return logged.number(8), wire(new), wire(old), wire(prior), *context


_SEQUENCE_MASK = (1 << 31) - 1


class _TimedStore(Store[RawKey, Row]):
    """Rows whose raw key starts with a time."""

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        self._times = TimeIndex()

    def _index(self, raw_key: Any, *, gone: bool) -> None:
        if raw_key is not None:
            (self._times.remove if gone else self._times.add)(raw_key[0], raw_key)

    def _row_time(self, raw_key: Any, row: object, timestamp: int) -> int:
        return int(raw_key[0])


class JoinBuffer(_TimedStore[JoinKey, Any]):
    """Stream records that wait until stream time has passed theirs by ``grace_ms``.

    ``raw`` maps ``(timestamp, wire key, sequence)`` to ``(wire value, headers, metadata)`` and None to
    ``(observed stream time, sequence)``; records leave by timestamp, key bytes and sequence.
    """

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        self.grace_ms: int = spec.extra.get("grace_ms", 0)

    def _clock(self) -> tuple[int, int]:
        clock: tuple[int, int] = self.raw.get(None, (NO_TIME, 0))
        return clock

    def put(self, time: int, key: object, value: object, headers: Headers, metadata: RecordMetadata | None) -> bool:
        """Add a record; return False if it is too old to wait and must be joined now. Raise for a null key."""
        if key is None:
            fact = "a left join with grace expected a record with a key, got a null key"
            hint = "filter out records without a key before the join"
            raise ProcessingError(fact, hint=hint, java="key cannot be null")
        observed_ms, sequence = self._clock()
        if time < observed_ms - self.grace_ms:
            return False
        sequence = sequence + 1 & _SEQUENCE_MASK
        self._update(None, (max(observed_ms, time), sequence))
        row = (self.values.encode(value), headers, metadata)
        self.write((time, self.keys.encode(key), sequence), row)
        return True

    def evict(self) -> Iterator[tuple[int, object, object, Headers, RecordMetadata | None]]:
        """Yield records that have waited long enough: timestamp, key, value, headers and metadata of each. Each one
        is removed when the next is asked for, so it stays if the caller fails.
        """
        for raw_key in sorted(self._times.between(0, self._clock()[0] - self.grace_ms), key=self._key_bytes):
            value, headers, metadata = self.raw[raw_key]
            yield raw_key[0], self.keys.decode(raw_key[1]), self.values.decode(value), headers, metadata
            self.write(raw_key, None)

    def count(self) -> int:
        """Number of waiting records."""
        return len(self.raw) - (None in self.raw)

    def _key_bytes(self, raw_key: JoinKey) -> bytes:
        """Return a zero byte, timestamp (8 bytes), key and sequence (4 bytes)."""
        timestamp, key, sequence = raw_key
        return b"".join((b"\x00", timestamp.to_bytes(8, signed=True), self.keys.to_bytes(key), sequence.to_bytes(4)))

    def _row_bytes(self, raw_key: JoinKey, row: WaitingRecord) -> bytes:
        """Return Kafka's changelog bytes: context and value, with no prior and no old value."""
        value, headers, metadata = row
        parts = (None, None, self.values.to_bytes(value))
        return context_bytes(raw_key[0], headers, metadata) + b"".join(map(optional_bytes, parts)) + bytes(8)

    def _replay(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        observed_ms, sequence = self._clock()
        raw_key = self._key_from(key)
        self.apply(None, (max(observed_ms, raw_key[0]), max(sequence, raw_key[2])))
        super()._replay(key, value, timestamp, headers)

    def _key_from(self, data: bytes) -> JoinKey:
        logged = LoggedBytes(data[1:])
        return logged.number(8), super()._key_from(logged.take(len(data) - 13)), logged.number(4)

    def _row_from(self, data: bytes, timestamp: int, headers: Headers) -> WaitingRecord:
        logged = LoggedBytes(data)
        _, headers, metadata = logged.context()
        _, _, value = logged.optional(), logged.optional(), logged.optional()
        return self.values.from_bytes(value), headers, metadata


class PendingJoins(_TimedStore[PendingKey, tuple[object, ...]]):
    """Records of left and outer stream joins that have found no partner yet.

    ``raw`` maps ``(timestamp, 1 for left or 0 for right, wire key)`` to the wire values in order of arrival. The order
    of entries is timestamp, right before left, key bytes. ``spec.extra`` may name ``left_serde`` and ``right_serde``
    of the values; ``sides`` has the codecs of both sides, that of the right side first.
    """

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        serdes = (spec.extra.get(side) or spec.value_serde for side in ("right_serde", "left_serde"))
        self.sides = [value_codec(context.value_serde(serde)) for serde in serdes]

    def add(self, timestamp: int, is_left: bool, key: object, value: object) -> None:
        """Add a record of a key and time."""
        raw_key = (timestamp, int(is_left), self.keys.encode(key))
        self.write(raw_key, (*self.raw.get(raw_key, ()), self.sides[is_left].encode(value)))

    def discard(self, timestamp: int, is_left: bool, key: object) -> None:
        """Remove the records of a key and time, if any."""
        raw_key = (timestamp, int(is_left), self.keys.encode(key))
        if raw_key in self.raw:
            self.write(raw_key, None)

    def entries(self) -> Iterator[tuple[int, bool, object, list[object]]]:
        """Yield timestamp, side, key and values of all entries in order; entries may be discarded meanwhile."""
        for timestamp in self._times.times():
            at_once: list[Any] = list(self._times[timestamp])
            for raw_key in sorted(at_once, key=self._rank) if len(at_once) > 1 else at_once:
                values = self.raw.get(raw_key)
                if values is not None:
                    decode = self.sides[raw_key[1]].decode
                    yield timestamp, bool(raw_key[1]), self.keys.decode(raw_key[2]), [decode(value) for value in values]

    def count(self) -> int:
        """Number of records that wait."""
        return sum(map(len, self.raw.values()))

    def _rank(self, raw_key: PendingKey) -> tuple[int, bytes]:
        return raw_key[1], self.keys.to_bytes(raw_key[2])

    def _key_bytes(self, raw_key: PendingKey) -> bytes:
        """Return Kafka's changelog bytes: timestamp (8), side (1) and key."""
        timestamp, side, key = raw_key
        return timestamp.to_bytes(8, signed=True) + bytes([side]) + self.keys.to_bytes(key)

    def _row_bytes(self, raw_key: PendingKey, row: tuple[object, ...]) -> bytes:
        """Return Kafka's changelog bytes: a list of side byte and value."""
        side = raw_key[1]
        items = [bytes([side]) + (self.sides[side].to_bytes(value) or b"") for value in row]
        return b"\x01" + len(items).to_bytes(4) + b"".join(map(optional_bytes, items))

    def _key_from(self, data: bytes) -> PendingKey:
        logged = LoggedBytes(data)
        return logged.number(8), logged.number(1), super()._key_from(data[9:])

    def _row_from(self, data: bytes, timestamp: int, headers: Headers) -> tuple[object, ...]:
        logged = LoggedBytes(data[1:])
        items = [logged.optional() or b"" for _ in range(logged.number(4))]
        return tuple(self.sides[item[0]].from_bytes(item[1:]) for item in items)
