"""Two tables joined by their keys: one node for each side, and the node where both sides' results meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from kstreamnb.core.operator import BindContext, Forward, Process, TableView
from kstreamnb.core.record import Change, Headers
from kstreamnb.processors.joiner import combiner

How: TypeAlias = Literal["inner", "left", "outer"]


@dataclass(frozen=True)
class TableTableJoin:
    """Join each change of one table with the other table's row of the same key.

    Shape: KTable[K, V1], KTable[K, V2] -> KTable[K, V]; a change -> at most one change; key kept; store: the
        other table's; repartition: no.
    Late: a change that is not its key's latest in a versioned table is dropped. A null key is dropped.

    Args:
        is_left: whether this node takes the left table's changes.
        how: "inner", "left" or "outer", of the whole join.
        other: the other table.
        send_old: whether old results go along.
        versioned: whether this side's table is versioned.

    Source: Kafka Streams `KTableKTableInnerJoin`, `…LeftJoin`, `…RightJoin`, `…OuterJoin`, KIP-914;
        differences: none.
    """

    is_left: bool
    how: How
    other: TableView
    joiner: Callable[[Any, Any], Any]
    send_old: bool = False
    versioned: bool = False

    @property
    def keeps_this(self) -> bool:
        """Whether this side's rows stay in the result without a partner."""
        return self.how == "outer" or (self.how == "left" and self.is_left)

    @property
    def keeps_other(self) -> bool:
        """Whether the other side's rows stay in the result without a partner."""
        return self.how == "outer" or (self.how == "left" and not self.is_left)

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        get, drop, versioned, send_old = self.other.bind(context), context.drop, self.versioned, self.send_old
        keeps_this, keeps_other = self.keeps_this, self.keeps_other
        combine = combiner(self.joiner, is_left=self.is_left)

        def join(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            new, old, is_latest = change
            if key is None or (versioned and not is_latest):
                drop("null key" if key is None else "out of order", key, new, timestamp)
                return
            row = get(key)
            other = None if row is None else row[0]
            if row is None or other is None:
                if not keeps_this or (new is None and old is None):
                    return
            elif row[1] > timestamp:
                timestamp = row[1]
            # A row is in the result when its own side has it, or when the other side has it and is kept
            # alone.
            kept_alone = keeps_other and other is not None
            joined_new = combine(key, new, other) if new is not None or kept_alone else None
            joined_old = combine(key, old, other) if send_old and (old is not None or kept_alone) else None
            forward(key, Change(joined_new, joined_old, is_latest), timestamp, headers)

        return join
