"""Making stores: kind, implementation and serdes."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb.errors import StateError
from tests.unit.state.stores_for_tests import OwnKeyValueStore, StoreTask


def test_an_unknown_kind_is_named() -> None:
    """The error lists the kinds."""
    with pytest.raises(StateError, match='has the unknown kind "heap"') as refused:
        StoreTask().make("heap")
    assert "known: key_value" in str(refused.value.detail)
    with pytest.raises(StateError, match='has the unknown kind "queue"'):
        StoreTask().make("internal", extra={"type": "queue"})


def test_a_users_own_store_is_within_reach() -> None:
    """It gets opaque rows, and its own methods stay callable."""
    store = StoreTask().make("timestamped_key_value", factory=OwnKeyValueStore)
    store.put("a", ({"n": 1}, 5))
    assert "1 rows" == store.implementation.busiest()
    assert ({"n": 1}, 5) == store.get("a")
    assert StoreTask().make("key_value").implementation is None


def test_a_users_own_store_may_hold_rows_already() -> None:
    """Such as one that reads a file when it is created."""

    def loaded(spec: Any) -> OwnKeyValueStore:
        own = OwnKeyValueStore(spec)
        own.put("b", 2)
        own.put("a", 1)
        return own

    assert [("a", 1), ("b", 2)] == list(StoreTask().make("key_value", factory=loaded).all())


def test_internal_stores_have_no_factory() -> None:
    """The internal state of a join or suppression cannot be replaced."""
    with pytest.raises(StateError, match='of kind "internal" cannot have a factory'):
        StoreTask().make("internal", extra={"type": "suppress"}, factory=OwnKeyValueStore)
