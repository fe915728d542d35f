"""Key-value stores behind a record cache."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kstreamnb.state.cache import CachedStore
from kstreamnb.state.key_value import KeyValueRows, TimestampedKeyValueRows
from kstreamnb.state.lru import LruRows

__all__ = ["CachedKeyValueRows", "CachedLruRows", "CachedTimestampedKeyValueRows"]


class _KeyValueCache(CachedStore, KeyValueRows):
    """What the cached kinds share: lookups and ranges that see the cache over the store."""

    def _bind(self) -> None:
        super()._bind()
        self._get_stored, self._write_stored = self.get, self._write
        encode_key, encode_row, show = self.keys.encode, self._encode_row, self._show_row

        def get(key: Any) -> Any:
            raw_key = encode_key(key)
            entry = self.cached_row(raw_key)
            if entry is not None:
                return None if entry.row is None else show(entry.row)
            value = self._get_stored(key)
            if value is not None:
                self.cache_clean(raw_key, self._peek(raw_key))
            return value

        def put(key: Any, value: Any) -> None:
            self.cache(encode_key(key), None if value is None else encode_row(value))

        self.get, self.put = get, put

    def _store_row(self, raw_key: Any, row: Any) -> None:
        self._write_stored(raw_key, row)

    def _stored_row(self, raw_key: Any) -> Any:
        return self._peek(raw_key)

    def _user_key(self, raw_key: Any) -> Any:
        return self.keys.decode(raw_key)

    def _between(self, from_key: Any, to_key: Any) -> list[Any]:
        stored = super()._between(from_key, to_key)
        if not self._shadow():
            return stored
        least = b"" if from_key is None else self.key_bytes(from_key)
        most = None if to_key is None else self.key_bytes(to_key)
        return self._merge(stored, lambda data: data >= least and (most is None or data <= most))

    def _starting_with(self, prefix: bytes) -> list[Any]:
        stored = super()._starting_with(prefix)
        return self._merge(stored, lambda data: data.startswith(prefix)) if self._shadow() else stored

    def _shadow(self) -> Collection[Any]:
        """Keys whose entries may differ from the store."""
        return self._dirty

    def _merge(self, stored: list[Any], wanted: Any) -> list[Any]:
        to_bytes, shadow = self.keys.to_bytes, self._shadow()
        merged = {raw_key: None for raw_key in stored if raw_key not in shadow}
        for raw_key in shadow:
            if self.cached[raw_key].row is not None and wanted(to_bytes(raw_key)):
                merged[raw_key] = None
        return sorted(merged, key=to_bytes)

    def _row(self, raw_key: Any) -> Any:
        entry = self.cached.get(raw_key)
        return self._peek(raw_key) if entry is None else entry.row


class CachedKeyValueRows(_KeyValueCache):
    """Rows by key behind a cache."""


class CachedTimestampedKeyValueRows(_KeyValueCache, TimestampedKeyValueRows):
    """Rows ``(value, timestamp)`` by key behind a cache."""


class CachedLruRows(_KeyValueCache, LruRows):
    """The last used keys behind a cache, which may still show keys that the store has forgotten."""

    def _shadow(self) -> Collection[Any]:
        return self.cached
