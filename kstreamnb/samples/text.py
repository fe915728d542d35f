"""Records as a text table that a person can type, read, and paste back: ``topic | key | value | time | partition``.

A cell is JSON, or a bare word if that is unambiguous; an empty cell means None. Besides, ``bytes:00ff``, ``uuid:12…``,
``decimal:1.50``, ``datetime:``, ``date:`` and ``time:`` before ISO text, and ``undecoded:00ff`` (bytes that no serde
could read) are literals, and ``shoe@0/10`` is a key within a window. Within JSON a literal is
``{"$cell": "bytes:00ff"}``. The time of a record is milliseconds, ISO text with a zone, or a duration since the epoch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from functools import lru_cache, partial
from itertools import islice
from typing import Any
from uuid import UUID

from kstreamnb.core.arguments import expect
from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.formatting import EARLY_MS, INVISIBLE, representation
from kstreamnb.core.record import Headers, TopicRecord, ValueAndTimestamp, ValueTimestampHeaders, Windowed
from kstreamnb.core.tables import text_table
from kstreamnb.core.time import duration_ms, format_ms, instant_ms
from kstreamnb.errors import ConfigError
from kstreamnb.frame_cells import timestamp_ms
from kstreamnb.hints import expect_known
from kstreamnb.samples.columns import UNASSIGNED, number_offsets

_CELL_END = re.compile(r"(?<!\\)\|")
_WINDOW = re.compile(r"(.*)@(-?\d+|\d{4}-[^/@]+Z)/(-?\d+|\d{4}-[^/@]+Z)")
_RULE = re.compile(r"[\s|:+-]*-[\s|:+-]*")
_JSON_START = frozenset('"{[')
_CELL = "$cell"
_LITERALS: dict[str, tuple[tuple[type, ...], Callable[[Any], str], Callable[[str], Any]]] = {
    "undecoded": ((SerializedValue,), lambda value: value.hex(), SerializedValue.fromhex),
    "bytes": ((bytes, bytearray), lambda value: value.hex(), bytes.fromhex),
    "uuid": ((UUID,), str, UUID),
    "decimal": ((Decimal,), str, Decimal),
    "datetime": ((datetime,), lambda value: value.isoformat(), datetime.fromisoformat),
    "date": ((date,), lambda value: value.isoformat(), date.fromisoformat),
    "time": ((time,), lambda value: value.isoformat(), time.fromisoformat),
}
"""By name: types, in an order in which subclasses come first, and the functions that write and read them."""
_NO_WORDS = ("undecoded", "bytes", "uuid")
"""Literals that must be readable; other text with a colon, such as "time: unknown", is a word."""


def _literal(value: object) -> str | None:
    """Return a value that JSON does not have as a literal; None for a value of any other type."""
    return next((f"{name}:{w(value)}" for name, (kinds, w, _) in _LITERALS.items() if isinstance(value, kinds)), None)


def tagged(value: object) -> Any:
    """Return a value as JSON can hold it within others: a literal under ``$cell``, or its representation."""
    literal = _literal(value)
    return repr(value) if literal is None else {_CELL: literal}


def untagged(value: dict[str, Any]) -> Any:
    """Return the value of a literal under ``$cell``; any other dict unchanged."""
    return parse_cell(value[_CELL]) if value.keys() == {_CELL} and isinstance(value[_CELL], str) else value


_AS_JSON = json.JSONEncoder(ensure_ascii=False, default=tagged).encode


def format_cell(value: object, *, iso: bool = False) -> str:
    """Return a key or value as a cell; `parse_cell` restores it. ``iso`` writes the ends of windows as ISO text.

    Example:
        >>> [format_cell(each) for each in ("shoe", "7", 7, None, {"a": [1]}, Windowed("shoe", 0, 10))]
        ['shoe', '"7"', '7', '', '{"a": [1]}', 'shoe@0/10']
    """
    if value is None:
        return ""
    if not isinstance(value, (str, dict)) and (literal := _literal(value)):
        return literal
    if isinstance(value, Windowed):
        time = format_ms if iso else str
        return f"{format_cell(value.key, iso=iso)}@{time(value.start)}/{time(value.end)}"
    if isinstance(value, ValueAndTimestamp | ValueTimestampHeaders):
        return f"{format_cell(value.value, iso=iso)} @ {format_ms(value.timestamp) if iso else value.timestamp}"
    if isinstance(value, str):
        text = value if value.isprintable() and _is_bare(value) else _AS_JSON(value)
    else:
        try:
            text = _AS_JSON(value)
        except (TypeError, ValueError, RecursionError):  # names that are not text, a value that contains itself
            text = representation(value)
    if not text.isprintable():
        text = INVISIBLE.sub(lambda match: json.dumps(match[0])[1:-1], text)
    return text.replace("|", "\\|")


def stored_cell(value: object) -> str:
    """Return a key or value as a cell for a file; raises ConfigError for a value that would not be restored equal."""
    if not is_restored(value):
        raise ConfigError(f'a value of type "{type(value).__name__}" cannot be written as text')
    return _unescaped(value)


def is_restored(value: object) -> bool:
    """Return whether a value is equal after it was a cell of a file."""
    with suppress(ConfigError):
        return bool((back := parse_cell(_unescaped(value))) == value or repr(back) == repr(value))
    return False


def _unescaped(value: object) -> str:
    return format_cell(value).replace("\\|", "|")


@lru_cache(1 << 16)  # keys repeat, and text that is not JSON costs an exception
def _is_bare(text: str) -> bool:
    if not text or text != text.strip() or text[0] in _JSON_START or "\\" in text or _WINDOW.fullmatch(text):
        return False
    try:
        return bool(parse_cell(text) == text)
    except ConfigError:
        return False


def parse_cell(text: str) -> Any:
    """Return the key or value of a cell; raises ConfigError for unterminated JSON.

    Example:
        >>> [parse_cell(each) for each in ("shoe", '"7"', "7", "", '{"a": [1]}', "shoe@0/10")]
        ['shoe', '7', 7, None, {'a': [1]}, Windowed(key='shoe', start=0, end=10)]
    """
    try:
        return _parsed(text.strip())
    except RecursionError:
        raise ConfigError("a cell is nested too deeply") from None


def _parsed(word: str) -> Any:
    if not word:
        return None
    if window := _WINDOW.fullmatch(word):
        return Windowed(_parsed(window[1].strip()), _parse_time(window[2]), _parse_time(window[3]))
    kind, colon, rest = word.partition(":")
    if colon and kind in _LITERALS:
        try:
            return _LITERALS[kind][2](rest)
        except (ValueError, InvalidOperation) as error:
            if kind in _NO_WORDS:
                raise ConfigError(f'cell "{word}" is not a value of type {kind}', detail=str(error)) from error
    try:
        constant = None if word[0] in _JSON_START else str  # a bare word NaN is text
        return json.loads(word, parse_constant=constant, object_hook=untagged if _CELL in word else None)
    except ValueError as error:
        if word[0] in _JSON_START:
            raise ConfigError(f"cell {word} is not JSON", detail=str(error)) from error
        return word


def _parse_time(text: str) -> int:
    word = text.strip()
    if re.fullmatch(r"-?\d{1,99}", word):
        time = int(word)
    else:
        time = duration_ms(word, "time") if re.fullmatch(r"(\d+(ms|[dhms]))+", word) else instant_ms(word, "time")
    return timestamp_ms(time, f'cell "{word}"')


def _parse_headers(text: str) -> Headers:
    value = parse_cell(text)
    if value is None:
        return ()
    pairs: Any = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list) or not all(_is_header(pair) for pair in pairs):
        raise ConfigError(f"headers must map names to strings, got {text}", hint='write for example {"source": "web"}')
    return tuple((name, None if item is None else _header_bytes(item)) for name, item in pairs)


def _is_header(pair: object) -> bool:
    """Return whether something is a header's name and its value, a text or None."""
    match pair:
        case (str(), str() | None):
            return True
    return False


