"""The topology: nodes and stores as added by the Processor API and by the DSL's lowering.

A topology only grows. Everything else about it (sub-topologies, description, internal topics, tasks) is computed
from what was added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from kstreamnb.core.arguments import check_arguments, expect, expect_texts
from kstreamnb.core.displayed import Displayed
from kstreamnb.core.formatting import pluralize
from kstreamnb.core.names import check_topic_name
from kstreamnb.core.operator import Operator
from kstreamnb.core.processor import ProcessorSupplier, UserProcessor
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import TopologyError
from kstreamnb.source_location import SourceLocation, user_origin
from kstreamnb.suggesting import Suggesting
from kstreamnb.topology import document, validation
from kstreamnb.topology.description import TopologyDescription, describe_topology
from kstreamnb.topology.nodes import InternalTopic, Node, NodeGraph, ProcessorNode, Sink, Source, TopicName
from kstreamnb.topology.partitions import OwnedTopic, PlannedTask, owned_topics, partition_counts, plan_tasks


class BuiltFrom(Protocol):
    """The declarations that a topology was built from, which may have changed since."""

    def stale(self) -> str | None:
        """Say what changed since the topology was built, and the call that builds it again; None if nothing did."""

    @property
    def sample(self) -> Iterable[TopicRecord] | None:
        """The records that the builder's previews run on now."""


