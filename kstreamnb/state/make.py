"""`make_store`: the store that a spec describes."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import StateError
from kstreamnb.state.key_value import KeyValueRows, TimestampedKeyValueRows
from kstreamnb.state.lru import LruRows
from kstreamnb.state.session import SessionRows
from kstreamnb.state.store import Store, StoreContext
from kstreamnb.state.versioned import VersionedRows
from kstreamnb.state.window import TimestampedWindowRows, WindowRows

__all__ = ["make_store"]

_KINDS: dict[str, type[Store]] = {
    "key_value": KeyValueRows,
    "timestamped_key_value": TimestampedKeyValueRows,
    "lru": LruRows,
    "window": WindowRows,
    "timestamped_window": TimestampedWindowRows,
    "session": SessionRows,
    "versioned": VersionedRows,
}


def make_store(spec: StoreSpec, context: StoreContext) -> Any:
    """Build the store of a spec for one task."""
    kind = _KINDS.get(spec.kind)
    if kind is None:
        raise StateError(f'store "{spec.name}" is of an unknown kind "{spec.kind}"', detail=f"there are {list(_KINDS)}")
    return kind(spec, context)
