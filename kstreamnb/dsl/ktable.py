"""`KTable` and `GlobalKTable`: the classes that combine all operators of a table."""

from __future__ import annotations

from typing import Generic

from kstreamnb.dsl.declarations import Handle, flow_of
from kstreamnb.dsl.flows import GlobalFlow, TableFlow
from kstreamnb.dsl.grouping import TableGrouping
from kstreamnb.dsl.table_joins import TableJoins
from kstreamnb.dsl.tables import TableOperators
from kstreamnb.dsl.type_vars import K, V


class _Queryable(Handle):
    def queryable_store_name(self) -> str | None:
        """Return the name under which the table can be queried; None if the user named no store.

        Shape: KTable[K, V] or GlobalKTable[K, V] -> name.
        Source: Kafka Streams `KTable#queryableStoreName`, `GlobalKTable#queryableStoreName`; differences: none.
        """
        flow = flow_of(self)
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
