"""From `Materialized` to the spec of a store, with Kafka's rules of names, retention, caching and logging."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kstreamnb.core.durations import duration_ms
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.windows import SessionWindows, SlidingWindows
from kstreamnb.dsl.options import Keeping, Materialized, given, serdes_of
from kstreamnb.errors import ConfigError
from kstreamnb.graph.draft import Draft

__all__ = ["kept", "named_store", "rows_store", "windows_store"]


def kept(keywords: Mapping[str, Any]) -> Materialized | None:
    """The `Materialized` that a method's keywords amount to; None when they say nothing."""
    options: dict[str, Any] = dict(keywords)
    materialized = options.pop("materialized", None)
    if materialized is None and all(value is None for value in options.values()):
        return None
    made: Materialized = given(Materialized, materialized, **options)
    return made


def named_store(draft: Draft, materialized: Keeping, prefix: str) -> str:
    """The store's name: the user's, or a generated one, which is then noted."""
    if materialized is not None and materialized.store_name is not None:
        return materialized.store_name
    name = draft.new_store_name(prefix)
    draft.note_unnamed_store(name, logged=materialized is None or materialized.logged)
    return name


def rows_store(
    draft: Draft, materialized: Keeping, name: str, key_serde: Any = None, value_serde: Any = None
) -> StoreSpec:
    """A store of rows by key; the serdes are those that hold where the user gave none."""
    options = materialized or Materialized()
    fields = _common(draft, options, key_serde, value_serde)
    if isinstance(options.store, StoreSpec):
        if options.is_versioned:
            return replace(options.store, **{**fields, "cached": False, "persistent": True})
        return replace(
            options.store, kind="timestamped_key_value", **{**fields, "persistent": options.store.persistent}
        )
    return StoreSpec(name, "timestamped_key_value", **fields)


def windows_store(
    draft: Draft,
    materialized: Keeping,
    name: str,
    windows: Any,
    *,
    emit_on_close: bool,
    key_serde: Any = None,
    value_serde: Any = None,
) -> StoreSpec:
    """A store of rows by key and window, kept as long as late records may come.

    Raises: ConfigError when the retention is shorter than that.
    """
    options = materialized or Materialized()
    fields = _common(draft, options, key_serde, value_serde)
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


def _common(draft: Draft, options: Materialized, key_serde: Any, value_serde: Any) -> dict[str, Any]:
    persistent = draft.persistent if options.store_type is None else options.store_type == "persistent"
    return {
        **serdes_of(options, key_serde, value_serde),
        "persistent": persistent,
        "logged": options.logged,
        "cached": options.cached,
        "log_config": tuple(sorted(options.log_config.items())),
    }


def _least_retention(name: str, windows: Any) -> tuple[int, str, str]:
    """The shortest retention, what it is made of, and the beginning of Java's text."""
    grace = windows.grace_ms
    if isinstance(windows, SessionWindows):
        java = (
            f"The retention period of the session store {name} must be no smaller than the session inactivity gap plus "
            f"the grace period. Got gap=[{windows.gap_ms}], grace=[{grace}]"
        )
        return windows.gap_ms + grace, "gap and grace", java
    if isinstance(windows, SlidingWindows):
        java = (
            f"The retention period of the window store {name} must be no smaller than 2 * time difference plus the "
            f"grace period. Got time difference=[{windows.difference_ms}], grace=[{grace}]"
        )
        return 2 * windows.difference_ms + grace, "twice the time difference and grace", java
    java = (
        f"The retention period of the window store {name} must be no smaller than its window size plus the grace "
        f"period. Got size=[{windows.size_ms}], grace=[{grace}]"
    )
    return windows.size_ms + grace, "size and grace", java
