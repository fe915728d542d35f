"""Checks of additions to a topology: each function raises the error of one mistake, with Kafka's text.

They only read and change nothing, so that a refused addition leaves the topology unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from kstreamnb.core.arguments import expect, expect_texts
from kstreamnb.core.names import check_topic_name
from kstreamnb.core.signatures import check_runs, taking
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import ConfigError, TopologyError, did_you_mean
from kstreamnb.topology.nodes import NodeGraph, ProcessorNode, Sink, Source

_RESETS = ("earliest", "latest", "none")


def refuse(message: str, java: str, *, hint: str | None = None) -> TopologyError:
    """Build a TopologyError with the text of Kafka's TopologyException."""
    return TopologyError(message, hint=hint, java=f"Invalid topology: {java}")


def check_name(topology: NodeGraph, name: str | None) -> None:
    """Require a name that no other node has."""
    if name is None:
        raise TopologyError("a node needs a name", java="name cannot be null")
    expect(name, str, "name of a node")
    if name in topology.nodes:
        first = topology.nodes[name].origin
        java, detail = f"Invalid topology: Processor {name} is already added.", f"it was added at {first}"
        raise TopologyError(f'there is already a node "{name}"', detail=detail if first else None, java=java)


def check_topics(topology: NodeGraph, topics: Sequence[str | None]) -> None:
    """Require topics, none of which is read twice."""
    if not topics:
        raise refuse("a source needs at least one topic or a pattern", "topics cannot be empty")
    for position, topic in enumerate(topics):
        if topic is None:
            raise TopologyError("a topic needs a name", java="topic names cannot be null")
        check_topic_name(topic)
        check_topic_is_free(topology, topic)
        if topic in topics[:position]:
            raise _topic_taken(topic)


def check_topic_is_free(topology: NodeGraph, topic: str) -> None:
    """Require that no other source reads ``topic``, by name or by pattern."""
    for source in topology.sources():
        if topic in source.topics:
            raise _topic_taken(topic, source)
        if source.pattern is not None and source.reads(topic):
            fact = f'topic "{topic}" matches the pattern "{source.pattern}" of source "{source.name}"'
            raise refuse(fact, f"Topic {topic} matches a Pattern already registered by another source.")


def _topic_taken(topic: str, source: Source | None = None) -> TopologyError:
    fact = f'topic "{topic}" is already read by ' + (f'source "{source.name}"' if source else "the same source")
    java = f"Topic {topic} has already been registered by another source."
    return refuse(fact, java, hint="read it once, and use that handle or source again")


def check_pattern(topology: NodeGraph, pattern: str) -> None:
    """Require a regular expression that matches no topic read by name."""
    expect(pattern, str, "pattern", hint="give the text of the regular expression")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f'"{pattern}" is not a regular expression: {error}') from error
    for source in topology.sources():
        for topic in () if source.is_global else source.topics:
            if compiled.fullmatch(topic):
                fact = f'pattern "{pattern}" matches topic "{topic}", which source "{source.name}" reads'
                java = f"Pattern {pattern} will match a topic that has already been registered by another source."
                raise refuse(fact, java)


def check_offset_reset(reset: object) -> None:
    """Require earliest, latest, none or by_duration:<ISO duration>."""
    if reset is not None and reset not in _RESETS and not str(reset).startswith("by_duration:"):
        raise ConfigError(f'unknown offset reset "{reset}"', hint=f"one of {', '.join(_RESETS)}, by_duration:PT1H")


def check_parents(topology: NodeGraph, name: str, parents: Sequence[str | None]) -> None:
    """Require at least one parent; parents exist already and are not sinks."""
    if not parents:
        raise refuse(f'node "{name}" has no parent', "predecessorNames cannot be empty")
    for parent in parents:
        if parent is None:
            raise TopologyError(f'a parent of node "{name}" has no name', java="parent name cannot be null")
        expect(parent, str, f'each parent of node "{name}"')
        if parent == name:
            raise refuse(f'node "{name}" cannot be its own parent', f"Parent node {name} is unknown (self-reference).")
        if parent not in topology.nodes:
            message = f'parent "{parent}" of node "{name}" does not exist'
            raise refuse(message, f"Parent node {parent} is unknown.", hint=_near_or_all(parent, topology.nodes))
        above = topology.nodes[parent]
        if isinstance(above, Sink):
            raise refuse(f'sink "{parent}" cannot be the parent of "{name}"', f"Sink {parent} cannot be used a parent.")
        if above.is_global:
            hint = "a global store only keeps its topic; read the store from a processor instead"
            raise TopologyError(f'node "{name}" cannot follow "{parent}", which belongs to a global store', hint=hint)


def check_store(store: object) -> None:
    """Require a store that `Stores` has made."""
    expect(store, StoreSpec, "store", hint='write for example Stores.persistent_key_value_store("name")')


def check_new_store(topology: NodeGraph, store: StoreSpec) -> None:
    """Require a new store name, unless the very same store was added before."""
    check_store(store)
    if topology.stores.get(store.name, store) is not store:
        raise _store_taken(topology, store.name, "another store", "StateStore")
    if store.name in topology.global_stores:
        raise _store_taken(topology, store.name, "a global store", "GlobalStateStore")


def _store_taken(topology: NodeGraph, name: str, what: str, java: str) -> TopologyError:
    first = next((f"it was added at {node.origin}" for node in topology.nodes.values() if name in node.stores), None)
    java = f"Invalid topology: A different {java} has already been added with the name {name}"
    return TopologyError(f'there is already {what} "{name}"', detail=first, hint="rename one, or share it", java=java)


