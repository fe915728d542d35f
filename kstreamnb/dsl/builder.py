"""`StreamsBuilder`: where a topology begins, and where it is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from re import Pattern
from typing import Any, Unpack

from kstreamnb.core.operator import Operator
from kstreamnb.core.processor import UserProcessor
from kstreamnb.core.stores import StoreSpec
from kstreamnb.dsl.declarations import Declaration, DeclarationLog, Handle, replay
from kstreamnb.dsl.flows import GlobalFlow, StreamFlow, TableFlow
from kstreamnb.dsl.fronts import GlobalKTable, KStream, KTable
from kstreamnb.dsl.materializing import Keeping, kept, lazy_table, rows_store
from kstreamnb.dsl.options import Consumed, Reading, StoreType, TableReading, given, serdes_of, spelled_out
from kstreamnb.errors import ConfigError, TopologyError
from kstreamnb.logical.builder import GraphBuilder
from kstreamnb.logical.graph import LogicalGraph, Optimization
from kstreamnb.logical.lowering import lower
from kstreamnb.logical.nodes import GlobalTable, StateStore, StreamSource
from kstreamnb.logical.optimizer.rewrites import optimise, rules_of
from kstreamnb.operators.tables import TableSource
from kstreamnb.suggesting import Suggesting
from kstreamnb.topology.topology import Topology


class StreamsBuilder(Suggesting):
    """Where streams and tables are declared; `build` makes a `Topology` of what was declared from them.

    Args:
        name: a name for people.
        store_type: what stores are that do not say themselves: "persistent" or "in_memory".
        ensure_explicit_names: refuse to build while a store or an internal topic has a generated name, which would
            change with the next edit (Kafka's ``ensure.explicit.internal.resource.naming``).
        processor_wrapper: gets every node's name and operator and gives the operator to use instead.

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
        processor_wrapper: Callable[[str, Operator], Operator] | None = None,
    ) -> None:
        if store_type not in ("persistent", "in_memory"):
            raise ConfigError(f'store type "{store_type}" is neither "persistent" nor "in_memory"')
        self.name = name
        self.ensure_explicit_names = ensure_explicit_names
        self.processor_wrapper = processor_wrapper
        self.ledger = DeclarationLog.open(name)
        self.ledger.persistent = store_type == "persistent"

    @spelled_out
    def stream(
        self, topic: str | Iterable[str] | Pattern[str], consumed: Consumed | None = None, **options: Unpack[Reading]
    ) -> KStream[Any, Any]:
        """Read a topic, several, or all whose whole name matches a compiled pattern, as a stream.

        Shape: topics -> KStream[K, V]; 1 -> 1; store: no; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> orders = StreamsBuilder().stream("orders", value_serde="long")
            >>> head(orders, {"orders": [("a", 1)]})
            [('a', 1, 0)]

        Source: Kafka Streams `StreamsBuilder#stream`; differences: none.
        """
        pattern = topic.pattern if isinstance(topic, Pattern) else None
        topics: tuple[str, ...] = ()
        if not isinstance(topic, Pattern):
            topics = (topic,) if isinstance(topic, str) else tuple(dict.fromkeys(topic))
            if not topics:
                raise TopologyError("a stream reads at least one topic")
        arguments = {"topics": topics, "pattern": pattern, "options": given(Consumed, consumed, **options)}
        return KStream(self.ledger, self.ledger.declare("stream", _stream, (), arguments))

    @spelled_out
    def table(self, topic: str, consumed: Consumed | None = None, **options: Unpack[TableReading]) -> KTable[Any, Any]:
        """Read a topic as a table: each record is the new row of its key, a null value deletes it.

        Shape: topic -> KTable[K, V]; 1 -> 1; store: when named or needed; repartition: no.
        Late: an older record replaces a newer row, except in a versioned store. A null key is dropped.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> prices = StreamsBuilder().table("prices", store="prices")
            >>> head(prices, {"prices": [("hat", 12), ("hat", None)]})
            [('hat', 12, 0), ('hat', None, 1)]

        Source: Kafka Streams `StreamsBuilder#table`; differences: none.
        """
        arguments = _table_arguments(topic, consumed, options)
        return KTable(self.ledger, self.ledger.declare("table", _table, (), arguments))

    @spelled_out
    def global_table(
        self, topic: str, consumed: Consumed | None = None, **options: Unpack[TableReading]
    ) -> GlobalKTable[Any, Any]:
        """Read a topic as a table that every task has whole.

        Shape: topic -> GlobalKTable[K, V]; 1 -> 1; store: yes, its topic is its log; repartition: no.
        Late: nothing is late; records keep their own time, no timestamp extractor is asked. A null key is dropped.

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> builder = StreamsBuilder()
            >>> names = builder.global_table("names", store="names")
            >>> joined = builder.stream("orders").join(names, lambda key, value: value, lambda order, name: name)
            >>> head(joined, {"names": [("h", "Hat")], "orders": [("a", "h"), ("b", "x")]})
            [('a', 'Hat', 1)]

        Source: Kafka Streams `StreamsBuilder#globalTable`; differences: none.
        """
        arguments = _table_arguments(topic, consumed, options)
        if options.get("materialized") is not None and arguments["keeping"].store_name is None:
            raise ConfigError(
                f'the store of global table "{topic}" has no name',
                hint='say store="…", or leave the Materialized out',
                java="Global stores must pass in suppliers with exactly one store but got 0",
            )
        return GlobalKTable(self.ledger, self.ledger.declare("global_table", _global_table, (), arguments))

    def add_state_store(self, store: StoreSpec) -> StreamsBuilder:
        """Add a store that processors use by name.

        Shape: store.

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
        self.ledger.declare("add_state_store", _add_state_store, (), {"store": store})
        return self

    @spelled_out
    def add_global_store(
        self,
        store: StoreSpec,
        topic: str,
        supplier: Callable[[], Any],
        consumed: Consumed | None = None,
        **options: Unpack[Reading],
    ) -> StreamsBuilder:
        """Add a global store that a processor of the user's keeps from a topic.

        Shape: topic -> store; store: global; repartition: no.
        Late: nothing is late; records keep their own time, no timestamp extractor is asked.

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
        reading = given(Consumed, consumed, **options)
        arguments = {"store": store, "topic": topic, "supplier": supplier, "options": reading}
        self.ledger.declare("add_global_store", _add_global_store, (), arguments)
        return self

    def declarations(self) -> tuple[Declaration, ...]:
        """What was declared and still counts, in order."""
        return self.ledger.declarations()

    def forget(self, *things: Handle | Declaration | str) -> None:
        """Take back declarations, or all of a place such as ``"cell 3"``; what was made from them is stale."""
        self.ledger.forget(*(thing.declaration if isinstance(thing, Handle) else thing for thing in things))

    @property
    def sample(self) -> Any:
        """The records that previews run on: a `Sample`, or any records; None for none."""
        return self.ledger.sample

    @sample.setter
    def sample(self, sample: Any) -> None:
        self.ledger.sample = sample

    def graph(self) -> LogicalGraph:
        """The logical graph of what was declared, not optimised."""
        self.ledger.check()
        return replay(self.declarations(), persistent=self.ledger.persistent).draft.freeze()

    def explain(self, *, optimize: bool | str = True) -> tuple[Optimization, ...]:
        """What optimising changes: for every rewrite the nodes before and after, and why.

        Example:
            >>> builder = StreamsBuilder()
            >>> prices = builder.table("prices", store="prices")
            >>> print(*builder.explain())
            reuse.ktable.source.topics: prices-changelog → prices; topic "prices" holds every row already
        """
        return optimise(self.graph(), rules_of(optimize))[1]

    def build(self, *, optimize: bool | str = False) -> Topology:
        """The topology of everything that was declared.

        ``optimize``: True for all of Kafka's optimisations, or a text that names some: "merge.repartition.topics",
        "reuse.ktable.source.topics", "single.store.self.join".

        Raises: TopologyError when what was declared does not fit together, with the user's line.

        Example:
            >>> builder = StreamsBuilder()
            >>> builder.stream("orders").to("copies")
            >>> builder.build().describe().splitlines()[2].strip()
            'Source: KSTREAM-SOURCE-0000000000 (topics: [orders])'

        Source: Kafka Streams `StreamsBuilder#build`; differences: none.
        """
        rules = rules_of(optimize)
        graph = self.graph()
        if self.ensure_explicit_names:
            graph.check_names()
        optimised, explained = optimise(graph, rules)
        topology = lower(optimised, name=self.name, wrap=self.processor_wrapper)
        topology.explained = explained
        return topology

    def __repr__(self) -> str:
        return f"StreamsBuilder({self.name!r}) with {len(self.declarations())} declarations"


