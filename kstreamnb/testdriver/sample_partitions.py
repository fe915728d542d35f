"""Chooses numbers of partitions for the records of a sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import TypeAlias

from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import ConfigError
from kstreamnb.topology.topology import Topology

_MOST_PARTITIONS = 10_000
"""More are replayed only on request: each one has its own tasks."""

Partitions: TypeAlias = Mapping[str, int] | int
"""Numbers of partitions by topic, or one for all topics."""


def partitions_for(topology: Topology, records: Iterable[TopicRecord], partitions: Partitions | None) -> Partitions:
    """Return the given numbers of partitions, or the smallest one that includes those of all records.

    If a source has a pattern, the result is by topic: only the records name the topics that it reads.

    Example:
        >>> partitions_for(Topology().add_source("s", pattern="eu-.*"), [TopicRecord("eu-1", 2, 0, 0, "a", 1)], None)
        {'eu-1': 3}
    """
    counts = least_partitions(map(itemgetter(1), records)) if partitions is None else partitions
    if isinstance(counts, Mapping) or not any(source.pattern for source in topology.sources()):
        return counts
    named = {*(name for source in topology.sources() for name in source.topics), *(s.topic for s in topology.sinks())}
    names = {name for name in (*named, *map(itemgetter(0), records)) if isinstance(name, str)}
    return dict.fromkeys(sorted(names - topology.internal_topics.keys()), counts)


def least_partitions(numbers: Iterable[int]) -> int:
    """Return the smallest number of partitions per topic that has all these; -1 stands for any partition.

    Raises: ConfigError for a number so large that it was probably read from the wrong column.

    Example:
        >>> least_partitions([0, 3, -1]), least_partitions([])
        (4, 1)
    """
    count = max([0, *numbers]) + 1
    if count > _MOST_PARTITIONS:
        fact = f"a record is in partition {count - 1}, so a replay would need {count:,} partitions"
        raise ConfigError(fact, hint="name the column that holds partition numbers, or pass partitions=")
    return count
