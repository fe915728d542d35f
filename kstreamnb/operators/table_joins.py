"""Two tables joined by key: one node for each side, the node that merges both results, and the view of the join."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from kstreamnb.core.operator import BindContext, Forward, GetRow, Operator, Process, TableView
from kstreamnb.core.record import Change, Headers
from kstreamnb.core.traits import JoinTraits, OperatorTraits, ValueJoiner
from kstreamnb.operators.stream_joins import combiner
from kstreamnb.operators.tables import NO_ROW, KeepsRows, bind_update
from kstreamnb.topology.java_order import hash_order

How: TypeAlias = Literal["inner", "left", "outer"]


@dataclass(frozen=True)
class TableTableJoin(Operator):
    """Join each change of one table with the other table's row of the same key.

    Shape: KTable[K, V1], KTable[K, V2] -> KTable[K, V]; a change -> at most one change; key kept; store: the
        other table's; repartition: no.
    Late: a change that is not its key's latest in a versioned table is dropped. A null key is dropped.

    Args:
        is_left: whether this node takes the left table's changes.
        how: "inner", "left" or "outer", of the whole join.
        other: the other table.
        send_old: whether old results are forwarded, too.
        versioned: whether this side's table is versioned.

    Source: Kafka Streams `KTableKTableInnerJoin`, `…LeftJoin`, `…RightJoin`, `…OuterJoin`, KIP-914;
        differences: none.
    """

    is_left: bool
    how: How
    other: TableView
    joiner: ValueJoiner
    send_old: bool = False
    versioned: bool = False

    @property
    def traits(self) -> OperatorTraits:
        """Joins a row with the other table's."""
        join = JoinTraits("tables", self.other.stores[-1], keeps_unmatched=self.keeps_this)
        return OperatorTraits("match", join=join, sends_old=True)

    @property
    def keeps_this(self) -> bool:
        """Whether this side's unmatched rows stay in the result."""
        return self.how == "outer" or (self.how == "left" and self.is_left)

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        get, drop, versioned, send_old = self.other.bind(context), context.drop, self.versioned, self.send_old
        keeps_this, keeps_other = self.keeps_this, self.how == "outer" or (self.how == "left" and not self.is_left)
        combine = combiner(self.joiner, is_left=self.is_left)

        def join(key: object, change: Change, timestamp: int, headers: Headers) -> None:
            new, old, is_latest = change
            if key is None or (versioned and not is_latest):
                drop("null key" if key is None else "out of order", key, new, timestamp)
                return
            other, row_time = get(key) or NO_ROW
            if other is None:
                if not keeps_this or (new is None and old is None):
                    return
            elif row_time > timestamp:
                timestamp = row_time
            # A row is in the result if its own side has it, or if the other side has it and keeps unmatched rows
            # alone.
            kept_alone = keeps_other and other is not None
            joined_new = combine(key, new, other) if new is not None or kept_alone else None
            joined_old = combine(key, old, other) if send_old and (old is not None or kept_alone) else None
            forward(key, Change(joined_new, joined_old, is_latest), timestamp, headers)

        return join


@dataclass(frozen=True)
class TableJoinMerge(KeepsRows, Operator):
    """Merge both sides' changes, in a store if the join is materialized.

    Shape: KTable[K, V] -> KTable[K, V]; 1 -> 1; key kept; store: the joined table's, if any; repartition: no.
    Late: a versioned store refuses changes older than its history; nothing is forwarded then.

    Source: Kafka Streams `KTableKTableJoinMerger`; differences: none.
    """

    store: str | None = None
    send_old: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        update = bind_update(context, self.store, forward, send_old=self.send_old)
        return lambda key, change, timestamp, headers: update(key, change[0], change[1], timestamp, headers)


@dataclass(frozen=True)
class JoinView:
    """The joined row of a key, computed from both tables on lookup; never versioned.

    Source: Kafka Streams `KTableKTableJoin*ValueGetter`; differences: none.
    """

    how: How
    left: TableView
    right: TableView
    joiner: ValueJoiner

    versioned = False

    @property
    def stores(self) -> tuple[str, ...]:
        """Stores of both sides, each once, in the order of the hash set in which Kafka Streams collects them."""
        both = (*self.left.stores, *self.right.stores)
        return tuple(hash_order(both, capacity=len(both)))

    def bind(self, context: BindContext) -> GetRow:
        """Return ``get(key)``, which returns the joined value and the later of both times."""
        get_left, get_right, joiner = self.left.bind(context), self.right.bind(context), self.joiner
        needs_left, needs_right = self.how != "outer", self.how == "inner"

        def get(key: object) -> tuple[object, int] | None:
            left = get_left(key) or NO_ROW
            if left[0] is None and needs_left:
                return None
            right = get_right(key) or NO_ROW
            if right[0] is None and (needs_right or left[0] is None):
                return None
            joined = joiner(left[0], right[0])
            return None if joined is None else (joined, max(left[1], right[1]))

        return get
