"""Builds a `Topology` from the Processor API ops of a golden spec, through the public API alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kstreamnb.core.extractors import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
)
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import Stores, StoreSpec
from kstreamnb.topology.topology import Topology
from tests.golden import fns

__all__ = ["Router", "build_papi", "extractor", "global_store", "store_spec"]

Processors = Mapping[str, Callable[[dict[str, Any]], Any]]
"""Kind of processor -> function of its op that gives a supplier; "global" keeps a global store."""

_SERDES = {"s": Serdes.string(), "l": Serdes.long()}


class Router:
    """Chooses a sink's topic by a function of the library; its text is that function's name."""

    def __init__(self, fn: str) -> None:
        self.fn = fn

    def __str__(self) -> str:
        return self.fn

    def __call__(self, key: Any, value: Any, metadata: Any) -> str:
        """The topic for one record."""
        return fns.route(self.fn, key, value)


class TimeFromValue:
    """Takes the timestamp from the value."""

    def extract(self, record: Any, partition_time_ms: int) -> int:
        """The time that the value says, else the record's own."""
        return fns.time(record.value, record.timestamp)


def build_papi(ops: list[dict[str, Any]], processors: Processors) -> Topology:
    """Apply the ops in order to one topology."""
    topology = Topology()
    known: dict[str, StoreSpec] = {}
    for op in ops:
        _APPLY[op["op"]](topology, op, processors, known)
    return topology


def extractor(name: str | None) -> Any:
    """The timestamp extractor of that name in a spec."""
    makers: dict[str | None, Callable[[], Any]] = {
        None: lambda: None,
        "fail": FailOnInvalidTimestamp,
        "skip": LogAndSkipOnInvalidTimestamp,
        "partition_time": UsePartitionTimeOnInvalidTimestamp,
        "value": TimeFromValue,
    }
    return makers[name]()


def store_spec(definition: dict[str, Any]) -> StoreSpec:
    """The store of a store definition (golden README, section 5)."""
    name, kind = definition["name"], definition.get("type", "kv")
    options: dict[str, Any] = {"key_serde": _SERDES["s"], "value_serde": _SERDES[definition.get("vt", "s")]}
    options |= {"logged": definition.get("logged", True), "cached": definition.get("cached", False)}
    keep, size = f"{definition.get('retention', 60_000)}ms", f"{definition.get('size', 10)}ms"
    in_memory = definition.get("mem", False)
    if kind == "kv":
        return Stores.in_memory_key_value_store(name, **options)
    if kind == "pkv":
        return Stores.persistent_key_value_store(name, **options)
    if kind == "tkv":
        return Stores.persistent_timestamped_key_value_store(name, **options)
    if kind == "lru":
        return Stores.lru_map(name, definition.get("max", 3), **options)
    if kind == "versioned":
        history = f"{definition.get('history', 60_000)}ms"
        return Stores.persistent_versioned_key_value_store(name, history=history, **options)
    if kind in ("hkv", "hwindow", "hsession"):
        return _with_headers(definition, kind, options, keep, size, in_memory=in_memory)
    if kind == "session":
        session = Stores.in_memory_session_store if in_memory else Stores.persistent_session_store
        return session(name, retention=keep, **options)
    window = Stores.in_memory_window_store if in_memory else Stores.persistent_window_store
    dups = definition.get("dups", False)
    return window(name, retention=keep, window_size=size, retain_duplicates=dups, **options)


