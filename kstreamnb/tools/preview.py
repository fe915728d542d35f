"""A look at what reaches one stream or table, without building and feeding the whole topology.

Called by users in notebooks and scripts, and by the examples of the DSL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from kstreamnb.core.arguments import expect, expect_number
from kstreamnb.core.record import TopicRecord
from kstreamnb.dsl.declarations import Handle, replay
from kstreamnb.dsl.flows import StreamFlow, TableFlow
from kstreamnb.errors import ConfigError, KStreamError, TopologyError
from kstreamnb.logical.graph import LogicalGraph
from kstreamnb.logical.lowering import lower
from kstreamnb.logical.nodes import GlobalTable, LogicalNode, Operation, StateStore, StreamSink
from kstreamnb.logical.optimizer.rewrites import optimise
from kstreamnb.operators.stateless import Branch, TableToStream
from kstreamnb.replays.preview import Preview, preview
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology

__all__ = ["Rows", "first_records", "head", "upstream_topology"]

Rows: TypeAlias = "Mapping[str, Iterable[tuple[Any, ...]]] | Iterable[TopicRecord]"
"""Records by topic, as ``(key, value)`` or ``(key, value, timestamp)``, or a sample."""

_TOPIC = "preview"


def head(
    handle: Handle, records: Rows, *, limit: int | None = 10, partitions: Mapping[str, int] | int = 1
) -> list[tuple[Any, Any, int]]:
    """The first records that reach a stream or table when these come in: key, value and timestamp of each.

    Only what is upstream of the handle runs.

    Units: timestamps are epoch milliseconds; records given without one come a millisecond after each other, from 0.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> orders = StreamsBuilder().stream("orders")
        >>> head(orders.map_values(lambda order: order * 2), {"orders": [("shoe", 1), ("hat", 3)]})
        [('shoe', 2, 0), ('hat', 6, 1)]
    """
    found: list[tuple[Any, Any, int]] = []
    with TopologyTestDriver(upstream_topology(handle, into=_TOPIC), partitions=partitions) as driver:
        output = driver.create_output_topic(_TOPIC)
        read = {topic for source in driver.topology.sources() for topic in source.topics}
        for topic, key, value, timestamp, headers in sorted(_rows(records), key=lambda row: row[3]):
            if topic in read:
                driver.create_input_topic(topic).pipe_input(key, value, at=timestamp, headers=headers)
            found += [(record.key, record.value, record.timestamp) for record in output.read_records()]
            if limit is not None and len(found) >= limit:
                return found[:limit]
    return found


def first_records(handle: Handle, sample: Iterable[TopicRecord] | None = None, n: int = 10) -> Preview:
    """Return the first records that reach a handle from a sample, or from its builder's sample.

    Raises: ConfigError when there is no sample.
    """
    records = handle.declaration_log.sample if sample is None else sample
    expect_number(n, "number of records to show")
    if records is None:
        raise ConfigError("there is no sample to preview", hint="give one, or set builder.sample once")
    expect(records, Iterable, "sample", hint="give a Sample")
    listed = list(records)
    for record in listed:
        expect(record, TopicRecord, "each record of a sample")
    return preview(upstream_topology(handle, into=_TOPIC), listed, n, into=_TOPIC)


def upstream_topology(handle: Handle, *, into: str = "preview") -> Topology:
    """The part of a topology that a stream or table depends on, with a sink of its records to the topic ``into``.

    Names are those of the whole topology. Declarations elsewhere that are stale or wrong do not matter.

    Raises: TopologyError when the handle is neither a stream nor a table, or depends on something stale.
    """
    log = handle.declaration_log
    sound = log.sound()
    if handle.declaration not in sound:
        hint = "run its cell again, and those of what it was made from"
        raise TopologyError(f"{handle.declaration} is stale", hint=hint, origin=handle.origin)
    try:
        made = replay(sound, persistent=log.persistent)
    except KStreamError:  # perhaps elsewhere: then names are those of the part alone
        needed = set(handle.upstream())
        made = replay(
            [each for each in sound if each in needed or each.word.startswith("add_")],
            persistent=log.persistent,
        )
    flow, graph = made.flows[handle.declaration], made.graph
    graph.origin = handle.origin
    if isinstance(flow, TableFlow):
        node = graph.step(f"{into}-stream", TableToStream(), flow.node)
        flow = StreamFlow(node.id, node.name, flow.key_serde, flow.value_serde, flow.sources)
    if not isinstance(flow, StreamFlow):
        raise TopologyError(f"a {type(handle).__name__} has no records of its own", hint="aggregate it first")
    sink = graph.add(
        StreamSink(name=f"{into}-sink", topic=into, key_serde=flow.key_serde, value_serde=flow.value_serde), flow.node
    )
    return lower(_only(optimise(graph.freeze(), ())[0], sink.id), name=log.name)


def _only(graph: LogicalGraph, *ids: int) -> LogicalGraph:
    """The part of a graph that these nodes depend on, with the stores that users' processors may ask for."""
    kept = graph.upstream(*ids)
    by_name = any(graph.by_id[id_].traits.user_code for id_ in kept)
    used = {name for id_ in kept for name in getattr(graph.by_id[id_], "stores", ())}
    part = [
        node
        for node in graph.nodes
        if node.id in kept
        or (isinstance(node, StateStore) and node.store.name in used)
        or (isinstance(node, GlobalTable) and by_name)
    ]
    names = {node.name for node in part}
    return replace(graph, nodes=tuple(_without_branches(node, names) for node in part), copartitioned=())


def _without_branches(node: LogicalNode, names: set[str]) -> LogicalNode:
    """A split that sends nothing to branches that are not there; any other node as it is."""
    if not isinstance(node, Operation) or not isinstance(node.operator, Branch):
        return node
    children = tuple(child if child in names else None for child in node.operator.children)
    return replace(node, operator=replace(node.operator, children=children))


def _rows(records: Rows) -> list[tuple[str, Any, Any, int, Any]]:
    """Topic, key, value, timestamp and headers of every record."""
    if not isinstance(records, Mapping):
        return [(each.topic, each.key, each.value, each.timestamp, each.headers) for each in records]
    given = [(topic, row) for topic, rows in records.items() for row in rows]
    return [(topic, key, value, at[0] if at else number, ()) for number, (topic, (key, value, *at)) in enumerate(given)]
