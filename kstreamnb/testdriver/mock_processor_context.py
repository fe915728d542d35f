"""A processor's context without a topology, for testing one processor alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from kstreamnb.core.arguments import check_arguments, expect
from kstreamnb.core.operator import Forward
from kstreamnb.core.processor import ProcessorContext
from kstreamnb.core.record import Headers, Record, RecordMetadata
from kstreamnb.core.serde import complete
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import StateError
from kstreamnb.state.make import make_store


class CapturedForward(NamedTuple):
    """A record that the processor forwarded, and the child it named; None for all."""

    record: Record[Any, Any]
    child: str | None


@dataclass
class CapturedPunctuator:
    """A schedule that the processor created: call ``punctuate(now_ms)`` as the task would."""

    interval_ms: int
    kind: str
    punctuate: Callable[[int], None]
    start_ms: int | None
    cancelled: bool = False

    def cancel(self) -> None:
        """Cancel the schedule."""
        self.cancelled = True


class _Task:
    """The task of a mock context: it records everything and runs nothing."""

    node, keeps_copies = "mock", False

    def __init__(self, application_id: str, task_id: str, configs: Mapping[str, Any], key: Any, value: Any) -> None:
        self.application_id, self.task_id = application_id, task_id
        self._configs, self._serdes = dict(configs), (key, value)
        self.stores: dict[str, Any] = {}
        self.forwarded: list[CapturedForward] = []
        self.punctuators: list[CapturedPunctuator] = []
        self.committed = False
        self.here: RecordMetadata | None = None
        self.stream_ms, self.wall_ms = -1, 0

    def store(self, name: str) -> Any:
        expect(name, str, "name of a store")
        if name not in self.stores:
            known = ", ".join(f'"{each}"' for each in self.stores) or "none"
            hint = "add it with add_state_store first"
            raise StateError(f'store "{name}" is not known to the mock context', detail=f"known: {known}", hint=hint)
        return self.stores[name]

    def only_reads(self, store: str) -> bool:
        return False

    def forward_to(self, child: str | None) -> Forward:
        def note(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            self.forwarded.append(CapturedForward(Record(key, value, timestamp, headers), child))

        return note

    def schedule(self, interval_ms: int, kind: str, punctuate: Any, start_ms: int | None = None) -> CapturedPunctuator:
        self.punctuators.append(CapturedPunctuator(interval_ms, kind, punctuate, start_ms))
        return self.punctuators[-1]

    def metadata(self) -> RecordMetadata | None:
        return self.here

    def stream_time_ms(self) -> int:
        return self.stream_ms

    def wall_clock_ms(self) -> int:
        return self.wall_ms

    def commit(self) -> None:
        self.committed = True

    def configs(self) -> Mapping[str, Any]:
        return self._configs

    def key_serde(self, serde: Any = None) -> Any:
        return complete(serde or self._serdes[0], *self._serdes)

    def value_serde(self, serde: Any = None) -> Any:
        return complete(serde or self._serdes[1], *self._serdes)


class _StoreTask(_Task):
    """The services of a task for its stores."""

    def timestamp(self) -> int:
        return max(self.stream_ms, 0)

    def headers(self) -> Headers:
        return ()

    def refuse(self, store: str, key: Any, value: Any, timestamp: int, details: Any) -> None:
        """Ignore that a store refused a row that is too old: as in a task, that is not an error."""


class MockProcessorContext(ProcessorContext):
    """A context that records what a processor does with it: forwards, schedules and commits.

    Args:
        application_id: the application id that the processor reads. Default: "app".
        task_id: the task id that it reads, such as ``0_3``. Default: ``0_0``.
        configs: settings by Kafka's dotted names. Default: none.
        key_serde: the default serde of stores' keys.
        value_serde: the default serde of stores' values.

    Example:
        >>> from kstreamnb import Processor, Record, Stores
        >>> from kstreamnb.testing import MockProcessorContext
        >>> class Counted(Processor):
        ...     def process(self, record):
        ...         seen = self.context.get_state_store("seen")
        ...         seen.put(record.key, (seen.get(record.key) or 0) + 1)
        ...         self.context.forward(record.with_value(seen.get(record.key)))
        ...
        >>> context, processor = MockProcessorContext(), Counted()
        >>> context.add_state_store(Stores.in_memory_key_value_store("seen"))
        >>> processor.init(context)
        >>> processor.process(Record("a", "x", 5))
        >>> context.forwarded()
        [CapturedForward(record=Record(key='a', value=1, timestamp=5, headers=()), child=None)]

    Source: Kafka Streams `MockProcessorContext`; differences: stores are given as specs.
    """

    def __init__(
        self,
        *,
        application_id: str = "app",
        task_id: str = "0_0",
        configs: Mapping[str, Any] | None = None,
        key_serde: Any = None,
        value_serde: Any = None,
    ) -> None:
        check_arguments(MockProcessorContext.__init__, locals())
        serdes = (key_serde or Serdes.string(), value_serde or Serdes.json())
        self._task = cast("Any", _StoreTask(application_id, task_id, configs or {}, *serdes))
        super().__init__(self._task, self._task.forward_to(None))

    def add_state_store(self, store: StoreSpec | Any) -> None:
        """Let the processor use a store: one made from a spec, or an object with a ``name`` as it is.

        Args:
            store: a spec from `Stores`, or a store of your own.
        """
        made = make_store(store, self._task) if isinstance(store, StoreSpec) else store
        expect(getattr(made, "name", None), str, "name of a store")
        self._task.stores[made.name] = made

    def forwarded(self, child: str | None = None) -> list[CapturedForward]:
        """Return what was forwarded, in order; with ``child`` only what that child would receive.

        Args:
            child: name of a child. Default: None, everything.
        """
        forwards: list[CapturedForward] = self._task.forwarded
        return [each for each in forwards if child is None or each.child in (None, child)]

    def reset_forwards(self) -> None:
        """Discard the captured forwards."""
        self._task.forwarded.clear()

    def scheduled_punctuators(self) -> list[CapturedPunctuator]:
        """Return the schedules that the processor created, including cancelled ones."""
        return list(self._task.punctuators)

    def committed(self) -> bool:
        """Return whether a commit was requested."""
        return bool(self._task.committed)

    def reset_commit(self) -> None:
        """Reset the requested commit."""
        self._task.committed = False

    def set_record_metadata(self, topic: str, partition: int, offset: int) -> None:
        """Set topic, partition and offset of the current record.

        Args:
            topic: name of the topic.
            partition: number of the partition, counted from 0.
            offset: position in the partition, counted from 0.
        """
        check_arguments(MockProcessorContext.set_record_metadata, locals())
        self._task.here = RecordMetadata(topic, partition, offset)

    def set_current_stream_time_ms(self, now_ms: int) -> None:
        """Set the stream time (ms).

        Args:
            now_ms: epoch milliseconds.
        """
        self._task.stream_ms = now_ms

    def set_current_system_time_ms(self, now_ms: int) -> None:
        """Set the wall-clock time (ms).

        Args:
            now_ms: epoch milliseconds.
        """
        self._task.wall_ms = now_ms
