"""Memory of stores: the estimate is near what the process really allocates."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from kstreamnb.core.record import Windowed
from kstreamnb.spark.execution.worker_cache import memory_bytes, rows_in_memory
from tests.unit.state.stores_for_tests import StoreTask, on_disk

ROWS = 20_000


def fill(store: Any, rows: int) -> None:
    """Put rows with distinct keys and values."""
    for number in range(rows):
        key, value = f"customer-{number:06d}", {"count": number + 1_000, "name": f"name of {number}"}
        if store.spec.kind == "session":
            store.put(Windowed(key, number, number), value)
        elif "window" in store.spec.kind:
            store.put(key, (value, number) if store.timestamped else value, number)
        else:
            store.put(key, (number + 1_000, number + 10_000) if store.timestamped else value)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("key_value", {}),
        ("timestamped_key_value", {}),
        ("lru", {"max_entries": ROWS}),
        ("timestamped_window", {"retention_ms": 10**9, "window_size_ms": 10}),
        ("window", {"retention_ms": 10**9, "window_size_ms": 10, "retain_duplicates": True}),
        ("session", {"retention_ms": 10**9}),
    ],
)
def test_the_memory_of_a_store_is_known_within_a_third(kind: str, options: dict[str, Any]) -> None:
    """Keys, rows, the dict and the indexes count with the sizes that the allocator gives them."""
    store = StoreTask().make(kind, logged=False, **options)
    gc.collect()
    tracemalloc.start()
    try:
        fill(store, ROWS)
        gc.collect()
        allocated, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 2 / 3 < memory_bytes(store) / allocated < 4 / 3


def test_a_store_on_disk_has_few_rows_in_memory() -> None:
    """Unchanged rows beyond the limit leave, and the count stays exact."""
    store = StoreTask().make("timestamped_key_value", factory=on_disk, logged=False)
    fill(store, 500)
    assert rows_in_memory(store) >= 500
    store.raw.write(store.raw.changes())
    store.raw.settle()
    assert rows_in_memory(store) == 0
    assert [store.get(f"customer-{number:06d}") for number in (0, 499)] == [(1_000, 10_000), (1_499, 10_499)]
    assert 0 < rows_in_memory(store) <= 4
    assert len(store.raw) == 500


def test_a_range_on_disk_shows_the_moment_of_its_query_and_ends_with_the_batch() -> None:
    """Changes during a range do not show in it; when the table is written, an open range is refused."""
    store = StoreTask().make("key_value", factory=on_disk, logged=False)
    for key in "abcd":
        store.put(key, key)
    store.raw.write(store.raw.changes())
    store.raw.settle()
    store.delete("c")
    seen = store.all()
    assert next(seen) == ("a", "a")
    store.put("b", "new")
    store.put("bb", "new")
    assert list(seen) == [("b", "b"), ("d", "d")]
    assert [key for key, _ in store.reverse_all()] == ["d", "bb", "b", "a"]
    seen = store.all()
    next(seen)
    store.raw.settle()
    with pytest.raises(Exception, match="was read after the end of the batch that opened it"):
        list(seen)
