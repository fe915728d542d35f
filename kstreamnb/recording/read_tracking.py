"""Records which rows of a store are read, so that a result can be traced to the rows that contributed to it.

Only stores that are read by key, scanned or used as buffers are tracked. An aggregate's own rows need no tracking:
their provenance follows from the writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kstreamnb.state import Rows
from kstreamnb.topology.nodes import ProcessorNode
from kstreamnb.topology.topology import Topology

__all__ = ["OWN_ROWS", "stores_to_watch", "watch_reads"]

Note = Callable[[Any], None]

OWN_ROWS = ("replace", "fold", "fold by time")
"""Uses of rows for which writes tell everything."""


def stores_to_watch(topology: Topology) -> frozenset[str]:
    """Return the names of stores that a node reads other than to fold or replace its own rows."""
    nodes = [node for node in topology.nodes.values() if isinstance(node, ProcessorNode)]
    used = {name for node in nodes if node.row_use not in OWN_ROWS for name in node.stores}
    if any(node.row_use == "any" for node in nodes):
        used |= topology.global_stores.keys()
    return frozenset(used | topology.global_stores.keys())


def watch_reads(store: Any, note: Note) -> None:
    """Make a store call ``note(raw_key)`` for every row that is read."""
    encode, kind = store.keys.encode, type(store)
    for name, raw_key in _LOOKUPS.items():
        if hasattr(kind, name) or name in vars(store):
            setattr(store, name, _noting(getattr(store, name), note, encode, raw_key))
    for name in ("_rows", "_starts"):
        if hasattr(kind, name):
            setattr(store, name, _noting_rows(getattr(store, name), note))
    for name, watch in (("first", _first), ("entries", _entries), ("evict", _evict)):
        if hasattr(kind, name):
            setattr(store, name, watch(store, getattr(store, name), note))


_LOOKUPS: dict[str, Callable[..., Any]] = {
    "get": lambda encode, key, as_of=None: encode(key),
    "row": lambda encode, key, as_of=None: encode(key),
    "row_at": lambda encode, key, at: (encode(key), at),
    "fetch_session": lambda encode, key, start, end: (encode(key), (end, start)),
}


def _noting(look_up: Callable[..., Any], note: Note, encode: Any, raw_key_of: Callable[..., Any]) -> Callable[..., Any]:
    def looked_up(*args: Any, **options: Any) -> Any:
        note(raw_key_of(encode, *args, **options))
        return look_up(*args, **options)

    return looked_up


def _noting_rows(rows_of: Callable[..., Rows], note: Note) -> Callable[..., Rows]:
    """Note each row of a scan when it is consumed; the last argument holds raw keys, or times of one key."""

    def noted(*args: Any) -> Rows:
        *key, positions = args
        return Rows(
            _one_by_one([(key[0], position) for position in positions] if key else positions, rows_of(*args), note)
        )

    return noted


def _one_by_one(raw_keys: Any, rows: Any, note: Note) -> Iterator[Any]:
    for raw_key, row in zip(raw_keys, rows, strict=True):
        note(raw_key)
        yield row


def _first(store: Any, first: Callable[[], Any], note: Note) -> Callable[[], Any]:
    def noted() -> Any:
        result = first()
        note(store.keys.encode(result[0]))
        return result

    return noted


def _entries(store: Any, entries: Callable[[], Any], note: Note) -> Callable[[], Any]:
    def noted() -> Iterator[Any]:
        for entry in entries():
            note((entry[0], int(entry[1]), store.keys.encode(entry[2])))
            yield entry

    return noted


def _evict(store: Any, evict: Callable[[], Any], note: Note) -> Callable[[], Any]:
    def noted() -> Iterator[Any]:
        buffered = list(store.raw)
        for entry in evict():
            raw_key = next(
                key for key in buffered if key is not None and key[:2] == (entry[0], store.keys.encode(entry[1]))
            )
            buffered.remove(raw_key)
            note(raw_key)
            yield entry

    return noted
