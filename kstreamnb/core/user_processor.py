"""The operators that run users' processors: the adapter between `core.processor` and `core.operator`.

A task makes its own processor from the supplier, hands it a `ProcessorContext` and feeds it `Record` objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.processor import ProcessorContext
from kstreamnb.core.record import Headers, Record
from kstreamnb.errors import ProcessingError

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


class _FixedKeyContext(ProcessorContext):
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

    context_kind: ClassVar[type[ProcessorContext]] = ProcessorContext
    record_kind: ClassVar[type[Record[Any, Any]]] = Record

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Make the processor, hand it its context and give back the function that feeds it."""
        processor = self.supplier()
        start(processor, context, self.context_kind(context, forward))
        run, new, kind = processor.process, tuple.__new__, self.record_kind

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            run(new(kind, (key, value, timestamp, headers)))

        return process


@dataclass(frozen=True)
class UserFixedKeyProcessor(UserProcessor):
    """Run a processor that may change values, times and headers, but not keys.

    Shape: KStream[K, V] -> KStream[K, V2]; a record -> what it forwards; key kept; store: those connected.
    Source: Kafka Streams `KStream#processValues`; differences: none.
    """

    context_kind: ClassVar[type[ProcessorContext]] = _FixedKeyContext
    record_kind: ClassVar[type[Record[Any, Any]]] = FixedKeyRecord


def start(processor: Any, context: BindContext, own: ProcessorContext) -> None:
    """Hand a processor or transformer its context, and see to it that it is closed with the task."""
    init, close = getattr(processor, "init", None), getattr(processor, "close", None)
    if init is not None:
        init(own)
    if close is not None:
        context.on_close(close)
    context.note_processor(processor)
