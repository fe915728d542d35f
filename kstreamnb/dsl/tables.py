"""Operators of a table: filter, map, hand on as a stream, hold back, and join, by key or by a foreign key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NotRequired, Unpack

from kstreamnb.core.serdes import Serdes
from kstreamnb.core.signatures import RECORD, taking
from kstreamnb.core.stores import StoreSpec
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.flows import Joining, StreamFlow, TableFlow
from kstreamnb.dsl.materializing import Keeping, kept, kept_in, lazy_table, rows_store
from kstreamnb.dsl.options import V2, K, Kept, Suppressed, TableJoined, V, given, serdes_of, spelled_out
from kstreamnb.dsl.streams import transform
from kstreamnb.errors import TopologyError
from kstreamnb.logical.builder import GraphBuilder, is_versioned, look_up, send_old, view_of
from kstreamnb.logical.nodes import Repartition, StateStore, Table, TableJoin
from kstreamnb.operators import foreign_key as fk
from kstreamnb.operators.derived_tables import DerivedView, TableFilter, TableMapValues, TableTransformValues
from kstreamnb.operators.stateless import SelectKey, TableToStream
from kstreamnb.operators.table_joins import How, JoinView, TableJoinMerge, TableTableJoin
from kstreamnb.operators.tables import Suppress, SuppressView
from kstreamnb.topology.validation import supplied_stores

if TYPE_CHECKING:  # the fronts are made of these classes
    from kstreamnb.dsl.fronts import KStream, KTable


class TableJoinOptions(Kept):
    """Keywords of a table's joins: those of `TableJoined`, the foreign key's extractor, and where rows are kept."""

    joiner: NotRequired[Callable[[Any, Any], Any] | None]
    foreign_key: NotRequired[Callable[..., Any] | None]
    with_key: NotRequired[bool]
    table_joined: NotRequired[TableJoined | None]
    partitioner: NotRequired[Any]
    other_partitioner: NotRequired[Any]


class TableOperators(Handle, Generic[K, V]):
    """What a table does to its rows, and with those of other tables."""

    @spelled_out
    def filter(self, predicate: Callable[[K, V], Any], **options: Unpack[Kept]) -> KTable[K, V]:
        """Keep the rows for which ``predicate(key, value)`` holds; a row that no longer does is deleted.

        Shape: KTable[K, V] -> KTable[K, V]; 1 -> at most 1; key kept; store: when named; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> prices = StreamsBuilder().table("prices", store="prices")
            >>> head(prices.filter(lambda sku, price: price > 9), {"prices": [("hat", 12), ("hat", 8), ("cap", 5)]})
            [('hat', 12, 0), ('hat', None, 1)]

        Source: Kafka Streams `KTable#filter`; differences: none (a miss is a tombstone, too, unless the table knows its
            old values).
        """
        predicate = taking(predicate, *RECORD)
        return self.declare("table", "filter", _filter, predicate=predicate, negate=False, keeping=kept(options))

    @spelled_out
    def filter_not(self, predicate: Callable[[K, V], Any], **options: Unpack[Kept]) -> KTable[K, V]:
        """Keep the rows for which ``predicate(key, value)`` does not hold; a row for which it comes to hold is deleted.

        Shape: KTable[K, V] -> KTable[K, V]; 1 -> at most 1; key kept; store: when named; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> prices = StreamsBuilder().table("prices", store="prices")
            >>> head(prices.filter_not(lambda sku, price: price > 9), {"prices": [("hat", 12), ("cap", 5)]})
            [('cap', 5, 1)]

        Source: Kafka Streams `KTable#filterNot`; differences: none.
        """
        predicate = taking(predicate, *RECORD)
        return self.declare("table", "filter_not", _filter, predicate=predicate, negate=True, keeping=kept(options))

    @spelled_out
    def map_values(
        self, mapper: Callable[..., V2], *, with_key: bool = False, **options: Unpack[Kept]
    ) -> KTable[K, V2]:
        """Replace each row's value by ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``.

        Shape: KTable[K, V] -> KTable[K, V2]; 1 -> 1; key kept; store: when named; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> prices = StreamsBuilder().table("prices")
            >>> head(prices.map_values(lambda price: price * 2), {"prices": [("hat", 12), ("hat", None)]})
            [('hat', 24, 0), ('hat', None, 1)]

        Source: Kafka Streams `KTable#mapValues`; differences: ``with_key`` stands for `ValueMapperWithKey`.
        """
        mapper = taking(mapper, "value", key=with_key)
        return self.declare("table", "map_values", _map_values, mapper=mapper, with_key=with_key, keeping=kept(options))

    def to_stream(self, mapper: Callable[[K, V], Any] | None = None, *, name: str | None = None) -> KStream[Any, V]:
        """Hand on the changes of the table as records, deletions as null values; ``mapper(key, value)`` gives new keys.

        Shape: KTable[K, V] -> KStream[K, V]; 1 -> 1; key kept, or changed by the mapper; store: no; repartition: before
            the next grouping or join when keys were changed.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> prices = StreamsBuilder().table("prices")
            >>> head(prices.to_stream(lambda sku, price: sku.upper()), {"prices": [("hat", 12)]})
            [('HAT', 12, 0)]

        Source: Kafka Streams `KTable#toStream`; differences: none.
        """
        mapper = mapper and taking(mapper, *RECORD)
        return self.declare("stream", "to_stream", _to_stream, mapper=mapper, name=name)

    def suppress(self, suppressed: Suppressed) -> KTable[K, V]:
        """Hold changes back: for a time, so that only the last of several comes out, or until their window has closed.

        Shape: KTable[K, V] -> KTable[K, V]; n -> at most n; key kept; store: a buffer; repartition: no.
        Units: stream time, as far as the records that reach this operator show it.
        Late: nothing is dropped, except deletions when windows are waited for.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import Suppressed
            >>> prices = StreamsBuilder().table("prices")
            >>> calm = prices.suppress(Suppressed.until_time_limit("5ms"))
            >>> head(calm, {"prices": [("hat", 1, 0), ("hat", 2, 3), ("cap", 9, 5)]})
            [('hat', 2, 3)]

        Source: Kafka Streams `KTable#suppress`, KIP-328; differences: none.
        """
        return self.declare("table", "suppress", _suppress, suppressed=suppressed)

    @spelled_out
    def transform_values(self, supplier: Callable[[], Any], *stores: str, **options: Unpack[Kept]) -> KTable[K, Any]:
        """Replace each row's value by what a transformer makes of it; it may use the ``stores`` named.

        ``supplier()`` makes a transformer for every task: an object with ``transform(key, value)``, which is called for
        deleted rows as well, and, when it likes, ``init(context)`` and ``close()``.

        Shape: KTable[K, V] -> KTable[K, V2]; 1 -> 1; key kept; store: when named; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> class Tagged:
            ...     def transform(self, key, value):
            ...         return f"{key}: {value}"
            ...
            >>> head(StreamsBuilder().table("prices").transform_values(Tagged), {"prices": [("hat", 12)]})
            [('hat', 'hat: 12', 0)]

        Source: Kafka Streams `KTable#transformValues`; differences: none.
        """
        arguments = {"supplier": supplier, "stores": stores, "keeping": kept(options)}
        return self.declare("table", "transform_values", _transform_values, **arguments)

    @spelled_out
    def join(
        self, other: KTable[Any, Any], *functions: Callable[..., Any], **options: Unpack[TableJoinOptions]
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
        self, other: KTable[Any, Any], *functions: Callable[..., Any], **options: Unpack[TableJoinOptions]
    ) -> KTable[K, Any]:
        """Join as `join` does, and keep rows of this table that find no partner, with None in its place.

        Shape: KTable[K, V], KTable[K, V2] -> KTable[K, V3]; a change -> changes; key kept; store: as `join`;
            repartition: as `join`.
        Late: a change of a versioned table that is not its key's latest is dropped.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> builder = StreamsBuilder()
            >>> prices, names = builder.table("prices"), builder.table("names")
            >>> joined = prices.left_join(names, lambda price, name: f"{name}: {price}")
            >>> head(joined, {"prices": [("hat", 12)], "names": [("hat", "Hat")]})
            [('hat', 'None: 12', 0), ('hat', 'Hat: 12', 1)]

        Source: Kafka Streams `KTable#leftJoin`, KIP-213; differences: none.
        """
        return _declare(self, other, "left_join", "left", functions, options)

    @spelled_out
    def outer_join(
        self, other: KTable[Any, Any], *functions: Callable[..., Any], **options: Unpack[TableJoinOptions]
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


def _declare(self: Handle, other: Handle, verb: str, how: How, functions: Any, options: Any) -> KTable[Any, Any]:
    """Declare a join by key or by foreign key, as the functions say."""
    if getattr(other, "kind", "") != "table":
        raise TopologyError(f"a table cannot be joined with a {type(other).__name__}")
    said: dict[str, Any] = dict(options)
    partitioners = {word: said.pop(word, None) for word in ("partitioner", "other_partitioner")}
    joined, with_key = said.pop("table_joined", None), said.pop("with_key", False)
    if functions and isinstance(functions[-1], TableJoined):
        *functions, joined = functions
    foreign_key = said.pop("foreign_key", None)
    if (joiner := said.pop("joiner", None)) is not None:
        functions = (*functions, joiner)
    if len(functions) == 2:
        foreign_key, *functions = functions
    if len(functions) != 1:
        raise TopologyError(f'"{verb}" takes a joiner, or a foreign key and a joiner')
    keeping = kept(said)
    join = Joining(how, taking(functions[0], "left", "right"), with_key)
    if foreign_key is None:
        return self.declare("table", verb, _join_tables, other, join=join, keeping=keeping)
    if how == "outer":
        raise TopologyError("there is no outer join by a foreign key", hint="use left_join")
    tables = given(TableJoined, joined, name=keeping.name, **partitioners)
    key_of = taking(foreign_key, "value", key=with_key)
    arguments = {"join": join, "keeping": keeping, "key_of": key_of, "options": tables}
    return self.declare("table", verb, _join_foreign, other, **arguments)


# --- in the graph -----------------------------------------------------------------------------------------------------
def _filter(draft: GraphBuilder, source: TableFlow, predicate: Any, negate: bool, keeping: Keeping) -> TableFlow:
    known = send_old(draft, source.node, force=False)
    name = _name(draft, "FILTER", keeping)
    operator = TableFilter(predicate, negate, keeping.store_name, versioned=is_versioned(draft, source.node))
    return _derive(draft, source, name, operator, keeping, source.value_serde, send_old=known)


def _map_values(draft: GraphBuilder, source: TableFlow, mapper: Any, with_key: bool, keeping: Keeping) -> TableFlow:
    name = _name(draft, "MAPVALUES", keeping)
    return _derive(draft, source, name, TableMapValues(mapper, with_key, keeping.store_name), keeping)


def _name(draft: GraphBuilder, java: str, keeping: Keeping) -> str:
    if keeping.said and keeping.store_name is None:
        draft.new_name(f"KTABLE-{java}-STATE-STORE-")  # Kafka uses up a number here
    return draft.name_or_new(keeping.name, f"KTABLE-{java}-")


def _derive(
    draft: GraphBuilder,
    source: TableFlow,
    name: str,
    operator: Any,
    keeping: Keeping,
    value_serde: Any = None,
    **fields: Any,
) -> TableFlow:
    """A table computed row by row from another, when it is asked unless it is kept under a name of the user's."""
    user_name, serdes = keeping.store_name, serdes_of(keeping.options, source.key_serde, value_serde)
    if user_name is None:
        fields |= {"view": DerivedView(view_of(draft, source.node), operator), "computed_from": (source.node,)}
        fields["versioned"] = False if keeping.said else None
    else:
        fields |= kept_in(rows_store(draft, keeping, user_name, **serdes))
    node = draft.add(Table(name=name, operator=operator, **fields), source.node)
    return TableFlow(node.id, name, sources=source.sources, store_name=user_name, **serdes)


