"""The operators that run users' processors: the adapter between `core.processor` and `core.operator`.

A task makes its own processor from the supplier, hands it a `TaskProcessorContext` and feeds it `Record`
objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeVar

from kstreamnb.core.durations import duration_ms, instant_ms
from kstreamnb.core.operator import BindContext, Cancellable, Forward, Process
from kstreamnb.core.record import Headers, Record, RecordMetadata
from kstreamnb.errors import ProcessingError, StateError

__all__ = ["FixedKeyRecord", "TaskProcessorContext", "UserFixedKeyProcessor", "UserProcessor"]

K = TypeVar("K")
V = TypeVar("V")


class FixedKeyRecord(Record[K, V]):
    """The record that a processor of ``process_values`` gets and forwards: its key stays.

    Example:
        >>> FixedKeyRecord("shoe", 1, 1000).with_value(2)
        FixedKeyRecord(key='shoe', value=2, timestamp=1000, headers=())
    """

    __slots__ = ()

    def with_key(self, key: Any) -> Record[Any, V]:
        """Raises ProcessingError: the key is fixed."""
        raise ProcessingError("process_values may not change the key", hint=_USE_PROCESS)

    def with_value(self, value: Any) -> FixedKeyRecord[K, Any]:
        """The same record with another value."""
        return self._replace(value=value)

    def with_timestamp(self, timestamp: int) -> FixedKeyRecord[K, V]:
        """The same record at another event time (ms, not negative)."""
        Record.with_timestamp(self, timestamp)
        return self._replace(timestamp=timestamp)

    def with_headers(self, headers: Headers) -> FixedKeyRecord[K, V]:
        """The same record with other headers."""
        return self._replace(headers=tuple(headers))


_USE_PROCESS = "use process() where the key changes; forward record.with_value(…) where it stays"


class TaskProcessorContext:
    """What one user's processor sees of its task; see `ProcessorContext`."""

    def __init__(self, context: BindContext, forward: Forward) -> None:
        self.application_id = context.application_id
        self.task_id = context.task_id
        self.node = context.node
        self._context = context
        self._to_all = forward
        self._to_child: dict[str, Forward] = {}

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Hand a record to all children, or to the one named; raises ProcessingError when there is none."""
        if not isinstance(record, Record):
            raise ProcessingError(
                f'processor "{self.node}" forwarded a "{type(record).__name__}" instead of a record',
                hint="forward record.with_value(…), or Record(key, value, timestamp)",
            )
        if child is None:
            self._to_all(*record)
            return
        to_child = self._to_child.get(child)
        if to_child is None:
            to_child = self._to_child[child] = self._context.forward_to(child)
        to_child(*record)

    def get_state_store(self, name: str) -> Any:
        """A store connected to this processor, or a global store; raises StateError otherwise."""
        store = self._context.store(name)
        store = getattr(store, "for_user", store)
        return _ReadOnlyStore(name, store) if self._context.only_reads(name) else store

    def schedule(
        self,
        interval: timedelta | str,
        kind: str,
        callback: Callable[[int], None],
        *,
        start: datetime | str | int | None = None,
    ) -> Cancellable:
        """Call ``callback(now_ms)`` every ``interval`` of stream time or wall clock, first at ``start``."""
        start_ms = None if start is None else instant_ms(start, "start of a punctuator")
        return self._context.schedule(duration_ms(interval, "interval of a punctuator"), kind, callback, start_ms)

    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the record in hand; (None, -1, -1) in a punctuator."""
        return self._context.metadata()

    def current_stream_time_ms(self) -> int:
        """Stream time of the task in ms, -1 before the first record."""
        return self._context.stream_time_ms()

    def current_system_time_ms(self) -> int:
        """The engine's wall clock in ms."""
        return self._context.wall_clock_ms()

    def commit(self) -> None:
        """Ask for a commit after this record."""
        self._context.commit()

    def key_serde(self) -> Any:
        """The application's default key serde."""
        return self._context.key_serde()

    def value_serde(self) -> Any:
        """The application's default value serde."""
        return self._context.value_serde()

    def app_configs(self) -> Mapping[str, Any]:
        """The application's configuration."""
        return self._context.configs()


class _ReadOnlyStore:
    """A global store as an ordinary task sees it."""

    def __init__(self, name: str, store: Any) -> None:
        self._name, self._store = name, store

    def __getattr__(self, method: str) -> Any:
        if method in ("put", "put_all", "put_if_absent", "delete", "remove"):
            hint = "produce to the topic of the global store instead"
            java = "Global store is read only"
            raise StateError(f'global store "{self._name}" is read only', hint=hint, java=java)
        return getattr(self._store, method)


class _FixedKeyContext(TaskProcessorContext):
    """The context of a processor whose records keep their keys: it forwards only what it was given."""

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Hand on a record made from one that was given; raises ProcessingError for any other."""
        if not isinstance(record, FixedKeyRecord):
            raise ProcessingError(
                f'processor "{self.node}" of process_values forwarded a record of its own making',
                detail="its key may differ from that of the record it was given",
                hint=_USE_PROCESS,
            )
        super().forward(record, child)


@dataclass(frozen=True)
class UserProcessor:
    """Run a processor that ``supplier`` makes, a new one for each task.

    Shape: KStream[K, V] -> KStream[K2, V2]; a record -> what it forwards; key may change; store: those
        connected.
    Source: Kafka Streams `KStream#process`, `Topology#addProcessor`; differences: none.
    """

    supplier: Any

    context_kind: ClassVar[type[TaskProcessorContext]] = TaskProcessorContext
    record_kind: ClassVar[type[Record[Any, Any]]] = Record

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Make the processor, hand it its context and give back the function that feeds it."""
        run = _start(self.supplier, context, self.context_kind(context, forward))
        new, kind = tuple.__new__, self.record_kind

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            run(new(kind, (key, value, timestamp, headers)))

        return process


@dataclass(frozen=True)
class UserFixedKeyProcessor(UserProcessor):
    """Run a processor that may change values, times and headers, but not keys.

    Shape: KStream[K, V] -> KStream[K, V2]; a record -> what it forwards; key kept; store: those connected.
    Source: Kafka Streams `KStream#processValues`; differences: none.
    """

    context_kind: ClassVar[type[TaskProcessorContext]] = _FixedKeyContext
    record_kind: ClassVar[type[Record[Any, Any]]] = FixedKeyRecord


def _start(supplier: Any, context: BindContext, own: TaskProcessorContext) -> Callable[[Any], None]:
    """Make a processor, initialise it and give back its ``process``."""
    processor = supplier()
    init, close = getattr(processor, "init", None), getattr(processor, "close", None)
    if init is not None:
        init(own)
    if close is not None:
        context.on_close(close)
    run: Callable[[Any], None] = processor.process
    return run
