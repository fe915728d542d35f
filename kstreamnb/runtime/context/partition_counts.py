"""Checks numbers of partitions that users pass to drivers, plans and runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kstreamnb.core.arguments import at_least, expect_number
from kstreamnb.errors import ConfigError, did_you_mean
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.topology.topology import Topology


def resolve_partitions(topology: Topology, config: Config, partitions: object) -> tuple[Mapping[str, int], int]:
    """Return the numbers of partitions by topic, and the number of all other topics.

    Args:
        topology: the topology that reads the topics.
        config: the application's settings.
        partitions: numbers by topic, one number for all topics, or None for 1. The mapping may serve several
            topologies: topics of others are ignored, unless the name is nearly that of a topic without a number.

    Raises:
        ConfigError: a number is not a whole number of at least 1, or a topic is mistyped.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("shop")
        >>> builder.stream("orders").to("copies")
        >>> resolve_partitions(builder.build(), Config(), {"orders": 4})
        ({'orders': 4}, 1)
    """
    if not isinstance(partitions, Mapping):
        return {}, 1 if partitions is None else _checked("partitions", partitions)
    for topic, count in partitions.items():
        _checked(f'the number of partitions of topic "{topic}"', count)
    silent = [name for source in topology.sources() for name in source.topics if name not in partitions]
    for topic in partitions:
        if not _is_known(topology, config, topic) and (hint := did_you_mean(topic, silent)):
            raise ConfigError(f'partitions are given for topic "{topic}", which is neither read nor written', hint=hint)
    return partitions, 1


def _checked(what: str, count: Any) -> int:
    expect_number(count, what, hint='pass a number, such as 4, or numbers by topic, such as {"orders": 4}')
    at_least(1, count, what)
    return int(count)


def _is_known(topology: Topology, config: Config, topic: str) -> bool:
    """Return whether a topic is read or written, or may be: some sinks choose their topics record by record."""
    if topic == config.dead_letter_topic or any(source.reads(topic) for source in topology.sources()):
        return True
    sinks = [sink.topic for sink in topology.sinks()]
    if topic in sinks or any(callable(name) for name in sinks):
        return True
    return topic in map(TaskPlan(topology, (), config=config).topic, topology.internal_topics)
