"""Golden vectors on Spark: many specs in one streaming query, each as its own application, in a few micro-batches.

A spec's rows carry their number as order, so a batch of several rows means the same as those rows one after another.
Differences from the vector are compared with the driver in the layout of production (a task for each sub-topology),
because the vectors come from Kafka's test driver, which has one task for everything. `RULES` lists the allowed
differences; each vector that differs is counted under its rule, and one without a rule fails.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kstreamnb.core.codec import decoder, encoder, to_bytes
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serdes import Serdes
from kstreamnb.errors import KStreamError
from kstreamnb.kafka.output_batch import OutputBatch
from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.task.task import StateDelta
from kstreamnb.spark.contracts import QueryBatch, QuerySink, StreamSettings
from kstreamnb.spark.deploy import query_of
from kstreamnb.spark.execution.record_batch import OrderKey
from kstreamnb.spark.execution.state_codec import unpack_delta
from kstreamnb.spark.jvm.session import spark_session
from kstreamnb.spark.planning.deployment import ApplicationPlan, WorkerOptions
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from kstreamnb.spark.state.checkpoint_reader import read_states
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from tests.golden.compare import compare
from tests.golden.dump import dump_queries, dump_stores
from tests.golden.evaluate import (
    SERDES,
    build,
    dropped,
    feed,
    input_type,
    keys_of,
    output_row,
    output_types,
    read_outputs,
)
from tests.spark.file_source import FileOffsetSource
from tests.spark.inprocess import Cluster
from tests.spark.steps import Step, packed, tick

__all__ = ["RULES", "check_on_spark"]

_CHUNK = 400
_BATCHES = 3
_SMALL = {"spark.driver.memory": "1g"}
_CACHE_BYTES = 10_000_000
Vector = dict[str, Any]
Verdict = tuple[str, str, list[str], str]
"""Name, "passed", "failed" or "skipped", what differs or why, and the rule under which a vector differs."""

RULES = {
    "one task": "Kafka's test driver runs all sub-topologies as one task with one stream time and one queue; in "
    "production each has its own",
    "ties": "records of one time that wait in several partitions are taken by D-001, and punctuators of one time in "
    "the order of their nodes; Kafka takes what its heaps have on top",
    "offsets": "each topic counts its own offsets; Kafka's test driver has one count for all topics of a pattern",
}
"""How production may differ from Kafka's test driver."""


@dataclass(eq=False)
class _Case:
    vector: Vector
    application: ApplicationPlan
    config: Config
    answer: dict[str, Any] = field(default_factory=dict)

    @property
    def reads_tables(self) -> bool:
        """Return whether any task reads a global table."""
        return any(task.uses_global for task in plan_deployment("golden", [self.application], 1).tasks)

    @property
    def spec(self) -> dict[str, Any]:
        return self.vector["spec"]  # type: ignore[no-any-return]


