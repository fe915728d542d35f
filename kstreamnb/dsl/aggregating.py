"""Folding: count, reduce and aggregate, of grouped streams, windows, sessions, re-grouped tables and cogroups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from kstreamnb.core.serdes import Serdes, SessionWindowedSerde, TimeWindowedSerde
from kstreamnb.core.signatures import FOLD, MERGE, REDUCE, taking
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.windows import SessionWindows, SlidingWindows
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.flows import CogroupFlow, GroupFlow, TableFlow
from kstreamnb.dsl.materializing import Keeping, kept, kept_in, rows_store, windows_store
from kstreamnb.dsl.options import Kept, spelled_out
from kstreamnb.logical.builder import GraphBuilder
from kstreamnb.logical.nodes import Repartition, Table
from kstreamnb.operators.aggregates import SessionAggregate, StreamAggregate, WindowAggregate
from kstreamnb.operators.derived_tables import ChangeSerde, TableAggregate
from kstreamnb.operators.folding import add_counts, count_down, count_up, zero
from kstreamnb.operators.sliding_aggregate import SlidingAggregate
from kstreamnb.operators.stateless import PassThrough

if TYPE_CHECKING:  # a table is made of what grouping needs
    from kstreamnb.dsl.fronts import KTable


Fold = Callable[[Any, Any, Any], Any]
Reducer = Callable[[Any, Any], Any]


class Folding(Handle):
    """What can be done with records by key, and by key and window."""

    @spelled_out
    def count(self, **options: Unpack[Kept]) -> KTable[Any, int]:
        """Count the records of each key, or of each key and window.

        Shape: grouped or windowed stream -> KTable[K, int]; 1 -> 1; key kept, or within its window; store: yes;
            repartition: after a change of keys.
        Units: records. Null values are counted in time windows and sessions only.
        Late: a record whose window has closed is dropped; a null key is dropped.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.group_by_key().count(store="counts"), {"orders": [("a", 1), ("a", 3)]})
            [('a', 1, 0), ('a', 2, 1)]

        Source: Kafka Streams `KGroupedStream#count`, `TimeWindowedKStream#count`, `SessionWindowedKStream#count`;
            differences: none.
        """
        return self.declare("table", "count", _count, keeping=kept(options))

    @spelled_out
    def reduce(self, reducer: Reducer, **options: Unpack[Kept]) -> KTable[Any, Any]:
        """Combine the values of each key, or of each key and window, by ``reducer(aggregate, value)``.

        Shape: grouped or windowed stream[K, V] -> KTable[K, V]; 1 -> 1; key kept, or within its window; store: yes;
            repartition: after a change of keys.
        Late: a record whose window has closed is dropped; a null key is dropped, a null value outside time windows and
            sessions.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.group_by_key().reduce(max, store="largest"), {"orders": [("a", 3), ("a", 1)]})
            [('a', 3, 0), ('a', 3, 1)]

        Source: Kafka Streams `KGroupedStream#reduce`, `TimeWindowedKStream#reduce`, `SessionWindowedKStream#reduce`;
            differences: none.
        """
        functions = (None, taking(reducer, *REDUCE), None)
        return self.declare("table", "reduce", _fold, functions=functions, keeping=kept(options))


class Aggregating(Folding):
    """The same, and folding into an aggregate."""

    @spelled_out
    def aggregate(self, initializer: Callable[[], Any], aggregator: Fold, **options: Unpack[Kept]) -> KTable[Any, Any]:
        """Fold the values of each key, or of each key and window, by ``aggregator(key, value, aggregate)``.

        Shape: grouped or time-windowed stream[K, V] -> KTable[K, A]; 1 -> 1; key kept, or within its window; store:
            yes; repartition: after a change of keys.
        Late: a record whose window has closed is dropped; a null key is dropped, a null value outside time windows.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> values = orders.group_by_key().aggregate(list, lambda key, value, found: [*found, value])
            >>> head(values, {"orders": [("a", 3), ("a", 1)]})
            [('a', [3], 0), ('a', [3, 1], 1)]

        Source: Kafka Streams `KGroupedStream#aggregate`, `TimeWindowedKStream#aggregate`; differences: none.
        """
        functions = (taking(initializer), taking(aggregator, *FOLD), None)
        return self.declare("table", "aggregate", _fold, functions=functions, keeping=kept(options))


class SessionAggregating(Folding):
    """The same for sessions."""

    @spelled_out
    def aggregate(
        self, initializer: Callable[[], Any], aggregator: Fold, merger: Fold, **options: Unpack[Kept]
    ) -> KTable[Any, Any]:
        """Fold the values of each session; ``merger(key, left, right)`` joins sessions that a record connects.

        Shape: session-windowed stream[K, V] -> KTable[Windowed[K], A]; 1 -> any number; key within its session; store:
            yes; repartition: after a change of keys.
        Late: a record whose session has closed is dropped; a null key is dropped.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import SessionWindows
            >>> clicks = StreamsBuilder().stream("clicks").group_by_key().windowed_by(SessionWindows.of(gap="5ms"))
            >>> add, join = (lambda key, value, total: total + value), (lambda key, left, right: left + right)
            >>> total = clicks.aggregate(lambda: 0, add, join)
            >>> head(total, {"clicks": [("a", 1, 0), ("a", 2, 9)]})
            [(Windowed(key='a', start=0, end=0), 1, 0), (Windowed(key='a', start=9, end=9), 2, 9)]

        Source: Kafka Streams `SessionWindowedKStream#aggregate`; differences: none.
        """
        functions = (taking(initializer), taking(aggregator, *FOLD), taking(merger, *MERGE))
        return self.declare("table", "aggregate", _fold, functions=functions, keeping=kept(options))


class CogroupAggregating(Handle):
    """What can be done with several grouped streams."""

    @spelled_out
    def aggregate(self, initializer: Callable[[], Any], **options: Unpack[Kept]) -> KTable[Any, Any]:
        """Fold the values of all streams into one aggregate a key, or a key and window, each by its own aggregator.

        Shape: cogrouped stream -> KTable[K, A]; 1 -> 1; key kept, or within its window; store: yes; repartition: of
            each stream after a change of keys.
        Late: as the windows say, by the stream time of each stream; a null key is dropped.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> add = lambda key, value, total: total + value
            >>> orders = StreamsBuilder().stream("orders").group_by_key().cogroup(add)
            >>> total = orders.aggregate(lambda: 0, store="total")
            >>> head(total, {"orders": [("a", 1), ("a", 3)]})
            [('a', 1, 0), ('a', 4, 1)]

        Source: Kafka Streams `CogroupedKStream#aggregate`, `TimeWindowedCogroupedKStream#aggregate`, KIP-150;
            differences: none.
        """
        arguments = {"initializer": taking(initializer), "merger": None, "keeping": kept(options)}
        return self.declare("table", "aggregate", _aggregate_all, **arguments)


class SessionWindowedCogroupedKStream(Handle, kind="session_windowed_cogrouped"):
    """Several grouped streams by key and session."""

    @spelled_out
    def aggregate(self, initializer: Callable[[], Any], merger: Fold, **options: Unpack[Kept]) -> KTable[Any, Any]:
        """Fold the values of all streams by session; ``merger(key, left, right)`` joins sessions.

        Shape: session-windowed cogrouped stream -> KTable[Windowed[K], A]; 1 -> any number; key within its session;
            store: yes; repartition: of each stream after a change of keys.
        Late: a record whose session has closed is dropped; a null key is dropped.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import SessionWindows
            >>> add = lambda key, value, total: total + value
            >>> clicks = StreamsBuilder().stream("clicks").group_by_key().cogroup(add)
            >>> clicks = clicks.windowed_by(SessionWindows.of(gap="5ms"))
            >>> head(clicks.aggregate(lambda: 0, lambda key, left, right: left + right), {"clicks": [("a", 1)]})
            [(Windowed(key='a', start=0, end=0), 1, 0)]

        Source: Kafka Streams `SessionWindowedCogroupedKStream#aggregate`, KIP-150; differences: none.
        """
        arguments = {"initializer": taking(initializer), "merger": taking(merger, *MERGE)}
        return self.declare("table", "aggregate", _aggregate_all, keeping=kept(options), **arguments)


class KGroupedTable(Handle, kind="grouped_table"):
    """Rows of a table under new keys: count, reduce or aggregate them; changes are subtracted, then added."""

    @spelled_out
    def count(self, **options: Unpack[Kept]) -> KTable[Any, int]:
        """Count the rows of each group of a re-grouped table.

        Shape: KGroupedTable[K, V] -> KTable[K, int]; 1 -> 1; key kept; store: yes; repartition: yes.
        Units: rows.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> users = StreamsBuilder().table("users").group_by(lambda user, town: (town, user))
            >>> head(users.count(), {"users": [("ann", "Ulm"), ("bob", "Ulm")]})
            [('Ulm', 1, 0), ('Ulm', 2, 1)]

        Source: Kafka Streams `KGroupedTable#count`; differences: none.
        """
        arguments = {"functions": (zero, count_up, count_down), "value_serde": Serdes.long(), "keeping": kept(options)}
        return self.declare("table", "count", _fold_table, **arguments)

    @spelled_out
    def reduce(self, adder: Reducer, subtractor: Reducer, **options: Unpack[Kept]) -> KTable[Any, Any]:
        """Combine each group's values: ``subtractor(aggregate, old)`` first, then ``adder(aggregate, new)``.

        Shape: KGroupedTable[K, V] -> KTable[K, V]; 1 -> 1; key kept; store: yes; repartition: yes.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> stock = StreamsBuilder().table("stock").group_by(lambda shelf, number: ("all", number))
            >>> total = stock.reduce(lambda total, new: total + new, lambda total, old: total - old)
            >>> head(total, {"stock": [("a", 5), ("b", 2), ("a", 1)]})
            [('all', 5, 0), ('all', 7, 1), ('all', 3, 2)]

        Source: Kafka Streams `KGroupedTable#reduce`; differences: none.
        """
        functions = (None, taking(adder, *REDUCE), taking(subtractor, *REDUCE))
        return self.declare("table", "reduce", _fold_table, functions=functions, keeping=kept(options))

    @spelled_out
    def aggregate(
        self, initializer: Callable[[], Any], adder: Fold, subtractor: Fold, **options: Unpack[Kept]
    ) -> KTable[Any, Any]:
        """Fold each group's values: ``subtractor(key, old, aggregate)`` first, then ``adder(key, new, aggregate)``.

        Shape: KGroupedTable[K, V] -> KTable[K, A]; 1 -> 1; key kept; store: yes; repartition: yes.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> stock = StreamsBuilder().table("stock").group_by(lambda shelf, number: ("all", number))
            >>> add, take = (lambda key, value, total: total + value), (lambda key, value, total: total - value)
            >>> head(stock.aggregate(lambda: 0, add, take), {"stock": [("a", 5), ("a", 1)]})
            [('all', 5, 0), ('all', 1, 1)]

        Source: Kafka Streams `KGroupedTable#aggregate`; differences: none.
        """
        functions = (taking(initializer), taking(adder, *FOLD), taking(subtractor, *FOLD))
        return self.declare("table", "aggregate", _fold_table, functions=functions, keeping=kept(options))


# --- in the graph -----------------------------------------------------------------------------------------------------
def _count(draft: GraphBuilder, grouped: GroupFlow, keeping: Keeping) -> TableFlow:
    unnamed = keeping.said and keeping.store_name is None
    if unnamed and not isinstance(grouped.windows, SlidingWindows):
        draft.new_name("KSTREAM-AGGREGATE-STATE-STORE-")  # Kafka uses up a number here
    return _fold(draft, grouped, keeping, (zero, count_up, add_counts), Serdes.long())


def _fold(
    draft: GraphBuilder, grouped: GroupFlow, keeping: Keeping, functions: Any, value_serde: Any = None
) -> TableFlow:
    java, value_serde = _kind(grouped, functions, value_serde)
    store_name = keeping.new_store(draft, f"KSTREAM-{java}-")
    name = draft.name_or_new(keeping.name, f"KSTREAM-{java}-")
    store = _store(draft, grouped, keeping, store_name, key_serde=grouped.key_serde, value_serde=value_serde)
    parent, sources = grouped.node, grouped.sources
    if grouped.rekeyed:
        repartition = _behind(draft, grouped, grouped, store_name)
        parent, sources = repartition.id, (repartition.name,)
    node = draft.add(Table(name=name, **_folding(grouped, store, *functions)), parent)
    return _table(node, store, sources, grouped, keeping)


def _kind(grouped: GroupFlow, functions: Any, value_serde: Any) -> tuple[str, Any]:
    """Java's word for a fold, and the serde of its result: without an initializer it is one of the values."""
    return ("REDUCE", grouped.value_serde) if functions[0] is None else ("AGGREGATE", value_serde)


