"""One side of a windowed join of two streams: inner, left and outer, with records that found no partner.

Records without a partner wait in one store for both sides (`kstreamnb.state` orders it) until no partner can
come any more, so that no result is given that a later partner would contradict (KAFKA-10847).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Headers
from kstreamnb.processors.joiner import Combine, combiner

_NEVER = 2**63 - 1


@dataclass(frozen=True)
class StreamStreamJoin:
    """Join each record with the other side's records around its time; one node for each side.

    Shape: KStream[K, V1], KStream[K, V2] -> KStream[K, V]; n x m -> matches; key kept; store: two window
        stores and, for left and outer, one of pending records; repartition: no.
    Units: ``before_ms, after_ms, grace_ms``: stream time in ms, as declared for the left side. A left record
        at t meets right records in [t - before_ms, t + after_ms]; either bound may be negative.
    Late: a record whose partners have all expired joins nothing; a left or outer one whose window already
        ended is given without a partner at once. A null key or null value is dropped, but a null key of a
        side that is kept without partner is given at once.

    Args:
        is_left: whether this node takes the left stream's records.
        other_store: window store of the other side.
        outer: whether this side's records are given without a partner too.
        pending_store: records that wait for a partner; None for inner joins and for windows of the old kind,
            which give a result without a partner at once.
        tracker: name of the time that both sides share.

    Source: Kafka Streams `KStreamKStreamJoin`, KAFKA-10847, KIP-962; differences: results without a partner
        are never held back by the wall clock.
    """

    is_left: bool
    other_store: str
    before_ms: int
    after_ms: int
    grace_ms: int
    joiner: Callable[..., Any]
    with_key: bool = False
    outer: bool = False
    pending_store: str | None = None
    tracker: str = "join"

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        combine = combiner(self.joiner, with_key=self.with_key, is_left=self.is_left)
        if self.pending_store is None:
            return self._bind_at_once(context, forward, combine)
        return self._bind_pending(context, forward, combine)

    def _reach(self) -> tuple[int, int]:
        """How far this side looks back and ahead."""
        return (self.before_ms, self.after_ms) if self.is_left else (self.after_ms, self.before_ms)

    def _bind_at_once(self, context: BindContext, forward: Forward, combine: Combine) -> Process:
        fetch, drop, outer = context.store(self.other_store).fetch_between, context.drop, self.outer
        back, ahead = self._reach()

        def join(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                if outer and value is not None:
                    forward(None, combine(None, value, None), timestamp, headers)
                else:
                    drop("null key" if key is None else "null value", key, value, timestamp)
                return
            alone = outer
            for at, other in fetch(key, max(0, timestamp - back), max(0, timestamp + ahead)):
                alone = False
                forward(key, combine(key, value, other), at if at > timestamp else timestamp, headers)
            if alone:
                forward(key, combine(key, value, None), timestamp, headers)

        return join

    def _bind_pending(self, context: BindContext, forward: Forward, combine: Combine) -> Process:
        fetch, drop, outer = context.store(self.other_store).fetch_between, context.drop, self.outer
        pending = context.store(str(self.pending_store))
        add, discard = pending.add, pending.discard
        time = context.shared_cell(f"{self.tracker}-time", -1)
        earliest = context.shared_cell(f"{self.tracker}-earliest", _NEVER)
        back, ahead = self._reach()
        give_expired = self._bind_expiry(pending, forward, time, earliest)
        is_left, other_is_left, wait = self.is_left, not self.is_left, ahead + self.grace_ms

        def join(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if timestamp > time[0]:
                time[0] = timestamp
            if key is None or value is None:
                if outer and value is not None:
                    forward(None, combine(None, value, None), timestamp, headers)
                else:
                    drop("null key" if key is None else "null value", key, value, timestamp)
                return
            if timestamp == time[0] and earliest[0] + wait < timestamp:
                give_expired(headers)
            alone, until = outer, max(0, timestamp + ahead)
            for at, other in fetch(key, max(0, timestamp - back), until):
                alone = False
                discard(at, other_is_left, key)
                forward(key, combine(key, value, other), at if at > timestamp else timestamp, headers)
            if not alone:
                return
            if until < time[0]:
                forward(key, combine(key, value, None), timestamp, headers)
            else:
                earliest[0] = min(earliest[0], timestamp)
                add(timestamp, is_left, key, value)

        return join

    def _bind_expiry(
        self, pending: Any, forward: Forward, time: list[int], earliest: list[int]
    ) -> Callable[[Headers], None]:
        """Gives the pending records that no partner can reach any more, by time, right before left."""
        combine = combiner(self.joiner, with_key=self.with_key)
        wait_left, wait_right = self.after_ms + self.grace_ms, self.before_ms + self.grace_ms

        def give_expired(headers: Headers) -> None:
            earliest[0] = _NEVER
            left_open = right_open = False
            for timestamp, is_left, key, values in pending.entries():
                earliest[0] = timestamp
                if left_open and right_open:
                    break
                if timestamp + (wait_left if is_left else wait_right) >= time[0]:
                    left_open, right_open = left_open or is_left, right_open or not is_left
                    # Kafka looks at each value of an entry by itself, so a second one ends the search here.
                    if left_open and right_open and len(values) > 1:
                        break
                    continue
                for value in values:
                    joined = combine(key, value, None) if is_left else combine(key, None, value)
                    forward(key, joined, timestamp, headers)
                pending.discard(timestamp, is_left, key)

        return give_expired
