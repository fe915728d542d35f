"""The one source of a query: all topics behind one offset, records as packed rows addressed to tasks.

An offset holds the offsets of all topics, the batch's wall clock, and the time of the last wall-clock tick. It is in
Spark's write-ahead log, so a replayed batch has the same records, the same clock and the same ticks.
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper

from kstreamnb.core.codec import encoded
from kstreamnb.core.heap import freeze_heap, gc_relaxed
from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError, PartitionError
from kstreamnb.kafka.batch_offsets import Offsets, count_between, ranges
from kstreamnb.spark.contracts import Chunk, OffsetSource, from_json, to_json
from kstreamnb.spark.execution.event_times import EventTimes, event_times_of
from kstreamnb.spark.execution.kafka_columns import column_from_kafka
from kstreamnb.spark.execution.record_batch import TICK, WALL, OrderKey, RecordBatch, pack, root_order
from kstreamnb.spark.execution.record_merge import partition_of
from kstreamnb.spark.execution.rows import REMOVED, ROW_SCHEMA, Row5, row_batch
from kstreamnb.spark.execution.seed import pending_batches
from kstreamnb.spark.io.offset_source import FEW_RECORDS
from kstreamnb.spark.jvm.versions import BoundedReader
from kstreamnb.spark.planning.deployment import Deployment, PackedDeployment
from kstreamnb.spark.planning.output_topics import reader_serdes
from kstreamnb.topology.nodes import grouped

_FEW = 5000
_WAIT_S = 0.1  # at most: Spark cannot stop a query before the answer
_LOOK_S = 1.0
_MOST_OVERDUE = 3  # ends of transactions have offsets, too
_SENT_ALONG_BYTES = 1 << 20
TopicSerdes = dict[tuple[int, str], tuple[Serde, Serde]]
"""Key and value serde by application and topic."""


@dataclass(frozen=True)
class SourceSettings:
    """Settings of a query's source: records a batch (0: all), ms between ticks (0: none), readers, patience in seconds.

    ``again``: by number, the ends of batches that run again after a repair, as the log of offsets had them.
    ``bounded``: the run ends with the records that exist. ``follows``: batches begin as soon as records arrive.
    ``growing``: topics may get more partitions, which are read once the deployment has tasks for them. ``topics`` are
    read; those that the log of offsets lacks begin with the first record that they have.
    """

    offset_source: OffsetSource
    deployment: Deployment | PackedDeployment
    max_records: int = 0
    tick_ms: int = 0
    readers: int = 2
    patience_s: float = 300.0
    again: Mapping[int, str] = field(default_factory=dict)
    bounded: bool = False
    follows: bool = False
    growing: bool = False
    topics: tuple[str, ...] = ()


@dataclass
class Share(InputPartition):
    """The pieces that one Spark task reads; the first share also wakes tasks for ticks and global tables.

    ``begins``: this is the first batch of a query, so all tasks that begin with a seed run.
    """

    pieces: list[tuple[str, int, int, int]]
    clock_ms: int
    tick: bool
    first: bool
    begins: bool = False

    def __post_init__(self) -> None:
        super().__init__(None)


class SteadyClock:
    """A wall clock that never moves backwards and never stops.

    Due times of punctuators are in the state, so a clock that jumped ahead and back must neither go back with it, nor
    wait until the machine's time has caught up. While it is ahead it runs at half the machine's speed.
    """

    def __init__(self) -> None:
        self._machine_ms: int | None = None
        self._ms = 0.0

    def read(self, machine_ms: int, logged_ms: int) -> int:
        """Return the time in ms: ``machine_ms`` unless that is before ``logged_ms`` or an earlier reading.

        Args:
            machine_ms: the machine's clock.
            logged_ms: the clock of the last batch, which may have been an earlier process's.
        """
        passed = 0 if self._machine_ms is None else max(0, machine_ms - self._machine_ms)
        self._machine_ms = machine_ms
        self._ms = max(machine_ms, logged_ms, self._ms + passed / 2)
        return int(self._ms)


class QuerySourceReader(_SimpleStreamReaderWrapper, BoundedReader):
    """Plans batches over an offset source; reads small ones when it plans them, and all others in the workers.

    Spark accepts rows with a plan only from its own wrapper of simple readers; so this is one, around itself.
    """

    def __init__(self, settings: SourceSettings) -> None:
        super().__init__(self)
        self.settings = settings
        self._begun = False
        self._position: dict[str, Any] = {}  # where the next batch begins, which Spark 4.1 does not pass
        self._first: Offsets | None = None
        self._clock = SteadyClock()
        self._stop: Offsets | None = None
        self._ticked = False  # the last batch had a tick alone; a bounded run ends then, however slow its batches are
        self._silent_since = self._looked = 0.0
        self._overdue = 0  # consecutive look-ups that found offsets of which no record has arrived
        ends = settings.again
        self._again = {_same(json.loads(ends[n])): json.loads(ends[n + 1]) for n in ends if n + 1 in ends}

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins."""
        if not self._position:
            self._position = {"clock": 0, "tick": 0, "offsets": to_json(self.settings.offset_source.beginning())}
        return self._position

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of a run over the records that exist now."""
        self._stop = self.settings.offset_source.end()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the end of the available records, for the progress report."""
        return None

    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> dict[str, Any]:
        """Return the end of the next batch; ``start`` itself if there is nothing to do."""
        start = start or self.initialOffset()
        if self.settings.bounded and self._stop is None:
            self.prepareForTriggerAvailableNow()
        if _same(start) in self._again:
            return self._again[_same(start)]
        settings, begin, looked = self.settings, self._positions(start), self._looked
        end = self._available(begin, int(start["tick"]))
        now_ms = self._clock.read(settings.offset_source.now_ms(), int(start["clock"]))
        if settings.max_records and end != begin:
            end = settings.offset_source.batch_end(begin, end, settings.max_records)
        due = settings.tick_ms > 0 and now_ms - int(start["tick"]) >= settings.tick_ms
        idle = end == begin and not self._begins(start)
        if idle and (not due or (self._stop is not None and self._ticked)):
            return start
        self._ticked = idle
        # Records that are received as they arrive have no gaps. Log and metrics read the gaps from the log of offsets.
        skipped = settings.offset_source.skipped(begin, end) if end != begin and self._looked > looked else {}
        planned = {"clock": now_ms, "tick": now_ms if due else start["tick"], "offsets": to_json(end)}
        return {**planned, "skipped": skipped} if skipped else planned

    def _positions(self, offset: Mapping[str, Any]) -> Offsets:
        offsets = from_json(offset["offsets"])
        if offsets.keys() >= {*self.settings.topics}:
            return offsets
        self._first = self._first or self.settings.offset_source.beginning()
        return {**self._first, **offsets}

    def _available(self, begin: Offsets, tick: int) -> Offsets:
        """Return the end of the records that have arrived; waits for some, unless it has to look them up.

        It looks them up once a second even if it need not, because that detects lost records and new partitions.
        """
        source, settings, now = self.settings.offset_source, self.settings, time.monotonic()
        due_s = (tick + settings.tick_ms - source.now_ms()) / 1000 if settings.tick_ms else _WAIT_S
        end = source.arrived(begin, max(0.0, min(_WAIT_S, due_s)))
        if end is not None and now - self._looked < _LOOK_S:
            return end
        self._looked = now
        reachable = self._reachable(begin)
        self._overdue = self._overdue + 1 if end == begin != reachable else 0
        if end is not None and self._overdue < _MOST_OVERDUE:
            return end
        if settings.follows and self._stop is None and count_between(begin, reachable) <= FEW_RECORDS:
            source.follow(reachable)
        return reachable

    def _begins(self, start: Mapping[str, Any]) -> bool:
        """Return whether a batch from there is the first of a query that begins with a seed."""
        return bool(self.settings.deployment.options.seed) and not int(start["clock"])

    def _reachable(self, begin: Offsets) -> Offsets:
        """Return the end of the source; while a broker is away, the beginning, until patience ends."""
        try:
            end = self._stop or self.settings.offset_source.end()
        except EngineError:
            self._silent_since = self._silent_since or time.monotonic()
            if time.monotonic() - self._silent_since > self.settings.patience_s:
                raise
            return begin
        self._silent_since = 0.0
        if self.settings.growing:
            known = self.settings.deployment.readers
            end = {
                topic: {part: offset for part, offset in parts.items() if _input_partition(topic, part) in known}
                for topic, parts in end.items()
            }
        else:
            self._refuse_growth(begin, end)
        self.settings.offset_source.check(begin, end)
        return end

    @staticmethod
    def _refuse_growth(begin: Offsets, end: Offsets) -> None:
        for topic, parts in end.items():
            if begin.get(topic) and len(parts) > len(begin[topic]):
                fact = f'topic "{topic}" has grown from {len(begin[topic])} to {len(parts)} partitions'
                detail = "keys would move to other partitions, away from their state"
                hint = "copy the topic into a new one that has them, and start from a new checkpoint"
                raise PartitionError(fact, detail=detail, hint=hint)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Share]:
        """Divide a batch: pieces of one task stay together; few records are not worth a second Python process."""
        self._position = end
        deployment = self.settings.deployment
        every = list(ranges(self._positions(start), from_json(end["offsets"])))
        pieces = [piece for piece in every if piece[3] > piece[2]]
        clock, tick, begins = int(end["clock"]), end["tick"] != start["tick"], self._begins(start)
        by_task = grouped(pieces, lambda piece: deployment.readers.get(_input_partition(piece[0], piece[1]), -1))
        few = sum(piece[3] - piece[2] for piece in pieces) <= _FEW
        count = 1 if few else max(1, min(self.settings.readers, len(by_task)))
        shares = [Share([], clock, tick, number == 0, begins) for number in range(count)]
        for number, task in enumerate(sorted(by_task)):
            shares[number % count].pieces += by_task[task]
        return shares

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[pa.RecordBatch] | None:
        """Return the rows of a small batch, so that no worker has to be woken for them; None for all others.

        The first batch is left to a worker, too: it may still have the connections of an earlier query.
        A worker repeats what fails here: Spark retries it several times, and the query reports the failure as usual.
        """
        is_first = not self._begun
        self._begun = self._begun or start != end  # equal: Spark 4.1 says where it continues
        shares = self.partitions(start, end)
        if is_first or len(shares) > 1 or sum(end - begin for *_, begin, end in shares[0].pieces) > FEW_RECORDS:
            return None
        try:
            rows = list(self.read(shares[0]))
        except Exception:  # whatever the error, a worker meets it again
            return None
        return iter(rows) if sum(batch.nbytes for batch in rows) <= _SENT_ALONG_BYTES else None

    def read(self, partition: Share) -> Iterator[pa.RecordBatch]:
        """Yield rows for the first level."""
        deployment = self.settings.deployment.load()
        if partition.first:
            yield row_batch(_wake_up(deployment, partition))
        seqs: dict[tuple[str, int], int] = {}
        before: dict[tuple[str, int], int] = {}
        source = self.settings.offset_source
        serdes = _input_serdes(deployment) if source.raw else None
        event_times = event_times_of(deployment, partition.clock_ms)
        with gc_relaxed():
            for chunk in source.read(partition.pieces) if partition.pieces else ():
                rows = list(_rows(deployment, chunk, partition.clock_ms, seqs, before, serdes, event_times))
                if rows:
                    yield row_batch(rows)
        if partition.pieces and source.removed:
            blob = pickle.dumps([*source.removed], 5)
            yield row_batch([(deployment.routing_key_at(0, REMOVED), REMOVED, 0, 0, blob)])
        freeze_heap()

    def read_pickled(self, partitions: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows of a pickled partition, as Spark hands it to a worker."""
        for batch in partitions:
            yield from self.read(pickle.loads(batch.column(0)[0].as_py()))

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the sink keeps the positions."""

    def stop(self) -> None:
        """Close the connections: Spark may use this process again."""
        self.settings.offset_source.close()


def _same(offset: Mapping[str, Any]) -> str:
    """Return text that is equal for equal offsets."""
    return json.dumps(offset, sort_keys=True)


def source_class(name: str, settings: SourceSettings) -> type[DataSource]:
    """Return a data source class for one query; it is pickled with its settings, which Spark would show as options."""

    class QuerySource(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return ROW_SCHEMA

        def streamReader(self, schema: object) -> DataSourceStreamReader:
            return QuerySourceReader(settings)

    return QuerySource


def _input_serdes(deployment: Deployment) -> TopicSerdes:
    """Return the serdes with which each application reads its input topics."""
    plans = [(number, each.plan, each.inputs) for number, each in enumerate(deployment.applications)]
    return {(number, topic): reader_serdes(plan, topic) for number, plan, inputs in plans for topic in inputs}


def _input_partition(topic: str, partition: int) -> tuple[int, str, int]:
    """Return a partition of an offset source as (application, topic, partition)."""
    application, slash, rest = topic.partition("/")
    return (int(application), rest, partition) if slash else (0, topic, partition)


def _rows(
    deployment: Deployment,
    chunk: Chunk,
    clock_ms: int,
    seqs: dict[tuple[str, int], int],
    before: dict[tuple[str, int], int],
    serdes: TopicSerdes | None,
    event_times: Mapping[tuple[int, str], EventTimes],
) -> Iterator[Row5]:
    """Yield one chunk of a partition as rows: for its reader, or for every replica of the global tables.

    With ``serdes`` keys and values are Kafka's bytes, and those that can be are read by the column.
    """
    topic, partition, records, order = chunk
    input_partition = _input_partition(topic, partition)
    application, name, _ = input_partition
    seq = seqs[topic, partition] = seqs.get((topic, partition), -1) + 1
    if name == WALL:
        yield from _ticks(deployment, application, records, order)
        return
    rank = deployment.input_ranks[input_partition]
    offsets, timestamps, keys, values, headers = map(list, zip(*records, strict=True))
    raw = (False, False)
    if serdes is not None:
        key_serde, value_serde = serdes.get((application, name), (None, None))
        plain_keys, plain_values = column_from_kafka(keys, key_serde), column_from_kafka(values, value_serde)
        raw = plain_keys is None, plain_values is None
        keys, values = keys if plain_keys is None else plain_keys, values if plain_values is None else plain_values
    if order is None and (extractor := event_times.get((application, name))) is not None:
        sides = zip((keys, values), raw, strict=True)
        readable = [list(map(encoded, column)) if is_raw else column for column, is_raw in sides]
        order = extractor.of(name, partition, zip(offsets, timestamps, *readable, headers, strict=True))
    keys_order = root_order(timestamps if order is None else order, offsets, rank, before.get((topic, partition), -1))
    before[topic, partition] = int(keys_order.max_timestamp[-1])
    columns, known = (timestamps, keys, values, headers), np.asarray(offsets, np.int64)
    fields = {"offsets": known, "clock_ms": clock_ms, "raw": raw}
    blob = pack(RecordBatch.of_columns(name, partition, keys_order, columns, **fields))
    for target in _targets(deployment, input_partition):
        yield deployment.routing_key_at(0, target), target, rank, seq, blob


def _targets(deployment: Deployment, input_partition: tuple[int, str, int]) -> Iterable[int]:
    application, topic, _ = input_partition
    if topic in deployment.applications[application].global_topics:
        return deployment.replica_targets(application)
    return (deployment.readers[input_partition],)


def _ticks(
    deployment: Deployment, application: int, records: Sequence[tuple[Any, ...]], order: Sequence[int] | None
) -> Iterator[Row5]:
    times = [record[1] for record in records]
    count = len(times)
    m = np.full(count, TICK, np.int64) if order is None else np.asarray(order, np.int64)
    zeros = np.zeros(count, np.int64)
    keys = OrderKey(m, zeros, np.arange(count, dtype=np.int64), zeros)
    calls = [record[2] for record in records]
    blob = pack(RecordBatch(WALL, 0, keys, np.asarray(times, np.int64), calls, [None] * count))
    for task in deployment.tasks:
        if task.application == application and task.punctuates:
            yield deployment.routing_key_at(0, task.number), task.number, -1, 0, blob


def _wake_up(deployment: Deployment, share: Share) -> list[Row5]:
    """Return rows of no input topic: ticks, a call to each replica of the global tables, the seed of a first batch."""
    rows: list[Row5] = list(_seeded(deployment, share.clock_ms)) if share.begins else []
    for number, application in enumerate(deployment.applications):
        if share.tick:
            rows += _ticks(deployment, number, [(0, share.clock_ms, None)], None)
        if application.global_topics:
            for target in deployment.replica_targets(number):
                rows.append((deployment.routing_key_at(0, target), target, -1, 0, b""))
    return rows


def _seeded(deployment: Deployment, clock_ms: int) -> Iterator[Row5]:
    """Yield a call to each stateful task, and the pending records of repartition topics."""
    zeros = np.zeros(1, np.int64)
    order = OrderKey(zeros - TICK - 1, zeros, zeros, zeros)  # before everything else
    call = pack(RecordBatch(WALL, 0, order, np.asarray([clock_ms], np.int64), ["set"], [None]))
    for task in deployment.tasks:
        if task.stateful:
            yield deployment.routing_key_at(0, task.number), task.number, -1, 0, call
    for number, batch in enumerate(pending_batches(deployment.options.seed), 1):
        batch.clock_ms = clock_ms
        target = deployment.readers[0, *partition_of(batch)]
        yield deployment.routing_key_at(0, target), target, -1, number, pack(batch)
