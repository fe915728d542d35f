"""`StreamsBuilder`: declares streams and tables and builds a topology of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from re import Pattern
from typing import Any, Never, Unpack, cast

from kstreamnb import hints
from kstreamnb.charts import BeforeAfter
from kstreamnb.core.arguments import expect
from kstreamnb.core.extractors import TimestampExtractor
from kstreamnb.core.names import check_topic_name
from kstreamnb.core.operator import Operator
from kstreamnb.core.processor import UserProcessor
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.signatures import taking
from kstreamnb.core.stores import StoreSpec
from kstreamnb.dsl.declarations import BuiltVersion, Declaration, DeclarationLog, Handle, replay
from kstreamnb.dsl.flows import GlobalFlow, StreamFlow, TableFlow
from kstreamnb.dsl.keywords import ConsumedKeywords, TableSourceKeywords, combined, spelled_out
from kstreamnb.dsl.kstream import KStream
from kstreamnb.dsl.ktable import GlobalKTable, KTable
from kstreamnb.dsl.materialization import Materialization, lazy_table, materialization, row_store
from kstreamnb.dsl.option_fields import SerdeFields, StoreType
from kstreamnb.dsl.options import Consumed, Materialized
from kstreamnb.dsl.type_vars import SK as K
from kstreamnb.dsl.type_vars import SV as V
from kstreamnb.dsl.type_vars import RecordProcessor
from kstreamnb.errors import ConfigError, TopologyError
from kstreamnb.logical.builder import GraphBuilder
from kstreamnb.logical.graph import LogicalGraph, Optimization
from kstreamnb.logical.lowering import lower
from kstreamnb.logical.nodes import GlobalTable, StateStore, StreamSource
from kstreamnb.logical.optimizer.rewrites import optimise, rules_of
from kstreamnb.operators.tables import TableSource
from kstreamnb.suggesting import Suggesting
from kstreamnb.topology.topology import Topology
from kstreamnb.topology.validation import check_store, check_supplier, refuse


class StreamsBuilder(Suggesting):
    """Declares streams and tables, and builds a `Topology` from them.

    Args:
        name: a name for displays and reports. Default: none.
        store_type: "persistent" or "in_memory": whose expiry rules stores follow that do not name a type.
            Default: "persistent".
        ensure_explicit_names: whether to refuse to build while a store or an internal topic has a generated name,
            which would change with the next edit (Kafka's ``ensure.explicit.internal.resource.naming``).
            Default: False.
        process_changes_records: whether optimizations take into account that ``process`` may change keys and values,
            and ``process_values`` values (Kafka's ``__enable.process.processValue.fix__``). Default: False, as in
            Kafka, so that a repartition may move above a processor that changes keys.
        processor_wrapper: function ``(name, operator)`` that returns the operator to use instead; not called for global
            tables and stores. Default: none.

    Example:
        >>> builder = StreamsBuilder("inventory")
        >>> builder.stream("sales").group_by_key().count(store="sold").to_stream().to("counts")
        >>> [each.nodes for each in builder.build().subtopologies()]  # doctest: +ELLIPSIS
        [('KSTREAM-SOURCE-0000000000', 'KSTREAM-AGGREGATE-0000000001', ...)]

    Source: Kafka Streams `StreamsBuilder`, `TopologyConfig`; differences: settings are keywords.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        store_type: StoreType = "persistent",
        ensure_explicit_names: bool = False,
        process_changes_records: bool = False,
        processor_wrapper: Callable[[str, Operator], Operator] | None = None,
    ) -> None:
        if store_type not in ("persistent", "in_memory"):
            raise ConfigError(f'store type must be "persistent" or "in_memory", got "{store_type}"')
        if name is not None:
            check_topic_name(name, "application name")
        if processor_wrapper is not None:
            taking(processor_wrapper, "name", "operator")
        self.name = name
        self.ensure_explicit_names, self.process_changes_records = ensure_explicit_names, process_changes_records
        self.processor_wrapper = processor_wrapper
        self.declaration_log = DeclarationLog.open(name)
        self.declaration_log.persistent = store_type == "persistent"

    @spelled_out(Consumed)
    def stream(
        self,
        topic: str | Sequence[str] | Pattern[str],
        consumed: Consumed[K, V] | None = None,
        **keywords: Unpack[ConsumedKeywords[K, V]],
    ) -> KStream[K, V]:
        """Read one or more topics as a stream.

        Type checkers know the types of keys and values from serdes such as ``Serdes.long()``; otherwise annotate the
        variable, as in ``orders: KStream[str, Order] = builder.stream("orders")``.

        Shape: topics -> KStream[K, V]; 1 -> 1; store: no; repartition: no.

        Args:
            topic: name of the topic, a list of names, or a compiled pattern of whole names.
            consumed: how to read. Default: as the application says.

        Raises: TopologyError for an illegal name, an empty list or a set, whose order would change between runs.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders", value_serde="long")
            >>> head(orders, {"orders": [("a", 1)]})
            [('a', 1, 0)]

        Source: Kafka Streams `StreamsBuilder#stream`; differences: none.
        """
        pattern = topic.pattern if isinstance(topic, Pattern) else None
        topics = () if isinstance(topic, Pattern) else _topics(topic)
        options = combined(Consumed, consumed, **keywords)
        source = self.declaration_log.declare("stream", _stream, topics=topics, pattern=pattern, options=options)
        return KStream(self.declaration_log, source)

    @spelled_out(Consumed, Materialized)
    def table(
        self,
        topic: str,
        consumed: Consumed[K, V] | Materialized | None = None,
        *options: Materialized,
        **keywords: Unpack[TableSourceKeywords[K, V]],
    ) -> KTable[K, V]:
        """Read a topic as a table: each record replaces the row of its key, a null value deletes it.

        Shape: topic -> KTable[K, V]; 1 -> 1; store: when named or needed; repartition: no.
        Late: an older record replaces a newer row, except in a versioned store. A null key is dropped.

        Args:
            topic: name of the topic.
            consumed: how to read, or a `Materialized`, as in Java. Default: as the application says.
            options: a `Materialized`, as in Java, instead of keywords. Default: none.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> prices = StreamsBuilder().table("prices", store="prices")
            >>> head(prices, {"prices": [("hat", 12), ("hat", None)]})
            [('hat', 12, 0), ('hat', None, 1)]

        Source: Kafka Streams `StreamsBuilder#table`; differences: none.
        """
        reading, table = _table_options(topic, consumed, options, keywords)
        source = self.declaration_log.declare("table", _table, topic=topic, options=reading, table=table)
        return KTable(self.declaration_log, source)

    @spelled_out(Consumed, Materialized)
    def global_table(
        self,
        topic: str,
        consumed: Consumed[K, V] | Materialized | None = None,
        *options: Materialized,
        **keywords: Unpack[TableSourceKeywords[K, V]],
    ) -> GlobalKTable[K, V]:
        """Read a topic as a table that every task holds completely.

        Shape: topic -> GlobalKTable[K, V]; 1 -> 1; store: yes, its topic is its log; repartition: no.
        Late: nothing is late; records keep their own time; no timestamp extractor is called. A null key is dropped.

        Args:
            topic: name of the topic.
            consumed: how to read, or a `Materialized`, as in Java. Default: as the application says.
            options: a `Materialized`, as in Java, instead of keywords. Default: none.

        Raises: ConfigError when a `Materialized` is given whose store has no name.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> builder = StreamsBuilder()
            >>> names = builder.global_table("names", store="names")
            >>> joined = builder.stream("orders").join(names, lambda key, value: value, lambda order, name: name)
            >>> head(joined, {"names": [("h", "Hat")], "orders": [("a", "h"), ("b", "x")]})
            [('a', 'Hat', 1)]

        Source: Kafka Streams `StreamsBuilder#globalTable`; differences: none.
        """
        reading, table = _table_options(topic, consumed, options, keywords)
        given = isinstance(consumed, Materialized) or options or keywords.get("materialized")
        if given and table.store_name is None:
            fact, hint = f'the store of global table "{topic}" needs a name', 'add store="…", or omit the Materialized'
            java = "Global stores must pass in suppliers with exactly one store but got 0"
            raise ConfigError(fact, hint=hint, java=java)
        source = self.declaration_log.declare("global_table", _global_table, topic=topic, options=reading, table=table)
        return GlobalKTable(self.declaration_log, source)

    def add_state_store(self, store: StoreSpec) -> StreamsBuilder:
        """Add a store that processors use by name.

        Shape: store.

        Args:
            store: the store, made by `Stores`.

        Raises: ConfigError if `Stores` did not make the store.

        Example:
            >>> from kstreamnb import Processor, StreamsBuilder, Stores, head
            >>> class Numbered(Processor):
            ...     def process(self, record):
            ...         seen = self.context.get_state_store("seen")
            ...         seen.put("all", (seen.get("all") or 0) + 1)
            ...         self.context.forward(record.with_value(seen.get("all")))
            >>> builder = StreamsBuilder()
            >>> builder = builder.add_state_store(Stores.in_memory_key_value_store("seen", value_serde="long"))
            >>> head(builder.stream("orders").process(Numbered, "seen"), {"orders": [("a", 9), ("b", 9)]})
            [('a', 1, 0), ('b', 2, 1)]

        Source: Kafka Streams `StreamsBuilder#addStateStore`; differences: none.
        """
        check_store(store)
        self.declaration_log.declare("add_state_store", _add_state_store, store=store)
        return self

    @spelled_out(Consumed)
    def add_global_store(
        self,
        store: StoreSpec,
        topic: str,
        supplier: Callable[[], RecordProcessor[Any, Any]],
        consumed: Consumed[K, V] | None = None,
        **keywords: Unpack[ConsumedKeywords[K, V]],
    ) -> StreamsBuilder:
        """Add a global store that a processor of the user fills from a topic.

        Shape: topic -> store; store: global; repartition: no.
        Late: nothing is late; records keep their own time; no timestamp extractor is called.

        Args:
            store: the store, made by `Stores`.
            topic: name of the topic.
            supplier: called without arguments once per task; returns a new `Processor` that fills the store.
            consumed: how to read. Default: as the application says.

        Raises: ConfigError if `Stores` did not make the store, TopologyError for an illegal name of a topic.

        Example:
            >>> from kstreamnb import Processor, Stores, StreamsBuilder, TopologyTestDriver
            >>> class Keep(Processor):
            ...     def process(self, record):
            ...         self.context.get_state_store("rates").put(record.key, record.value * 100)
            >>> store = Stores.in_memory_key_value_store("rates", value_serde="long")
            >>> driver = TopologyTestDriver(StreamsBuilder("r").add_global_store(store, "rates", Keep).build())
            >>> driver.create_input_topic("rates").pipe_input("EUR", 2)
            >>> driver.get_key_value_store("rates")["EUR"]
            200

        Source: Kafka Streams `StreamsBuilder#addGlobalStore`; differences: none.
        """
        check_store(store)
        check_topic_name(topic)
        given: object = supplier
        if isinstance(given, Consumed):  # Java's order
            hint = "write add_global_store(store, topic, supplier, consumed)"
            raise ConfigError("add_global_store takes the supplier before Consumed", hint=hint)
        check_supplier("add_global_store", supplier)
        options = combined(Consumed, consumed, **keywords)
        arguments = {"store": store, "topic": topic, "operator": UserProcessor(supplier), "options": options}
        self.declaration_log.declare("add_global_store", _global, **arguments)
        return self

    def declarations(self) -> tuple[Declaration, ...]:
        """Return the valid declarations, in order."""
        return self.declaration_log.declarations()

    def forget(self, *targets: Handle | Declaration | str) -> None:
        """Remove declarations; what was made from them becomes stale.

        Args:
            targets: streams and tables, declarations, or places such as "cell 3" for all that they declared.

        Raises: TopologyError when nothing was declared at a place.
        """
        for target in targets:
            expect(target, Handle | Declaration | str, "target", hint='pass a handle, or a place such as "cell 3"')
        self.declaration_log.forget(*(each.declaration if isinstance(each, Handle) else each for each in targets))

    @property
    def sample(self) -> Iterable[TopicRecord] | None:
        """The records that previews run on, such as a `Sample`; None for none."""
        return self.declaration_log.sample

    @sample.setter
    def sample(self, sample: Iterable[TopicRecord] | None) -> None:
        self.declaration_log.sample = sample

    def graph(self) -> LogicalGraph:
        """Return the logical graph of what was declared, not optimized."""
        return replay(self.declaration_log).graph.freeze(process_changes_records=self.process_changes_records)

    def explain(self, *, optimize: bool | str = True) -> BeforeAfter[Optimization]:
        """Return what optimizing changes: for every rewrite the nodes before and after, and the reason.

        In a notebook it displays as a table, with pictures of the topology before and after.

        Args:
            optimize: True for all of Kafka's optimizations, False for none, or a comma-separated string of some:
                "merge.repartition.topics", "reuse.ktable.source.topics", "single.store.self.join". Default: True.

        Example:
            >>> builder = StreamsBuilder()
            >>> prices = builder.table("prices", store="prices")
            >>> print(*builder.explain())
            reuse.ktable.source.topics: prices-changelog → prices; topic "prices" holds every row already
        """
        return cast("BeforeAfter[Optimization]", self.build(optimize=optimize).explained)

    def build(self, *props: Never, optimize: bool | str = False) -> Topology:
        """Build the topology of everything that was declared.

        Args:
            props: Java's settings, which are refused with what to write instead.
            optimize: True for all of Kafka's optimizations, False for none, or a comma-separated string of some:
                "merge.repartition.topics", "reuse.ktable.source.topics", "single.store.self.join". Default: False.

        Raises: TopologyError, with the user's line, when declarations do not fit together.

        Example:
            >>> builder = StreamsBuilder()
            >>> builder.stream("orders").to("copies")
            >>> builder.build().describe().splitlines()[2].strip()
            'Source: KSTREAM-SOURCE-0000000000 (topics: [orders])'

        Source: Kafka Streams `StreamsBuilder#build`; differences: none.
        """
        if props:
            raise ConfigError("build() takes no settings", hint=hints.without_settings(props[0]))
        graph = self.graph()
        optimised, explained = optimise(graph, rules_of(optimize))
        topology = lower(optimised, name=self.name, wrap=self.processor_wrapper)
        if self.ensure_explicit_names:
            graph.check_names()
        before = topology
        if explained:
            with suppress(TopologyError):  # nodes may have one name until an optimization removes all but one of them
                before = lower(optimise(graph, ())[0], name=self.name)
        topology.explained = BeforeAfter(explained, before, topology)
        topology.built_from = BuiltVersion.of(self.declaration_log)
        return topology

    def __repr__(self) -> str:
        return f"StreamsBuilder({self.name!r}) with {len(self.declarations())} declarations"


# --- in the graph -----------------------------------------------------------------------------------------------------
class SourceFields(SerdeFields):
    """Fields of a source node that say how its topics are read."""

    timestamp_extractor: TimestampExtractor | None


def _topics(topic: object) -> tuple[str, ...]:
    """Return the names of topics, each once; raise TopologyError for anything else."""
    if isinstance(topic, Set):
        raise TopologyError("expected a list of topics, got a set", hint="pass a list, or sorted(…)")
    if not isinstance(topic, Sequence):
        fact = f'topic must be a name, a list of names or a pattern, got type "{type(topic).__name__}"'
        raise TopologyError(fact, hint="pass its name here, and its records to ks.replay(topology, sample)")
    names = (topic,) if isinstance(topic, str) else topic
    topics = tuple(dict.fromkeys(check_topic_name(name) for name in names))
    if not topics:
        raise refuse("a stream needs at least one topic", "topics cannot be empty", hint="pass the name of a topic")
    return topics


def _table_options(
    topic: str,
    consumed: Consumed[K, V] | Materialized | None,
    options: tuple[Materialized, ...],
    keywords: TableSourceKeywords,
) -> tuple[Consumed, Materialization]:
    """Return how to read a table's topic, and its store; the serdes of both are the same."""
    check_topic_name(topic)
    if isinstance(consumed, Materialized):
        options, consumed = (consumed, *options), None
    fields = {**keywords}
    reading = {name: fields.pop(name, None) for name in ("timestamp_extractor", "offset_reset", "name")}
    table = materialization(options, fields)
    serdes = {"key_serde": table.options.key_serde, "value_serde": table.options.value_serde}
    return combined(Consumed, consumed, **reading, **serdes), table


def _source_fields(options: Consumed) -> SourceFields:
    return {**options.serdes(), "timestamp_extractor": options.timestamp_extractor}


def _stream(graph: GraphBuilder, topics: tuple[str, ...], pattern: str | None, options: Consumed) -> StreamFlow:
    name, reset = graph.name_or_new(options.name, "KSTREAM-SOURCE-"), options.offset_reset
    node = StreamSource(name=name, topics=topics, pattern=pattern, offset_reset=reset, **_source_fields(options))
    return StreamFlow(graph.add(node).id, name, options.key_serde, options.value_serde, (name,))


def _table(graph: GraphBuilder, topic: str, options: Consumed, table: Materialization) -> TableFlow:
    store_name = table.new_store(graph, f"{topic}-")
    source = graph.name_or_new(options.name, "KSTREAM-SOURCE-", "-source")
    name = graph.name_or_new(options.name, "KTABLE-SOURCE-")
    store, reset = row_store(graph, table, store_name, **options.serdes()), options.offset_reset
    node = StreamSource(name=source, topics=(topic,), mergeable=False, offset_reset=reset, **_source_fields(options))
    return lazy_table(graph, name, store, table, graph.add(node).id, (source,), topic)


def _global_table(graph: GraphBuilder, topic: str, options: Consumed, table: Materialization) -> GlobalFlow:
    if table.options.is_versioned:
        java = "Invalid topology: GlobalTables cannot be versioned."
        raise TopologyError(f'global table "{topic}" cannot be versioned', java=java)
    store_name = table.new_store(graph, f"{topic}-", logged=False)
    store = row_store(graph, table, store_name, **options.serdes())
    return _global(graph, topic, store, TableSource(store_name), options, table.store_name)


def _global(
    graph: GraphBuilder, topic: str, store: StoreSpec, operator: Operator, options: Consumed, named: str | None = None
) -> GlobalFlow:
    source = graph.name_or_new(options.name, "KSTREAM-SOURCE-", "-source")
    name = graph.name_or_new(options.name, "KTABLE-SOURCE-")
    fields = _source_fields(options)
    node = GlobalTable(name=name, source_name=source, topic=topic, store=store, operator=operator, **fields)
    return GlobalFlow(graph.add(node).id, store.name, named)


def _add_state_store(graph: GraphBuilder, store: StoreSpec) -> None:
    graph.add(StateStore(name=store.name, store=store))
