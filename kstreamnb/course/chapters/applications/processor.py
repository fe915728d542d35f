"""Checks of the exercises on the Processor API."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import kstreamnb as ks
from kstreamnb.course.answers import numbers_in

_VIEWS = ((1, 0), (2, 1000), (1, 2000), (1, 2100), (2, 2200), (1, 3000))
"""Products and times in ms: two products change between the last calls, one of them twice."""


def _times(answer: object) -> str:
    times = numbers_in(answer, "ms")
    if not times:
        return "give the times as a list of milliseconds."
    for at in times:
        if at not in (0, 400, 2100, 2900):
            return f"not at {at:g}: stream time never has that value, because no record carries it."
        if at not in (0, 2100):
            return f"not at {at:g}: calls are due at 0, 1000, 3000, …, and no new one is due by then."
    return "" if set(times) == {0, 2100} else "a call is missing: when is the first one, and after which jump?"


def _changes(answer: object) -> str:
    counts = ks.Stores.in_memory_key_value_store("Counts", key_serde="long", value_serde="long")
    topology = (
        ks.Topology()
        .add_source("SOURCE", "logs", key_serde="long", value_serde="string")
        .add_processor("COUNTER", cast("Callable[[], ks.Processor[object, object, object, object]]", answer), "SOURCE")
        .add_state_store(counts, "COUNTER")
        .add_sink("SINK", "counter_topic", "COUNTER", key_serde="long", value_serde="long")
    )
    with ks.TopologyTestDriver(topology) as driver:
        logs = driver.create_input_topic("logs")
        for product, at in _VIEWS:
            logs.pipe_input(product, "x", at=at)
        updates = driver.create_output_topic("counter_topic").read_key_values_to_list()
    repeated = sorted({pair for pair in updates if updates.count(pair) > 1})
    if repeated:
        return f"forwarded more than once: {repeated}; remember the count that was forwarded last."
    told = {(1, 1), (2, 1), (1, 2), (1, 4), (2, 2)}
    if missing := sorted(told - set(updates)):
        return f"missing: {missing}, as (product, count)."
    early = sorted(set(updates) - told)
    return f"forwarded between two calls: {early}; only tell forwards counts." if early else ""


JUDGES = {"processor.1": _times, "processor.2": _changes}
