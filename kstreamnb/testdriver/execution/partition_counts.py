"""What users say about partitions, looked at before a driver is built on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kstreamnb.errors import ConfigError, did_you_mean
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.topology.nodes import Sink
from kstreamnb.topology.topology import Topology

__all__ = ["given_partitions"]


def given_partitions(topology: Topology, config: Config, partitions: Any) -> tuple[Mapping[str, int], int]:
    """Numbers of partitions by topic, and the number of all other topics.

    One mapping may serve several topologies, so topics of others are no mistake, unless the name is nearly that of a
    topic of this one for which nothing is given.

    Raises: ConfigError when it is no number and no mapping of numbers, or a topic is mistyped.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("shop")
        >>> builder.stream("orders").to("copies")
        >>> given_partitions(builder.build(), Config(), {"orders": 4})
        ({'orders': 4}, 1)
    """
    if partitions is None or type(partitions) is int:
        return {}, 1 if partitions is None else partitions
    if not isinstance(partitions, Mapping):
        fact = f'partitions are a number, or numbers by topic, and not of type "{type(partitions).__name__}"'
        raise ConfigError(fact, hint='give 4, or {"orders": 4}')
    for topic, count in partitions.items():
        if type(count) is not int:
            raise ConfigError(f'the number of partitions of topic "{topic}" is "{count}"', hint="give a whole number")
    silent = [name for source in topology.sources() for name in source.topics if name not in partitions]
    for topic in partitions:
        if not _is_known(topology, config, topic) and (hint := did_you_mean(topic, silent)):
            raise ConfigError(f'partitions are given for topic "{topic}", which is neither read nor written', hint=hint)
    return partitions, 1


def _is_known(topology: Topology, config: Config, topic: str) -> bool:
    """Whether a topic is read or written, or may be: some sinks choose their topics record by record."""
    if topic == config.dead_letter_topic or any(source.reads(topic) for source in topology.sources()):
        return True
    sinks = [node.topic for node in topology.nodes.values() if isinstance(node, Sink)]
    if topic in sinks or any(callable(name) for name in sinks):
        return True
    plan = TaskPlan(topology, (), config=config)
    return topic in map(plan.topic, topology.internal_topics)
