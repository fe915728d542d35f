"""Drivers and replays that start with the state of another run."""

from __future__ import annotations

from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.runtime.task.initial_state import InitialState
from tests.java.feeds import input_records
from tests.java.topologies import build

SETTINGS = {
    "application.id": "d",
    "statestore.cache.max.bytes": 0,
    "default_key_serde": "string",
    "default_value_serde": "string",
}


def driver_of(name: str, stores: InitialState | None = None) -> ks.TopologyTestDriver:
    """A driver with four partitions."""
    return ks.TopologyTestDriver(build(name, "d"), SETTINGS, partitions=4, stores=stores)


def state_of(driver: ks.TopologyTestDriver) -> InitialState:
    """Return the state of all tasks."""
    tasks = driver.tasks.order
    rows = {task.plan.task_id: {name: dict(store.raw) for name, store in task.stores.items()} for task in tasks}
    return InitialState(rows, {task.plan.task_id: task.context.stream_time[0] for task in tasks})


def written(driver: ks.TopologyTestDriver) -> dict[int, list[Any]]:
    """New records of the output topic by partition."""
    found: dict[int, list[Any]] = {}
    for record in driver.create_output_topic("d-out").read_records():
        found.setdefault(record.partition, []).append((record.key, record.value, record.timestamp))
    return found


@pytest.mark.parametrize("name", ["count", "tumbling", "sessions", "suppress-windows", "stream-join", "versioned-join"])
def test_a_run_that_begins_with_the_state_of_another_continues_it(name: str) -> None:
    """S0-22: the second half of the input produces the same records, in the driver and in a replay."""
    records = input_records(name, "d")
    middle = len(records) // 2
    driver = driver_of(name)
    driver.pipe(records[:middle])
    state = state_of(driver)
    assert written(driver)
    driver.pipe(records[middle:])
    wanted = written(driver)
    other = driver_of(name, state)
    other.pipe(records[middle:])
    assert written(other) == wanted
    run = ks.replay(build(name, "d"), records[middle:], 4, config=SETTINGS, stores=state)
    found: dict[int, list[Any]] = {}
    for record in run.output("d-out"):
        found.setdefault(record.partition, []).append((record.key, record.value, record.timestamp))
    assert found == wanted


def test_the_first_record_searches_a_join_for_records_without_a_partner() -> None:
    """S0-22: in memory alone is the time of the earliest of them, and Java's first record searches for it, too."""
    first = driver_of("stream-left-join")
    first.pipe([ks.TopicRecord("d-left", 0, 0, 0, "k", "alone")])
    assert not written(first)
    driver = driver_of("stream-left-join", state_of(first))
    driver.pipe([ks.TopicRecord("d-right", 0, 0, 60_000, "k", "late")])
    assert written(driver) == {0: [("k", "alone,null", 0)]}


def test_a_replay_shows_the_state_with_which_it_began() -> None:
    """S0-22: before the first step."""
    driver = driver_of("count")
    driver.pipe(input_records("count", "d")[:100])
    run = ks.replay(build("count", "d"), [], 4, config=SETTINGS, stores=state_of(driver))
    before = run.at(0).store("counts").to_dict()
    assert sum(before.values()) == 100


def test_the_state_of_another_topology_is_refused() -> None:
    """S0-22: the error names the task and its stores."""
    with pytest.raises(ks.errors.ConfigError, match='the state belongs to a task "0_0" with windows'):
        driver_of("count", state_of(driver_of("tumbling")))
