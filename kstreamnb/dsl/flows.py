"""The values behind handles while a graph is built: a node of the graph, with the properties that later operators need.

``sources`` are the names of the source nodes of the same sub-topology, which a join must co-partition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self, TypeAlias

from kstreamnb.core.serde import Serde
from kstreamnb.core.traits import AggregationWindows
from kstreamnb.logical.nodes import Operation, Repartition
from kstreamnb.operators.table_joins import How

UserFunction: TypeAlias = Callable[..., object]
"""A function of the user whose signature was checked where it was passed."""


@dataclass(eq=False)
class KeyedFlow:
    """The common part of streams and tables."""

    node: int
    name: str
    key_serde: Serde | None
    value_serde: Serde | None
    sources: tuple[str, ...]


@dataclass(eq=False)
class StreamFlow(KeyedFlow):
    """A stream; if it is ``rekeyed``, its records may be in the wrong partition.

    ``repartitioned`` is the repartition that a join added below it, which the next join uses as well.
    """

    rekeyed: bool = False
    repartitioned: Repartition | None = None

    def then(self, node: Operation, *, keeps_key: bool = True, keeps_value: bool = True) -> Self:
        """Return the stream after one more node; serdes hold only for what it keeps."""
        serdes = (self.key_serde if keeps_key else None, self.value_serde if keeps_value else None)
        return type(self)(node.id, node.name, *serdes, self.sources, self.rekeyed or not keeps_key)


@dataclass(eq=False)
class TableFlow(KeyedFlow):
    """A table; ``store_name`` is the name under which it can be queried."""

    store_name: str | None = None


@dataclass(eq=False)
class GlobalFlow:
    """A global table; ``store_name`` is the name under which it can be queried."""

    node: int
    store: str
    store_name: str | None


@dataclass(eq=False, kw_only=True)
class Windowing:
    """The windows of grouped records, if any, and the repartitions that were added below them so far.

    A repartition of the grouped records themselves has the key None, one of a cogrouped stream that stream.
    """

    windows: AggregationWindows | None = None
    emit_on_close: bool = False
    repartitioned: dict[GroupFlow | None, Repartition] = field(default_factory=dict)


@dataclass(eq=False)
class GroupFlow(KeyedFlow, Windowing):
    """A grouped stream or table."""

    rekeyed: bool = False
    topic_name: str | None = None


@dataclass(eq=False)
class CogroupFlow(Windowing):
    """Grouped streams, each with its aggregator."""

    groups: dict[GroupFlow, UserFunction] = field(default_factory=dict)


class JoinSpec(NamedTuple):
    """How a join treats unmatched records ("inner", "left" or "outer"), and its joiner."""

    how: How
    joiner: UserFunction
    with_key: bool = False

    @property
    def is_left(self) -> bool:
        """Whether records of the left side without a partner are kept."""
        return self.how != "inner"


class FoldSpec(NamedTuple):
    """The functions of an aggregation; without an initializer, the first value of a key is its aggregate.

    ``third`` is a session's merger or the subtractor of a re-grouped table. ``value_serde`` is the serde of the
    results, if their type is known.
    """

    initializer: UserFunction | None
    aggregator: UserFunction
    third: UserFunction | None = None
    value_serde: Serde | None = None

    def kind(self, grouped: GroupFlow) -> tuple[Literal["REDUCE", "AGGREGATE"], Serde | None]:
        """Return Java's word for a fold, and the serde of its result: without an initializer, that of the values."""
        return ("REDUCE", grouped.value_serde) if self.initializer is None else ("AGGREGATE", self.value_serde)
