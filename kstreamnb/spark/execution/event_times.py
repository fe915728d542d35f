"""Event times of input records before their tasks read them: partitions are merged by extracted timestamps."""

from __future__ import annotations

from collections.abc import Iterable

from kstreamnb.core.codec import decoder
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.time import Clock, time_ms
from kstreamnb.runtime.context.event_time import has_own_extractor, source_extractor
from kstreamnb.runtime.context.record_context import WireRecord
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.spark.planning.deployment import ApplicationPlan, Deployment
from kstreamnb.topology.nodes import Source


def extracted_topics(application: ApplicationPlan) -> frozenset[str]:
    """Return the input topics whose source has a timestamp extractor; Kafka Streams asks none for global topics."""
    sources = [source for source in application.topology.sources() if has_own_extractor(source, application.config)]
    return frozenset(topic for topic in application.external if any(source.reads(topic) for source in sources))


def event_times_of(deployment: Deployment, clock_ms: int) -> dict[tuple[int, str], EventTimes]:
    """Return what computes event times, by application and topic, for topics whose source has an extractor.

    Args:
        deployment: the deployment.
        clock_ms: the wall clock of the micro-batch, in ms.
    """
    event_times: dict[tuple[int, str], EventTimes] = {}
    for number, application in enumerate(deployment.applications):
        plan = application.plan
        for topic in extracted_topics(application):
            source = plan.source_of(topic)
            if source is not None:
                event_times[number, topic] = EventTimes(plan, source, Clock(clock_ms))
    return event_times


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
