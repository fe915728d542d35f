"""Functions that change values in place, before and after aggregates: every form in which a chain runs agrees."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kstreamnb as ks
from kstreamnb.core.codec import encoded, to_bytes
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.time import Clock
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import plan_tasks
from kstreamnb.runtime.task.task import Task

FORMS: dict[str, dict[str, Any]] = {
    "copies": {"verify": False},
    "bytes": {"verify": True},
    "recorded": {"verify": False, "observe": lambda event: None},
}
"""How a driver runs a chain; the reference runs every node as a function that an error handler guards."""

GIVEN = {"default_key_serde": "string", "default_value_serde": "json", "statestore.cache.max.bytes": 0}
SERDES = {"json": ks.Serdes.json(), "sorted": ks.Serdes.json(sort_keys=True)}
VALUES = st.sampled_from([{"n": 1}, {"n": 2, "list": [1]}, {"word": "Köln"}, "text", "é", 3, 1.5, None])
RECORDS = st.lists(st.tuples(st.sampled_from(["a1", "a2", "b1", None]), VALUES), min_size=9, max_size=30)
TOUCHES = st.sampled_from(["none", "none", "peek", "map", "filter", "sink"])
AGGREGATES = st.sampled_from(["count", "reduce", "collect", "text", "sum", "delete"])


def touch(*record: Any) -> Any:
    """Change a value in place, if it is a dict, and return it."""
    value = record[-1]
    if isinstance(value, dict):
        value["touched"] = value.get("touched", 0) + 1
    return value


def touched(stream: Any, kind: str, name: str) -> Any:
    """Return a stream below a function that changes its values."""
    if kind == "sink":  # another child changes them first
        stream.peek(touch).to(name)
    calls = {"peek": lambda: stream.peek(touch), "map": lambda: stream.map_values(touch)}
    calls["filter"] = lambda: stream.filter(lambda key, value: touch(value) is not None)
    return calls.get(kind, lambda: stream)()


def add(kind: str) -> Any:
    """Return an aggregator."""

    def collect(key: object, value: Any, total: Any) -> Any:
        if kind == "sum":
            return (total or 0) + 1
        if kind == "text":
            return f"{total}"[-4:] + "é" + f"{value}"[:3]
        if kind == "delete" and isinstance(value, dict) and value.get("n") == 2:
            return None
        return {"seen": (total["seen"] if isinstance(total, dict) else 0) + 1, "last": value}

    return collect


WINDOWS = {
    "tumbling": ks.TimeWindows.of_size_and_grace("10ms", "5ms"),
    "hopping": ks.TimeWindows.of_size_and_grace("10ms", "5ms").advance_by("5ms"),
    "sliding": ks.SlidingWindows.of("10ms", grace="5ms"),
}


def aggregated(stream: Any, kind: str, name: str, value_serde: Any, *, windows: str | None) -> Any:
    """Return an aggregate by key, or by key and window."""
    groups = stream.group_by_key()
    groups = groups if windows is None else groups.windowed_by(WINDOWS[windows])
    if kind == "count":
        table = groups.count(store=name)
    elif kind == "reduce":
        table = groups.reduce(lambda total, value: {"total": total, "last": value}, store=name, value_serde=value_serde)
    else:
        table = groups.aggregate(lambda: None, add(kind), store=name, value_serde=value_serde)
    return table


def in_bytes(serde: Any, wire: Any) -> bytes | None:
    """Return the bytes of a value as a topic has it."""
    return wire if serde is None else to_bytes(serde, wire)


def rows_of_stores(tasks: Iterable[Task]) -> dict[Any, Any]:
    """Return the bytes and times of all rows."""
    stores = [(task.plan.task_id, *item) for task in tasks for item in task.stores.items()]
    return {
        (task_id, name, raw_key): (store.values.to_bytes(row[0]), row[1])
        for task_id, name, store in stores
        for raw_key, row in store.raw.items()
        if raw_key is not None
    }


def outcome(topology: ks.Topology, records: list[TopicRecord], partitions: int, **form: Any) -> tuple[Any, Any]:
    """Return the bytes of all topics and stores."""
    config = GIVEN | form.pop("config", {})
    driver = ks.TopologyTestDriver(topology, config, partitions=partitions, **form)
    driver.pipe(records)
    topics: dict[str, list[Any]] = {}
    for topic, log in driver.tasks.logs.items():
        keys, values = driver.router.writer_serdes(topic) or (ks.Serdes.string(), ks.Serdes.json())
        topics[topic] = [(*row[1:3], to_bytes(keys, row[3]), to_bytes(values, row[4])) for row in log.rows]
    return topics, rows_of_stores(driver.tasks.order)


def chain(draw: Any, *, repartitions: bool) -> ks.Topology:
    """Return a topology of one or two aggregates, with functions that change values before and after each."""
    builder = ks.StreamsBuilder("changed")
    stream = touched(builder.stream("in"), draw(TOUCHES), "first")
    if repartitions and draw(st.booleans()):
        stream = touched(stream.select_key(lambda key, value: (key or "x")[0]), draw(TOUCHES), "second")
    for number in range(draw(st.integers(1, 2))):
        serde, windows = SERDES[draw(st.sampled_from(sorted(SERDES)))], draw(st.sampled_from([None, *WINDOWS]))
        table = aggregated(stream, draw(AGGREGATES), f"store{number}", serde, windows=windows)
        rekeyed = (lambda window, _: window.key) if windows and repartitions else None
        stream = touched(table.to_stream(rekeyed), draw(TOUCHES), f"side{number}")
    several = draw(st.booleans())
    chosen = {"partitioner": lambda topic, key, value, count: range(count)} if several else {}
    stream.to("out", value_serde=draw(st.sampled_from([None, *SERDES.values()])), **chosen)
    return builder.build()


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data(), given_records=RECORDS)
def test_values_that_functions_change_in_place_are_equal_in_every_form(
    form: str, data: st.DataObject, given_records: list[tuple[Any, Any]]
) -> None:
    """Neither a copy nor a value without a copy shows what a function did to another one."""
    topology = chain(data.draw, repartitions=True)
    records = [TopicRecord("in", -1, -1, at, key, value) for at, (key, value) in enumerate(given_records)]
    partitions = data.draw(st.sampled_from([1, 3]))
    reference = outcome(topology, records, partitions, config={"processing_handler": "continue"}, verify=False)
    assert outcome(topology, records, partitions, **FORMS[form]) == reference


@given(data=st.data(), given_records=RECORDS)
def test_a_sink_of_a_task_takes_bytes_of_a_store_only_if_they_are_those_of_the_value(
    data: st.DataObject, given_records: list[tuple[Any, Any]]
) -> None:
    """A task whose rows leave the process writes an aggregate again after a function, or with another serde."""
    topology = chain(data.draw, repartitions=False)
    value_bytes = ks.Serdes.json().serialize
    records = [(at, at, key, encoded(value_bytes(value)), ()) for at, (key, value) in enumerate(given_records)]
    outcomes = []
    for handler in ("fail", "continue"):
        (plan,) = plan_tasks(topology, Config.of({**GIVEN, "processing_handler": handler}), {"in": 1})
        task = Task(plan, Clock(0))
        task.run("in", 0, records)
        rows = [(row, task.topic_serdes(row[0]) or (None, None)) for row in task.drain()]
        written = [(*row[:3], in_bytes(keys, row[3]), in_bytes(values, row[4])) for row, (keys, values) in rows]
        outcomes.append((written, rows_of_stores([task])))
    assert outcomes[0] == outcomes[1]


def to_float(value: dict[str, Any]) -> None:
    """Change a number to one that is equal, but has other bytes."""
    value["n"] = float(value["n"])


def to_end(value: dict[str, Any]) -> None:
    """Move a field to the end."""
    value["n"] = value.pop("n")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("change", [to_float, to_end])
def test_a_join_keeps_what_a_joiner_made_of_a_value_even_if_both_are_equal(
    change: Callable[[dict[str, Any]], None], form: str
) -> None:
    """Dicts are equal whatever the order of their fields, and so are 1 and 1.0, but their bytes differ."""

    def join(left: dict[str, Any], right: dict[str, Any]) -> str:
        shown = f"{left} {right}"
        change(left)
        return shown

    builder = ks.StreamsBuilder("joined")
    windows = ks.JoinWindows.of_time_difference_and_grace("10ms", "0ms")
    builder.stream("left").join(builder.stream("right"), join, windows).to("out")
    fed = [("right", {"m": 1}), ("left", {"n": 1, "z": 2}), ("right", {"m": 2})]
    records = [TopicRecord(topic, -1, -1, at, "k", value) for at, (topic, value) in enumerate(fed)]
    with ks.TopologyTestDriver(builder.build(), GIVEN, **FORMS[form]) as driver:
        driver.pipe(records)
        out = driver.create_output_topic("out").read_values_to_list()
    change(changed := {"n": 1, "z": 2})
    assert out == ["{'n': 1, 'z': 2} {'m': 1}", f"{changed} {{'m': 2}}"]
