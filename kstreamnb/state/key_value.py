"""Key-value stores, plain and timestamped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.wire import Encoded
from kstreamnb.state.codec import stamped
from kstreamnb.state.key_order import KeyOrder
from kstreamnb.state.store import Recorder, Rows, Store, StoreContext
from kstreamnb.state.views import TimestampedStoreForUser

__all__ = ["KeyValueRows", "TimestampedKeyValueRows"]


class KeyValueRows(Store):
    """Rows by key; ``raw`` maps the wire key to the wire value.

    ``get`` and ``put`` are closures made once for each store, because they are what an operator calls per record.
    """

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        self.order = KeyOrder(self.raw, self.keys.to_bytes)
        self.get: Callable[[Any], Any]
        self.put: Callable[[Any, Any], None]
        self._write: Callable[[Any, Any], None]
        self._bind()
        self._hook(self._recorder())

    def _bind(self) -> None:
        raw, encode_key, direct = self.raw, self.keys.encode, self.keys.direct
        encode, decode, forget = self.values.encode, self.values.decode, self.order.forget
        find = raw.get
        record: Recorder | None = None

        def hook(wanted: Recorder | None) -> None:
            nonlocal record
            record = wanted

        def get(key: Any) -> Any:
            row = find(key if direct else encode_key(key))
            if row is None:
                encode_key(key)
                return None
            return decode(row) if type(row) is Encoded else row

        def put(key: Any, value: Any) -> None:
            if value is not None:
                value = encode(value)
            write(encode_key(key), value)

        def write(raw_key: Any, row: Any) -> None:
            old = find(raw_key)
            if row is not None:
                raw[raw_key] = row
            elif old is not None:
                del raw[raw_key]
                forget(raw_key)
            if record is not None:
                record(raw_key, old, row)

        self.get, self.put = get, put
        self._hook_in, self._write = hook, write

    def _hook(self, record: Recorder | None) -> None:
        self._hook_in(record)

    def write(self, raw_key: Any, row: Any) -> None:
        """Change one row and note it; None deletes."""
        self._write(raw_key, row)

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
        data = self.key_bytes(prefix) if serialize is None else serialize(prefix)
        return self._rows(self._starting_with(data))

    def approximate_num_entries(self) -> int:
        """The number of rows; exact."""
        return len(self.raw)

    def key_bytes(self, key: Any) -> bytes:
        """Serialised bytes of a key."""
        return self.keys.to_bytes(self.keys.encode(key))

    def _between(self, from_key: Any, to_key: Any) -> list[Any]:
        least = None if from_key is None else self.key_bytes(from_key)
        return self.order.between(least, None if to_key is None else self.key_bytes(to_key))

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

    def in_place(self) -> tuple[dict[Any, Any], list[bool]] | None:
        """See `Store.in_place`."""
        if type(self.raw) is not dict or self.spec.cached or not (self.keys.direct and self.values.small):
            return None
        return self.raw, self.watched

    def _bind(self) -> None:
        super()._bind()
        raw, encode_key, show, prepare = self.raw, self.keys.encode, self._show_row, self._encode_row
        least, most, text = -self.values.small, self.values.small, self.values.text
        find, write, hook_plain, direct = raw.get, self._write, self._hook_in, self.keys.direct
        at_once = direct

        def hook(wanted: Recorder | None) -> None:
            nonlocal at_once
            at_once = direct and wanted is None
            hook_plain(wanted)

        def get(key: Any) -> Any:
            row = find(key)
            return row if type(row) is tuple else get_slowly(key)

        def get_slowly(key: Any) -> Any:
            row = find(encode_key(key))
            return None if row is None else show(row)

        def put(key: Any, row: Any) -> None:
            if at_once and type(row) is tuple and key in raw:
                value = row[0]
                kind = type(value)
                if (kind is int and least < value < most) or (kind is text and value.isascii()):
                    raw[key] = row
                    return
            write(encode_key(key), None if row is None else prepare(row))

        self.get, self.put = get if direct else get_slowly, put
        self._hook_in = hook

    def _show_row(self, row: Any) -> Any:
        return row if type(row) is tuple else (self.values.decode(row[0]), row[1])

    def _encode_row(self, value: Any) -> Any:
        return stamped(self.values.encode(value[0]), value[1])

    @property
    def for_user(self) -> Any:
        """The store with `ValueAndTimestamp` rows."""
        return TimestampedStoreForUser(self)
