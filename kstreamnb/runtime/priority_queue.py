"""A binary heap that breaks ties exactly as java.util.PriorityQueue does.

With keys that are all different its order is that of any heap; with equal keys it is Java's accident, which the
layout of Kafka's own test driver makes visible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """Items by the least ``key(item)``; keys may change only while their item is outside."""

    __slots__ = ("_items", "_key")

    def __init__(self, key: Callable[[T], Any]) -> None:
        self._items: list[T] = []
        self._key = key

    def __len__(self) -> int:
        return len(self._items)

    def peek(self) -> T | None:
        """The first item, or None."""
        return self._items[0] if self._items else None

    def clear(self) -> None:
        """Forget every item."""
        self._items.clear()

    def add(self, item: T) -> None:
        """Put an item in its place."""
        items, key = self._items, self._key
        at = len(items)
        items.append(item)
        mine = key(item)
        while at > 0:
            parent = (at - 1) >> 1
            if mine >= key(items[parent]):
                break
            items[at] = items[parent]
            at = parent
        items[at] = item

    def poll(self) -> T:
        """Take the first item out; raises IndexError when there is none."""
        items, key = self._items, self._key
        first, last = items[0], items.pop()
        size = len(items)
        if size == 0:
            return first
        at, mine = 0, key(last)
        while at < size >> 1:
            child = 2 * at + 1
            if child + 1 < size and key(items[child]) > key(items[child + 1]):
                child += 1
            if mine <= key(items[child]):
                break
            items[at] = items[child]
            at = child
        items[at] = last
        return first
