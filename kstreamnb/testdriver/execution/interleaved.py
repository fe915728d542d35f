"""Interleaved strategy: hands each record to its task in processing order; nothing that tasks write is read again.

If one partition takes all records, its task loops over them. Otherwise every task is a coroutine that receives its
next record, so outputs and recorded events come in processing order without sorting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import count, islice

from kstreamnb.core.heap import collector_paused
from kstreamnb.core.record import TopicRecord
from kstreamnb.runtime.context.record_context import Batch, Partition, RecordPosition
from kstreamnb.runtime.task.task import Task
from kstreamnb.testdriver.execution.input_batch import InputBatch
from kstreamnb.testdriver.execution.router import Router
from kstreamnb.testdriver.execution.task_group import TaskGroup


def run(router: Router, tasks: TaskGroup, batch: InputBatch) -> None:
    """Process records as the user gave them, without serialising them first."""
    readers = readers_of(router, tasks, batch)
    try:
        if batch.partitions:
            _take_turns(readers, batch.records, batch.partitions, tasks.offsets)
        else:
            ((partition, task),) = readers.items()
            first = tasks.offsets.get(partition, 0)
            tasks.offsets[partition] = first + len(batch)
            task.run(*partition, batch.records, first=first)
    finally:
        running = list(readers.values())
        tasks.collect_shared([index for index, task in enumerate(tasks.order) if task in running])


def readers_of(router: Router, tasks: TaskGroup, batch: InputBatch) -> dict[Partition, Task]:
    """Return the tasks that read the partitions of a batch."""
    partitions = dict.fromkeys(batch.partitions or ((batch.topics[0], 0),))
    return {place: tasks.order[router.reader(place[0]).tasks[place[1]]] for place in partitions}


def _take_turns(
    readers: Mapping[Partition, Task],
    records: Sequence[TopicRecord],
    partitions: Sequence[Partition],
    offsets: dict[Partition, int],
) -> None:
    first = {partition: offsets.get(partition, 0) for partition in readers}
    batch = _MixedBatch(readers, records, partitions, first)
    for partition, number in Counter(partitions).items():
        offsets[partition] = first[partition] + number
    sends: dict[Partition, Callable[[TopicRecord], None]] = {}
    with ExitStack() as stack, collector_paused():
        for task in dict.fromkeys(readers.values()):
            first_of_task = {partition: first[partition] for partition in readers if readers[partition] is task}
            sends |= stack.enter_context(task.interleave(batch, first_of_task))
        for record, send in zip(batch.iterator, map(sends.__getitem__, partitions), strict=True):
            send(record)


class _MixedBatch(Batch):
    """Records of several partitions; ``first`` holds the offset of the first record of each."""

    def __init__(
        self,
        readers: Mapping[Partition, Task],
        records: Sequence[TopicRecord],
        partitions: Sequence[Partition],
        first: Mapping[Partition, int],
    ) -> None:
        super().__init__(records, "", -1, "", None)
        self._readers, self._partitions, self._first_offsets = readers, partitions, first

    def taken(self, topic: str, partition: int) -> int:
        """Return how many records of a partition were taken; correct only after the last one."""
        return self._taken[topic, partition]

    def position_of(self, index: int) -> RecordPosition:
        """Return topic, partition, source node and offset of a record."""
        topic, number = partition = self._partitions[index]
        return topic, number, self._readers[partition].queue_of(topic, number).source, self._offsets[index]

    @cached_property
    def _taken(self) -> Counter[Partition]:
        return Counter(islice(self._partitions, self.index() + 1))

    @cached_property
    def _offsets(self) -> list[int]:
        """The offset of every record; computed only for processors that ask for it."""
        counters = {partition: count(first) for partition, first in self._first_offsets.items()}
        return [next(counters[partition]) for partition in self._partitions]
