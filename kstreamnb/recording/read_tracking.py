"""Records which rows of a store are read, so that a result can be traced to the rows that contributed to it.

Only stores that are read by key, scanned or used as buffers are tracked. An aggregate's own rows need no tracking:
their provenance follows from the writes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from kstreamnb.state.rows_by_key import position_of
from kstreamnb.state.store import Rows, Store
from kstreamnb.topology.topology import Topology

R = TypeVar("R")
Note = Callable[[Hashable], None]
_Buffered: TypeAlias = tuple[Any, ...]  # each buffer has its own fields

OWN_ROWS = ("replace", "fold", "fold by time")
"""Uses of rows for which writes tell everything."""


def stores_to_watch(topology: Topology) -> frozenset[str]:
    """Return the names of stores that a node reads other than to fold or replace its own rows."""
    used = {name for node in topology.processors() if node.row_use not in OWN_ROWS for name in node.stores}
    if any(node.row_use == "any" for node in topology.processors()):
        used |= topology.global_stores.keys()
    return frozenset(used | topology.global_stores.keys())


def watch_reads(store: Store, note: Note) -> None:
    """Make a store call ``note(raw_key)`` for every row that is read."""
    encode, kind = store.keys.encode, type(store)
    for name, raw_key in _LOOKUPS.items():
        if hasattr(kind, name) or name in vars(store):
            setattr(store, name, _noting(getattr(store, name), note, encode, raw_key))
    for name in ("_rows", "_starts"):
        if hasattr(kind, name):
            setattr(store, name, _noting_rows(getattr(store, name), note))
    if store.spec.retain_duplicates:
        _note_entries(store, note)
    entries: dict[str, Callable[[_Buffered], Hashable]] = {
        "release": lambda change: encode(change[0]),
        "entries": lambda entry: (entry[0], int(entry[1]), encode(entry[2])),
        "evict": lambda entry: next(
            key for key in store.raw if key is not None and key[:2] == (entry[0], encode(entry[1]))
        ),
    }
    for name, buffered in entries.items():
        if hasattr(kind, name):
            setattr(store, name, _noting_each(getattr(store, name), note, buffered))


_LOOKUPS: dict[str, Callable[..., Hashable]] = {
    "get": lambda encode, key, as_of=None: encode(key),
    "row": lambda encode, key, as_of=None: encode(key),
    "row_at": lambda encode, key, at: (encode(key), at),
    "fetch_session": lambda encode, key, start, end: (encode(key), (end, start)),
}


def _noting(
    look_up: Callable[..., R], note: Note, encode: Callable[[object], Hashable], raw_key_of: Callable[..., Hashable]
) -> Callable[..., R]:
    def looked_up(*args: object, **options: object) -> R:
        note(raw_key_of(encode, *args, **options))
        return look_up(*args, **options)

    return looked_up


def _noting_rows(rows_of: Callable[..., Rows], note: Note) -> Callable[..., Rows]:
    """Note each row of a scan when it is consumed; the last argument holds raw keys, or times of one key."""

    def noted(*args: list[Hashable]) -> Rows:
        *key, positions = args
        raw_keys = [(key[0], position) for position in positions] if key else positions
        return Rows(_one_by_one(raw_keys, rows_of(*args), note))

    return noted


def _note_entries(store: Any, note: Note) -> None:
    """Note each partner of a join when it is consumed."""
    find, encode = store.entries_between, store.keys.encode

    def noted(key: object, from_: int, to: int) -> Rows:
        entries = find(key, from_, to)
        return Rows(_one_by_one([(encode(key), position_of(*entry)) for entry in entries], entries, note))

    store.entries_between = noted


def _one_by_one(raw_keys: Iterable[Hashable], rows: Iterable[R], note: Note) -> Iterator[R]:
    for raw_key, row in zip(raw_keys, rows, strict=True):
        note(raw_key)
        yield row


def _noting_each(
    entries: Callable[..., Iterable[_Buffered]], note: Note, raw_key_of: Callable[[_Buffered], Hashable]
) -> Callable[..., Iterable[_Buffered]]:
    """Note each entry of a buffer when it is yielded."""

    def noted(*due: Any) -> Iterator[_Buffered]:
        for entry in entries(*due):
            note(raw_key_of(entry))
            yield entry

    return noted
