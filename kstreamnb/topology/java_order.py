"""The orders in which Java's collections iterate, which show in what Kafka Streams prints.

`hash_order` is that of ``java.util.HashMap`` and ``HashSet``; `TreeSet` keeps a red-black tree, because the order
that Kafka compares by changes while its sets are being filled, so that the shape of the tree decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["TreeSet", "copied_hash_order", "hash_order", "java_hash", "utf16"]

T = TypeVar("T")


def utf16(text: str) -> tuple[int, ...]:
    """The UTF-16 code units of ``text``: comparing them is ``String.compareTo``."""
    data = text.encode("utf-16-be", "surrogatepass")
    return tuple(int.from_bytes(data[index : index + 2], "big") for index in range(0, len(data), 2))


def java_hash(text: str) -> int:
    """``String.hashCode`` as an unsigned 32-bit number.

    Example:
        >>> java_hash("Aa") == java_hash("BB") == 2112
        True
    """
    code = 0
    for unit in utf16(text):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code


def hash_order(names: Iterable[str], capacity: int = 16) -> list[str]:
    """The order of a ``HashMap`` to which ``names`` were added one by one; it begins with at least ``capacity``."""
    names = list(dict.fromkeys(names))
    start = _power_of_two(1, lambda size: size >= capacity)
    return _order(names, _power_of_two(start, lambda capacity: len(names) <= capacity * 0.75))


def copied_hash_order(names: Iterable[str]) -> list[str]:
    """The order of ``new HashSet<>(set)`` (before JDK 19), where ``set`` got the ``names`` one by one."""
    names = hash_order(names)
    return _order(names, _power_of_two(16, lambda capacity: int(len(names) / 0.75) + 1 <= capacity))


def _power_of_two(start: int, is_enough: Callable[[int], bool]) -> int:
    capacity = start
    while not is_enough(capacity):
        capacity *= 2
    return capacity


def _order(names: list[str], capacity: int) -> list[str]:
    def slot(name: str) -> int:
        code = java_hash(name)
        return (code ^ (code >> 16)) & (capacity - 1)

    return sorted(names, key=slot)


class _Entry(Generic[T]):
    __slots__ = ("item", "left", "parent", "red", "right")

    def __init__(self, item: T, parent: _Entry[T] | None) -> None:
        self.item = item
        self.parent = parent
        self.left: _Entry[T] | None = None
        self.right: _Entry[T] | None = None
        self.red = True


class TreeSet(Generic[T]):
    """``java.util.TreeSet``: ``compare`` sees elements as they are at the moment of each insertion."""

    def __init__(self, compare: Callable[[T, T], int]) -> None:
        self._compare = compare
        self._root: _Entry[T] | None = None

    def add(self, item: T) -> None:
        """Insert ``item`` unless an element compares equal on the way down."""
        parent, order, entry = None, 0, self._root
        while entry is not None:
            parent, order = entry, self._compare(item, entry.item)
            if order == 0:
                return
            entry = entry.left if order < 0 else entry.right
        new = _Entry(item, parent)
        if parent is None:
            self._root = new
        elif order < 0:
            parent.left = new
        else:
            parent.right = new
        self._repair(new)

    def __iter__(self) -> Iterator[T]:
        path: list[_Entry[T]] = []
        entry = self._root
        while path or entry is not None:
            while entry is not None:
                path.append(entry)
                entry = entry.left
            last = path.pop()
            yield last.item
            entry = last.right

    def _repair(self, entry: _Entry[T]) -> None:
        while (parent := entry.parent) is not None and parent.red:
            grand = parent.parent
            assert grand is not None, "a red entry is never the root"
            left = parent is grand.left
            uncle = grand.right if left else grand.left
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                grand.red = True
                entry = grand
                continue
            if entry is (parent.right if left else parent.left):
                self._rotate(parent, to_left=left)
                parent = entry
            parent.red, grand.red = False, True
            self._rotate(grand, to_left=not left)
            break
        assert self._root is not None
        self._root.red = False

    def _rotate(self, entry: _Entry[T], *, to_left: bool) -> None:
        child = entry.right if to_left else entry.left
        assert child is not None, "only an entry with a child on that side is rotated"
        inner = child.left if to_left else child.right
        if to_left:
            entry.right, child.left = inner, entry
        else:
            entry.left, child.right = inner, entry
        if inner is not None:
            inner.parent = entry
        child.parent = entry.parent
        if entry.parent is None:
            self._root = child
        elif entry is entry.parent.left:
            entry.parent.left = child
        else:
            entry.parent.right = child
        entry.parent = child
