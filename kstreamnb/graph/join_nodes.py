"""The frozen nodes of joins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from kstreamnb.core.stores import StoreSpec
from kstreamnb.graph.nodes import Node
from kstreamnb.graph.table_nodes import TableNode

__all__ = [
    "ForeignReceive", "ForeignResolve", "ForeignSend", "ForeignSide", "How", "JoinWindow", "StreamGlobalJoin",
    "StreamJoin", "StreamTableJoin", "SubscriptionJoin", "TableJoin",
]  # fmt: skip

How: TypeAlias = Literal["inner", "left", "outer"]


@dataclass(frozen=True, kw_only=True)
class JoinWindow(Node):
    """Keeps one side's records of a stream-stream join for as long as they may find partners."""

    store: StoreSpec

    word: ClassVar[str] = "join"


@dataclass(frozen=True, kw_only=True)
class StreamJoin(Node):
    """Joins two streams; ``windows_of`` are the ids of its two `JoinWindow` nodes, one after a self-join rewrite."""

    how: How
    joiner: Callable[..., Any]
    with_key: bool
    windows: Any
    this_name: str
    other_name: str
    windows_of: tuple[int, ...]
    pending: StoreSpec | None = None

    word: ClassVar[str] = "join"

    @property
    def keeps_null_keys(self) -> bool:
        """Whether a record without a key may still have a result."""
        return self.how != "inner"

    @property
    def uses(self) -> tuple[int, ...]:
        """Its two windows."""
        return self.windows_of

    @property
    def is_self_join(self) -> bool:
        """Whether one store serves both sides."""
        return len(self.windows_of) == 1


@dataclass(frozen=True, kw_only=True)
class StreamTableJoin(Node):
    """Looks each record up in a table of the same partition."""

    how: How
    table: int
    joiner: Callable[..., Any]
    with_key: bool
    grace_ms: int | None = None
    buffer: str | None = None

    word: ClassVar[str] = "join"

    @property
    def uses(self) -> tuple[int, ...]:
        """The table."""
        return (self.table,)

    @property
    def keeps_null_keys(self) -> bool:
        """Whether a record without a key may still have a result."""
        return self.how != "inner"


@dataclass(frozen=True, kw_only=True)
class StreamGlobalJoin(Node):
    """Looks each record up in a global table, under a key chosen from the record."""

    how: How
    store: str
    key_selector: Callable[[Any, Any], Any]
    joiner: Callable[..., Any]
    with_key: bool

    word: ClassVar[str] = "join"


@dataclass(frozen=True, kw_only=True)
class TableJoin(TableNode):
    """Joins two tables by key: two processors and the one that brings their results together."""

    how: How
    left: int
    right: int
    joiner: Callable[[Any, Any], Any]
    this_name: str
    other_name: str

    word: ClassVar[str] = "join"


# --- foreign keys: left rows subscribe to right rows, which answer ----------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class ForeignSend(Node):
    """Turns changes of the left table into subscriptions to rows of the right one."""

    foreign_key: Callable[..., Any]
    with_key: bool
    left: bool
    foreign_key_serde: Any = None
    value_serde: Any = None

    word: ClassVar[str] = "join"


@dataclass(frozen=True, kw_only=True)
class ForeignReceive(Node):
    """Keeps the subscriptions of one partition of foreign keys."""

    store: str
    foreign_key_serde: Any = None
    key_serde: Any = None

    word: ClassVar[str] = "join"


@dataclass(frozen=True, kw_only=True)
class SubscriptionJoin(Node):
    """Answers a new subscription with the right table's row."""

    table: int

    word: ClassVar[str] = "join"

    @property
    def uses(self) -> tuple[int, ...]:
        """The table."""
        return (self.table,)


@dataclass(frozen=True, kw_only=True)
class ForeignSide(Node):
    """Answers every subscriber of a right row that changed."""

    store: str
    foreign_key_serde: Any = None
    key_serde: Any = None

    word: ClassVar[str] = "join"


@dataclass(frozen=True, kw_only=True)
class ForeignResolve(Node):
    """Joins an answer with the left row, unless that changed meanwhile."""

    table: int
    joiner: Callable[[Any, Any], Any]
    left: bool
    value_serde: Any = None

    word: ClassVar[str] = "join"

    @property
    def uses(self) -> tuple[int, ...]:
        """The table."""
        return (self.table,)
