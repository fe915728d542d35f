"""Where the results of both sides of a table–table join meet and become one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Change, Headers
from kstreamnb.processors.rows import bind_update


@dataclass(frozen=True)
class TableJoinMerge:
    """Bring both sides' changes together, kept in a store where the join is materialised.

    Shape: KTable[K, V] -> KTable[K, V]; 1 -> 1; key kept; store: the joined table's, if any; repartition: no.
    Late: a versioned store refuses what is older than its history; nothing is forwarded then.

    Source: Kafka Streams `KTableKTableJoinMerger`; differences: none.
    """

    store: str | None = None
    send_old: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        if self.store is not None:
            update = bind_update(context, self.store, forward, send_old=self.send_old)

            def keep(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
                update(key, change[0], change[1], timestamp, headers)

            return keep
        if self.send_old:
            return forward

        def merge(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            forward(key, Change(change[0]), timestamp, headers)

        return merge
