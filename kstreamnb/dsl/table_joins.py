"""Joins of a table with another table, by key or by a foreign key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, NotRequired, Unpack, cast, overload

from kstreamnb.core.codec import StreamPartitioner
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.signatures import taking
from kstreamnb.core.stores import StoreSpec
from kstreamnb.dsl.declarations import Handle, check_kind
from kstreamnb.dsl.flows import JoinSpec, TableFlow, UserFunction
from kstreamnb.dsl.keywords import MaterializedKeywords, by_keyword, combined, spelled_out
from kstreamnb.dsl.materialization import Materialization, lazy_table, materialization, row_store, table_fields
from kstreamnb.dsl.option_fields import Named, SerdeFields
from kstreamnb.dsl.options import Materialized, TableJoined
from kstreamnb.dsl.tables import TableOption
from kstreamnb.dsl.type_vars import K2, V2, V3, Joiner, K, V
from kstreamnb.errors import TopologyError
from kstreamnb.logical.builder import GraphBuilder, is_versioned, look_up, send_old
from kstreamnb.logical.nodes import Repartition, StateStore, TableJoin
from kstreamnb.operators import foreign_key as fk
from kstreamnb.operators.table_joins import How, JoinView, TableJoinMerge, TableTableJoin

if TYPE_CHECKING:  # streams and tables are made of these classes
    from kstreamnb.dsl.ktable import KTable


class TableJoinKeywords(MaterializedKeywords):
    """Keywords of a join of two tables by a foreign key: those of `TableJoined` and of `Materialized`."""

    table_joined: NotRequired[TableJoined | None]
    partitioner: NotRequired[StreamPartitioner | None]
    other_partitioner: NotRequired[StreamPartitioner | None]


class AllTableJoinKeywords(TableJoinKeywords):
    """Keywords of every join of two tables."""

    joiner: NotRequired[UserFunction | None]
    foreign_key: NotRequired[UserFunction | None]
    with_key: NotRequired[bool]


class TableJoins(Handle, Generic[K, V]):
    """Joins of a table with another table."""

    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Joiner[V, V2, V3],
        *options: TableOption,
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[K, V3]: ...
    @overload
    def join(
        self,
        other: KTable[K2, V2],
        joiner: Joiner[V, V2, V3],
        *options: TableJoined | TableOption,
        foreign_key: Callable[[V], K2 | None],
        with_key: Literal[False] = False,
        **keywords: Unpack[TableJoinKeywords],
    ) -> KTable[K, V3]: ...
    @overload
    def join(
        self,
        other: KTable[K2, V2],
        joiner: Joiner[V, V2, V3],
        *options: TableJoined | TableOption,
        foreign_key: Callable[[K, V], K2 | None],
        with_key: Literal[True],
        **keywords: Unpack[TableJoinKeywords],
    ) -> KTable[K, V3]: ...
    @overload
    def join(
        self,
        other: KTable[K2, V2],
        foreign_key: Callable[[V], K2 | None],
        joiner: Joiner[V, V2, V3],
        *options: TableJoined | TableOption,
        with_key: Literal[False] = False,
        **keywords: Unpack[TableJoinKeywords],
    ) -> KTable[K, V3]: ...
    @overload
    def join(
        self,
        other: KTable[K2, V2],
        foreign_key: Callable[[K, V], K2 | None],
        joiner: Joiner[V, V2, V3],
        *options: TableJoined | TableOption,
        with_key: Literal[True],
        **keywords: Unpack[TableJoinKeywords],
    ) -> KTable[K, V3]: ...
    @spelled_out(TableJoined, Materialized)
    def join(
        self, other: KTable[Any, Any], *functions: Any, **keywords: Unpack[AllTableJoinKeywords]
    ) -> KTable[K, Any]:
        """Join each row with the other table's row of the same key, or of a foreign key; drop rows without one.

        - ``join(other, joiner)``: by key;
        - ``join(other, foreign_key, joiner)``, or ``join(other, joiner, foreign_key=…)``: by a foreign key.

        Shape: KTable[K, V], KTable[K, V2] -> KTable[K, V3]; a change -> changes; key kept; store: both tables', and the
            result's when named; repartition: of subscriptions, with a foreign key.
        Late: a change of a versioned table that is not its key's latest is dropped.

        Args:
            other: the other table, of the same builder.
            functions: the foreign key, if any, and the joiner, by position; a `TableJoined`, a `Named` and a
                `Materialized` may follow, as in Java.
            joiner: function ``(left, right)`` that returns the value of the result.
            foreign_key: function ``(value)`` that returns the key of the other table's row; ``(key, value)`` if
                ``with_key``; None: no partner. Default: join by key.
            with_key: whether the foreign key's function takes the key as well. Default: False.
            table_joined: partitioners and name of a foreign-key join. Default: none.

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
        return _declare(self, other, "join", "inner", functions, keywords)

    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: Joiner[V, V2 | None, V3],
        *options: TableOption,
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[K, V3]: ...
    @overload
    def left_join(
        self,
        other: KTable[K2, V2],
        joiner: Joiner[V, V2 | None, V3],
        *options: TableJoined | TableOption,
        foreign_key: Callable[[V], K2 | None],
        with_key: Literal[False] = False,
        **keywords: Unpack[TableJoinKeywords],
    ) -> KTable[K, V3]: ...
    @overload
    def left_join(
        self,
        other: KTable[K2, V2],
        joiner: Joiner[V, V2 | None, V3],
        *options: TableJoined | TableOption,
        foreign_key: Callable[[K, V], K2 | None],
        with_key: Literal[True],
        **keywords: Unpack[TableJoinKeywords],
    ) -> KTable[K, V3]: ...
    @overload
    def left_join(
        self,
        other: KTable[K2, V2],
        foreign_key: Callable[[V], K2 | None],
        joiner: Joiner[V, V2 | None, V3],
        *options: TableJoined | TableOption,
        with_key: Literal[False] = False,
        **keywords: Unpack[TableJoinKeywords],
    ) -> KTable[K, V3]: ...
    @overload
    def left_join(
        self,
        other: KTable[K2, V2],
        foreign_key: Callable[[K, V], K2 | None],
        joiner: Joiner[V, V2 | None, V3],
        *options: TableJoined | TableOption,
        with_key: Literal[True],
        **keywords: Unpack[TableJoinKeywords],
    ) -> KTable[K, V3]: ...
    @spelled_out(TableJoined, Materialized)
    def left_join(
        self, other: KTable[Any, Any], *functions: Any, **keywords: Unpack[AllTableJoinKeywords]
    ) -> KTable[K, Any]:
        """Join as `join` does, and keep rows of this table without a partner, with None in its place.

        Shape: KTable[K, V], KTable[K, V2] -> KTable[K, V3]; a change -> changes; key kept; store: as `join`;
            repartition: as `join`.
        Late: a change of a versioned table that is not its key's latest is dropped.

        Args:
            other: the other table, of the same builder.
            functions: the foreign key, if any, and the joiner, by position; a `TableJoined`, a `Named` and a
                `Materialized` may follow, as in Java.
            joiner: function ``(left, right)`` that returns the value of the result; ``right`` may be None.
            foreign_key: function ``(value)`` that returns the key of the other table's row; ``(key, value)`` if
                ``with_key``; None: no partner. Default: join by key.
            with_key: whether the foreign key's function takes the key as well. Default: False.
            table_joined: partitioners and name of a foreign-key join. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> builder = StreamsBuilder()
            >>> prices, names = builder.table("prices"), builder.table("names")
            >>> joined = prices.left_join(names, lambda price, name: f"{name}: {price}")
            >>> head(joined, {"prices": [("hat", 12)], "names": [("hat", "Hat")]})
            [('hat', 'None: 12', 0), ('hat', 'Hat: 12', 1)]

        Source: Kafka Streams `KTable#leftJoin`, KIP-213; differences: none.
        """
        return _declare(self, other, "left_join", "left", functions, keywords)

    @spelled_out(Materialized)
    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Joiner[V | None, V2 | None, V3],
        *options: TableOption,
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[K, V3]:
        """Join by key as `join` does, and keep rows of both tables without a partner, with None in its place.

        Shape: KTable[K, V], KTable[K, V2] -> KTable[K, V3]; a change -> at most one; key kept; store: as `join`;
            repartition: no.
        Late: a change of a versioned table that is not its key's latest is dropped.

        Args:
            other: the other table, of the same builder.
            joiner: function ``(left, right)`` that returns the value of the result; one of them may be None.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> builder = StreamsBuilder()
            >>> joined = builder.table("left").outer_join(builder.table("right"), lambda a, b: f"{a}+{b}")
            >>> head(joined, {"right": [("a", 2)], "left": [("a", 1)]})
            [('a', 'None+2', 0), ('a', '1+2', 1)]

        Source: Kafka Streams `KTable#outerJoin`; differences: none.
        """
        return _declare(self, other, "outer_join", "outer", (joiner, *options), keywords)


