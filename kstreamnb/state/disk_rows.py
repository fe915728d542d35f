"""Rows of a store in a table of SQLite, for state that is larger than memory.

The table holds the rows as of the last `write`; the changes since then and the rows that were used last are objects in
memory. A batch therefore never changes the table, and a range that it reads is what the table and the changes held at
the time of the query.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from heapq import merge
from itertools import accumulate, chain, groupby, islice
from operator import add, itemgetter
from typing import Any, TypeAlias

from kstreamnb.errors import StateError
from kstreamnb.state.key_order import KeyOrder

_GONE: Any = object()
_PAGE = 1000
_AT_ONCE = 1000
_LONG = 1 << 16
_TIME_BYTES = 8
_CUT = (
    "SELECT substr(?1, value >> 32, value >> 16 & 65535), "
    "substr(?1, (value >> 32) + (value >> 16 & 65535), value & 65535) FROM json_each(?2)"
)

Found: TypeAlias = tuple[bytes, Hashable, Any]
"""Key bytes, raw key and row."""

RowCodec: TypeAlias = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]
"""Returns the bytes of a row, and a row from its bytes."""


class DiskRows(MutableMapping[Hashable, Any]):
    """Rows by raw key, ascending by the bytes of keys; a row of None cannot be kept.

    Two generations approximate the order of use: a row found in the old one moves to the young one; when the young one
    is full, it becomes the old one, whose rows are forgotten. That a key has no row is remembered, too.

    Args:
        database: the connection; its owner begins and commits transactions.
        table: name of the table.
        codec: packs and unpacks a row; a staged row with the bytes of None is deleted.
        most_rows: the number of unchanged rows to keep in memory.
    """

    def __init__(self, database: sqlite3.Connection, table: str, codec: RowCodec, *, most_rows: int = 50_000) -> None:
        self._database, self._table, self._half = database, table, max(1, most_rows // 2)
        self._pack, self._unpack = codec
        self._young: dict[Hashable, Any] = {}
        self._old: dict[Hashable, Any] = {}
        self._changed: dict[Hashable, Any] = {}
        self.count = 0
        database.execute(f"CREATE TABLE IF NOT EXISTS {table} (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        self._select = f"SELECT value FROM {table} WHERE key = ?"

    def bind(self, key_bytes: Callable[[Any], bytes], key_from: Callable[[bytes], Any]) -> None:
        """Set how raw keys become bytes, equal for equal keys, and the inverse."""
        self._key_bytes, self._key_from = key_bytes, key_from
        self.discard()

    def get(self, raw_key: Hashable, default: Any = None) -> Any:
        """Return a row, or the default."""
        row = self._changed.get(raw_key)
        if row is None:
            row = self._young.get(raw_key)
            if row is None:
                row = self._find(raw_key)
        return default if row is _GONE else row

    def _find(self, raw_key: Hashable) -> Any:
        if raw_key is None:
            return _GONE
        row = self._old.pop(raw_key, None)
        if row is None:
            result = self._database.execute(self._select, (self._key_bytes(raw_key),)).fetchone()
            row = _GONE if result is None else self._unpack(result[0])
        self._young[raw_key] = row
        self._age()
        return row

    def _age(self) -> None:
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
            if len(self._old) > 2 * self._half:
                self._old = {}

    def __getitem__(self, raw_key: Hashable) -> Any:
        row = self.get(raw_key, _GONE)
        if row is _GONE:
            raise KeyError(raw_key)
        return row

    def __contains__(self, raw_key: object) -> bool:
        return self.get(raw_key) is not None

    def __setitem__(self, raw_key: Hashable, row: Any) -> None:
        self.count += (self.get(raw_key) is None) - (row is _GONE)
        self._changed[raw_key] = row

    def __delitem__(self, raw_key: Hashable) -> None:
        if raw_key not in self:
            raise KeyError(raw_key)
        self[raw_key] = _GONE

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Hashable]:
        return (raw_key for raw_key, _ in self.items_between(b"", None))

    def items_between(
        self, least: bytes, end: bytes | None, *, reverse: bool = False, page: int = _PAGE
    ) -> Iterator[tuple[Hashable, Any]]:
        """Return rows whose key bytes are at least one bound and less than the other, by key bytes; None is open.

        The table is read in pages of some rows.
        """
        raw_keys = self._order.between(least, end)
        changed = [(self._key_bytes(raw_key), raw_key, self._changed[raw_key]) for raw_key in raw_keys]
        stored = self._stored(least, end, "DESC" if reverse else "ASC", page)
        return _merged(stored, iter(changed[::-1] if reverse else changed), reverse=reverse)

    def page(self, least: bytes, most: int) -> tuple[dict[Hashable, Any], bytes | None]:
        """Return at most some rows with key bytes from a bound, and the bound of the next ones; None after the last."""
        rows = dict(islice(self.items_between(least, None, page=most), most))
        return rows, self._key_bytes(next(reversed(rows))) + b"\0" if len(rows) == most else None

    def _stored(self, least: bytes, end: bytes | None, order: str, size: int) -> Iterator[Found]:
        changed, upper = self._changed, "key < ?" if end is not None else "? IS NULL"
        query = f"SELECT key, value FROM {self._table} WHERE key >= ? AND {upper} ORDER BY key {order} LIMIT {size}"
        while page := self._database.execute(query, (least, end)).fetchall():
            for key, value in page:
                if self._changed is not changed:
                    raise StateError("a range of a store on disk was read after the end of the batch that opened it")
                yield key, self._key_from(key), self._unpack(value)
            if order == "ASC":
                least = page[-1][0] + b"\0"
            else:
                end = page[-1][0]
                query = query.replace("? IS NULL", "key < ?")

    def changes(self) -> dict[Hashable, Any]:
        """Return the rows that changed since the last `settle`, None for those that are gone."""
        return {raw_key: None if row is _GONE else row for raw_key, row in self._changed.items()}

    def settle(self) -> None:
        """Note that the table has all changes."""
        self._young.update(self._changed)
        self._age()
        self.discard()

    def discard(self) -> None:
        """Forget the changes since the last `settle`; the caller sets ``count``."""
        self._changed = {}
        self._order = KeyOrder(self._changed, self._key_bytes)

    def write(self, rows: Mapping[Hashable, Any]) -> None:
        """Write rows into the table within the caller's transaction, None for those that are gone."""
        as_bytes = self._key_bytes
        gone = sorted((as_bytes(raw_key),) for raw_key, row in rows.items() if row is None)
        self._database.executemany(f"DELETE FROM {self._table} WHERE key = ?", gone)
        puts = sorted((as_bytes(raw_key), self._pack(row)) for raw_key, row in rows.items() if row is not None)
        self._put(self._table, *zip(*puts, strict=True))

    def stage(self, raw_keys: Iterable[Hashable], rows: Sequence[bytes]) -> None:
        """Append packed rows to a table of the attached database "staging"."""
        self._database.execute(f"CREATE TABLE IF NOT EXISTS staging.{self._table} (key BLOB, value BLOB)")
        self._put(f"staging.{self._table}", list(map(self._key_bytes, raw_keys)), rows)

    def _put(self, table: str, keys: Sequence[bytes] = (), values: Sequence[bytes] = ()) -> None:
        """Put rows.

        SQLite cuts them out of one value, at places in a JSON array, because binding each of them takes more than
        twice the time. A place is one number: the position, and the lengths of key and value with 16 bits each.
        """
        for begin in range(0, len(keys), _AT_ONCE):
            some = list(zip(keys[begin : begin + _AT_ONCE], values[begin : begin + _AT_ONCE], strict=True))
            sizes = [list(map(len, column)) for column in zip(*some, strict=True)]
            if max(map(max, sizes)) >= _LONG:
                self._database.executemany(f"REPLACE INTO {table} VALUES (?, ?)", some)
            else:
                starts = accumulate(map(add, *sizes), initial=1)
                cuts = [start << 32 | key << 16 | value for start, key, value in zip(starts, *sizes, strict=False)]
                data = b"".join(chain.from_iterable(some))
                self._database.execute(f"REPLACE INTO {table} {_CUT}", (data, str(cuts)))

    def take_staged(self) -> None:
        """Move all staged rows to the empty table, the last one of each key, and count them.

        Sorting them once and appending them takes a quarter of the time of writing them in the order of their arrival.
        """
        execute, table = self._database.execute, self._table
        execute(f"CREATE TABLE IF NOT EXISTS staging.{table} (key BLOB, value BLOB)")
        execute(f"REPLACE INTO main.{table} SELECT key, value FROM staging.{table} ORDER BY key, rowid")
        execute(f"DELETE FROM main.{table} WHERE value = ?", (self._pack(None),))
        (self.count,) = execute(f"SELECT count(*) FROM main.{table}").fetchone()

    def in_memory(self) -> tuple[dict[Hashable, Any], ...]:
        """Return the rows that are in memory."""
        return self._changed, self._young, self._old


