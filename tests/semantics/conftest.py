"""The engines that every scenario runs on: the driver always."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Any

import pytest

from kstreamnb.driver import TopologyTestDriver
from tests.semantics.scenario import Engine, Outcome, Output, Scenario, WallClock


class DriverOutcome:
    """What a driver run left behind."""

    def __init__(self, driver: TopologyTestDriver, topics: dict[str, list[Output]]) -> None:
        self._driver, self._topics = driver, topics

    def topic(self, name: str) -> list[Output]:
        """Records of an output topic."""
        return self._topics[name]

    def store(self, name: str) -> dict[Any, Any]:
        """Rows of a key-value store."""
        return dict(self._driver.get_key_value_store(name).all())


class DriverEngine:
    """Runs scenarios on the test driver."""

    name = "driver"

    def run(self, scenario: Scenario) -> Outcome:
        """Feed the input row by row."""
        driver = TopologyTestDriver(scenario.build(), partitions=dict(scenario.partitions))
        inputs: dict[str, Any] = {}
        for row in scenario.input:
            if isinstance(row, WallClock):
                driver.advance_wall_clock_time(f"{row.by_ms}ms")
                continue
            topic = inputs.get(row.topic) or inputs.setdefault(row.topic, driver.create_input_topic(row.topic))
            topic.pipe_input(row.key, row.value, at=row.timestamp, headers=row.headers)
        topics = {name: self._read(driver, name) for name in scenario.output}
        return DriverOutcome(driver, topics)

    @staticmethod
    def _read(driver: TopologyTestDriver, topic: str) -> list[Output]:
        records = driver.create_output_topic(topic).read_records()
        return [(record.key, record.value, record.timestamp) for record in records]

    def check(self, scenario: Scenario) -> Outcome:
        """Run and compare."""
        outcome = self.run(scenario)
        compare(scenario, outcome)
        return outcome


def compare(scenario: Scenario, outcome: Outcome) -> None:
    """Fail unless every named topic holds what the scenario says."""
    ordered = all(count == 1 for count in scenario.partitions.values())
    for topic, expected in scenario.output.items():
        actual = outcome.topic(topic)
        assert (expected if ordered else by_key(expected)) == (actual if ordered else by_key(actual)), topic


def by_key(records: list[Output]) -> dict[str, list[Output]]:
    """Records of each key in order: what more than one partition keeps."""
    ordered = sorted(records, key=lambda record: str(record[0]))
    return {str(key): list(group) for key, group in groupby(ordered, key=itemgetter(0))}


@pytest.fixture
def engine() -> Engine:
    """The engine that runs a scenario."""
    return DriverEngine()
