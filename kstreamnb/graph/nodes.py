"""The frozen nodes of a logical graph: what was declared, before anything is known about topologies.

A node names its parents by id. Whether it changes keys or values is a property of its type. What a node becomes is
said in `kstreamnb.graph.lower`, how it is shown in `kstreamnb.graph.label`; no node knows either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kstreamnb.core.origin import Origin
from kstreamnb.core.stores import StoreSpec

__all__ = [
    "Branch", "Filter", "FlatMap", "FlatMapValues", "Foreach", "GlobalStore", "GlobalTable", "Map", "MapValues",
    "Merge", "Node", "Peek", "Print", "Process", "Repartition", "SelectKey", "Sink", "Split", "StateStore",
    "StreamSource", "TableRepartition",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node: ``priority`` decides the order of lowering, ``word`` is what the DSL calls it."""

    id: int = -1
    name: str
    parents: tuple[int, ...] = ()
    priority: int = -1
    origin: Origin | None = field(default=None, compare=False, repr=False)

    word: ClassVar[str] = ""
    changes_key: ClassVar[bool] = False
    changes_value: ClassVar[bool] = False

    @property
    def uses(self) -> tuple[int, ...]:
        """Ids of nodes that it needs besides its parents."""
        return ()


# --- where records come in and go out ---------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class StreamSource(Node):
    """Reads topics, or every topic that matches ``pattern``, as a stream."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    key_serde: Any = None
    value_serde: Any = None
    timestamp_extractor: Any = None
    offset_reset: str | None = None

    word: ClassVar[str] = "stream"


@dataclass(frozen=True, kw_only=True)
class GlobalTable(Node):
    """Reads a topic as a table that every task has whole."""

    source_name: str
    topic: str
    store: StoreSpec
    key_serde: Any = None
    value_serde: Any = None
    timestamp_extractor: Any = None

    word: ClassVar[str] = "global_table"


@dataclass(frozen=True, kw_only=True)
class GlobalStore(Node):
    """A global store that a user's processor keeps from a topic."""

    source_name: str
    topic: str
    store: StoreSpec
    supplier: Any
    key_serde: Any = None
    value_serde: Any = None
    timestamp_extractor: Any = None

    word: ClassVar[str] = "add_global_store"


@dataclass(frozen=True, kw_only=True)
class StateStore(Node):
    """A store that processors use by name."""

    store: StoreSpec

    word: ClassVar[str] = "add_state_store"


@dataclass(frozen=True, kw_only=True)
class Sink(Node):
    """Writes to a topic, or to the one that ``topic(key, value, metadata)`` names; ``internal`` topics are ours."""

    topic: Any
    key_serde: Any = None
    value_serde: Any = None
    partitioner: Any = None
    internal: bool = False

    word: ClassVar[str] = "to"


@dataclass(frozen=True, kw_only=True)
class Repartition(Node):
    """Writes to an internal topic and reads it again; its name is that of the source behind the topic.

    ``mergeable``: the optimiser may replace it. ``keep_null_keys``: a join downstream has a use for them.
    """

    topic: str
    sink_name: str
    filter_name: str
    key_serde: Any = None
    value_serde: Any = None
    partitioner: Any = None
    partitions: int | None = None
    mergeable: bool = True
    keep_null_keys: bool = True

    word: ClassVar[str] = "repartition"


@dataclass(frozen=True, kw_only=True)
class TableRepartition(Node):
    """Writes the changes of a re-grouped table to an internal topic and reads them again."""

    topic: str
    sink_name: str
    key_serde: Any = None
    value_serde: Any = None

    word: ClassVar[str] = "repartition"


# --- one record at a time ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Filter(Node):
    """Keeps the records for which the predicate holds, or with ``negate`` the others."""

    predicate: Callable[[Any, Any], Any]
    negate: bool = False

    word: ClassVar[str] = "filter"


@dataclass(frozen=True, kw_only=True)
class Map(Node):
    """Replaces key and value."""

    mapper: Callable[[Any, Any], tuple[Any, Any]]

    word: ClassVar[str] = "map"
    changes_key: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class MapValues(Node):
    """Replaces the value."""

    mapper: Callable[..., Any]
    with_key: bool = False

    word: ClassVar[str] = "map_values"
    changes_value: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class FlatMap(Node):
    """Replaces a record by any number of pairs."""

    mapper: Callable[[Any, Any], Any]

    word: ClassVar[str] = "flat_map"
    changes_key: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class FlatMapValues(Node):
    """Replaces a value by any number of values."""

    mapper: Callable[..., Any]
    with_key: bool = False

    word: ClassVar[str] = "flat_map_values"
    changes_value: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class SelectKey(Node):
    """Replaces the key."""

    mapper: Callable[[Any, Any], Any]

    word: ClassVar[str] = "select_key"
    changes_key: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Peek(Node):
    """Calls an action and passes the record on."""

    action: Callable[[Any, Any], Any]

    word: ClassVar[str] = "peek"


@dataclass(frozen=True, kw_only=True)
class Foreach(Node):
    """Calls an action; the stream ends."""

    action: Callable[[Any, Any], Any]

    word: ClassVar[str] = "foreach"


@dataclass(frozen=True, kw_only=True)
class Print(Node):
    """Writes each record as a line; the stream ends."""

    label: str
    write: Callable[[str], Any]
    mapper: Callable[[Any, Any], Any] | None = None

    word: ClassVar[str] = "print"


@dataclass(frozen=True, kw_only=True)
class Merge(Node):
    """Brings two streams together."""

    word: ClassVar[str] = "merge"


@dataclass(frozen=True, kw_only=True)
class Split(Node):
    """Sends each record to the first branch whose predicate holds; ``children`` ends with the default branch."""

    predicates: tuple[Callable[[Any, Any], Any], ...] = ()
    children: tuple[str | None, ...] = (None,)

    word: ClassVar[str] = "split"


@dataclass(frozen=True, kw_only=True)
class Branch(Node):
    """One way out of a split."""

    word: ClassVar[str] = "branch"


@dataclass(frozen=True, kw_only=True)
class Process(Node):
    """Runs a user's processor; ``fixed_key``: one that keeps every record's key."""

    supplier: Any
    stores: tuple[str, ...] = ()
    fixed_key: bool = False

    word: ClassVar[str] = "process"
