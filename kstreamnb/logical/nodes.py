"""The frozen nodes of a logical graph: declarations, before they are lowered to a topology.

A node names its parents by id. Its effect on records is an operator; whether that changes keys or values is a property
of the operator's type. `kstreamnb.logical.lowering` knows what a node becomes; no node does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kstreamnb.core.codec import StreamPartitioner
from kstreamnb.core.extractors import TimestampExtractor
from kstreamnb.core.operator import Operator, TableView
from kstreamnb.core.serde import Serde
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.traits import NO_TRAITS, OperatorTraits
from kstreamnb.source_location import SourceLocation
from kstreamnb.topology.nodes import TopicName


@dataclass(frozen=True, kw_only=True)
class LogicalNode:
    """One node: ``priority`` determines the order of lowering, ``word`` is the DSL method that created it.

    ``uses`` are the ids of nodes that it needs besides its parents.
    """

    id: int = -1
    name: str
    parents: tuple[int, ...] = ()
    uses: tuple[int, ...] = ()
    priority: int = -1
    word: str = ""
    origin: SourceLocation | None = field(default=None, compare=False, repr=False)

    @property
    def traits(self) -> OperatorTraits:
        """The traits of the node's operator, if it has one."""
        return NO_TRAITS

    def __str__(self) -> str:
        return f"{self.name} ({self.origin.place}, line {self.origin.line})" if self.origin else self.name


@dataclass(frozen=True, kw_only=True)
class Carrier(LogicalNode):
    """A node at a topic."""

    key_serde: Serde | None = None
    value_serde: Serde | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Both serdes and the user's line, by name."""
        return {"key_serde": self.key_serde, "value_serde": self.value_serde, "origin": self.origin}


@dataclass(frozen=True, kw_only=True)
class StreamSource(Carrier):
    """Reads topics, or every topic that matches ``pattern``; streams that read the same ones are ``mergeable``."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: str | None = None
    mergeable: bool = True


@dataclass(frozen=True, kw_only=True)
class GlobalTable(Carrier):
    """Reads a topic into a global store, by a built-in operator or the user's."""

    source_name: str
    topic: str
    store: StoreSpec
    operator: Operator
    timestamp_extractor: TimestampExtractor | None = None


@dataclass(frozen=True, kw_only=True)
class StateStore(LogicalNode):
    """A store that processors use by name."""

    store: StoreSpec


@dataclass(frozen=True, kw_only=True)
class StreamSink(Carrier):
    """Writes to a topic, or to the one that ``topic(key, value, metadata)`` names."""

    topic: TopicName
    partitioner: StreamPartitioner | None = None


@dataclass(frozen=True, kw_only=True)
class Repartition(Carrier):
    """Writes to an internal topic and reads it back; its name is that of the source reading the topic.

    ``filter_name`` is the processor before a stream's topic. ``mergeable``: the optimizer may replace it.
    ``keep_null_keys``: a join downstream needs them.
    """

    topic: str
    sink_name: str
    filter_name: str | None = None
    partitioner: StreamPartitioner | None = None
    partitions: int | None = None
    mergeable: bool = False
    keep_null_keys: bool = True


@dataclass(frozen=True, kw_only=True)
class Operation(LogicalNode):
    """One operator; ``stores`` are those that it uses by name, ``own`` those created for it."""

    operator: Operator
    stores: tuple[str, ...] = ()
    own: tuple[StoreSpec, ...] = ()

    @property
    def traits(self) -> OperatorTraits:
        """The traits of the operator."""
        return self.operator.traits


@dataclass(frozen=True, kw_only=True)
class Merge(Operation):
    """Brings two streams together."""


@dataclass(frozen=True, kw_only=True)
class Table(Operation):
    """A node whose output is a table, and how its rows can be looked up (``view``).

    ``store`` holds the rows, if any does. A ``lazy`` table, built from records of a topic, is materialized only if
    needed (``materialized``); ``topic`` is where its records come from, ``reuse_topic``: that topic is its changelog as
    well. ``computed_from`` are tables that must be materialized, or forward old values, so that this one is or does.
    ``versioned`` is None if a table inherits versions from upstream. ``grace_ms``: its rows are windows, which close
    that long after their end.
    """

    view: TableView
    store: StoreSpec | None = None
    lazy: bool = False
    materialized: bool = False
    send_old: bool = False
    computed_from: tuple[int, ...] = ()
    versioned: bool | None = None
    grace_ms: int | None = None
    topic: str | None = None
    reuse_topic: bool = False


@dataclass(frozen=True, kw_only=True)
class TableJoin(Table):
    """Joins two tables by key: an operator for each side and one that merges their results.

    A side is its processor's name, the table that it follows, its operator and the stores that it looks up.
    """

    sides: tuple[tuple[str, int, Operator, tuple[str, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class WindowedStream(Operation):
    """Keeps one side's records of a stream-stream join for as long as they may find partners."""

    store: StoreSpec


@dataclass(frozen=True, kw_only=True)
class StreamJoin(Operation):
    """Joins two streams, whose windows are in ``uses``: an operator for each side and one that merges their results.

    After the rewrite of a self-join there is one window, and ``alone`` does all the work. ``own`` is the store of
    pending records, if there is one.
    """

    this: tuple[str, Operator]
    other: tuple[str, Operator]
    alone: Operator