@dataclass(eq=True, repr=False)
class Topology(NodeGraph, Suggesting, Displayed):
    """A graph of sources, processors, stores and sinks, built node by node.

    Attributes:
        name: a name for displays; it is not part of the text of `describe`. Default: None.
        nodes: every node by name, in the order in which they were added: parents come before children.
        stores: every store that is not global, by name.
        global_stores: the specs of global stores, by name.
        internal_topics: repartition topics by name, without the application id.
        copartitioned: groups of source nodes whose topics must have the same number of partitions.

    Example:
        >>> topology = Topology().add_source("in", "orders").add_sink("out", "copies", "in")
        >>> print(topology.describe())
        Topologies:
           Sub-topology: 0
            Source: in (topics: [orders])
              --> out
            Sink: out (topic: copies)
              <-- in
    """

    explained: tuple[object, ...] = field(default=(), init=False, compare=False)
    built_from: BuiltFrom | None = field(default=None, init=False, compare=False)

    def add_source(
        self,
        name: str,
        *topics: str,
        pattern: str | None = None,
        key_serde: object = None,
        value_serde: object = None,
        timestamp_extractor: object = None,
        offset_reset: str | None = None,
        origin: SourceLocation | None = None,
    ) -> Self:
        """Add a node that reads ``topics``, or every topic whose whole name matches ``pattern``.

        Args:
            name: name of the new node.
            topics: names of the topics.
            pattern: regular expression that must match the whole name of a topic, instead of ``topics``. Default: None.
            key_serde: serde of the keys, or its name. Default: the application's.
            value_serde: serde of the values, or its name. Default: the application's.
            timestamp_extractor: determines event times. Default: the application's.
            offset_reset: "earliest", "latest", "none" or "by_duration:PT1H". Default: the application's
                ``auto.offset.reset``.
            origin: the line that declares the node. Default: the caller's.

        Raises: TopologyError if the name is taken, or another source already reads a topic.
        """
        validation.check_name(self, name)
        if pattern is None:
            validation.check_topics(self, topics)
        elif topics:
            raise TopologyError(f'source "{name}" has both topics and a pattern')
        else:
            validation.check_pattern(self, pattern)
        validation.check_offset_reset(offset_reset)
        settings = (key_serde, value_serde, timestamp_extractor, offset_reset)
        self.nodes[name] = Source(name, topics, pattern, *settings, origin=origin or user_origin())
        return self

    def add_processor(
        self,
        name: str,
        supplier: Operator | ProcessorSupplier,
        *parents: str,
        stores: Iterable[str] = (),
        dsl: str | None = None,
        origin: SourceLocation | None = None,
    ) -> Self:
        """Add a node that runs a processor; ``supplier`` creates a new one for every task, as a class does.

        An `Operator` is used as it is. Stores that the supplier or its processor declares in ``stores()`` are added and
        connected; ``stores`` names stores that were added before.

        Args:
            name: name of the new node.
            supplier: function without arguments that returns a processor, or a class.
            parents: names of the nodes whose records it gets.
            stores: names of stores to connect. Default: none.
            dsl: the DSL call that the node comes from, for displays. Default: None.
            origin: the line that declares the node. Default: the caller's.

        Raises: TopologyError when the name is taken, a parent is unknown or a store cannot be connected.
        """
        validation.check_name(self, name)
        validation.check_parents(self, name, parents)
        own = () if isinstance(supplier, Operator) else validation.supplied_stores(name, supplier)
        operator = supplier if isinstance(supplier, Operator) else UserProcessor(supplier)
        for store in own:
            validation.check_new_store(self, store)
        stores = expect_texts(stores, "stores")
        validation.check_stores_exist(self, name, stores)
        self.stores.update({store.name: store for store in own})
        used = dict.fromkeys((*(store.name for store in own), *stores))
        origin = origin or user_origin()
        self.nodes[name] = ProcessorNode(name, tuple(parents), operator, tuple(used), dsl=dsl, origin=origin)
        return self

    def add_sink(
        self,
        name: str,
        topic: TopicName,
        *parents: str,
        key_serde: object = None,
        value_serde: object = None,
        partitioner: object = None,
        origin: SourceLocation | None = None,
    ) -> Self:
        """Add a node that writes to ``topic``, or to the topic that ``topic(key, value, metadata)`` names.

        Args:
            name: name of the new node.
            topic: name of the topic, or a function ``(key, value, metadata) -> name``.
            parents: names of the nodes whose records are written.
            key_serde: serde of the keys, or its name. Default: the application's.
            value_serde: serde of the values, or its name. Default: the application's.
            partitioner: function ``(topic, key, value, partitions) -> partition``. Default: None, murmur2 of the key's
                bytes.
            origin: the line that declares the node. Default: the caller's.

        Raises: TopologyError when the name is taken or a parent is unknown.
        """
        if topic is None:
            raise TopologyError(f'sink "{name}" needs a topic', java="topic cannot be null")
        if not callable(topic):
            expect(topic, str, "topic", hint="give a name, or a function (key, value, metadata) that returns one")
            check_topic_name(topic)
        validation.check_name(self, name)
        validation.check_parents(self, name, parents)
        settings = (key_serde, value_serde, partitioner, origin or user_origin())
        self.nodes[name] = Sink(name, tuple(parents), topic, *settings)
        return self

    def add_state_store(self, store: StoreSpec, *processors: str) -> Self:
        """Add a store and connect it to ``processors``.

        Args:
            store: spec of the store, from `Stores`.
            processors: names of the processors that use it.

        Raises: TopologyError when another store has the name or a processor does not exist.
        """
        validation.check_new_store(self, store)
        validation.check_users(self, store, processors)
        self.stores[store.name] = store
        for processor in processors:
            self._connect(processor, [store.name])
        return self

    def connect_processor_and_state_stores(self, name: str, *stores: str) -> Self:
        """Connect processor ``name`` to stores that were added before.

        Args:
            name: name of the processor.
            stores: names of the stores.

        Raises: TopologyError when the processor or a store does not exist, or a store is global.
        """
        validation.check_connecting(self, name, stores)
        self._connect(name, stores)
        return self

    def add_global_store(
        self,
        store: StoreSpec,
        source: str,
        topic: str,
        name: str,
        supplier: Operator | ProcessorSupplier,
        *,
        key_serde: object = None,
        value_serde: object = None,
        timestamp_extractor: object = None,
        dsl: str | None = None,
        origin: SourceLocation | None = None,
    ) -> Self:
        """Add a store that every task reads completely: ``source`` reads ``topic``, processor ``name`` fills the store.

        The store has no changelog: it is restored from its topic.

        Args:
            store: spec of the store, from `Stores`.
            source: name of the new source node.
            topic: name of the topic, which is read completely by every task.
            name: name of the new processor node.
            supplier: creates the processor that fills the store, for example its class.
            key_serde: serde of the topic's keys, or its name. Default: the application's.
            value_serde: serde of the topic's values, or its name. Default: the application's.
            timestamp_extractor: determines event times. Default: the application's.
            dsl: the DSL call that the node comes from, for displays. Default: None.
            origin: the line that declares the node. Default: the caller's.

        Raises: TopologyError when a name or the topic is taken.
        """
        same_names = "sourceName and processorName must be different."
        validation.check_store_with_source(self, store, source, topic, name, same_names)
        operator = supplier if isinstance(supplier, Operator) else UserProcessor(supplier)
        marks: dict[str, Any] = {"is_global": True, "origin": origin or user_origin()}
        self.global_stores[store.name] = replace(store, logged=False, cached=False, changelog_topic=topic)
        self.nodes[source] = Source(source, (topic,), None, key_serde, value_serde, timestamp_extractor, **marks)
        self.nodes[name] = ProcessorNode(name, (source,), operator, (store.name,), dsl=dsl, **marks)
        return self

    def add_read_only_state_store(
        self,
        store: StoreSpec,
        source: str,
        topic: str,
        name: str,
        supplier: Operator | ProcessorSupplier,
        *,
        key_serde: object = None,
        value_serde: object = None,
        timestamp_extractor: object = None,
    ) -> Self:
        """Add a store that one processor fills from a topic, which serves as its changelog; others may only read it.

        Args:
            store: spec of the store, from `Stores`.
            source: name of the new source node.
            topic: name of the topic, which is read from its beginning.
            name: name of the new processor node.
            supplier: creates the processor that fills the store, for example its class.
            key_serde: serde of the topic's keys, or its name. Default: the application's.
            value_serde: serde of the topic's values, or its name. Default: the application's.
            timestamp_extractor: determines event times. Default: the application's.

        Raises: TopologyError when a name or the topic is taken.
        """
        same_names = f"Processor {name} is already added."
        validation.check_store_with_source(self, store, source, topic, name, same_names)
        settings: dict[str, Any] = {"key_serde": key_serde, "value_serde": value_serde}
        settings |= {"timestamp_extractor": timestamp_extractor, "offset_reset": "earliest"}
        self.add_source(source, topic, **settings)
        self.add_processor(name, supplier, source)
        return self.add_state_store(replace(store, logged=False, changelog_topic=topic), name)

    def add_internal_topic(self, name: str, partitions: int | None = None) -> Self:
        """Declare topic ``name`` as a repartition topic of this application.

        Args:
            name: name of the topic, without the application id.
            partitions: number of partitions. Default: the largest number among the topics upstream.
        """
        expect(name, str, "name of a topic")
        expect(partitions, int | None, "partitions")
        self.internal_topics[name] = InternalTopic(name, partitions)
        return self

    def co_partition(self, sources: Iterable[str]) -> Self:
        """Require that the topics of these source nodes have the same number of partitions.

        Args:
            sources: names of source nodes.
        """
        self.copartitioned.append(tuple(dict.fromkeys(expect_texts(sources, "names of sources"))))
        return self

    def description(self) -> TopologyDescription:
        """Return the description as a value, from which text, JSON and pictures are derived."""
        return describe_topology(self)

    def describe(self) -> str:
        """Return the text of Kafka's ``TopologyDescription``, byte for byte."""
        return str(self.description())

    def explain(self) -> tuple[object, ...]:
        """Return what the optimizer changed: nodes before and after, and why.

        For a builder's topology, the result is displayed as a table, with pictures of the topology before and after.
        """
        return self.explained

    def to_json(self, *, origins: bool = False, indent: int | None = 2) -> str:
        """Return the description as a JSON document (see `kstreamnb.topology.document`).

        Args:
            origins: include the line that declared each node. Default: False.
            indent: spaces per level, None for a single line. Default: 2.
        """
        check_arguments(Topology.to_json, locals())
        return document.to_json(self.description(), origins=origins, indent=indent)

    def fingerprint(self) -> str:
        """Return a hash of the structure, 16 hexadecimal digits; topologies with equal ones read each other's state."""
        return document.fingerprint(self.description())

    @property
    def stale(self) -> str | None:
        """Return a warning if the builder's declarations have changed since this topology was built, else None.

        This happens only in notebooks, where a cell that runs again changes its earlier declarations.
        """
        return None if self.built_from is None else self.built_from.stale()

    @property
    def sample(self) -> Iterable[TopicRecord] | None:
        """The current sample of the builder that built this; None without one, and after pickling."""
        return None if self.built_from is None else self.built_from.sample

    @property
    def unwritten(self) -> str | None:
        """Return the warning that a run would have no effect, with what to do.

        None if anything is written to a topic or kept in a store, or if a function may have an effect: a user's
        processor, ``foreach``, ``peek`` or ``print``.
        """
        kept = self.stores or self.global_stores or any(map(self._has_effect, self.nodes.values()))
        return None if kept else 'nothing is written: end a stream with `.to("topic")`'

    def _has_effect(self, node: Node) -> bool:
        internal = isinstance(node, Sink) and isinstance(node.topic, str) and node.topic in self.internal_topics
        return (isinstance(node, Sink) and not internal) or node.traits.user_code or node.traits.effect

    def __getstate__(self) -> dict[str, object]:
        # Workers of Spark and files know no declarations: those hold the notebook's variables.
        return {**self.__dict__, "explained": tuple(self.explained), "built_from": None}

    def partition_counts(self, topics: Mapping[str, int]) -> dict[str, int]:
        """Derive the number of partitions of every topic that tasks read from those of the user's topics.

        Args:
            topics: number of partitions of each of the user's topics.

        Raises: TopologyError when a topic is missing or co-partitioned topics have different counts.
        """
        return partition_counts(self, topics)

    def tasks(self, topics: Mapping[str, int]) -> tuple[PlannedTask, ...]:
        """Return the tasks that run this topology on topics with these numbers of partitions.

        Args:
            topics: number of partitions of each of the user's topics.

        Raises: TopologyError as `partition_counts` does.
        """
        return plan_tasks(self, topics)

    def owned_topics(self, application_id: str, topics: Mapping[str, int] | None = None) -> tuple[OwnedTopic, ...]:
        """Return repartition topics and changelogs that an application with this id needs.

        Args:
            application_id: id of the application, which prefixes the names.
            topics: number of partitions of each of the user's topics. Default: None, counts stay unknown.
        """
        return owned_topics(self, application_id, topics)

    def __repr__(self) -> str:
        name = f'"{self.name}" ' if self.name else ""
        nodes, subs = pluralize(len(self.nodes), "node"), pluralize(len(self.subtopologies()), "sub-topology")
        return f"<Topology {name}of {nodes} in {subs}>"

    def _connect(self, name: str, stores: Iterable[str]) -> None:
        node = self.nodes[name]
        if isinstance(node, ProcessorNode):
            self.nodes[name] = replace(node, stores=tuple(dict.fromkeys((*node.stores, *stores))))
