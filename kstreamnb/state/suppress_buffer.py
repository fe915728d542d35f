"""The buffer behind `suppress`: one change for each key, taken out in the order of its time."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

from kstreamnb.core.record import Headers, RecordMetadata
from kstreamnb.core.stores import StoreSpec
from kstreamnb.state.record_bytes import LoggedBytes, context_bytes, context_size, optional_bytes
from kstreamnb.state.store import Recorder, Store, StoreContext

_SAME_AS_PRIOR = -2
_VERSION_3: Headers = (("v", b"\x03"),)


class SuppressBuffer(Store):
    """One change for each key, in the place of the first change that was buffered for the key.

    ``raw`` maps the wire key to ``(time, new, old, prior, timestamp, headers, metadata)``. ``prior`` is the value
    before the first buffered change. Changes leave by time and key bytes. The changelog is written when the store is
    flushed, one record for each key that came or went.
    """

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        self._heap: list[tuple[int, bytes, Any]] = []
        self._dirty: dict[Any, None] = {}
        self._size_bytes: int | None = None

    def _recorder(self) -> Recorder | None:
        return None if self._journal is None else self._note

    def put(
        self, time: int, key: Any, new: Any, old: Any, timestamp: int, headers: Headers, metadata: RecordMetadata
    ) -> None:
        """Buffer a change of a key; its time (ms) counts only when none is buffered yet."""
        encode, raw_key = self.values.encode, self.keys.encode(key)
        buffered, old = self.raw.get(raw_key), encode(old)
        prior = old
        if buffered is not None:
            time, prior = buffered[0], buffered[3]
        self.write(raw_key, (time, encode(new), old, prior, timestamp, headers, metadata))

    def min_time(self) -> int | None:
        """The least time of a buffered change, or None."""
        heap, raw = self._heap, self.raw
        while heap:
            time, _, raw_key = heap[0]
            row = raw.get(raw_key)
            if row is not None and row[0] == time:
                return time
            heappop(heap)
        return None

    def first(self) -> tuple[Any, Any, Any, int, Headers, RecordMetadata]:
        """The first change by (time, key bytes), which stays: key, new, old, timestamp, headers, metadata."""
        if self.min_time() is None:
            raise IndexError(f'buffer "{self.name}" is empty')
        raw_key = self._heap[0][2]
        _, new, old, _, timestamp, headers, metadata = self.raw[raw_key]
        decode = self.values.decode
        return self.keys.decode(raw_key), decode(new), decode(old), timestamp, headers, metadata

    def take(self) -> tuple[Any, Any, Any, int, Headers, RecordMetadata]:
        """Remove the first change and give it."""
        found = self.first()
        self.write(heappop(self._heap)[2], None)
        return found

    def count(self) -> int:
        """Number of buffered changes."""
        return len(self.raw)

    def size_bytes(self) -> int:
        """Kafka's estimate of the memory that the buffered changes take."""
        if self._size_bytes is None:
            self._size_bytes = sum(self._row_size(raw_key, row) for raw_key, row in self.raw.items())
        return self._size_bytes

    def prior(self, key: Any) -> tuple[bool, Any]:
        """Whether a change of a key is buffered, and the value before it."""
        row = self.raw.get(self.keys.encode(key))
        return (False, None) if row is None else (True, self.values.decode(row[3]))

    def _row_size(self, raw_key: Any, row: Any) -> int:
        _, new, old, prior, _, headers, metadata = row
        values = [self._bytes(value) or b"" for value in (new, prior, old)]
        if values[1] == values[2]:
            values.pop()
        return 8 + len(self.keys.to_bytes(raw_key)) + sum(map(len, values)) + context_size(headers, metadata)

    def _bytes(self, value: Any) -> bytes | None:
        return None if value is None else self.values.to_bytes(value)

    def write(self, raw_key: Any, row: Any) -> None:
        """Change one row and note it; None deletes."""
        if self._record is not None:
            self._record(raw_key, self.raw.get(raw_key), row)
        if self._changes is not None:
            self._dirty[raw_key] = None
        self.apply(raw_key, row)

    def apply(self, raw_key: Any, row: Any) -> None:
        """Change one row silently; None deletes."""
        old = self.raw.pop(raw_key, None) if row is None else self.raw.get(raw_key)
        if self._size_bytes is not None:
            self._size_bytes -= 0 if old is None else self._row_size(raw_key, old)
            self._size_bytes += 0 if row is None else self._row_size(raw_key, row)
        if row is None:
            return
        self.raw[raw_key] = row
        if old is None or old[0] != row[0]:
            heappush(self._heap, (row[0], self.keys.to_bytes(raw_key), raw_key))
            if len(self._heap) > 2 * len(self.raw) + 8:
                self._heap[:] = [(kept[0], self.keys.to_bytes(key), key) for key, kept in self.raw.items()]
                heapify(self._heap)

    def flush(self) -> None:
        """Note for the changelog what came or went since the last flush."""
        if self._changes is not None:
            for raw_key in self._dirty:
                row = self.raw.get(raw_key)
                self._changes.append((raw_key, row, self.context.timestamp(), () if row is None else _VERSION_3))
        self._dirty.clear()

    def changelog_entry(self, raw_key: Any, row: Any) -> tuple[bytes, bytes | None]:
        """Kafka's changelog bytes (its version 3): context, prior, old and new value, time."""
        key = self.keys.to_bytes(raw_key)
        if row is None:
            return key, None
        time, new, old, prior, timestamp, headers, metadata = row
        old_data, prior_data = self._bytes(old), self._bytes(prior)
        same = old_data is not None and old_data == prior_data
        parts = (
            context_bytes(timestamp, headers, metadata),
            optional_bytes(prior_data),
            _SAME_AS_PRIOR.to_bytes(4, signed=True) if same else optional_bytes(old_data),
            optional_bytes(self._bytes(new)),
            time.to_bytes(8, signed=True),
        )
        return key, b"".join(parts)

    def _row_from(self, data: bytes, timestamp: int) -> Any:
        logged, wire = LoggedBytes(data), self.values.from_bytes
        context = logged.context()
        prior = logged.optional()
        old, new = logged.optional(same=prior), logged.optional()
        return logged.number(8), wire(new), wire(old), wire(prior), *context
