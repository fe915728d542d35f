"""`KTable` and `GlobalKTable`: tables, their operators and their joins with other tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, NotRequired, Unpack, overload

from kstreamnb.core.arguments import expect
from kstreamnb.core.codec import StreamPartitioner
from kstreamnb.core.names import check_text
from kstreamnb.core.signatures import RECORD, taking
from kstreamnb.dsl.declarations import Handle, check_kind, replay
from kstreamnb.dsl.flows import GlobalFlow, JoinSpec, TableFlow, UserFunction
from kstreamnb.dsl.grouping import TableGrouping
from kstreamnb.dsl.join_graph import emit_join_foreign, emit_join_tables
from kstreamnb.dsl.keywords import MaterializedKeywords, TableOption, by_keyword, combined, spelled_out
from kstreamnb.dsl.materialization import Materialization, materialization
from kstreamnb.dsl.option_fields import Named
from kstreamnb.dsl.options import Materialized, Suppressed, TableJoined
from kstreamnb.dsl.table_graph import emit_filter, emit_map_values, emit_suppress, emit_to_stream, emit_transform_values
from kstreamnb.dsl.type_vars import K2, V2, V3, Joiner, K, RecordPredicate, V, ValueTransformer
from kstreamnb.errors import TopologyError
from kstreamnb.operators.table_joins import How
from kstreamnb.topology.validation import check_supplier

if TYPE_CHECKING:  # streams and tables are made of these classes
    from kstreamnb.dsl.kstream import KStream


class TableOperators(Handle, Generic[K, V]):
    """Operators of a table on its own rows."""

    @spelled_out(Materialized)
    def filter(
        self, predicate: RecordPredicate[K, V], *options: TableOption, **keywords: Unpack[MaterializedKeywords]
    ) -> KTable[K, V]:
        """Keep the rows for which a predicate holds; a row for which it no longer holds is deleted.

        Shape: KTable[K, V] -> KTable[K, V]; 1 -> at most 1; key kept; store: when named; repartition: no.

        Args:
            predicate: function ``(key, value)``; a true result keeps the row.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> prices = StreamsBuilder().table("prices", store="prices")
            >>> head(prices.filter(lambda sku, price: price > 9), {"prices": [("hat", 12), ("hat", 8), ("cap", 5)]})
            [('hat', 12, 0), ('hat', None, 1)]

        Source: Kafka Streams `KTable#filter`; differences: none (a miss is a tombstone, too, unless the table knows its
            old values).
        """
        return self._filter("filter", predicate, materialization(options, keywords))

    @spelled_out(Materialized)
    def filter_not(
        self, predicate: RecordPredicate[K, V], *options: TableOption, **keywords: Unpack[MaterializedKeywords]
    ) -> KTable[K, V]:
        """Keep the rows for which a predicate does not hold; a row for which it begins to hold is deleted.

        Shape: KTable[K, V] -> KTable[K, V]; 1 -> at most 1; key kept; store: when named; repartition: no.

        Args:
            predicate: function ``(key, value)``; a true result deletes the row.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> prices = StreamsBuilder().table("prices", store="prices")
            >>> head(prices.filter_not(lambda sku, price: price > 9), {"prices": [("hat", 12), ("cap", 5)]})
            [('cap', 5, 1)]

        Source: Kafka Streams `KTable#filterNot`; differences: none.
        """
        return self._filter("filter_not", predicate, materialization(options, keywords))

    def _filter(self, word: str, predicate: RecordPredicate[K, V], table: Materialization) -> KTable[K, V]:
        predicate = taking(predicate, *RECORD)
        return self.declare("table", word, emit_filter, predicate=predicate, negate=word == "filter_not", table=table)

    @overload
    def map_values(
        self,
        mapper: Callable[[V], V2],
        *options: TableOption,
        with_key: Literal[False] = False,
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[K, V2]: ...
    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], V2],
        *options: TableOption,
        with_key: Literal[True],
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[K, V2]: ...
    @spelled_out(Materialized)
    def map_values(
        self,
        mapper: Callable[..., V2],
        *options: TableOption,
        with_key: bool = False,
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[K, V2]:
        """Replace the value of each row.

        Shape: KTable[K, V] -> KTable[K, V2]; 1 -> 1; key kept; store: when named; repartition: no.

        Args:
            mapper: function ``(value)`` that returns the new value; ``(key, value)`` if ``with_key``.
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.
            with_key: whether the mapper takes the key as well. Default: False.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> prices = StreamsBuilder().table("prices")
            >>> head(prices.map_values(lambda price: price * 2), {"prices": [("hat", 12), ("hat", None)]})
            [('hat', 24, 0), ('hat', None, 1)]

        Source: Kafka Streams `KTable#mapValues`; differences: ``with_key`` replaces `ValueMapperWithKey`.
        """
        mapper, table = taking(mapper, "value", key=with_key), materialization(options, keywords)
        return self.declare("table", "map_values", emit_map_values, mapper=mapper, with_key=with_key, table=table)

    @overload
    def to_stream(self, mapper: Named | None = None, name: str | None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(self, mapper: Callable[[K, V], K2], name: str | None = None) -> KStream[K2, V]: ...
    def to_stream(self, mapper: Callable[[K, V], K2] | Named | None = None, name: str | None = None) -> KStream[Any, V]:
        """Return the changes of the table as a stream, with null values for deletions.

        Shape: KTable[K, V] -> KStream[K, V]; 1 -> 1; key kept, or changed by the mapper; store: no; repartition: before
            the next grouping or join when keys were changed.

        Args:
            mapper: function ``(key, value)`` that returns the new key, or a `Named`. Default: the key is kept.
            name: name of the node in the topology. Default: a generated name.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> prices = StreamsBuilder().table("prices")
            >>> head(prices.to_stream(lambda sku, price: sku.upper()), {"prices": [("hat", 12)]})
            [('HAT', 12, 0)]

        Source: Kafka Streams `KTable#toStream`; differences: none.
        """
        if isinstance(mapper, Named):
            mapper, name = None, mapper
        checked = None if mapper is None else taking(mapper, *RECORD)
        return self.declare("stream", "to_stream", emit_to_stream, mapper=checked, name=name)

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable[K, V]:
        """Hold changes back: for a time, so that only the latest is emitted, or until their window has closed.

        Shape: KTable[K, V] -> KTable[K, V]; n -> at most n; key kept; store: a buffer; repartition: no.
        Units: stream time of the records that reach this operator.
        Late: nothing is dropped, except deletions while waiting for windows to close.

        Args:
            suppressed: how long to wait, and the limits of the buffer.
            name: name of the node in the topology. Default: that of ``suppressed``, else a generated name.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import Suppressed
            >>> prices = StreamsBuilder().table("prices")
            >>> calm = prices.suppress(Suppressed.until_time_limit("5ms"))
            >>> head(calm, {"prices": [("hat", 1, 0), ("hat", 2, 3), ("cap", 9, 5)]})
            [('hat', 2, 3)]

        Source: Kafka Streams `KTable#suppress`, KIP-328; differences: none.
        """
        hint = 'write Suppressed.until_time_limit("1h"), or Suppressed.until_window_closes()'
        expect(suppressed, Suppressed, "suppressed", hint=hint)
        suppressed = suppressed if name is None else suppressed.with_name(name)
        return self.declare("table", "suppress", emit_suppress, suppressed=suppressed)

    @spelled_out(Materialized)
    def transform_values(
        self,
        supplier: Callable[[], ValueTransformer[K, V, V2]],
        *stores: str | TableOption,
        **keywords: Unpack[MaterializedKeywords],
    ) -> KTable[K, V2]:
        """Replace the value of each row by what a transformer of the user returns.

        Shape: KTable[K, V] -> KTable[K, V2]; 1 -> 1; key kept; store: when named; repartition: no.

        Args:
            supplier: called without arguments once per task; returns an object with ``transform(key, value)``, which
                is called for deleted rows as well, and optionally ``init(context)`` and ``close()``.
            stores: names of the state stores that the transformer uses; a `Named` and a `Materialized` may follow.

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
        check_supplier("transform_values", supplier)
        options = [each for each in stores if isinstance(each, TableOption)]
        names = tuple(check_text(each, "store name") for each in stores if not isinstance(each, TableOption))
        given = {"supplier": supplier, "stores": names, "table": materialization(options, keywords)}
        return self.declare("table", "transform_values", emit_transform_values, **given)


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
        self, other: KTable[Any, Any], *functions: object, **keywords: Unpack[AllTableJoinKeywords]
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
            joiner: function ``(left, right)`` that returns the value of the result. Required.
            foreign_key: function ``(value)`` that returns the key of the other table's row; ``(key, value)`` if
                ``with_key``; None: no partner. Default: join by key.
            with_key: whether the foreign key's function takes the key as well. Default: False.
            table_joined: partitioners and name of a foreign-key join. Default: none.

        Raises: TopologyError for a handle that cannot be joined or is from another builder, or for a missing argument.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> builder = StreamsBuilder()
            >>> orders, users = builder.table("orders"), builder.table("users")
            >>> sold = lambda order, name: f"{order[1]} for {name}"
            >>> joined = orders.join(users, sold, foreign_key=lambda order: order[0])
            >>> head(joined, {"users": [("u1", "Ann")], "orders": [("o1", ["u1", "hat"]), ("o2", ["u2", "cap"])]})
            [('o1', 'hat for Ann', 1)]

        Source: Kafka Streams `KTable#join`, KIP-213; differences: on Spark, a
            foreign-key join keeps a copy of the left rows, or is one task (see the guide, "Differences").
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
        self, other: KTable[Any, Any], *functions: object, **keywords: Unpack[AllTableJoinKeywords]
    ) -> KTable[K, Any]:
        """Join as `join` does, and keep rows of this table without a partner, with None in its place.

        Shape: KTable[K, V], KTable[K, V2] -> KTable[K, V3]; a change -> changes; key kept; store: as `join`;
            repartition: as `join`.
        Late: a change of a versioned table that is not its key's latest is dropped.

        Args:
            other: the other table, of the same builder.
            functions: the foreign key, if any, and the joiner, by position; a `TableJoined`, a `Named` and a
                `Materialized` may follow, as in Java.
            joiner: function ``(left, right)`` that returns the value of the result; ``right`` may be None. Required.
            foreign_key: function ``(value)`` that returns the key of the other table's row; ``(key, value)`` if
                ``with_key``; None: no partner. Default: join by key.
            with_key: whether the foreign key's function takes the key as well. Default: False.
            table_joined: partitioners and name of a foreign-key join. Default: none.

        Raises: TopologyError for a handle that cannot be joined or is from another builder, or for a missing argument.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> builder = StreamsBuilder()
            >>> prices, names = builder.table("prices"), builder.table("names")
            >>> joined = prices.left_join(names, lambda price, name: f"{name}: {price}")
            >>> head(joined, {"prices": [("hat", 12)], "names": [("hat", "Hat")]})
            [('hat', 'None: 12', 0), ('hat', 'Hat: 12', 1)]

        Source: Kafka Streams `KTable#leftJoin`, KIP-213; differences: on Spark, a
            foreign-key join keeps a copy of the left rows, or is one task (see the guide, "Differences").
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

        Raises: TopologyError for a handle that cannot be joined or is from another builder, or for a missing argument.

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
    free = [name for name in ("foreign_key", "joiner") if name not in fields]
    fields |= zip(free[-len(positional) :], positional, strict=False)
    if "joiner" not in fields or len(positional) > len(free):
        raise TopologyError(f'"{word}" takes a joiner, or a foreign key and a joiner')
    with_key = bool(fields.pop("with_key", False))
    join = JoinSpec(how, taking(fields.pop("joiner"), "left", "right"), with_key)
    key_of = taking(fields.pop("foreign_key"), "value", key=with_key) if "foreign_key" in fields else None
    joined = fields.pop("table_joined", None)
    partitioners = {name: fields.pop(name) for name in ("partitioner", "other_partitioner") if name in fields}
    table = materialization((), fields)
    if key_of is None:
        return left.declare("table", word, emit_join_tables, right, join=join, table=table)
    if how == "outer":
        raise TopologyError("foreign-key joins of tables cannot be outer joins", hint="use left_join")
    tables = combined(TableJoined, joined, name=table.name, **partitioners)
    return left.declare("table", word, emit_join_foreign, right, join=join, table=table, key_of=key_of, options=tables)


_OPTIONS = (TableJoined, Named, Materialized)


class _Queryable(Handle):
    def queryable_store_name(self) -> str | None:
        """Return the name under which the table can be queried; None if the user named no store.

        Shape: KTable[K, V] or GlobalKTable[K, V] -> name.
        Source: Kafka Streams `KTable#queryableStoreName`, `GlobalKTable#queryableStoreName`; differences: none.
        """
        flow = replay(self.declaration_log).flows[self.declaration]
        assert isinstance(flow, TableFlow | GlobalFlow)
        return flow.store_name


class KTable(TableOperators[K, V], TableJoins[K, V], TableGrouping[K, V], _Queryable, Generic[K, V], kind="table"):
    """A table: the latest value of each key, which every input record changes.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.table("prices", store="prices").filter(lambda sku, price: price > 9).to_stream().to("dear")
        >>> print(builder.build().describe())
        Topologies:
           Sub-topology: 0
            Source: KSTREAM-SOURCE-0000000000 (topics: [prices])
              --> KTABLE-SOURCE-0000000001
            Processor: KTABLE-SOURCE-0000000001 (stores: [prices])
              --> KTABLE-FILTER-0000000002
              <-- KSTREAM-SOURCE-0000000000
            Processor: KTABLE-FILTER-0000000002 (stores: [])
              --> KTABLE-TOSTREAM-0000000003
              <-- KTABLE-SOURCE-0000000001
            Processor: KTABLE-TOSTREAM-0000000003 (stores: [])
              --> KSTREAM-SINK-0000000004
              <-- KTABLE-FILTER-0000000002
            Sink: KSTREAM-SINK-0000000004 (topic: dear)
              <-- KTABLE-TOSTREAM-0000000003
    """


class GlobalKTable(_Queryable, Generic[K, V], kind="global_table"):
    """A table that every task holds completely: streams look up its rows by any key.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("rates")
        >>> builder.global_table("rates", store="rates").queryable_store_name()
        'rates'
    """
