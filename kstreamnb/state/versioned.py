"""The versioned key-value store: rows by key with their history."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from typing import Any, TypeAlias

from kstreamnb.core.record import Headers
from kstreamnb.core.stores import LATEST, NOT_PUT, StoreSpec, VersionedRecord
from kstreamnb.core.time import MAX_TIME_MS, Instant, instant_ms
from kstreamnb.errors import ConfigError, StateError
from kstreamnb.state.disk_rows import TimedDiskRows
from kstreamnb.state.rows_by_key import KeyIndex, TimeIndex
from kstreamnb.state.store import ChangelogRecord, Rows, Store, StoreContext

LATEST_ROW = -1
"""The segment in the raw key of a row that is still valid."""

Ended: TypeAlias = tuple[int, tuple[tuple[int, object], ...]]
"""Versions of a key that ended in one segment: ``(next_ms, ((valid from, wire value or None), …))``, the newest first,
each valid until the one before it begins, the newest until ``next_ms``. A row whose only version is a tombstone at
``next_ms`` itself holds nothing: it remembers that the key was deleted then."""


SegmentKey: TypeAlias = tuple[Hashable, int]
"""The wire form of a key, and a segment or `LATEST_ROW`."""


class VersionedRows(Store[SegmentKey, Any]):
    """Rows by key with their history, kept for ``history_ms`` before the highest timestamp put.

    ``raw`` maps ``(wire key, -1)`` to the latest ``(wire value, timestamp)``, ``(wire key, segment)`` to the versions
    whose validity ended in that segment, and None to the observed stream time.
    """

    _table: TimedDiskRows | None = None

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        self.history_ms = spec.history_ms or 0
        self._segment_ms = spec.segment_ms or _default_segment_ms(self.history_ms)
        self._observed_ms = -1
        self._segments_of: KeyIndex[int] = KeyIndex()
        self._keys_of = TimeIndex()

    def _bind_disk(self, rows: TimedDiskRows) -> None:
        self._table = rows
        key_from = super()._key_from
        rows.bind(self.row_key, lambda data: (key_from(data[:-8]), int.from_bytes(data[-8:], signed=True)))

    def put(self, key: object, value: object, timestamp: Instant) -> int:
        """Put a version; None ends the previous one. Return until when it is valid, `LATEST` or `NOT_PUT`."""
        raw_key, row = self.keys.encode(key), None if value is None else self.values.encode(value)
        timestamp = instant_ms(timestamp)
        if timestamp < 0 and self.spec.logged:  # its changelog has no place for it
            java = f"Invalid timestamp: {timestamp}. Timestamp should always be non-negative or null."
            raise StateError(f'timestamp in store "{self.name}" must not be negative, got {timestamp} ms', java=java)
        if self._changes is not None:
            self._changes.append((raw_key, row, timestamp, ()))
        if timestamp < self._observed_ms - self.history_ms:
            details = {"stream_time_ms": self._observed_ms, "retention_ms": self.history_ms, "store": self.name}
            self.context.refuse(self.name, key, value, timestamp, details)
            return NOT_PUT
        return self._put(raw_key, row, timestamp)

    def delete(self, key: object, timestamp: Instant) -> VersionedRecord | None:
        """End the version that is valid at a time, and return it."""
        timestamp = instant_ms(timestamp)
        expired = timestamp < self._observed_ms - self.history_ms
        old = None if expired else self.get(key, timestamp)
        self.put(key, None, timestamp)
        return old

    def _put(self, key: object, value: object, timestamp: int) -> int:
        if timestamp > self._observed_ms:
            self._update(None, timestamp)
            find = self._keys_of.between if self._table is None else self._table.keys_between
            for raw_key in list(find(0, (timestamp - self.history_ms) // self._segment_ms - 1)):
                self._update(raw_key, None)
        latest = self.raw.get((key, LATEST_ROW))
        if latest is not None and timestamp >= latest[1]:
            if timestamp > latest[1]:
                self._end(key, latest[0], latest[1], timestamp)
            self._update((key, LATEST_ROW), None if value is None else (value, timestamp))
            return LATEST
        next_ms = None if latest is None else latest[1]
        for segment in self._segments_from(key, timestamp):
            next_of_row, versions = self.raw[key, segment]
            if next_of_row <= timestamp:
                break
            if versions[-1][0] <= timestamp:
                return self._put_within(key, segment, value, timestamp)
            next_ms = versions[-1][0]
        if next_ms is not None:
            self._end(key, value, timestamp, next_ms)
            return int(next_ms)
        if value is not None:
            self._update((key, LATEST_ROW), (value, timestamp))
        else:  # a deletion of nothing has no later version that ends it: it ends itself
            row = self.raw.get((key, timestamp // self._segment_ms))
            if row is None or row[0] != timestamp:
                self._end(key, None, timestamp if row is None else row[0], timestamp)
        return LATEST

    def _put_within(self, key: object, segment: int, value: object, timestamp: int) -> int:
        next_ms, versions = row = self.raw[key, segment]
        position, valid_from, valid_to, old = _find(row, timestamp)
        is_new = valid_from != timestamp
        replaces = not is_new or timestamp // self._segment_ms != segment
        if is_new and replaces:
            self._end(key, old, valid_from, timestamp)
        rest = versions[position + 1 if replaces else position :]
        self._update((key, segment), (next_ms, (*versions[:position], (timestamp, value), *rest)))
        return valid_to

    def _end(self, key: object, value: object, valid_from: int, valid_to: int) -> None:
        """Add a version that has ended to the segment of its end."""
        raw_key, version = (key, valid_to // self._segment_ms), (valid_from, value)
        next_ms, versions = self.raw.get(raw_key, (valid_from, ()))
        if versions and versions[-1][0] == next_ms:  # only a remembered deletion
            versions = ()
        elif not versions:
            next_ms = valid_from
        if next_ms > valid_from:
            self._update(raw_key, (next_ms, (*versions, version)))
            return
        gap = ((next_ms, None),) if next_ms < valid_from else ()
        self._update(raw_key, (valid_to, (version, *gap, *versions)))

    def apply(self, raw_key: SegmentKey | None, row: Any) -> None:
        """Change one row silently; None deletes."""
        if raw_key is None:
            self._observed_ms = -1 if row is None else row
        super().apply(raw_key, row)

    def row_key(self, raw_key: SegmentKey | None) -> bytes:
        """Return bytes that are different for each row; b"" for the observed stream time."""
        return b"" if raw_key is None else self.keys.to_bytes(raw_key[0]) + raw_key[1].to_bytes(8, signed=True)

    def _index(self, raw_key: SegmentKey | None, *, gone: bool) -> None:
        if raw_key is None or raw_key[1] == LATEST_ROW or self._table is not None:
            return
        segments, keys = self._segments_of, self._keys_of
        (segments.remove if gone else segments.add)(*raw_key)
        (keys.remove if gone else keys.add)(raw_key[1], raw_key)

    def row(self, key: object, as_of: int | None = None) -> tuple[object, int] | None:
        """Return ``(value, timestamp)`` of the latest version, or of the one valid at a time, as operators read it."""
        raw_key = self.keys.encode(key)
        latest = self.raw.get((raw_key, LATEST_ROW))
        if latest is not None and (as_of is None or latest[1] <= as_of):
            return self.values.decode(latest[0]), latest[1]
        if as_of is None or as_of < self._observed_ms - self.history_ms:
            return None
        for segment in self._segments_from(raw_key, as_of):
            row = self.raw[raw_key, segment]
            if row[0] <= as_of:
                return None
            if row[1][-1][0] <= as_of:
                _, valid_from, _, value = _find(row, as_of)
                return None if value is None else (self.values.decode(value), valid_from)
        return None

    def get(self, key: object, as_of: Instant | None = None) -> VersionedRecord | None:
        """Return the latest version, or the one valid at a time (ms) within the history; None if it was deleted."""
        row = self.row(key, None if as_of is None else instant_ms(as_of))
        return None if row is None else VersionedRecord(*row)

    def history(
        self, key: object, from_: Instant | None = None, to: Instant | None = None, *, ascending: bool = True
    ) -> Rows:
        """Return versions of a key that are valid at some time between two and still kept."""
        bounds = -MAX_TIME_MS if from_ is None else instant_ms(from_), MAX_TIME_MS if to is None else instant_ms(to)
        if bounds[0] > bounds[1]:
            java = "The `fromTime` timestamp must be smaller than the `toTime` timestamp."
            raise ConfigError(f"the range from {bounds[0]} ms to {bounds[1]} ms ends before it starts", java=java)
        versions = list(self._newest_first(self.keys.encode(key), *bounds))
        return Rows(versions[::-1] if ascending else versions)

    def _newest_first(self, raw_key: Hashable, from_ms: int, to_ms: int) -> Iterator[VersionedRecord]:
        decode, latest = self.values.decode, self.raw.get((raw_key, LATEST_ROW))
        if latest is not None and latest[1] <= to_ms:
            yield VersionedRecord(decode(latest[0]), latest[1])
        if to_ms < self._observed_ms - self.history_ms:
            return
        for segment in self._segments_from(raw_key, 0):
            if segment <= to_ms // self._segment_ms:
                valid_to, versions = self.raw[raw_key, segment]
                for valid_from, value in versions:
                    if value is not None and valid_from <= to_ms and valid_to > from_ms:
                        yield VersionedRecord(decode(value), valid_from, valid_to)
                    valid_to = valid_from

    def _segments_from(self, raw_key: Hashable, timestamp: int) -> list[int]:
        first = timestamp // self._segment_ms
        if self._table is not None:
            return self._table.positions(raw_key, self.keys.to_bytes(raw_key), first)[::-1]
        segments = self._segments_of.get(raw_key, [])
        return segments[bisect_left(segments, first) :][::-1]

    def changelog_snapshot(self, timestamp: int) -> Iterator[ChangelogRecord]:
        """Yield every retained version and deletion, by time: put in this order, they restore the same history."""
        versions: dict[tuple[int, Hashable], object] = {}
        for raw_key, row in self.raw.items():
            if raw_key is None:
                continue
            key, segment = raw_key
            if segment == LATEST_ROW:
                versions[row[1], key] = row[0]
                continue
            next_ms, ended = row
            versions.setdefault((next_ms, key), None)  # deleted unless a version begins there
            versions.update({(valid_from, key): value for valid_from, value in ended if valid_from < next_ms})
        for (valid_from, key), value in sorted(versions.items(), key=lambda version: version[0][0]):
            yield key, value, valid_from, ()

    def _replay(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        if timestamp >= self._observed_ms - self.history_ms:
            journal, self._journal = self._journal, None
            row = None if value is None else self._row_from(value, timestamp, headers)
            self._put(self._key_from(key), row, timestamp)
            self._journal = journal


def _find(row: Ended, at_ms: int) -> tuple[int, int, int, object]:
    """Return position, start, end and value of the version that is valid at a time within the row."""
    valid_to, versions = row
    position = next(position for position, (valid_from, _) in enumerate(versions) if valid_from <= at_ms)
    valid_from, value = versions[position]
    return position, valid_from, versions[position - 1][0] if position else valid_to, value


def _default_segment_ms(history_ms: int) -> int:
    for most, parts, least in ((60_000, 3, 2_000), (300_000, 5, 20_000), (3_600_000, 12, 60_000)):
        if history_ms <= most:
            return max(history_ms // parts, least)
    return max(history_ms // 24, 300_000)
