"""The versions of one key within one segment, as an immutable row, and how a version is added to it.

A row is ``(next_ms, versions)``: ``versions`` are ``(valid from, wire value or None)``, the newest first, each valid
until the one before it begins, the newest until ``next_ms``. A row whose only version is a tombstone at ``next_ms``
itself is empty: it only remembers that the key was deleted then.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "Found",
    "VersionRow",
    "add_earliest",
    "add_latest",
    "find_version",
    "first_ms",
    "insert_version",
    "one_version",
    "replace_version",
    "versions_between",
]

VersionRow: TypeAlias = tuple[int, tuple[tuple[int, Any], ...]]


class Found(NamedTuple):
    """A version within a row, and its place there."""

    place: int
    valid_from: int
    valid_to: int
    value: Any


def one_version(value: Any, valid_from: int, valid_to: int) -> VersionRow:
    """A row of a single version."""
    return valid_to, ((valid_from, value),)


def first_ms(row: VersionRow) -> int:
    """From when on the oldest version is valid."""
    return row[1][-1][0]


def _is_empty(row: VersionRow) -> bool:
    return row[0] == first_ms(row)


def find_version(row: VersionRow, at_ms: int) -> Found:
    """The version that is valid at a time within the row."""
    valid_to = row[0]
    for index, (valid_from, value) in enumerate(row[1]):
        if valid_from <= at_ms:
            return Found(index, valid_from, valid_to, value)
        valid_to = valid_from
    raise AssertionError(f"no version is valid at {at_ms} in a row from {first_ms(row)}")


def versions_between(row: VersionRow, from_ms: int, to_ms: int) -> list[Found]:
    """Versions that are no tombstones and valid at some time between two, both inclusive; the newest first."""
    found, valid_to = [], row[0]
    for index, (valid_from, value) in enumerate(row[1]):
        if value is not None and valid_from <= to_ms and valid_to > from_ms:
            found.append(Found(index, valid_from, valid_to, value))
        valid_to = valid_from
    return found


def add_latest(row: VersionRow, value: Any, valid_from: int, valid_to: int) -> VersionRow:
    """Add a version after all others; a gap before it was a deletion."""
    next_ms, versions = row
    if _is_empty(row):
        versions = () if next_ms == valid_from else ((next_ms, None),)
    elif next_ms != valid_from:
        versions = ((next_ms, None), *versions)
    return valid_to, ((valid_from, value), *versions)


def add_earliest(row: VersionRow, value: Any, valid_from: int) -> VersionRow:
    """Add a version before all others."""
    next_ms, versions = row
    return next_ms, ((valid_from, value),) if _is_empty(row) else (*versions, (valid_from, value))


def insert_version(row: VersionRow, value: Any, valid_from: int, index: int) -> VersionRow:
    """Add a version at a place among the others."""
    next_ms, versions = row
    return next_ms, (*versions[:index], (valid_from, value), *versions[index:])


def replace_version(row: VersionRow, value: Any, valid_from: int, index: int) -> VersionRow:
    """Put a version in the place of another."""
    next_ms, versions = row
    return next_ms, (*versions[:index], (valid_from, value), *versions[index + 1 :])