def _to_stream(draft: GraphBuilder, source: TableFlow, mapper: Any, name: str | None) -> StreamFlow:
    node = draft.step(draft.name_or_new(name, "KTABLE-TOSTREAM-"), TableToStream(), source.node)
    stream = StreamFlow(node.id, node.name, source.key_serde, source.value_serde, source.sources)
    if mapper is None:
        return stream
    draft.word = "select_key"
    return transform(draft, stream, "KEY-SELECT", SelectKey(mapper), None)


def _suppress(draft: GraphBuilder, source: TableFlow, suppressed: Suppressed) -> TableFlow:
    if is_versioned(draft, source.node):
        raise TopologyError(
            f'table "{source.name}" is versioned: its changes cannot be held back',
            hint="suppress before the versioned store, or use a store without versions",
            java="Invalid topology: suppress() is only supported for non-versioned KTables (note that version "
            "semantics might be inherited from upstream)",
        )
    name = suppressed.name or draft.new_name("KTABLE-SUPPRESS-")
    wait_ms = _grace(draft, source.node) if suppressed.until_close else suppressed.wait_ms
    store_name = f"{name}-store" if suppressed.name else draft.new_name("KTABLE-SUPPRESS-STATE-STORE-")
    buffer = suppressed.buffer
    if suppressed.name is None and buffer.logged:
        draft.note_unnamed("changelog topic", f"{store_name}-changelog")
    kept_as = {"persistent": False, "extra": {"type": "suppress"}, **buffer.logging}
    store = StoreSpec(store_name, "internal", source.key_serde, source.value_serde, **kept_as)
    send_old(draft, source.node)
    close, limits = suppressed.until_close, (buffer.records_limit, buffer.bytes_limit, buffer.emit_early)
    operator = Suppress(store_name, wait_ms, close, close, *limits)
    view = SuppressView(view_of(draft, source.node), store_name)
    node = Table(name=name, operator=operator, view=view, store=store, versioned=False, computed_from=(source.node,))
    node = draft.add(node, source.node)
    return TableFlow(node.id, name, source.key_serde, source.value_serde, (source.name,))


