"""Kafka Streams for notebooks: build a topology cell by cell, replay it deterministically, deploy it to Spark.

    import kstreamnb as ks

    builder = ks.StreamsBuilder("word-count")
    builder.stream("text").flat_map_values(str.split).group_by(lambda k, word: word).count(store="counts")
    print(builder.build().describe())

The public names; ``help(ks.StreamsBuilder)`` documents one, ``python -m pydoc kstreamnb`` all of them:

- Declare: StreamsBuilder; it makes KStream, KTable and GlobalKTable, and these make KGroupedStream, KGroupedTable,
  CogroupedKStream, TimeWindowedKStream, SessionWindowedKStream, TimeWindowedCogroupedKStream,
  SessionWindowedCogroupedKStream and BranchedKStream. `build` makes a Topology, or write one node by node.
- Options: Consumed, Produced, Materialized, Grouped, Joined, StreamJoined, TableJoined, Repartitioned, Suppressed,
  BufferConfig, EmitStrategy, Branched, Printed, Named
- Windows: TimeWindows, SlidingWindows, SessionWindows, JoinWindows, UnlimitedWindows
- Try: Sample, replay, Replay, head, TopologyTestDriver, TopologyDescription, parse_description
- Run on Spark: run, plan, deploy, adopt, Query
- Configure: Config, read_config, config_report, Serde, Serdes, FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp,
  UsePartitionTimeOnInvalidTimestamp, WallclockTimestampExtractor
- Write processors: Processor, FixedKeyProcessor, ProcessorContext, PunctuationType, Record, FixedKeyRecord,
  RecordMetadata, Stores, StoreSpec
- Read results: TopicRecord, TopicPartition, Windowed, Change, ValueAndTimestamp, ValueTimestampHeaders,
  AggregationWithHeaders, VersionedRecord
- Handle errors: KStreamError, ErrorContext, ErrorResponse, DeadLetter
- Packages: errors, kafka, monitoring, samples, simulation, spark, testing, widgets; notebook, course

Names are loaded when they are first used, so importing the package costs little and needs neither Java nor Kafka.
"""

from __future__ import annotations

import sys
from importlib import import_module

from kstreamnb import hooks
from kstreamnb.errors import extra
from kstreamnb.hints import explaining
from kstreamnb.lazy_names import lazy_names

__version__ = "0.1.0"

__getattr__, __dir__, _names = lazy_names(__name__, __file__, "spark")
__all__ = ["__version__", *_names]

# Scripts get the hints about calls that notebooks get.
sys.excepthook = explaining(sys.excepthook, hooks.lazy("kstreamnb.tools.python_notes", "python_notes"))

hooks.install(
    mimebundle=hooks.lazy("kstreamnb.display.mime", "mimebundle"),
    draw=hooks.lazy("kstreamnb.display.mime", "draw"),
    pandas_frame=hooks.lazy("kstreamnb.samples.frames", "pandas_frame"),
    spark_frame=hooks.lazy("kstreamnb.samples.frames", "spark_frame"),
    node_seconds=hooks.lazy("kstreamnb.tools.cpu_profile", "node_seconds"),
    preview=hooks.lazy("kstreamnb.tools.preview", "first_records"),
    warm_up=hooks.lazy("kstreamnb.spark.query.warm_up_job", "run_warm_up"),
)


@extra("notebook")
def load_ipython_extension(shell: object) -> None:
    """Called by ``%load_ext kstreamnb``."""
    import_module("kstreamnb.notebook.extension").load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Called by ``%unload_ext kstreamnb``."""
    import_module("kstreamnb.notebook.extension").unload(shell)
