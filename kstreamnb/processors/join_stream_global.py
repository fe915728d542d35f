"""A stream enriched by a global table: any key of the record's choice, the whole table in every partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process, TableView
from kstreamnb.core.record import Headers
from kstreamnb.processors.joiner import combiner


@dataclass(frozen=True)
class StreamGlobalJoin:
    """Join each record of a stream with the global table's row of a key chosen from the record.

    Shape: KStream[K, V1], GlobalKTable[K2, V2] -> KStream[K, V]; n -> at most n; key kept; store: the global
        table's;
        repartition: no.
    Late: never; the latest row is taken. A null value is dropped; a null chosen key is dropped by an inner
        join and joined with nothing by a left one.

    Source: Kafka Streams `KStreamGlobalKTableJoin`, KIP-962; differences: none.
    """

    view: TableView
    key_selector: Callable[[Any, Any], Any]
    joiner: Callable[..., Any]
    with_key: bool = False
    left: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        get, drop, left, select = self.view.bind(context), context.drop, self.left, self.key_selector
        combine = combiner(self.joiner, with_key=self.with_key)

        def join(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if value is None:
                drop("null value", key, value, timestamp)
                return
            chosen = select(key, value)
            if chosen is None and not left:
                drop("null key", key, value, timestamp)
                return
            row = None if chosen is None else get(chosen)
            if row is not None and row[0] is not None:
                forward(key, combine(key, value, row[0]), timestamp, headers)
            elif left:
                forward(key, combine(key, value, None), timestamp, headers)

        return join
