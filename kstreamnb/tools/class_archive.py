"""Writes the archive of Spark's classes, from which later sessions on this machine start."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.kafka.storage.temp_dirs import temp_dir
from kstreamnb.spark.jvm.launch_patches import OPTIONS, Launch
from kstreamnb.spark.jvm.patches import DISABLED_VARIABLE
from kstreamnb.spark.jvm.session import end_jvm, spark_session
from kstreamnb.spark.run import run


def archive_classes() -> Path:
    """Start a session, run a topology and a stream, and archive what the JVM has loaded; return the archive's path.

    Call it in a process without a session: its JVM ends. Java refuses to archive beside an agent, so it has none.

    Raises: FileNotFoundError if Java wrote no archive.
    """
    archive = Launch(local=True, submitted=False, folder=temp_dir("spark")).archive
    with TemporaryDirectory(dir=archive.parent) as work:  # beside the archive: a rename there is atomic
        new = Path(work, "classes.jsa")
        os.environ |= {OPTIONS: f'"-XX:ArchiveClassesAtExit={new}"', DISABLED_VARIABLE: "class-archive,batch-agent"}
        spark = spark_session("classes")
        _load_classes(spark)
        jvm = spark.sparkContext._gateway.proc  # noqa: SLF001
        spark.stop()
        end_jvm()
        jvm.wait()
        return new.replace(archive)


def _load_classes(spark: SparkSession) -> None:
    builder = StreamsBuilder("classes")
    builder.stream("in").group_by_key().count().to_stream().to("out")
    records = spark.createDataFrame([(1, b"a", b"1")], "timestamp bigint, key binary, value binary")
    run(builder.build(), spark=spark, inputs={"in": records})
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    ticks.writeStream.trigger(once=True).foreachBatch(lambda frame, _: frame.collect()).start().awaitTermination()
