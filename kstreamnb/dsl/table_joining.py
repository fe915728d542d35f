"""Joins of a table with another: by key, or by a foreign key that each row of the left table names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NotRequired, Unpack

from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.dsl.flows import TableFlow
from kstreamnb.dsl.materializing import Keeping, kept, rows_store
from kstreamnb.dsl.options import K, Kept, TableJoined, V, given, spelled_out
from kstreamnb.dsl.routing import lazy_table
from kstreamnb.errors import TopologyError
from kstreamnb.graph.demands import is_versioned, look_up, send_old
from kstreamnb.graph.draft import Draft
from kstreamnb.graph.nodes import Sink, StateStore, StreamSource, TableJoin
from kstreamnb.processors.foreign_key_join import ForeignTableJoin, SubscriptionJoin
from kstreamnb.processors.foreign_key_messages import ResponseSerde, SubscriptionSerde
from kstreamnb.processors.foreign_key_receive import SubscriptionReceive
from kstreamnb.processors.foreign_key_resolve import SubscriptionResolve
from kstreamnb.processors.foreign_key_send import SubscriptionSend
from kstreamnb.processors.foreign_key_serde import ResponsePartitioner, SubscriptionPartitioner
from kstreamnb.processors.join_table_merge import TableJoinMerge
from kstreamnb.processors.join_table_table import How, TableTableJoin
from kstreamnb.processors.join_view import JoinView
from kstreamnb.processors.table_view import StoreView

if TYPE_CHECKING:  # the front class lists these functions
    from kstreamnb.dsl.ktable import KTable


class TableJoinOptions(Kept):
    """Keywords of a table's joins: those of `TableJoined`, the foreign key's extractor, and where rows are kept."""

    joiner: NotRequired[Callable[[Any, Any], Any] | None]
    foreign_key: NotRequired[Callable[..., Any] | None]
    with_key: NotRequired[bool]
    table_joined: NotRequired[TableJoined | None]
    partitioner: NotRequired[Any]
    other_partitioner: NotRequired[Any]


@spelled_out
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

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> builder = StreamsBuilder()
        >>> orders, users = builder.table("orders"), builder.table("users")
        >>> sold = lambda order, name: f"{order[1]} for {name}"
        >>> joined = orders.join(users, sold, foreign_key=lambda order: order[0])
        >>> head(joined, {"users": [("u1", "Ann")], "orders": [("o1", ["u1", "hat"]), ("o2", ["u2", "cap"])]})
        [('o1', 'hat for Ann', 1)]

    Source: Kafka Streams `KTable#join`, KIP-213; differences: none.
    """
    return _declare(self, other, "join", "inner", functions, options)


@spelled_out
def left_join(
    self: KTable[K, V], other: KTable[Any, Any], *functions: Callable[..., Any], **options: Unpack[TableJoinOptions]
) -> KTable[K, Any]:
    """Join as `join` does, and keep rows of this table that find no partner, with None in its place.

    Shape: KTable[K, V], KTable[K, V2] -> KTable[K, V3]; a change -> changes; key kept; store: as `join`; repartition:
        as `join`.
    Late: a change of a versioned table that is not its key's latest is dropped.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> builder = StreamsBuilder()
        >>> joined = builder.table("prices").left_join(builder.table("names"), lambda price, name: f"{name}: {price}")
        >>> head(joined, {"prices": [("hat", 12)], "names": [("hat", "Hat")]})
        [('hat', 'None: 12', 0), ('hat', 'Hat: 12', 1)]

    Source: Kafka Streams `KTable#leftJoin`, KIP-213; differences: none.
    """
    return _declare(self, other, "left_join", "left", functions, options)


