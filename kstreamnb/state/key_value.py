"""Key-value stores: plain, timestamped, and the least-recently-used one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from kstreamnb.core.codec import CopiedValue
from kstreamnb.core.record import Headers
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import StateError
from kstreamnb.state.codec import EncodedRow, stamped
from kstreamnb.state.disk_rows import DiskRows
from kstreamnb.state.key_order import KeyOrder
from kstreamnb.state.store import Rows, Store, StoreContext


class KeyValueRows(Store[Hashable, Any]):
    """Rows by key, or ``(value, timestamp)`` by key; ``raw`` maps the wire key to the wire value or its row."""

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        self.order = KeyOrder(self.raw, self.keys.to_bytes)
        # Subclasses take no shortcuts: those would not count as uses, and would bypass a cache.
        if type(self) is KeyValueRows and self.timestamped and self.keys.direct and not self._forgets_times:
            self._shorten()

    def get(self, key: object) -> object:
        """Return the row of a key, or None."""
        return self._shown(self.raw.get(self.keys.encode(key)))

    def put(self, key: object, value: object) -> None:
        """Keep a row; None removes it."""
        self.write(self.keys.encode(key), self._kept(value))

    def _index(self, raw_key: Hashable, *, gone: bool) -> None:
        if gone:
            self.order.forget(raw_key)

    @property
    def index_bytes(self) -> int:
        """Return an estimate of the memory that the order of keys takes, in bytes."""
        return self.order.memory_bytes()

    def put_if_absent(self, key: object, value: object) -> object:
        """Put unless there is a row; return the existing row, or None."""
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    def put_all(self, entries: Iterable[tuple[object, object]]) -> None:
        """Put every (key, value) in turn."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: object) -> object:
        """Remove and return a row, or None."""
        old = self.get(key)
        self.put(key, None)
        return old

    def range(self, from_key: object, to_key: object) -> Rows:
        """Return rows between two keys, both inclusive, ascending by key bytes; None is open."""
        return self._scan(*self._bounds(from_key, to_key))

    def reverse_range(self, from_key: object, to_key: object) -> Rows:
        """Return the rows of `range`, descending."""
        return self._scan(*self._bounds(from_key, to_key), reverse=True)

    def all(self) -> Rows:
        """Return all rows, ascending by key bytes."""
        return self._scan(b"", None)

    def reverse_all(self) -> Rows:
        """Return all rows, descending."""
        return self._scan(b"", None, reverse=True)

    def prefix_scan(self, prefix: object, serialize: Callable[[Any], bytes] | None = None) -> Rows:
        """Return rows whose key bytes start with those of a prefix; ``serialize`` makes them, the
        key serde by default.

        Raises: StateError for a prefix without bytes other than 0xff, unless the store is persistent and has no cache.
        """
        data = self._bytes_of(prefix) if serialize is None else serialize(prefix)
        stem = data.rstrip(b"\xff")  # the next prefix has its last byte one greater, and none exists after 0xff alone
        if not stem and not (self.spec.persistent and type(self) is KeyValueRows):
            fact = f'store "{self.name}" cannot scan the prefix {data!r}'
            raise StateError(fact, hint=None if data else "call all()", java="IndexOutOfBoundsException: null")
        return self._scan(data, stem[:-1] + bytes([stem[-1] + 1]) if stem else None)

    def approximate_num_entries(self) -> int:
        """Return the exact number of rows."""
        return len(self.raw)

    def _bounds(self, from_key: object, to_key: object) -> tuple[bytes, bytes | None]:
        least = b"" if from_key is None else self._bytes_of(from_key)
        return least, None if to_key is None else self._bytes_of(to_key) + b"\0"

    def _scan(self, least: bytes, end: bytes | None, *, reverse: bool = False) -> Rows:
        if type(self.raw) is DiskRows and type(self) is KeyValueRows:  # a list of its keys might not fit into memory
            rows = self.raw.items_between(least, end, reverse=reverse)
            return Rows((self._user_key(raw_key), self._shown(row)) for raw_key, row in rows)
        raw_keys = self._between(least, end)
        return self._rows(raw_keys[::-1] if reverse else raw_keys)

    def _between(self, least: bytes, end: bytes | None) -> list[Hashable]:
        """Raw keys whose bytes are at least the first bound and less than the second, ascending; None is open."""
        if type(self.raw) is DiskRows:
            return [raw_key for raw_key, _ in self.raw.items_between(least, end)]
        return self.order.between(least, end)

    def _shorten(self) -> None:
        """Replace get and put by minimal closures: operators call them for each record."""
        raw, find, slow_get, slow_put, watched = self.raw, self.raw.get, self.get, self.put, self.watched
        least, most, text = -self.values.small, self.values.small, self.values.text
        encode, decode, copies, make = self.values.encode, self.values.decode, self.values.most, tuple.__new__

        def get(key: object) -> object:
            row = find(key)
            if type(row) is tuple:
                return row
            return (decode(row[0]), row[1]) if type(row) is EncodedRow else slow_get(key)

        def put(key: object, value: object) -> None:
            if type(value) is tuple and (old := find(key)) is not None:
                part = value[0]
                kind = type(part)
                if kind is CopiedValue and len(raw) < copies:
                    value = make(EncodedRow, value)
                elif not ((kind is int and least < part < most) or (kind is text and part.isascii())):
                    value = stamped(encode(part), value[1])
                if value is not None:
                    raw[key] = value
                    if watched[0]:
                        watched[0](key, old, value)
                    return
            slow_put(key, value)

        self.get, self.put = get, put  # type: ignore[method-assign]


