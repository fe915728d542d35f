"""Joins of a stream: in windows with another stream or with itself, and with the rows of a table.

Records without a partner wait in one store for both sides, ordered by `kstreamnb.state`, until no partner can arrive.
So no result is emitted that a later partner would contradict (KAFKA-10847).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from kstreamnb.core.block import Block
from kstreamnb.core.codec import CopiedValue
from kstreamnb.core.operator import BindContext, BlockOperator, Forward, GetRow, Operator, Process, TableView
from kstreamnb.core.record import Headers
from kstreamnb.core.signatures import only_reads
from kstreamnb.core.time import MAX_TIME_MS
from kstreamnb.core.traits import BufferTraits, JoinTraits, KeyValueMapper, OperatorTraits, ValueJoiner
from kstreamnb.operators.store_protocols import PendingStore

Combine: TypeAlias = Callable[[Any, Any, Any], Any]
"""``combine(key, this, other)``: the joined value, whichever side the node is on."""

_NOT_SEARCHED = -MAX_TIME_MS
"""Earliest pending record of a store that was not searched yet."""


def lent_type(joiner: ValueJoiner, with_key: bool) -> type | None:
    """Return the type of the stored values that a joiner gets without a copy, since it only reads them, or None."""
    return CopiedValue if all(only_reads(joiner, at + with_key) for at in (0, 1)) else None


def combiner(joiner: ValueJoiner, *, with_key: bool = False, is_left: bool = True) -> Combine:
    """Make a joiner of ``(left, right)`` or ``(key, left, right)`` one of this and the other side's value."""
    if with_key:
        return joiner if is_left else lambda key, this, other: joiner(key, other, this)
    if is_left:
        return lambda key, this, other: joiner(this, other)
    return lambda key, this, other: joiner(other, this)


@dataclass(frozen=True)
class JoinWindow(BlockOperator):
    """Forward each record to the join, then put it into this side's window store.

    Shape: KStream[K, V] -> KStream[K, V]; 1 -> 1; key kept; store: window with duplicates; repartition: no.
    Late: the store refuses records older than its retention.
    Source: Kafka Streams `KStreamJoinWindow`; differences: none.
    """

    store: str

    @property
    def traits(self) -> OperatorTraits:
        """Keeps one side's records."""
        return OperatorTraits("replace", self.store)

    def bind_block(self, context: BindContext, get_forward: Callable[[], Forward]) -> Block:
        """Return lines that put what the value is after the join, which returns it if a joiner may have changed it."""
        lines = """\
row = {copied}
value = {join}(key, row, timestamp, headers)
if key is not None: {put}(key, row if value is None else value, timestamp)"""
        put = context.store(self.store).put
        return Block(lines, objects={"join": get_forward(), "put": put}, only_reads=True, ends=True)


