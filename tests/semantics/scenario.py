"""Scenarios: a topology, its input and its expected output, for any engine.

An engine feeds the rows one after another, each processed completely before the next, and returns an `Outcome`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from kstreamnb.topology.topology import Topology

__all__ = ["Engine", "Outcome", "Row", "Scenario", "WallClock", "compare", "described", "records"]


class Row(NamedTuple):
    """One record of an input topic; its partition follows from its key."""

    topic: str
    key: Any
    value: Any
    timestamp: int
    headers: tuple[tuple[str, bytes], ...] = ()


class WallClock(NamedTuple):
    """The wall clock advances by the given number of milliseconds."""

    by_ms: int


Input: TypeAlias = "Row | WallClock"
Output: TypeAlias = "tuple[Any, Any, int]"
"""``(key, value, timestamp)``."""

_RECORD = re.compile(r"(?:(\w[\w.-]*): )?(\w*)→([^@]*)@(\d+)")


def records(*lines: str) -> tuple[Row, ...]:
    """Rows from texts such as ``"clicks: ann→c1@5, bob→c2@6"``; an empty key or value is null.

    Example:
        >>> records("l: k→A@0, →B@1")
        (Row(topic='l', key='k', value='A', timestamp=0, headers=()),
         Row(topic='l', key=None, value='B', timestamp=1, headers=()))
    """
    rows, topic = [], ""
    for line in lines:
        for text in line.split(", "):
            match = _RECORD.fullmatch(text)
            assert match is not None, text
            topic = match[1] or topic
            rows.append(Row(topic, match[2] or None, match[3] or None, int(match[4])))
    return tuple(rows)


def described(name: str) -> str:
    """The text of ``TopologyDescription`` that Kafka Streams gives, from the folder ``describe``."""
    return (Path(__file__).parent / "describe" / f"{name}.txt").read_text()


@dataclass(frozen=True)
class Scenario:
    """A topology and its input.

    Args:
        build: builds the topology.
        input: rows and movements of the wall clock, in order.
        output: the final contents of each output topic, in order of production; topics that are not named are not
        compared. With more than one partition, only the order within a key counts.
        partitions: partition counts of input topics, 1 by default.
    """

    build: Callable[[], Topology]
    input: tuple[Input, ...]
    output: Mapping[str, list[Output]] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)


class Outcome(Protocol):
    """The result of a run."""

    def topic(self, name: str) -> list[Output]:
        """Records of an output topic, partition by partition."""

    def store(self, name: str) -> dict[Any, Any]:
        """Rows of a key-value store, of all partitions."""


class Engine(Protocol):
    """Runs scenarios; ``copies`` is how often it runs each of them."""

    name: str
    copies: int

    def run(self, scenario: Scenario) -> Outcome:
        """Feed the input and return the outcome."""

    def check(self, scenario: Scenario) -> Outcome:
        """Run, and compare the outcome with the scenario's expectations."""


def compare(scenario: Scenario, outcome: Outcome) -> None:
    """Fail unless every named topic has the expected contents."""
    ordered = all(count == 1 for count in scenario.partitions.values())
    for topic, expected in scenario.output.items():
        actual = outcome.topic(topic)
        assert (expected if ordered else by_key(expected)) == (actual if ordered else by_key(actual)), topic


def by_key(records: list[Output]) -> dict[str, list[Output]]:
    """Records of each key in order, which is what several partitions preserve."""
    ordered = sorted(records, key=lambda record: str(record[0]))
    return {str(key): list(group) for key, group in groupby(ordered, key=itemgetter(0))}
