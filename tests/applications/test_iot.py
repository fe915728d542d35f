"""Sensor readings out of order: final minutes, late readings, alarms and dead letters."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import kstreamnb as ks

Import = Callable[[str], ModuleType]


@pytest.fixture
def driver(module: Import) -> ks.TopologyTestDriver:
    """The application in the driver, as it is deployed."""
    topology = module("topology")
    return ks.TopologyTestDriver(topology.build(), topology.CONFIG, partitions=topology.TOPICS)


def send(driver: ks.TopologyTestDriver, *readings: tuple[int, float]) -> None:
    """Pipe readings of one sensor: second and temperature."""
    topic = driver.create_input_topic("readings")
    for second, celsius in readings:
        topic.pipe_input("oven", {"celsius": celsius, "at": 1000 * second}, at=1_000_000)


def values(driver: ks.TopologyTestDriver, topic: str) -> list[Any]:
    """Return the values that were written to a topic since the last call."""
    return [record.value for record in driver.create_output_topic(topic).read_records()]


def test_a_minute_is_published_once_when_its_grace_has_passed(driver: ks.TopologyTestDriver) -> None:
    """Readings out of order count until stream time is 30 seconds after the end of their minute."""
    send(driver, (10, 80), (80, 20), (50, 84), (89, 20))
    assert values(driver, "minutes") == []
    send(driver, (90, 20))
    assert values(driver, "minutes") == [{"start": 0, "readings": 2, "mean": 82.0, "most": 84.0}]
    assert values(driver, "alarms") == [{"start": 0, "readings": 2, "mean": 82.0, "most": 84.0}]


@pytest.mark.parametrize(("second", "late"), [(89, []), (90, [{"celsius": 30.0, "late": True}])])
def test_a_reading_of_a_published_minute_is_kept_apart(
    driver: ks.TopologyTestDriver, second: int, late: list[Any]
) -> None:
    """The window itself drops nothing, since the processor before it decides by the same rule."""
    send(driver, (10, 20), (second, 20), (59, 30))
    assert values(driver, "late-readings") == late
    assert sum(driver.metrics()["dropped-records-total"].values()) == 0


@pytest.mark.parametrize("broken", ['{"fahrenheit": 180}', '{"celsius": null}', '"n/a"', "{"])
def test_a_broken_reading_becomes_a_dead_letter_and_the_next_one_counts(
    driver: ks.TopologyTestDriver, broken: str
) -> None:
    """A reading without a temperature and one that is not JSON are set aside with their error."""
    driver.create_input_topic("readings", value_serde="string").pipe_input("oven", broken, at=1_000)
    send(driver, (5, 20), (100, 20))
    (dead,) = driver.create_output_topic("readings-dead", value_serde="string").read_records()
    assert (dead.key, dead.value) == ("oven", broken)
    assert "__streams.errors.exception" in dict(dead.headers)
    assert [minute["readings"] for minute in values(driver, "minutes")] == [1]


def test_every_made_reading_is_in_exactly_one_place(driver: ks.TopologyTestDriver, module: Import) -> None:
    """In a minute, late or dead; and each minute is published once."""
    sample = module("made").records(0, 3000)
    driver.pipe(sample)
    late, dead = values(driver, "late-readings"), values(driver, "readings-dead")
    minutes = driver.create_output_topic("minutes").read_records()
    rows = list(driver.store("minutes").all())
    assert sum(row["readings"] for _, row in rows) + len(late) + len(dead) == 3000
    assert len({(record.key, record.value["start"]) for record in minutes}) == len(minutes) > 50
    assert min(len(late), len(dead), len(values(driver, "alarms"))) > 0
