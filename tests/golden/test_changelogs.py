"""Changelogs of the driver compared with those of Kafka Streams, byte for byte."""

from __future__ import annotations

import pytest

from tests.java.changelogs import EXAMPLE_NAMES, NAMES, kept, written

Log = dict[tuple[str, str], list[tuple[str, str, str]]]
"""By topic and key: time, value and headers."""


def by_key(records: list[list[str]]) -> Log:
    """Records of each key in order: Java writes the keys of a buffer in the order of a hash set."""
    found = Log()
    for topic, time, key, value, headers in records:
        found.setdefault((topic, key), []).append((time, value, headers))
    return found


@pytest.mark.parametrize("name", [*NAMES, *EXAMPLE_NAMES])
def test_every_record_of_a_changelog_is_that_of_kafka_streams(name: str) -> None:
    """S1-38: keys with their sequence numbers, values, headers, and times except those that the producer sets."""
    java, mine = by_key(kept()[name]), by_key(written(name))
    assert sum(map(len, java.values())) > 500
    assert java.keys() == mine.keys()
    for key, records in java.items():
        theirs = [(time, *rest) for time, *rest in records if time != "null"]
        assert [rest for _, *rest in mine[key]] == [rest for _, *rest in records]
        assert not theirs or mine[key] == theirs
