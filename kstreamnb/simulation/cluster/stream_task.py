"""A task with its fetch positions, full buffers and idle deadlines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kstreamnb.core.codec import encoded
from kstreamnb.runtime.context.record_context import Partition, WireRecord
from kstreamnb.runtime.task.task import Task
from kstreamnb.simulation.cluster.broker import LogRecord
from kstreamnb.simulation.cluster.thread_context import ThreadContext


class StreamTask:
    """One task, its buffers and its deadlines.

    Args:
        task: processes the records.
        inputs: the input partitions.
        context: the application's settings, and the broker from which records are fetched.
    """

    def __init__(self, task: Task, inputs: Sequence[Partition], context: ThreadContext) -> None:
        self.task, self.inputs, self.id = task, tuple(inputs), task.plan.task_id
        self.positions: dict[Partition, int] = {}
        self.needs_commit = False
        self.processed = self.enforced = 0
        self._config, self._broker, self._isolation = context.config, context.cluster.broker, context.isolation
        self._log_event = context.log_event
        self._paused: dict[Partition, None] = {}
        self._deadlines: dict[Partition, int] = {}
        self._waits_for = ""

    def fetch(self, budget: int) -> int:
        """Fetch at most ``budget`` records from the broker into the buffers; return their number."""
        fetched = 0
        for partition in self.inputs:
            if partition in self._paused or self._broker.is_delayed(*partition) or fetched >= budget:
                continue
            log = self._broker.partition(*partition)
            result, self.positions[partition] = log.read(self.positions[partition], budget - fetched, self._isolation)
            if not result:
                continue
            fetched += len(result)
            self.task.push(*partition, [wire(record) for record in result])
            self._log_event("polled", self.id, _label(partition), records=len(result), from_offset=result[0].offset)
            waiting, limit = len(self.task.queue_of(*partition)), self._config.buffered_records_per_partition
            if waiting > limit:
                self._paused[partition] = None
                self._log_event("paused", self.id, _label(partition), buffered=waiting, limit=limit)
        return fetched

    def is_ready(self, now_ms: int) -> bool:
        """Return True if a record may be processed: no partition without one needs to be waited for."""
        buffered = [partition for partition in self.inputs if self.task.queue_of(*partition).fill()]
        if self._config.max_task_idle_ms < 0 or not buffered:
            return bool(buffered)
        late: list[Partition] = []
        for partition in self.inputs:
            if partition in buffered:
                self._deadlines.pop(partition, None)
                continue
            lag = self._broker.lag(*partition, self.positions[partition], self._isolation)
            if lag != 0:
                self._deadlines.pop(partition, None)
                self._idle(partition, lag="unknown" if lag is None else lag)
                return False
            deadline = self._deadlines.setdefault(partition, now_ms + self._config.max_task_idle_ms)
            if now_ms < deadline:
                self._idle(partition, lag=0, until_ms=deadline)
                return False
            late.append(partition)
        self._waits_for = ""
        if late:
            self.enforced += 1
            if self._config.max_task_idle_ms:
                self._log_event("enforced", self.id, ", ".join(map(_label, late)), total=self.enforced)
        return True

    def process(self) -> tuple[str, int, WireRecord]:
        """Process the next record; return its topic, partition and content."""
        queue = self.task.first_queue
        assert queue is not None
        chosen = queue.arrived()
        self.task.run_ready(1)
        self.processed += 1
        self.needs_commit = True
        for partition in list(self._paused):
            waiting = len(self.task.queue_of(*partition))
            if waiting <= self._config.buffered_records_per_partition:
                del self._paused[partition]
                self._log_event("resumed", self.id, _label(partition), buffered=waiting)
        return chosen[0], queue.partition, chosen[1]

    def offsets(self) -> Mapping[Partition, int]:
        """Return the first unprocessed offset of each partition."""
        queues = {partition: self.task.queue_of(*partition) for partition in self.inputs}
        return {each: queue.arrived()[1][0] if queue.fill() else self.positions[each] for each, queue in queues.items()}

    def _idle(self, partition: Partition, **numbers: object) -> None:
        """Record an idling event, once per reason."""
        about = f"{partition} {numbers}"
        if about != self._waits_for:
            self._waits_for = about
            self._log_event("idling", self.id, _label(partition), **numbers)


def wire(record: LogRecord) -> WireRecord:
    """Return a topic's record in the form that tasks take."""
    key, value = encoded(record.key), encoded(record.value)
    return record.offset, record.timestamp, key, value, record.headers


def _label(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
