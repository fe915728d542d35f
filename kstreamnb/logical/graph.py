"""The logical graph: frozen nodes, queries over them, and the explanations of rewrites."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from types import MappingProxyType
from typing import NamedTuple

from kstreamnb.errors import TopologyError
from kstreamnb.logical.nodes import LogicalNode
from kstreamnb.topology.nodes import walk


@dataclass(frozen=True)
class LogicalGraph:
    """The logical graph: the user's declarations as frozen nodes that refer to their parents by id.

    Attributes:
        nodes: in the order in which they were declared.
        copartitioned: groups of source nodes whose topics must have equal partition counts.
        next_index: the number that the next generated name gets.
        unnamed: stateful things with a generated name: their kind, and the name.
        process_changes_records: whether ``process`` and ``process_values`` count as changing what they can change.

    Its text has a line for each node: number, name, the DSL's word for it, and the numbers of its parents.
    """

    nodes: tuple[LogicalNode, ...]
    copartitioned: tuple[tuple[str, ...], ...] = ()
    next_index: int = 0
    unnamed: tuple[tuple[str, str], ...] = ()
    process_changes_records: bool = False

    def __repr__(self) -> str:
        lines = [
            f"{node.id:>3} {node.name}: {node.word or type(node).__name__}"
            + (f" <- {', '.join(map(str, node.parents))}" if node.parents else "")
            for node in self.nodes
        ]
        return "\n".join([f"logical graph, {len(self.nodes)} nodes", *lines])

    @cached_property
    def by_id(self) -> dict[int, LogicalNode]:
        """Nodes by id."""
        return {node.id: node for node in self.nodes}

    def check_names(self) -> None:
        """Raise TopologyError if anything is unnamed, naming it."""
        lines = []
        for what in ("changelog topic", "state store", "repartition topic"):
            names = ", ".join(name for word, name in self.unnamed if word == what)
            lines += [f"Following {what}(s) has not been named: {names}"] if names else []
        if lines:
            fact = "stores or internal topics have generated names, which change when the topology is edited"
            hint = 'name them: store="…" for stores, name="…" for groupings and joins'
            java = "".join(f"{line}\n" for line in lines)
            raise TopologyError(fact, detail="; ".join(lines), hint=hint, java=f"Invalid topology: {java}")

    def ordered(self) -> Iterator[LogicalNode]:
        """Yield nodes in the order of lowering: by priority, each after all its parents."""
        sorter = TopologicalSorter({node.id: node.parents for node in self.nodes})
        sorter.prepare()
        ready: list[tuple[int, int]] = []
        while sorter.is_active():
            for id_ in sorter.get_ready():
                heappush(ready, (self.by_id[id_].priority, id_))
            _, first = heappop(ready)
            yield self.by_id[first]
            sorter.done(first)

    def with_nodes(
        self,
        changed: dict[int, LogicalNode],
        gone: Collection[int] = (),
        renamed: Mapping[str, str] = MappingProxyType({}),
    ) -> LogicalGraph:
        """Return the graph with nodes changed, added (new ids come last) or removed, and sources renamed."""
        kept = [changed.get(node.id, node) for node in self.nodes if node.id not in gone]
        made = [node for id_, node in changed.items() if id_ not in self.by_id]
        groups = (dict.fromkeys(renamed.get(name, name) for name in group) for group in self.copartitioned)
        return replace(self, nodes=(*kept, *made), copartitioned=tuple(map(tuple, groups)))

    def upstream(self, *ids: int) -> set[int]:
        """Return the ids of the nodes that these depend on, themselves included: their parents, and the other nodes
        they use.
        """
        return set(walk(ids, lambda id_: (*self.by_id[id_].parents, *self.by_id[id_].uses)))


class Optimization(NamedTuple):
    """One application of one rule: names of the affected nodes before and after, and the reason."""

    rule: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"{self.rule}: {', '.join(self.before)} → {', '.join(self.after) or 'nothing'}; {self.why}"