@spelled_out
def outer_join(
    self: KTable[K, V], other: KTable[Any, Any], *functions: Callable[..., Any], **options: Unpack[TableJoinOptions]
) -> KTable[K, Any]:
    """Join by key as `join` does, and keep rows of both tables that find no partner, with None in its place.

    Shape: KTable[K, V], KTable[K, V2] -> KTable[K, V3]; a change -> at most one; key kept; store: as `join`;
        repartition: no.
    Late: a change of a versioned table that is not its key's latest is dropped.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> builder = StreamsBuilder()
        >>> joined = builder.table("left").outer_join(builder.table("right"), lambda a, b: f"{a}+{b}")
        >>> head(joined, {"right": [("a", 2)], "left": [("a", 1)]})
        [('a', 'None+2', 0), ('a', '1+2', 1)]

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
    joined, *partitioners = (said.pop(word, None) for word in ("table_joined", "partitioner", "other_partitioner"))
    with_key, foreign_key = said.pop("with_key", False), said.pop("foreign_key", None)
    if (joiner := said.pop("joiner", None)) is not None:
        functions = (*functions, joiner)
    if len(functions) == 2:
        foreign_key, *functions = functions
    if len(functions) != 1:
        raise TopologyError(f'"{verb}" takes a joiner, or a foreign key and a joiner')
    keeping = kept(said)
    arguments = {"how": how, "joiner": functions[0], "keeping": keeping}
    if foreign_key is None:
        return self.declare("table", verb, _join_tables, other, **arguments)
    if how == "outer":
        raise TopologyError("there is no outer join by a foreign key", hint="use left_join")
    partitioner, other_partitioner = partitioners
    of_table = {"partitioner": partitioner, "other_partitioner": other_partitioner, "name": keeping.name}
    tables = given(TableJoined, joined, **of_table)
    arguments.update(foreign_key=foreign_key, with_key=with_key, options=tables)
    return self.declare("table", verb, _join_foreign, other, **arguments)


# --- in the graph -----------------------------------------------------------------------------------------------------
def _join_tables(draft: Draft, left: TableFlow, right: TableFlow, how: How, joiner: Any, keeping: Keeping) -> TableFlow:
    name, options = keeping.name, keeping.options
    store_name = None if keeping.said is None else keeping.new_store(draft, "KTABLE-MERGE-")
    merge = draft.name_or_new(name, "KTABLE-MERGE-")
    sources = tuple(dict.fromkeys((*left.sources, *right.sources)))
    draft.co_partition(sources)
    if how != "inner":
        send_old(draft, left.node)
    if how == "outer":
        send_old(draft, right.node)
    views = (look_up(draft, left.node), look_up(draft, right.node))
    this_name = draft.name_or_new(name, "KTABLE-JOINTHIS-", "-join-this")
    other_name = draft.name_or_new(name, "KTABLE-JOINOTHER-", "-join-other")
    key_serde = options.key_serde or left.key_serde
    store = rows_store(draft, keeping, store_name, key_serde) if store_name else None
    versioned = store is not None and store.kind == "versioned"
    sides = []
    for side, is_left, flow, view in ((this_name, True, left, views[1]), (other_name, False, right, views[0])):
        operator = TableTableJoin(is_left, how, view, joiner, versioned=is_versioned(draft, flow.node))
        sides.append((side, flow.node, operator, view.stores))
    node = TableJoin(
        name=merge,
        operator=TableJoinMerge(store_name),
        view=StoreView(store_name, versioned) if store_name else JoinView(how, *views, joiner),
        store=store,
        versioned=versioned,
        computed_from=(left.node, right.node),
        sides=tuple(sides),
    )
    node = draft.add(node, left.node, right.node)
    return TableFlow(node.id, merge, key_serde, options.value_serde, sources, store_name)


_FK = "KTABLE-FK-JOIN-SUBSCRIPTION"


def _join_foreign(
    draft: Draft,
    left: TableFlow,
    right: TableFlow,
    how: How,
    joiner: Any,
    keeping: Keeping,
    foreign_key: Any,
    with_key: bool,
    options: TableJoined,
) -> TableFlow:
    send_old(draft, right.node)
    send_old(draft, left.node)
    name, is_left = options.name, how == "left"
    topic = draft.name_or_new(name, f"{_FK}-REGISTRATION-", "-subscription-registration") + "-topic"
    send = draft.step(
        draft.name_or_new(name, f"{_FK}-REGISTRATION-", "-subscription-registration-processor"),
        SubscriptionSend(
            foreign_key, with_key, is_left, right.key_serde, left.value_serde, is_versioned(draft, left.node)
        ),
        left.node,
    )
    to_right = {"key_serde": right.key_serde, "value_serde": SubscriptionSerde(left.key_serde)}
    chosen = SubscriptionPartitioner(options.other_partitioner) if options.other_partitioner else None
    subscribed = _through(draft, name, "-subscription-registration", topic, [send.id], chosen, to_right)
    draft.co_partition((*right.sources, subscribed.name))
    answers = _answers(draft, name, left, right, subscribed)
    topic = draft.name_or_new(name, f"{_FK}-RESPONSE-", "-subscription-response") + "-topic"
    to_left = {"key_serde": left.key_serde, "value_serde": ResponseSerde(right.value_serde)}
    home = ResponsePartitioner(options.partitioner)
    answered = _through(draft, name, "-subscription-response", topic, answers, home, to_left)
    sources = tuple(dict.fromkeys((*left.sources, answered.name)))
    draft.co_partition(sources)
    view = look_up(draft, left.node)
    resolve = draft.step(
        draft.name_or_new(name, f"{_FK}-RESPONSE-RESOLVER-PROCESSOR-", "-subscription-response-resolver"),
        SubscriptionResolve(view, joiner, is_left, left.value_serde),
        answered.id,
        stores=view.stores,
        uses=(left.node,),
    )
    result = draft.name_or_new(name, "KTABLE-FK-JOIN-OUTPUT-", "-result")
    store_name = keeping.new_store(draft, "KTABLE-FK-JOIN-OUTPUT-")
    store = rows_store(draft, keeping, store_name, left.key_serde)
    return lazy_table(draft, result, store, keeping.store_name, resolve.id, sources)


def _through(
    draft: Draft, name: str | None, suffix: str, topic: str, parents: list[int], partitioner: Any, serdes: Any
) -> StreamSource:
    """A sink to an internal topic and the source behind it."""
    sink = draft.name_or_new(name, "KTABLE-SINK-", f"{suffix}-sink")
    node = Sink(name=sink, topic=topic, internal=True, partitioner=partitioner, **serdes)
    node = draft.add(node, *parents)
    source = draft.name_or_new(name, "KTABLE-SOURCE-", f"{suffix}-source")
    return draft.add(StreamSource(name=source, topics=(topic,), **serdes), node.id)


def _answers(draft: Draft, name: str | None, left: TableFlow, right: TableFlow, subscribed: StreamSource) -> list[int]:
    """What stands where the right table is: subscriptions are kept and answered, now and at every change."""
    store = draft.name_or_new(name, f"{_FK}-STATE-STORE-", "-subscription-store")
    spec = StoreSpec(
        store,
        "timestamped_key_value",
        Serdes.bytes(),
        SubscriptionSerde(left.key_serde),
        persistent=draft.persistent,
        extra={"type": "subscriptions"},
    )
    draft.add(StateStore(name=store, store=spec))
    serdes = (right.key_serde, left.key_serde)
    receive_name = draft.name_or_new(name, f"{_FK}-PROCESSOR-", "-subscription-receive")
    receive = draft.step(receive_name, SubscriptionReceive(store, *serdes), subscribed.id, stores=(store,))
    view = look_up(draft, right.node)
    join_name = draft.name_or_new(name, f"{_FK}-PROCESSOR-", "-subscription-join-foreign")
    uses = {"stores": view.stores, "uses": (right.node,)}
    joined = draft.step(join_name, SubscriptionJoin(view), receive.id, **uses)
    side_name = draft.name_or_new(name, f"{_FK}-PROCESSOR-", "-foreign-join-subscription")
    tell = ForeignTableJoin(store, *serdes, is_versioned(draft, right.node))
    return [joined.id, draft.step(side_name, tell, right.node, stores=(store,)).id]