def _with_headers(
    definition: dict[str, Any], kind: str, options: dict[str, Any], keep: str, size: str, *, in_memory: bool
) -> StoreSpec:
    """A store with headers: in memory it is made by the builder around a store without them."""
    name, serdes = definition["name"], (options.pop("key_serde"), options.pop("value_serde"))
    if kind == "hkv":
        kv = (
            Stores.in_memory_key_value_store
            if in_memory
            else Stores.persistent_timestamped_key_value_store_with_headers
        )
        return Stores.timestamped_key_value_store_with_headers_builder(kv(name, **options), *serdes)
    if kind == "hsession":
        session = Stores.in_memory_session_store if in_memory else Stores.persistent_session_store_with_headers
        return Stores.session_store_with_headers_builder(session(name, retention=keep, **options), *serdes)
    window = Stores.in_memory_window_store if in_memory else Stores.persistent_timestamped_window_store_with_headers
    supplier = window(
        name, retention=keep, window_size=size, retain_duplicates=definition.get("dups", False), **options
    )
    return Stores.timestamped_window_store_with_headers_builder(supplier, *serdes)


def global_store(name: str) -> StoreSpec:
    """The store that a global or read-only store op adds."""
    return Stores.in_memory_key_value_store(name, key_serde=_SERDES["s"], value_serde=_SERDES["s"], logged=False)


def _names(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def _source(topology: Topology, op: dict[str, Any], _p: Processors, _k: dict[str, StoreSpec]) -> None:
    topology.add_source(
        op["name"],
        *_names(op.get("topics")),
        pattern=op.get("pattern"),
        key_serde=_SERDES["s"],
        value_serde=_SERDES[op.get("vt", "s")],
        timestamp_extractor=extractor(op.get("extractor")),
        offset_reset=op.get("reset"),
    )


def _processor(topology: Topology, op: dict[str, Any], processors: Processors, _k: dict[str, StoreSpec]) -> None:
    supplier = processors[op["kind"]](op)
    if op.get("own"):
        supplier = _WithStores(supplier, tuple(store_spec(own) for own in op["own"]))
    topology.add_processor(op["name"], supplier, *op["parents"])
    for store in _names(op.get("stores")):
        topology.connect_processor_and_state_stores(op["name"], store)


class _WithStores:
    """A supplier that brings its own stores."""

    def __init__(self, supplier: Callable[[], Any], specs: tuple[StoreSpec, ...]) -> None:
        self._supplier = supplier
        self._specs = specs

    def __call__(self) -> Any:
        return self._supplier()

    def stores(self) -> tuple[StoreSpec, ...]:
        return self._specs


def _sink(topology: Topology, op: dict[str, Any], _p: Processors, _k: dict[str, StoreSpec]) -> None:
    topic = Router(op["dynamic"]) if op.get("dynamic") else op["topic"]
    serdes = {"key_serde": _SERDES["s"], "value_serde": _SERDES[op.get("vt", "s")]}
    topology.add_sink(op["name"], topic, *_names(op["parents"]), **serdes)


def _store(topology: Topology, op: dict[str, Any], _p: Processors, known: dict[str, StoreSpec]) -> None:
    spec = known[op["name"]] if op.get("again") else store_spec(op)
    known[op["name"]] = spec
    topology.add_state_store(spec, *_names(op.get("processors")))


def _connect(topology: Topology, op: dict[str, Any], _p: Processors, _k: dict[str, StoreSpec]) -> None:
    name = op["name"] if "name" in op else op["processor"]
    topology.connect_processor_and_state_stores(name, *_names(op["stores"]))


def _global(topology: Topology, op: dict[str, Any], processors: Processors, _k: dict[str, StoreSpec]) -> None:
    supplier = processors["global"](op)
    add = topology.add_global_store if op["op"] == "global_store" else topology.add_read_only_state_store
    serdes = {"key_serde": _SERDES["s"], "value_serde": _SERDES["s"]}
    add(global_store(op["store"]), op["source"], op["topic"], op["name"], supplier, **serdes)


_APPLY: dict[str, Callable[[Topology, dict[str, Any], Processors, dict[str, StoreSpec]], None]] = {
    "source": _source,
    "processor": _processor,
    "sink": _sink,
    "store": _store,
    "connect": _connect,
    "global_store": _global,
    "read_only_store": _global,
}