def _grace(draft: GraphBuilder, node: int, below: str = "") -> int:
    """How long after its end a window upstream closes.

    Raises: TopologyError when there is no windowed aggregation upstream.
    """
    above = draft.nodes[node]
    if isinstance(above, Table) and above.grace_ms is not None:
        return above.grace_ms
    chain = f"{above.name}->{below}" if below else above.name
    if not above.parents or (isinstance(above, Table) and above.topic):
        raise TopologyError(
            "only windows close: there is no windowed aggregation above this suppression",
            detail=f"above it are {chain.replace('->', ', then ')}",
            hint="window the stream first, or suppress with Suppressed.until_time_limit",
            java=f"Invalid topology: Window close time is only defined for windowed computations. Got [root->{chain}].",
        )
    return max(_grace(draft, parent, chain) for parent in above.parents)


def _transform_values(
    draft: GraphBuilder, source: TableFlow, supplier: Any, stores: tuple[str, ...], keeping: Keeping
) -> TableFlow:
    name = draft.name_or_new(keeping.name, "KTABLE-TRANSFORMVALUES-")
    fields = {"stores": stores, "own": supplied_stores(name, supplier)}
    return _derive(draft, source, name, TableTransformValues(supplier, keeping.store_name), keeping, **fields)


def _join_tables(draft: GraphBuilder, left: TableFlow, right: TableFlow, join: Joining, keeping: Keeping) -> TableFlow:
    name, options, how, joiner = keeping.name, keeping.options, join.how, join.joiner
    store_name = keeping.new_store(draft, "KTABLE-MERGE-") if keeping.said else None
    merge = draft.name_or_new(name, "KTABLE-MERGE-")
    sources = draft.co_partition((*left.sources, *right.sources))
    if how != "inner":
        send_old(draft, left.node)
    if how == "outer":
        send_old(draft, right.node)
    views = (look_up(draft, left.node), look_up(draft, right.node))
    this_name = draft.name_or_new(name, "KTABLE-JOINTHIS-", "-join-this")
    other_name = draft.name_or_new(name, "KTABLE-JOINOTHER-", "-join-other")
    key_serde = options.key_serde or left.key_serde
    rows: dict[str, Any] = {"view": JoinView(how, *views, joiner), "versioned": False}
    if store_name is not None:
        rows = kept_in(rows_store(draft, keeping, store_name, key_serde))
    sides = []
    for side, is_left, flow, view in ((this_name, True, left, views[1]), (other_name, False, right, views[0])):
        operator = TableTableJoin(is_left, how, view, joiner, versioned=is_versioned(draft, flow.node))
        sides.append((side, flow.node, operator, view.stores))
    rows |= {"operator": TableJoinMerge(store_name), "computed_from": (left.node, right.node), "sides": tuple(sides)}
    node = draft.add(TableJoin(name=merge, **rows), left.node, right.node)
    return TableFlow(node.id, merge, key_serde, options.value_serde, sources, store_name)