def check_store_with_source(
    topology: NodeGraph, store: StoreSpec, source: str | None, topic: str, name: str, same_names: str
) -> None:
    """Check that a global or read-only store has unused names for source, processor, topic and store.

    ``same_names`` is Kafka's text if source and processor have the same name.
    """
    check_store(store)
    expect(topic, str, "name of a topic")
    check_name(topology, source)
    check_topic_is_free(topology, topic)
    check_name(topology, name)
    if source == name:
        raise refuse(f'source and processor of store "{store.name}" are both named "{name}"', same_names)
    if store.name in topology.stores:
        raise _store_taken(topology, store.name, "a store", "StateStore")
    check_new_store(topology, store)


def check_stores_exist(topology: NodeGraph, node: str, stores: Iterable[str]) -> None:
    """Require that the stores of ``node`` exist and are not global."""
    for store in expect_texts(stores, "stores"):
        if store in topology.global_stores:
            fact = f'global store "{store}" was passed to node "{node}"'
            java = f"Global StateStore {store} can be used by a Processor without being specified;"
            java = f"{java} it should not be explicitly passed."
            raise refuse(fact, java, hint="leave it out: every processor can read it")
        if store not in topology.stores:
            added = f'add it first: add_state_store(ks.Stores.persistent_key_value_store("{store}"))'
            hint = _near_or_all(store, topology.stores) or added
            raise refuse(f'store "{store}" does not exist', f"StateStore {store} is not added yet.", hint=hint)


def check_users(topology: NodeGraph, store: StoreSpec, names: Iterable[str]) -> None:
    """Require that the nodes that are to use a new store are existing processors."""
    for name in expect_texts(names, "names of processors"):
        _check_processor(topology, name, f"cannot connect a state store {store.name} to a source node or a sink node.")


def check_connecting(topology: NodeGraph, name: str, stores: Sequence[str]) -> None:
    """Require that node ``name`` is a processor, and that there is at least one store, all of them known."""
    if name is None:
        raise TopologyError("a processor needs a name", java="processorName cannot be null")
    expect(name, str, "name of a processor")
    if not stores:
        raise refuse(f'no store to connect to "{name}"', "stateStoreNames cannot be empty")
    node = topology.nodes.get(name)
    if isinstance(node, Source) or (isinstance(node, Sink) and not callable(node.topic)):
        _check_processor(topology, name, "State stores cannot be connect to sources or sinks.")
    for store in stores:
        check_stores_exist(topology, name, [store])
        _check_processor(topology, name, f"cannot connect a state store {store} to a source node or a sink node.")


def _check_processor(topology: NodeGraph, name: str, java: str) -> None:
    node = topology.nodes.get(name)
    if node is None:
        hint = _near_or_all(name, topology.nodes)
        raise refuse(f'node "{name}" does not exist', f"Processor {name} is not added yet.", hint=hint)
    if not isinstance(node, ProcessorNode):
        raise refuse(f'{"source" if isinstance(node, Source) else "sink"} "{name}" cannot use a store', java)


def _near_or_all(word: object, known: Iterable[str]) -> str | None:
    known = list(known)
    near = did_you_mean(word, known)
    return near or ("there is: " + ", ".join(f'"{name}"' for name in known[:12]) if known else None)


_SUPPLIER = (
    "pass a class, or a function without arguments that makes a processor; "
    "for a function of a record use map_values, map or peek"
)


def check_supplier(node: str, supplier: object) -> Callable[[], object]:
    """Return a supplier of processors; raise TopologyError if it cannot be called."""
    if not callable(supplier):
        fact = f'node "{node}" needs a supplier of processors, got type "{type(supplier).__name__}"'
        raise TopologyError(fact, hint="pass the class, or a function without arguments that makes a new processor")
    process = getattr(supplier, "process", None)
    if isinstance(supplier, type) and callable(process):
        taking(process, "self", "record")
    _check_methods(supplier)
    return taking(supplier, hint=_SUPPLIER)


def _check_methods(processor: object) -> None:
    """Raise ConfigError for a method that the engine calls in vain, because it is async or a generator."""
    for name in ("init", "process", "transform", "close"):
        check_runs(getattr(processor, name, None))


def supplied_stores(node: str, supplier: object) -> tuple[StoreSpec, ...]:
    """Return stores that come with a supplier, or with the processors that it makes.

    Raises: TopologyError when ``supplier`` makes no processors, or hands out the same one twice.
    """
    make = check_supplier(node, supplier)
    if not isinstance(supplier, type) and hasattr(supplier, "stores"):
        return tuple(supplier.stores())
    processor = make()
    _check_methods(processor)
    if not hasattr(processor, "process") and not hasattr(processor, "transform"):
        fact = f'the supplier of node "{node}" returned an object of type "{type(processor).__name__}", not a processor'
        raise TopologyError(fact, hint="a processor has process(record); a table's transformer transform(key, value)")
    if processor is make():
        kind = type(supplier).__name__
        fact = f'the supplier of node "{node}" returned the same processor twice'
        hint = "return a new processor from every call: each task needs its own"
        java = f"{kind} generates single reference. {kind}#get() must return a new object each time it is called."
        raise TopologyError(fact, hint=hint, java=java)
    return tuple(processor.stores()) if hasattr(processor, "stores") else ()
