"""`KStream`, `KTable` and `GlobalKTable`: fronts that bring together the operators of the concept files."""

from __future__ import annotations

from typing import Generic

from kstreamnb.dsl.declarations import Handle, flow_of
from kstreamnb.dsl.grouping import StreamGrouping, TableGrouping
from kstreamnb.dsl.joining import StreamJoins
from kstreamnb.dsl.options import K, V
from kstreamnb.dsl.streams import RecordOperators, StreamOperators
from kstreamnb.dsl.tables import TableOperators


class KStream(
    RecordOperators[K, V], StreamOperators[K, V], StreamGrouping[K, V], StreamJoins[K, V], Generic[K, V], kind="stream"
):
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


class _Queryable(Handle):
    def queryable_store_name(self) -> str | None:
        """The name of the store in which the table can be looked up; None when it has none of the user's.

        Shape: KTable[K, V] or GlobalKTable[K, V] -> name.
        Source: Kafka Streams `KTable#queryableStoreName`, `GlobalKTable#queryableStoreName`; differences: none.
        """
        name: str | None = flow_of(self).store_name
        return name


class KTable(TableOperators[K, V], TableGrouping[K, V], _Queryable, Generic[K, V], kind="table"):
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


class GlobalKTable(_Queryable, Generic[K, V], kind="global_table"):
    """A table that every task has whole: streams look rows up in it, under any key.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("rates")
        >>> builder.global_table("rates", store="rates").queryable_store_name()
        'rates'
    """