def _header_bytes(item: str) -> bytes:
    return bytes.fromhex(item[6:]) if item.startswith("bytes:") else item.encode()


def _format_headers(headers: Headers) -> str:
    if not headers:
        return ""
    pairs = [(name, None if item is None else _header_text(item)) for name, item in headers]
    unique = len({name for name, _ in pairs}) == len(pairs)
    return format_cell(dict(pairs) if unique else [list(pair) for pair in pairs])


def _header_text(data: bytes) -> str:
    text = data.decode(errors="replace")
    printable = text.replace("\n", "").replace("\t", "").isprintable()  # the trace of a dead letter has lines
    plain = text.encode() == data and printable and not text.startswith("bytes:")
    return text if plain else f"bytes:{data.hex()}"


def format_records(records: Iterable[TopicRecord]) -> str:
    """Return records as an aligned table; partitions, offsets and headers only if some record has one.

    Example:
        >>> print(format_records([TopicRecord("sales", 0, 0, 5, "shoe", {"quantity": 1})]))
        topic | key  | value           | time | partition
        sales | shoe | {"quantity": 1} | 5    | 0
    """
    rows = list(records)
    names = columns_of(rows)
    return text_table(names, record_cells(rows, names), rule=False)


def record_cells(rows: Sequence[TopicRecord], names: Sequence[str]) -> list[list[str]]:
    """Return the cells of records for some columns; times are ISO text if they are late enough to be real dates."""
    iso = max((row.timestamp for row in rows), default=0) >= EARLY_MS
    writers = {
        "topic": lambda row: format_cell(row.topic),
        "key": lambda row: format_cell(row.key, iso=iso),
        "value": lambda row: format_cell(row.value, iso=iso),
        "time": lambda row: format_ms(row.timestamp) if iso else str(row.timestamp),
        "partition": lambda row: str(row.partition),
        "offset": lambda row: str(row.offset),
        "headers": lambda row: _format_headers(row.headers),
    }
    expect_known("column", names, writers, error=ConfigError)
    return [[writers[name](row) for name in names] for row in rows]