@dataclass(frozen=True)
class StreamStreamJoin(Operator):
    """Join each record with the other side's records around its time; one node for each side.

    Shape: KStream[K, V1], KStream[K, V2] -> KStream[K, V]; n x m -> matches; key kept; store: two window
        stores and, for left and outer, one of pending records; repartition: no.
    Units: ``before_ms, after_ms, grace_ms``: stream time in ms, as declared for the left side. A left record at t
    matches right records in [t - before_ms, t + after_ms]; either bound may be negative.
    Late: a record whose partners have all expired joins nothing; a left or outer one whose window already ended is
    emitted unmatched at once. A null key or null value is dropped, but a null key on a side that keeps unmatched
    records is emitted at once.

    Args:
        is_left: whether this node takes the left stream's records.
        other_store: window store of the other side.
        outer: whether this side's unmatched records are emitted too.
        pending_store: records that wait for a partner; None for inner joins and for deprecated windows, which emit
        unmatched results at once.
        tracker: name of the stream time that both sides share.

    Source: Kafka Streams `KStreamKStreamJoin`, KAFKA-10847, KIP-962; differences: results without a partner
        are never held back by the wall clock.
    """

    is_left: bool
    other_store: str
    before_ms: int
    after_ms: int
    grace_ms: int
    joiner: ValueJoiner
    with_key: bool = False
    outer: bool = False
    pending_store: str | None = None
    tracker: str = "join"

    @property
    def reach_ms(self) -> tuple[int, int]:
        """How far before and after its own time a record of this side looks for partners."""
        return (self.before_ms, self.after_ms) if self.is_left else (self.after_ms, self.before_ms)

    @property
    def traits(self) -> OperatorTraits:
        """Return the function that joins a record with the other side's; unmatched records may wait."""
        before, after = self.reach_ms
        buffer = None
        if self.pending_store is not None:
            side, clock = self.is_left, f"{self.tracker}-time"
            buffer = BufferTraits("partner", self.pending_store, after, self.grace_ms, is_left=side, clock=clock)
        join = JoinTraits("streams", self.other_store, before, after, keeps_unmatched=self.outer)
        return OperatorTraits("match", join=join, buffer=buffer)

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        combine = combiner(self.joiner, with_key=self.with_key, is_left=self.is_left)
        store, drop, outer = context.store(self.other_store), context.drop, self.outer
        find, own, lent = store.entries_between, store.values.decode, lent_type(self.joiner, self.with_key)
        back, ahead = self.reach_ms
        pending: Any = None if self.pending_store is None else context.store(self.pending_store)
        time, earliest = [MAX_TIME_MS + 1], [MAX_TIME_MS]  # no record has that time, so nothing expires
        if pending is not None:
            time = context.shared_state_var(f"{self.tracker}-time", -1)
            # Not MAX_TIME_MS: a store restored from its changelog may hold records, so the first record searches it.
            earliest = context.shared_state_var(f"{self.tracker}-earliest", _NOT_SEARCHED)
        give_expired = self._bind_expiry(pending, forward, time, earliest)
        is_left, other_is_left, wait = self.is_left, not self.is_left, ahead + self.grace_ms

        def join(key: object, value: Any, timestamp: int, headers: Headers) -> Any:
            if timestamp > time[0]:
                time[0] = timestamp
            if key is None or value is None:
                if outer and value is not None:
                    forward(None, combine(None, own(value), None), timestamp, headers)
                else:
                    drop("null key" if key is None else "null value", key, own(value), timestamp)
                return None
            if timestamp == time[0] and earliest[0] + wait < timestamp:
                give_expired(headers)
            found = find(key, timestamp - back, timestamp + ahead)
            alone = not found
            if alone and not outer:
                return None
            value = value if type(value) is lent else own(value)
            for at, _, row in found:
                if pending is not None:
                    pending.discard(at, other_is_left, key)
                other = row if type(row) is lent else own(row)
                forward(key, combine(key, value, other), at if at > timestamp else timestamp, headers)
            if alone:
                if pending is None or max(0, timestamp + ahead) < time[0]:
                    forward(key, combine(key, value, None), timestamp, headers)
                else:
                    earliest[0] = timestamp if earliest[0] == _NOT_SEARCHED else min(earliest[0], timestamp)
                    pending.add(timestamp, is_left, key, own(value))
            return None if type(value) is CopiedValue else value

        return join

    def _bind_expiry(
        self, pending: PendingStore, forward: Forward, time: list[int], earliest: list[int]
    ) -> Callable[[Headers], None]:
        """Return the function that emits the pending records that can no longer match, by time, right before left."""
        combine = combiner(self.joiner, with_key=self.with_key)
        wait_left, wait_right = self.after_ms + self.grace_ms, self.before_ms + self.grace_ms

        def give_expired(headers: Headers) -> None:
            earliest[0] = MAX_TIME_MS
            left_open = right_open = False
            for timestamp, is_left, key, values in pending.entries():
                earliest[0] = timestamp
                if left_open and right_open:
                    break
                if timestamp + (wait_left if is_left else wait_right) >= time[0]:
                    left_open, right_open = left_open or is_left, right_open or not is_left
                    # Kafka compares each value of an entry separately, so a second one ends the search here.
                    if left_open and right_open and len(values) > 1:
                        break
                    continue
                for value in values:
                    joined = combine(key, value, None) if is_left else combine(key, None, value)
                    forward(key, joined, timestamp, headers)
                pending.discard(timestamp, is_left, key)

        return give_expired


