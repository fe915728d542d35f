"""Converts columns of Python values into records: shared by frames, Parquet and JSON lines."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from operator import attrgetter
from typing import Any

from kstreamnb.core.arguments import check_arguments, expect
from kstreamnb.core.codec import encoder, key_partitioner
from kstreamnb.core.record import Headers, TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import serde_of
from kstreamnb.errors import ConfigError
from kstreamnb.frame_cells import dicts, expect_text_name, warn_of_unit
from kstreamnb.hints import unknown
from kstreamnb.topology.nodes import grouped

JOIN_FILES = "read each file, and join the samples: first + second"
UNASSIGNED = -1
"""The partition of a record that goes to its key's partition wherever it is replayed."""


@dataclass(frozen=True)
class Roles:
    """Which columns are what. ``value`` None is all columns that are nothing else, as a dict.

    Rows are sorted by the columns of ``order_by``. Without a partition column, keys choose among ``partitions``, by the
    bytes of ``key_serde``; without both, records are not assigned to any partition yet.
    """

    topic: str
    timestamp: str
    key: str | None = None
    value: str | Sequence[str] | None = None
    partition: str | None = None
    headers: str | None = None
    order_by: Sequence[str] = ()
    partitions: int | None = None
    key_serde: Serde | str | None = None

    def __post_init__(self) -> None:
        check_arguments(Roles.__init__, vars(self))

    def named(self) -> dict[str, str]:
        """Return the columns named individually, by role."""
        roles = {role: getattr(self, role) for role in ("timestamp", "key", "value", "partition", "headers")}
        fields = None if isinstance(self.value, str) else self.value
        return {role: name for role, name in roles.items() if name is not None and name is not fields}

    def value_columns(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that make up a dict value."""
        if isinstance(self.value, str):
            return []
        if self.value is not None:
            return list(self.value)
        taken = {name for role, name in self.named().items() if role != "key"}
        return [name for name in columns if name not in taken]

    def read(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that records are made of, each once."""
        return list(dict.fromkeys((*self.named().values(), *self.value_columns(columns))))

    def check(self, columns: Sequence[str], order_by: Sequence[str] = ()) -> None:
        """Raise ConfigError for a name that is not a column, that is ambiguous, or that is not text."""
        names = ", ".join(map(str, columns)) or "none"
        for name in (*self.named().values(), *self.value_columns(columns), *order_by):
            if name not in columns:
                raise unknown("column", name, [str(each) for each in columns], error=ConfigError)
            expect_text_name(name)
            if list(columns).count(name) > 1:
                raise ConfigError(f'column name "{name}" is not unique', detail=f"columns are {names}")


def missing_file(path: object) -> ConfigError:
    """Return the error about a path at which no file exists, such as a pattern of paths."""
    hint = f"patterns are not expanded: {JOIN_FILES}" if "*" in str(path) else None
    return ConfigError(f'file "{path}" does not exist', hint=hint)


def cells_by_role(
    roles: Roles, columns: Iterable[str], times: Callable[[str], list[int]], values: Callable[[str], list[Any]]
) -> dict[str, list[Any]]:
    """Return the cells of each role, by functions of a column's name; one column may have several roles."""
    read = cache(values)
    cells = {role: times(name) if role == "timestamp" else read(name) for role, name in roles.named().items()}
    if "value" not in cells:
        names = roles.value_columns(columns)
        cells["value"] = dicts(names, [read(name) for name in names], len(cells["timestamp"]))
    return cells


def make_records(cells: Mapping[str, list[Any]], roles: Roles) -> tuple[TopicRecord, ...]:
    """Make records of one topic in the order of the rows, of cells by role; ``timestamp`` holds ms already."""
    times, values = cells["timestamp"], cells["value"]
    count = len(times)
    if times:
        warn_of_unit(min(times), max(times), f'column "{roles.timestamp}"')
    keys: Iterable[Any] = cells["key"] if "key" in cells else repeat(None, count)
    headers: Iterable[Headers] = cells["headers"] if "headers" in cells else repeat((), count)
    numbers: Iterable[int] = repeat(UNASSIGNED, count)
    offsets: Iterable[int] = range(count)
    if roles.partition is not None or roles.partitions is not None:
        keys = list(keys)
        if roles.partition is not None:
            numbers = _numbers(cells["partition"], roles.partition)
        else:
            numbers = _places(keys, roles.partitions or 0, roles.key_serde)
        counters: defaultdict[int, Iterator[int]] = defaultdict(itertools.count)
        offsets = [next(counters[partition]) for partition in numbers]
    rows = zip(repeat(roles.topic), numbers, offsets, times, keys, values, headers, strict=False)
    return tuple(map(tuple.__new__, repeat(TopicRecord), rows))


def warn_of_units(records: Iterable[TopicRecord], *, least: int = 0) -> None:
    """Warn of each topic whose times are improbable as milliseconds; ``least`` is the earliest time that counts."""
    for topic, group in grouped(records, attrgetter("topic")).items():
        times = [record.timestamp for record in group]
        if min(times) >= least:
            warn_of_unit(min(times), max(times), f'topic "{topic}"', example=False)


def _numbers(column: list[Any], name: str) -> list[int]:
    """Return numbers of partitions as integers; frames hold them as floats if one is missing."""
    for row, value in enumerate(column):
        whole = type(value) is int or (isinstance(value, float) and value.is_integer())
        if not whole or value < UNASSIGNED:
            raise ConfigError(f'column "{name}" must hold partition numbers from 0, got {value!r} in row {row}')
    return list(map(int, column))


def _places(keys: list[Any], partitions: int, key_serde: Serde | str | None) -> list[int]:
    """Return the partition of every key; each text is hashed once."""
    serde = serde_of(key_serde or "string")
    write, choose = encoder(serde), key_partitioner(serde, partitions)
    if all(type(key) is str for key in keys):
        known = {key: choose(write(key)) for key in dict.fromkeys(keys)}
        return [known[key] for key in keys]
    return [choose(write(key)) for key in keys]


def number_offsets(records: Iterable[TopicRecord]) -> tuple[TopicRecord, ...]:
    """Return the records with their offsets counted again, from 0 in each partition."""
    counters: defaultdict[tuple[str, int], Iterator[int]] = defaultdict(itertools.count)
    result = []
    for record in records:
        offset = next(counters[record.topic, record.partition])
        result.append(record if record.offset == offset else record._replace(offset=offset))
    return tuple(result)


def partitioned(
    records: Sequence[TopicRecord], partitions: int | Mapping[str, int], key_serde: Serde | str | None
) -> tuple[TopicRecord, ...]:
    """Return the records in the partitions that their keys choose, offsets counted again from 0."""
    expect(partitions, int | Mapping, "partitions", hint='write a number, or {"orders": 4}')
    numbers = dict[str, Iterator[int]]()
    for topic, group in grouped(records, attrgetter("topic")).items():
        count = partitions if isinstance(partitions, int) else partitions.get(topic, 1)
        numbers[topic] = iter(_places([record.key for record in group], count, key_serde))
    return number_offsets(record._replace(partition=next(numbers[record.topic])) for record in records)
