"""From `Materialized` to the spec of a store, with Kafka's rules of names, retention, caching and logging."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, TypedDict, Unpack

from kstreamnb.core.names import check_resource_name
from kstreamnb.core.serdes import serde_or_none
from kstreamnb.core.stores import StoreKind, StoreSpec, with_times
from kstreamnb.core.time import duration_ms, java_long
from kstreamnb.core.traits import AggregationWindows
from kstreamnb.core.windows import SessionWindows, SlidingWindows
from kstreamnb.dsl.flows import TableFlow, Windowing
from kstreamnb.dsl.keywords import by_keyword, combined
from kstreamnb.dsl.option_fields import SerdeFields
from kstreamnb.dsl.options import Materialized
from kstreamnb.errors import ConfigError
from kstreamnb.logical.builder import GraphBuilder
from kstreamnb.logical.nodes import Table
from kstreamnb.operators.tables import MaterializedView, TableSource

Family: TypeAlias = Literal["KeyValue", "Window", "Session"]

_FAMILIES: dict[Family, tuple[str, tuple[StoreKind, ...], str]] = {
    "KeyValue": (
        "key-value",
        ("key_value", "timestamped_key_value", "versioned", "lru"),
        "persistent_timestamped_key_value_store",
    ),
    "Window": ("window", ("window", "timestamped_window"), "persistent_timestamped_window_store"),
    "Session": ("session", ("session",), "persistent_session_store"),
}


@dataclass(frozen=True)
class Materialization:
    """A table's name and the options of its store; ``explicit`` if the user gave any of the latter."""

    name: str | None = None
    options: Materialized = field(default_factory=Materialized)
    explicit: bool = False

    @property
    def store_name(self) -> str | None:
        """The user's name of the store."""
        return self.options.store_name

    def new_store(self, graph: GraphBuilder, prefix: str, *, logged: bool = True) -> str:
        """Return the store's name: the user's, or a generated one, which is then noted."""
        if self.store_name is not None:
            return self.store_name
        name = graph.new_name(f"{prefix}STATE-STORE-")
        graph.note_unnamed_store(name, logged=logged and self.options.logged)
        return name


def materialization(options: Iterable[object], keywords: Mapping[str, object]) -> Materialization:
    """Combine the option objects and keywords of a method.

    Raises: ConfigError for options of a different kind or unknown keywords, TopologyError for an illegal name.
    """
    fields = by_keyword(options, keywords)
    name, materialized = fields.pop("name", None), fields.pop("materialized", None)
    if name is not None:
        check_resource_name(name)
    if materialized is None and not fields:
        return Materialization(name)
    return Materialization(name, combined(Materialized, materialized, **fields), explicit=True)


class TableFields(TypedDict):
    """Fields of a table node whose rows are in a store."""

    store: StoreSpec
    view: MaterializedView
    versioned: bool


def row_store(graph: GraphBuilder, table: Materialization, name: str, **serdes: Unpack[SerdeFields]) -> StoreSpec:
    """Return a store of rows by key; the serdes replace those that the user did not give.

    Raises: ConfigError when the user's store has a different kind.
    """
    store = _supplier(table.options, "KeyValue") or StoreSpec(name, "timestamped_key_value")
    store = _configured(graph, table.options, serdes, store)
    return replace(store, cached=False, persistent=True) if store.kind == "versioned" else with_times(store)


def table_fields(store: StoreSpec) -> TableFields:
    """Return the fields of a table whose rows are in a store."""
    versioned = store.kind == "versioned"
    return {"store": store, "view": MaterializedView(store.name, versioned), "versioned": versioned}


def lazy_table(
    graph: GraphBuilder,
    name: str,
    store: StoreSpec,
    table: Materialization,
    parent: int,
    sources: tuple[str, ...],
    topic: str | None = None,
) -> TableFlow:
    """Add a table made of records as they come, stored under the user's name or as soon as an operator needs it."""
    operator, materialized, fields = TableSource(store.name), table.store_name is not None, table_fields(store)
    node = Table(name=name, operator=operator, lazy=True, materialized=materialized, topic=topic, **fields)
    node = graph.add(node, parent)
    key_serde, value_serde = serde_or_none(store.key_serde), serde_or_none(store.value_serde)
    return TableFlow(node.id, name, key_serde, value_serde, sources, table.store_name)


