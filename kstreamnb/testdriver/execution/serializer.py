"""Serializes input records as the source of their topic reads them, and assigns their partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kstreamnb.core.codec import copier, encoder, key_partitioner
from kstreamnb.core.formatting import format_time, format_value
from kstreamnb.core.record import Headers, TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError, SerdeError
from kstreamnb.source_location import SourceLocation
from kstreamnb.testdriver.execution.topic_log import convert

InputRecord = tuple[str, int, int, object, object, Headers]
"""``(topic, partition, timestamp, key, value, headers)`` with key and value as the source of the topic reads them."""

Serialize = Callable[[Sequence[TopicRecord]], list[InputRecord]]
"""Serializes records of one topic."""


@dataclass(frozen=True)
class TopicRoute:
    """The destination of a topic's records, and how they are read.

    Attributes:
        topic: the topic.
        offsets: the name of the counter of offsets; in the layout "single" all topics of a pattern share one.
        tasks: index of the reading task by partition.
        is_global: whether the global task reads the topic.
        serdes: key and value serde of the source that reads it.
        extracts: whether that source has its own timestamp extractor.
        origin: the user's line that declared that source.
    """

    topic: str
    offsets: str
    tasks: Mapping[int, int]
    is_global: bool
    serdes: tuple[Serde, Serde]
    extracts: bool
    origin: SourceLocation | None


def serializer(route: TopicRoute, partitions: int, key_serde: Serde | None, value_serde: Serde | None) -> Serialize:
    """Return a function that serializes records of a topic and assigns their partitions.

    Args:
        route: how the topic is read.
        partitions: the topic's number of partitions.
        key_serde: the serde of the given keys; None for the one of the topic's source.
        value_serde: the same for values.
    """
    topic = route.topic
    keys, values = key_serde or route.serdes[0], value_serde or route.serdes[1]
    write_key, copy_value, partition_of = encoder(keys), copier(values), key_partitioner(keys, partitions)
    same_keys, same_values = keys == route.serdes[0], values == route.serdes[1]

    def serialize(records: Sequence[TopicRecord]) -> list[InputRecord]:
        serialized: list[InputRecord] = []
        try:
            for _, partition, _, timestamp, key, value, headers in records:
                wire_key = write_key(key)
                if partition < 0:
                    partition = partition_of(wire_key)
                elif partition >= partitions:
                    raise no_partition(topic, partition, partitions)
                wire_value = copy_value(value)
                if not same_keys:
                    wire_key = convert(wire_key, keys, route.serdes[0])
                if not same_values:
                    wire_value = convert(wire_value, values, route.serdes[1])
                serialized.append((topic, partition, timestamp, wire_key, wire_value, headers))
        except SerdeError as error:
            refused = records[len(serialized)]
            about = f"key {format_value(refused.key)}, time {format_time(refused.timestamp)}"
            error.add_note(f'Detail: it is part of a record for topic "{topic}" ({about})')
            error.at(route.origin)
            raise
        return serialized

    return serialize


def no_partition(topic: str, partition: int, partitions: int) -> EngineError:
    """Return the error about a partition that a topic does not have."""
    return EngineError(f'topic "{topic}" has no partition {partition}', detail=f"it has {partitions}")
