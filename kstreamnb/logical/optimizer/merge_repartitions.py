"""``merge.repartition.topics``: one internal topic below an operator that changes keys, instead of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from kstreamnb.core.traits import NO_TRAITS, OperatorTraits
from kstreamnb.logical import nodes
from kstreamnb.logical.builder import repartition_node
from kstreamnb.logical.graph import LogicalGraph, Optimization
from kstreamnb.topology.nodes import walk


def merge_repartitions(graph: LogicalGraph) -> tuple[LogicalGraph, tuple[Optimization, ...]]:
    """Move repartitions up to the operator that changed the keys, if no value changes in between.

    The first topic remains. A merge of streams replaces the operators above it if all their repartitions are below the
    merge. A repartition moves up only along all paths on which records with changed keys reach it: Kafka Streams moves
    it along one of them, which may break partitioning by key, or fail. Other inputs, under the keys of their topics,
    must be co-partitioned below.
    """
    work = _Work(graph)
    explained = []
    for changer, repartitions_below in _through_merges(work, _by_changer(work)).items():
        candidates = [id_ for id_ in repartitions_below if id_ not in work.gone]
        repartitions = work.movable(changer, candidates)
        names = tuple(work.nodes[id_].name for id_ in repartitions)
        if repartitions:
            why = work.why(changer, repartitions)
            made = work.merge(changer, repartitions)
            explained.append(Optimization("merge.repartition.topics", names, (made.name,), why))
        stay = tuple(work.nodes[id_].name for id_ in candidates if id_ not in repartitions)
        if stay:
            explained.append(Optimization("merge.repartition.topics", stay, stay, STAYS))
    return work.finish(), tuple(explained)


STAYS = "records with changed keys also arrive on another path, on which Kafka Streams would no longer repartition them"


class _Work:
    """A graph being rewired: nodes by id, parents and children as lists in order of creation."""

    def __init__(self, graph: LogicalGraph) -> None:
        self.graph = graph
        self.nodes: dict[int, nodes.LogicalNode] = dict(graph.by_id)
        self.parents: dict[int, list[int]] = {node.id: list(node.parents) for node in graph.nodes}
        self.index = graph.next_index
        self.gone, self.renamed = list[int](), dict[str, str]()
        self.copartitioned = graph.copartitioned

    def add(self, parent: int, child: int) -> None:
        if parent not in self.parents[child]:
            self.parents[child].append(parent)

    def traits(self, id_: int) -> OperatorTraits:
        """Return the traits of a node; Kafka Streams ignores what processors change, unless the builder says so."""
        traits = self.nodes[id_].traits
        return NO_TRAITS if traits.user_code and not self.graph.process_changes_records else traits

    def find_above(self, start: int, wanted: Callable[[int], bool]) -> int | None:
        """Return the node itself, or one above it; of several paths up, the first that leads to such a node counts."""
        if wanted(start):
            return start
        matches = (self.find_above(parent, wanted) for parent in self.parents[start])
        return next((id_ for id_ in matches if id_ is not None), None)

    def why(self, changer: int, repartitions: Iterable[int]) -> str:
        """Return why repartitions may move below ``changer``; of processors in between Kafka Streams assumes it."""
        above = [self.nodes[id_] for id_ in walk(repartitions, lambda id_: () if id_ == changer else self.parents[id_])]
        passed = ", ".join(f'"{node.name}"' for node in above if node.traits.user_code)
        if self.graph.process_changes_records or not passed:
            return f'keys do not change between "{self.nodes[changer].name}" and these repartitions'
        hint = "otherwise use StreamsBuilder(process_changes_records=True)"
        return f"as in Kafka, this is right only if {passed} changes neither keys nor types of values; {hint}"

    def movable(self, changer: int, repartitions: list[int]) -> dict[int, list[str]]:
        """Return repartitions that may move below ``changer``, each with the other sources that reach it."""
        moving: set[int] = set()
        for id_ in repartitions:
            way = self.find_above(id_, lambda above: changer in self.parents[above] and above not in moving)
            moving.update(() if way is None else (way,))
        sides = {id_: self.sides(changer, id_, repartitions, moving) for id_ in repartitions}
        kept = {id_: names for id_, names in sides.items() if names is not None}
        return kept if len(kept) == len(repartitions) else self.movable(changer, list(kept))

    def sides(self, changer: int, start: int, repartitions: list[int], moving: set[int]) -> list[str] | None:
        """Return sources besides ``changer`` whose records reach a repartition under the keys that they were written
        with.

        None if keys change elsewhere above it, or a path from ``changer`` is not among the children that move.
        """
        names, above = [], [start]
        for id_ in above:
            node, unmoved = self.nodes[id_], changer in self.parents[id_] and id_ not in moving
            if isinstance(node, nodes.StreamSource | nodes.Repartition) and id_ not in repartitions:
                names.append(node.name)
            elif unmoved or self.traits(id_).changes_key:
                return None
            else:
                above.extend(parent for parent in self.parents[id_] if parent != changer and parent not in above)
        return names

    def merge(self, changer: int, repartitions: dict[int, list[str]]) -> nodes.Repartition:
        """Put one repartition right below ``changer`` in place of these."""
        old = [node for id_ in repartitions if isinstance(node := self.nodes[id_], nodes.Repartition)]
        fields: dict[str, Any] = {"id": max(self.nodes) + 1, "priority": self.nodes[changer].priority}
        fields["origin"] = old[0].origin
        for serde in ("key_serde", "value_serde"):
            fields[serde] = next((own for node in old if (own := getattr(node, serde)) is not None), None)
        made, self.index = repartition_node(self.index, old[0].topic, **fields)
        self.nodes[made.id], self.parents[made.id] = made, []
        self.copartitioned += tuple((made.name, *names) for names in repartitions.values() if names)
        for node in old:
            self._replace(node, made, changer)
        self.add(changer, made.id)
        return made

    def _replace(self, old: nodes.Repartition, made: nodes.Repartition, changer: int) -> None:
        child = self.find_above(old.id, lambda id_: changer in self.parents[id_])
        if child is not None:  # otherwise an earlier repartition behind the same node has moved it (Kafka fails here)
            self.add(made.id, child)
            self.parents[child].remove(changer)
        for below in [id_ for id_, parents in self.parents.items() if old.id in parents]:
            for parent in self.parents[old.id]:
                self.add(parent, below)
            self.parents[below].remove(old.id)
        self.parents[old.id] = []
        self.gone.append(old.id)
        self.renamed[old.name] = made.name

    def finish(self) -> LogicalGraph:
        """Return the graph as rewired."""
        changed = {id_: replace(node, parents=tuple(self.parents[id_])) for id_, node in self.nodes.items()}
        graph = replace(self.graph, copartitioned=self.copartitioned, next_index=self.index)
        return graph.with_nodes(changed, self.gone, self.renamed)


def _by_changer(work: _Work) -> dict[int, list[int]]:
    """Return operators that change keys, each with the repartitions below it that may move up to it."""
    repartitions: dict[int, list[int]] = {}
    for node in work.graph.nodes:
        if work.traits(node.id).changes_key:
            repartitions[node.id] = []
        elif isinstance(node, nodes.Repartition) and node.mergeable:
            changer = work.find_above(node.id, lambda n: (traits := work.traits(n)).changes_key or traits.changes_value)
            if changer is not None and work.traits(changer).changes_key:
                repartitions[changer].append(node.id)
    return repartitions


def _through_merges(work: _Work, by_changer: dict[int, list[int]]) -> dict[int, list[int]]:
    """Return the same, with merges of streams in place of the operators above them if that covers everything."""
    taken: dict[int, list[int]] = {}
    replaced: set[int] = set()
    for merge in (node for node in work.graph.nodes if isinstance(node, nodes.Merge)):
        covered = (each for each, ids in by_changer.items() if all(_is_below(work, id_, merge.id) for id_ in ids))
        changers = [each for each in covered if _is_below(work, merge.id, each)]
        taken[merge.id] = list(dict.fromkeys(id_ for changer in changers for id_ in by_changer[changer]))
        replaced.update(changers)
    return {changer: ids for changer, ids in by_changer.items() if changer not in replaced} | taken


def _is_below(work: _Work, start: int, above: int) -> bool:
    return work.find_above(start, lambda id_: above in work.parents[id_]) is not None
