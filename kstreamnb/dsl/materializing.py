"""From `Materialized` to the spec of a store, with Kafka's rules of names, retention, caching and logging."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import duration_ms
from kstreamnb.core.windows import SessionWindows, SlidingWindows
from kstreamnb.dsl.flows import Names, TableFlow
from kstreamnb.dsl.options import Materialized, given, serdes_of
from kstreamnb.errors import ConfigError
from kstreamnb.logical.builder import GraphBuilder, check_resource_name
from kstreamnb.logical.nodes import Table
from kstreamnb.operators.tables import StoreView, TableSource


@dataclass(frozen=True)
class Keeping:
    """What the user says about a table: its operator's ``name``, and how its rows are kept, if that was ``said``."""

    name: str | None = None
    options: Materialized = field(default_factory=Materialized)
    said: bool = False

    @property
    def store_name(self) -> str | None:
        """The user's name of the store."""
        return self.options.store_name

    def new_store(self, draft: GraphBuilder, prefix: str, *, logged: bool = True) -> str:
        """The store's name: the user's, or a generated one, which is then noted."""
        if self.store_name is not None:
            return self.store_name
        name = draft.new_name(f"{prefix}STATE-STORE-")
        draft.note_unnamed_store(name, logged=logged and self.options.logged)
        return name


def kept(keywords: Mapping[str, Any]) -> Keeping:
    """What a method's keywords amount to."""
    options: dict[str, Any] = dict(keywords)
    name, materialized = options.pop("name", None), options.pop("materialized", None)
    if name is not None:
        check_resource_name(name)
    if materialized is None and all(value is None for value in options.values()):
        return Keeping(name)
    return Keeping(name, given(Materialized, materialized, **options), said=True)


def rows_store(
    draft: GraphBuilder, keeping: Keeping, name: str, key_serde: Any = None, value_serde: Any = None
) -> StoreSpec:
    """A store of rows by key; the serdes are those that hold where the user gave none."""
    options = keeping.options
    fields = _common(draft, options, key_serde, value_serde)
    if not isinstance(options.store, StoreSpec):
        return StoreSpec(name, "timestamped_key_value", **fields)
    if options.is_versioned:
        return replace(options.store, **{**fields, "cached": False, "persistent": True})
    fields["persistent"] = options.store.persistent
    return replace(options.store, kind="timestamped_key_value", **fields)


def kept_in(store: StoreSpec) -> dict[str, Any]:
    """Fields of a table whose rows are in a store."""
    versioned = store.kind == "versioned"
    return {"store": store, "view": StoreView(store.name, versioned), "versioned": versioned}


def lazy_table(
    draft: GraphBuilder,
    name: str,
    store: StoreSpec,
    keeping: Keeping,
    parent: int,
    sources: Names,
    topic: str | None = None,
) -> TableFlow:
    """A table made of records as they come: kept under the user's name, or once something needs it."""
    fields = {"lazy": True, "materialized": keeping.store_name is not None, "topic": topic, **kept_in(store)}
    node = draft.add(Table(name=name, operator=TableSource(store.name), **fields), parent)
    return TableFlow(node.id, name, store.key_serde, store.value_serde, sources, keeping.store_name)


def windows_store(
    draft: GraphBuilder, keeping: Keeping, name: str, windows: Any, *, emit_on_close: bool, **serdes: Any
) -> StoreSpec:
    """A store of rows by key and window, kept as long as late records may come.

    Raises: ConfigError when the retention is shorter than that.
    """
    options = keeping.options
    fields = _common(draft, options, **serdes)
    least, what, java = _least_retention(name, windows)
    retention = least if options.retention is None else duration_ms(options.retention, "retention")
    if isinstance(options.store, StoreSpec):
        fields["persistent"] = options.store.persistent
        if options.retention is None and options.store.retention_ms is not None:
            retention = options.store.retention_ms
    if retention < least:
        raise ConfigError(
            f'store "{name}" keeps windows for {retention} ms, less than {what} ({least} ms)',
            java=f"{java}, retention=[{retention}]",
        )
    session = isinstance(windows, SessionWindows)
    if emit_on_close and isinstance(windows, SlidingWindows | SessionWindows):
        fields["cached"] = False
    kind: Any = "session" if session else "timestamped_window"
    size = None if session else windows.size_ms
    extra = {"time_ordered": True} if emit_on_close else {}
    return StoreSpec(name, kind, retention_ms=retention, window_size_ms=size, extra=extra, **fields)


def _common(
    draft: GraphBuilder, options: Materialized, key_serde: Any = None, value_serde: Any = None
) -> dict[str, Any]:
    logged = options.logged and getattr(options.store, "logged", True)  # a spec can say no by itself
    fields = {**serdes_of(options, key_serde, value_serde), **options.logging, "logged": logged}
    return {**fields, "cached": options.cached, "persistent": draft.is_persistent(options.store_type)}


def _least_retention(name: str, windows: Any) -> tuple[int, str, str]:
    """The shortest retention, what it is made of, and the beginning of Java's text."""
    if isinstance(windows, SessionWindows):
        kind, span_ms, times, words = "session", windows.gap_ms, 1, ("gap", "the session inactivity gap", "gap")
    elif isinstance(windows, SlidingWindows):
        words = ("twice the time difference", "2 * time difference", "time difference")
        kind, span_ms, times = "window", windows.difference_ms, 2
    else:
        kind, span_ms, times, words = "window", windows.size_ms, 1, ("size", "its window size", "size")
    what, least, got = words
    java = f"The retention period of the {kind} store {name} must be no smaller than {least} plus the grace period."
    java = f"{java} Got {got}=[{span_ms}], grace=[{windows.grace_ms}]"
    return times * span_ms + windows.grace_ms, f"{what} and grace", java
