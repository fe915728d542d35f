"""`Log`: append-only partitions on simulated brokers, with producers and readers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, Literal

from kstreamnb.core.arguments import at_least, check_arguments, expect_texts
from kstreamnb.core.codec import StreamPartitioner
from kstreamnb.core.formatting import join_list, pluralize
from kstreamnb.core.names import check_resource_name
from kstreamnb.core.record import Headers, TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.time import Clock, duration_ms, instant_ms
from kstreamnb.errors import ConfigError, EngineError
from kstreamnb.hints import expect_known
from kstreamnb.kafka.partitioners import RoundRobin
from kstreamnb.recording.offset_table import OffsetRow, OffsetTable
from kstreamnb.simulation.cluster.broker import Broker
from kstreamnb.simulation.consumer_group.offset_log import OffsetLog
from kstreamnb.simulation.log.layout import PartitionLayout, TopicLayout
from kstreamnb.simulation.log.producer import LogProducer, written_to
from kstreamnb.simulation.log.reader import LogReader
from kstreamnb.simulation.log.replicas import Replicas, spread

TimestampType = Literal["CreateTime", "LogAppendTime"]


class Log(OffsetTable):
    """Topics of a simulated cluster in this process: records are appended and read, never changed.

    One broker leads each partition and serves its writes and reads; other replicas follow. A failed leader is replaced
    by an in-sync replica at once; manual elections and slow replicas are not simulated. Consumer groups read
    ``log.offsets``: ``ConsumerGroup("readers", log.offsets)``.

    Args:
        brokers: the number of brokers, with ids from 1; default 1.
        min_insync_replicas: number of in-sync replicas that a write with ``acks="all"`` needs; default 1. A topic with
            fewer replicas needs all of them, as in Kafka.
        round_trip: duration of a request and its answer, both between a producer and a leader and between replicas,
            which delays the answers to a producer; default 0 ms.
        key_serde: serde of keys; default text.
        value_serde: serde of values; default JSON.

    Attributes:
        replicas: the replicas of each partition, by its name such as "logins-0".
        partitioner: chooses the partitions of records for which no other was given.

    Example:
        >>> log = Log()
        >>> log.create_topic("logins", partitions=2)
        >>> for user in ("tom", "ann", "tom"):
        ...     print(log.append("logins", user, "in")[1:3])
        (1, 0)
        (0, 0)
        (1, 1)
        >>> reader = log.reader("logins")
        >>> [record.key for record in reader.read(2)], reader.positions
        (['ann', 'tom'], {'logins-0': 1, 'logins-1': 1})
    """

    header = ("topic", "partitions", "replicas", "records")

    def __init__(
        self,
        *,
        brokers: int = 1,
        min_insync_replicas: int = 1,
        round_trip: timedelta | str = "0ms",
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
    ) -> None:
        check_arguments(Log.__init__, locals())
        at_least(1, brokers, "brokers")
        self.brokers = brokers
        self.min_insync_replicas = min_insync_replicas
        self.round_trip_ms = duration_ms(round_trip, "round trip")
        self.key_serde, self.value_serde = key_serde or Serdes.string(), value_serde or Serdes.json()
        self.offsets = OffsetLog({})
        self.clock = Clock()
        self._topics = Broker()
        self.replicas: dict[str, Replicas] = {}
        self._stamped_by_broker: dict[str, bool] = {}
        self._down: list[int] = []
        self._producers: list[LogProducer] = []
        self.partitioner = RoundRobin()

    # --- topics ---
    def create_topic(
        self, name: str, *, partitions: int = 1, replicas: int = 1, timestamp_type: TimestampType = "CreateTime"
    ) -> None:
        """Create a topic; brokers lead its partitions in turn.

        Args:
            name: the topic's name.
            partitions: the number of partitions; default 1.
            replicas: copies of each partition, at most one per broker; default 1.
            timestamp_type: Kafka's ``message.timestamp.type``: records keep the time that their producer set
                ("CreateTime", default), or get the time of the broker's clock when appended ("LogAppendTime").

        Raises: ConfigError or EngineError when an argument does not fit this log.

        Example:
            >>> log = Log()
            >>> log.create_topic("logins", timestamp_type="LogAppendTime")
            >>> log.advance_wall_clock_time("3s")
            >>> log.append("logins", "tom", "in", at=1_000).timestamp
            3000
        """
        check_arguments(Log.create_topic, locals())
        check_resource_name(name, "topic name")
        if name in self._topics.topics:
            raise EngineError(f'topic "{name}" already exists', detail=f"it has {self._count(name)} partitions")
        at_least(1, partitions, f'partitions of topic "{name}"')
        if not 1 <= replicas <= self.brokers:
            fact = f'topic "{name}" cannot have {pluralize(replicas, "replica")} on {pluralize(self.brokers, "broker")}'
            raise EngineError(fact, hint="each replica needs its own broker: choose fewer replicas, or Log(brokers=…)")
        self._topics.create(name, partitions)
        self._stamped_by_broker[name] = timestamp_type == "LogAppendTime"
        self.offsets.add_partitions(name, partitions)
        for number, copies in enumerate(spread(partitions, replicas, self.brokers)):
            self.replicas[f"{name}-{number}"] = copies
        for broker in self._down:
            self._each(partial(Replicas.lose, broker=broker))

    def describe(self, topic: str) -> TopicLayout:
        """Return leaders, replicas and offsets of each partition.

        Args:
            topic: name of the topic.

        Raises: EngineError if the topic does not exist.
        """
        check_arguments(Log.describe, locals())
        self._known(topic)
        result = []
        for number in range(self._count(topic)):
            partition = f"{topic}-{number}"
            copies, at = self.replicas[partition], self.offsets[partition]
            in_sync = tuple(copies.in_sync) if copies.leader is not None else ()
            result.append(PartitionLayout(partition, copies.leader, copies.brokers, in_sync, at.start, at.high, at.end))
        return TopicLayout(topic, len(result[0].brokers), tuple(result))

    # --- writing ---
    def append(
        self,
        topic: str,
        key: object,
        value: object,
        *,
        partition: int | None = None,
        at: datetime | str | int = 0,
        headers: Headers = (),
        partitioner: StreamPartitioner | None = None,
        acks: Literal["all", "leader"] = "all",
    ) -> TopicRecord:
        """Append a record and return it with its partition and offset.

        The key's hash chooses the partition unless ``partition`` or ``partitioner`` is given; records without a key are
        spread round-robin. With ``acks="leader"`` followers get the record on `replicate`, and readers see it then.

        Args:
            topic: name of the topic.
            key: the key, or None.
            value: the value, or None for a tombstone.
            partition: number of the partition. Default: the key's.
            at: event time: epoch milliseconds, ISO text or an aware datetime. Default: 0.
            headers: pairs of a name and bytes, in order. Default: none.
            partitioner: function ``(topic, key, value, partitions) -> partition``. Default: None, murmur2 of the key's
                bytes.
            acks: "all" writes to all in-sync replicas, "leader" only to the leader. Default: "all".

        Raises: EngineError if the topic does not exist, or too few replicas are in sync for ``acks``.
        """
        check_arguments(Log.append, locals())
        self._known(topic)
        data, chosen = written_to(self, topic, key, value, partition, partitioner)
        self._topics.partition(topic, chosen)
        copies = self._writable(f"{topic}-{chosen}", acks)
        timestamp = self.clock.now_ms if self._stamped_by_broker[topic] else instant_ms(at, "time of a record")
        offset = self._topics.append(topic, chosen, timestamp, data, headers)
        copies.write(to_all=acks == "all")
        self._note(f"{topic}-{chosen}")
        return TopicRecord(topic, chosen, offset, timestamp, key, value, headers)

    def interleave(
        self, topic: str, producers: Mapping[str, Iterable[tuple[object, object]]], *, seed: int
    ) -> list[tuple[str, TopicRecord]]:
        """Let producers append ``(key, value)`` pairs concurrently; return producer and record by arrival.

        Each producer keeps its own order; the seed decides whose record comes next.

        Args:
            topic: name of the topic.
            producers: pairs of key and value by name of the producer.
            seed: seed of the random order.

        Example:
            >>> log = Log()
            >>> log.create_topic("logs")
            >>> result = log.interleave("logs", {"a": [(None, 1), (None, 2)], "b": [(None, 3), (None, 4)]}, seed=3)
            >>> [(name, record.value, record.offset) for name, record in result]
            [('a', 1, 0), ('a', 2, 1), ('b', 3, 2), ('b', 4, 3)]
        """
        check_arguments(Log.interleave, locals())
        random = Random(seed)
        waiting = {name: list(pairs) for name, pairs in producers.items()}
        result = []
        while ready := [name for name, pairs in waiting.items() if pairs]:
            name = random.choice(ready)
            result.append((name, self.append(topic, *waiting[name].pop(0))))
        return result

    def producer(self, **settings: Any) -> LogProducer:
        """Return a producer that batches records; see `LogProducer` for settings.

        Args:
            settings: settings by name, such as ``linger="5ms"``. Default: Kafka's.

        Raises: ConfigError for an unknown setting.
        """
        known = list(inspect.signature(LogProducer).parameters)[1:]
        expect_known("setting", settings, known, error=ConfigError)
        producer = LogProducer(self, **settings)
        self._producers.append(producer)
        return producer

    def replicate(self) -> None:
        """Let all in-sync replicas fetch what their leaders have."""
        self._each(Replicas.catch_up)

    def advance_wall_clock_time(self, by: timedelta | str) -> None:
        """Advance the clock: producers send lingering batches and give up on expired records.

        Args:
            by: duration such as "500ms".
        """
        end = self.clock.now_ms + duration_ms(by, "advance of the wall clock")
        while (due := min((at for each in self._producers for at in each.due()), default=end + 1)) <= end:
            self.clock.advance_to(max(due, self.clock.now_ms))
            for each in self._producers:
                each.work()
        self.clock.advance_to(end)

    # --- reading ---
    def reader(self, *topics: str) -> LogReader:
        """Return a reader of topics, positioned at the beginning.

        Args:
            topics: names of the topics.

        Raises: EngineError if a topic does not exist.
        """
        expect_texts(topics, "topics")
        for topic in topics:
            self._known(topic)
        return LogReader(self, [f"{topic}-{number}" for topic in topics for number in range(self._count(topic))])

    def records(self, partition: str, start: int = 0, limit: int | None = None) -> list[TopicRecord]:
        """Return committed records of a partition such as ``logins-0``, beginning with an offset.

        Args:
            partition: name of the partition, such as "logins-0".
            start: first offset. Default: 0.
            limit: maximum number of records. Default: None, all.

        Raises: EngineError if no replica of the partition is alive.
        """
        check_arguments(Log.records, locals())
        at_least(0, start, "start")
        high = self.offsets[partition].high
        if self.replicas[partition].leader is None:
            raise self._offline(partition)
        topic, _, number = partition.rpartition("-")
        wanted = high - start if limit is None else min(limit, high - start)
        result, _ = self._topics.partition(topic, int(number)).read(start, max(0, wanted), "read_uncommitted")
        return [each.read(topic, int(number), (self.key_serde, self.value_serde)) for each in result]

    # --- brokers ---
    def fail(self, broker: int) -> None:
        """Fail a broker: in-sync replicas take over its partitions; partitions without one go offline.

        Args:
            broker: number of the broker, counted from 1.

        Raises: EngineError for a broker that does not exist.
        """
        check_arguments(Log.fail, locals())
        self._check_broker(broker)
        if broker not in self._down:
            self._down.append(broker)
            self._each(lambda copies: copies.lose(broker))

    def recover(self, broker: int) -> None:
        """Restart a failed broker as a follower.

        Args:
            broker: number of the broker, counted from 1.

        Raises: EngineError for a broker that does not exist.
        """
        check_arguments(Log.recover, locals())
        self._check_broker(broker)
        if broker in self._down:
            self._down.remove(broker)
            self._each(lambda copies: copies.regain(broker))
            for each in self._producers:
                each.work()

    # --- displays ---
    @property
    def title(self) -> str:
        """Count brokers and topics."""
        down = f"; {join_list(f'broker {each}' for each in self._down)} down" if self._down else ""
        return f"{pluralize(self.brokers, 'broker')}, {pluralize(len(self._topics.topics), 'topic')}{down}"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield one row per topic."""
        for topic, partitions in self._topics.topics.items():
            ends = [str(len(each.records)) for each in partitions]
            yield topic, str(len(partitions)), str(len(self.replicas[f"{topic}-0"].brokers)), " + ".join(ends)

    @property
    def offset_rows(self) -> Iterator[OffsetRow]:
        """A row for each partition, with its written and visible offsets."""
        for topic in self._topics.topics:
            yield from self.describe(topic).offset_rows

    # --- partitions ---
    def _each(self, change: Callable[[Replicas], None]) -> None:
        for partition, copies in self.replicas.items():
            change(copies)
            self._note(partition)

    def _note(self, partition: str) -> None:
        """Truncate records that the leader no longer has, and update the partition's offsets."""
        copies, at = self.replicas[partition], self.offsets[partition]
        topic, _, number = partition.rpartition("-")
        del self._topics.partition(topic, int(number)).records[copies.end :]
        at.end, at.high = copies.end, copies.high

    def _writable(self, partition: str, acks: str) -> Replicas:
        copies = self.replicas[partition]
        if copies.leader is None:
            raise self._offline(partition)
        # capped at the number of replicas, as in `Partition.effectiveMinIsr`
        if acks == "all" and len(copies.in_sync) < min(self.min_insync_replicas, len(copies.brokers)):
            fact = f'partition "{partition}" has too few replicas in sync'
            detail = f"{len(copies.in_sync)} of min_insync_replicas={self.min_insync_replicas}"
            raise EngineError(fact, detail=detail, java="NotEnoughReplicasException")
        return copies

    def _offline(self, partition: str) -> EngineError:
        detail = f"it has no in-sync replica online; brokers {join_list(map(str, self._down))} are down"
        hint = f"recover({self.replicas[partition].in_sync[0]}) restarts the broker that has all records"
        return EngineError(f'partition "{partition}" is offline', detail=detail, hint=hint)

    def _count(self, topic: str) -> int:
        return len(self._topics.topics[topic])

    def _known(self, topic: str) -> None:
        expect_known("topic", [topic], self._topics.topics, error=EngineError, hint="create it with create_topic()")

    def _check_broker(self, broker: int) -> None:
        if not 1 <= broker <= self.brokers:
            raise EngineError(f"broker must be from 1 to {self.brokers}, got {broker}")
