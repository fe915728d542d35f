"""The Processor API as a user writes it, and the operators that run it: processors, records, the context they get.

A user's class needs only ``process``; ``init`` and ``close`` are optional. Subclass `Processor` for its defaults, or
pass any object with the same methods. A supplier creates a new processor for every task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from kstreamnb.core.operator import BindContext, Cancellable, Forward, Operator, Process
from kstreamnb.core.record import Headers, Record, RecordMetadata
from kstreamnb.core.serde import Serde
from kstreamnb.core.signatures import taking
from kstreamnb.core.time import duration_ms, instant_ms
from kstreamnb.core.traits import OperatorTraits
from kstreamnb.errors import ProcessingError, StateError
from kstreamnb.suggesting import Suggesting
from kstreamnb.type_variables import TypeVar as TypeVarWithDefault

if TYPE_CHECKING:  # a processor may declare stores; the specs need not be loaded for that
    from kstreamnb.core.stores import StoreSpec


KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVarWithDefault("KOut", default=Any)  # a plain `ProcessorContext` is one of any records
VOut = TypeVarWithDefault("VOut", default=Any)


class PunctuationType:
    """The two clocks that a punctuator can follow.

    Example:
        >>> PunctuationType.STREAM_TIME
        'stream_time'
    """

    STREAM_TIME = "stream_time"
    WALL_CLOCK_TIME = "wall_clock_time"


class ProcessorContext(Suggesting, Generic[KOut, VOut]):
    """The context of a processor: forwards records, provides stores, schedules punctuations and reads the clocks.

    Args:
        context: the context of the node, from the engine that runs the task.
        forward: function that passes a record to all children of the node.

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

    def __init__(self, context: BindContext, forward: Forward) -> None:
        self.application_id, self.task_id, self.node = context.application_id, context.task_id, context.node
        self._context = context
        self._forwards: dict[str | None, Forward] = {None: forward}

    def forward(self, record: Record[KOut, VOut], child: str | None = None) -> None:
        """Forward a record to all children, or to the named one.

        Args:
            record: the `Record` to forward, often ``record.with_value(…)``.
            child: name of the one child that gets it. Default: all children.

        Raises: ProcessingError if the value is not a `Record`, or the child does not exist.
        """
        if not isinstance(record, Record):
            raise ProcessingError(
                f'processor "{self.node}" forwarded a "{type(record).__name__}" instead of a record',
                hint="forward record.with_value(…), or Record(key, value, timestamp)",
            )
        forward = self._forwards.get(child)
        if forward is None:
            forward = self._forwards[child] = self._context.forward_to(child)
        forward(*record)

    def get_state_store(self, name: str) -> Any:
        """Return a store connected to this processor, or a global store.

        Args:
            name: name of the store, as it was declared.

        Raises: StateError if the store is neither connected to the processor nor global.
        """
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
        """Call ``callback(now_ms)`` every ``interval`` of stream time or wall clock, first at ``start``.

        Args:
            interval: time between two calls, such as "10s"; at least 1 ms.
            kind: `PunctuationType.STREAM_TIME` or `PunctuationType.WALL_CLOCK_TIME`.
            callback: function ``(now_ms) -> None``; gets the time of the clock in epoch milliseconds.
            start: instant of the first call; if it has passed, the first call is at the next ``start + k * interval``.
                Default: the next record in stream time, one interval from now on the wall clock.
        """
        start_ms = None if start is None else instant_ms(start, "start of a punctuator")
        taking(callback, "now_ms")
        return self._context.schedule(duration_ms(interval, "interval of a punctuator"), kind, callback, start_ms)

    def record_metadata(self) -> RecordMetadata | None:
        """Return topic, partition and offset of the current record; (None, -1, -1) in a punctuator."""
        return self._context.metadata()

    def current_stream_time_ms(self) -> int:
        """Stream time of the task in ms, -1 before the first record."""
        return self._context.stream_time_ms()

    def current_system_time_ms(self) -> int:
        """Return the engine's wall clock in ms."""
        return self._context.wall_clock_ms()

    def commit(self) -> None:
        """Request a commit after this record."""
        self._context.commit()

    def key_serde(self) -> Serde:
        """Return the application's default key serde."""
        return self._context.key_serde()

    def value_serde(self) -> Serde:
        """Return the application's default value serde."""
        return self._context.value_serde()

    def app_configs(self) -> Mapping[str, Any]:
        """Return the application's configuration."""
        return self._context.configs()


