"""JSON lines: one record per line, or one value per line with names for its key and time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from kstreamnb.core.record import Headers, TopicRecord, Windowed
from kstreamnb.core.time import MAX_TIME_MS
from kstreamnb.errors import ConfigError
from kstreamnb.frame_cells import timestamp_ms
from kstreamnb.samples.columns import Roles, make_records
from kstreamnb.samples.storable import HELD
from kstreamnb.samples.text import stored_cell, untagged

_HEADERS = {(str, bytes), (str, type(None))}
_POSITION = [str, int, int, int]
_TEXT = frozenset({str})
_KEPT = HELD - {dict, list, tuple, Windowed}


def record_line(record: TopicRecord) -> bytes:
    """Return a record as one line of JSON in UTF-8; anything that JSON cannot hold is a text cell under ``$cell``.

    Raises: ConfigError for a record that would not be read back equal.
    """
    fields = {name: _cell(part) if isinstance(part, Windowed) else part for name, part in record._asdict().items()}
    if not record.headers:
        del fields["headers"]
    line = _line(fields).encode(errors="backslashreplace") + b"\n"  # half of a surrogate pair becomes JSON's escape
    if b"\\ud" not in line and _is_kept(record):  # reading the line takes twice as long as writing it
        return line
    (back,) = read_lines([line.decode()])
    if back != record and repr(back) != repr(record):  # NaN is not equal to itself
        fact = f'the record at offset {record.offset} of topic "{record.topic}" cannot be written as JSON'
        raise ConfigError(fact, detail=f"it would be read as {back}")
    return line


def _is_kept(record: TopicRecord) -> bool:
    """Return whether a record that has been written has only types that are read back unchanged."""
    kinds, parts = [*map(type, record)], [part for part in record[4:6] if type(part) is not Windowed]
    if kinds[:4] != _POSITION or kinds[6] is not tuple or abs(record.timestamp) > MAX_TIME_MS:
        return False
    for part in parts:
        kind = type(part)
        if kind is dict and "$cell" not in part and _TEXT.issuperset(map(type, part)):
            parts += part.values()
        elif kind is list:
            parts += part
        elif kind not in _KEPT:
            return False
    return all(type(each) is tuple and tuple(map(type, each)) in _HEADERS for each in record.headers)


def _cell(value: object) -> dict[str, str]:
    """Return the cell for a value that JSON cannot hold: bytes, ids, decimals, times, keys within windows."""
    return {"$cell": stored_cell(value)}


_line = json.JSONEncoder(ensure_ascii=False, default=_cell).encode


def _parsed(lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, json.loads(line, object_hook=untagged if "$cell" in line else None)
            except (ValueError, RecursionError) as error:
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


# Text that is equal for equal records, whatever the order of names in their dicts.
content_text = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_cell).encode
