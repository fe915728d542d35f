"""The iteration orders of Java's collections, which are visible in the output of Kafka Streams.

`hash_order` is that of ``java.util.HashMap`` and ``HashSet``: bucket by bucket, each in order of insertion. Java
makes a tree of a bucket with nine names. That takes thousands of nodes, or names chosen for it, so it is left out.
`TreeSet` is a red-black tree: Kafka's sort keys change while its sets are being filled, so the shape of the tree
matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

T = TypeVar("T")


@lru_cache(maxsize=4096)
def utf16(text: str) -> tuple[int, ...]:
    """Return the UTF-16 code units of ``text``: comparing them is ``String.compareTo``."""
    data = text.encode("utf-16-be", "surrogatepass")
    return tuple(int.from_bytes(data[index : index + 2], "big") for index in range(0, len(data), 2))


@lru_cache(maxsize=4096)
def java_hash(text: str) -> int:
    """Return ``String.hashCode`` as an unsigned 32-bit number.

    Example:
        >>> java_hash("Aa") == java_hash("BB") == 2112
        True
    """
    code = 0
    for unit in utf16(text):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code


def hash_order(names: Iterable[str], capacity: int = 16) -> list[str]:
    """Return the order of a ``HashMap`` to which ``names`` were added one by one; it begins with
    at least ``capacity``.
    """
    distinct = list(dict.fromkeys(names))
    capacity = 1 << (capacity - 1).bit_length()
    while len(distinct) > int(capacity * 0.75):
        capacity *= 2
    return sorted(distinct, key=lambda name: (java_hash(name) ^ java_hash(name) >> 16) & (capacity - 1))


def copied_hash_order(names: Iterable[str]) -> list[str]:
    """Return the order of ``new HashSet<>(set)`` (before JDK 19), where ``set`` got the ``names`` one by one."""
    names = hash_order(names)
    return hash_order(names, max(16, int(len(names) / 0.75) + 1))


class _Entry(Generic[T]):
    """An entry of a tree; ``below`` are the lesser and the greater side."""

    __slots__ = ("below", "item", "parent", "red")

    def __init__(self, item: T, parent: _Entry[T] | None) -> None:
        self.item, self.parent, self.red = item, parent, True
        self.below: list[_Entry[T] | None] = [None, None]

    def __iter__(self) -> Iterator[T]:
        lesser, greater = self.below
        yield from lesser or ()
        yield self.item
        yield from greater or ()


class TreeSet(Generic[T]):
    """``java.util.TreeSet``: ``compare`` sees elements as they are at the time of each insertion."""

    def __init__(self, compare: Callable[[T, T], int], items: Iterable[T] = ()) -> None:
        self._compare = compare
        self._root: _Entry[T] | None = None
        for item in items:
            self.add(item)

    def add(self, item: T) -> None:
        """Insert ``item`` unless an element on the way down compares equal."""
        parent, side, entry = None, 0, self._root
        while entry is not None:
            order = self._compare(item, entry.item)
            if order == 0:
                return
            parent, side = entry, int(order > 0)
            entry = entry.below[side]
        new = _Entry(item, parent)
        if parent is None:
            self._root = new
        else:
            parent.below[side] = new
        self._repair(new)

    def __iter__(self) -> Iterator[T]:
        return iter(self._root or ())

    def _repair(self, entry: _Entry[T]) -> None:
        while (parent := entry.parent) is not None and parent.red:
            grand = parent.parent
            assert grand is not None, "a red entry is never the root"
            side = grand.below.index(parent)
            uncle = grand.below[1 - side]
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                grand.red = True
                entry = grand
                continue
            if entry is parent.below[1 - side]:
                self._rotate(parent, side)
                parent = entry
            parent.red, grand.red = False, True
            self._rotate(grand, 1 - side)
            break
        assert self._root is not None
        self._root.red = False

    def _rotate(self, entry: _Entry[T], side: int) -> None:
        """Rotate: move an entry down to one side, and its other child up in its place."""
        child = entry.below[1 - side]
        assert child is not None, "only an entry with a child on that side is rotated"
        inner = entry.below[1 - side] = child.below[side]
        if inner is not None:
            inner.parent = entry
        above = child.parent = entry.parent
        if above is None:
            self._root = child
        else:
            above.below[above.below.index(entry)] = child
        child.below[side], entry.parent = entry, child
