"""A look at what reaches one stream or table, without building and feeding the whole topology.

Called by users in notebooks and scripts, and by the examples of the DSL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from kstreamnb.core.record import TopicRecord
from kstreamnb.driver import TopologyTestDriver
from kstreamnb.driver.preview import Preview, preview
from kstreamnb.dsl import Handle, upstream_topology
from kstreamnb.errors import ConfigError

__all__ = ["Rows", "first_records", "head"]

Rows: TypeAlias = "Mapping[str, Iterable[tuple[Any, ...]]] | Iterable[TopicRecord]"
"""Records by topic, as ``(key, value)`` or ``(key, value, timestamp)``, or a sample."""

_TOPIC = "preview"


def head(
    handle: Handle, records: Rows, *, limit: int | None = 10, partitions: Mapping[str, int] | int = 1
) -> list[tuple[Any, Any, int]]:
    """The first records that reach a stream or table when these come in: key, value and timestamp of each.

    Only what is upstream of the handle runs.

    Units: timestamps are epoch milliseconds; records given without one come a millisecond after each other, from 0.

    Example:
        >>> from kstreamnb.dsl import StreamsBuilder
        >>> orders = StreamsBuilder().stream("orders")
        >>> head(orders.map_values(lambda order: order * 2), {"orders": [("shoe", 1), ("hat", 3)]})
        [('shoe', 2, 0), ('hat', 6, 1)]
    """
    found: list[tuple[Any, Any, int]] = []
    with TopologyTestDriver(upstream_topology(handle, into=_TOPIC), partitions=partitions) as driver:
        output = driver.create_output_topic(_TOPIC)
        read = {topic for source in driver.topology.sources() for topic in source.topics}
        for topic, key, value, timestamp, headers in sorted(_rows(records), key=lambda row: row[3]):
            if topic in read:
                driver.create_input_topic(topic).pipe_input(key, value, at=timestamp, headers=headers)
            found += [(record.key, record.value, record.timestamp) for record in output.read_records()]
            if limit is not None and len(found) >= limit:
                return found[:limit]
    return found


def first_records(handle: Handle, sample: Iterable[TopicRecord] | None = None, n: int = 10) -> Preview:
    """What reaches a handle from a sample, or from the one that its builder has, as something to look at.

    Raises: ConfigError when there is no sample.
    """
    records = handle.ledger.sample if sample is None else sample
    if records is None:
        raise ConfigError("there is no sample to preview", hint="give one, or set builder.sample once")
    return preview(upstream_topology(handle, into=_TOPIC), records, n, into=_TOPIC)


def _rows(records: Rows) -> list[tuple[str, Any, Any, int, Any]]:
    """Topic, key, value, timestamp and headers of every record."""
    if not isinstance(records, Mapping):
        return [(each.topic, each.key, each.value, each.timestamp, each.headers) for each in records]
    given = [(topic, row) for topic, rows in records.items() for row in rows]
    return [(topic, key, value, at[0] if at else number, ()) for number, (topic, (key, value, *at)) in enumerate(given)]
