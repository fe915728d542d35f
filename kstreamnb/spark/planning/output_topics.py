"""Output topics of an application, and the serdes with which it reads and writes topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kstreamnb.core.serde import Serde
from kstreamnb.errors import ConfigError, SerdeError
from kstreamnb.runtime.codegen.sinks import all_serdes
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.spark.planning.deployment import ApplicationPlan
from kstreamnb.topology.topology import Topology


def reader_serdes(plan: TaskPlan, topic: str) -> tuple[Serde, Serde]:
    """Return key and value serde of the source that reads a topic.

    Raises: ConfigError if no source reads it.
    """
    source = plan.source_of(topic)
    if source is None:
        raise ConfigError(f'no source reads topic "{topic}"')
    return plan.serdes(source)


@contextmanager
def at_source(plan: TaskPlan, topic: str) -> Iterator[None]:
    """Add the line that declares the source of a topic to an error of its serdes."""
    try:
        yield
    except SerdeError as error:
        source = plan.source_of(topic)
        error.at(None if source is None else source.origin)
        raise


def writer_serdes(application: ApplicationPlan, topic: str) -> tuple[Serde, Serde]:
    """Return key and value serde of a topic: those of the first sink that writes it, or the defaults."""
    plan = application.plan
    return next(iter(all_serdes(plan, topic)), (plan.key_serde(), plan.value_serde()))


def output_topics(topology: Topology) -> tuple[str, ...]:
    """Return the user's topics that sinks name; others are chosen for each record."""
    sinks = [sink.topic for sink in topology.sinks() if isinstance(sink.topic, str)]
    return tuple(sorted({topic for topic in sinks if topic not in topology.internal_topics}))
