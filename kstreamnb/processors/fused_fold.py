"""Folding as lines of a fused chain: what aggregates do to a record where nothing else is wanted of them.

That is: no cache, no versions, no old values. A count may also replace a row of its store by itself, where the store
allows that. Words in braces, such as ``{put}``, stand for things that the chain names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from kstreamnb.core.operator import BindContext, FusedStep
from kstreamnb.core.record import Change, Windowed
from kstreamnb.processors.folding import Adder, Initializer, count_up, zero
from kstreamnb.processors.tables import is_versioned


class Fold(NamedTuple):
    """What is folded, and whether a child reads only the new value of each change."""

    initializer: Initializer | None
    aggregator: Adder
    new_only: bool

    @property
    def counts(self) -> bool:
        """Whether it counts."""
        return (self.initializer, self.aggregator) == (zero, count_up)


def is_simple(store: Any, *, send_old: bool) -> bool:
    """Whether a fold on this store is no more than a lookup and a put."""
    return not send_old and not store.spec.cached and not is_versioned(store)


def fold_by_key(context: BindContext, store: Any, fold: Fold) -> FusedStep:
    """Lines that fold a record into its key's row."""
    lines = """\
if key is None or value is None:
 {drop}("null key" if key is None else "null value", key, value, timestamp)
 return"""
    names = {"drop": context.drop, "get": store.get, "put": store.put}
    return _step([lines, _fold(fold, store, "key")], names, store, fold)


def fold_by_window(context: BindContext, store: Any, fold: Fold, *, size: int, grace: int, late: Any) -> FusedStep:
    """Lines that fold a record into the row of its key and tumbling window.

    Window, place in the store and windowed key of a key's last record are kept: the next one is mostly in the same
    window, and needs none of them made. Keys that are equal without being the same row are never kept.
    """
    places: dict[Any, _Place] = {}
    keeps = store.keys.direct
    known = """\
place = {places}(key)
if place is None or not place[0] <= timestamp < place[1]: place = {locate}(key, timestamp)"""
    lines = f"""\
if key is None:
 {{drop}}("null key", key, value, timestamp)
 return
{known if keeps else "place = {locate}(key, timestamp)"}
inner = key
start, end, at, key = place
if timestamp > {{seen}}[0]:
 {{seen}}[0] = timestamp
elif end <= {{seen}}[0] - {grace}:
 {{late}}(inner, value, timestamp, start, end, {{seen}}[0])
 return"""
    names = {"drop": context.drop, "get": store.fetch, "put": store.put, "places": places.get}
    names |= {"locate": _locating(places, size, keeps=keeps), "seen": context.cell("stream_time_ms", -1), "late": late}
    step = _step([lines, _fold(fold, store, "inner", "start")], names, store, fold)
    return step._replace(windows_ms=size)


_Place: TypeAlias = tuple[int, int, tuple[Any, int], Windowed]
"""Start and end of a window, and a key in it: as the store has it, and as the table has it."""


def _locating(places: dict[Any, _Place], size: int, *, keeps: bool) -> Callable[[Any, int], _Place]:
    """``locate(key, timestamp)``, which with ``keeps`` keeps what it makes until a later window begins."""
    newest = -1

    def locate(key: Any, timestamp: int) -> _Place:
        nonlocal newest
        start = timestamp - timestamp % size
        if start > newest:
            newest = start
            places.clear()
        found = start, start + size, (key, start), Windowed(key, start, start + size)
        if keeps:
            places[key] = found
        return found

    return locate


def _fold(fold: Fold, store: Any, key: str, *place: str) -> str:
    """Lines that leave the new aggregate and its time, for a row by the names of a key and perhaps its window start."""
    at = "at" if place else key
    get = f"row = {{get}}({', '.join((key, *place))})"
    put = f"{{put}}({', '.join((key, 'None if value is None else (value, timestamp)', *place))})"
    latest = "if row[1] > timestamp: timestamp = row[1]"
    if fold.initializer is None:
        return f"""\
{get}
if row is not None:
 value = {{f}}(row[0], value)
 {latest}
{put}"""
    if not fold.counts or store.in_place() is None:
        return f"""\
{get}
if row is None:
 value = {{f}}({key}, value, {{init}}())
else:
 value = {{f}}({key}, value, row[0])
 {latest}
{put}"""
    return f"""\
row = {{find}}({at})
if row is None:
 {get}
 value = 1 if row is None else row[0] + 1
 if row is not None and row[1] > timestamp: timestamp = row[1]
 {put}
else:
 value = row[0] + 1
 {latest}
 {{rows}}[{at}] = fresh = value, timestamp
 if {{watched}}[0]: {{watched}}[0]({at}, row, fresh)"""


def _step(lines: list[str], names: dict[str, Any], store: Any, fold: Fold) -> FusedStep:
    """The step of these lines, with the names that they use."""
    if not fold.new_only:
        lines.append("value = {make}({Change}, (value, None, True))")
    rows, watched = store.in_place() or ({}, [None])
    names |= {"find": rows.get, "rows": rows, "watched": watched, "init": fold.initializer}
    names |= {"make": tuple.__new__, "Change": Change}
    text = "\n".join(lines)
    used = tuple((word, thing) for word, thing in names.items() if f"{{{word}}}" in text)
    return FusedStep(text, fold.aggregator, used, counts=fold.new_only and fold.counts)
