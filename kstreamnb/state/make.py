"""`make_store`: the store that a spec describes."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import StateError
from kstreamnb.state.buffers import JoinBuffer, PendingJoins, SuppressBuffer
from kstreamnb.state.cache import BEHIND_CACHE, CacheBudget
from kstreamnb.state.disk_rows import DiskRows
from kstreamnb.state.duplicates import DuplicateRows
from kstreamnb.state.key_value import KeyValueRows, LruRows
from kstreamnb.state.store import Store, StoreContext
from kstreamnb.state.versioned import VersionedRows
from kstreamnb.state.window import SessionRows, WindowRows

_KINDS: dict[str, type[Store]] = {
    "key_value": KeyValueRows,
    "timestamped_key_value": KeyValueRows,
    "lru": LruRows,
    "window": WindowRows,
    "timestamped_window": WindowRows,
    "session": SessionRows,
    "versioned": VersionedRows,
    "suppress": SuppressBuffer,
    "join_buffer": JoinBuffer,
    "pending_joins": PendingJoins,
}


def make_store(spec: StoreSpec, context: StoreContext, budget: CacheBudget | None = None) -> Any:
    """Build the store of a spec for one task; cached stores that share a ``budget`` share its limit."""
    word = spec.extra.get("type", "") if spec.kind == "internal" else spec.kind
    kind = _KINDS.get(word)
    if kind is None:
        raise StateError(f'store "{spec.name}" has the unknown kind "{word}"', detail=f"known: {', '.join(_KINDS)}")
    if kind is KeyValueRows and spec.max_entries is not None:
        kind = LruRows
    if kind is WindowRows and spec.retain_duplicates:
        kind = DuplicateRows
    cached = BEHIND_CACHE.get(kind) if spec.cached else None
    store = kind(spec, context) if cached is None else cached(spec, context, budget)
    if spec.factory is not None and not isinstance(store.raw, DiskRows):
        store.restore(store.snapshot())
    return store
