"""`KStream`: the front class of a stream; it only lists its operators, which live in the concept files."""

from __future__ import annotations

from typing import Generic, TypeVar

from kstreamnb.core.operator import Operator
from kstreamnb.dsl import grouping, joining, processing, routing, stateless
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.options import K, V

H = TypeVar("H", bound=Handle)


class KStream(Handle, Generic[K, V], kind="stream"):
    """A stream of records: each stands for itself, as an event.

    Example:
        >>> from kstreamnb.dsl import StreamsBuilder
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

    filter = stateless.filter
    filter_not = stateless.filter_not
    map = stateless.map
    map_values = stateless.map_values
    flat_map = stateless.flat_map
    flat_map_values = stateless.flat_map_values
    select_key = stateless.select_key
    peek = stateless.peek
    foreach = stateless.foreach
    print = stateless.print
    merge = stateless.merge

    split = routing.split
    to = routing.to
    repartition = routing.repartition
    to_table = routing.to_table

    group_by = grouping.group_by
    group_by_key = grouping.group_by_key

    join = joining.join
    left_join = joining.left_join
    outer_join = joining.outer_join

    process = processing.process
    process_values = processing.process_values

    def _then(self, verb: str, java: str, operator: Operator, name: str | None) -> H:  # type: ignore[type-var]
        return self.declare("stream", verb, stateless.transform, java=java, operator=operator, name=name)
