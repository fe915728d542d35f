"""JSON lines: one record per line, or one value per line with names for its key and time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from kstreamnb.core.record import Headers, TopicRecord, Windowed
from kstreamnb.errors import ConfigError
from kstreamnb.frame_cells import timestamp_ms
from kstreamnb.samples.columns import Roles, make_records
from kstreamnb.samples.text import stored_cell, untagged


def record_line(record: TopicRecord) -> str:
    """Return a record as one line of JSON; anything that JSON cannot hold is a text cell under ``$cell``.

    Raises: ConfigError for a record that would not be read back equal.
    """
    fields = {name: _cell(part) if isinstance(part, Windowed) else part for name, part in record._asdict().items()}
    if not record.headers:
        del fields["headers"]
    line = _line(fields)
    (back,) = read_lines([line])
    if back != record and repr(back) != repr(record):  # NaN is not equal to itself
        fact = f'the record at offset {record.offset} of topic "{record.topic}" cannot be written as JSON'
        raise ConfigError(fact, detail=f"it would be read as {back}")
    return line


def _cell(value: object) -> dict[str, str]:
    """Return the cell for a value that JSON cannot hold: bytes, ids, decimals, times, keys within windows."""
    return {"$cell": stored_cell(value)}


_line = json.JSONEncoder(ensure_ascii=False, default=_cell).encode


def _parsed(lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, json.loads(line, object_hook=untagged if "$cell" in line else None)
            except ValueError as error:
                raise ConfigError(f"line {number} is not JSON", detail=str(error)) from error


def read_lines(lines: Iterable[str]) -> tuple[TopicRecord, ...]:
    """Read the records of lines that `record_line` wrote."""
    records = []
    for number, fields in _parsed(lines):
        if not isinstance(fields, dict) or not {"topic", "timestamp"} <= fields.keys():
            detail = "a record has topic, partition, offset, timestamp, key and value"
            hint = "for lines of plain values pass topic=, key= and timestamp="
            raise ConfigError(f"line {number} is not a record", detail=detail, hint=hint)
        headers: Headers = tuple((name, data) for name, data in fields.get("headers", ()))
        time = timestamp_ms(fields["timestamp"], f"line {number}")
        position = fields["topic"], fields.get("partition", 0), fields.get("offset", number - 1), time
        records.append(TopicRecord(*position, fields.get("key"), fields.get("value"), headers))
    return tuple(records)


def read_value_lines(lines: Iterable[str], roles: Roles) -> tuple[TopicRecord, ...]:
    """Read one record from each line's value; key, time and partition are fields of it."""
    numbered = []
    for number, fields in _parsed(lines):
        missing = [name for name in roles.named().values() if not isinstance(fields, dict) or name not in fields]
        if missing:
            raise ConfigError(f'line {number} has no field "{missing[0]}"')
        numbered.append((number, fields))
    rows = [row for _, row in numbered]
    cells = {role: [row[name] for row in rows] for role, name in roles.named().items()}
    cells["timestamp"] = [timestamp_ms(row[roles.timestamp], f"line {number}") for number, row in numbered]
    if "value" not in cells:
        chosen = ((row, set(roles.value_columns(row))) for row in rows)
        cells["value"] = [{name: row[name] for name in row if name in names} for row, names in chosen]
    return make_records(cells, roles)


_content = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_cell).encode


def content_text(records: tuple[TopicRecord, ...]) -> str:
    """Return records as text that is equal for equal records, whatever the order of names in their dicts."""
    return _content(records)
