"""Parity: runs a topology on a sample in the driver and on Spark, and compares the outputs partition by partition.

It connects the driver with Spark; neither imports the other. Users call it, and notebooks call it before they
deploy. It also compares the stores of a query.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.formatting import join_list, pluralize
from kstreamnb.core.progress import under_way
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.tables import Tabular, escaped, html_table
from kstreamnb.display.mime import data_of
from kstreamnb.errors import KStreamError, extra
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.testdriver.execution.state_consistency import StateCheck, StateDifference, differences
from kstreamnb.testdriver.sample_partitions import Partitions, partitions_for
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology
from kstreamnb.validation.output_diff import OutputDiff
from kstreamnb.validation.output_diff import diff as output_diff

if TYPE_CHECKING:  # Spark is loaded when it is needed
    from pyspark.sql import SparkSession

    from kstreamnb.spark.query.query import Query

_BATCHES = 4

Outputs: TypeAlias = "Mapping[str, list[TopicRecord]]"


@dataclass(frozen=True)
class EngineOutcome:
    """The result of one engine for a sample: records by output topic, how many it dropped, the error that ended it."""

    engine: str
    outputs: Outputs = field(default_factory=dict)
    dropped: int = 0
    error: KStreamError | None = None

    def counts(self) -> dict[tuple[str, int], int]:
        """Count records by topic and partition."""
        return Counter((topic, each.partition) for topic, records in self.outputs.items() for each in records)


@dataclass(frozen=True, repr=False)
class Parity(Tabular):
    """The outputs of the driver and Spark, compared; ``differences`` maps an engine to rows that differ.

    Args:
        sample: one line about the input.
        outcomes: the output of each engine, the driver's first.
        differences: what differs from the driver, by engine.

    Example:
        >>> outputs = {"totals": [TopicRecord("totals", 0, 0, 5, "shoe", 3)]}
        >>> driver, spark = EngineOutcome("driver", outputs), EngineOutcome("Spark", outputs, dropped=1)
        >>> print(Parity("2 records", (driver, spark), {"Spark": output_diff(outputs, outputs)}))
        driver and Spark DIFFER on 2 records
        topic  | partition | driver | Spark |
        -------+-----------+--------+-------+------
        totals | 0         | 1      | 1     | equal
        dropped: driver 0, Spark 1
    """

    sample: str
    outcomes: tuple[EngineOutcome, ...]
    differences: Mapping[str, OutputDiff]

    @property
    def is_equal(self) -> bool:
        """Whether every engine produced the same records of the sample, and dropped and failed alike."""
        driver, *others = self.outcomes
        same = all(each.dropped == driver.dropped and _failure(each) == _failure(driver) for each in others)
        return same and not any(difference.rows for difference in self.differences.values())

    @property
    def header(self) -> tuple[str, ...]:
        """Engines are columns."""
        return ("topic", "partition", *(each.engine for each in self.outcomes), "")

    @property
    def title(self) -> str:
        """The verdict, with the sample it holds for."""
        engines = join_list(each.engine for each in self.outcomes)
        return f"{engines} {'agree' if self.is_equal else 'DIFFER'} on {self.sample}"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield records of each engine by topic and partition, and whether they are equal."""
        counts = [each.counts() for each in self.outcomes]
        wrong = [(row.topic, row.partition) for difference in self.differences.values() for row in difference.rows]
        for topic, partition in sorted({*chain.from_iterable(counts)}):
            rows = wrong.count((topic, partition))
            verdict = f"{pluralize(rows, 'row')} differ" if rows else "equal"
            yield (topic, str(partition), *(f"{count.get((topic, partition), 0):,}" for count in counts), verdict)

    def more(self) -> Iterator[str]:
        """Yield dropped records, errors, and what differs row by row."""
        dropped = {each.engine: each.dropped for each in self.outcomes}
        if any(dropped.values()):
            yield "dropped: " + ", ".join(f"{engine} {number:,}" for engine, number in dropped.items())
        for each in self.outcomes:
            if each.error is not None:
                yield f"{each.engine} failed: {type(each.error).__name__}: {each.error}"
        for difference in self.differences.values():
            if difference.rows:
                yield str(difference)


