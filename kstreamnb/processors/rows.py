"""How table operators keep their rows: one word for timestamped and versioned stores, and one for cached ones.

A store with a cache tells of its changes when it is flushed; then the operator itself forwards nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kstreamnb.core.operator import BindContext, Forward
from kstreamnb.core.record import Change, Headers

GetRow: TypeAlias = Callable[[Any], tuple[Any, int] | None]
"""``get(key)`` gives ``(value, timestamp)``, or None where there is no row."""

UpdateRow: TypeAlias = Callable[[Any, Any, Any, int, Headers], None]
"""``update(key, new, old, timestamp, headers)`` puts the new value and forwards the change."""

_LATEST, _REFUSED = -1, -(2**63)


def is_versioned(store: Any) -> bool:
    """Whether the store keeps the history of its rows."""
    return bool(store.spec.kind == "versioned")


def bind_get(store: Any) -> GetRow:
    """How to read the latest row of a timestamped or versioned store."""
    return store.row if is_versioned(store) else store.get  # type: ignore[no-any-return]


def forwards_itself(store: Any, forward: Forward, *, send_old: bool) -> bool:
    """Let a cached store forward what it flushes, sessions at their ends; True when it has no cache."""
    at_end = store.spec.kind == "session"

    def flushed(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
        forward(key, Change(new, old if send_old else None), key[2] if at_end else timestamp, headers)

    return not store.set_flush_listener(flushed, send_old=send_old)


def bind_update(context: BindContext, name: str, forward: Forward, *, send_old: bool) -> UpdateRow:
    """How to put a row and forward the change: at once, on flush, or not at all when the store refuses it."""
    store = context.store(name)
    put = store.put
    if is_versioned(store):

        def update(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
            valid_to = put(key, new, timestamp)
            if valid_to != _REFUSED:
                forward(key, Change(new, old if send_old else None, valid_to == _LATEST), timestamp, headers)

    elif forwards_itself(store, forward, send_old=send_old):

        def update(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
            put(key, None if new is None else (new, timestamp))
            forward(key, Change(new, old if send_old else None), timestamp, headers)

    else:

        def update(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
            put(key, None if new is None else (new, timestamp))

    return update
