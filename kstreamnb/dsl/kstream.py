"""`KStream`: the class that combines all operators of a stream."""

from __future__ import annotations

from typing import Generic

from kstreamnb.dsl.grouping import StreamGrouping
from kstreamnb.dsl.stream_joins import StreamJoins
from kstreamnb.dsl.streams import RecordOperators, StreamOperators
from kstreamnb.dsl.type_vars import K, V


class KStream(
    RecordOperators[K, V], StreamOperators[K, V], StreamGrouping[K, V], StreamJoins[K, V], Generic[K, V], kind="stream"
):
    """A stream of records, each of them an independent event.

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
