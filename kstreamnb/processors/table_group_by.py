"""Regroup a table: each change leaves its old group and enters its new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Change, Headers
from kstreamnb.errors import ProcessingError

_NO_PAIR: tuple[Any, Any] = (None, None)


@dataclass(frozen=True)
class TableGroupBy:
    """Forwards a change as what to subtract from the group it leaves and what to add to the group it enters.

    ``selector(key, value)`` gives the pair ``(group, value)``. When both groups are the same there is one record
    with both values, else the subtraction comes first. A pair without a group or without a value is left out.

    Shape: table[K, V] -> changes[K2, V2]; 1 -> 0..2; key changed; time and headers kept.
    Late: of a ``versioned`` table, a change that is not the latest of its row changes no group. A null key is an error.
    Source: Kafka Streams `KTable#groupBy`, KIP-904, KIP-914.
    """

    selector: Callable[[Any, Any], tuple[Any, Any] | None]
    versioned: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        selector, versioned = self.selector, self.versioned

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if key is None:
                raise ProcessingError(
                    "a row of a grouped table has no key",
                    java="Record key for the grouping KTable should not be null.",
                )
            new, old, is_latest = change
            if versioned and not is_latest:
                return
            to_group, added = _NO_PAIR if new is None else selector(key, new) or _NO_PAIR
            from_group, taken = _NO_PAIR if old is None else selector(key, old) or _NO_PAIR
            adds = to_group is not None and added is not None
            takes = from_group is not None and taken is not None
            if adds and takes and to_group == from_group:
                forward(to_group, Change(added, taken), timestamp, headers)
                return
            if takes:
                forward(from_group, Change(None, taken), timestamp, headers)
            if adds:
                forward(to_group, Change(added), timestamp, headers)

        return process
