"""The cost of a running query on its graph: time, records and state by sub-topology, drops by node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kstreamnb.charts import CostPicture
from kstreamnb.core.formatting import pluralize
from kstreamnb.spark.telemetry.metrics import Metric
from kstreamnb.topology.topology import Topology

_TASK = ("stream-task-metrics", "stream-state-metrics")


def query_cost(topology: Topology, metrics: Iterable[Metric]) -> CostPicture:
    """Return the picture of what a query's tasks cost; the nodes of a sub-topology share its colour.

    Workers measure whole tasks, so the figures of a sub-topology are beside its first node. `Replay.profile` measures
    single nodes.
    """
    tasks: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    notes: dict[str, list[str]] = defaultdict(list)
    for metric in metrics:
        tags = dict(metric.tags)
        if "reason" in tags:
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
            figures = f"{share:.0%} of the time, {pluralize(records, 'record')}, {pluralize(state, 'byte')} of state"
            notes[group.nodes[0]].insert(0, f"{figures} in {pluralize(len(own), 'task')}")
    return CostPicture(topology, shares, {node: "; ".join(each) for node, each in notes.items()})


def _milliseconds(figures: dict[str, float]) -> float:
    return figures["process-total"] * figures["process-latency-avg"]