class TimedDiskRows(DiskRows):
    """Rows whose raw keys are a key and a position in time; they are found by time, too.

    The raw key None has the time that the store has observed, which stays in memory.
    """

    _observed: Any = None

    def bind(
        self,
        key_bytes: Callable[[Any], bytes],
        key_from: Callable[[bytes], Any],
        time_at: int = 8,
        live_from: Callable[[Any], int] | None = None,
    ) -> None:
        """Set the same; key bytes have eight bytes of time at a distance from their end, the None key has none.

        ``live_from`` returns the first time (ms) that is not too old, given the row of None.
        """
        self._live_from = live_from
        self._time_at, self._time = time_at, f"substr(key, -{time_at}, {_TIME_BYTES})"
        self._index = '"times of {}"'.format(self._table.strip('"'))
        super().bind(key_bytes, lambda data: key_from(data) if data else None)
        self._index_times()

    def _index_times(self) -> None:
        self._database.execute(f"CREATE INDEX IF NOT EXISTS {self._index} ON {self._table} ({self._time})")

    def _find(self, raw_key: Hashable) -> Any:
        if raw_key is not None:
            return super()._find(raw_key)
        if self._observed is None:
            result = self._database.execute(self._select, (b"",)).fetchone()
            self._observed = _GONE if result is None else self._unpack(result[0])
        return self._observed

    def settle(self) -> None:
        """Note that the table has all changes."""
        self._observed = self._changed.get(None, self._observed)
        super().settle()

    def discard(self) -> None:
        """Forget the changes since the last `settle`; the caller sets ``count``."""
        super().discard()
        self._times = KeyOrder(self._changed, self._time_bytes)

    def _time_bytes(self, raw_key: Hashable) -> bytes:
        data = self._key_bytes(raw_key)
        return data[-self._time_at :][:_TIME_BYTES] + data

    def positions(self, key: Hashable, key_bytes: bytes, from_ms: int) -> list[Any]:
        """Return the positions of a key's rows from a time (ms), ascending; a negative position is left out."""
        rows: Any = self.items_between(key_bytes + max(from_ms, 0).to_bytes(_TIME_BYTES), key_bytes + b"\xff")
        return [raw_key[1] for raw_key, _ in rows if raw_key[0] == key]

    def keys_between(self, from_ms: int, to_ms: int) -> list[Any]:
        """Return raw keys of a range of times (ms), both ends inclusive: each by time, those of the table first."""
        least, end = _time_range(from_ms, to_ms + 1)
        query = f"SELECT key FROM {self._table} WHERE {self._time} >= ? AND {self._time} < ? ORDER BY {self._time}, key"
        stored = (self._key_from(data) for (data,) in self._database.execute(query, (least, end)))
        raw_keys = [raw_key for raw_key in stored if raw_key not in self._changed]
        changed = self._times.between(least, end)
        return raw_keys + [raw_key for raw_key in changed if self._changed[raw_key] is not _GONE]

    def take_staged(self) -> None:
        """Move all staged rows to the empty table, then index their times: sorted once, not with each row."""
        self._database.execute(f"DROP INDEX {self._index}")
        super().take_staged()
        self._index_times()
        if self._live_from is not None:
            time_ms = self._live_from(self.get(None))
            query = f"DELETE FROM {self._table} WHERE {self._time} >= ? AND {self._time} < ?"
            self.count -= self._database.execute(query, _time_range(0, time_ms)).rowcount


def _time_range(from_ms: int, end_ms: int) -> tuple[bytes, bytes]:
    """Return the bytes of both ends of a range of times (ms), none of them before 0."""
    return max(from_ms, 0).to_bytes(_TIME_BYTES), max(end_ms, 0).to_bytes(_TIME_BYTES)


def _merged(stored: Iterator[Found], changed: Iterator[Found], *, reverse: bool) -> Iterator[tuple[Hashable, Any]]:
    """Merge two runs in the order of their key bytes; a change replaces the stored row of its key."""
    for _, rows in groupby(merge(changed, stored, key=itemgetter(0), reverse=reverse), itemgetter(0)):
        _, raw_key, row = next(rows)  # of equal keys, `merge` gives that of its first run first
        if row is not _GONE:
            yield raw_key, row