def _declare(
    left: Handle, right: Handle, word: str, how: How, arguments: tuple[object, ...], keywords: Mapping[str, object]
) -> KTable[K, V3]:
    """Declare a join by key or by foreign key, as the functions say."""
    check_kind(right, "table", word)
    positional = [each for each in arguments if not isinstance(each, _OPTIONS)]
    options = [each for each in arguments if isinstance(each, _OPTIONS)]
    fields = by_keyword(options, keywords, table_joined=TableJoined, materialized=Materialized, name=Named)
    functions = dict(zip(("foreign_key", "joiner")[-len(positional) :], positional, strict=False))
    functions |= {name: fields.pop(name) for name in ("foreign_key", "joiner") if name in fields}
    with_key = bool(fields.pop("with_key", False))
    if "joiner" not in functions or len(positional) > 2:
        raise TopologyError(f'"{word}" takes a joiner, or a foreign key and a joiner')
    join = JoinSpec(how, cast("UserFunction", taking(functions["joiner"], "left", "right")), with_key)
    joined = cast("TableJoined | None", fields.pop("table_joined", None))
    partitioners = {name: fields.pop(name) for name in ("partitioner", "other_partitioner") if name in fields}
    table = materialization((), fields)
    if "foreign_key" not in functions:
        return left.declare("table", word, _join_tables, right, join=join, table=table)
    if how == "outer":
        raise TopologyError("there is no outer join by a foreign key", hint="use left_join")
    key_of = taking(functions["foreign_key"], "value", key=with_key)
    tables = combined(TableJoined, joined, name=table.name, **partitioners)
    return left.declare("table", word, _join_foreign, right, join=join, table=table, key_of=key_of, options=tables)