def _store(
    draft: GraphBuilder, grouped: GroupFlow | CogroupFlow, keeping: Keeping, name: str, **serdes: Any
) -> StoreSpec:
    """The store of an aggregation."""
    if grouped.windows is None:
        return rows_store(draft, keeping, name, **serdes)
    return windows_store(draft, keeping, name, grouped.windows, emit_on_close=grouped.emit_on_close, **serdes)


def _folding(grouped: Any, store: StoreSpec, initializer: Any, aggregator: Any, merger: Any) -> dict[str, Any]:
    """An aggregation's operator, its rows, and whether they are windows or versioned."""
    name = store.name
    if grouped.windows is None:
        return {"operator": StreamAggregate(name, initializer, aggregator), **kept_in(store)}
    windows, emit_on_close = grouped.windows, grouped.emit_on_close
    if isinstance(windows, SessionWindows):
        operator: Any = SessionAggregate(name, windows, initializer, aggregator, emit_on_close, merger=merger)
        grace_ms = windows.grace_ms + windows.gap_ms
    else:
        fold = SlidingAggregate if isinstance(windows, SlidingWindows) else WindowAggregate
        operator, grace_ms = fold(name, windows, initializer, aggregator, emit_on_close), windows.grace_ms
    return {"operator": operator, "grace_ms": grace_ms, **kept_in(store)}