@dataclass
class _StepSink(QuerySink):
    """Keeps output rows with the steps that caused them."""

    rows: dict[tuple[int, str], list[Any]] = field(default_factory=dict)
    dropped: dict[int, int] = field(default_factory=dict)

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Add a batch."""
        for (application, topic), batches in batch.output.batches.items():
            kept = self.rows.setdefault((application, topic), [])
            for source, seq, each in batches:
                headers = each.headers or [()] * len(each)
                columns = zip(each.timestamps.tolist(), each.keys, each.values, headers, strict=True)
                keys = _keys(each.order)
                kept += [
                    ((*key, source, seq, at), row) for at, (key, row) in enumerate(zip(keys, columns, strict=True))
                ]
        for report in batch.output.reports:
            application = int(report["task"].partition("/")[0])
            self.dropped[application] = self.dropped.get(application, 0) + sum(report["dropped"].values())
        return OutputBatch(batch.number, batch.output.count())


def check_on_spark(vectors: Iterable[Vector], *, in_process: bool = False) -> Iterator[Verdict]:
    """Evaluate vectors on Spark and compare.

    ``in_process`` runs the levels in this process, and clears the workers' memory after each batch.
    """
    run = _run_here if in_process else _run_on_spark
    plain: list[_Case] = []
    cached: list[_Case] = []  # in one batch: what a cache still shows after a flush is gone after a batch
    tables: list[_Case] = []  # row by row: within a batch a global table is complete before the first record
    for vector in vectors:
        case = _case(vector)
        if isinstance(case, str):
            yield vector["name"], "skipped", [case], ""
        else:
            kind = tables if case.application.global_topics else cached if case.spec.get("cache") else plain
            kind.append(case)
    for batches, cases in (
        (_BATCHES, plain),
        (1, cached),
        (None, sorted(tables, key=lambda case: len(case.spec["input"]))),
    ):
        for chunk in itertools.batched(cases, _CHUNK) if hasattr(itertools, "batched") else _chunks(cases):
            yield from _check_chunk(list(chunk), batches, run)


def _chunks(cases: list[_Case]) -> Iterator[list[_Case]]:
    for at in range(0, len(cases), _CHUNK):
        yield cases[at : at + _CHUNK]


def _case(vector: Vector) -> _Case | str:
    """Return a vector as an application, or the reason why it does not run on Spark."""
    answer, spec = vector.get("answer", {}), vector.get("spec", {})
    if not answer.get("steps") or "error" in answer:
        return "no output to compare"
    size = "statestore.cache.max.bytes"
    config = {
        "application.id": "app",
        "default.key.serde": Serdes.string(),
        "default.value.serde": Serdes.string(),
        **({size: _CACHE_BYTES} if spec.get("cache") else {}),
        **spec.get("config", {}),
    }
    settings = Config.of(config)
    topics = {row[0]: 1 for row in spec["input"] if row[0] != "@wall"}
    try:
        application = plan_application(build(spec), settings, topics, direct=True, default_partitions=1)
    except KStreamError as error:
        return f"refused: {error}"
    written = {*application.looped} & {*application.global_topics}
    if written:
        return f"global topic {min(written)} is written by the topology itself: the table follows with the next batch"
    return _Case(vector, application, settings)


def _check_chunk(cases: list[_Case], batches: int | None, run: Any) -> Iterator[Verdict]:
    try:
        run(cases, batches)
    except KStreamError as error:
        said = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])]
        guilty = getattr(error, "task", "").partition("/")[0]
        blamed = [cases[int(guilty)]] if guilty else cases
        yield from ((case.vector["name"], "failed", said, "") for case in blamed)
        others = [case for case in cases if case not in blamed]
        yield from _check_chunk(others, batches, run) if others else ()
        return
    for case in cases:
        yield _verdict(case)


def _run_here(cases: list[_Case], batches: int | None) -> None:
    """Run the levels without Spark, each batch with workers that remember nothing."""
    deployment = plan_deployment("golden", [case.application for case in cases], 2)
    sink = _StepSink()
    with tempfile.TemporaryDirectory(prefix="kstreamnb-golden-") as name:
        cluster = Cluster.of(deployment, name, commit_every_record=True)
        feed = FileOffsetSource.write(Path(name) / "feed", _batches(cases, batches))
        for number, output in enumerate(cluster.batches(feed, lambda number: cluster.forget_tasks())):
            sink.publish(QueryBatch(number, "", {}, 0, output))
        cluster.forget()
    _fill(cases, sink, cluster.deltas())


def _run_on_spark(cases: list[_Case], batches: int | None) -> None:
    """Run one query over all cases and fill in their answers."""
    spark = spark_session("kstreamnb-golden", settings=_SMALL)
    applications = [case.application for case in cases]
    sink = _StepSink()
    with tempfile.TemporaryDirectory(prefix="kstreamnb-golden-") as name:
        folder = Path(name)
        source = FileOffsetSource.write(folder / "feed", _batches(cases, batches))
        settings = StreamSettings(LocalFiles(folder / "checkpoint"), None, max_records=1)
        options = WorkerOptions(commit_every_record=True)
        deployment = plan_deployment(folder.name, applications, 2, options=options)
        query = query_of(spark, deployment, source, sink, settings).restart()
        query.await_termination(1200)
        if os.environ.get("KSTREAMNB_TIMES"):
            print(
                f"{len(cases)} applications, {len(deployment.tasks)} tasks",
                [
                    (p["batchId"], p["durationMs"]["triggerExecution"])
                    for p in query.control.handle.streaming.recentProgress
                ],
            )
        _fill(cases, sink, read_states(query.spark, query.deployment, query.control.files))


def _batches(cases: list[_Case], batches: int | None) -> list[dict[tuple[str, int], list[Any]]]:
    steps = [[_step(case, number) for number in range(len(case.spec["input"]))] for case in cases]
    counts = [batches or len(case.spec["input"]) for case in cases]
    return packed(steps, counts, [case.spec.get("wall", 0) for case in cases])


def _step(case: _Case, step: int) -> Step:
    spec, row = case.spec, case.spec["input"][step]
    if row[0] == "@wall":
        passed = sum(before[1] for before in spec["input"][: step + 1] if before[0] == "@wall")
        return tick(spec.get("wall", 0) + passed)
    headers = tuple((name, None if text is None else text.encode()) for name, text in (row[4] if row[4:] else []))
    key, value = encoder(SERDES["s"])(row[1]), encoder(SERDES[input_type(row[0], spec)])(row[2])
    return row[0], 0, (row[3], key, value, headers)


def _fill(cases: list[_Case], sink: _StepSink, states: dict[str, list[bytes]]) -> None:
    for number, case in enumerate(cases):
        spec, types = case.spec, output_types(case.spec)
        steps: list[dict[str, Any]] = [{} for _ in spec["input"]]
        for (application, topic), rows in sink.rows.items():
            if application != number or topic not in types:
                continue
            read_key, read_value = _reader(case, topic, types)
            for key, (timestamp, wire_key, wire_value, headers) in sorted(rows, key=lambda row: row[0]):
                record = TopicRecord(topic, 0, 0, timestamp, read_key(wire_key), read_value(wire_value), headers)
                steps[key[0]].setdefault(topic, []).append(output_row(record))
        case.answer = {"steps": steps, "dropped": sink.dropped.get(number, 0)}
        driver = _driver(case)
        for name, delta in _deltas(states, number):
            driver.tasks.by_id[name].apply_delta(delta)
        case.answer |= _stores(driver, case, case.answer)


def _deltas(states: dict[str, list[bytes]], number: int) -> Iterator[tuple[str, StateDelta]]:
    """Return the deltas of an application's tasks, those of cycles by member."""
    for full, deltas in states.items():
        application, _, name = full.partition("/")
        if int(application) != number or "global" in name:
            continue
        for delta in (unpack_delta(data, trust=True) for data in deltas):
            if not name.startswith("circle"):
                yield name, delta
                continue
            for store, rows in delta.rows.items():
                member, _, own = store.partition("/")
                yield member, StateDelta({own: rows}, {})


