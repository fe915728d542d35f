"""Records which rows of a store are read, so that a result can be traced to the rows that contributed to it.

Only stores that are read by key, scanned or used as buffers are tracked. An aggregate's own rows need no tracking:
their provenance follows from the writes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from kstreamnb.core.time import instant_ms
from kstreamnb.state.rows_by_key import position_of
from kstreamnb.state.store import Rows, Store
from kstreamnb.topology.topology import Topology

R = TypeVar("R")
Note = Callable[[Hashable], None]

OWN_ROWS = ("replace", "fold", "fold by time")
"""Uses of rows for which writes tell everything."""


def stores_to_watch(topology: Topology) -> frozenset[str]:
    """Return the names of stores that a node reads other than to fold or replace its own rows."""
    used = {name for node in topology.processors() if node.row_use not in OWN_ROWS for name in node.stores}
    return frozenset(used | topology.global_stores.keys())


def watch_reads(store: Store, note: Note) -> None:
    """Make a store call ``note(raw_key)`` for every row that is read; of a version ``note((wire key, its time))``."""
    encode = store.keys.encode
    lookups = _VERSION_LOOKUPS if store.spec.kind == "versioned" else _LOOKUPS
    for name, raw_key in lookups.items():
        if hasattr(store, name):
            setattr(store, name, _noting(getattr(store, name), note, encode, raw_key))
    for name in ("_rows", "_starts"):
        if hasattr(store, name):
            setattr(store, name, _noting_rows(getattr(store, name), note))
    entries: dict[str, Callable[..., Hashable]] = {
        "entries_between": lambda entry, key, *_: (encode(key), position_of(*entry)),
        "history": lambda version, key, *_, **__: (encode(key), version.timestamp),
        "release": lambda change, *_: encode(change[0]),
        "entries": lambda entry: (entry[0], int(entry[1]), encode(entry[2])),
        "evict": lambda entry: next(
            key for key in store.raw if key is not None and key[:2] == (entry[0], encode(entry[1]))
        ),
    }
    for name, raw_key in entries.items():
        if hasattr(store, name):
            setattr(store, name, _noting_each(getattr(store, name), note, raw_key))


_VERSION_LOOKUPS: dict[str, Callable[..., Hashable]] = {  # `get` calls `row`
    "row": lambda row, encode, key, *_: (encode(key), row and row[1])
}
_LOOKUPS: dict[str, Callable[..., Hashable]] = {
    "get": lambda row, encode, key: encode(key),
    "row_at": lambda row, encode, key, at: (encode(key), at),
    "fetch_session": lambda row, encode, key, start, end: (encode(key), (instant_ms(end), instant_ms(start))),
}


def _noting(
    look_up: Callable[..., R], note: Note, encode: Callable[[object], Hashable], raw_key_of: Callable[..., Hashable]
) -> Callable[..., R]:
    def looked_up(*args: object, **options: object) -> R:
        row = look_up(*args, **options)
        note(raw_key_of(row, encode, *args, **options))
        return row

    return looked_up


def _noting_rows(rows_of: Callable[..., Rows], note: Note) -> Callable[..., Rows]:
    """Note each row of a scan when it is consumed; the last argument holds raw keys, or times of one key."""

    def noted(*args: list[Hashable]) -> Rows:
        *key, positions = args
        raw_keys = [(key[0], position) for position in positions] if key else positions
        return Rows(_one_by_one(raw_keys, rows_of(*args), note))

    return noted


def _noting_each(
    entries: Callable[..., Iterable[R]], note: Note, raw_key_of: Callable[..., Hashable]
) -> Callable[..., Rows]:
    """Note each partner of a join, or each entry of a buffer, when it is consumed."""

    def noted(*args: object, **options: object) -> Iterator[R]:
        for entry in entries(*args, **options):
            note(raw_key_of(entry, *args, **options))
            yield entry

    return lambda *args, **options: Rows(noted(*args, **options))


def _one_by_one(raw_keys: Iterable[Hashable], rows: Iterable[R], note: Note) -> Iterator[R]:
    for raw_key, row in zip(raw_keys, rows, strict=True):
        note(raw_key)
        yield row
