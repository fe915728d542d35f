"""Input records in processing order: as the user gave them, or serialized as their sources read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count, islice
from operator import itemgetter, le, lt
from typing import Any

from kstreamnb.core.codec import MEMO, encoder, indexed_type, key_partitioner
from kstreamnb.core.formatting import format_value
from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import KStreamError, SerdeError
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
    def unserialized(
        cls, router: Router, topics: Iterable[str], records: Sequence[TopicRecord], times: Sequence[int] | None = None
    ) -> InputBatch:
        """Assign a partition to each record and merge the partitions; serialize nothing yet."""
        routes = {topic: router.reader(topic) for topic in sorted(topics)}
        partitions = [(topic, number) for topic in routes for number in range(router.count(topic))]
        if len(partitions) == 1:
            return cls(routes, records, partitions, (), None)
        times = [record[3] for record in records] if times is None else times
        numbers = _numbers(records, routes, partitions)
        order = merge_order(times, numbers)
        if order is not None:
            records = [records[at] for at in order]
            numbers = numbers.sorted(order, records) if type(numbers) is NumbersByKey else [numbers[at] for at in order]
        return cls(routes, records, partitions, numbers, None)

    @classmethod
    def serialized(cls, records: list[InputRecord]) -> InputBatch:
        """Merge the partitions of serialized records."""
        own = [record[:2] for record in records]
        partitions = sorted(set(own))
        numbers_of = {partition: number for number, partition in enumerate(partitions)}
        numbers = list(map(numbers_of.__getitem__, own))
        order = merge_order([record[2] for record in records], numbers)
        if order is not None:
            records, numbers = [records[at] for at in order], [numbers[at] for at in order]
        return cls(dict.fromkeys(map(itemgetter(0), records)), (), partitions, numbers, records)

    def __len__(self) -> int:
        return len(self.records) or len(self._serialized or ())

    def __getitem__(self, at: slice) -> InputBatch:
        records, numbers, serialized = self.records[at], self.numbers, self._serialized and self._serialized[at]
        topics = self.topics if len(self.topics) == 1 else dict.fromkeys(map(itemgetter(0), serialized or records))
        numbers = numbers.of(records) if type(numbers) is NumbersByKey else numbers[at]
        return InputBatch(topics, records, self.partitions, numbers, serialized)

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


class PartitionFinder:
    """Finds the index of a record's partition: the one that it names or, if that is negative, the one of its key.

    Attributes:
        kind: the type of keys that are looked up.
        known: their index, by key; empty at first.
    """

    def __init__(self, route: TopicRoute, partitions: Sequence[Partition]) -> None:
        serde, self._route = route.serdes[0], route
        self._numbers = [at for at, of in enumerate(partitions) if of[0] == route.topic]
        self._write, self._partition_of = encoder(serde), key_partitioner(serde, len(self._numbers))
        self.kind, self.known = indexed_type(serde), dict[object, int]()
        self._keeps = self.kind in serde.plain

    def find(self, partition: int, key: object) -> int:
        """Return the index by partition and key; keep the index of a key unless its serde might change the key."""
        topic, numbers = self._route.topic, self._numbers
        if partition >= len(numbers):
            raise no_partition(topic, partition, len(numbers))
        if partition >= 0:
            return numbers[partition]
        try:
            wire = self._write(key)
            number = numbers[self._partition_of(wire)]
        except SerdeError as error:
            error.add_note(f'Detail: it is part of a record for topic "{topic}" (key {format_value(key)})')
            error.at(self._route.origin)
            raise
        if type(key) is self.kind and (wire is key or not self._keeps):
            if len(self.known) >= MEMO:
                self.known.clear()
            self.known[key] = number
        return number


def _numbers_of(records: Iterable[TopicRecord], finders: Mapping[str, PartitionFinder]) -> list[int]:
    return [  # by index: fields of a named tuple by name would dominate this loop
        finder.find(record[1], record[4])
        if record[1] >= 0 or type(record[4]) is not finder.kind or (number := finder.known.get(record[4])) is None
        else number
        for record in records
        for finder in (finders[record[0]],)
    ]


class NumbersByKey(Sequence[int]):
    """The index of each record's partition, of one topic.

    They are computed when they are first read, and not at all if a loop finds them itself. A record without one fails
    when its turn comes: iterating counts it in the first partition, and indexing raises its error.

    Attributes:
        topic: the topic.
        finder: finds the index of a record.
    """

    def __init__(self, records: Sequence[TopicRecord], topic: str, finder: PartitionFinder) -> None:
        self._records, self.topic, self.finder = records, topic, finder
        self._errors: dict[int, KStreamError] = {}

    @cached_property
    def _numbers(self) -> list[int]:
        try:
            return _numbers_of(self._records, {self.topic: self.finder})
        except KStreamError:
            return list(map(self._number_of, count(), self._records))

    def _number_of(self, at: int, record: TopicRecord) -> int:
        try:
            return self.finder.find(record.partition, record.key)
        except KStreamError as error:
            self._errors[at] = error
            return 0

    def check(self, order: Iterable[int]) -> None:
        """Raise the error of the first record in an order that has no partition."""
        if self._numbers and self._errors:
            raise next(self._errors[at] for at in order if at in self._errors)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def sorted(self, order: Iterable[int], records: Sequence[TopicRecord]) -> NumbersByKey:
        """Return the indexes of all records, which were sorted; each has a partition."""
        self.check(order)
        return self.of(records)

    def of(self, records: Sequence[TopicRecord]) -> NumbersByKey:
        """Return the indexes of some of the records."""
        return NumbersByKey(records, self.topic, self.finder)

    def __getitem__(self, at: Any) -> Any:
        number = self._numbers[at]
        if at in self._errors:
            raise self._errors[at]
        return number


def _numbers(
    records: Sequence[TopicRecord], routes: Mapping[str, TopicRoute], partitions: Sequence[Partition]
) -> Sequence[int]:
    """Return the index of each record's partition."""
    finders = {topic: PartitionFinder(route, partitions) for topic, route in routes.items()}
    return NumbersByKey(records, *finders.popitem()) if len(finders) == 1 else _numbers_of(records, finders)
