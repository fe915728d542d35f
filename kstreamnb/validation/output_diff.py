"""Compares outputs and shows every row that differs, instead of the first mismatch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from kstreamnb.core.formatting import format_time, format_value, join_list, pluralize
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.tables import Listing
from kstreamnb.errors import ConfigError
from kstreamnb.replays.replay import Replay
from kstreamnb.topology.nodes import grouped

RunOutputs: TypeAlias = Replay | Mapping[str, Iterable[Any]] | Iterable[Any]
"""A replay, records by topic, or records: `TopicRecord`, or tuples ``(key, value, timestamp)``."""

_MATCHED = 2_000
_SHOWN = 50


@dataclass(frozen=True)
class RowDifference:
    """A record of only the first ("-") or only the second run ("+"); ``index`` counts within its partition."""

    kind: Literal["-", "+"]
    topic: str
    partition: int
    index: int
    record: TopicRecord


@dataclass(frozen=True, repr=False)
class OutputDiff(Listing[RowDifference]):
    """Differences between the outputs of two runs, by topic and partition; false if there are none."""

    rows: tuple[RowDifference, ...]
    equal: int
    names: tuple[str, str] = ("first", "second")

    header = ("", "topic", "partition", "row", "key", "value", "time", "headers")

    @property
    def title(self) -> str:
        """Summarize the differences."""
        if not self.rows:
            return f"outputs are equal: {pluralize(self.equal, 'record')}"
        topics = join_list(f'"{topic}"' for topic in dict.fromkeys(row.topic for row in self.rows))
        return f"outputs differ in {pluralize(len(self), 'row')} of {topics}; {pluralize(self.equal, 'record')} equal"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Return the first rows that differ."""
        return map(_cells, self.rows[:_SHOWN])

    def more(self) -> Iterator[str]:
        """Explain the signs, and count the rows that are not shown."""
        if self.rows:
            yield f'"-": only {self.names[0]}, "+": only {self.names[1]}'
        if len(self) > _SHOWN:
            yield f"{_SHOWN} of {len(self):,} rows are shown"


def _cells(row: RowDifference) -> tuple[str, ...]:
    record = row.record
    headers = ", ".join(f"{name}={data!r}" for name, data in record.headers)
    position = row.kind, row.topic, str(row.partition), str(row.index)
    return *position, format_value(record.key), format_value(record.value), format_time(record.timestamp), headers


def diff(first: RunOutputs, second: RunOutputs, *, topics: Sequence[str] | None = None) -> OutputDiff:
    """Compare the outputs of two runs, record by record within each partition of each topic.

    Args:
        first: a replay, or the records of a run.
        second: the other run.
        topics: compare only these topics; default all that either run wrote.
    """
    first_rows, second_rows = _by_partition(first), _by_partition(second)
    rows: list[RowDifference] = []
    equal = 0
    for partition in sorted({*first_rows, *second_rows}):
        if topics is None or partition[0] in topics:
            same, differing = _differences(partition, first_rows.get(partition, []), second_rows.get(partition, []))
            equal += same
            rows += differing
    return OutputDiff(tuple(rows), equal)


def _by_partition(outputs: RunOutputs) -> dict[tuple[str, int], list[TopicRecord]]:
    if isinstance(outputs, Replay):
        records: list[TopicRecord] = [record for topic in outputs.topics for record in outputs.output(topic)]
    elif isinstance(outputs, Mapping):
        records = [_record(record, topic) for topic, of_topic in outputs.items() for record in of_topic]
    else:
        records = [_record(record, "output") for record in outputs]
    return grouped(records, attrgetter("topic", "partition"))


def _record(record_or_tuple: Any, topic: str) -> TopicRecord:
    if isinstance(record_or_tuple, TopicRecord):
        return record_or_tuple
    if not isinstance(record_or_tuple, tuple | list) or len(record_or_tuple) < 2:
        shown = format_value(record_or_tuple)
        raise ConfigError(f"each record must be a TopicRecord or (key, value, timestamp), got {shown}")
    key, value, *rest = record_or_tuple
    return TopicRecord(topic, 0, 0, rest[0] if rest else 0, key, value, tuple(rest[1]) if len(rest) > 1 else ())


def _differences(
    partition: tuple[str, int], first_rows: list[TopicRecord], second_rows: list[TopicRecord]
) -> tuple[int, list[RowDifference]]:
    """Match records so that as few as possible differ; return the number of equal ones and the differences."""
    same = (_content(one) == _content(other) for one, other in zip(first_rows, second_rows, strict=False))
    start = sum(1 for _ in takewhile(bool, same))
    rows: list[RowDifference] = []
    equal = start
    for kind, a, b, c, d in _opcodes(first_rows[start:], second_rows[start:]):
        if kind == "equal":
            equal += b - a
            continue
        rows += [RowDifference("-", *partition, start + at, first_rows[start + at]) for at in range(a, b)]
        rows += [RowDifference("+", *partition, start + at, second_rows[start + at]) for at in range(c, d)]
    return equal, rows


def _opcodes(first_rows: list[TopicRecord], second_rows: list[TopicRecord]) -> Iterator[tuple[str, int, int, int, int]]:
    if max(len(first_rows), len(second_rows)) <= _MATCHED:
        left, right = (list(map(_content, records)) for records in (first_rows, second_rows))
        yield from SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
        return
    for at in range(max(len(first_rows), len(second_rows))):  # too many to match: row by row
        one, other = first_rows[at : at + 1], second_rows[at : at + 1]
        same = [*map(_content, one)] == [*map(_content, other)]
        yield "equal" if same else "replace", at, at + len(one), at, at + len(other)


def _content(record: TopicRecord) -> str:
    return repr((record.timestamp, _canonical(record.key), _canonical(record.value), tuple(record.headers)))


def _canonical(value: object) -> Any:
    """Return the same value for equal values, whatever the order of a dict's keys."""
    if isinstance(value, dict):
        return {"dict": sorted((repr(key), _canonical(item)) for key, item in value.items())}
    if isinstance(value, list) or type(value) is tuple:  # JSON has only lists
        return [_canonical(item) for item in value]
    return value