def _behind(draft: GraphBuilder, shared: GroupFlow | CogroupFlow, group: GroupFlow, store_name: str) -> Any:
    """The repartition behind a group.

    A grouped stream has one for all its aggregations when its topic has a name, a cogrouped one in any case.
    """
    serdes = {"key_serde": group.key_serde, "value_serde": group.value_serde}
    made = draft.repartition(group.topic_name or store_name, **serdes)
    if group.topic_name is None and ("state store", store_name) in draft.unnamed:  # it is called after the store
        draft.note_unnamed("repartition topic", made.topic)
    key = None if shared is group else group
    if key in shared.repartitioned and (key or group.topic_name):
        return shared.repartitioned[key] if key else draft.attach(shared.repartitioned[key], group.node)
    shared.repartitioned[key] = draft.add(made, group.node)
    return shared.repartitioned[key]


def _table(node: Table, store: StoreSpec, sources: tuple[str, ...], grouped: Any, keeping: Keeping) -> TableFlow:
    key_serde: Any = store.key_serde
    if grouped.windows is not None:
        session = isinstance(grouped.windows, SessionWindows)
        size = None if session else grouped.windows.size_ms
        key_serde = SessionWindowedSerde(key_serde) if session else TimeWindowedSerde(key_serde, size or None)
    return TableFlow(node.id, node.name, key_serde, store.value_serde, sources, keeping.store_name)


