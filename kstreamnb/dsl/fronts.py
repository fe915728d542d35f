"""`KStream`, `KTable` and `GlobalKTable`: front classes that only list their operators, which live in concept files."""

from __future__ import annotations

from typing import Generic, TypeVar

from kstreamnb.core.operator import Operator
from kstreamnb.dsl import grouping, joining, streams, tables
from kstreamnb.dsl.declarations import Handle, flow_of
from kstreamnb.dsl.options import K, V

H = TypeVar("H", bound=Handle)


class KStream(Handle, Generic[K, V], kind="stream"):
    """A stream of records: each stands for itself, as an event.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("orders").filter(lambda key, order: order > 10).to("large")
        >>> print(builder.build().describe())
        Topologies:
           Sub-topology: 0
            Source: KSTREAM-SOURCE-0000000000 (topics: [orders])
              --> KSTREAM-FILTER-0000000001
            Processor: KSTREAM-FILTER-0000000001 (stores: [])
              --> KSTREAM-SINK-0000000002
              <-- KSTREAM-SOURCE-0000000000
            Sink: KSTREAM-SINK-0000000002 (topic: large)
              <-- KSTREAM-FILTER-0000000001
    """

    filter = streams.filter
    filter_not = streams.filter_not
    map = streams.map
    map_values = streams.map_values
    flat_map = streams.flat_map
    flat_map_values = streams.flat_map_values
    select_key = streams.select_key
    peek = streams.peek
    foreach = streams.foreach
    print = streams.print
    merge = streams.merge

    split = streams.split
    to = streams.to
    repartition = streams.repartition
    to_table = streams.to_table

    group_by = grouping.group_by
    group_by_key = grouping.group_by_key

    join = joining.join
    left_join = joining.left_join
    outer_join = joining.outer_join

    process = streams.process
    process_values = streams.process_values

    def _then(self, verb: str, java: str, operator: Operator, name: str | None) -> H:  # type: ignore[type-var]
        return self.declare("stream", verb, streams.transform, java=java, operator=operator, name=name)


class _Queryable(Handle):
    def queryable_store_name(self) -> str | None:
        """The name of the store in which the table can be looked up; None when it has none of the user's.

        Shape: KTable[K, V] or GlobalKTable[K, V] -> name.
        Source: Kafka Streams `KTable#queryableStoreName`, `GlobalKTable#queryableStoreName`; differences: none.
        """
        name: str | None = flow_of(self).store_name
        return name


class KTable(_Queryable, Generic[K, V], kind="table"):
    """A table: the latest value of each key; each record that comes in changes a row.

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

    filter = tables.filter
    filter_not = tables.filter_not
    map_values = tables.map_values
    to_stream = tables.to_stream
    suppress = tables.suppress

    transform_values = tables.transform_values
    group_by = grouping.group_table_by

    join = tables.join
    left_join = tables.left_join
    outer_join = tables.outer_join


class GlobalKTable(_Queryable, Generic[K, V], kind="global_table"):
    """A table that every task has whole: streams look rows up in it, under any key.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("rates")
        >>> builder.global_table("rates", store="rates").queryable_store_name()
        'rates'
    """
