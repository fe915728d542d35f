"""Previews the records that reach one stream or table, without building and running the whole topology.

Called by users in notebooks and scripts, and by the examples of the DSL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from kstreamnb.core.arguments import check_arguments, expect, expect_number
from kstreamnb.core.record import TopicRecord
from kstreamnb.dsl.declarations import Handle, ReplayedDeclarations, StaleReason, replay
from kstreamnb.dsl.flows import CogroupFlow, GlobalFlow, GroupFlow, KeyedFlow, StreamFlow, TableFlow
from kstreamnb.errors import ConfigError, KStreamError, TopologyError
from kstreamnb.logical.graph import LogicalGraph
from kstreamnb.logical.lowering import lower
from kstreamnb.logical.nodes import GlobalTable, LogicalNode, Operation, StateStore, StreamSink
from kstreamnb.logical.optimizer.rewrites import optimise
from kstreamnb.operators.stateless import Branch, TableToStream
from kstreamnb.replays.preview import PREVIEW, Preview, preview
from kstreamnb.replays.replay_sample import GivenRecords, records_of
from kstreamnb.testdriver.sample_partitions import partitions_for
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology

_GONE = StaleReason(
    "its cell ran again and no longer declares it", "declare it again, or use another handle", "it disappeared"
)


def head(
    handle: Handle, records: GivenRecords, *, limit: int | None = 10, partitions: Mapping[str, int] | int = 1
) -> list[tuple[Any, Any, int]]:
    """Return the first records that reach a stream or table for this input: key, value and timestamp of each.

    Only the nodes upstream of the handle run.

    Units: timestamps are epoch milliseconds; records without one get times that begin at 0 and are a millisecond apart.

    Args:
        handle: the stream or table to preview.
        records: records by topic, as ``(key, value)`` or ``(key, value, timestamp)``, or a sample.
        limit: maximum number of results; None for all. Default: 10.
        partitions: number of partitions of every topic, or by topic. Default: 1.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> orders = StreamsBuilder().stream("orders")
        >>> head(orders.map_values(lambda order: order * 2), {"orders": [("shoe", 1), ("hat", 3)]})
        [('shoe', 2, 0), ('hat', 6, 1)]
    """
    check_arguments(head, locals())
    rows: list[tuple[Any, Any, int]] = []
    topology, given = upstream_topology(handle), sorted(records_of(records), key=attrgetter("timestamp"))
    sources = topology.sources()
    with TopologyTestDriver(topology, partitions=partitions_for(topology, given, partitions)) as driver:
        output = driver.create_output_topic(PREVIEW)
        for each in given:
            if any(source.reads(each.topic) for source in sources):
                topic = driver.create_input_topic(each.topic)
                topic.pipe_input(each.key, each.value, at=each.timestamp, headers=each.headers)
            rows += [(record.key, record.value, record.timestamp) for record in output.read_records()]
            if limit is not None and len(rows) >= limit:
                return rows[:limit]
    return rows


def first_records(handle: Handle, sample: Iterable[TopicRecord] | None = None, n: int = 10) -> Preview:
    """Return the first records that reach a handle from a sample, or from its builder's sample.

    Raises: ConfigError without a sample, TopologyError for a handle without records.
    """
    records = handle.declaration_log.sample if sample is None else sample
    expect_number(n, "number of records to show")
    if records is None:
        raise ConfigError("no sample was given", hint="pass one, or set builder.sample once")
    hint = f"write head(n={records})" if isinstance(records, int) else "give a Sample"
    expect(records, Iterable, "sample", hint=hint)
    given = list(records)
    if not all(issubclass(kind, TopicRecord) for kind in set(map(type, given))):
        for record in given:
            expect(record, TopicRecord, "each record of a sample")
    if handle.kind == "global_table":
        return _rows_of_topic(upstream_part(handle), given, n)
    return preview(upstream_topology(handle), given, n, is_table=handle.kind == "table")


def has_records(handle: Handle) -> bool:
    """Return whether a handle has records to show; one that only collects streams to aggregate has none."""
    return handle.kind in ("stream", "table", "global_table", "grouped", "split", "time_windowed", "session_windowed")


def upstream_topology(handle: Handle) -> Topology:
    """Return the part of a topology that a handle depends on, with a sink of its records to the topic "preview".

    Names are those of the whole topology. Declarations elsewhere that are stale or wrong do not matter.

    Raises: TopologyError when the handle has no records, or depends on something stale.
    """
    made = _replayed(handle)
    graph = made.graph
    flow = made.flows[handle.declaration.parents[0] if handle.kind == "split" else handle.declaration]
    if isinstance(flow, TableFlow):
        node = graph.step("preview-stream", TableToStream(), flow.node)
        flow = StreamFlow(node.id, node.name, flow.key_serde, flow.value_serde, flow.sources)
    if not has_records(handle) or not isinstance(flow, StreamFlow | GroupFlow):
        raise TopologyError(f"a {type(handle).__name__} has no records", hint="aggregate it first")
    sink = StreamSink(name="preview-sink", topic=PREVIEW, key_serde=flow.key_serde, value_serde=flow.value_serde)
    end = graph.add(sink, flow.node).id
    return lower(_only(optimise(graph.freeze(), ())[0], end), name=handle.declaration_log.name)


def upstream_part(handle: Handle) -> Topology:
    """Return the part of a topology that a handle of any kind depends on.

    Raises: TopologyError when the handle depends on something stale.
    """
    made = _replayed(handle)
    branches = [branch.declaration for branch in getattr(handle, "branches", {}).values()]
    flows = [made.flows[each] for each in (handle.declaration, *branches)]
    ids = [flow.node for flow in flows if isinstance(flow, KeyedFlow | GlobalFlow)]
    ids += [group.node for flow in flows if isinstance(flow, CogroupFlow) for group in flow.groups]
    return lower(_only(optimise(made.graph.freeze(), ())[0], *ids), name=handle.declaration_log.name)


def _replayed(handle: Handle) -> ReplayedDeclarations:
    """Replay the valid declarations; if that fails elsewhere, only those that the handle needs."""
    expect(handle, Handle, "handle", hint="pass a stream or a table")
    log = handle.declaration_log
    sound = log.sound()
    if handle.declaration not in sound:
        needed = set(handle.upstream())
        reason = next((why for child, why in log.lost.items() if child in needed), _GONE)
        raise TopologyError(f"{handle.declaration} is stale: {reason}", hint=reason.action, origin=handle.origin)
    try:
        made = replay(log, sound)
    except KStreamError:  # the failure may be elsewhere: then names are those of the part alone
        needed = set(handle.upstream())
        part = [each for each in sound if each in needed or each.word.startswith("add_")]
        made = replay(log, part)
    made.graph.origin = handle.origin
    return made


def _rows_of_topic(topology: Topology, records: Iterable[TopicRecord], n: int) -> Preview:
    """Return the first changes of a global table, which are the records of its topic."""
    taken = [record for record in records if any(source.reads(record.topic) for source in topology.sources())]
    topics = tuple(topic for source in topology.sources() for topic in source.topics)
    return Preview(tuple(taken[:n]), len(taken), len(taken), is_table=True, topics=topics)


def _only(graph: LogicalGraph, *ids: int) -> LogicalGraph:
    """Return the part of a graph on which these nodes depend, with the stores that users' processors may ask for."""
    kept = graph.upstream(*ids)
    by_name = any(graph.by_id[id_].traits.user_code for id_ in kept)
    used = {name for id_ in kept for name in getattr(graph.by_id[id_], "stores", ())}
    stores = {node.id for node in graph.nodes if isinstance(node, StateStore) and node.store.name in used}
    tables = {node.id for node in graph.nodes if isinstance(node, GlobalTable) and by_name}
    part = [node for node in graph.nodes if node.id in kept or node.id in stores | tables]
    names = {node.name for node in part}
    return replace(graph, nodes=tuple(_without_branches(node, names) for node in part), copartitioned=())


def _without_branches(node: LogicalNode, names: set[str]) -> LogicalNode:
    """Return a split without outputs to missing branches; any other node unchanged."""
    if not isinstance(node, Operation) or not isinstance(node.operator, Branch):
        return node
    children = tuple(child if child in names else None for child in node.operator.children)
    return replace(node, operator=replace(node.operator, children=children))
