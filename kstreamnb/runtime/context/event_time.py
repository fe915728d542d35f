"""Event times of records that wait outside of a task, for merging partitions in the order of Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterable

from kstreamnb.core.codec import decoder
from kstreamnb.core.extractors import (
    FailOnInvalidTimestamp,
    TimestampExtractor,
    WallclockTimestampExtractor,
    extractor_of,
)
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.time import Clock, time_ms
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.record_context import WireRecord
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.topology.nodes import Source


def has_own_extractor(source: Source, config: Config) -> bool:
    """Return whether records of a source may have another event time than their timestamp."""
    extractor = source.timestamp_extractor or config.default_timestamp_extractor
    return not (extractor is None or isinstance(extractor, FailOnInvalidTimestamp))


def source_extractor(source: Source, config: Config, clock: Clock) -> TimestampExtractor:
    """Return the timestamp extractor of a source: its own, else the application's, else the default."""
    chosen = source.timestamp_extractor or config.default_timestamp_extractor
    extractor = FailOnInvalidTimestamp() if chosen is None else extractor_of(chosen)
    return extractor.on(clock) if isinstance(extractor, WallclockTimestampExtractor) else extractor


class EventTimes:
    """Computes the event times of a source's records before their task reads them.

    The times only decide in which order partitions are merged. The task extracts again when it takes a record: it
    alone drops records, counts them and reports errors. So an extractor has to give the same time twice.
    """

    def __init__(self, plan: TaskPlan, source: Source, clock: Clock) -> None:
        key_serde, value_serde = plan.serdes(source)
        self._read_key, self._read_value = decoder(key_serde), decoder(value_serde)
        self._extractor = source_extractor(source, plan.config, clock)
        self._partition_times: dict[tuple[str, int], int] = {}

    def of(self, topic: str, partition: int, records: Iterable[WireRecord]) -> list[int]:
        """Return the event time of each record of a partition, in ms; the timestamp of one that will be refused."""
        latest = self._partition_times.get((topic, partition), -1)
        times = []
        for offset, timestamp, key, value, headers in records:
            try:
                key, value = self._read_key(key), self._read_value(value)
                record = TopicRecord(topic, partition, offset, timestamp, key, value, headers)
                event_time = time_ms(self._extractor.extract(record, latest), "extracted time")
                latest = max(latest, event_time)
            except Exception:  # whatever the error, the task meets it again and reports it
                event_time = timestamp
            times.append(event_time)
        self._partition_times[topic, partition] = latest
        return times
