"""A stream enriched by a table: the stream's records ask, the table's updates are silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process, TableView
from kstreamnb.core.record import Headers
from kstreamnb.processors.joiner import combiner


@dataclass(frozen=True)
class StreamTableJoin:
    """Join each record of a stream with the table's row of its key, or of a key chosen from the record.

    Shape: KStream[K, V1], KTable[K, V2] or GlobalKTable[K2, V2] -> KStream[K, V]; n -> at most n; key kept; store:
        the table's, and a buffer with grace; repartition: no.
    Units: ``grace_ms``: stream time in ms; a record waits that long before it asks a versioned table as of
        its time.
    Late: with grace, a record older than stream time - grace asks at once. A null value is dropped; a null
        key, or chosen key, is dropped by an inner join and joined with nothing by a left one.

    Args:
        key_selector: ``(key, value)`` to the key of a global table; None for the record's own key.

    Source: Kafka Streams `KStreamKTableJoin`, `KStreamGlobalKTableJoin`, KIP-914, KIP-923, KIP-962; differences:
        with grace, a left join gives records of null key at once instead of failing.
    """

    view: TableView
    joiner: Callable[..., Any]
    with_key: bool = False
    left: bool = False
    grace_ms: int | None = None
    buffer_store: str | None = None
    key_selector: Callable[[Any, Any], Any] | None = None

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        lookup, drop, left, select = _bind_lookup(self.view, context), context.drop, self.left, self.key_selector
        combine = combiner(self.joiner, with_key=self.with_key)

        def join(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if value is None:
                drop("null value", key, value, timestamp)
                return
            chosen = key if select is None else select(key, value)
            row = None if chosen is None else lookup(chosen, timestamp)
            if row is not None and row[0] is not None:
                forward(key, combine(key, value, row[0]), timestamp, headers)
            elif left:
                forward(key, combine(key, value, None), timestamp, headers)
            elif chosen is None:
                drop("null key", key, value, timestamp)

        return join if self.buffer_store is None else self._bind_buffer(context, join)

    def _bind_buffer(self, context: BindContext, join: Process) -> Process:
        buffer = context.store(str(self.buffer_store))
        put, evict, metadata, resume = buffer.put, buffer.evict, context.metadata, context.resume

        def wait(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None or not put(timestamp, key, value, headers, metadata()):
                join(key, value, timestamp, headers)
            for at, kept_key, kept_value, kept_headers, kept_metadata in evict():
                current = resume(kept_metadata)
                join(kept_key, kept_value, at, kept_headers)
                resume(current)

        return wait


def _bind_lookup(view: TableView, context: BindContext) -> Callable[[Any, int], tuple[Any, int] | None]:
    """``lookup(key, timestamp)``: as of the time where the table has a history, else the latest row."""
    if view.versioned:
        return view.bind_as_of(context)
    get = view.bind(context)
    return lambda key, timestamp: get(key)
