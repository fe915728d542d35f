"""Input records in processing order: as the user gave them, or serialized as their sources read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count, islice
from operator import itemgetter, le, lt
from typing import Any

from kstreamnb.core.codec import ByText, encoder, key_partitioner
from kstreamnb.core.formatting import format_value
from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import SerdeError
from kstreamnb.runtime.context.record_context import Partition
from kstreamnb.testdriver.execution.router import Router
from kstreamnb.testdriver.execution.serializer import InputRecord, TopicRoute, no_partition
from kstreamnb.topology.nodes import grouped


class InputBatch:
    """Records in the order of a merge of their partitions by (timestamp, topic, partition, offset).

    Attributes:
        topics: the topics of the records.
        records: the records as the user gave them; empty if the batch was made of serialized records.
        partitions: the partitions that may have records, in the order of topics and numbers.
        numbers: the index of each record's partition among them; empty if there is only one.
    """

    __slots__ = ("_serialized", "numbers", "partitions", "records", "topics")

    def __init__(
        self,
        topics: Iterable[str],
        records: Sequence[TopicRecord],
        partitions: Sequence[Partition],
        numbers: Sequence[int],
        serialized: list[InputRecord] | None,
    ) -> None:
        self.topics = tuple(topics)
        self.records, self.partitions, self.numbers, self._serialized = records, partitions, numbers, serialized

    @classmethod
    def unserialized(cls, router: Router, topics: Iterable[str], records: Sequence[TopicRecord]) -> InputBatch:
        """Assign a partition to each record and merge the partitions; serialize nothing yet."""
        routes = {topic: router.reader(topic) for topic in sorted(topics)}
        partitions = [(topic, number) for topic in routes for number in range(router.count(topic))]
        if len(partitions) == 1:
            return cls(routes, records, partitions, (), None)
        numbers = _numbers(records, routes, partitions)
        order = merge_order([record[3] for record in records], numbers)
        if order is not None:
            records, numbers = [records[at] for at in order], [numbers[at] for at in order]
        return cls(routes, records, partitions, numbers, None)

    @classmethod
    def serialized(cls, records: list[InputRecord]) -> InputBatch:
        """Merge the partitions of serialized records."""
        partitions = sorted({record[:2] for record in records})
        numbers_of = {partition: number for number, partition in enumerate(partitions)}
        numbers = [numbers_of[record[:2]] for record in records]
        order = merge_order([record[2] for record in records], numbers)
        if order is not None:
            records, numbers = [records[at] for at in order], [numbers[at] for at in order]
        return cls(dict.fromkeys(map(itemgetter(0), records)), (), partitions, numbers, records)

    def __len__(self) -> int:
        return len(self.records) or len(self._serialized or ())

    def __getitem__(self, at: slice) -> InputBatch:
        records, serialized = self.records[at], self._serialized and self._serialized[at]
        topics = self.topics if len(self.topics) == 1 else dict.fromkeys(map(itemgetter(0), serialized or records))
        return InputBatch(topics, records, self.partitions, self.numbers[at], serialized)

    def input_records(self, router: Router) -> list[InputRecord]:
        """Return the serialized records."""
        if self._serialized is None:
            self._serialized = router.serialize(self.records)
        return self._serialized

    def merges_by_event_time(self, router: Router) -> bool:
        """Return whether timestamp extractors of sources decide in which order partitions are processed."""
        if not any(router.reader(topic).extracts for topic in self.topics):
            return False
        return len({record[:2] for record in self.input_records(router)}) > 1


def merge_order(timestamps: Sequence[int], numbers: Sequence[int]) -> list[int] | None:
    """Return indexes in the order of a merge by (timestamp, number of partition); None if all records stay in place.

    Each partition keeps its order: a late record counts as being as new as the newest one before it.
    """
    if all(map(lt, timestamps, islice(timestamps, 1, None))):
        return None
    if not all(map(le, timestamps, islice(timestamps, 1, None))):
        latest: dict[int, int] = {}
        running = []
        for number, timestamp in zip(numbers, timestamps, strict=True):
            latest[number] = timestamp = max(latest.get(number, timestamp), timestamp)
            running.append(timestamp)
        timestamps = running
    return [key[2] for key in sorted(zip(timestamps, numbers, count(), strict=False))]


def least_head_order(same: list[int], records: Sequence[Any], partitions: Sequence[Any]) -> list[int]:
    """Sort indexes of records that reach a task at once in the order it takes them: by their partitions' heads."""
    queues = grouped(same if len(same) > 1 else (), partitions.__getitem__)
    if len(queues) <= 1:
        return same
    merged = []
    while queues:
        first = min(queues, key=lambda partition: (records[queues[partition][0]][-4], partition))
        merged.append(queues[first].pop(0))
        if not queues[first]:
            del queues[first]
    return merged


def _numbers(
    records: Sequence[TopicRecord], routes: Mapping[str, TopicRoute], partitions: Sequence[Partition]
) -> list[int]:
    """Return the index of each record's partition: the one it names, or if that is negative the one of its key."""
    finders = {
        topic: _finder(route, [at for at, of in enumerate(partitions) if of[0] == topic])
        for topic, route in routes.items()
    }
    known = {topic: ByText(partial(find, -1)) for topic, find in finders.items()}
    # By index: looking up the fields of a named tuple by name would dominate these loops.
    if len(routes) == 1:
        (find,), (of_text,) = finders.values(), known.values()
        return [
            of_text[record[4]] if type(record[4]) is str and record[1] < 0 else find(record[1], record[4])
            for record in records
        ]
    return [
        known[record[0]][record[4]]
        if type(record[4]) is str and record[1] < 0
        else finders[record[0]](record[1], record[4])
        for record in records
    ]


def _finder(route: TopicRoute, numbers: Sequence[int]) -> Callable[[int, object], int]:
    topic, (serde, _) = route.topic, route.serdes
    write, partition_of = encoder(serde), key_partitioner(serde, len(numbers))

    def find(partition: int, key: object) -> int:
        if partition >= len(numbers):
            raise no_partition(topic, partition, len(numbers))
        try:
            return numbers[partition_of(write(key)) if partition < 0 else partition]
        except SerdeError as error:
            error.add_note(f'Detail: it is part of a record for topic "{topic}" (key {format_value(key)})')
            error.at(route.origin)
            raise

    return find