def _aggregate_all(
    draft: GraphBuilder, grouped: CogroupFlow, keeping: Keeping, initializer: Any, merger: Any
) -> TableFlow:
    store_name = keeping.new_store(draft, "COGROUPKSTREAM-AGGREGATE-")
    store = _store(draft, grouped, keeping, store_name)
    parents = [
        _behind(draft, grouped, group, store_name).id if group.rekeyed else group.node for group in grouped.groups
    ]
    draft.co_partition(source for group in grouped.groups for source in group.sources)
    folded: list[Table] = []
    for index, aggregator in enumerate(grouped.groups.values()):
        node = Table(
            name=draft.name_or_new(keeping.name, "COGROUPKSTREAM-AGGREGATE-", f"-cogroup-agg-{index}"),
            own=() if folded else (store,),
            stores=(store_name,) if folded else (),
            **{**_folding(grouped, store, initializer, aggregator, merger), "store": None},
        )
        folded.append(draft.add(node, parents[index]))
    ids = tuple(node.id for node in folded)
    merge_name = draft.name_or_new(keeping.name, "COGROUPKSTREAM-MERGE-", "-cogroup-merge")
    merge = Table(name=merge_name, operator=PassThrough(), view=folded[0].view, computed_from=ids)
    merge = draft.add(merge, *ids)
    return _table(merge, store, (merge.name,), grouped, keeping)


def _fold_table(
    draft: GraphBuilder, group: GroupFlow, keeping: Keeping, functions: Any, value_serde: Any = None
) -> TableFlow:
    java, value_serde = _kind(group, functions, value_serde)
    store_name = keeping.new_store(draft, "KTABLE-AGGREGATE-")
    store = rows_store(draft, keeping, store_name, group.key_serde, value_serde)
    sink = draft.name_or_new(keeping.name, "KSTREAM-SINK-", "-sink")
    source = draft.name_or_new(keeping.name, "KSTREAM-SOURCE-", "-source")
    name = draft.name_or_new(keeping.name, f"KTABLE-{java}-")
    topic = f"{group.topic_name or store_name}-repartition"
    through = group.repartitioned.get(None)
    if through is None or group.topic_name is None:
        serdes = {"key_serde": group.key_serde, "value_serde": ChangeSerde(group.value_serde)}
        through = Repartition(name=source, topic=topic, sink_name=sink, word="repartition", **serdes)
        group.repartitioned[None] = through = draft.add(through, group.node)
    else:
        draft.attach(through, group.node)
    table = Table(name=name, operator=TableAggregate(store_name, *functions), **kept_in(store))
    table = draft.add(table, through.id)
    return _table(table, store, (source,), group, keeping)