def _reader(case: _Case, topic: str, types: dict[str, str]) -> tuple[Any, Any]:
    from kstreamnb.spark.planning.output_topics import writer_serdes

    key_serde, value_serde = writer_serdes(case.application, topic)
    read = SERDES[types[topic]].deserialize
    return decoder(key_serde), lambda wire: read(to_bytes(value_serde, wire))


def _keys(order: OrderKey) -> list[tuple[int, int, int, int]]:
    return list(
        zip(
            order.max_timestamp.tolist(),
            order.input_rank.tolist(),
            order.offset.tolist(),
            order.depth.tolist(),
            strict=True,
        )
    )


def _driver(case: _Case) -> TopologyTestDriver:
    """A driver with a task for each sub-topology."""
    return TopologyTestDriver(
        case.application.topology,
        case.config,
        partitions={row[0]: 1 for row in case.spec["input"] if row[0] != "@wall"},
        task_layout="split",
        wall_clock=case.spec.get("wall", 0),
    )


def _stores(driver: TopologyTestDriver, case: _Case, answer: dict[str, Any]) -> dict[str, Any]:
    spec = case.spec
    mine = {name for task in driver.tasks.by_id.values() for name in task.stores}
    stores = dump_stores(driver, keys_of(spec, answer), cached=bool(spec.get("cache")))
    cached = {name for name, rows in stores.items() if spec.get("cache") and rows["kind"] == "session"}
    found: dict[str, Any] = {"stores": {name: rows for name, rows in stores.items() if name in mine - cached}}
    if "queries" in spec:
        found["queries"] = dump_queries(driver, spec["queries"])
    return found


def _verdict(case: _Case) -> Verdict:
    """Compare with the vector's own answer, or, if a rule allows it, with the driver in the same layout."""
    name = case.vector["name"]
    differences = compare(_comparable(case, case.vector["answer"], case.answer), case.answer)
    if not differences:
        return name, "passed", [], ""
    rule = _rule(case)
    if not rule:
        return name, "failed", [*differences, "no rule of D-001 explains this"], ""
    differences = compare(_comparable(case, _driven(case), case.answer), case.answer)
    return name, "failed" if differences else "passed", differences, rule


def _rule(case: _Case) -> str:
    """Return the rule that may explain a difference, "" for none."""
    groups = [group for group in case.application.topology.subtopologies() if not group.is_global]
    if len(groups) > 1:
        return "one task"
    if any(source.pattern for source in case.application.topology.sources()):
        return "offsets"
    several_topics = len({topic for topics in case.application.reads.values() for topic in topics}) > 1
    several_own = sum(hasattr(getattr(node, "operator", None), "supplier") for node in _nodes(case)) > 1
    return "ties" if several_topics or several_own or case.application.cycles else ""


def _nodes(case: _Case) -> Iterable[Any]:
    return case.application.topology.nodes.values()


def _comparable(case: _Case, answer: dict[str, Any], actual: dict[str, Any]) -> dict[str, Any]:
    """Return the parts that Spark can answer: all drops together, and stores that are neither global nor cached."""
    counted = answer["dropped"] if isinstance(answer["dropped"], int) else sum(n for _, n in answer["dropped"])
    if case.application.global_topics and not case.reads_tables:
        counted = actual["dropped"]  # a global table that no task reads is not stored
    stores = {name: rows for name, rows in answer["stores"].items() if name in actual["stores"]}
    queries = {"queries": answer["queries"]} if "queries" in answer else {}
    return {"steps": answer["steps"], "dropped": counted, "stores": stores, **queries}


def _driven(case: _Case) -> dict[str, Any]:
    answer: dict[str, Any] = {"steps": []}
    with _driver(case) as driver:
        types = output_types(case.spec)
        for row in case.spec["input"]:
            feed(driver, row, case.spec)
            answer["steps"].append(read_outputs(driver, types))
        answer["dropped"] = dropped(driver)
        return answer | _stores(driver, case, answer)
