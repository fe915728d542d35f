"""The frozen nodes that are tables: sources, derived tables, aggregations, suppression.

``store`` is where the rows are kept, if anywhere; a table read from a topic is kept only once something needs it
(``materialized``). ``send_old``: the table hands on the old value with every change. ``versioned`` is None where a
table has the versions of what is above it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from kstreamnb.core.stores import StoreSpec
from kstreamnb.graph.nodes import Node

__all__ = [
    "CogroupMerge", "ForeignResult", "StreamAggregate", "Suppress", "TableAggregate", "TableFilter", "TableMapValues",
    "TableNode", "TableSelect", "TableSource", "TableToStream", "TableTransformValues", "ToTable",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TableNode(Node):
    """A node whose output is a table."""

    store: StoreSpec | None = None
    send_old: bool = False
    versioned: bool | None = None

    lazy: ClassVar[bool] = False
    """Whether the table is kept only once something needs it."""


@dataclass(frozen=True, kw_only=True)
class LazyTable(TableNode):
    """A table made of records as they come, kept only once something needs it."""

    store: StoreSpec
    materialized: bool = False

    lazy: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class TableSource(LazyTable):
    """Reads a topic as a table; with ``reuse_topic`` the topic is the store's change log as well."""

    source_name: str
    topic: str
    key_serde: Any = None
    value_serde: Any = None
    timestamp_extractor: Any = None
    offset_reset: str | None = None
    reuse_topic: bool = False

    word: ClassVar[str] = "table"


@dataclass(frozen=True, kw_only=True)
class ToTable(LazyTable):
    """Takes a stream's records as changes of a table."""

    word: ClassVar[str] = "to_table"


@dataclass(frozen=True, kw_only=True)
class ForeignResult(LazyTable):
    """The table that a foreign-key join gives."""

    word: ClassVar[str] = "join"


@dataclass(frozen=True, kw_only=True)
class TableFilter(TableNode):
    """Keeps the rows for which the predicate holds, or with ``negate`` the others."""

    predicate: Callable[[Any, Any], Any]
    negate: bool = False

    word: ClassVar[str] = "filter"


@dataclass(frozen=True, kw_only=True)
class TableMapValues(TableNode):
    """Replaces each row's value."""

    mapper: Callable[..., Any]
    with_key: bool = False

    word: ClassVar[str] = "map_values"


@dataclass(frozen=True, kw_only=True)
class TableTransformValues(TableNode):
    """Replaces each row's value by what a user's transformer, which may keep state in ``stores``, makes of it."""

    supplier: Any
    stores: tuple[str, ...] = ()

    word: ClassVar[str] = "transform_values"


@dataclass(frozen=True, kw_only=True)
class StreamAggregate(TableNode):
    """Folds a grouped stream into a table, by key or by key and window.

    Without an ``initializer`` it is a reduction: the first value stands for itself. ``owns_store``: the first node
    of several that share a store adds it.
    """

    store: StoreSpec
    initializer: Callable[[], Any] | None
    aggregator: Callable[..., Any]
    merger: Callable[..., Any] | None = None
    windows: Any = None
    emit_on_close: bool = False
    owns_store: bool = True

    word: ClassVar[str] = "aggregate"


@dataclass(frozen=True, kw_only=True)
class CogroupMerge(TableNode):
    """The one table of several aggregations that share a store."""

    word: ClassVar[str] = "cogroup"


@dataclass(frozen=True, kw_only=True)
class TableAggregate(TableNode):
    """Folds a re-grouped table: old values are subtracted, new ones added; no ``initializer``: a reduction."""

    store: StoreSpec
    initializer: Callable[[], Any] | None
    adder: Callable[..., Any]
    subtractor: Callable[..., Any]

    word: ClassVar[str] = "aggregate"


@dataclass(frozen=True, kw_only=True)
class Suppress(TableNode):
    """Holds changes back for a time, or until their window closes."""

    store: StoreSpec
    wait_ms: int
    until_close: bool
    max_records: int | None = None
    max_bytes: int | None = None
    emit_early: bool = False

    word: ClassVar[str] = "suppress"


@dataclass(frozen=True, kw_only=True)
class TableToStream(Node):
    """Hands on the new value of each change."""

    word: ClassVar[str] = "to_stream"


@dataclass(frozen=True, kw_only=True)
class TableSelect(Node):
    """Gives every row another key and value, for grouping."""

    selector: Callable[[Any, Any], tuple[Any, Any]]

    word: ClassVar[str] = "group_by"
