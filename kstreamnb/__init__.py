"""Kafka Streams for notebooks: build a topology cell by cell, replay it deterministically, deploy it to Spark.

    import kstreamnb as ks

    builder = ks.StreamsBuilder("word-count")
    builder.stream("text").flat_map_values(str.split).group_by(lambda k, word: word).count(store="counts")
    print(builder.build().describe())

Names are loaded when they are first used, so importing the package costs little and needs neither Java nor Kafka.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kstreamnb import hooks

__version__ = "0.1.0"

_WHERE: dict[str, str] = {
    name: module
    for module, names in {
        "kstreamnb.dsl.builder": ("StreamsBuilder",),
        "kstreamnb.dsl.fronts": ("GlobalKTable", "KStream", "KTable"),
        "kstreamnb.dsl.streams": ("BranchedKStream",),
        "kstreamnb.dsl.aggregating": ("KGroupedTable", "SessionWindowedCogroupedKStream"),
        "kstreamnb.dsl.grouping": (
            "CogroupedKStream", "KGroupedStream", "SessionWindowedKStream", "TimeWindowedCogroupedKStream",
            "TimeWindowedKStream",
        ),
        "kstreamnb.dsl.options": (
            "Branched", "BufferConfig", "Consumed", "EmitStrategy", "Grouped", "Joined", "Materialized", "Named",
            "Printed", "Produced", "Repartitioned", "StreamJoined", "Suppressed", "TableJoined",
        ),
        "kstreamnb.core.windows": (
            "JoinWindows", "SessionWindows", "SlidingWindows", "TimeWindows", "UnlimitedWindows",
        ),
        "kstreamnb.core.record": (
            "Change", "Record", "RecordMetadata", "TopicPartition", "TopicRecord", "ValueAndTimestamp", "Windowed",
        ),
        "kstreamnb.core.processor": (
            "FixedKeyProcessor", "FixedKeyRecord", "Processor", "ProcessorContext", "PunctuationType",
        ),
        "kstreamnb.core.extractors": (
            "FailOnInvalidTimestamp", "LogAndSkipOnInvalidTimestamp", "UsePartitionTimeOnInvalidTimestamp",
            "WallclockTimestampExtractor",
        ),
        "kstreamnb.core.serdes": ("Serdes",),
        "kstreamnb.core.serde": ("Serde",),
        "kstreamnb.core.stores": ("StoreSpec", "Stores", "VersionedRecord"),
        "kstreamnb.topology.topology": ("Topology",),
        "kstreamnb.topology.description": ("TopologyDescription",),
        "kstreamnb.display.diff": ("TopologyDiff",),
        "kstreamnb.testing": ("diff",),
        "kstreamnb.display.parser": ("parse_description",),
        "kstreamnb.runtime.context.config": ("Config",),
        "kstreamnb.testdriver.topology_test_driver": ("TopologyTestDriver",),
        "kstreamnb.replays.replay": ("Replay",),
        "kstreamnb.replays.replay_sample": ("replay",),
        "kstreamnb.simulation.cluster": ("Application", "ClusterDriver"),
        "kstreamnb.simulation.consumer_group": ("ConsumerGroup",),
        "kstreamnb.simulation.log": ("Log", "create_topic"),
        "kstreamnb.testdriver.races.race_detector": ("RaceReport", "find_races"),
        "kstreamnb.validation.preflight": ("check", "check_partitions"),
        "kstreamnb.testdriver.mock_processor_context": ("MockProcessorContext",),
        "kstreamnb.validation.config_file": ("read_config",),
        "kstreamnb.validation.config_report": ("config_report",),
        "kstreamnb.tools.benchmark": ("Benchmark", "benchmark"),
        "kstreamnb.tools.parity": ("Parity", "parity", "verify_state"),
        "kstreamnb.tools.preview": ("head",),
        "kstreamnb.notebook.export": ("export",),
        "kstreamnb.notebook.opening": ("browse", "edit", "explorer", "panel", "stepper"),
        "kstreamnb.spark.planning.deployment_plan": ("DeploymentPlan", "plan"),
        "kstreamnb.samples": ("Sample", "SampleStatistics"),
        "kstreamnb.tools.store_server": ("StoreServer", "serve"),
        "kstreamnb.spark.run": ("run",),
        "kstreamnb.spark.deploy": ("deploy",),
        "kstreamnb.spark.query.query": ("Query", "active", "stop_all"),
        "kstreamnb.spark.state.read_store": ("read_store",),
        "kstreamnb.spark.operations.rescale": ("rescale",),
        "kstreamnb.spark.io.sinks": ("FrameSink", "FunctionSink"),
        "kstreamnb.spark.io.idempotent_sinks": ("DatabaseSink", "ParquetSink"),
        "kstreamnb.spark.telemetry.query_log": ("log_to",),
        "kstreamnb.spark.operations.alerts": ("Alert", "alert_rules", "alerts", "prometheus_rules"),
        "kstreamnb.spark.operations.prometheus": ("serve_metrics",),
        "kstreamnb.spark.jvm.profiles": ("spark_report",),
        "kstreamnb.spark.jvm.session": ("spark_logs", "spark_session"),
        "kstreamnb.kafka.admin": ("Admin",),
        "kstreamnb.kafka.local_broker": ("LocalBroker", "local_broker"),
        "kstreamnb.kafka.connect": ("connect_config",),
        "kstreamnb.kafka.log_handler": ("KafkaLogHandler",),
        "kstreamnb.kafka.producer": ("RecordProducer", "produce"),
        "kstreamnb.kafka.registry": ("SchemaRegistry",),
        "kstreamnb.kafka.partitioners": ("RoundRobin",),
        "kstreamnb.kafka.reset": ("plan_reset", "reset"),
        "kstreamnb.errors": (
            "BufferExhaustedError", "ConfigError", "EngineError", "KStreamError", "MissingPackageError",
            "ProcessingError", "SerdeError", "StateError", "TopologyError", "UnknownNameError",
        ),
    }.items()
    for name in names
}  # fmt: skip

__all__ = ["__version__", *sorted(_WHERE)]

if TYPE_CHECKING:
    from kstreamnb.core.extractors import (
        FailOnInvalidTimestamp as FailOnInvalidTimestamp,
    )
    from kstreamnb.core.extractors import (
        LogAndSkipOnInvalidTimestamp as LogAndSkipOnInvalidTimestamp,
    )
    from kstreamnb.core.extractors import (
        UsePartitionTimeOnInvalidTimestamp as UsePartitionTimeOnInvalidTimestamp,
    )
    from kstreamnb.core.extractors import (
        WallclockTimestampExtractor as WallclockTimestampExtractor,
    )
    from kstreamnb.core.processor import FixedKeyProcessor as FixedKeyProcessor
    from kstreamnb.core.processor import Processor as Processor
    from kstreamnb.core.processor import ProcessorContext as ProcessorContext
    from kstreamnb.core.processor import PunctuationType as PunctuationType
    from kstreamnb.core.record import Change as Change
    from kstreamnb.core.record import Record as Record
    from kstreamnb.core.record import RecordMetadata as RecordMetadata
    from kstreamnb.core.record import TopicPartition as TopicPartition
    from kstreamnb.core.record import TopicRecord as TopicRecord
    from kstreamnb.core.record import ValueAndTimestamp as ValueAndTimestamp
    from kstreamnb.core.record import Windowed as Windowed
    from kstreamnb.core.serde import Serde as Serde
    from kstreamnb.core.serdes import Serdes as Serdes
    from kstreamnb.core.stores import Stores as Stores
    from kstreamnb.core.stores import StoreSpec as StoreSpec
    from kstreamnb.core.stores import VersionedRecord as VersionedRecord
    from kstreamnb.core.windows import JoinWindows as JoinWindows
    from kstreamnb.core.windows import SessionWindows as SessionWindows
    from kstreamnb.core.windows import SlidingWindows as SlidingWindows
    from kstreamnb.core.windows import TimeWindows as TimeWindows
    from kstreamnb.core.windows import UnlimitedWindows as UnlimitedWindows
    from kstreamnb.display.parser import parse_description as parse_description
    from kstreamnb.dsl.builder import StreamsBuilder as StreamsBuilder
    from kstreamnb.notebook.export import export as export
    from kstreamnb.replays.replay import Replay as Replay
    from kstreamnb.replays.replay_sample import replay as replay
    from kstreamnb.runtime.context.config import Config as Config
    from kstreamnb.samples import Sample as Sample
    from kstreamnb.simulation.cluster import Application as Application
    from kstreamnb.simulation.cluster import ClusterDriver as ClusterDriver
    from kstreamnb.simulation.consumer_group import ConsumerGroup as ConsumerGroup
    from kstreamnb.simulation.log import Log as Log
    from kstreamnb.simulation.log import create_topic as create_topic
    from kstreamnb.testdriver.mock_processor_context import MockProcessorContext as MockProcessorContext
    from kstreamnb.testdriver.races.race_detector import RaceReport as RaceReport
    from kstreamnb.testdriver.races.race_detector import find_races as find_races
    from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver as TopologyTestDriver
    from kstreamnb.testing import diff as diff
    from kstreamnb.tools.preview import head as head
    from kstreamnb.topology.description import TopologyDescription as TopologyDescription
    from kstreamnb.topology.topology import Topology as Topology


hooks.install(
    mimebundle=hooks.lazy("kstreamnb.display", "mimebundle"),
    draw=hooks.lazy("kstreamnb.display", "draw"),
    preview=hooks.lazy("kstreamnb.tools.preview", "first_records"),
)


def __getattr__(name: str) -> Any:
    """Load a public name from the module that has it."""
    from kstreamnb.errors import UnknownNameError, extra

    module = _WHERE.get(name)
    if module is None:
        raise UnknownNameError("kstreamnb", name, _WHERE)
    with extra(module.split(".")[1]):
        value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *_WHERE})


def load_ipython_extension(shell: Any) -> None:
    """Called by ``%load_ext kstreamnb``."""
    importlib.import_module("kstreamnb.notebook.extension").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Called by ``%unload_ext kstreamnb``."""
    importlib.import_module("kstreamnb.notebook.extension").unload(shell)
