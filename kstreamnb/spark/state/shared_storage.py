"""Verifies that all executors see the checkpoint that the driver sees.

State is written by executors and read by others after a failure. On a folder local to each machine, batches would reach
Kafka until an executor is lost, and its state with it.
"""

from __future__ import annotations

import time

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kstreamnb.errors import CheckpointError
from kstreamnb.kafka.storage.checkpoint_files import CheckpointFiles, new_token
from kstreamnb.spark.execution.failures import spark_failure
from kstreamnb.spark.jvm.executors import warn_without_executors
from kstreamnb.spark.jvm.session import is_local, query_session

_ROUNDS = 5
_ROUND_S = 0.5


def prove_shared(spark: SparkSession, files: CheckpointFiles) -> None:
    """Have every executor write a file into the checkpoint, check that all of them exist, and have executors read them.

    A session whose executors are threads of this machine's JVM needs no check.

    Raises:
        CheckpointError: an executor writes to, or reads from, another storage than the driver.
        SparkError: an executor cannot write there.
    """
    if is_local(spark):
        return
    session = query_session(spark, local_files=files.local)
    waiting = _executors(spark)
    count = 2 * max(spark.sparkContext.defaultParallelism, len(waiting))
    for _ in range(_ROUNDS):
        before = _executors(spark)
        with warn_without_executors(spark):
            _prove(session, files, count)
        waiting = {name: tasks for name, tasks in waiting.items() if _executors(spark).get(name, tasks + 1) == tasks}
        if not waiting or not before:
            return
        time.sleep(_ROUND_S)  # busy with other work, or Spark has not counted its tasks yet


def _prove(session: SparkSession, files: CheckpointFiles, count: int) -> None:
    name = f"kstreamnb-probe-{new_token().decode()}"
    address = f"{files.address}/{name}"
    try:
        session.range(0, count, 1, count).selectExpr("cast(id AS string) AS value").write.text(address)
        seen = sum(1 for file in files.names(name) if file.startswith("part-"))
        read = session.read.text(address).count() if seen == count else 0
    except (PySparkException, Py4JError) as error:
        raise spark_failure(f'writing checkpoint "{files}" from the executors', error) from None
    finally:
        files.delete(name)
    if read != count:
        what = f"{seen} of {count} files that executors wrote are there" if seen < count else "executors read others"
        fact = f'checkpoint "{files}" is not the same storage for driver and executors'
        hint = "give a folder that is mounted on every machine, or an address such as hdfs://… or s3a://…"
        raise CheckpointError(fact, detail=f"{what}; its state would be lost with a machine", hint=hint)


def _executors(spark: SparkSession) -> dict[str, int]:
    """Return the numbers of tasks that Spark has given to each executor, by its id."""
    infos = spark.sparkContext._jsc.sc().statusStore().executorList(True)  # noqa: SLF001, FBT003
    summaries = [infos.apply(at) for at in range(infos.size())]
    return {str(each.id()): int(each.totalTasks()) for each in summaries if each.id() != "driver"}