@extra("spark")
def parity(
    topology: Topology,
    sample: Iterable[TopicRecord],
    spark: SparkSession | None = None,
    *,
    partitions: Partitions = 1,
    config: Config | Mapping[str, Any] | None = None,
    streaming: bool = False,
) -> Parity:
    r"""Run a sample through the driver and through Spark, and compare the output, partition by partition.

    An error of an engine is part of the comparison: it ends only that engine's run. With ``streaming``, a record with
    time 0 gets the time 1 ms in all engines, because Kafka's client cannot send 0.

    Args:
        topology: the topology, from ``builder.build()``.
        sample: records of the topology's topics.
        spark: the session; without one, ``spark_session()`` starts one. Default: None.
        partitions: partitions of topics by name, or one number for all. Default: 1.
        config: settings by Python's or Kafka's names. Default: `Config()`.
        streaming: also deploy it, from a temporary local broker and back to it, in micro-batches. Default: False.

    Example:
        >>> from kstreamnb import Sample, StreamsBuilder
        >>> builder = StreamsBuilder("shop")
        >>> builder.stream("orders").group_by_key().count().to_stream().to("totals", value_serde="long")
        >>> sample = Sample.from_text("topic | key | value | time\norders | a | 1 | 5\norders | a | 3 | 7")
        >>> print(parity(builder.build(), sample))
        driver and Spark agree on 2 records
        topic  | partition | driver | Spark |
        -------+-----------+--------+-------+------
        totals | 0         | 2      | 2     | equal
    """
    check_arguments(parity, locals())
    read = topology.sources()
    records = [record for record in sample if any(source.reads(record.topic) for source in read)]
    partitions = partitions_for(topology, records, partitions)
    engines: dict[str, Callable[[], EngineOutcome]] = {
        "driver": lambda: driver_outcome(topology, records, partitions, config),
        "Spark": lambda: _on_frames(topology, records, partitions, config, spark),
    }
    if streaming:
        records = [record._replace(timestamp=record.timestamp or 1) for record in records]  # as Kafka's client sends 0
        engines["Kafka"] = lambda: _on_kafka(topology, records, partitions, config, spark)
    outcomes = []
    with under_way("engines", len(engines)) as done:
        for engine, run in engines.items():
            try:
                outcomes.append(run())
            except KStreamError as error:
                outcomes.append(EngineOutcome(engine, error=error))
            done(1)
    driver, *others = outcomes
    diffs = ((each.engine, output_diff(driver.outputs, each.outputs)) for each in others)
    compared = {engine: replace(diff, names=("driver", engine)) for engine, diff in diffs}
    return Parity(pluralize(len(records), "record"), tuple(outcomes), compared)


def verify_state(query: Query) -> StateCheck:
    r"""Compare every store of a deployed query with its state log in the checkpoint, row by row.

    The store is the one that ``query.store(name)`` shows. If the deployment writes changelog topics, the stores of the
    log are also compared with those of the topics. Processing pauses during the comparison. A stopped query can be
    compared, too.

    Args:
        query: the query that `deploy` returned.

    Raises: EngineError if a batch was published that the checkpoint has not committed; a restart commits it.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from kstreamnb import Sample, StreamsBuilder, deploy
        >>> from kstreamnb.kafka import Admin, local_broker, produce
        >>> builder = StreamsBuilder("visits")
        >>> counts = builder.stream("pages").group_by_key().count(store="counts")
        >>> sample = Sample.from_text("topic | key | value | time\npages | a | 1 | 5\npages | a | 2 | 6")
        >>> with local_broker() as broker, TemporaryDirectory() as checkpoint:
        ...     servers = broker.bootstrap_servers
        ...     Admin(servers).create_topic("pages")
        ...     sent = produce(servers, sample)
        ...     query = deploy(builder.build(), bootstrap_servers=servers, checkpoint=checkpoint, changelogs=True)
        ...     done = query.await_input()
        ...     print(verify_state(query))
        ...     query.stop()
        state is consistent: 1 store compared
    """
    from kstreamnb.spark.operations.state_verification import rebuilt_stores

    differing: list[StateDifference] = []
    stores = 0
    with under_way("stores") as done:
        for task, store, made, against in rebuilt_stores(query):
            stores += against == "log"
            differing += differences(task, store, made, against)
            done(1)
    return StateCheck(tuple(differing), stores)


def _failure(outcome: EngineOutcome) -> tuple[Any, ...] | None:
    error = outcome.error
    return None if error is None else (type(error), getattr(error, "node", ""), getattr(error, "coordinates", None))


