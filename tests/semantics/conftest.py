"""The engines of every scenario: driver, Spark's levels without Spark in memory and on disk, and Spark itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from tests.semantics.scenario import Engine, Outcome, Output, Scenario, WallClock, compare


class DriverOutcome:
    """The result of a driver run."""

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
    copies = 1

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


ENGINES = [
    "driver",
    "levels",
    "disk",
    pytest.param("stream", marks=pytest.mark.spark),
    pytest.param("frames", marks=pytest.mark.spark),
]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """The engine that runs a scenario."""
    if request.param == "driver":
        return DriverEngine()
    from tests.semantics.engines import ON_LEVELS, ON_SPARK, FramesEngine, StreamEngine, on_disk, on_levels, on_spark

    feeds = tmp_path / "feeds"
    feeds.mkdir()
    if request.param in ("levels", "disk"):
        runner = on_levels if request.param == "levels" else on_disk
        return StreamEngine(request.param, runner, feeds, ON_LEVELS)
    spark = request.getfixturevalue("spark")
    if request.param == "frames":
        return FramesEngine(spark)
    return StreamEngine("stream", on_spark(spark), feeds, ON_SPARK)


@pytest.fixture(autouse=True)
def stores_are_what_their_changelogs_make_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """S0-09: a store that differs from the fold of its changelog fails the scenario in which that happens."""
    monkeypatch.setattr(TopologyTestDriver, "verify_by_default", True)
