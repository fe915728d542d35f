"""A description of a topology as a value: what Kafka Streams prints, and beside it what only the kit knows.

`describe_topology` computes it in Java's orders; `view.parser` reads it from the text of any application, and
`view.document` from JSON. Its text is the text of Kafka's ``TopologyDescription``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kstreamnb.core.display import Displayed

NodeKind = Literal["source", "processor", "sink"]


@dataclass(frozen=True)
class DescribedNode:
    """One node. ``extractor`` is the text of a function that chooses a sink's topic.

    The last fields are known only for a topology of the kit; they do not count in equality, so that a description
    equals the one that is read back from its text.
    """

    kind: NodeKind
    name: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    topic: str | None = None
    extractor: str | None = None
    stores: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()
    predecessors: tuple[str, ...] = ()
    dsl: str | None = field(default=None, compare=False)
    origin: str | None = field(default=None, compare=False)
    settings: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        """The node's lines, without indentation and without a line end after the last."""
        if self.kind == "source":
            topics = self.pattern if self.pattern is not None else f"[{', '.join(self.topics)}]"
            head = f"Source: {self.name} (topics: {topics})"
        elif self.kind == "processor":
            head = f"Processor: {self.name} (stores: [{', '.join(self.stores)}])"
        else:
            to = f"topic: {self.topic}" if self.extractor is None else f"extractor class: {self.extractor}"
            head = f"Sink: {self.name} ({to})"
        lines = [head]
        if self.kind != "sink":
            lines.append(f"      --> {', '.join(self.successors) or 'none'}")
        if self.kind != "source":
            lines.append(f"      <-- {', '.join(self.predecessors) or 'none'}")
        return "\n".join(lines)


@dataclass(frozen=True)
class DescribedSubtopology:
    """One sub-topology with its nodes in the order in which Java prints them."""

    id: int
    nodes: tuple[DescribedNode, ...]
    is_global: bool = False

    def __str__(self) -> str:
        note = " for global store (will not generate tasks)" if self.is_global else ""
        body = "".join(f"    {node}\n" for node in self.nodes)
        return f"Sub-topology: {self.id}{note}\n{body}" + ("" if self.is_global else "\n")


@dataclass(frozen=True)
class DescribedStore:
    """One store: its kind and its settings as texts."""

    name: str
    kind: str
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class DescribedTopic:
    """One repartition topic, without the application's id; ``partitions`` None follows from the topics upstream."""

    name: str
    partitions: int | None = None


@dataclass(frozen=True)
class TopologyDescription(Displayed):
    """All sub-topologies by id; stores and internal topics are known only for a topology of the kit.

    Example:
        >>> from kstreamnb.topology import Topology
        >>> description = Topology().add_source("in", "a").add_sink("out", "b", "in").description()
        >>> print(description)
        Topologies:
           Sub-topology: 0
            Source: in (topics: [a])
              --> out
            Sink: out (topic: b)
              <-- in
        <BLANKLINE>
    """

    subtopologies: tuple[DescribedSubtopology, ...]
    stores: tuple[DescribedStore, ...] = field(default=(), compare=False)
    internal_topics: tuple[DescribedTopic, ...] = field(default=(), compare=False)
    copartitioned: tuple[tuple[str, ...], ...] = field(default=(), compare=False)
    name: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return "Topologies:\n " + "".join(f"  {sub}" for sub in self.subtopologies)

    def nodes(self) -> dict[str, DescribedNode]:
        """Every node by name, in the order of the text."""
        return {node.name: node for sub in self.subtopologies for node in sub.nodes}
