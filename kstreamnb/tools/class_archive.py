"""Writes the archive of Spark's classes, from which later sessions on this machine start."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.kafka.storage.temp_dirs import temp_dir
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.contracts import Chunk, OffsetSource, StreamSettings
from kstreamnb.spark.deploy import query_of
from kstreamnb.spark.io.sinks import FunctionSink
from kstreamnb.spark.jvm.launch_patches import OPTIONS, Launch
from kstreamnb.spark.jvm.patches import DISABLED_VARIABLE
from kstreamnb.spark.jvm.session import end_jvm, spark_session
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from kstreamnb.spark.run import run


class _FewRecords(OffsetSource):
    """Three batches of a record in each of two partitions."""

    raw = True

    def beginning(self) -> Offsets:
        return {"in": {0: 0, 1: 0}}

    def end(self) -> Offsets:
        return {"in": {0: 3, 1: 3}}

    def batch_end(self, start: Offsets, end: Offsets, limit: int) -> Offsets:
        return {"in": {partition: offset + 1 for partition, offset in start["in"].items()}}

    def now_ms(self) -> int:
        return 0

    def read(self, pieces: Sequence[tuple[str, int, int, int]]) -> Iterator[Chunk]:
        for topic, partition, offset, _ in pieces:
            yield topic, partition, [(offset, offset, b"a", b"1", ())], None


def archive_classes() -> Path:
    """Start a session, run a topology and a stream, and archive the loaded classes; return the path of the archive.

    Call it in a process without a session, because the JVM ends.

    Raises: FileNotFoundError if Java wrote no archive.
    """
    archive = Launch(local=True, submitted=False, folder=temp_dir("spark")).archive
    with TemporaryDirectory(dir=archive.parent) as work:  # beside the archive: a rename there is atomic
        new = Path(work, "classes.jsa")
        # Java would archive the classes that batch-classes changes, and use them where that patch is switched off.
        os.environ |= {OPTIONS: f'"-XX:ArchiveClassesAtExit={new}"', DISABLED_VARIABLE: "class-archive,batch-classes"}
        spark = spark_session("classes")
        _load_classes(spark, Path(work))
        jvm = spark.sparkContext._gateway.proc  # noqa: SLF001
        spark.stop()
        end_jvm()
        jvm.wait()
        return new.replace(archive)


def _load_classes(spark: SparkSession, folder: Path) -> None:
    """Run a topology over a frame, and as a query with state."""
    builder = StreamsBuilder("classes")
    builder.stream("in").group_by_key().count().to_stream().to("out")
    topology = builder.build()
    records = spark.createDataFrame([(1, b"a", b"1")], "timestamp bigint, key binary, value binary")
    run(topology, spark=spark, inputs={"in": records})
    deployment = plan_deployment("classes", [plan_application(topology, Config(), {"in": 2}, direct=False)], 2)
    settings = StreamSettings(LocalFiles(folder / "checkpoint"), None, max_records=1)
    sink = FunctionSink(lambda output, batch: None)
    query_of(spark, deployment, _FewRecords(), sink, settings).restart().await_termination()
