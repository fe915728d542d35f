"""The cost of a running query, painted on its graph from its metrics."""

from __future__ import annotations

import kstreamnb as ks
from kstreamnb.spark.telemetry.metrics import Metric
from kstreamnb.spark.telemetry.query_cost import query_cost


def test_time_records_and_state_are_beside_the_first_node_and_drops_at_theirs() -> None:
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
    first, second = (group.nodes[0] for group in topology.subtopologies())
    assert cost.notes == {
        first: "10% of the time, 100 records, 0 bytes of state in 1 task",
        second: "90% of the time, 90 records, 0 bytes of state in 2 tasks",
        node: "3 late in task 1_1",
    }
    shown = cost._repr_mimebundle_()
    assert "90% of the time" in shown["text/plain"]
    assert "ks-heat-5" in shown["image/svg+xml"]


def test_before_the_first_batch_nothing_is_painted() -> None:
    """A query without tasks has no figures."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("in").to("out")
    assert "no figures yet" in repr(query_cost(builder.build(), []))
