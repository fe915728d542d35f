"""Counts what a run cost, by node and store: records, bytes, rows and, if they were measured, shares of CPU time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kstreamnb.core.formatting import pluralize
from kstreamnb.core.progress import under_way
from kstreamnb.core.record import Change, Windowed
from kstreamnb.core.tables import Tabular
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.store_rows import stored_rows
from kstreamnb.recording.trace import shown
from kstreamnb.topology.labels import node_title
from kstreamnb.topology.topology import Topology


class NodeCost(NamedTuple):
    """One node: records and bytes (keys and values as JSON) that reached it, and its share of CPU time or None."""

    node: str
    records: int
    bytes: int
    cpu_share: float | None


class StoreCost(NamedTuple):
    """One store over all partitions: rows and bytes (as JSON) at the end, and writes in the whole run."""

    store: str
    rows: int
    bytes: int
    writes: int


@dataclass(frozen=True, repr=False)
class RunProfile(Tabular):
    """The cost of a run by node and store; the graph explorer paints it as a heat map."""

    topology: Topology
    nodes: tuple[NodeCost, ...]
    stores: tuple[StoreCost, ...]

    @property
    def header(self) -> tuple[str, ...]:
        """Names of the columns."""
        measured = any(each.cpu_share is not None for each in self.nodes)
        return ("node or store", "records", "bytes", *(("CPU",) if measured else ()), "state")

    @property
    def title(self) -> str:
        """Name the topology, and the node with the largest share."""
        name = f' of "{self.topology.name}"' if self.topology.name else ""
        first = max(self.nodes, key=self.weight, default=None)
        most = "" if first is None else f"; most at {self._title(first.node)}"
        return f"profile{name}: {pluralize(len(self.nodes), 'node')}, {pluralize(len(self.stores), 'store')}{most}"

    def weight(self, cost: NodeCost) -> float:
        """Return a node's share of the cost: of CPU time if it was measured, otherwise of the bytes.

        Args:
            cost: one of ``nodes``.
        """
        if cost.cpu_share is not None:
            return cost.cpu_share
        return cost.bytes / (sum(each.bytes for each in self.nodes) or 1)

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield the nodes in topological order, then the stores."""
        measured = len(self.header) == 5
        for each in self.nodes:
            cpu = ("" if each.cpu_share is None else f"{each.cpu_share:.0%}",) if measured else ()
            yield (self._title(each.node), f"{each.records:,}", f"{each.bytes:,}", *cpu, "")
        for store in self.stores:
            state = f"{pluralize(store.rows, 'row')}, {pluralize(store.bytes, 'byte')}"
            yield (f"store {store.store}", pluralize(store.writes, "write"), "", *([""] if measured else []), state)

    def _title(self, node: str) -> str:
        return node_title(self.topology.description().nodes(), node)


def run_profile(run: RecordedRun, seconds: Mapping[str, float] | None) -> RunProfile:
    """Return the profile of a run; ``seconds`` is measured CPU time by node."""
    records, sizes, index = Counter[str](), Counter[str](), run.index
    with under_way("records") as done:
        for kind, at in (("consumed", 3), ("forwarded", 1)):
            for code, positions in index.of_kind(kind):
                node = code.node if kind == "consumed" else code.other
                records[node] += len(positions)
                content = (index.log[position][at : at + 2] for position in positions)
                sizes[node] += sum(_size(key) + _size(value) for key, value in content)
                done(len(positions))
    total = sum(seconds.values()) or 1 if seconds else 1
    shares = {} if seconds is None else {name: seconds.get(name, 0) / total for name in run.topology.nodes}
    nodes = tuple(NodeCost(name, records[name], sizes[name], shares.get(name)) for name in run.topology.nodes)
    return RunProfile(run.topology, nodes, tuple(_store(run, store) for store in run.stores))


def _store(run: RecordedRun, name: str) -> StoreCost:
    step, rows, size, writes = len(run.steps), 0, 0, 0
    for task_id, task in run.tasks.items():
        if name in task.stores:
            kept = stored_rows(task_id, task.stores[name], run.index.rows(task_id, name, step))
            rows += len(kept)
            size += sum(_size(row.key) + _size(row.value) for row in kept)
            every = run.index.writes(task_id, name)
            writes += sum(len(positions) for key, positions in every.items() if key is not None)
    return StoreCost(name, rows, size, writes)


def _size(value: object) -> int:
    """Return the number of bytes of a key or value as JSON; of the new value of a change."""
    plain = shown(value)
    if isinstance(plain, Change):
        plain = plain.new
    if isinstance(plain, Windowed):
        return _size(plain.key) + 16  # start and end, eight bytes each
    return len(_to_json(plain).encode())


_to_json = json.JSONEncoder(default=repr, ensure_ascii=False).encode
