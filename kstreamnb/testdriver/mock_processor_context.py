"""A processor's context without a topology, for testing one processor alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kstreamnb.core.arguments import check_arguments, expect
from kstreamnb.core.operator import Forward, Punctuate
from kstreamnb.core.processor import ProcessorContext
from kstreamnb.core.record import Headers, Record, RecordMetadata
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import Clock
from kstreamnb.errors import StateError
from kstreamnb.runtime.codegen.node_context import NodeContext
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_context import TaskContext, make_stores
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.topology.topology import Topology


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


class _MockNode(NodeContext):
    """A node of a task that runs nothing: it captures what the processor does."""

    def __init__(self, application_id: str, task_id: str, configs: Mapping[str, Any], config: Config) -> None:
        plan = TaskPlan(Topology().add_source("mock", "mock"), (0,), config=config)
        self.task = TaskContext(plan, Clock(), None)
        super().__init__(self.task, "mock", (), self.forward_to)
        self.application_id, self.task_id = application_id, task_id
        self.forwarded: list[CapturedForward] = []
        self.punctuators: list[CapturedPunctuator] = []
        self.configs = lambda: dict(configs)

    def store(self, name: str) -> Any:
        expect(name, str, "name of a store")
        if name not in self.task.stores:
            known = ", ".join(f'"{each}"' for each in self.task.stores) or "none"
            hint = "add it with add_state_store first"
            raise StateError(f'store "{name}" is not known to the mock context', detail=f"known: {known}", hint=hint)
        return self.task.stores[name]

    def forward_to(self, child: str | None) -> Forward:
        def capture(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            self.forwarded.append(CapturedForward(Record(key, value, timestamp, headers), child))

        return capture

    def schedule(
        self, interval_ms: int, kind: str, punctuate: Punctuate, start_ms: int | None = None
    ) -> CapturedPunctuator:
        self.punctuators.append(CapturedPunctuator(interval_ms, kind, punctuate, start_ms))
        return self.punctuators[-1]


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
        config = Config(
            default_key_serde=key_serde or Serdes.string(), default_value_serde=value_serde or Serdes.json()
        )
        self._node = _MockNode(application_id, task_id, configs or {}, config)
        self._metadata: RecordMetadata | None = None
        super().__init__(self._node, self._node.forward_to(None))

    def add_state_store(self, store: StoreSpec | Any) -> None:
        """Let the processor use a store: one made from a spec, or an object with a ``name`` as it is.

        Args:
            store: a spec from `Stores`, or a store of your own.
        """
        task = self._node.task
        expect(getattr(store, "name", None), str, "name of a store")
        task.stores |= make_stores(task, [store]) if isinstance(store, StoreSpec) else {store.name: store}

    def forwarded(self, child: str | None = None) -> list[CapturedForward]:
        """Return what was forwarded, in order; with ``child`` only what that child would receive.

        Args:
            child: name of a child. Default: None, everything.
        """
        return [each for each in self._node.forwarded if child is None or each.child in (None, child)]

    def reset_forwards(self) -> None:
        """Discard the captured forwards."""
        self._node.forwarded.clear()

    def scheduled_punctuators(self) -> list[CapturedPunctuator]:
        """Return the schedules that the processor created, including cancelled ones."""
        return list(self._node.punctuators)

    def committed(self) -> bool:
        """Return whether a commit was requested."""
        return self._node.task.commit_requested[0]

    def reset_commit(self) -> None:
        """Reset the requested commit."""
        self._node.task.commit_requested[0] = False

    def set_record_metadata(self, topic: str, partition: int, offset: int) -> None:
        """Set topic, partition and offset of the current record.

        Args:
            topic: name of the topic.
            partition: number of the partition, counted from 0.
            offset: position in the partition, counted from 0.
        """
        check_arguments(MockProcessorContext.set_record_metadata, locals())
        self._metadata = RecordMetadata(topic, partition, offset)

    def record_metadata(self) -> RecordMetadata | None:
        """Return what `set_record_metadata` has set; None before that."""
        return self._metadata

    def set_current_stream_time_ms(self, now_ms: int) -> None:
        """Set the stream time (ms).

        Args:
            now_ms: epoch milliseconds.
        """
        self._node.task.stream_time[0] = now_ms

    def set_current_system_time_ms(self, now_ms: int) -> None:
        """Set the wall-clock time (ms).

        Args:
            now_ms: epoch milliseconds.
        """
        self._node.task.clock.now_ms = now_ms