_FK = "KTABLE-FK-JOIN-SUBSCRIPTION"


def _join_foreign(
    draft: GraphBuilder,
    left: TableFlow,
    right: TableFlow,
    join: Joining,
    keeping: Keeping,
    key_of: Any,
    options: TableJoined,
) -> TableFlow:
    send_old(draft, right.node)
    send_old(draft, left.node)
    name = options.name
    topic = draft.name_or_new(name, f"{_FK}-REGISTRATION-", "-subscription-registration") + "-topic"
    send_name = draft.name_or_new(name, f"{_FK}-REGISTRATION-", "-subscription-registration-processor")
    sent = (key_of, join.with_key, join.is_left, right.key_serde, left.value_serde, is_versioned(draft, left.node))
    send = draft.step(send_name, fk.SubscriptionSend(*sent), left.node)
    to_right = {"key_serde": right.key_serde, "value_serde": fk.SubscriptionSerde(left.key_serde)}
    chosen = fk.SubscriptionPartitioner(options.other_partitioner) if options.other_partitioner else None
    subscribed = _through(draft, name, "-subscription-registration", topic, [send.id], chosen, to_right)
    draft.co_partition((*right.sources, subscribed.name))
    answers = _answers(draft, name, left, right, subscribed)
    topic = draft.name_or_new(name, f"{_FK}-RESPONSE-", "-subscription-response") + "-topic"
    to_left = {"key_serde": left.key_serde, "value_serde": fk.ResponseSerde(right.value_serde)}
    home = fk.ResponsePartitioner(options.partitioner)
    answered = _through(draft, name, "-subscription-response", topic, answers, home, to_left)
    sources = draft.co_partition((*left.sources, answered.name))
    view = look_up(draft, left.node)
    resolve_name = draft.name_or_new(name, f"{_FK}-RESPONSE-RESOLVER-PROCESSOR-", "-subscription-response-resolver")
    operator = fk.SubscriptionResolve(view, join.joiner, join.is_left, left.value_serde)
    resolve = draft.step(resolve_name, operator, answered.id, stores=view.stores, uses=(left.node,))
    result = draft.name_or_new(name, "KTABLE-FK-JOIN-OUTPUT-", "-result")
    store_name = keeping.new_store(draft, "KTABLE-FK-JOIN-OUTPUT-")
    store = rows_store(draft, keeping, store_name, left.key_serde)
    return lazy_table(draft, result, store, keeping, resolve.id, sources)