class _ReadOnlyStore:
    """A global store as ordinary tasks see it: read-only."""

    def __init__(self, name: str, store: object) -> None:
        self._name, self._store = name, store

    def __getattr__(self, method: str) -> object:
        if method in ("put", "put_all", "put_if_absent", "delete", "remove"):
            hint = "produce to the topic of the global store instead"
            java = "Global store is read only"
            raise StateError(f'global store "{self._name}" is read only', hint=hint, java=java)
        return getattr(self._store, method)


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

    context: ProcessorContext[KOut, VOut]

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Called once for each task before its first record.

        Args:
            context: the context of the task; the default keeps it as ``self.context``.
        """
        self.context = context

    def process(self, record: Record[KIn, VIn]) -> None:
        """Called for every record.

        Args:
            record: the next `Record`; forward results with ``self.context.forward``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no process(record)")

    def close(self) -> None:
        """Called once when the task ends."""

    def stores(self) -> tuple[StoreSpec, ...]:
        """Return the stores that belong to this processor and are connected to it."""
        return ()


class FixedKeyProcessor(Processor[KIn, VIn, KIn, VOut]):
    """A processor for ``process_values``: it must not change the key.

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


K = TypeVar("K")
V = TypeVar("V")


class FixedKeyRecord(Record[K, V]):
    """The record that a processor of ``process_values`` gets and forwards: its key is fixed.

    Example:
        >>> FixedKeyRecord("shoe", 1, 1000).with_value(2)
        FixedKeyRecord(key='shoe', value=2, timestamp=1000, headers=())
    """

    __slots__ = ()

    def with_key(self, key: object) -> Record[Any, V]:
        """Refuse to change the key, which is fixed.

        Args:
            key: not accepted.

        Raises: ProcessingError always: the key is fixed.
        """
        raise ProcessingError("process_values must not change the key", hint=_USE_PROCESS)


_USE_PROCESS = "use process() if the key changes, or forward record.with_value(…)"


class _FixedKeyContext(ProcessorContext):
    """The context of a processor whose records keep their keys: it forwards only records made from its input."""

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Forward a record made from an input record; raises ProcessingError for any other."""
        if not isinstance(record, FixedKeyRecord):
            fact = f'processor "{self.node}" of process_values forwarded a newly created record'
            raise ProcessingError(fact, detail="its key may differ from the key of the input record", hint=_USE_PROCESS)
        super().forward(record, child)


@dataclass(frozen=True)
class UserProcessor(Operator):
    """Runs processors created by ``supplier``, one for each task.

    Shape: KStream[K, V] -> KStream[K2, V2]; a record -> what it forwards; key may change; store: those
        connected.
    Source: Kafka Streams `KStream#process`, `Topology#addProcessor`; differences: none.
    """

    supplier: ProcessorSupplier

    traits = OperatorTraits("any", user_code=True, changes_key=True, changes_value=True)
    context_kind: ClassVar[type[ProcessorContext]] = ProcessorContext
    record_kind: ClassVar[type[Record[Any, Any]]] = Record

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Return the function that feeds the processor, which is created when the task starts."""
        own, new, kind = self.context_kind(context, forward), tuple.__new__, self.record_kind
        run: Any = None

        def create() -> None:
            nonlocal run
            processor = self.supplier()
            run = processor.process
            start(processor, context, own)

        context.on_start(create)

        def process(key: object, value: object, timestamp: int, headers: Headers) -> None:
            run(new(kind, (key, value, timestamp, headers)))

        return process


@dataclass(frozen=True)
class UserFixedKeyProcessor(UserProcessor):
    """Run a processor that may change values, times and headers, but not keys.

    Shape: KStream[K, V] -> KStream[K, V2]; a record -> what it forwards; key kept; store: those connected.
    Source: Kafka Streams `KStream#processValues`; differences: none.
    """

    traits = OperatorTraits("any", user_code=True, changes_value=True)
    context_kind: ClassVar[type[ProcessorContext]] = _FixedKeyContext
    record_kind: ClassVar[type[Record[Any, Any]]] = FixedKeyRecord


def start(processor: object, context: BindContext, own: ProcessorContext) -> None:
    """Have a processor or transformer initialized after all have been created, and closed with the task."""
    init, close = getattr(processor, "init", None), getattr(processor, "close", None)
    if init is not None:
        context.on_start(partial(init, own))
    if close is not None:
        context.on_close(close)
    context.note_processor(processor)