# --- in the graph -----------------------------------------------------------------------------------------------------
def _table_arguments(topic: str, consumed: Consumed | None, options: TableReading) -> dict[str, Any]:
    """Arguments of a table: serdes of the topic and of the store are the same."""
    said: dict[str, Any] = dict(options)
    reading = {name: said.pop(name, None) for name in ("timestamp_extractor", "offset_reset", "name")}
    keeping = kept(said)
    reading |= serdes_of(keeping.options, None, None)
    return {"topic": topic, "options": given(Consumed, consumed, **reading), "keeping": keeping}


def _stream(draft: GraphBuilder, topics: tuple[str, ...], pattern: str | None, options: Consumed) -> StreamFlow:
    name = draft.name_or_new(options.name, "KSTREAM-SOURCE-")
    node = draft.add(StreamSource(name=name, topics=topics, pattern=pattern, **_reading(options)))
    return StreamFlow(node.id, name, options.key_serde, options.value_serde, (name,))


def _reading(options: Consumed) -> dict[str, Any]:
    return {name: value for name, value in vars(options).items() if name != "name"}


def _table(draft: GraphBuilder, topic: str, options: Consumed, keeping: Keeping) -> TableFlow:
    store_name = keeping.new_store(draft, f"{topic}-")
    source = draft.name_or_new(options.name, "KSTREAM-SOURCE-", "-source")
    name = draft.name_or_new(options.name, "KTABLE-SOURCE-")
    store = rows_store(draft, keeping, store_name, options.key_serde, options.value_serde)
    node = draft.add(StreamSource(name=source, topics=(topic,), mergeable=False, **_reading(options)))
    return lazy_table(draft, name, store, keeping, node.id, (source,), topic)