class LruRows(KeyValueRows):
    """The most recently used keys: a get or a put makes a key the youngest, and the oldest is evicted if there are too
    many.

    ``raw`` maps the wire key to ``(turn, wire value)``, or ``(wire value, timestamp, turn)`` if rows have a time; the
    greater the turn, the later the key was used.
    """

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        if spec.max_entries is None:
            raise StateError(f'store "{spec.name}" needs max_entries, the number of keys that it keeps')
        self._turn = 0
        self._by_use: dict[Hashable, None] | None = {}
        super().__init__(spec, context)

    def get(self, key: object) -> object:
        """Return the row of a key, or None; the key becomes the most recently used."""
        raw_key = self.keys.encode(key)
        row = self._row(raw_key)
        if row is not None:
            old, self.raw[raw_key] = self.raw[raw_key], self._used(raw_key, row)
            self._note(raw_key, old, self.raw[raw_key])
        return self._shown(row)

    def in_place(self) -> None:
        """Allow no shortcuts: they would not count as uses."""

    def write(self, raw_key: Hashable, row: object) -> None:
        """Change one row and log it; None deletes, and so does eviction of the oldest."""
        order = self._order_of_use()
        if row is None:
            order.pop(raw_key, None)
        else:
            if raw_key not in self.raw and order and len(order) >= (self.spec.max_entries or 0):
                self.write(next(iter(order)), None)
            row = self._used(raw_key, row)
        super().write(raw_key, row)
        self._by_use = order

    def _used(self, raw_key: Hashable, row: Any) -> tuple[object, ...]:
        order = self._order_of_use()
        order.pop(raw_key, None)
        order[raw_key] = None
        self._turn += 1
        return (*row, self._turn) if self.timestamped else (self._turn, row)

    def _turn_of(self, raw_key: Hashable) -> int:
        return int(self.raw[raw_key][2 if self.timestamped else 0])

    def _order_of_use(self) -> dict[Hashable, None]:
        if self._by_use is None:
            self._by_use = dict.fromkeys(sorted(self.raw, key=self._turn_of))
            self._turn = max(map(self._turn_of, self.raw), default=0)
        return self._by_use

    def apply(self, raw_key: Hashable, row: object) -> None:
        """Change one row silently; None deletes."""
        super().apply(raw_key, row)
        self._by_use = None

    def _row_bytes(self, raw_key: Hashable, row: Any) -> bytes | None:
        return self.values.to_bytes(row[0 if self.timestamped else 1])

    def _snapshot_rows(self) -> Iterable[tuple[Any, Any]]:
        return [(raw_key, self.raw[raw_key]) for raw_key in sorted(self.raw, key=self._turn_of)]

    def _replay(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        self.write(self._key_from(key), None if value is None else self._row_from(value, timestamp, headers))

    def _row(self, raw_key: Hashable) -> object:
        row = self.raw.get(raw_key)
        return None if row is None else stamped(*row[:2]) if self.timestamped else row[1]


def apply_rows(store: Store, rows: Mapping[Any, Any]) -> None:
    """Change many rows of a store of any kind silently; None deletes."""
    if type(store) is KeyValueRows and None not in rows.values():
        store.raw.update(rows)  # a rebuild is mostly this
    else:
        for raw_key, row in rows.items():
            if raw_key is not None:
                store.apply(raw_key, row)
        if None in rows:  # last: rows that it makes too old may be among the others
            store.apply(None, rows[None])
