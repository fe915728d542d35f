"""Compares the declarations that a topology was built from with those of the notebook now."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from operator import attrgetter
from types import FunctionType, MethodType
from typing import TypeAlias

from kstreamnb.core.formatting import join_list
from kstreamnb.dsl.declarations import Declaration
from kstreamnb.notebook.functions import same_code
from kstreamnb.topology.nodes import grouped

_DEPTH = 6
_MOST = 3

Names: TypeAlias = Callable[[Declaration], str | None]
"""Return the variable that holds a declaration, or what was made of it in its cell."""


def changed_cells(before: Iterable[Declaration], now: Iterable[Declaration], names: Names) -> str | None:
    """Return a clause such as ``cell 6 changed "big"``; None if the declarations are equal.

    Example:
        >>> changed_cells([], [], lambda declaration: None)
    """
    old, new = _by_cell(before), _by_cell(now)
    changed: set[Hashable] = set()
    clauses: list[str] = []
    for cell in dict.fromkeys([*old, *new]):
        differing = list(_differences(old.get(cell, []), new.get(cell, []), changed))
        if not differing:
            continue
        changed.add(cell)
        words = join_list(dict.fromkeys(f'"{names(each) or each.word}"' for each in differing), most=_MOST)
        verb = "added" if cell not in old else "changed"
        clauses.append(f"{differing[0].origin.place} {verb} {words}" if cell in new else f"{words} disappeared")
    return join_list(clauses, most=_MOST) or None


def _by_cell(declarations: Iterable[Declaration]) -> dict[Hashable, list[Declaration]]:
    return grouped(sorted(declarations, key=attrgetter("position")), attrgetter("identity.group"))


def _differences(before: list[Declaration], now: list[Declaration], changed: set[Hashable]) -> Iterator[Declaration]:
    """Yield the declarations of a cell that differ, as they are now; removed ones as they were."""
    for one, other in zip(before, now, strict=False):
        if not _same_declaration(one, other, changed):
            yield other
    yield from now[len(before) :] or before[len(now) :]


def _same_declaration(one: Declaration, other: Declaration, changed: set[Hashable]) -> bool:
    """Return whether two declarations say the same; parents in cells that changed themselves do not count."""
    parents = zip(one.parents, other.parents, strict=False)
    return (
        one.word == other.word
        and len(one.parents) == len(other.parents)
        and all(
            a.identity.group == b.identity.group and (b.identity.group in changed or a.position == b.position)
            for a, b in parents
        )
        and _same(one.arguments, other.arguments, _DEPTH)
    )


def _same(one: object, other: object, depth: int) -> bool:
    """Return whether two arguments are equal; functions by their code, because each run of a cell makes new ones."""
    if one is other or not depth:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, FunctionType | MethodType | type):
        return same_code(one, other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key], depth - 1) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_same(a, b, depth - 1) for a, b in zip(one, other, strict=True))
    if dataclasses.is_dataclass(one):
        fields = [field.name for field in dataclasses.fields(one)]
        return all(_same(getattr(one, name), getattr(other, name), depth - 1) for name in fields)
    if type(one).__eq__ is object.__eq__:  # an object without a notion of equality: by its attributes
        return _same(getattr(one, "__dict__", {}), getattr(other, "__dict__", {}), depth - 1)
    return bool(one == other)