def _global_table(draft: GraphBuilder, topic: str, options: Consumed, keeping: Keeping) -> GlobalFlow:
    if keeping.options.is_versioned:
        java = "Invalid topology: GlobalTables cannot be versioned."
        raise TopologyError(f'global table "{topic}" cannot be versioned', java=java)
    store_name = keeping.new_store(draft, f"{topic}-", logged=False)
    store = rows_store(draft, keeping, store_name, options.key_serde, options.value_serde)
    node = _global(draft, topic, store, TableSource(store_name), options)
    return GlobalFlow(node.id, store_name, keeping.store_name)


def _global(draft: GraphBuilder, topic: str, store: StoreSpec, operator: Any, options: Consumed) -> GlobalTable:
    source = draft.name_or_new(options.name, "KSTREAM-SOURCE-", "-source")
    name = draft.name_or_new(options.name, "KTABLE-SOURCE-")
    reading = {name: value for name, value in _reading(options).items() if name != "offset_reset"}
    node = GlobalTable(name=name, source_name=source, topic=topic, store=store, operator=operator, **reading)
    return draft.add(node)


def _add_state_store(draft: GraphBuilder, store: StoreSpec) -> None:
    draft.add(StateStore(name=store.name, store=store))


def _add_global_store(draft: GraphBuilder, store: StoreSpec, topic: str, supplier: Any, options: Consumed) -> None:
    _global(draft, topic, store, UserProcessor(supplier), options)
