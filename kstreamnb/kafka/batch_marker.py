"""The marker of the last published batch: its checksums, and how it is found in its topic."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import NamedTuple, cast

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from kstreamnb.errors import BrokerError, CheckpointError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.bounded_reader import arrived, at_end, bounded_consumer
from kstreamnb.kafka.client import Servers
from kstreamnb.kafka.output_batch import NO_MARKERS, Marker, OutputColumns

MARKER_KEY = b"sink"
_SEARCH_S = 30.0
_crc = zlib.crc32


def last_marker(admin: Admin, topic: str, partition: int = 0) -> Marker | None:
    """Return the last committed marker of a partition."""
    value = last_value(admin, topic, partition)
    try:
        return None if value is None else _parsed(value)
    except (ValueError, LookupError, TypeError) as error:
        fact = f'the marker in topic "{topic}" cannot be read'
        raise CheckpointError(fact, detail=f"{type(error).__name__}: {error}", hint=NO_MARKERS) from error


def last_value(admin: Admin, topic: str, partition: int) -> bytes | None:
    """Return the value of a partition's last committed record, searched backwards from the last stable offset."""
    start = end = admin.offsets([topic])[topic].get(partition, 0)
    first = admin.offsets([topic], "earliest")[topic].get(partition, 0)
    value, back = None, 16
    if end == first:
        return None
    with closing(bounded_consumer(admin.servers)) as consumer:
        while start > first and value is None:
            start, back = max(first, end - back), back * 8
            value = _last_between(consumer, admin.servers, TopicPartition(topic, partition, start), end)
    return value


def marker_value(marker: Marker) -> bytes:
    """Return a marker as the value of its record."""
    fields = asdict(marker)
    if not marker.lacking:
        del fields["lacking"]
    return json.dumps(fields).encode()


def parsed_marker(value: bytes | None) -> Marker | None:
    """Read a marker; None if the value is not a marker."""
    try:
        return None if value is None else _parsed(value)
    except (ValueError, LookupError, TypeError):
        return None


def _parsed(value: bytes) -> Marker:
    """Read a marker; fields that a later version has added are ignored."""
    fields = json.loads(value)
    marker = Marker(str(fields["query"]), int(fields["batch"]), str(fields["source"]), str(fields["output"]))
    return replace(marker, lacking=tuple((str(topic), int(number)) for topic, number in fields.get("lacking", ())))


def _last_between(consumer: Consumer, servers: Servers, start: TopicPartition, end: int) -> bytes | None:
    consumer.assign([start])
    value, position, deadline = None, start.offset, time.monotonic() + _SEARCH_S
    while position < end:
        messages = arrived(consumer, end - position, 0.1)
        for message in messages:
            if at_end(message, servers):
                position = message.offset()
            else:
                value, position = message.value(), message.offset() + 1
        if not messages and time.monotonic() > deadline:
            raise BrokerError(f'no answer from topic "{start.topic}"')
    return value


class PublishedOutput(NamedTuple):
    """How many records were published, and their checksum."""

    records: int
    checksum: str


def summed(output: Iterable[OutputColumns], send: Callable[[OutputColumns], None] | None = None) -> PublishedOutput:
    """Count records and compute their checksum; each group is given to ``send`` first.

    The checksum is of each topic's columns, however its records are grouped.
    """
    sums: dict[str, list[int]] = {}
    count = 0
    for columns in output:
        if send is not None:
            send(columns)
        count += len(columns.keys)
        sizes_and_bytes = [part for column in (columns.keys, columns.values) for part in _sizes_and_bytes(column)]
        headers = b"".join(repr(tuple(each)).encode() for each in columns.headers or ()) or b"()" * len(columns.keys)
        parts = [columns.partitions.tobytes(), columns.timestamps.tobytes(), *sizes_and_bytes, headers]
        before = sums.get(columns.topic, [0] * len(parts))
        sums[columns.topic] = [_crc(part, value) for part, value in zip(parts, before, strict=True)]
    return PublishedOutput(count, f"{_crc(json.dumps(sums, sort_keys=True).encode()):08x}")


def _sizes_and_bytes(column: Sequence[bytes | None]) -> tuple[bytes, bytes]:
    """Return the length of each item, -1 for None, and the concatenation of all items.

    Sizes are part of the checksum, so that neighboring fields cannot be confused.
    """
    plain = cast("Sequence[bytes]", column)
    try:
        return np.fromiter(map(len, plain), np.int64, len(plain)).tobytes(), b"".join(plain)
    except TypeError:  # there is a None among them
        sizes = [-1 if item is None else len(item) for item in column]
        return np.asarray(sizes, np.int64).tobytes(), b"".join(filter(None, column))