def aggregate_store(
    graph: GraphBuilder, table: Materialization, name: str, grouped: Windowing, **serdes: Unpack[SerdeFields]
) -> StoreSpec:
    """Return a store of rows by key, and by window if there are any: then retained as long as late records may come.

    A user's store keeps its own retention, as in Kafka Streams, which checks that of the options if there is one.

    Raises: ConfigError when the retention is shorter than that, or the user's store has a different kind.
    """
    options, windows = table.options, grouped.windows
    if windows is None:
        return row_store(graph, table, name, **serdes)
    supplier = _supplier(options, "Session" if isinstance(windows, SessionWindows) else "Window")
    least, reason, java = _least_retention(name, windows)
    retention = least if options.retention is None else duration_ms(options.retention, "retention")
    by_key = isinstance(windows, SlidingWindows | SessionWindows)  # their stores have an index by key, too
    kept, extra = retention, {"time_ordered": True, "indexed": by_key} if grouped.emit_on_close else {}
    if supplier is not None:
        kept, extra = supplier.retention_ms or retention, dict(with_times(supplier).extra)
        retention = kept if options.retention is None else retention
    if retention < least:
        fact = f'store "{name}" retains windows for {retention} ms, less than {reason} ({least} ms)'
        raise ConfigError(fact, java=f"{java}, retention=[{retention}]")
    store = StoreSpec(name, "session", retention_ms=kept, extra=extra)
    if not isinstance(windows, SessionWindows):
        store = replace(store, kind="timestamped_window", window_size_ms=windows.size_ms)
    store = _configured(graph, options, serdes, store)
    return replace(store, cached=False) if grouped.emit_on_close and by_key else store


def _supplier(options: Materialized, needed: Family) -> StoreSpec | None:
    """Return the user's store, None without one; raise ConfigError if it has a different kind than the rows need."""
    spec = options.supplier
    word, kinds, example = _FAMILIES[needed]
    if spec is None or spec.kind in kinds:
        return spec
    other = next((family for family, (_, known, _) in _FAMILIES.items() if spec.kind in known), None)
    java = None if other is None else _cast_error(spec, other, needed)
    hint = f'use Stores.{example}("{spec.name}", …), or give only the name: store="{spec.name}"'
    raise ConfigError(f'expected a {word} store, got "{spec.name}" of kind "{spec.kind}"', hint=hint, java=java)


def _cast_error(spec: StoreSpec, other: Family, needed: Family) -> str:
    """Return Java's text: generics hide the mistake from its compiler if types are raw."""
    state = "org.apache.kafka.streams.state"
    engine = "InMemory" if not spec.persistent else "RocksDB" if other == "KeyValue" else "RocksDb"
    name = f"{state}.internals.{engine}{other}BytesStoreSupplier"
    if spec.kind == "versioned":
        name = f"{state}.internals.RocksDbVersionedKeyValueBytesStoreSupplier"
    elif spec.kind == "lru":
        name = f"{state}.Stores$1"
    wanted = f"{state}.{needed}BytesStoreSupplier"
    return f"class {name} cannot be cast to class {wanted} ({name} and {wanted} are in unnamed module of loader 'app')"


def _configured(graph: GraphBuilder, options: Materialized, serdes: SerdeFields, store: StoreSpec) -> StoreSpec:
    """Return a store with the settings of the options; the user's store decides where rows and headers are kept."""
    key_serde = options.key_serde or serdes.get("key_serde")
    value_serde = options.value_serde or serdes.get("value_serde")
    store = replace(store, key_serde=key_serde, value_serde=value_serde, cached=options.cached, **options.log_fields)
    if (supplier := options.supplier) is not None:
        logged = options.logged and supplier.logged  # a user's own store cannot be inspected
        store = replace(store, logged=logged, persistent=supplier.persistent, headers=supplier.headers)
        return replace(store, factory=supplier.factory)
    persistent = graph.is_persistent(options.store_type)
    return replace(store, persistent=persistent, headers="as_configured" if persistent else "none")


def _least_retention(name: str, windows: AggregationWindows) -> tuple[int, str, str]:
    """Return the shortest retention, the reason for it, and the beginning of Java's text."""
    if isinstance(windows, SessionWindows):
        kind, span_ms, times, words = "session", windows.gap_ms, 1, ("gap", "the session inactivity gap", "gap")
    elif isinstance(windows, SlidingWindows):
        words = ("twice the time difference", "2 * time difference", "time difference")
        kind, span_ms, times = "window", windows.difference_ms, 2
    else:
        kind, span_ms, times, words = "window", windows.size_ms, 1, ("size", "its window size", "size")
    reason, least, got = words
    java = f"The retention period of the {kind} store {name} must be no smaller than {least} plus the grace period."
    java = f"{java} Got {got}=[{span_ms}], grace=[{windows.grace_ms}]"
    return java_long(times * span_ms + windows.grace_ms), f"{reason} and grace", java
