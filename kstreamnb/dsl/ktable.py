"""`KTable` and `GlobalKTable`: front classes of tables; they only list their operators."""

from __future__ import annotations

from typing import Generic

from kstreamnb.dsl import grouping, processing, table_joining, tables
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.options import K, V
from kstreamnb.dsl.replay import flow_of


class KTable(Handle, Generic[K, V], kind="table"):
    """A table: the latest value of each key; each record that comes in changes a row.

    Example:
        >>> from kstreamnb.dsl import StreamsBuilder
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

    transform_values = processing.transform_values
    group_by = grouping.group_table_by

    join = table_joining.join
    left_join = table_joining.left_join
    outer_join = table_joining.outer_join

    def queryable_store_name(self) -> str | None:
        """The name of the store in which the table can be looked up; None when it has none of the user's.

        Shape: KTable[K, V] -> name.
        Source: Kafka Streams `KTable#queryableStoreName`; differences: none.
        """
        name: str | None = flow_of(self).store_name
        return name


class GlobalKTable(Handle, Generic[K, V], kind="global_table"):
    """A table that every task has whole: streams look rows up in it, under any key.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("rates")
        >>> builder.global_table("rates", store="rates").queryable_store_name()
        'rates'
    """

    def queryable_store_name(self) -> str | None:
        """The name of its store; None when the user gave none.

        Shape: GlobalKTable[K, V] -> name.
        Source: Kafka Streams `GlobalKTable#queryableStoreName`; differences: none.
        """
        name: str | None = flow_of(self).store_name
        return name