def driver_outcome(
    topology: Topology, records: list[TopicRecord], partitions: Partitions, config: Any = None
) -> EngineOutcome:
    """Run records through the driver."""
    with TopologyTestDriver(topology, config, partitions=partitions) as driver:
        driver.pipe(records)
        topics = sorted(driver.produced_topic_names() - internal_topics(topology, config))
        outputs = {topic: driver.create_output_topic(topic).read_records() for topic in topics}
        dropped = int(sum(driver.metrics()["dropped-records-total"].values()))
    return EngineOutcome("driver", outputs, dropped)


def internal_topics(topology: Topology, config: Config | Mapping[str, Any] | None = None) -> set[str]:
    """Return the names that topics between sub-topologies, and changelogs, have in Kafka."""
    application = TaskPlan(topology, (), config=Config.of(config)).application_id
    return {topic.name for topic in topology.owned_topics(application)}


def _on_frames(
    topology: Topology, records: list[TopicRecord], partitions: Partitions, config: Any, spark: Any
) -> EngineOutcome:
    from kstreamnb.spark.run import run

    result = run(topology, spark=spark, inputs=records, config=config, partitions=partitions, keep_stores=False)
    try:
        parts = {topic: result.records(topic).values() for topic in result.outputs}
        outputs = {topic: [record for part in by_partition for record in part] for topic, by_partition in parts.items()}
        return EngineOutcome("Spark", outputs, result.counts()["dropped"])
    finally:
        result.close()


def _on_kafka(
    topology: Topology, records: list[TopicRecord], partitions: Partitions, config: Any, spark: Any
) -> EngineOutcome:
    """Run through a local broker; the batches are small, so that there are several."""
    from kstreamnb.kafka.admin import Admin
    from kstreamnb.kafka.broker_process import local_broker
    from kstreamnb.kafka.capture import CaptureLimits, capture
    from kstreamnb.kafka.output_batch import commits_topic
    from kstreamnb.kafka.producer import produce
    from kstreamnb.spark.deploy import deploy
    from kstreamnb.spark.planning.output_topics import reader_serdes, writer_serdes
    from kstreamnb.spark.planning.placement import plan_application

    count = partitions if isinstance(partitions, int) else 1
    counts = dict.fromkeys((record.topic for record in records), count)
    counts |= {} if isinstance(partitions, int) else partitions
    application = plan_application(topology, Config.of(config), counts, direct=False, default_partitions=count)
    inputs = {*application.inputs, *(record.topic for record in records)}
    with local_broker() as broker, tempfile.TemporaryDirectory(prefix="kstreamnb-parity-") as checkpoint:
        servers = broker.bootstrap_servers
        for topic in sorted(inputs | counts.keys()):
            Admin(servers).create_topic(topic, partitions=counts.get(topic, count))
        for topic in sorted(inputs):
            key_serde, value_serde = reader_serdes(application.plan, topic)
            sent = [record for record in records if record.topic == topic]
            keep = all(record.partition >= 0 for record in sent)
            produce(servers, sent, keep_partitions=keep, key_serde=key_serde, value_serde=value_serde)
        query = deploy(
            topology,
            spark=spark,
            bootstrap_servers=servers,
            checkpoint=checkpoint,
            config=config,
            application_id=application.id,
            available_now=True,
            max_records=max(1, len(records) // _BATCHES),
        )
        query.await_termination()
        outputs = {}
        everything = CaptureLimits(records=None, bytes=None, seconds=None)
        written = {topic for topic in Admin(servers).topics() if not topic.startswith("__")}
        for topic in sorted(written - inputs - internal_topics(topology, config) - {commits_topic(application.id)}):
            key_serde, value_serde = writer_serdes(application, topic)
            captured = capture(servers, [topic], everything, key_serde=key_serde, value_serde=value_serde)
            outputs[topic] = list(captured.records)
        return EngineOutcome("Kafka", outputs, sum(batch.dropped for batch in query.recent()))


@data_of.register
def _(thing: Parity) -> dict[str, str]:
    rows = list(thing.table())
    differing = [difference for difference in thing.differences.values() if difference.rows]
    tables = "".join((data_of(difference) or {})["text/html"] for difference in differing)
    lines = "".join(f"<p>{escaped(line)}</p>" for line in list(thing.more())[: -len(differing) or None])
    page = f"<p><b>{escaped(thing.title)}</b></p>{html_table(thing.header, rows) if rows else ''}{lines}{tables}"
    return {"text/plain": str(thing), "text/html": f"<div>{page}</div>"}
