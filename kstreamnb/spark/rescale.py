"""`rescale`: give a stopped query's state to more or fewer Spark partitions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kstreamnb.errors import EngineError
from kstreamnb.kafka.presence import in_use
from kstreamnb.spark.checkpoint import read_manifest, write_manifest
from kstreamnb.spark.checkpoint_state import last_batch
from kstreamnb.spark.failure import spark_failure
from kstreamnb.spark.session import spark_session, tuned

__all__ = ["rescale"]


def rescale(checkpoint: Path | str, spark_partitions: int, *, spark: SparkSession | None = None) -> None:
    """Spread the state of a stopped query over another number of Spark partitions; its next start uses them.

    Tasks, topics and results stay as they are: only how many tasks can run at once changes.

    Args:
        checkpoint: the query's folder.
        spark_partitions: state partitions from now on.
        spark: the session that moves the state; without one, `spark_session` starts one.

    Raises:
        EngineError: the query runs, has not finished its last batch, or keeps global tables, of which every
            partition has a copy.

    Example:
        >>> try:
        ...     rescale("no-such-folder", 4)
        ... except EngineError as error:
        ...     print(error)
        folder "no-such-folder" is no checkpoint
    """
    folder = Path(checkpoint)
    manifest = read_manifest(folder)
    if manifest is None:
        raise EngineError(f'folder "{folder.name}" is no checkpoint')
    if spark_partitions < 1:
        raise EngineError(f"a query cannot have {spark_partitions} partitions")
    if in_use(folder):
        raise EngineError(f'application "{manifest.application}" is running', hint="stop it first")
    if manifest.spark_partitions == spark_partitions:
        return
    if any(tables for _, tables in manifest.levels):
        raise EngineError(
            f'"{manifest.application}" keeps global tables, of which each Spark partition has a copy',
            hint="start it with a new checkpoint and the number of partitions that it is to have",
        )
    started = max([int(path.name) for path in (folder / "offsets").glob("*") if path.name.isdigit()], default=-1)
    if started != last_batch(folder):
        raise EngineError(
            f'"{manifest.application}" has not finished batch {started}',
            hint="start it with available_now=True, so that it finishes, and rescale it then",
        )
    if started >= 0:
        manager = tuned(spark or spark_session())._streamingCheckpointManager  # noqa: SLF001 - has no public name yet
        try:
            manager.repartition(str(folder), spark_partitions)
        except (PySparkException, Py4JJavaError) as error:
            raise spark_failure(f'rescaling "{manifest.application}"', error) from error
    write_manifest(folder, replace(manifest, spark_partitions=spark_partitions))
