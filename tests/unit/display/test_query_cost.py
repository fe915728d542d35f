"""The cost of a running query, painted on its graph from its metrics."""

from __future__ import annotations

import re

import kstreamnb as ks
from kstreamnb.spark.telemetry.metrics import Metric
from kstreamnb.spark.telemetry.query_cost import query_cost


def test_time_records_and_state_are_beside_the_first_operator_and_drops_at_theirs() -> None:
    """Tasks of a sub-topology are added; the one that takes most of the time is the hottest."""
    builder = ks.StreamsBuilder("shop")
    counts = builder.stream("in").group_by(lambda key, value: value).count(store="counts")
    counts.to_stream().to("out")
    topology = builder.build()
    metrics = []
    for task, records, ms in (("0_0", 100.0, 0.1), ("1_0", 60.0, 1.0), ("1_1", 30.0, 1.0)):
        tags = (("application-id", "shop"), ("task-id", task))
        metrics += [Metric("stream-task-metrics", "process-total", tags, records)]
        metrics += [Metric("stream-task-metrics", "process-latency-avg", tags, ms)]
    node = next(each for each in topology.subtopologies()[1].nodes if "AGGREGATE" in each)
    drop = (*tags, ("processor-node-id", node), ("reason", "late"))
    metrics += [Metric("stream-processor-node-metrics", "dropped-records-total", drop, 3.0)]
    cost = query_cost(topology, metrics)
    selected = next(each for each in topology.subtopologies()[0].nodes if "KEY-SELECT" in each)
    assert cost.notes == {
        selected: "sub-topology 0: 10% of the time, 100 records, 0 bytes of state in 1 task",
        node: "sub-topology 1: 90% of the time, 90 records, 0 bytes of state in 2 tasks; 3 late in task 1_1",
    }
    shown = cost._repr_mimebundle_()
    assert "90% of the time" in shown["text/plain"]
    assert "ks-heat-5" in shown["image/svg+xml"]


def test_tasks_and_stores_have_their_own_cost() -> None:
    """A task's share is of the time, a store's of all writes; a folded operator is as hot as its hottest part."""
    builder = ks.StreamsBuilder("shop")
    left, right = builder.stream("left"), builder.stream("right")
    left.join(right, lambda one, two: one, ks.JoinWindows.of_time_difference_with_no_grace("5m")).to("out")
    left.group_by_key().count(store="counts")
    topology = builder.build()
    metrics = []
    for task, ms in (("0_0", 1.0), ("0_1", 3.0)):
        tags = (("application-id", "shop"), ("task-id", task))
        metrics += [Metric("stream-task-metrics", "process-total", tags, 10.0)]
        metrics += [Metric("stream-task-metrics", "process-latency-avg", tags, ms)]
        stored = (*tags, ("in-memory-state-id", "counts"))
        metrics += [Metric("stream-state-metrics", "num-keys", stored, 2.0)]
        metrics += [Metric("stream-state-metrics", "changelog-updates-total", stored, 7.0)]
        metrics += [Metric("stream-state-metrics", "changelog-tombstones-total", stored, 1.0)]
    cost = query_cost(topology, metrics)
    assert [(task.task, task.share, task.records) for task in cost.tasks] == [("0_0", 0.25, 10), ("0_1", 0.75, 10)]
    assert cost.notes["store counts"] == "4 rows, 16 writes"
    assert cost.shares["store counts"] == 1
    svg = cost._repr_mimebundle_()["image/svg+xml"]
    assert re.search(r'id="store-counts" class="node ks-store ks-heat-5"', svg)
    assert re.search(r'id="operator-[^"]*" class="node ks-processor ks-heat-5"', svg)


def test_before_the_first_batch_nothing_is_painted() -> None:
    """A query without tasks has no figures."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("in").to("out")
    assert "no figures yet" in repr(query_cost(builder.build(), []))
