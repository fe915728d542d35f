"""Evaluates the spec of a golden vector through the public API and gives an answer in the golden format."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kstreamnb.core.record import Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology
from tests.golden.dump import dump_changelogs, dump_queries, dump_stores

__all__ = ["Failed", "answer_of", "build"]


@dataclass
class Failed:
    """An error, where it came, and the answer until then."""

    error: BaseException
    step: int | None
    answer: dict[str, Any]


def answer_of(spec: dict[str, Any], *, describe_only: bool = False) -> dict[str, Any] | Failed:
    """The driver's answer to a spec."""
    answer: dict[str, Any] = {}
    step: int | None = None
    try:
        topology = build(spec)
        answer["describe"] = topology.describe()
        if describe_only:
            return answer
        with start(topology, spec) as driver:
            answer |= {"steps": [], "dropped": []}
            outputs = output_types(spec)
            for step, row in enumerate(spec.get("input", [])):
                before = dropped(driver)
                feed(driver, row, spec)
                answer["steps"].append(read_outputs(driver, outputs))
                if (now := dropped(driver)) != before:
                    answer["dropped"].append([step, now - before])
            step = None
            if spec.get("changelogs"):
                answer["changelogs"] = dump_changelogs(driver)
            answer["stores"] = dump_stores(driver, keys_of(spec, answer), cached=bool(spec.get("cache")))
            answer["topics"] = sorted(driver.produced_topic_names())
            if "queries" in spec:
                answer["queries"] = dump_queries(driver, spec["queries"])
    except Exception as error:
        return Failed(error, step, answer)
    return answer


def build(spec: dict[str, Any]) -> Topology:
    """The topology of a spec."""
    if "papi" in spec:
        from tests.golden.kinds import PROCESSORS
        from tests.golden.papi_specs import build_papi

        return build_papi(spec["papi"], PROCESSORS)
    from tests.golden.dsl_specs import build_dsl

    return build_dsl(spec)


def start(topology: Topology, spec: dict[str, Any]) -> TopologyTestDriver:
    """A driver that behaves like Kafka's own."""
    size = "statestore.cache.max.bytes"
    cache = None if size in spec.get("config", {}) else bool(spec.get("cache"))
    config = {
        "application.id": "app",
        "default.key.serde": Serdes.string(),
        "default.value.serde": Serdes.string(),
        **spec.get("config", {}),
    }
    changelogs = bool(spec.get("changelogs"))
    layout = {"task_layout": "single", "wall_clock": spec.get("wall", 0), "cache": cache, "changelogs": changelogs}
    return TopologyTestDriver(topology, config, **layout)


def feed(driver: TopologyTestDriver, row: list[Any], spec: dict[str, Any]) -> None:
    """Pipe one input row."""
    topic = row[0]
    if topic == "@wall":
        driver.advance_wall_clock_time(timedelta(milliseconds=row[1]))
        return
    headers = tuple((name, None if text is None else text.encode()) for name, text in (row[4] if row[4:] else []))
    serde = SERDES[input_type(topic, spec)]
    driver.create_input_topic(topic, SERDES["s"], serde).pipe_input(row[1], row[2], at=row[3], headers=headers)


def read_outputs(driver: TopologyTestDriver, outputs: dict[str, str]) -> dict[str, Any]:
    """Return the records written since the last call, by topic."""
    found = {}
    for topic, kind in outputs.items():
        records = driver.create_output_topic(topic, SERDES["s"], SERDES[kind]).read_records()
        if records:
            found[topic] = [output_row(record) for record in records]
    return found


def output_row(record: Any) -> list[Any]:
    """A record in the golden format."""
    row = [text_key(record.key), record.value, record.timestamp]
    if record.headers:
        row.append([[name, None if data is None else data.decode()] for name, data in record.headers])
    return row


def text_key(key: Any) -> Any:
    """A key in the golden format."""
    return str(key) if isinstance(key, Windowed) else key


def dropped(driver: TopologyTestDriver) -> int:
    """Records dropped so far."""
    return sum(driver.metrics()["dropped-records-total"].values())


def keys_of(spec: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    """Keys that occur in the input or the output, sorted."""
    found = {row[1] for row in spec.get("input", []) if row[0] != "@wall"}
    found |= {row[0] for step in answer["steps"] for rows in step.values() for row in rows}
    return sorted(found - {None})


def ops_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The ops of a spec, of either kind."""
    ops: list[dict[str, Any]] = spec.get("papi") or spec.get("nodes", [])
    return ops


def output_types(spec: dict[str, Any]) -> dict[str, str]:
    """Value type of every output topic, in order of first appearance of the op that writes it last."""
    found: dict[str, str] = {}
    for op in ops_of(spec):
        if op["op"] in ("to", "sink"):
            topics = op["topics"] if op.get("dynamic") else [op.get("topic")]
            found.update({topic: op.get("vt", "s") for topic in topics if topic is not None})
    return found


def input_type(topic: str, spec: dict[str, Any]) -> str:
    """Value type of an input topic."""
    found, patterns = {}, {}
    for op in ops_of(spec):
        kind = op.get("vt", "s")
        if op["op"] in ("stream", "source", "table", "global"):
            if op.get("pattern"):
                patterns[op["pattern"]] = kind
            names = op.get("topic", op.get("topics", []))
            found.update(dict.fromkeys([names] if isinstance(names, str) else names, kind))
    if topic in found:
        return str(found[topic])
    return next((kind for pattern, kind in patterns.items() if re.fullmatch(pattern, topic)), "s")


SERDES = {"s": Serdes.string(), "l": Serdes.long()}