_OPTIONS = (TableJoined, Named, Materialized)


# --- in the graph -----------------------------------------------------------------------------------------------------
def _join_tables(
    graph: GraphBuilder, left: TableFlow, right: TableFlow, join: JoinSpec, table: Materialization
) -> TableFlow:
    name, options, how, joiner = table.name, table.options, join.how, join.joiner
    store_name = table.new_store(graph, "KTABLE-MERGE-") if table.explicit else None
    merge = graph.name_or_new(name, "KTABLE-MERGE-")
    sources = graph.co_partition((*left.sources, *right.sources))
    if how != "inner":
        send_old(graph, left.node)
    if how == "outer":
        send_old(graph, right.node)
    views = (look_up(graph, left.node), look_up(graph, right.node))
    this_name = graph.name_or_new(name, "KTABLE-JOINTHIS-", "-join-this")
    other_name = graph.name_or_new(name, "KTABLE-JOINOTHER-", "-join-other")
    key_serde = options.key_serde or left.key_serde
    sides = []
    for side, is_left, flow, view in ((this_name, True, left, views[1]), (other_name, False, right, views[0])):
        operator = TableTableJoin(is_left, how, view, joiner, versioned=is_versioned(graph, flow.node))
        sides.append((side, flow.node, operator, view.stores))
    node = TableJoin(
        name=merge,
        operator=TableJoinMerge(store_name),
        view=JoinView(how, *views, joiner),
        versioned=False,
        computed_from=(left.node, right.node),
        sides=tuple(sides),
    )
    if store_name is not None:
        node = replace(node, **table_fields(row_store(graph, table, store_name, key_serde)))
    node = graph.add(node, left.node, right.node)
    return TableFlow(node.id, merge, key_serde, options.value_serde, sources, store_name)


_FK = "KTABLE-FK-JOIN-SUBSCRIPTION"


