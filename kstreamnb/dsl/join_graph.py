"""Writes the joins of streams and tables into a logical graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kstreamnb.core.codec import StreamPartitioner, by_home, partitioner_of
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import duration_ms, java_long
from kstreamnb.core.windows import JoinWindows
from kstreamnb.dsl.flows import GlobalFlow, JoinSpec, StreamFlow, TableFlow, UserFunction
from kstreamnb.dsl.materialization import Materialization, lazy_table, row_store, table_fields
from kstreamnb.dsl.option_fields import SerdeFields
from kstreamnb.dsl.options import GlobalJoined, Joined, StreamJoined, TableJoined
from kstreamnb.errors import TopologyError
from kstreamnb.logical.builder import GraphBuilder, check_history, is_versioned, look_up, send_old
from kstreamnb.logical.nodes import Repartition, StateStore, StreamJoin, TableJoin, WindowedStream
from kstreamnb.operators import foreign_key as fk
from kstreamnb.operators.foreign_key_answers import SubscriptionResolve
from kstreamnb.operators.stateless import PassThrough
from kstreamnb.operators.stream_joins import JoinWindow, StreamSelfJoin, StreamStreamJoin, StreamTableJoin
from kstreamnb.operators.table_joins import How, JoinView, TableJoinMerge, TableTableJoin
from kstreamnb.operators.tables import MaterializedView, own_store


def _repartitioned(
    graph: GraphBuilder, stream: StreamFlow, prefix: str | None, named: Joined | StreamJoined, value_serde: Serde | None
) -> StreamFlow:
    """Return the stream with each key in its partition: as it is, or below a topic that joins of one name share."""
    if not stream.rekeyed:
        return stream
    key_serde, value_serde = named.key_serde or stream.key_serde, value_serde or stream.value_serde
    new = graph.repartition(prefix or stream.name, key_serde=key_serde, value_serde=value_serde)
    if stream.repartitioned is None or prefix not in (None, stream.name):
        stream.repartitioned = graph.add(new, stream.node)
    if named.name is None:
        graph.note_unnamed("repartition topic", new.topic)
    node = stream.repartitioned
    return StreamFlow(node.id, node.name, key_serde, value_serde, (node.name,))


_THIS, _OTHER = ("KSTREAM-JOINTHIS-", "-this-join"), ("KSTREAM-JOINOTHER-", "-other-join")
_OUTER_THIS, _OUTER_OTHER = ("KSTREAM-OUTERTHIS-", "-outer-this-join"), ("KSTREAM-OUTEROTHER-", "-outer-other-join")
_SIDES = {"inner": (_THIS, _OTHER), "left": (_THIS, _OUTER_OTHER), "outer": (_OUTER_THIS, _OUTER_OTHER)}
"""Kafka's names of the sides of a join and of their stores: numbered, and as suffixes of the user's name."""


def emit_join_streams(
    graph: GraphBuilder,
    left: StreamFlow,
    right: StreamFlow,
    join: JoinSpec,
    windows: JoinWindows,
    options: StreamJoined,
) -> StreamFlow:
    """Write a join of two streams into a graph."""
    name = options.name
    this = _repartitioned(graph, left, name and f"{name}-left", options, options.value_serde)
    other = _repartitioned(graph, right, name and f"{name}-right", options, options.other_value_serde)
    sources = graph.co_partition((*this.sources, *other.sources))
    windowed = [graph.name_or_new(name, "KSTREAM-WINDOWED-", f"-{word}-windowed") for word in ("this", "other")]
    numbered = [graph.new_name(prefix) for prefix, _ in _SIDES[join.how]]
    names = [name + suffix for _, suffix in _SIDES[join.how]] if name else numbered
    merge = graph.name_or_new(name, "KSTREAM-MERGE-", "-merge")
    stores = _stores(graph, (this, other), join.how, windows, options, numbered)
    sides = [
        graph.add(WindowedStream(name=each, operator=JoinWindow(store.name), store=store), flow.node).id
        for each, store, flow in zip(windowed, stores, (this, other), strict=False)
    ]
    spans = (windows.before_ms, windows.after_ms, windows.grace_ms, join.joiner, join.with_key)
    shared = (stores[2].name if stores[2:] else None, merge)
    node = StreamJoin(
        name=merge,
        operator=PassThrough(),
        this=(names[0], StreamStreamJoin(True, stores[1].name, *spans, join.is_left, *shared)),  # noqa: FBT003
        other=(names[1], StreamStreamJoin(False, stores[0].name, *spans, join.how == "outer", *shared)),  # noqa: FBT003
        alone=StreamSelfJoin(stores[0].name, *spans),
        uses=tuple(sides),
        own=tuple(stores[2:]),
    )
    node = graph.add(node, this.node, other.node)
    return StreamFlow(node.id, node.name, options.key_serde, None, sources)


def _stores(
    graph: GraphBuilder,
    flows: tuple[StreamFlow, StreamFlow],
    how: How,
    windows: JoinWindows,
    options: StreamJoined,
    numbered: list[str],
) -> list[StoreSpec]:
    """Return the stores of both sides, and that of pending records if some wait for partners."""
    base, supplied = options.store_name, (options.this_store, options.other_store)
    serdes = (options.value_serde or flows[0].value_serde, options.other_value_serde or flows[1].value_serde)
    key_serde = options.key_serde or flows[0].key_serde or flows[1].key_serde
    persistent, logging = graph.is_persistent(options.store_type), options.log_fields
    shared: dict[str, Any] = {"retention_ms": java_long(windows.size_ms + windows.grace_ms), "persistent": persistent}
    shared |= {"window_size_ms": windows.size_ms, "retain_duplicates": True, "headers": "logged", **logging}
    shared["log_config"] += (("cleanup.policy", "delete"),)
    names = [base + suffix for _, suffix in _SIDES[how]] if base is not None else numbered
    stores = []
    for name, value_serde, spec in zip(names, serdes, supplied, strict=True):
        store = StoreSpec(f"{name}-store", "window", key_serde, value_serde, **shared)
        stores.append(store if spec is None else _supplied(spec, store))
    if supplied[0] and supplied[1] and supplied[0].name == supplied[1].name:
        java = "Both StoreSuppliers have the same name.  StoreSuppliers must provide unique names"
        raise TopologyError(f'both stores of a join have the name "{supplied[0].name}"', java=java)
    if how != "inner":
        named = supplied[0].name if supplied[0] else base
        number = numbered[0].rpartition("-")[2]
        name = f"{named}-{how}-shared-join" if named is not None else f"KSTREAM-OUTERSHARED-{number}"
        extra = {"type": "pending_joins", "left_serde": serdes[0], "right_serde": serdes[1]}
        stores.append(StoreSpec(f"{name}-store", "internal", key_serde, persistent=persistent, extra=extra, **logging))
    for store, spec in zip(stores, (*supplied, supplied[0]), strict=False):
        if base is None and spec is None:
            graph.note_unnamed_store(store.name, logged=options.logged)
    return stores[:2] if windows.eager else stores  # eager joins keep nothing pending, but Kafka reserves the name


def _supplied(spec: StoreSpec, wanted: StoreSpec) -> StoreSpec:
    """Return the user's store of a join's side if it fits the windows; raise TopologyError otherwise."""
    if not spec.retain_duplicates:
        java = "The StoreSupplier must set retainDuplicates=true, found retainDuplicates=false"
        raise TopologyError(f'join store "{spec.name}" must retain duplicates', java=java)
    if (spec.retention_ms, spec.window_size_ms) != (wanted.retention_ms, wanted.window_size_ms):
        fact = f'store "{spec.name}" does not fit the windows of its join'
        has = f"its retention is {spec.retention_ms} ms and its window size {spec.window_size_ms} ms"
        detail = f"{has}; the join needs {wanted.retention_ms} ms and {wanted.window_size_ms} ms"
        raise TopologyError(fact, detail=detail, java="Window settings mismatch. WindowBytesStoreSupplier settings")
    # Kafka logs a supplied store as any window store: compacted, even if StreamJoined turns logging off.
    config = (("cleanup.policy", "compact,delete"), *spec.log_config)
    wanted = replace(wanted, logged=spec.logged, log_config=config)
    return replace(wanted, name=spec.name, persistent=spec.persistent, factory=spec.factory)


def emit_join_table(
    graph: GraphBuilder, left: StreamFlow, table: TableFlow, join: JoinSpec, options: Joined
) -> StreamFlow:
    """Write a join of a stream and a table into a graph."""
    this = _repartitioned(graph, left, options.name, options, options.value_serde)
    sources = graph.co_partition((*this.sources, *table.sources))
    name = graph.name_or_new(options.name, "KSTREAM-LEFTJOIN-" if join.is_left else "KSTREAM-JOIN-")
    view = look_up(graph, table.node)
    key_serde = options.key_serde or this.key_serde
    grace_ms = None if options.grace is None else duration_ms(options.grace, "grace")
    own: tuple[StoreSpec, ...] = ()
    if grace_ms is not None:
        check_history(graph, table.node, grace_ms)
        extra = {"type": "join_buffer", "grace_ms": grace_ms}
        value_serde = options.value_serde or this.value_serde
        own = (StoreSpec(f"{name}-Buffer", "internal", key_serde, value_serde, extra=extra),)
        if options.name is None:
            graph.note_unnamed_store(own[0].name)
    store = own[0].name if own else None
    operator = StreamTableJoin(view, join.joiner, join.with_key, join.is_left, grace_ms, store)
    node = graph.step(name, operator, this.node, stores=view.stores, own=own, uses=(table.node,))
    return StreamFlow(node.id, name, key_serde, None, sources)


def emit_join_global(
    graph: GraphBuilder,
    left: StreamFlow,
    table: GlobalFlow,
    join: JoinSpec,
    key_selector: UserFunction,
    options: GlobalJoined,
) -> StreamFlow:
    """Write a join of a stream and a global table into a graph."""
    name = graph.name_or_new(options.name, "KSTREAM-LEFTJOIN-")
    view = MaterializedView(table.store)
    operator = StreamTableJoin(view, join.joiner, join.with_key, join.is_left, key_selector=key_selector)
    node = graph.step(name, operator, left.node, uses=(table.node,))
    return StreamFlow(node.id, name, left.key_serde, None, left.sources, left.rekeyed)


def emit_join_tables(
    graph: GraphBuilder, left: TableFlow, right: TableFlow, join: JoinSpec, table: Materialization
) -> TableFlow:
    """Write ``join_tables`` into a graph."""
    name, options, how, joiner = table.name, table.options, join.how, join.joiner
    store_name = table.new_store(graph, "KTABLE-MERGE-") if table.explicit else None
    merge = graph.name_or_new(name, "KTABLE-MERGE-")
    sources = graph.co_partition((*left.sources, *right.sources))
    for flow in {"inner": (), "left": (left,), "outer": (left, right)}[how]:
        send_old(graph, flow.node)
    views = (look_up(graph, left.node), look_up(graph, right.node))
    key_serde = options.key_serde or left.key_serde
    sides = []
    for word, flow, view in (("this", left, views[1]), ("other", right, views[0])):
        side = graph.name_or_new(name, f"KTABLE-JOIN{word.upper()}-", f"-join-{word}")
        operator = TableTableJoin(word == "this", how, view, joiner, versioned=is_versioned(graph, flow.node))
        sides.append((side, flow.node, operator, view.stores))
    fields: dict[str, Any] = {"operator": TableJoinMerge(store_name), "view": JoinView(how, *views, joiner)}
    fields |= {"versioned": False, "computed_from": (left.node, right.node), "sides": tuple(sides)}
    if store_name is not None:
        fields |= table_fields(row_store(graph, table, store_name, key_serde=key_serde))
    node = graph.add(TableJoin(name=merge, **fields), left.node, right.node)
    return TableFlow(node.id, merge, key_serde, options.value_serde, sources, store_name)


_FK = "KTABLE-FK-JOIN-SUBSCRIPTION"


def emit_join_foreign(
    graph: GraphBuilder,
    left: TableFlow,
    right: TableFlow,
    join: JoinSpec,
    table: Materialization,
    key_of: UserFunction,
    options: TableJoined,
) -> TableFlow:
    """Write ``join_foreign`` into a graph."""
    send_old(graph, right.node)
    send_old(graph, left.node)
    name = options.name
    topic = graph.name_or_new(name, f"{_FK}-REGISTRATION-", "-subscription-registration") + "-topic"
    send_name = graph.name_or_new(name, f"{_FK}-REGISTRATION-", "-subscription-registration-processor")
    sent = (key_of, join.with_key, join.is_left, right.key_serde, left.value_serde, is_versioned(graph, left.node))
    view = look_up(graph, left.node)
    send = graph.step(send_name, fk.SubscriptionSend(*sent, own_store(view)), left.node)
    to_right: SerdeFields = {"key_serde": right.key_serde, "value_serde": fk.SubscriptionSerde(left.key_serde)}
    other = options.other_partitioner
    chosen = fk.TablePartitioner(other) if other else partitioner_of(right.key_serde)
    subscribed = _through(graph, name, "-subscription-registration", topic, [send.id], chosen, to_right)
    graph.co_partition((*right.sources, subscribed.name))
    answers = _answers(graph, name, left, right, subscribed)
    topic = graph.name_or_new(name, f"{_FK}-RESPONSE-", "-subscription-response") + "-topic"
    to_left: SerdeFields = {"key_serde": left.key_serde, "value_serde": fk.ResponseSerde(right.value_serde)}
    home = fk.TablePartitioner(options.partitioner) if options.partitioner else by_home
    answered = _through(graph, name, "-subscription-response", topic, answers, home, to_left)
    sources = graph.co_partition((*left.sources, answered.name))
    resolve_name = graph.name_or_new(name, f"{_FK}-RESPONSE-RESOLVER-PROCESSOR-", "-subscription-response-resolver")
    operator = SubscriptionResolve(view, join.joiner, join.is_left, left.value_serde)
    resolve = graph.step(resolve_name, operator, answered.id, stores=view.stores, uses=(left.node,))
    result = graph.name_or_new(name, "KTABLE-FK-JOIN-OUTPUT-", "-result")
    store_name = table.new_store(graph, "KTABLE-FK-JOIN-OUTPUT-")
    store = row_store(graph, table, store_name, key_serde=left.key_serde)
    return lazy_table(graph, result, store, table, resolve.id, sources)


def _through(
    graph: GraphBuilder,
    name: str | None,
    suffix: str,
    topic: str,
    parents: list[int],
    partitioner: StreamPartitioner | None,
    serdes: SerdeFields,
) -> Repartition:
    """Add an internal topic, from its sink to the source below it."""
    sink = graph.name_or_new(name, "KTABLE-SINK-", f"{suffix}-sink")
    source = graph.name_or_new(name, "KTABLE-SOURCE-", f"{suffix}-source")
    node = Repartition(name=source, topic=topic, sink_name=sink, partitioner=partitioner, **serdes)
    return graph.add(node, *parents)


def _answers(graph: GraphBuilder, name: str | None, left: TableFlow, right: TableFlow, sent: Repartition) -> list[int]:
    """Add the right table's side: it stores subscriptions and answers them, at once and at every change."""
    store = graph.name_or_new(name, f"{_FK}-STATE-STORE-", "-subscription-store")
    kept, extra = (Serdes.bytes(), fk.SubscriptionSerde(left.key_serde)), {"type": "subscriptions"}
    spec = StoreSpec(store, "timestamped_key_value", *kept, persistent=graph.persistent, headers="logged", extra=extra)
    graph.add(StateStore(name=store, store=spec))
    serdes = (right.key_serde, left.key_serde)
    receive_name = graph.name_or_new(name, f"{_FK}-PROCESSOR-", "-subscription-receive")
    receive = graph.step(receive_name, fk.SubscriptionReceive(store, *serdes), sent.id, stores=(store,))
    view = look_up(graph, right.node)
    join_name = graph.name_or_new(name, f"{_FK}-PROCESSOR-", "-subscription-join-foreign")
    answer = fk.SubscriptionJoin(view, right.value_serde)
    joined = graph.step(join_name, answer, receive.id, stores=view.stores, uses=(right.node,))
    side_name = graph.name_or_new(name, f"{_FK}-PROCESSOR-", "-foreign-join-subscription")
    tell = fk.ForeignTableJoin(store, *serdes, is_versioned(graph, right.node), own_store(view), right.value_serde)
    return [joined.id, graph.step(side_name, tell, right.node, stores=(store,)).id]
