"""Key-value stores, plain and timestamped."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.stores import StoreSpec
from kstreamnb.state.codec import stamped
from kstreamnb.state.key_order import KeyOrder
from kstreamnb.state.store import Rows, Store, StoreContext
from kstreamnb.state.views import TimestampedStoreForUser


class KeyValueRows(Store):
    """Rows by key; ``raw`` maps the wire key to the wire value."""

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        self.order = KeyOrder(self.raw, self.keys.to_bytes)

    def get(self, key: Any) -> Any:
        """The row of a key, or None."""
        row = self.raw.get(self.keys.encode(key))
        return None if row is None else self._show_row(row)

    def put(self, key: Any, value: Any) -> None:
        """Keep a row; None removes it."""
        self.write(self.keys.encode(key), None if value is None else self._encode_row(value))

    def apply(self, raw_key: Any, row: Any) -> None:
        """Change one row silently; None deletes."""
        if row is not None:
            self.raw[raw_key] = row
        elif self.raw.pop(raw_key, None) is not None:
            self.order.forget(raw_key)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Put unless there is a row; gives the row that was there, or None."""
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    def put_all(self, entries: list[tuple[Any, Any]]) -> None:
        """Put every (key, value) in turn."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> Any:
        """Remove a row and give it, or None."""
        old = self.get(key)
        self.put(key, None)
        return old

    def range(self, from_key: Any, to_key: Any) -> Rows:
        """Rows between two keys, both inclusive, None being open, ascending by key bytes."""
        return self._rows(self._between(from_key, to_key))

    def reverse_range(self, from_key: Any, to_key: Any) -> Rows:
        """The same, descending."""
        return self._rows(self._between(from_key, to_key)[::-1])

    def all(self) -> Rows:
        """All rows, ascending by key bytes."""
        return self._rows(self._between(None, None))

    def reverse_all(self) -> Rows:
        """All rows, descending."""
        return self._rows(self._between(None, None)[::-1])

    def prefix_scan(self, prefix: Any, serialize: Any = None) -> Rows:
        """Rows whose key bytes start with those of a prefix; ``serialize`` makes them, the key serde by default."""
        data = self._bytes_of(prefix) if serialize is None else serialize(prefix)
        return self._rows(self._starting_with(data))

    def approximate_num_entries(self) -> int:
        """The number of rows; exact."""
        return len(self.raw)

    def _bytes_of(self, key: Any) -> bytes:
        """Serialised bytes of a key."""
        return self.keys.to_bytes(self.keys.encode(key))

    def _between(self, from_key: Any, to_key: Any) -> list[Any]:
        least = None if from_key is None else self._bytes_of(from_key)
        return self.order.between(least, None if to_key is None else self._bytes_of(to_key))

    def _starting_with(self, prefix: bytes) -> list[Any]:
        return self.order.starting_with(prefix)

    def _rows(self, raw_keys: list[Any]) -> Rows:
        return Rows(map(self._show, raw_keys, [self._row(raw_key) for raw_key in raw_keys]))

    def _row(self, raw_key: Any) -> Any:
        """The row of a key that was found in a range."""
        return self._peek(raw_key)

    def _peek(self, raw_key: Any) -> Any:
        """The row of a key, without counting as a use of it."""
        return self.raw.get(raw_key)

    def _show(self, raw_key: Any, row: Any) -> tuple[Any, Any]:
        return self.keys.decode(raw_key), self._show_row(row)

    def _show_row(self, row: Any) -> Any:
        return self.values.decode(row)

    def _encode_row(self, value: Any) -> Any:
        return self.values.encode(value)


class TimestampedKeyValueRows(KeyValueRows):
    """Rows ``(value, timestamp)`` by key, as tables and aggregates keep them."""

    timestamped = True

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        if self.keys.direct:
            self._shorten()

    def _shorten(self) -> None:
        """Replace get and put by closures that do no more than they must: operators call them for each record."""
        raw, find, slow_get, slow_put, watched = self.raw, self.raw.get, self.get, self.put, self.watched
        least, most, text = -self.values.small, self.values.small, self.values.text

        def get(key: Any) -> Any:
            row = find(key)
            return row if type(row) is tuple else slow_get(key)

        def put(key: Any, value: Any) -> None:
            if type(value) is tuple and key in raw and not watched[0]:
                part = value[0]
                kind = type(part)
                if (kind is int and least < part < most) or (kind is text and part.isascii()):
                    raw[key] = value
                    return
            slow_put(key, value)

        self.get, self.put = get, put  # type: ignore[method-assign]

    def _show_row(self, row: Any) -> Any:
        return row if type(row) is tuple else (self.values.decode(row[0]), row[1])

    def _encode_row(self, value: Any) -> Any:
        return stamped(self.values.encode(value[0]), value[1])

    @property
    def for_user(self) -> Any:
        """The store with `ValueAndTimestamp` rows."""
        return TimestampedStoreForUser(self)