def columns_of(records: Sequence[TopicRecord]) -> tuple[str, ...]:
    """Return the columns that are not empty for these records."""
    shown = {
        "partition": any(record.partition != UNASSIGNED for record in records),
        "offset": number_offsets(records) != tuple(records),
        "headers": any(record.headers for record in records),
    }
    return tuple(name for name in COLUMNS if shown.get(name, True))


def parse_rows(text: str, *, topic: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts by column name; absent columns are left out.

    The first line names the columns, in any order. Markdown's outer bars and rule are skipped, and so are empty lines
    and lines that begin with ``#``. ``topic`` is the topic of a table without such a column.
    """
    names = table_columns(text)
    rows: list[dict[str, Any]] = []
    for number, line, cells in islice(_lines(text), 1, None):
        if "time" in names and not rows and not "".join(cells[names.index("time") :][:1]):
            detail = "an empty time repeats that of the row above, and there is none"
            hint = "fill in the first time, or omit the column: all times are then 0"
            raise ConfigError(f"line {number} of the table has no time: {line}", detail=detail, hint=hint)
        if len(cells) > len(names):
            fact = f"line {number} of the table has {len(cells)} cells but {len(names)} columns"
            raise ConfigError(fact, hint="escape a bar within a cell as \\|")
        row: dict[str, Any] = {"topic": topic} if topic is not None else {}
        try:
            given = zip(names, cells, strict=False)  # an empty cell counts only as a key, a value or headers
            row.update((name, _PARSERS[name](cell)) for name, cell in given if cell or name in _MAY_BE_EMPTY)
        except ConfigError as error:
            error.add_note(f"At: line {number} of the table: {line}")
            raise
        rows.append(row)
    return rows


def table_columns(text: str) -> list[str]:
    """Return the names of a table's columns, which its first line has."""
    expect(text, str, "table", hint="pass one string")
    number, _, cells = next(_lines(text), (0, "", []))
    if not cells:
        raise ConfigError("the table is empty", hint="the first line names the columns: topic | key | value | time")
    names = [{"timestamp": "time"}.get(cell.lower(), cell.lower()) for cell in cells]
    unknown = [cell for cell, name in zip(cells, names, strict=True) if name not in COLUMNS]
    if unknown or len(set(names)) < len(names):
        fact = f'line {number} of the table does not name its columns: "{(unknown or cells)[0]}"'
        hint = "begin with a line such as: topic | key | value | time"
        if len(cells) == 1:
            hint += ". For a CSV file, pass pandas.read_csv(path) to ks.Sample.from_dataframe(…)"
        raise ConfigError(fact, detail=f"columns are {', '.join(COLUMNS)}", hint=hint)
    return names


def _lines(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield number, text and cells of the lines of a table, without comments and Markdown's rule."""
    for number, full in enumerate(text.splitlines(), 1):
        line = full.strip()
        if line and not line.startswith("#") and not _RULE.fullmatch(line):
            yield number, line, [cell.replace("\\|", "|").strip() for cell in _CELL_END.split(_without_bars(line))]


def _without_bars(line: str) -> str:
    if not line.startswith("|"):
        return line
    return line[1:-1] if line.endswith("|") and not line.endswith("\\|") else line[1:]


def _parse_number(name: str, cell: str) -> int:
    if not re.fullmatch(r"-1|\d+", cell):  # an unassigned record has -1
        raise ConfigError(f'{name} must be an integer, got "{cell}"')
    return int(cell)


_MAY_BE_EMPTY = ("key", "value", "headers")
_PARSERS: dict[str, Callable[[str], Any]] = {
    "topic": lambda cell: str(parse_cell(cell)),
    "key": parse_cell,
    "value": parse_cell,
    "time": _parse_time,
    "partition": partial(_parse_number, "partition"),
    "offset": partial(_parse_number, "offset"),
    "headers": _parse_headers,
}
COLUMNS = tuple(_PARSERS)