def _through(
    draft: GraphBuilder, name: str | None, suffix: str, topic: str, parents: list[int], partitioner: Any, serdes: Any
) -> Repartition:
    """An internal topic, from its sink to the source behind it."""
    sink = draft.name_or_new(name, "KTABLE-SINK-", f"{suffix}-sink")
    source = draft.name_or_new(name, "KTABLE-SOURCE-", f"{suffix}-source")
    node = Repartition(name=source, topic=topic, sink_name=sink, partitioner=partitioner, **serdes)
    return draft.add(node, *parents)


def _answers(
    draft: GraphBuilder, name: str | None, left: TableFlow, right: TableFlow, subscribed: Repartition
) -> list[int]:
    """What stands where the right table is: subscriptions are kept and answered, now and at every change."""
    store = draft.name_or_new(name, f"{_FK}-STATE-STORE-", "-subscription-store")
    kept_as: dict[str, Any] = {"persistent": draft.persistent, "extra": {"type": "subscriptions"}}
    value_serde = fk.SubscriptionSerde(left.key_serde)
    spec = StoreSpec(store, "timestamped_key_value", Serdes.bytes(), value_serde, **kept_as)
    draft.add(StateStore(name=store, store=spec))
    serdes = (right.key_serde, left.key_serde)
    receive_name = draft.name_or_new(name, f"{_FK}-PROCESSOR-", "-subscription-receive")
    receive = draft.step(receive_name, fk.SubscriptionReceive(store, *serdes), subscribed.id, stores=(store,))
    view = look_up(draft, right.node)
    join_name = draft.name_or_new(name, f"{_FK}-PROCESSOR-", "-subscription-join-foreign")
    uses = {"stores": view.stores, "uses": (right.node,)}
    joined = draft.step(join_name, fk.SubscriptionJoin(view), receive.id, **uses)
    side_name = draft.name_or_new(name, f"{_FK}-PROCESSOR-", "-foreign-join-subscription")
    tell = fk.ForeignTableJoin(store, *serdes, is_versioned(draft, right.node))
    return [joined.id, draft.step(side_name, tell, right.node, stores=(store,)).id]
