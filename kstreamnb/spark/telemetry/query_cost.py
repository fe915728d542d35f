"""The cost of a running query on its graph: time, records and state by sub-topology and task, drops by node, writes
by store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kstreamnb.charts import CostPicture, TaskCost
from kstreamnb.core.formatting import pluralize
from kstreamnb.spark.telemetry.metrics import Metric
from kstreamnb.topology.nodes import ProcessorNode
from kstreamnb.topology.topology import Topology

_TASK = ("stream-task-metrics", "stream-state-metrics")


def query_cost(topology: Topology, metrics: Iterable[Metric]) -> CostPicture:
    """Return the picture of what a query's tasks cost; the nodes of a sub-topology share its color.

    Workers measure whole tasks, so the figures of a sub-topology are beside its first operator. `Replay.profile`
    measures single nodes. Stores have their rows, and the share of their writes in all writes.
    """
    tasks: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    stores: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    notes: dict[str, list[str]] = defaultdict(list)
    for metric in metrics:
        tags = dict(metric.tags)
        if "in-memory-state-id" in tags:
            stores[tags["in-memory-state-id"]][metric.name] += metric.value
        elif "reason" in tags:
            notes[tags["processor-node-id"]].append(f"{metric.value:,.0f} {tags['reason']} in task {tags['task-id']}")
        elif metric.group in _TASK and "task-id" in tags:
            tasks[tags["task-id"]][metric.name] += metric.value
    shares: dict[str, float] = {}
    total = sum(map(_milliseconds, tasks.values())) or 1
    for group in topology.subtopologies():
        own = [figures for task, figures in tasks.items() if task.partition("_")[0] == str(group.id)]
        if own:
            share = sum(map(_milliseconds, own)) / total
            shares |= dict.fromkeys(group.nodes, share)
            records, state = (int(sum(each[name] for each in own)) for name in ("process-total", "state-bytes"))
            first = next((node for node in group.nodes if _is_users(topology.nodes[node])), group.nodes[0])
            about = f"sub-topology {group.id}: {share:.0%} of the time, {pluralize(records, 'record')}"
            about += f", {pluralize(state, 'byte')} of state"
            notes[first].insert(0, f"{about} in {pluralize(len(own), 'task')}")
    every = sum(map(_writes, stores.values())) or 1
    for name, figures in stores.items():
        shares[f"store {name}"] = _writes(figures) / every
        rows = pluralize(int(figures["num-keys"]), "row")
        notes[f"store {name}"] = [f"{rows}, {pluralize(int(_writes(figures)), 'write')}"]
    costs = tuple(_task_cost(task, figures, total) for task, figures in sorted(tasks.items()))
    return CostPicture(topology, shares, {node: "; ".join(each) for node, each in notes.items()}, costs)


def _is_users(node: object) -> bool:
    """Return whether pictures of operators show the node for itself, not within a topic or a repartition."""
    return isinstance(node, ProcessorNode) and node.dsl not in (None, "repartition")


def _writes(figures: dict[str, float]) -> float:
    return figures["changelog-updates-total"] + figures["changelog-tombstones-total"]


def _task_cost(task: str, figures: dict[str, float], total: float) -> TaskCost:
    records, dropped, state = (int(figures[name]) for name in ("process-total", "dropped-records-total", "state-bytes"))
    return TaskCost(task, _milliseconds(figures) / total, records, figures["process-latency-avg"], dropped, state)


def _milliseconds(figures: dict[str, float]) -> float:
    return figures["process-total"] * figures["process-latency-avg"]
