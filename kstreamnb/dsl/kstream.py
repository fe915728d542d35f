"""`KStream`: a stream of records and its operators.

Operators that look at one record at a time, users' processors, and the way to topics and tables are here; joins,
groupings and branches are in modules beside it. The modules that end in ``_graph`` write declarations into a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, Unpack, overload

from kstreamnb.core.names import check_text, check_topic_name
from kstreamnb.core.operator import Operator
from kstreamnb.core.processor import Processor
from kstreamnb.core.signatures import RECORD, taking
from kstreamnb.dsl import stream_graph
from kstreamnb.dsl.branching import BranchedKStream
from kstreamnb.dsl.declarations import Handle, check_kind
from kstreamnb.dsl.flows import UserFunction
from kstreamnb.dsl.grouping import StreamGrouping
from kstreamnb.dsl.keywords import MaterializedKeywords, ProducedKeywords, RepartitionedKeywords, combined, spelled_out
from kstreamnb.dsl.materialization import materialization
from kstreamnb.dsl.option_fields import Named
from kstreamnb.dsl.options import Materialized, Printed, Produced, Repartitioned
from kstreamnb.dsl.stream_joins import StreamJoins
from kstreamnb.dsl.type_vars import K2, V2, K, RecordPredicate, RecordProcessor, TopicChooser, V
from kstreamnb.operators import stateless
from kstreamnb.topology.validation import check_supplier

if TYPE_CHECKING:  # streams and tables are made of these classes
    from kstreamnb.dsl.ktable import KTable


class RecordOperators(Handle, Generic[K, V]):
    """Operators of a stream that look at one record at a time."""

    def filter(self, predicate: RecordPredicate[K, V], name: str | None = None) -> KStream[K, V]:
        """Keep the records for which a predicate holds.

        Shape: KStream[K, V] -> KStream[K, V]; n -> at most n; key kept; store: no; repartition: no.

        Args:
            predicate: function ``(key, value)``; a true result keeps the record.
            name: name of the node in the topology. Default: a generated name.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.filter(lambda key, value: value > 2), {"orders": [("a", 1), ("b", 3)]})
            [('b', 3, 1)]

        Source: Kafka Streams `KStream#filter`; differences: none.
        """
        return self._then("filter", "FILTER", stateless.Filter(taking(predicate, *RECORD)), name)

    def filter_not(self, predicate: RecordPredicate[K, V], name: str | None = None) -> KStream[K, V]:
        """Keep the records for which a predicate does not hold.

        Shape: KStream[K, V] -> KStream[K, V]; n -> at most n; key kept; store: no; repartition: no.

        Args:
            predicate: function ``(key, value)``; a true result drops the record.
            name: name of the node in the topology. Default: a generated name.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.filter_not(lambda key, value: value > 2), {"orders": [("a", 1), ("b", 3)]})
            [('a', 1, 0)]

        Source: Kafka Streams `KStream#filterNot`; differences: none.
        """
        return self._then("filter_not", "FILTER", stateless.Filter(taking(predicate, *RECORD), negate=True), name)

    def map(self, mapper: Callable[[K, V], tuple[K2, V2]], name: str | None = None) -> KStream[K2, V2]:
        """Replace the key and value of each record.

        Shape: KStream[K, V] -> KStream[K2, V2]; 1 -> 1; key changed; store: no; repartition: before the next grouping
            or join.

        Args:
            mapper: function ``(key, value)`` that returns the pair of the new key and value.
            name: name of the node in the topology. Default: a generated name.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.map(lambda key, value: (key.upper(), value * 2)), {"orders": [("a", 1), ("b", 3)]})
            [('A', 2, 0), ('B', 6, 1)]

        Source: Kafka Streams `KStream#map`; differences: a tuple replaces `KeyValue`.
        """
        return self._then("map", "MAP", stateless.Map(taking(mapper, *RECORD)), name)

    @overload
    def map_values(
        self, mapper: Callable[[V], V2], name: str | None = None, *, with_key: Literal[False] = False
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], V2], name: str | None = None, *, with_key: Literal[True]
    ) -> KStream[K, V2]: ...
    def map_values(
        self, mapper: Callable[..., V2], name: str | None = None, *, with_key: bool = False
    ) -> KStream[K, V2]:
        """Replace the value of each record.

        Shape: KStream[K, V] -> KStream[K, V2]; 1 -> 1; key kept; store: no; repartition: no.

        Args:
            mapper: function ``(value)`` that returns the new value; ``(key, value)`` if ``with_key``.
            name: name of the node in the topology. Default: a generated name.
            with_key: whether the mapper takes the key as well. Default: False.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.map_values(lambda value: value + 1), {"orders": [("a", 1), ("b", 3)]})
            [('a', 2, 0), ('b', 4, 1)]

        Source: Kafka Streams `KStream#mapValues`; differences: ``with_key`` replaces `ValueMapperWithKey`.
        """
        mapper = taking(mapper, "value", key=with_key)
        return self._then("map_values", "MAPVALUES", stateless.MapValues(mapper, with_key), name)

    def flat_map(self, mapper: Callable[[K, V], Iterable[tuple[K2, V2]]], name: str | None = None) -> KStream[K2, V2]:
        """Replace each record by any number of records.

        Shape: KStream[K, V] -> KStream[K2, V2]; 1 -> any number; key changed; store: no; repartition: before the next
            grouping or join.

        Args:
            mapper: function ``(key, value)`` that returns pairs of a key and a value, in their order.
            name: name of the node in the topology. Default: a generated name.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.flat_map(lambda key, value: [(key, value), (key * 2, value)]), {"orders": [("a", 1)]})
            [('a', 1, 0), ('aa', 1, 0)]

        Source: Kafka Streams `KStream#flatMap`; differences: tuples replace `KeyValue`.
        """
        return self._then("flat_map", "FLATMAP", stateless.FlatMap(taking(mapper, *RECORD, many=True)), name)

    @overload
    def flat_map_values(
        self, mapper: Callable[[V], Iterable[V2]], name: str | None = None, *, with_key: Literal[False] = False
    ) -> KStream[K, V2]: ...
    @overload
    def flat_map_values(
        self, mapper: Callable[[K, V], Iterable[V2]], name: str | None = None, *, with_key: Literal[True]
    ) -> KStream[K, V2]: ...
    def flat_map_values(
        self, mapper: Callable[..., Iterable[V2]], name: str | None = None, *, with_key: bool = False
    ) -> KStream[K, V2]:
        """Replace each value by any number of values, one record each.

        Shape: KStream[K, V] -> KStream[K, V2]; 1 -> any number; key kept; store: no; repartition: no.

        Args:
            mapper: function ``(value)`` that returns the new values in their order; ``(key, value)`` if ``with_key``.
            name: name of the node in the topology. Default: a generated name.
            with_key: whether the mapper takes the key as well. Default: False.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> lines = StreamsBuilder().stream("lines")
            >>> head(lines.flat_map_values(str.split), {"lines": [("a", "to be")]})
            [('a', 'to', 0), ('a', 'be', 0)]

        Source: Kafka Streams `KStream#flatMapValues`; differences: ``with_key`` replaces `ValueMapperWithKey`.
        """
        mapper = taking(mapper, "value", key=with_key, many=True)
        return self._then("flat_map_values", "FLATMAPVALUES", stateless.FlatMapValues(mapper, with_key), name)

    def select_key(self, mapper: Callable[[K, V], K2], name: str | None = None) -> KStream[K2, V]:
        """Replace the key of each record.

        Shape: KStream[K, V] -> KStream[K2, V]; 1 -> 1; key changed; store: no; repartition: before the next grouping
            or join.

        Args:
            mapper: function ``(key, value)`` that returns the new key.
            name: name of the node in the topology. Default: a generated name.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.select_key(lambda key, value: str(value)), {"orders": [("a", 1), ("b", 3)]})
            [('1', 1, 0), ('3', 3, 1)]

        Source: Kafka Streams `KStream#selectKey`; differences: none.
        """
        return self._then("select_key", "KEY-SELECT", stateless.SelectKey(taking(mapper, *RECORD)), name)

    def peek(self, action: Callable[[K, V], object], name: str | None = None) -> KStream[K, V]:
        """Call a function for each record and pass the record on unchanged.

        Shape: KStream[K, V] -> KStream[K, V]; 1 -> 1; key kept; store: no; repartition: no.

        Args:
            action: function ``(key, value)``; its result is ignored.
            name: name of the node in the topology. Default: a generated name.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> seen = []
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.peek(lambda key, value: seen.append(value)), {"orders": [("a", 1)]}), seen
            ([('a', 1, 0)], [1])

        Source: Kafka Streams `KStream#peek`; differences: none.
        """
        return self._then("peek", "PEEK", stateless.Peek(taking(action, *RECORD)), name)

    def foreach(self, action: Callable[[K, V], object], name: str | None = None) -> None:
        """Call a function for each record; the stream ends here.

        Shape: KStream[K, V] -> nothing; store: no; repartition: no.

        Args:
            action: function ``(key, value)``; its result is ignored.
            name: name of the node in the topology. Default: a generated name.

        Example:
            >>> from kstreamnb import StreamsBuilder
            >>> StreamsBuilder().stream("orders").foreach(lambda key, value: None, name="audit")

        Source: Kafka Streams `KStream#foreach`; differences: none.
        """
        self._then("foreach", "FOREACH", stateless.Foreach(taking(action, *RECORD)), name)

    def print(self, printed: Printed | None = None, *, label: str | None = None, name: str | None = None) -> None:
        """Write each record as a line ``[label]: key, value``; the stream ends here.

        Shape: KStream[K, V] -> text; store: no; repartition: no.

        Args:
            printed: where and how to write. Default: to standard output.
            label: text in brackets before each line. Default: the name of the stream's node.
            name: name of the node in the topology. Default: a generated name.

        Example:
            >>> from kstreamnb import StreamsBuilder
            >>> StreamsBuilder().stream("orders").print(label="orders")

        Source: Kafka Streams `KStream#print`, `Printed`; differences: none.
        """
        options = combined(Printed, printed, label=label, name=name)
        self.declare("stream", "print", stream_graph.emit_print, options=options)

    def merge(self, other: KStream[K, V], name: str | None = None) -> KStream[K, V]:
        """Combine the records of two streams into one, without an order between them.

        Shape: KStream[K, V], KStream[K, V] -> KStream[K, V]; 1 -> 1; key kept; store: no; repartition: no.

        Args:
            other: the other stream, of the same builder.
            name: name of the node in the topology. Default: a generated name.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> builder = StreamsBuilder()
            >>> both = builder.stream("shop").merge(builder.stream("web"))
            >>> head(both, {"shop": [("a", 1)], "web": [("b", 2)]})
            [('a', 1, 0), ('b', 2, 1)]

        Source: Kafka Streams `KStream#merge`; differences: none.
        """
        check_kind(other, "stream", "merge")
        return self.declare("stream", "merge", stream_graph.emit_merge, other, name=name)

    def _then(self, word: str, java: str, operator: Operator, name: str | None) -> KStream[K2, V2]:
        return self.declare("stream", word, stream_graph.transform, java=java, operator=operator, name=name)


class StreamOperators(Handle, Generic[K, V]):
    """Operators that hand a stream's records to processors, topics, tables and branches."""

    @overload
    def process(
        self, supplier: Callable[[], Processor[K, V, K2, V2]], *stores: str, name: str | None = None
    ) -> KStream[K2, V2]: ...
    @overload
    def process(
        self, supplier: Callable[[], RecordProcessor[K, V]], *stores: str, name: str | None = None
    ) -> KStream[Any, Any]: ...
    def process(
        self, supplier: Callable[[], RecordProcessor[K, V]], *stores: str, name: str | None = None
    ) -> KStream[Any, Any]:
        """Hand each record to a processor of the user, which may forward any records.

        Shape: KStream[K, V] -> KStream[K2, V2]; 1 -> any number; key changed; store: the user's; repartition: before
            the next grouping or join.

        Args:
            supplier: called without arguments once per task; returns a new `Processor`, so a class is a supplier.
            stores: names of the state stores that the processor uses; a `Named` may precede them, as in Java.
            name: name of the node in the topology. Default: a generated name.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import Processor
            >>> class Twice(Processor):
            ...     def process(self, record):
            ...         self.context.forward(record)
            ...         self.context.forward(record.with_key(record.key * 2))
            ...
            >>> head(StreamsBuilder().stream("orders").process(Twice), {"orders": [("a", 1)]})
            [('a', 1, 0), ('aa', 1, 0)]

        Source: Kafka Streams `KStream#process`, KIP-820; differences: none.
        """
        return self._process("process", supplier, stores, name)

    @overload
    def process_values(
        self, supplier: Callable[[], Processor[K, V, K, V2]], *stores: str, name: str | None = None
    ) -> KStream[K, V2]: ...
    @overload
    def process_values(
        self, supplier: Callable[[], RecordProcessor[K, V]], *stores: str, name: str | None = None
    ) -> KStream[K, Any]: ...
    def process_values(
        self, supplier: Callable[[], RecordProcessor[K, V]], *stores: str, name: str | None = None
    ) -> KStream[K, Any]:
        """Hand each record to a processor of the user that keeps the keys.

        Shape: KStream[K, V] -> KStream[K, V2]; 1 -> any number; key kept; store: the user's; repartition: no.

        Args:
            supplier: called without arguments once per task; returns a new `FixedKeyProcessor`.
            stores: names of the state stores that the processor uses; a `Named` may precede them, as in Java.
            name: name of the node in the topology. Default: a generated name.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> from kstreamnb import FixedKeyProcessor
            >>> class Double(FixedKeyProcessor):
            ...     def process(self, record):
            ...         self.context.forward(record.with_value(record.value * 2))
            ...
            >>> head(StreamsBuilder().stream("orders").process_values(Double), {"orders": [("a", 1)]})
            [('a', 2, 0)]

        Source: Kafka Streams `KStream#processValues`, KIP-820; differences: none.
        """
        return self._process("process_values", supplier, stores, name)

    def _process(self, word: str, supplier: UserFunction, stores: tuple[str, ...], name: str | None) -> KStream[K, V]:
        check_supplier(word, supplier)
        name = next((each for each in stores if isinstance(each, Named)), name)
        stores = tuple(each for each in stores if not isinstance(each, Named))
        for store in stores:
            check_text(store, "store name")
        given = {"supplier": supplier, "stores": stores, "keeps_key": word == "process_values"}
        return self.declare("stream", word, stream_graph.emit_process, name=name, **given)

    @spelled_out(Produced)
    def to(
        self, topic: str | TopicChooser[K, V], produced: Produced | None = None, **keywords: Unpack[ProducedKeywords]
    ) -> None:
        """Write the records to a topic.

        Shape: KStream[K, V] -> topic; 1 -> 1; key kept; store: no; repartition: no.

        Args:
            topic: name of the topic, or a function ``(key, value, metadata)`` that returns it for each record; metadata
                are topic, partition and offset of the input record, timestamp and headers of this one.
            produced: how to write. Default: as the stream and the application say.

        Example:
            >>> from kstreamnb import StreamsBuilder
            >>> StreamsBuilder().stream("orders").to("copies", value_serde="json")

        Source: Kafka Streams `KStream#to`, `TopicNameExtractor`; differences: none.
        """
        if callable(topic):
            taking(topic, *RECORD, "metadata")
        else:
            check_topic_name(topic)
        options = combined(Produced, produced, **keywords)
        self.declare("stream", "to", stream_graph.emit_to, topic=topic, options=options)

    @spelled_out(Repartitioned)
    def repartition(
        self, repartitioned: Repartitioned | None = None, **keywords: Unpack[RepartitionedKeywords]
    ) -> KStream[K, V]:
        """Send the records through an internal topic, so that each key is in its partition.

        Shape: KStream[K, V] -> KStream[K, V]; 1 -> 1, records without key are lost; key kept; store: no;
            repartition: yes.

        Args:
            repartitioned: how to make the topic. Default: as the stream and the application say.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> all_orders = orders.select_key(lambda key, value: "all").repartition(name="by-all")
            >>> head(all_orders, {"orders": [("a", 1), ("b", 3)]})
            [('all', 1, 0), ('all', 3, 1)]

        Source: Kafka Streams `KStream#repartition`, KIP-221; differences: none.
        """
        options = combined(Repartitioned, repartitioned, **keywords)
        return self.declare("stream", "repartition", stream_graph.emit_repartition, options=options)

    @spelled_out(Materialized)
    def to_table(self, *options: Named | Materialized, **keywords: Unpack[MaterializedKeywords]) -> KTable[K, V]:
        """Make a table in which each record replaces the row of its key; a null value deletes the row.

        Shape: KStream[K, V] -> KTable[K, V]; 1 -> 1; key kept; store: when named or needed; repartition: after a change
            of keys.
        Late: an older record replaces a newer row, except in a versioned store. A null key is dropped.

        Args:
            options: a `Named` and a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> head(orders.to_table(store="latest"), {"orders": [("a", 1), ("a", None)]})
            [('a', 1, 0), ('a', None, 1)]

        Source: Kafka Streams `KStream#toTable`, KIP-523; differences: none.
        """
        return self.declare("table", "to_table", stream_graph.emit_to_table, table=materialization(options, keywords))

    def split(self, name: str | None = None) -> BranchedKStream[K, V]:
        """Start to split the stream: each record goes to the first branch whose predicate holds.

        Shape: KStream[K, V] -> n KStream[K, V]; 1 -> at most 1; key kept; store: no; repartition: no.

        Args:
            name: prefix of the branches' names. Default: none in the result, a generated one in the topology.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders")
            >>> parts = orders.split(name="by-").branch(lambda key, value: value > 2, name="large")
            >>> parts = parts.default_branch(name="small")
            >>> list(parts), head(parts["by-small"], {"orders": [("a", 1), ("b", 3)]})
            (['by-large', 'by-small'], [('a', 1, 0)])

        Source: Kafka Streams `KStream#split`, KIP-418; differences: the prefix of an unnamed split is not part of the
            names in the result.
        """
        branched: BranchedKStream[K, V] = self.declare("split", "split", stream_graph.emit_split, name=name)
        branched.prefix = name or ""
        return branched


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
