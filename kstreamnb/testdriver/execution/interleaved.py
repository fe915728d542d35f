"""Many records at once where tasks have nothing to do with each other: nothing that they write is read again.

Every task is a coroutine that takes its next record. Each record goes to its task in the order of the merge, so what
tasks write, and what a recording notes, comes in that order by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import count, islice
from operator import le, lt
from typing import Any

from kstreamnb.core.codec import encoder, key_partitioner
from kstreamnb.core.formatting import format_value
from kstreamnb.core.heap import collector_paused
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError, SerdeError
from kstreamnb.runtime.context.record_context import Batch, Partition, Place
from kstreamnb.runtime.task.task import Task

__all__ = ["feed_in_turn", "merge_order", "partitions_of"]


def feed_in_turn(
    readers: Mapping[Partition, Task],
    records: Sequence[TopicRecord],
    places: Sequence[Partition],
    offsets: dict[Partition, int],
) -> None:
    """Process records that are in order, each from the place at its index; ``offsets`` are counted on."""
    first = {place: offsets.get(place, 0) for place in readers}
    batch = _Mixed(readers, records, places, first)
    for place, number in Counter(places).items():
        offsets[place] = first[place] + number
    sends: dict[Partition, Callable[[TopicRecord], None]] = {}
    with ExitStack() as stack, collector_paused():
        for task in dict.fromkeys(readers.values()):
            mine = {place: first[place] for place in readers if readers[place] is task}
            sends |= stack.enter_context(task.in_turn(batch, mine))
        for record, send in zip(batch.iterator, map(sends.__getitem__, places), strict=True):
            send(record)


class _Mixed(Batch):
    """Topic records of several partitions; ``first`` are the offsets of the first ones."""

    def __init__(
        self,
        readers: Mapping[Partition, Task],
        records: Sequence[TopicRecord],
        places: Sequence[Partition],
        first: Mapping[Partition, int],
    ) -> None:
        super().__init__(records, "", -1, "", None)
        self._readers, self._places, self._begins = readers, places, first

    def taken(self, topic: str, partition: int) -> int:
        """How many records of a partition were taken; to be asked when no more will be."""
        return self._taken[topic, partition]

    def place_of(self, index: int) -> Place:
        """Where a record comes from."""
        topic, partition = place = self._places[index]
        return topic, partition, self._readers[place].lane(topic, partition).source, self._offsets[index]

    @cached_property
    def _taken(self) -> Counter[Partition]:
        return Counter(islice(self._places, self.index() + 1))

    @cached_property
    def _offsets(self) -> list[int]:
        """The offset of every record; few processors ask."""
        counters = {place: count(first) for place, first in self._begins.items()}
        return [next(counters[place]) for place in self._places]


def merge_order(times: Sequence[int], places: Sequence[Partition]) -> list[int] | None:
    """Indexes in the order of a merge of partitions by (timestamp, topic, partition); None where all stay as they are.

    Each partition keeps its own order, so that a late record stands where the partition's latest one does.
    """
    if all(map(lt, times, islice(times, 1, None))):
        return None
    if not all(map(le, times, islice(times, 1, None))):
        latest: dict[Partition, int] = {}
        upto = []
        for place, time in zip(places, times, strict=True):
            latest[place] = time = max(latest.get(place, time), time)
            upto.append(time)
        times = upto
    return [key[2] for key in sorted(zip(times, places, count(), strict=False))]


def partitions_of(records: Iterable[TopicRecord], routes: Mapping[str, tuple[Serde, int]]) -> list[Partition]:
    """Where each record goes, by key serde and count of its topic: to its partition, or if that is -1 by its key."""
    finders = {topic: _finder(topic, *route) for topic, route in routes.items()}
    known = {topic: _Known(find) for topic, find in finders.items()}
    return [  # by index: names of a tuple's places are looked up, and this is done for every record
        known[record[0]][record[4]]
        if type(record[4]) is str and record[1] < 0
        else finders[record[0]](record[1], record[4])
        for record in records
    ]


class _Known(dict[str, Partition]):
    """Where the keys of a topic go, as far as they have been looked up."""

    def __init__(self, find: Callable[[int, Any], Partition]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, key: str) -> Partition:
        place = self[key] = self._find(-1, key)
        return place


def _finder(topic: str, serde: Serde, partitions: int) -> Callable[[int, Any], Partition]:
    places = [(topic, partition) for partition in range(partitions)]
    write, partition_of = encoder(serde), key_partitioner(serde, partitions)

    def find(partition: int, key: Any) -> Partition:
        if partition >= partitions:
            raise EngineError(f'topic "{topic}" has no partition {partition}', detail=f"it has {partitions}")
        try:
            return places[partition_of(write(key)) if partition < 0 else partition]
        except SerdeError as error:
            error.add_note(f'Detail: it is of a record for topic "{topic}" (key {format_value(key)})')
            raise

    return find
