"""Writes the operators of streams into a logical graph."""

from __future__ import annotations

from kstreamnb.core.codec import partitioner_of
from kstreamnb.core.operator import Operator
from kstreamnb.core.processor import UserFixedKeyProcessor, UserProcessor
from kstreamnb.dsl.flows import StreamFlow, TableFlow, UserFunction
from kstreamnb.dsl.materialization import Materialization, lazy_table, row_store
from kstreamnb.dsl.options import Printed, Produced, Repartitioned
from kstreamnb.errors import TopologyError
from kstreamnb.logical.builder import GraphBuilder
from kstreamnb.logical.nodes import Merge, Operation, StreamSink
from kstreamnb.operators import stateless
from kstreamnb.topology.nodes import TopicName
from kstreamnb.topology.validation import supplied_stores


def transform(graph: GraphBuilder, source: StreamFlow, java: str, operator: Operator, name: str | None) -> StreamFlow:
    """Add an operator below a stream."""
    node, traits = graph.step(graph.name_or_new(name, f"KSTREAM-{java}-"), operator, source.node), operator.traits
    return source.then(node, keeps_key=not traits.changes_key, keeps_value=not traits.changes_value)


def emit_print(graph: GraphBuilder, source: StreamFlow, options: Printed) -> StreamFlow:
    """Write ``print`` into a graph."""
    operator = stateless.Print(options.label or source.name, options.write or print, options.mapper)
    return transform(graph, source, "PRINTER", operator, options.name)


def emit_merge(graph: GraphBuilder, left: StreamFlow, right: StreamFlow, name: str | None) -> StreamFlow:
    """Write ``merge`` into a graph."""
    node = Merge(name=graph.name_or_new(name, "KSTREAM-MERGE-"), operator=stateless.PassThrough())
    node = graph.add(node, left.node, right.node)
    sources = tuple(dict.fromkeys((*left.sources, *right.sources)))
    return StreamFlow(node.id, node.name, None, None, sources, left.rekeyed or right.rekeyed)


def emit_process(
    graph: GraphBuilder,
    source: StreamFlow,
    supplier: UserFunction,
    stores: tuple[str, ...],
    name: str | None,
    keeps_key: bool,
) -> StreamFlow:
    """Write ``process`` into a graph."""
    name = name or graph.new_name("KSTREAM-PROCESSVALUES-" if keeps_key else "KSTREAM-PROCESSOR-")
    operator = UserFixedKeyProcessor(supplier) if keeps_key else UserProcessor(supplier)
    node = graph.step(name, operator, source.node, stores=stores, own=supplied_stores(name, supplier))
    return source.then(node, keeps_key=keeps_key, keeps_value=False)


def emit_to(graph: GraphBuilder, source: StreamFlow, topic: TopicName, options: Produced) -> None:
    """Write ``to`` into a graph."""
    serdes = options.serdes(source.key_serde, source.value_serde)
    name = graph.name_or_new(options.name, "KSTREAM-SINK-")
    partitioner = options.partitioner or partitioner_of(serdes["key_serde"])
    graph.add(StreamSink(name=name, topic=topic, partitioner=partitioner, **serdes), source.node)


def emit_repartition(graph: GraphBuilder, source: StreamFlow, options: Repartitioned) -> StreamFlow:
    """Write ``repartition`` into a graph."""
    name = options.name
    if name is None:
        name = graph.new_name("KSTREAM-REPARTITION-")
        graph.note_unnamed("repartition topic", f"{name}-repartition")
    serdes = options.serdes(source.key_serde, source.value_serde)
    fields = {"partitioner": options.partitioner, "partitions": options.partitions, "mergeable": False, **serdes}
    node = graph.add(graph.repartition(name, **fields), source.node)
    return StreamFlow(node.id, node.name, node.key_serde, node.value_serde, (node.name,))


def emit_to_table(graph: GraphBuilder, source: StreamFlow, table: Materialization) -> TableFlow:
    """Write ``to_table`` into a graph."""
    name = graph.name_or_new(table.name, "KSTREAM-TOTABLE-")
    store_name = table.new_store(graph, "KSTREAM-TOTABLE-")
    store = row_store(graph, table, store_name, key_serde=source.key_serde, value_serde=source.value_serde)
    parent, sources = source.node, source.sources
    if source.rekeyed:
        node = graph.add(graph.repartition(name, key_serde=store.key_serde, value_serde=store.value_serde), parent)
        if table.name is None:
            graph.note_unnamed("repartition topic", node.topic)
        parent, sources = node.id, (node.name,)
    return lazy_table(graph, name, store, table, parent, sources)


def emit_split(graph: GraphBuilder, source: StreamFlow, name: str | None) -> StreamFlow:
    """Write ``split`` into a graph."""
    name = graph.name_or_new(name, "KSTREAM-BRANCH-")
    return source.then(graph.step(name, stateless.Branch((), (None,)), source.node))


def emit_branch(graph: GraphBuilder, above: StreamFlow, predicate: UserFunction | None, suffix: str) -> StreamFlow:
    """Write ``branch`` into a graph."""
    split = graph.nodes[above.node]
    assert isinstance(split, Operation)
    assert isinstance(split.operator, stateless.Branch)
    name = split.name + suffix
    predicates, (*children, default) = split.operator.predicates, split.operator.children
    if predicate is None:
        if default is not None:
            raise TopologyError(f'split "{split.name}" has two default branches')
        default = name
    else:
        predicates, children = (*predicates, predicate), [*children, name]
    graph.change(split, operator=stateless.Branch(predicates, (*children, default)))
    graph.new_name(name)
    return above.then(graph.step(name, stateless.PassThrough(), split.id))
