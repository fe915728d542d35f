"""The versioned key-value store: rows by key with their history."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from kstreamnb.core.stores import StoreSpec, VersionedRecord
from kstreamnb.state import versions as rows
from kstreamnb.state.store import Recorder, Rows, Store, StoreContext
from kstreamnb.state.time_index import KeyIndex, TimeIndex

__all__ = ["LATEST", "NOT_PUT", "VersionedRows"]

LATEST = -1
"""What ``put`` gives for a version that is valid to no known end."""

NOT_PUT = -(2**63)
"""What ``put`` gives for a version that is too old to be kept."""

_MAX = 2**63 - 1
_NO_TIME = -1
_LATEST_ID = -1


def _default_segment_ms(history_ms: int) -> int:
    if history_ms <= 60_000:
        return max(history_ms // 3, 2_000)
    if history_ms <= 300_000:
        return max(history_ms // 5, 20_000)
    if history_ms <= 3_600_000:
        return max(history_ms // 12, 60_000)
    return max(history_ms // 24, 300_000)


class VersionedRows(Store):
    """Rows by key with their history, kept for ``history_ms`` behind the greatest timestamp put.

    ``raw`` maps ``(wire key, -1)`` to the latest ``(wire value, timestamp)``, ``(wire key, segment)`` to the older
    versions whose validity ended in that segment (see `versions`), and None to the observed stream time.
    """

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        self.history_ms = spec.history_ms or 0
        self._segment_ms = spec.segment_ms or _default_segment_ms(self.history_ms)
        self._observed_ms = _NO_TIME
        self._segments_of = KeyIndex()
        self._keys_of = TimeIndex()
        self._record: Recorder | None = None
        self._hook(self._recorder())

    def _hook(self, record: Recorder | None) -> None:
        self._record = record

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Put a version; None ends the one before. Gives until when it is valid, `LATEST` or `NOT_PUT`."""
        raw_key, row = self.keys.encode(key), None if value is None else self.values.encode(value)
        valid_to = self._put(raw_key, row, timestamp)
        if valid_to is None:
            self._drop(key, value, timestamp)
        if self._changes is not None:
            self._changes.append((raw_key, row, timestamp, ()))
        return NOT_PUT if valid_to is None else valid_to

    def delete(self, key: Any, timestamp: int) -> VersionedRecord | None:
        """End the version that is valid at a time, and give it."""
        expired = timestamp < self._observed_ms - self.history_ms
        old = None if expired else self.get(key, timestamp)
        self.put(key, None, timestamp)
        return old

    def _drop(self, key: Any, value: Any, timestamp: int) -> None:
        details = {"stream_time_ms": self._observed_ms, "retention_ms": self.history_ms, "store": self.name}
        self.context.drop("expired", key, value, timestamp, details)

    def _put(self, key: Any, value: Any, timestamp: int) -> int | None:
        if timestamp < self._observed_ms - self.history_ms:
            return None
        if timestamp > self._observed_ms:
            self._set(None, timestamp)
            self._expire()
        latest = self.raw.get((key, _LATEST_ID))
        if latest is not None and timestamp >= latest[1]:
            if timestamp > latest[1]:
                self._move(key, timestamp // self._segment_ms, latest[0], latest[1], timestamp)
            self._set((key, _LATEST_ID), None if value is None else (value, timestamp))
            return LATEST
        next_ms = None if latest is None else latest[1]
        for segment in self._segments_from(key, timestamp):
            row = self.raw[key, segment]
            if row[0] <= timestamp:
                break
            if rows.first_ms(row) <= timestamp:
                return self._put_within(key, segment, value, timestamp)
            if rows.first_ms(row) < self._observed_ms - self.history_ms:
                return NOT_PUT
            next_ms = rows.first_ms(row)
        return (
            self._put_latest(key, value, timestamp)
            if next_ms is None
            else self._put_before(key, value, timestamp, next_ms)
        )

    def _put_within(self, key: Any, segment: int, value: Any, timestamp: int) -> int:
        row = self.raw[key, segment]
        found = rows.find_version(row, timestamp)
        own = timestamp // self._segment_ms
        if found.valid_from != timestamp and own == segment:
            row = rows.insert_version(row, value, timestamp, found.place)
        else:
            if found.valid_from != timestamp:
                self._move(key, own, found.value, found.valid_from, timestamp)
            row = rows.replace_version(row, value, timestamp, found.place)
        self._set((key, segment), row)
        return found.valid_to

    def _move(self, key: Any, segment: int, value: Any, valid_from: int, valid_to: int) -> None:
        """Keep a version that has come to an end in the segment of that end."""
        if segment < self._oldest_segment():
            return
        row = self.raw.get((key, segment))
        if row is None:
            row = rows.one_version(value, valid_from, valid_to)
        else:
            row = rows.add_latest(row, value, valid_from, valid_to)
        self._set((key, segment), row)

    def _put_latest(self, key: Any, value: Any, timestamp: int) -> int:
        if value is not None:
            self._set((key, _LATEST_ID), (value, timestamp))
            return LATEST
        segment = timestamp // self._segment_ms
        if segment < self._oldest_segment():
            return NOT_PUT
        row = self.raw.get((key, segment))
        if row is None:
            self._set((key, segment), rows.one_version(None, timestamp, timestamp))
        elif row[0] != timestamp:
            self._set((key, segment), rows.add_latest(row, None, row[0], timestamp))
        return LATEST

    def _put_before(self, key: Any, value: Any, timestamp: int, next_ms: int) -> int:
        segment = next_ms // self._segment_ms
        if segment < self._oldest_segment():
            return NOT_PUT
        row = self.raw.get((key, segment))
        if row is None:
            row = rows.one_version(value, timestamp, next_ms)
        elif row[0] <= timestamp:
            row = rows.add_latest(row, value, timestamp, next_ms)
        else:
            row = rows.add_earliest(row, value, timestamp)
        self._set((key, segment), row)
        return next_ms

    def _oldest_segment(self) -> int:
        return max((self._observed_ms - self.history_ms) // self._segment_ms, 0)

    def _expire(self) -> None:
        for raw_key in self._keys_of.before(self._oldest_segment()):
            self._set(raw_key, None)

    def _set(self, raw_key: Any, row: Any) -> None:
        self._note(raw_key, self.raw.get(raw_key), row)
        self.apply(raw_key, row)

    def write(self, raw_key: Any, row: Any) -> None:
        """Change one raw row and note it; None deletes."""
        self._set(raw_key, row)

    def apply(self, raw_key: Any, row: Any) -> None:
        """Change one row silently; None deletes."""
        raw = self.raw
        if raw_key is None:
            self._observed_ms = _NO_TIME if row is None else row
        elif raw_key[1] != _LATEST_ID and (row is None) == (raw_key in raw):
            self._index(*raw_key, gone=row is None)
        if row is None:
            raw.pop(raw_key, None)
        else:
            raw[raw_key] = row

    def _index(self, key: Any, segment: int, *, gone: bool) -> None:
        if gone:
            self._segments_of.remove(key, segment)
            self._keys_of.remove(segment, (key, segment))
        else:
            self._segments_of.add(key, segment)
            self._keys_of.add(segment, (key, segment))

    def row(self, key: Any, as_of: int | None = None) -> tuple[Any, int] | None:
        """``(value, timestamp)`` of the latest version, or of the one valid at a time; what operators read."""
        raw_key = self.keys.encode(key)
        latest = self.raw.get((raw_key, _LATEST_ID))
        if latest is not None and (as_of is None or latest[1] <= as_of):
            return self.values.decode(latest[0]), latest[1]
        if as_of is None or as_of < self._observed_ms - self.history_ms:
            return None
        for segment in self._segments_from(raw_key, as_of):
            row = self.raw[raw_key, segment]
            if row[0] <= as_of:
                return None
            if rows.first_ms(row) <= as_of:
                found = rows.find_version(row, as_of)
                return None if found.value is None else (self.values.decode(found.value), found.valid_from)
        return None

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord | None:
        """The latest version, or the one valid at a time (ms) within the history; None when it was deleted."""
        row = self.row(key, as_of)
        return None if row is None else VersionedRecord(*row)

    def history(self, key: Any, from_: int | None = None, to: int | None = None, *, ascending: bool = True) -> Rows:
        """Versions of a key that are valid at some time between two (ms), as far as they are still kept."""
        found = list(
            self._newest_first(self.keys.encode(key), -_MAX if from_ is None else from_, _MAX if to is None else to)
        )
        return Rows(iter(found[::-1] if ascending else found))

    def _newest_first(self, raw_key: Any, from_ms: int, to_ms: int) -> Iterator[VersionedRecord]:
        latest = self.raw.get((raw_key, _LATEST_ID))
        if latest is not None and latest[1] <= to_ms:
            yield VersionedRecord(self.values.decode(latest[0]), latest[1])
        if to_ms < self._observed_ms - self.history_ms:
            return
        last = to_ms // self._segment_ms
        for segment in reversed(self._segments_of.get(raw_key, ())):
            if segment <= last:
                for found in rows.versions_between(self.raw[raw_key, segment], from_ms, to_ms):
                    yield VersionedRecord(self.values.decode(found.value), found.valid_from, found.valid_to)

    def _segments_from(self, raw_key: Any, timestamp: int) -> list[int]:
        segments = self._segments_of.get(raw_key)
        if segments is None:
            return []
        return segments[bisect_left(segments, timestamp // self._segment_ms) :][::-1]

    def _replay(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        journal, self._journal = self._journal, None
        self._put(self._key_from(key), None if value is None else self._row_from(value, timestamp), timestamp)
        self._journal = journal
