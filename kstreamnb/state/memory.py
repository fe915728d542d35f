"""Estimates how many bytes of memory the rows of stores take, from a sample of them."""

from __future__ import annotations

from itertools import chain, islice
from sys import getsizeof
from typing import Any

from kstreamnb.state.disk_rows import DiskRows
from kstreamnb.state.store import Store

_SAMPLE = 32
_ALIGNED = 16
_SHARED = frozenset({bool, type(None)})


def size_of(value: Any) -> int:
    """Return the bytes of an object and of everything in it, as the allocator of Python rounds them.

    Example:
        >>> size_of(None), size_of(5), size_of(("a" * 100, 1_000_000)) > size_of(("a", 1_000_000))
        (0, 0, True)
    """
    kind = type(value)
    if kind in _SHARED or (kind is int and -6 < value < 257):
        return 0  # one object for all
    size = -(-getsizeof(value) // _ALIGNED) * _ALIGNED
    if isinstance(value, (tuple, list, set, frozenset)):
        size += sum(map(size_of, value))
    elif isinstance(value, dict):
        size += sum(size_of(part) for pair in value.items() for part in pair)
    attributes = getattr(value, "__dict__", None)
    return size + size_of(attributes) if attributes else size


def rows_in_memory(store: Store) -> int:
    """Return the number of a store's rows that are in memory."""
    return sum(map(len, _held(store)))


def memory_bytes(store: Store) -> int:
    """Return an estimate of the bytes that a store takes in memory; its own cost does not depend on their number."""
    return sum(map(_rows_bytes, _held(store))) + store.index_bytes


def _held(store: Store) -> tuple[dict[Any, Any], ...]:
    """Return what holds rows in memory; nothing for a user's own store."""
    raw = store.raw
    return raw.in_memory() if isinstance(raw, DiskRows) else (raw,) if type(raw) is dict else ()


def _rows_bytes(rows: dict[Any, Any]) -> int:
    sample = [*islice(rows.items(), _SAMPLE), *islice(reversed(rows.items()), _SAMPLE)]
    content = sum(map(size_of, chain.from_iterable(sample)))
    return getsizeof(rows) + (content * len(rows) // len(sample) if sample else 0)
