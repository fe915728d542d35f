"""Numbers and names that a simulation cannot have are refused where they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.simulation import ClusterDriver, ConsumerGroup, Log


def written() -> Log:
    """A log of one partition with three records."""
    log = Log()
    log.create_topic("logs")
    for line in range(3):
        log.append("logs", None, line)
    return log


def stopped() -> ClusterDriver:
    """A cluster whose application has stopped after one record."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("orders").group_by_key().count(store="orders-by-item").to_stream().to("counts")
    driver = ClusterDriver(builder.build())
    driver.create_input_topic("orders").pipe_input("shoe", 1, at=0)
    driver.run_ready()
    driver.close()
    return driver


def group(**options: Any) -> ConsumerGroup:
    """A group that reads two partitions."""
    return ConsumerGroup("readers", {"logs": 2}, **options)


def races(schedules: int) -> None:
    """Look for races in some orders."""
    topology = ks.Topology().add_source("in", "orders").add_sink("out", "copies", "in")
    ks.testing.find_races(topology, [ks.TopicRecord("orders", -1, -1, 0, "shoe", 1)], schedules=schedules)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: written().records("logs-0", -1), "start must be at least 0, got -1"),
        (lambda: stopped().add_partitions("nope", 3), 'topic "nope" does not exist'),
        (lambda: stopped().application.reset({"orders": -5}), "offset must be at least 0, got -5"),
        (lambda: stopped().application.reset({"orders": "first"}), "offset must be int, got 'first'"),
        (lambda: group(restore_rate=0), "restore_rate must be at least 1, got 0"),
        (lambda: group(max_poll_records=-1), "max_poll_records must be at least 1, got -1"),
        (lambda: group(standby_replicas=-1), "standby_replicas must be at least 0, got -1"),
        (lambda: group().advance_wall_clock_time("-1s"), "advance of the wall clock must be at least 0, got -1000"),
        (lambda: races(0), "schedules must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_is_refused_in_words(call: Callable[[], object], words: str) -> None:
    """Without the check each of these gave wrong records, an error of Python, or a report about nothing."""
    with pytest.raises(ks.errors.KStreamError) as caught:
        call()
    assert words in str(caught.value)
