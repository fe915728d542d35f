"""Joins of a table with another: by key, or by a foreign key that each row of the left table names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NotRequired, TypeVar, Unpack

from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.dsl.flows import TableFlow
from kstreamnb.dsl.materializing import kept, named_store, rows_store
from kstreamnb.dsl.options import Kept, Materialized, TableJoined, given
from kstreamnb.errors import TopologyError
from kstreamnb.graph.draft import Draft
from kstreamnb.graph.join_nodes import (
    ForeignReceive,
    ForeignResolve,
    ForeignSend,
    ForeignSide,
    How,
    SubscriptionJoin,
    TableJoin,
)
from kstreamnb.graph.nodes import Sink, StateStore, StreamSource
from kstreamnb.graph.table_nodes import ForeignResult
from kstreamnb.processors.foreign_key_messages import ResponseSerde, SubscriptionSerde
from kstreamnb.processors.foreign_key_serde import ResponsePartitioner, SubscriptionPartitioner

if TYPE_CHECKING:  # the front class lists these functions
    from kstreamnb.dsl.ktable import KTable

__all__ = ["join", "left_join", "outer_join"]

K = TypeVar("K")
V = TypeVar("V")


class TableJoinOptions(Kept):
    """Keywords of a table's joins: those of `TableJoined`, the foreign key's extractor, and where rows are kept."""

    foreign_key: NotRequired[Callable[..., Any] | None]
    with_key: NotRequired[bool]
    table_joined: NotRequired[TableJoined | None]
    partitioner: NotRequired[Any]
    other_partitioner: NotRequired[Any]
    name: NotRequired[str | None]


def join(
    self: KTable[K, V], other: KTable[Any, Any], *functions: Callable[..., Any], **options: Unpack[TableJoinOptions]
) -> KTable[K, Any]:
    """Join each row with the other table's row of the same key, or of a foreign key; rows without one are left out.

    - ``join(other, joiner)``: by key;
    - ``join(other, foreign_key, joiner)``, or ``join(other, joiner, foreign_key=…)``: with the row of the key
      ``foreign_key(value)``, or ``foreign_key(key, value)`` when ``with_key``.

    ``joiner(left, right)`` gives the result's value.

    Shape: KTable[K, V], KTable[K, V2] -> KTable[K, V3]; a change -> changes; key kept; store: both tables', and the
        result's when named; repartition: of subscriptions, with a foreign key.
    Late: a change of a versioned table that is not its key's latest is dropped.
    Source: Kafka Streams `KTable#join`, KIP-213; differences: none.
    """
    return _declare(self, other, "join", "inner", functions, options)


def left_join(
    self: KTable[K, V], other: KTable[Any, Any], *functions: Callable[..., Any], **options: Unpack[TableJoinOptions]
) -> KTable[K, Any]:
    """Join as `join` does, and keep rows of this table that find no partner, with None in its place.

    Shape: KTable[K, V], KTable[K, V2] -> KTable[K, V3]; a change -> changes; key kept; store: as `join`; repartition:
        as `join`.
    Late: a change of a versioned table that is not its key's latest is dropped.
    Source: Kafka Streams `KTable#leftJoin`, KIP-213; differences: none.
    """
    return _declare(self, other, "left_join", "left", functions, options)


def outer_join(
    self: KTable[K, V], other: KTable[Any, Any], *functions: Callable[..., Any], **options: Unpack[TableJoinOptions]
) -> KTable[K, Any]:
    """Join by key as `join` does, and keep rows of both tables that find no partner, with None in its place.

    Shape: KTable[K, V], KTable[K, V2] -> KTable[K, V3]; a change -> at most one; key kept; store: as `join`;
        repartition: no.
    Late: a change of a versioned table that is not its key's latest is dropped.
    Source: Kafka Streams `KTable#outerJoin`; differences: none.
    """
    return _declare(self, other, "outer_join", "outer", functions, options)


def _declare(
    self: KTable[K, V], other: KTable[Any, Any], verb: str, how: How, functions: Any, options: Any
) -> KTable[K, Any]:
    """Declare a join by key or by foreign key, as the functions say."""
    if getattr(other, "kind", "") != "table":
        raise TopologyError(f"a table cannot be joined with a {type(other).__name__}")
    said: dict[str, Any] = dict(options)
    of_table = ("table_joined", "partitioner", "other_partitioner", "name")
    joined, partitioner, other_partitioner, name = (said.pop(word, None) for word in of_table)
    with_key, foreign_key = said.pop("with_key", False), said.pop("foreign_key", None)
    if len(functions) == 2:
        foreign_key, *functions = functions
    if len(functions) != 1:
        raise TopologyError(f'"{verb}" takes a joiner, or a foreign key and a joiner')
    arguments = {"how": how, "joiner": functions[0], "materialized": kept(said)}  # type: ignore[arg-type]
    if foreign_key is None:
        return self.declare("table", verb, _join_tables, other, name=name, **arguments)
    if how == "outer":
        raise TopologyError("there is no outer join by a foreign key", hint="use left_join")
    tables = given(TableJoined, joined, partitioner=partitioner, other_partitioner=other_partitioner, name=name)
    arguments.update(foreign_key=foreign_key, with_key=with_key, options=tables)
    return self.declare("table", verb, _join_foreign, other, **arguments)


# --- in the graph -----------------------------------------------------------------------------------------------------
def _join_tables(
    draft: Draft,
    left: TableFlow,
    right: TableFlow,
    how: How,
    joiner: Any,
    name: str | None,
    materialized: Materialized | None,
) -> TableFlow:
    store_name = None if materialized is None else named_store(draft, materialized, "KTABLE-MERGE-")
    merge = draft.name_or_new(name, "KTABLE-MERGE-")
    sources = tuple(dict.fromkeys((*left.sources, *right.sources)))
    draft.co_partition(sources)
    if how != "inner":
        draft.send_old(left.node)
    if how == "outer":
        draft.send_old(right.node)
    draft.materialize(left.node)
    draft.materialize(right.node)
    this_name = draft.name_or_new(name, "KTABLE-JOINTHIS-", "-join-this")
    other_name = draft.name_or_new(name, "KTABLE-JOINOTHER-", "-join-other")
    key_serde = (materialized.key_serde if materialized else None) or left.key_serde
    store = rows_store(draft, materialized, store_name, key_serde) if store_name else None
    node = TableJoin(
        name=merge,
        store=store,
        versioned=store is not None and store.kind == "versioned",
        how=how,
        left=left.node,
        right=right.node,
        joiner=joiner,
        this_name=this_name,
        other_name=other_name,
    )
    node = draft.add(node, left.node, right.node)
    value_serde = materialized.value_serde if materialized else None
    return TableFlow(node.id, merge, key_serde, value_serde, sources, store_name)


def _join_foreign(
    draft: Draft,
    left: TableFlow,
    right: TableFlow,
    how: How,
    joiner: Any,
    materialized: Materialized | None,
    foreign_key: Any,
    with_key: bool,
    options: TableJoined,
) -> TableFlow:
    draft.send_old(right.node)
    draft.send_old(left.node)
    name, is_left = options.name, how == "left"
    topic = draft.name_or_new(name, f"{_FK}-SUBSCRIPTION-REGISTRATION-", "-subscription-registration") + "-topic"
    send = ForeignSend(
        name=draft.name_or_new(name, f"{_FK}-SUBSCRIPTION-REGISTRATION-", "-subscription-registration-processor"),
        foreign_key=foreign_key,
        with_key=with_key,
        left=is_left,
        foreign_key_serde=right.key_serde,
        value_serde=left.value_serde,
    )
    send = draft.add(send, left.node)
    partitioner = SubscriptionPartitioner(options.other_partitioner) if options.other_partitioner else None
    subscribed = _through(
        draft,
        name,
        "-subscription-registration",
        topic,
        [send.id],
        key_serde=right.key_serde,
        value_serde=SubscriptionSerde(left.key_serde),
        partitioner=partitioner,
    )
    draft.co_partition((*right.sources, subscribed.name))
    answers = _answers(draft, name, left, right, subscribed)
    topic = draft.name_or_new(name, f"{_FK}-SUBSCRIPTION-RESPONSE-", "-subscription-response") + "-topic"
    answered = _through(
        draft,
        name,
        "-subscription-response",
        topic,
        answers,
        key_serde=left.key_serde,
        value_serde=ResponseSerde(right.value_serde),
        partitioner=ResponsePartitioner(options.partitioner),
    )
    sources = tuple(dict.fromkeys((*left.sources, answered.name)))
    draft.co_partition(sources)
    draft.materialize(left.node)
    resolve = ForeignResolve(
        name=draft.name_or_new(
            name, f"{_FK}-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-", "-subscription-response-resolver"
        ),
        table=left.node,
        joiner=joiner,
        left=is_left,
        value_serde=left.value_serde,
    )
    resolve = draft.add(resolve, answered.id)
    return _foreign_result(draft, name, left, materialized, sources, resolve.id)


_FK = "KTABLE-FK-JOIN"


def _through(
    draft: Draft, name: str | None, suffix: str, topic: str, parents: list[int], *, partitioner: Any, **serdes: Any
) -> StreamSource:
    """A sink to an internal topic and the source behind it."""
    sink = draft.name_or_new(name, "KTABLE-SINK-", f"{suffix}-sink")
    node = Sink(name=sink, topic=topic, internal=True, partitioner=partitioner, **serdes)
    node = draft.add(node, *parents)
    source = draft.name_or_new(name, "KTABLE-SOURCE-", f"{suffix}-source")
    return draft.add(StreamSource(name=source, topics=(topic,), **serdes), node.id)


def _answers(draft: Draft, name: str | None, left: TableFlow, right: TableFlow, subscribed: StreamSource) -> list[int]:
    """What stands where the right table is: subscriptions are kept and answered, now and at every change."""
    store = draft.name_or_new(name, f"{_FK}-SUBSCRIPTION-STATE-STORE-", "-subscription-store")
    spec = StoreSpec(
        store,
        "timestamped_key_value",
        Serdes.bytes(),
        SubscriptionSerde(left.key_serde),
        persistent=draft.persistent,
        extra={"type": "subscriptions"},
    )
    draft.add(StateStore(name=store, store=spec))
    serdes = {"foreign_key_serde": right.key_serde, "key_serde": left.key_serde}
    receive = ForeignReceive(
        name=draft.name_or_new(name, f"{_FK}-SUBSCRIPTION-PROCESSOR-", "-subscription-receive"), store=store, **serdes
    )
    receive = draft.add(receive, subscribed.id)
    draft.materialize(right.node)
    join_name = draft.name_or_new(name, f"{_FK}-SUBSCRIPTION-PROCESSOR-", "-subscription-join-foreign")
    joined = draft.add(SubscriptionJoin(name=join_name, table=right.node), receive.id)
    side_name = draft.name_or_new(name, f"{_FK}-SUBSCRIPTION-PROCESSOR-", "-foreign-join-subscription")
    side = draft.add(ForeignSide(name=side_name, store=store, **serdes), right.node)
    return [joined.id, side.id]


def _foreign_result(
    draft: Draft,
    name: str | None,
    left: TableFlow,
    materialized: Materialized | None,
    sources: tuple[str, ...],
    parent: int,
) -> TableFlow:
    result = draft.name_or_new(name, f"{_FK}-OUTPUT-", "-result")
    store = rows_store(draft, materialized, named_store(draft, materialized, f"{_FK}-OUTPUT-"), left.key_serde)
    user_name = materialized.store_name if materialized else None
    node = ForeignResult(
        name=result, store=store, materialized=user_name is not None, versioned=store.kind == "versioned"
    )
    node = draft.add(node, parent)
    return TableFlow(node.id, result, left.key_serde, store.value_serde, sources, user_name)
