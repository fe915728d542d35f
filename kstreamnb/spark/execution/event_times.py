"""Event times of input records before their tasks read them: partitions are merged by extracted timestamps."""

from __future__ import annotations

from kstreamnb.core.time import Clock
from kstreamnb.runtime.context.event_time import EventTimes, has_own_extractor
from kstreamnb.spark.planning.deployment import ApplicationPlan, Deployment


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
