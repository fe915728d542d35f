"""The key-value store that keeps only the last used keys."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import StateError
from kstreamnb.state.key_value import KeyValueRows
from kstreamnb.state.store import StoreContext


class LruRows(KeyValueRows):
    """The last used keys: a get or a put makes a key the youngest, and the oldest goes when there are too many.

    ``raw`` maps the wire key to ``(turn, wire value)``; the greater the turn, the later the key was used.
    """

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        if spec.max_entries is None:
            raise StateError(f'store "{spec.name}" keeps the last used keys, but not how many')
        self._turn = 0
        self._by_use: dict[Any, None] | None = {}
        super().__init__(spec, context)

    def get(self, key: Any) -> Any:
        """The row of a key, or None; the key is now the youngest."""
        raw_key = self.keys.encode(key)
        row = self.raw.get(raw_key)
        if row is None:
            return None
        self.raw[raw_key] = used = self._used(raw_key, row[1])
        self._note(raw_key, row, used)
        return self.values.decode(row[1])

    def write(self, raw_key: Any, row: Any) -> None:
        """Change one row and note it; None deletes, and so does being the oldest of too many."""
        order = self._order_of_use()
        if row is None:
            order.pop(raw_key, None)
        else:
            if raw_key not in self.raw and order and len(order) >= (self.spec.max_entries or 0):
                self.write(next(iter(order)), None)
            row = self._used(raw_key, row)
        super().write(raw_key, row)
        self._by_use = order

    def _used(self, raw_key: Any, value: Any) -> tuple[int, Any]:
        order = self._order_of_use()
        order.pop(raw_key, None)
        order[raw_key] = None
        self._turn += 1
        return self._turn, value

    def _order_of_use(self) -> dict[Any, None]:
        if self._by_use is None:
            self._by_use = dict.fromkeys(sorted(self.raw, key=lambda raw_key: self.raw[raw_key][0]))
            self._turn = max((row[0] for row in self.raw.values()), default=0)
        return self._by_use

    def apply(self, raw_key: Any, row: Any) -> None:
        """Change one row silently; None deletes."""
        super().apply(raw_key, row)
        self._by_use = None

    def _logged_value(self, row: Any) -> Any:
        return None if row is None else row[1]

    def _replay(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self.write(self._key_from(key), None if value is None else self._row_from(value, timestamp))

    def _peek(self, raw_key: Any) -> Any:
        row = self.raw.get(raw_key)
        return None if row is None else row[1]
