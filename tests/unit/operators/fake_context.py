"""A minimal task for one operator: real stores, lists of forwarded and dropped records, and a settable clock."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import Forward, Operator, Punctuate
from kstreamnb.core.record import Headers, RecordMetadata
from kstreamnb.core.serde import Serde, complete
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import ProcessingError, StateError
from kstreamnb.state.make import make_store

__all__ = ["Drop", "FakeContext", "Fed"]

Forwarded = list[tuple[Any, ...]]


@dataclass
class Drop:
    """One dropped record and the reason."""

    reason: str
    key: Any
    value: Any
    timestamp: int
    details: dict[str, Any] | None


@dataclass
class _Schedule:
    interval_ms: int
    kind: str
    punctuate: Punctuate
    start_ms: int | None
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class Fed:
    """A bound operator: call it with key, value, time and headers; it returns the records forwarded for that input."""

    def __init__(self, context: FakeContext, process: Callable[..., None], out: Forwarded) -> None:
        self._context, self._process, self._out = context, process, out

    def __call__(self, key: Any, value: Any, timestamp: int = 0, headers: Headers = ()) -> list[tuple[Any, ...]]:
        """Return forwarded ``(key, value, timestamp)``, with headers if there are any."""
        context, seen = self._context, len(self._out)
        context.set_record(timestamp, headers)
        context.stream_time = max(context.stream_time, timestamp)
        context.offset += 1
        self._process(key, value, timestamp, headers)
        return self._out[seen:]


class FakeContext:
    """BindContext and StoreContext in one, for one or more operators of one task."""

    application_id, task_id, keeps_copies = "app", "0_0", False

    def __init__(
        self,
        *specs: StoreSpec,
        partition: int = 0,
        key_serde: Any = None,
        value_serde: Any = None,
        children: tuple[str, ...] = (),
    ) -> None:
        self.node, self.partition, self.children = "NODE", partition, children
        self._key_serde, self._value_serde = key_serde or Serdes.string(), value_serde or Serdes.string()
        self.stream_time, self.now_ms, self.offset, self.commits = -1, 0, -1, 0
        self._timestamp, self._headers = 0, ()
        self._metadata: RecordMetadata | None = None
        self.dropped: list[Drop] = []
        self.forwarded: Forwarded = []
        self.schedules: list[_Schedule] = []
        self.closers: list[Callable[[], None]] = []
        self._cells: dict[tuple[str, str], list[Any]] = {}
        self.global_stores: set[str] = set()
        self.stores = {spec.name: make_store(spec, self) for spec in specs}

    def bind(self, operator: Operator, *, node: str = "NODE", forward: Forward | None = None) -> Fed:
        """Bind an operator; without ``forward`` its results are collected in ``forwarded``."""
        self.node = node
        return Fed(self, operator.bind(self, forward or self._keep(self.forwarded)), self.forwarded)

    def fire(self, kind: str, now_ms: int) -> list[tuple[Any, ...]]:
        """Call every punctuator of that clock once; return the forwarded records."""
        seen = len(self.forwarded)
        self._metadata = RecordMetadata(None, -1, -1)
        for schedule in list(self.schedules):
            if schedule.kind == kind and not schedule.cancelled:
                schedule.punctuate(now_ms)
        self._metadata = None
        return self.forwarded[seen:]

    def reasons(self) -> list[str]:
        """Return why records were dropped, in order."""
        return [drop.reason for drop in self.dropped]

    @staticmethod
    def _keep(out: Forwarded, child: str | None = None) -> Forward:
        def keep(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            record = (key, value, timestamp, headers) if headers else (key, value, timestamp)
            out.append(record if child is None else (child, *record))

        return keep

    # The part of the task that an operator uses

    def store(self, name: str) -> Any:
        if name not in self.stores:
            raise StateError(f'node "{self.node}" has no access to store "{name}"')
        return self.stores[name]

    def kept_rows(self, store: str | None, serde: Serde) -> dict[object, tuple[Any, int]]:
        return {}

    def only_reads(self, store: str) -> bool:
        return store in self.global_stores

    def forward_to(self, child: str | None) -> Forward:
        if child is not None and child not in self.children:
            java = f"Unknown downstream node: {child} either does not exist or is not connected to this processor."
            raise ProcessingError(f'node "{self.node}" has no child "{child}"', java=java)
        return self._keep(self.forwarded, child)

    def state_var(self, name: str, initial: Any) -> list[Any]:
        return self._cells.setdefault((self.node, name), [initial])

    def shared_state_var(self, name: str, initial: Any) -> list[Any]:
        return self._cells.setdefault(("", name), [initial])

    def drop(self, reason: str, key: Any, value: Any, timestamp: int, details: dict[str, Any] | None = None) -> None:
        self.dropped.append(Drop(reason, key, value, timestamp, details))

    def refuse(self, store: str, key: Any, value: Any, timestamp: int, details: dict[str, Any]) -> None:
        self.drop("expired", key, value, timestamp, details)

    def stream_time_ms(self) -> int:
        return self.stream_time

    def wall_clock_ms(self) -> int:
        return self.now_ms

    def schedule(self, interval_ms: int, kind: str, punctuate: Punctuate, start_ms: int | None = None) -> _Schedule:
        self.schedules.append(_Schedule(interval_ms, kind, punctuate, start_ms))
        return self.schedules[-1]

    def metadata(self) -> RecordMetadata | None:
        return self._metadata or RecordMetadata("in", self.partition, self.offset)

    def resume(self, metadata: RecordMetadata | None) -> RecordMetadata | None:
        current, self._metadata = self.metadata(), metadata
        return current

    def reading_row(self, timestamp: int, headers: Headers) -> AbstractContextManager[None]:
        return nullcontext()

    def on_start(self, callback: Callable[[], None]) -> None:
        callback()

    def on_close(self, callback: Callable[[], None]) -> None:
        self.closers.append(callback)

    def note_processor(self, processor: object) -> None:
        self.processor = processor

    def commit(self) -> None:
        self.commits += 1

    def configs(self) -> dict[str, Any]:
        return {"application.id": self.application_id}

    def key_serde(self, serde: Any = None) -> Any:
        return complete(serde or self._key_serde, self._key_serde, self._value_serde)

    def value_serde(self, serde: Any = None) -> Any:
        return complete(serde or self._value_serde, self._key_serde, self._value_serde)

    # The part of the task that a store uses

    def timestamp(self) -> int:
        return self._timestamp

    def headers(self) -> Headers:
        return self._headers

    def set_record(self, timestamp: int, headers: Headers) -> None:
        self._timestamp, self._headers = timestamp, headers
