"""Looking up a row of a table–table join without a store of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, TableView
from kstreamnb.processors.join_table_table import How
from kstreamnb.topology.java_order import hash_order


@dataclass(frozen=True)
class JoinView:
    """The joined row of a key, computed from both tables when it is asked for; never versioned.

    Source: Kafka Streams `KTableKTableJoin*ValueGetter`; differences: none.
    """

    how: How
    left: TableView
    right: TableView
    joiner: Callable[[Any, Any], Any]

    @property
    def stores(self) -> tuple[str, ...]:
        """Stores of both sides, each once, in the order of the hash set in which Kafka Streams collects them."""
        both = (*self.left.stores, *self.right.stores)
        return tuple(hash_order(both, capacity=len(both)))

    @property
    def versioned(self) -> bool:
        """A joined table has no history."""
        return False

    def bind(self, context: BindContext) -> Callable[[Any], tuple[Any, int] | None]:
        """``get(key)`` gives the joined value and the later of both times."""
        get_left, get_right, joiner = self.left.bind(context), self.right.bind(context), self.joiner
        needs_left, needs_right = self.how != "outer", self.how == "inner"

        def get(key: Any) -> tuple[Any, int] | None:
            left = get_left(key) or _NO_ROW
            if left[0] is None and needs_left:
                return None
            right = get_right(key) or _NO_ROW
            if right[0] is None and (needs_right or left[0] is None):
                return None
            joined = joiner(left[0], right[0])
            return None if joined is None else (joined, max(left[1], right[1]))

        return get

    def bind_as_of(self, context: BindContext) -> Callable[[Any, int], tuple[Any, int] | None]:
        """A joined table has no history: raises TypeError."""
        raise TypeError("a joined table cannot be asked as of a time")


_NO_ROW = (None, -1)
