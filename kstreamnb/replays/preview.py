"""Previews the first records that reach a node, by running a sample through its upstream nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from operator import attrgetter, itemgetter

from kstreamnb.core.formatting import pluralize, shown_of
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.frames import FramedTable
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.event_time import has_own_extractor
from kstreamnb.testdriver.sample_partitions import least_partitions
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology


@dataclass(frozen=True, repr=False)
class Preview(FramedTable):
    """The first records at a node.

    Attributes:
        records: the records.
        total: the number of all records that reached the node; None if the run ended before the end of the sample.
        taken: the number of input records processed.
        dropped: the number of records that were dropped on the way.
        is_table: the records are changes of a table, shown as ``+I``, ``-U``, ``+U`` and ``-D``.
        available: the number of input records of the sample.
        partitions: the maximum number of partitions of a topic that it read.
        topics: the topics that it would read.
    """

    records: tuple[TopicRecord, ...]
    total: int | None
    taken: int
    dropped: int = 0
    is_table: bool = False
    available: int = 0
    partitions: int = 1
    topics: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.records)

    @property
    def title(self) -> str:
        """Count shown, total and input records."""
        noun = "change" if self.is_table else "record"
        late = f", {self.dropped:,} dropped on the way" if self.dropped else ""
        if self.total is None:
            taken = f"the first {self.taken:,} of {pluralize(self.available, 'input record')}"
            return f"the first {pluralize(len(self), noun)}, from {taken}{late}"
        return f"{shown_of(len(self), self.total, noun)}, from {pluralize(self.taken, 'input record')}{late}"

    def more(self) -> Iterator[str]:
        """Say that the sample has other topics, or why a replay may drop other records."""
        if not self.taken:
            yield f"No record of the sample is in a topic that this reads: {', '.join(self.topics) or 'by pattern'}."
        if self.records and all(record.value is None for record in self.records):
            yield "Every value is null: a function that returns nothing gives null."
        if self.dropped:
            yield (
                f"This preview ran over {pluralize(self.partitions, 'partition')} per topic. A replay over another "
                "number may drop others: stream time is per task. To explain each: "
                f"ks.replay(topology, sample, partitions={self.partitions}).why_dropped()."
            )

    def _frame_rows(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        if not self.is_table:
            return _COLUMNS, map(attrgetter(*_COLUMNS), self.records)
        rows = ((kind, record.key, record.value, record.timestamp) for kind, record in _changes(self.records))
        return ("change", *_COLUMNS), rows


def _changes(records: Iterable[TopicRecord]) -> Iterator[tuple[str, TopicRecord]]:
    """Yield the changes of a table with their kinds."""
    rows: dict[str, TopicRecord] = {}
    for record in records:
        key = repr(record.key)
        old = rows.pop(key, None)
        if record.value is None:
            if old is not None:
                yield "-D", old._replace(timestamp=record.timestamp)
            continue
        if old is not None:
            yield "-U", old._replace(timestamp=record.timestamp)
        rows[key] = record
        yield "+I" if old is None else "+U", record


PREVIEW = "preview"
_COLUMNS = ("key", "value", "timestamp")
_AT_ONCE = 1000
"""The largest sample that a preview processes whole; of a larger one it begins with a quarter of this."""
_topic_of, _queue_of = itemgetter(0), itemgetter(0, 1)


class _Every(frozenset[type]):
    """Contains every type."""

    def __contains__(self, kind: object) -> bool:
        return True


class _AsItIs(Serde):
    """Passes values through unchanged: a preview shows objects that no serde could write."""

    name = "as it is"
    plain = _Every({object})

    def serialize(self, value: object) -> bytes | None:
        """Return text as bytes, for callers that insist on bytes."""
        return None if value is None else repr(value).encode()

    def deserialize(self, data: bytes | None) -> object:
        """Return the bytes."""
        return data


def preview(topology: Topology, sample: Iterable[TopicRecord], n: int = 10, *, is_table: bool = False) -> Preview:
    """Run a sample through a topology that ends in the topic "preview", and return the first records there.

    A run over more than 1,000 records ends as soon as ``n`` results are known, so that a preview of a large sample is
    fast; the total is then unknown. Records of topics that the topology does not read are skipped. Values are shown
    unchanged, even if the sink's serde could not write them. Topics have as many partitions as the records need.

    Args:
        topology: the nodes upstream of a handle, as ``upstream_topology(handle)`` returns them.
        sample: records of any topics.
        n: the number of records to show.
        is_table: show the records as changes of a table.
    """
    sources = topology.sources()
    records = list(sample)
    queues = set(map(_queue_of, records))  # one pass over all records: of 100,000 it takes a third of the preview
    read = {queue for queue in queues if any(source.reads(queue[0]) for source in sources)}
    if read != queues:
        records = [record for record in records if record[:2] in read]
    topics = dict.fromkeys([*(topic for source in sources for topic in source.topics), *map(_topic_of, sorted(read))])
    user_topics = [topic for topic in topics if topic not in topology.internal_topics]
    partitions = least_partitions(partition for _, partition in read)
    counts = {**dict.fromkeys(user_topics, partitions), PREVIEW: 1}
    own_times = any(has_own_extractor(source, Config()) for source in sources)
    with TopologyTestDriver(_shown_as_is(topology), partitions=counts, changelogs=False) as driver:
        output, taken = driver.create_output_topic(PREVIEW), 0
        for part in [records] if own_times else _parts(records, read):
            driver.pipe(part)
            taken += len(part)
            if output.queue_size() >= n:
                break
        size = output.queue_size()
        first = tuple(output.read_record() for _ in range(min(n, size)))
        dropped = sum(driver.metrics()["dropped-records-total"].values())
    total = size if taken == len(records) else None
    return Preview(first, total, taken, dropped, is_table, len(records), partitions, tuple(user_topics))


def _parts(records: list[TopicRecord], queues: set[tuple[str, int]]) -> Iterator[list[TopicRecord]]:
    """Cut records into parts that are processed one after the other, until enough is seen.

    They are in the order in which the driver would process them, so parts give the results of the whole. The order
    follows the records' timestamps; a sample of a source that extracts other times must be processed as a whole.
    """
    chosen_by_keys = len(queues) > 1 and any(partition < 0 for _, partition in queues)  # the driver chooses, from all
    if len(records) <= _AT_ONCE or chosen_by_keys:
        yield from [records] if records else []
        return
    merged = iter(records)
    if len(queues) > 1:
        by_queue: dict[tuple[str, int], list[TopicRecord]] = {queue: [] for queue in queues}
        for record in records:
            by_queue[record[0], record[1]].append(record)
        merged = merge(*by_queue.values(), key=itemgetter(3, 0, 1))
    size = _AT_ONCE // 4
    while part := list(islice(merged, size)):
        yield part
        size *= 4


def _shown_as_is(topology: Topology) -> Topology:
    """Return the same topology with a sink that passes values through unchanged."""
    result = copy(topology)
    as_is = _AsItIs()
    sinks = (sink for sink in topology.sinks() if sink.topic == PREVIEW)
    result.nodes = topology.nodes | {sink.name: replace(sink, key_serde=as_is, value_serde=as_is) for sink in sinks}
    return result
