"""The frozen nodes of a topology, the internal topics between them, and its division into sub-topologies.

A node names its parents; nothing refers downwards. A node's effect on a record is its operator, a value that a task
binds; its declaration (the user's line, the DSL word) is kept beside it and ignored by equality.

Nodes that are joined by an edge or by a shared store stay together. Ids of sub-topologies follow the order in which
the first node of each was added; those of global stores take ids too but get no tasks. A cut is therefore exactly
where records leave through a topic.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from kstreamnb.core.operator import Operator
from kstreamnb.core.serdes import NamesSerdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.traits import NO_TRAITS, OperatorTraits, RowUse
from kstreamnb.source_location import SourceLocation

_N = TypeVar("_N", bound=Hashable)
_I = TypeVar("_I")

TopicName: TypeAlias = "str | Callable[[Any, Any, Any], str]"
"""A topic, or a function ``(key, value, metadata) -> topic`` that chooses one for each record."""


@dataclass(frozen=True)
class Source(NamesSerdes):
    """A node that takes records from topics, or from every topic whose whole name matches ``pattern``.

    A serde or extractor of None is the application's default. ``is_global``: it feeds a global store.
    """

    name: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    key_serde: Any = None
    value_serde: Any = None
    timestamp_extractor: Any = None
    offset_reset: str | None = None
    is_global: bool = False
    origin: SourceLocation | None = field(default=None, compare=False, repr=False)

    parents = ()
    stores = ()
    traits: ClassVar[OperatorTraits] = NO_TRAITS

    def reads(self, topic: str) -> bool:
        """Return whether records of ``topic`` enter here.

        Args:
            topic: the name of a topic.
        """
        return topic in self.topics if self.pattern is None else re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True)
class ProcessorNode:
    """A node that runs an operator; ``dsl`` is the word of the DSL that made it, None in the Processor API."""

    name: str
    parents: tuple[str, ...]
    operator: Operator = field(repr=False)
    stores: tuple[str, ...] = ()
    is_global: bool = False
    dsl: str | None = field(default=None, compare=False)
    origin: SourceLocation | None = field(default=None, compare=False, repr=False)

    @property
    def traits(self) -> OperatorTraits:
        """The traits of the operator."""
        return self.operator.traits

    @property
    def row_use(self) -> RowUse:
        """How results follow from rows: "none" if the node can reach no store."""
        return self.traits.row_use if self.stores or self.traits.reads_global else "none"


@dataclass(frozen=True)
class Sink(NamesSerdes):
    """A node that writes records to a topic; a serde or partitioner of None is the default one."""

    name: str
    parents: tuple[str, ...]
    topic: TopicName
    key_serde: Any = None
    value_serde: Any = None
    partitioner: Any = None
    origin: SourceLocation | None = field(default=None, compare=False, repr=False)

    stores = ()
    traits: ClassVar[OperatorTraits] = NO_TRAITS


Node: TypeAlias = "Source | ProcessorNode | Sink"


class InternalTopic(NamedTuple):
    """A repartition topic: its name without the application's id, and its partitions if the user set them.

    With None the number of partitions follows from the topics upstream.
    """

    name: str
    partitions: int | None = None


class Subtopology(NamedTuple):
    """A group of nodes that one task runs for one partition.

    ``nodes`` are names in the order in which they were added; ``stores`` are those its processors are connected to.
    """

    id: int
    nodes: tuple[str, ...]
    stores: tuple[str, ...] = ()
    is_global: bool = False


def walk(start: Iterable[_N], onward: Callable[[_N], Iterable[_N]]) -> Iterator[_N]:
    """Yield ``start`` and everything that ``onward`` leads to from there: each once, the nearest first.

    Example:
        >>> list(walk("a", {"a": "bc", "b": "d", "c": "bd", "d": "a"}.__getitem__))
        ['a', 'b', 'c', 'd']
    """
    waiting, seen = deque(start), set[_N]()
    while waiting:
        each = waiting.popleft()
        if each not in seen:
            seen.add(each)
            yield each
            waiting.extend(onward(each))


def grouped(items: Iterable[_I], key: Callable[[_I], _N]) -> dict[_N, list[_I]]:
    """Return items in lists by their ``key``, in the order of the first item of each list.

    Example:
        >>> grouped(["pear", "fig", "plum"], len)
        {4: ['pear', 'plum'], 3: ['fig']}
    """
    groups: dict[_N, list[_I]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _subtopology(number: int, members: Collection[Node]) -> Subtopology:
    stores = dict.fromkeys(store for node in members for store in node.stores)
    is_global = any(isinstance(node, Source) and node.is_global for node in members)
    return Subtopology(number, tuple(node.name for node in members), tuple(stores), is_global)


@dataclass(repr=False)
class NodeGraph:
    """A topology as needed by its checks, partition counts, tasks and description."""

    name: str | None = field(default=None, compare=False)
    nodes: dict[str, Node] = field(default_factory=dict, init=False)
    stores: dict[str, StoreSpec] = field(default_factory=dict, init=False)
    global_stores: dict[str, StoreSpec] = field(default_factory=dict, init=False)
    internal_topics: dict[str, InternalTopic] = field(default_factory=dict, init=False)
    copartitioned: list[tuple[str, ...]] = field(default_factory=list, init=False)

    def sources(self) -> tuple[Source, ...]:
        """Return source nodes in the order in which they were added."""
        return tuple(node for node in self.nodes.values() if isinstance(node, Source))

    def processors(self) -> tuple[ProcessorNode, ...]:
        """Return processor nodes in the order in which they were added."""
        return tuple(node for node in self.nodes.values() if isinstance(node, ProcessorNode))

    def sinks(self) -> tuple[Sink, ...]:
        """Return sink nodes in the order in which they were added."""
        return tuple(node for node in self.nodes.values() if isinstance(node, Sink))

    def children(self, name: str) -> tuple[str, ...]:
        """Return names of the nodes that receive the records of ``name``, in the order in which they were added.

        Args:
            name: name of a node.
        """
        return tuple(node.name for node in self.nodes.values() if name in node.parents)

    def feeders(self, name: str) -> tuple[str, ...]:
        """Return names of the nodes whose records ``name`` gets: its parents, or the sinks that feed a source.

        Args:
            name: name of a node.
        """
        read = [topic for source in self.sources() if source.name == name for topic in source.topics]
        sinks = tuple(sink.name for sink in self.sinks() if sink.topic in read)
        return sinks or tuple(parent for node in self.nodes.values() if node.name == name for parent in node.parents)

    def subtopologies(self) -> tuple[Subtopology, ...]:
        """Return sub-topologies with Kafka's ids, by union-find over parents and shared stores."""
        root = {name: name for name in self.nodes}

        def find(name: str) -> str:
            while root[name] != name:
                root[name] = root[root[name]]
                name = root[name]
            return name

        user: dict[str, str] = {}
        for node in self.nodes.values():
            for parent in node.parents:
                root[find(node.name)] = find(parent)
            for store in node.stores:
                root[find(node.name)] = find(user.setdefault(store, node.name))
        groups = grouped(self.nodes.values(), lambda node: find(node.name))
        return tuple(_subtopology(number, members) for number, members in enumerate(groups.values()))
