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
        "kstreamnb.description": ("TopologyDescription",),
        "kstreamnb.view.diff": ("TopologyDiff",),
        "kstreamnb.testing": ("diff",),
        "kstreamnb.view.parser": ("parse_description",),
        "kstreamnb.runtime.config": ("Config",),
        "kstreamnb.driver": ("Replay", "TopologyTestDriver", "replay"),
        "kstreamnb.driver.cluster": ("Application", "ClusterDriver"),
        "kstreamnb.driver.group": ("ConsumerGroup",),
        "kstreamnb.driver.log": ("Log", "create_topic"),
        "kstreamnb.driver.explore": ("Exploration", "explore"),
        "kstreamnb.driver.checks": ("check", "check_partitions"),
        "kstreamnb.driver.mock_context": ("MockProcessorContext",),
        "kstreamnb.driver.config_file": ("read_config",),
        "kstreamnb.driver.config_report": ("config_report",),
        "kstreamnb.measuring": ("Benchmark", "benchmark"),
        "kstreamnb.side_by_side": ("Parity", "parity", "verify_state"),
        "kstreamnb.preview": ("head",),
        "kstreamnb.notebook.export": ("export",),
        "kstreamnb.notebook.opening": ("browse", "edit", "explorer", "panel", "stepper"),
        "kstreamnb.spark.plan": ("DeploymentPlan", "plan"),
        "kstreamnb.samples": ("Sample", "SampleStatistics"),
        "kstreamnb.serving": ("StoreServer", "serve"),
        "kstreamnb.spark.batch": ("run",),
        "kstreamnb.spark.deploy": ("deploy",),
        "kstreamnb.spark.query": ("Query", "active", "stop_all"),
        "kstreamnb.spark.stored": ("read_store",),
        "kstreamnb.spark.rescale": ("rescale",),
        "kstreamnb.spark.sinks": ("FrameSink", "FunctionSink"),
        "kstreamnb.spark.idempotent_sinks": ("DatabaseSink", "ParquetSink"),
        "kstreamnb.spark.journal": ("log_to",),
        "kstreamnb.spark.alerts": ("Alert", "alert_rules", "alerts", "prometheus_rules"),
        "kstreamnb.spark.prometheus": ("serve_metrics",),
        "kstreamnb.spark.profiles": ("spark_report",),
        "kstreamnb.spark.session": ("spark_logs", "spark_session"),
        "kstreamnb.kafka.admin": ("Admin",),
        "kstreamnb.kafka.broker": ("LocalBroker", "local_broker"),
        "kstreamnb.kafka.connect": ("connect_config",),
        "kstreamnb.kafka.log_handler": ("KafkaLogHandler",),
        "kstreamnb.kafka.produce": ("RecordProducer", "produce"),
        "kstreamnb.kafka.registry": ("SchemaRegistry",),
        "kstreamnb.kafka.sending": ("RoundRobin",),
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
    from kstreamnb.description import TopologyDescription as TopologyDescription
    from kstreamnb.driver import Replay as Replay
    from kstreamnb.driver import TopologyTestDriver as TopologyTestDriver
    from kstreamnb.driver import replay as replay
    from kstreamnb.driver.cluster import Application as Application
    from kstreamnb.driver.cluster import ClusterDriver as ClusterDriver
    from kstreamnb.driver.explore import Exploration as Exploration
    from kstreamnb.driver.explore import explore as explore
    from kstreamnb.driver.group import ConsumerGroup as ConsumerGroup
    from kstreamnb.driver.log import Log as Log
    from kstreamnb.driver.log import create_topic as create_topic
    from kstreamnb.driver.mock_context import MockProcessorContext as MockProcessorContext
    from kstreamnb.dsl.builder import StreamsBuilder as StreamsBuilder
    from kstreamnb.notebook.export import export as export
    from kstreamnb.preview import head as head
    from kstreamnb.runtime.config import Config as Config
    from kstreamnb.samples import Sample as Sample
    from kstreamnb.testing import diff as diff
    from kstreamnb.topology.topology import Topology as Topology
    from kstreamnb.view.parser import parse_description as parse_description


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
