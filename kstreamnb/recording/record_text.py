"""Formats records for titles, tables and explanations."""

from __future__ import annotations

from kstreamnb.core.formatting import format_time, format_value
from kstreamnb.core.record import TopicRecord


def record_id(record: TopicRecord) -> str:
    """Return topic, partition and offset, such as ``orders-0@5``."""
    return f"{record.topic}-{record.partition}@{record.offset}"


def describe_content(key: object, value: object, timestamp: int) -> str:
    """Return key, value and time (ms) as text."""
    return f"key {format_value(key)}, value {format_value(value)}, time {format_time(timestamp)}"
