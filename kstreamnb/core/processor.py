"""The Processor API as a user writes it: processors, suppliers and the context they get.

A user's class needs only ``process``; ``init`` and ``close`` are optional. Subclass `Processor` for the
conveniences, or pass any object with the same methods. A supplier makes a new processor for every task.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from kstreamnb.core.record import Record, RecordMetadata

if TYPE_CHECKING:  # a processor may declare stores; the specs need not be loaded for that
    from kstreamnb.core.stores import StoreSpec

__all__ = ["FixedKeyProcessor", "Processor", "ProcessorContext", "ProcessorSupplier", "PunctuationType"]

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")


class PunctuationType:
    """The two clocks that a punctuator can follow.

    Example:
        >>> PunctuationType.STREAM_TIME
        'stream_time'
    """

    STREAM_TIME = "stream_time"
    WALL_CLOCK_TIME = "wall_clock_time"


class ProcessorContext(Protocol):
    """What a processor may do besides returning: forward, read stores, schedule, ask for the time.

    Example:
        >>> class Clocked(Processor):
        ...     def process(self, record):
        ...         now = self.context.current_stream_time_ms()
        ...         self.context.forward(record.with_value(f"{record.value} at {now}"))
        >>> from kstreamnb import StreamsBuilder, head
        >>> head(StreamsBuilder().stream("orders").process(Clocked), {"orders": [("a", "first"), ("b", "second")]})
        [('a', 'first at 0', 0), ('b', 'second at 1', 1)]
    """

    application_id: str
    task_id: str

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Hand a record to all children, or to the one named."""

    def get_state_store(self, name: str) -> Any:
        """A store connected to this processor; raises StateError otherwise."""

    def schedule(
        self,
        interval: timedelta | str,
        kind: str,
        callback: Callable[[int], None],
        *,
        start: datetime | str | int | None = None,
    ) -> Any:
        """Call ``callback(now_ms)`` every ``interval`` of stream time or wall clock; gives a handle to cancel."""

    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the record in hand."""

    def current_stream_time_ms(self) -> int:
        """Stream time of the task in ms, -1 before the first record."""

    def current_system_time_ms(self) -> int:
        """The engine's wall clock in ms."""

    def commit(self) -> None:
        """Ask for a commit after this record."""


class Processor(Generic[KIn, VIn, KOut, VOut]):
    """Base class of users' processors: keeps the context, does nothing on close.

    Example:
        >>> class Doubled(Processor):
        ...     def process(self, record):
        ...         self.context.forward(record)
        ...         self.context.forward(record)
        >>> from kstreamnb import StreamsBuilder, head
        >>> head(StreamsBuilder().stream("orders").process(Doubled), {"orders": [("a", 1)]})
        [('a', 1, 0), ('a', 1, 0)]
    """

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        """Called once for each task before its first record."""
        self.context = context

    def process(self, record: Record[KIn, VIn]) -> None:
        """Called for every record."""
        raise NotImplementedError(f"{type(self).__name__} has no process(record)")

    def close(self) -> None:
        """Called once when the task ends."""

    def stores(self) -> tuple[StoreSpec, ...]:
        """Stores that come with this processor and are connected to it."""
        return ()


class FixedKeyProcessor(Processor[KIn, VIn, KIn, VOut]):
    """A processor of ``process_values``: it may not forward another key than it got.

    Example:
        >>> class Half(FixedKeyProcessor):
        ...     def process(self, record):
        ...         self.context.forward(record.with_value(record.value / 2))
        >>> from kstreamnb import StreamsBuilder, head
        >>> head(StreamsBuilder().stream("orders").process_values(Half), {"orders": [("a", 1)]})
        [('a', 0.5, 0)]
    """


ProcessorSupplier: TypeAlias = Callable[[], Any]
"""Makes a new processor for every task: a class is one."""
