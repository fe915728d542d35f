"""Sequential strategy: processes input records one by one, each completely before the next.

The strategy works for every topology. If a source has its own timestamp extractor, partitions are merged by the
extracted timestamps, as Kafka Streams does: the next record of every partition is read ahead, and the partition whose
record has the lowest event time comes first.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from kstreamnb.errors import ProcessingError
from kstreamnb.runtime.context.record_context import Partition
from kstreamnb.testdriver.execution.input_batch import InputBatch
from kstreamnb.testdriver.execution.router import Router
from kstreamnb.testdriver.execution.serializer import InputRecord
from kstreamnb.testdriver.execution.task_group import TaskGroup
from kstreamnb.topology.nodes import grouped


def run(router: Router, tasks: TaskGroup, batch: InputBatch) -> None:
    """Process records one after another."""
    records = batch.input_records(router)
    if batch.merges_by_event_time(router):
        _EventTimeMerge(router, tasks, records).run()
        return
    for record in records:
        if caused := tasks.run([record]):
            tasks.settle(caused)


class _EventTimeMerge:
    """A merge of partitions by event time, of which one record of each partition is known at a time."""

    def __init__(self, router: Router, tasks: TaskGroup, records: list[InputRecord]) -> None:
        self._router, self._tasks = router, tasks
        by_partition = grouped(records, lambda record: (router.reader(record[0]).offsets, record[1]))
        self._waiting: dict[Partition, deque[InputRecord]] = {each: deque(of) for each, of in by_partition.items()}
        self._heads: list[tuple[int, str, int, Partition]] = []
        self._errors: dict[Partition, ProcessingError] = {}

    def run(self) -> None:
        """Process all records, the one with the lowest (event time, topic, partition) first."""
        for partition in self._waiting:
            self._read_ahead(partition)
        try:
            while self._heads:
                self._process_head(heappop(self._heads)[3])
        except BaseException:
            for _, topic, number, _ in self._heads:
                route = self._router.reader(topic)
                if route.extracts:
                    self._tasks.order[route.tasks[number]].drop_queued(topic, number)
            raise

    def _process_head(self, partition: Partition) -> None:
        row = self._waiting[partition].popleft()
        if error := self._errors.get(partition):
            raise error
        tasks, route = self._tasks, self._router.reader(row[0])
        if route.extracts:
            try:
                tasks.order[route.tasks[row[1]]].run_queued(row[0], row[1])
            finally:
                caused = tasks.collect(route.tasks[row[1]])
        else:
            caused = tasks.run([row])
        tasks.settle(caused)
        self._read_ahead(partition)

    def _read_ahead(self, partition: Partition) -> None:
        """Find the event time of the next record that its task does not refuse."""
        waiting, tasks = self._waiting[partition], self._tasks
        while waiting:
            row = waiting[0]
            event_time: int | None = row[2]
            route = self._router.reader(row[0])
            if route.extracts:
                index = route.tasks[row[1]]
                try:
                    event_time = tasks.order[index].queue_record(row[0], row[1], tasks.numbered(row))
                except ProcessingError as error:
                    # Records that come before this one are still to be processed: the error waits for its turn.
                    self._errors[partition] = error
                tasks.settle(tasks.collect(index))  # dead letters
            if event_time is not None:
                heappush(self._heads, (event_time, row[0], row[1], partition))
                return
            waiting.popleft()
