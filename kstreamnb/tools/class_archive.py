"""Writes the archive of Spark's classes, from which later sessions on this machine start."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.kafka.storage.temp_dirs import temp_dir
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.contracts import StreamSettings
from kstreamnb.spark.deploy import query_of
from kstreamnb.spark.io.offset_source import FileOffsetSource
from kstreamnb.spark.io.sinks import FunctionSink
from kstreamnb.spark.jvm.launch_patches import OPTIONS, Launch
from kstreamnb.spark.jvm.patches import DISABLED_VARIABLE
from kstreamnb.spark.jvm.session import end_jvm, spark_session
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from kstreamnb.spark.run import run


def archive_classes() -> Path:
    """Start a session, run a topology and a stream, and archive the loaded classes; return the path of the archive.

    Call it in a process without a session, because the JVM ends. Java cannot archive classes while an agent is loaded,
    so this session has none.

    Raises: FileNotFoundError if Java wrote no archive.
    """
    archive = Launch(local=True, submitted=False, folder=temp_dir("spark")).archive
    with TemporaryDirectory(dir=archive.parent) as work:  # beside the archive: a rename there is atomic
        new = Path(work, "classes.jsa")
        os.environ |= {OPTIONS: f'"-XX:ArchiveClassesAtExit={new}"', DISABLED_VARIABLE: "class-archive,batch-agent"}
        spark = spark_session("classes")
        _load_classes(spark, Path(work))
        jvm = spark.sparkContext._gateway.proc  # noqa: SLF001
        spark.stop()
        end_jvm()
        jvm.wait()
        return new.replace(archive)


def _load_classes(spark: SparkSession, folder: Path) -> None:
    """Run a topology over a frame, and as a query with state and records of a file."""
    builder = StreamsBuilder("classes")
    builder.stream("in").group_by_key().count().to_stream().to("out")
    topology = builder.build()
    records = spark.createDataFrame([(1, b"a", b"1")], "timestamp bigint, key binary, value binary")
    run(topology, spark=spark, inputs={"in": records})
    deployment = plan_deployment("classes", [plan_application(topology, Config(), {"in": 2}, direct=False)], 2)
    batches = [{("in", part): [(at, "a", 1, ())] for part in range(2)} for at in range(3)]
    source = FileOffsetSource.write(folder / "records", batches)
    settings = StreamSettings(folder / "checkpoint", None, max_records=1)
    sink = FunctionSink(lambda output, batch: None)
    query_of(spark, deployment, source, sink, settings).restart().await_termination()
