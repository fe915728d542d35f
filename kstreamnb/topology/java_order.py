"""The iteration orders of Java's collections, which are visible in the output of Kafka Streams.

`hash_order` is that of ``java.util.HashMap`` and ``HashSet``, whose crowded buckets become trees; `TreeSet` keeps a
red-black tree, because Kafka's sort keys change while its sets are being filled, so that the shape of the tree matters.
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
    table = _HashTable(capacity)
    for name in dict.fromkeys(names):
        table.add(name)
    return list(table)


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
        self.root: _Entry[T] | None = None
        for item in items:
            self.add(item)

    def add(self, item: T) -> T | None:
        """Insert ``item`` unless an element on the way down compares equal; return its parent."""
        parent, side, entry = None, 0, self.root
        while entry is not None:
            order = self._compare(item, entry.item)
            if order == 0:
                return entry.item
            parent, side = entry, int(order > 0)
            entry = entry.below[side]
        new = _Entry(item, parent)
        if parent is None:
            self.root = new
        else:
            parent.below[side] = new
        self._repair(new)
        return parent.item if parent else None

    def __iter__(self) -> Iterator[T]:
        return iter(self.root or ())

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
        assert self.root is not None
        self.root.red = False

    def _rotate(self, entry: _Entry[T], side: int) -> None:
        """Rotate: move an entry down to one side, and its other child up in its place."""
        child = entry.below[1 - side]
        assert child is not None, "only an entry with a child on that side is rotated"
        inner = entry.below[1 - side] = child.below[side]
        if inner is not None:
            inner.parent = entry
        above = child.parent = entry.parent
        if above is None:
            self.root = child
        else:
            above.below[above.below.index(entry)] = child
        child.below[side], entry.parent = entry, child


_Hashed = tuple[int, tuple[int, ...], str]


class _Bin:
    """The entries of one bucket of a `_HashTable`: a list, with a tree if it is crowded."""

    def __init__(self, entries: list[_Hashed]) -> None:
        self.entries = entries
        self.tree: TreeSet[_Hashed] | None = None

    def add(self, entry: _Hashed) -> None:
        """Append ``entry`` or, in a bucket with a tree, insert it after its parent in the tree."""
        if self.tree is None:
            self.entries.append(entry)
            return
        parent = self.tree.add(entry)
        assert parent is not None, "a tree in a slot is never empty"
        self.entries.insert(self.entries.index(parent) + 1, entry)
        self._root_first(self.tree)

    def grow_tree(self) -> None:
        """Build the bucket's tree."""
        self.tree = TreeSet(lambda one, two: (one > two) - (one < two), self.entries)
        self._root_first(self.tree)

    def _root_first(self, tree: TreeSet[_Hashed]) -> None:
        root = tree.root
        assert root is not None, "a tree in a slot is never empty"
        self.entries.remove(root.item)
        self.entries.insert(0, root.item)

    def split(self, bit: int) -> list[_Bin]:
        """Split the bucket as the table doubles: the entries without and with ``bit`` in their hash."""
        halves = [[entry for entry in self.entries if bool(entry[0] & bit) is high] for high in (False, True)]
        if not all(halves):
            return [self]
        parts = [_Bin(entries) for entries in halves]
        for part in parts:
            if self.tree is not None and len(part.entries) > 6:
                part.grow_tree()
        return parts


class _HashTable:
    """``java.util.HashMap``: crowded buckets enlarge a small table and become trees in one of 64 buckets or more."""

    def __init__(self, capacity: int) -> None:
        self._capacity = 1 << (capacity - 1).bit_length()
        self._size = 0
        self._bins: dict[int, _Bin] = {}

    def add(self, name: str) -> None:
        """Put ``name``, which is not in the table yet."""
        code = java_hash(name)
        code = (code ^ (code >> 16)) - ((code & 0x80000000) << 1)
        slot = self._bins.setdefault(code & (self._capacity - 1), _Bin([]))
        slot.add((code, utf16(name), name))
        if slot.tree is None and len(slot.entries) > 8:
            if self._capacity < 64:
                self._double()
            else:
                slot.grow_tree()
        self._size += 1
        if self._size > int(self._capacity * 0.75):
            self._double()

    def _double(self) -> None:
        bit, self._capacity = self._capacity, self._capacity * 2
        parts = [part for slot in self._bins.values() for part in slot.split(bit)]
        self._bins = {part.entries[0][0] & (self._capacity - 1): part for part in parts}

    def __iter__(self) -> Iterator[str]:
        for _, slot in sorted(self._bins.items()):
            yield from (name for _, _, name in slot.entries)