@dataclass(frozen=True)
class StreamSelfJoin(Operator):
    """Join each record with earlier records of the same stream, in both orders, and with itself.

    Shape: KStream[K, V] -> KStream[K, VR]; n -> matches; key kept; store: one window store; repartition: no.
    Units: ``before_ms, after_ms, grace_ms``: stream time in ms; retention is their sum.
    Late: the pair of a record with itself is omitted once the record is older than the retention.

    Source: Kafka Streams `KStreamKStreamSelfJoin`; differences: none (a left join becomes an inner one, as
        there).
    """

    store: str
    before_ms: int
    after_ms: int
    grace_ms: int
    joiner: ValueJoiner
    with_key: bool = False

    traits = OperatorTraits("match")

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        store, drop = context.store(self.store), context.drop
        find, own, lent = store.entries_between, store.values.decode, lent_type(self.joiner, self.with_key)
        combine = combiner(self.joiner, with_key=self.with_key)
        before, after = self.before_ms, self.after_ms
        retention = before + after + self.grace_ms
        time = context.state_var("time", -1)

        def join(key: object, value: Any, timestamp: int, headers: Headers) -> Any:
            if key is None or value is None:
                drop("null key" if key is None else "null value", key, own(value), timestamp)
                return None
            value = value if type(value) is lent else own(value)
            if timestamp > time[0]:
                time[0] = timestamp
            for at, _, row in find(key, timestamp - before, timestamp + after):
                forward(key, combine(key, value, row if type(row) is lent else own(row)), max(at, timestamp), headers)
            with_itself = timestamp > time[0] - retention + 1
            for at, _, row in find(key, timestamp - after, timestamp + before):
                if at > timestamp and with_itself:
                    with_itself = False
                    forward(key, combine(key, value, value), timestamp, headers)
                forward(key, combine(key, row if type(row) is lent else own(row), value), max(at, timestamp), headers)
            if with_itself:
                forward(key, combine(key, value, value), timestamp, headers)
            return None if type(value) is CopiedValue else value

        return join


@dataclass(frozen=True)
class StreamTableJoin(Operator):
    """Join each record of a stream with the table's row of its key, or of a key chosen from the record.

    Shape: KStream[K, V1], KTable[K, V2] or GlobalKTable[K2, V2] -> KStream[K, V]; n -> at most n; key kept; store:
        the table's, and a buffer with grace; repartition: no.
    Units: ``grace_ms``: stream time in ms; a record waits that long before it looks up a versioned table as of its
    time.
    Late: with grace, a record older than stream time - grace looks up at once. A null value is dropped; a null
        key, or chosen key, is dropped by an inner join and joined with nothing by a left one, which with grace raises
        ProcessingError. If the joiner raises, the record stays in the buffer and is joined again.

    Args:
        key_selector: ``(key, value)`` to the key of a global table, called for null values, too; None for the
            record's own key.

    Source: Kafka Streams `KStreamKTableJoin`, `KStreamGlobalKTableJoin`, KIP-914, KIP-923, KIP-962.
    """

    view: TableView
    joiner: ValueJoiner
    with_key: bool = False
    left: bool = False
    grace_ms: int | None = None
    buffer_store: str | None = None
    key_selector: KeyValueMapper | None = None

    @property
    def traits(self) -> OperatorTraits:
        """Return the function that joins a record with a row; with grace it waits for it."""
        store, wait = self.buffer_store, self.grace_ms or 0
        join = JoinTraits("lookup", self.view.stores[-1], keeps_unmatched=self.left, key_selector=self.key_selector)
        buffer = None if store is None else BufferTraits("row", store, wait)
        return OperatorTraits("match", join=join, buffer=buffer, reads_global=True)

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        get, drop, left, select = self.view.bind(context), context.drop, self.left, self.key_selector
        lookup: GetRow = get if self.view.versioned else lambda key, timestamp: get(key)
        combine = combiner(self.joiner, with_key=self.with_key)

        def join(key: object, value: object, timestamp: int, headers: Headers) -> None:
            chosen = key if select is None else select(key, value)
            if value is None:
                drop("null value", key, value, timestamp)
                return
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
        put, evict, metadata, resume, left = buffer.put, buffer.evict, context.metadata, context.resume, self.left

        def wait(key: object, value: object, timestamp: int, headers: Headers) -> None:
            waits = value is not None and (left or key is not None)
            if not (waits and put(timestamp, key, value, headers, metadata())):
                join(key, value, timestamp, headers)
                return
            for at, kept_key, kept_value, kept_headers, kept_metadata in evict():
                current = resume(kept_metadata)
                try:
                    join(kept_key, kept_value, at, kept_headers)
                finally:
                    resume(current)

        return wait
