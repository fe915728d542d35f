"""What handles stand for while a graph is built: a node of the draft, with what later operators need to know of it.

``sources`` are the names of the source nodes of the same sub-topology: what a join must co-partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from kstreamnb.logical.nodes import Operation, Repartition
from kstreamnb.operators.table_joins import How

Names: TypeAlias = tuple[str, ...]


@dataclass(eq=False)
class KeyedFlow:
    """What streams and tables have in common."""

    node: int
    name: str
    key_serde: Any
    value_serde: Any
    sources: Names


@dataclass(eq=False)
class StreamFlow(KeyedFlow):
    """A stream; ``rekeyed``: its keys may be in the wrong partition.

    ``repartitioned`` is the node that a join put behind it, for the next join.
    """

    rekeyed: bool = False
    repartitioned: Repartition | None = None

    def then(self, node: Operation, **changes: Any) -> StreamFlow:
        """The stream behind one more node."""
        return replace(self, node=node.id, name=node.name, repartitioned=None, **changes)


@dataclass(eq=False)
class TableFlow(KeyedFlow):
    """A table; ``store_name`` is the name under which it can be queried."""

    store_name: str | None = None


@dataclass(eq=False)
class GlobalFlow:
    """A global table."""

    node: int
    store: str
    store_name: str | None


@dataclass(eq=False, kw_only=True)
class Windowing:
    """Whether what is grouped is windowed, too, and what repartitions were put behind it so far."""

    windows: Any = None
    emit_on_close: bool = False
    repartitioned: dict[Any, Any] = field(default_factory=dict)


@dataclass(eq=False)
class GroupFlow(KeyedFlow, Windowing):
    """A grouped stream or table."""

    rekeyed: bool = False
    topic_name: str | None = None


@dataclass(eq=False)
class CogroupFlow(Windowing):
    """Grouped streams with an aggregator each."""

    groups: dict[GroupFlow, Any] = field(default_factory=dict)


class Joining(NamedTuple):
    """What a join does: "inner", "left" or "outer", and the function that makes a value of two."""

    how: How
    joiner: Any
    with_key: bool = False

    @property
    def is_left(self) -> bool:
        """Whether what finds no partner stays."""
        return self.how != "inner"