def _join_foreign(
    graph: GraphBuilder,
    left: TableFlow,
    right: TableFlow,
    join: JoinSpec,
    table: Materialization,
    key_of: UserFunction,
    options: TableJoined,
) -> TableFlow:
    send_old(graph, right.node)
    send_old(graph, left.node)
    name = options.name
    topic = graph.name_or_new(name, f"{_FK}-REGISTRATION-", "-subscription-registration") + "-topic"
    send_name = graph.name_or_new(name, f"{_FK}-REGISTRATION-", "-subscription-registration-processor")
    sent = (key_of, join.with_key, join.is_left, right.key_serde, left.value_serde, is_versioned(graph, left.node))
    send = graph.step(send_name, fk.SubscriptionSend(*sent), left.node)
    to_right: SerdeFields = {"key_serde": right.key_serde, "value_serde": fk.SubscriptionSerde(left.key_serde)}
    chosen = fk.SubscriptionPartitioner(options.other_partitioner) if options.other_partitioner else None
    subscribed = _through(graph, name, "-subscription-registration", topic, [send.id], chosen, **to_right)
    graph.co_partition((*right.sources, subscribed.name))
    answers = _answers(graph, name, left, right, subscribed)
    topic = graph.name_or_new(name, f"{_FK}-RESPONSE-", "-subscription-response") + "-topic"
    to_left: SerdeFields = {"key_serde": left.key_serde, "value_serde": fk.ResponseSerde(right.value_serde)}
    home = fk.ResponsePartitioner(options.partitioner)
    answered = _through(graph, name, "-subscription-response", topic, answers, home, **to_left)
    sources = graph.co_partition((*left.sources, answered.name))
    view = look_up(graph, left.node)
    resolve_name = graph.name_or_new(name, f"{_FK}-RESPONSE-RESOLVER-PROCESSOR-", "-subscription-response-resolver")
    operator = fk.SubscriptionResolve(view, join.joiner, join.is_left, left.value_serde)
    resolve = graph.step(resolve_name, operator, answered.id, stores=view.stores, uses=(left.node,))
    result = graph.name_or_new(name, "KTABLE-FK-JOIN-OUTPUT-", "-result")
    store_name = table.new_store(graph, "KTABLE-FK-JOIN-OUTPUT-")
    store = row_store(graph, table, store_name, left.key_serde)
    return lazy_table(graph, result, store, table, resolve.id, sources)


def _through(
    graph: GraphBuilder,
    name: str | None,
    suffix: str,
    topic: str,
    parents: list[int],
    partitioner: fk.SubscriptionPartitioner | fk.ResponsePartitioner | None,
    **serdes: Unpack[SerdeFields],
) -> Repartition:
    """Add an internal topic, from its sink to the source below it."""
    sink = graph.name_or_new(name, "KTABLE-SINK-", f"{suffix}-sink")
    source = graph.name_or_new(name, "KTABLE-SOURCE-", f"{suffix}-source")
    node = Repartition(name=source, topic=topic, sink_name=sink, partitioner=partitioner, **serdes)
    return graph.add(node, *parents)


def _answers(
    graph: GraphBuilder, name: str | None, left: TableFlow, right: TableFlow, subscribed: Repartition
) -> list[int]:
    """Add the right table's side: it stores subscriptions and answers them, at once and at every change."""
    store = graph.name_or_new(name, f"{_FK}-STATE-STORE-", "-subscription-store")
    value_serde, extra = fk.SubscriptionSerde(left.key_serde), {"type": "subscriptions"}
    persistent = graph.persistent
    spec = StoreSpec(store, "timestamped_key_value", Serdes.bytes(), value_serde, persistent=persistent, extra=extra)
    graph.add(StateStore(name=store, store=spec))
    serdes = (right.key_serde, left.key_serde)
    receive_name = graph.name_or_new(name, f"{_FK}-PROCESSOR-", "-subscription-receive")
    receive = graph.step(receive_name, fk.SubscriptionReceive(store, *serdes), subscribed.id, stores=(store,))
    view = look_up(graph, right.node)
    join_name = graph.name_or_new(name, f"{_FK}-PROCESSOR-", "-subscription-join-foreign")
    joined = graph.step(join_name, fk.SubscriptionJoin(view), receive.id, stores=view.stores, uses=(right.node,))
    side_name = graph.name_or_new(name, f"{_FK}-PROCESSOR-", "-foreign-join-subscription")
    tell = fk.ForeignTableJoin(store, *serdes, is_versioned(graph, right.node))
    return [joined.id, graph.step(side_name, tell, right.node, stores=(store,)).id]
