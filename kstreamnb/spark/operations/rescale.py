"""`rescale`: spread the state of a stopped query over more or fewer Spark partitions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kstreamnb.core.arguments import at_least, check_arguments
from kstreamnb.core.progress import under_way
from kstreamnb.errors import ApplicationStateError, ConfigError, SparkError
from kstreamnb.kafka.storage.checkpoint_files import Checkpoint, CheckpointFiles
from kstreamnb.spark.execution.failures import spark_failure
from kstreamnb.spark.jvm.session import query_session, spark_session
from kstreamnb.spark.jvm.versions import MOVES_STATE
from kstreamnb.spark.planning.deployment import COPY
from kstreamnb.spark.planning.key_routing import spark_hash
from kstreamnb.spark.state.checkpoint_manifest import other_partitions, require_manifest, write_manifest
from kstreamnb.spark.state.checkpoint_reader import begun_partitions, last_batch, last_begun, require_finished, settle
from kstreamnb.spark.state.hadoop_files import checkpoint_files

if TYPE_CHECKING:  # Kafka's client is loaded by connections alone
    from kstreamnb.kafka.client import Servers


def rescale(
    checkpoint: Checkpoint,
    spark_partitions: int,
    *,
    spark: SparkSession | None = None,
    bootstrap_servers: Servers | None = None,
) -> None:
    """Spread the state of a stopped query over a different number of Spark partitions; its next start uses them.

    Tasks, topics and results stay as they are: only how many tasks can run at once changes. Global tables, of which
    every partition has a copy, are read from their topics again by the next start. If this is interrupted, call it
    again with the same number; until then, the query refuses to start.

    Args:
        checkpoint: the query's folder, or its address.
        spark_partitions: the new number of state partitions.
        spark: the session that moves the state; without one, `spark_session` starts one. Default: None.
        bootstrap_servers: the application's Kafka cluster. Needed if the storage has no locks: a deployment that still
            runs is fenced before anything is changed. Default: None.

    Raises:
        ApplicationStateError: the query runs, or has not finished its last batch.
        CheckpointError: an interrupted call had another number.
        SparkError: the version of Spark cannot move state.

    Example:
        >>> from kstreamnb.errors import CheckpointError
        >>> try:
        ...     rescale("/no-such-folder", 4)
        ... except CheckpointError as error:
        ...     print(error)
        folder "/no-such-folder" is not a checkpoint
    """
    check_arguments(rescale, locals())
    folder = checkpoint_files(checkpoint, spark)
    manifest = require_manifest(folder)
    at_least(1, spark_partitions, "spark_partitions")
    if folder.in_use():
        raise ApplicationStateError(f'application "{manifest.application}" is running', hint="stop it first")
    stateful, begun = any(stateful for stateful, _ in manifest.levels), begun_partitions(folder)
    interrupted = stateful and begun not in (None, manifest.spark_partitions)
    if interrupted and begun != spark_partitions:
        raise other_partitions(folder, begun, manifest.spark_partitions)
    if manifest.spark_partitions == spark_partitions and not interrupted:
        return
    if stateful and not MOVES_STATE:
        fact = f"Spark {pyspark.__version__} cannot move the state of a query"
        raise SparkError(fact, hint="rescale it with Spark 4.2 or later; then any supported version continues it")
    if not folder.local and bootstrap_servers is None:
        detail = f'checkpoint "{folder}" is on a storage without locks'
        hint = "pass bootstrap_servers=…: a deployment that still runs is fenced through its cluster"
        raise ConfigError(f'cannot determine whether "{manifest.application}" is running', detail=detail, hint=hint)
    if bootstrap_servers is not None:
        from kstreamnb.kafka.application_reset import fence

        fence(bootstrap_servers, manifest.application)
    if not interrupted:
        hint = "start it with available_now=True, so that it finishes, and rescale it then"
        require_finished(folder, manifest.application, hint)
    if stateful and last_begun(folder) >= 0:
        if begun != spark_partitions or last_begun(folder) != last_batch(folder):
            _move(folder, manifest.application, spark_partitions, spark or spark_session())
        _read_again(folder, last_begun(folder), manifest.global_topics)
    groups = _with_new_copies(manifest.groups, spark_partitions)
    write_manifest(folder, replace(manifest, spark_partitions=spark_partitions, groups=groups))


def _move(files: CheckpointFiles, application: str, spark_partitions: int, spark: SparkSession) -> None:
    """Have Spark move the state, or finish moving it; Spark writes a batch without input."""
    settle(files)
    manager = query_session(spark, local_files=files.local)._streamingCheckpointManager  # noqa: SLF001 - has no public name yet
    try:
        with under_way(f'moving the state of "{application}"'):
            manager.repartition(files.plain_address, spark_partitions)
    except (PySparkException, Py4JJavaError) as error:
        raise spark_failure(f'rescaling "{application}"', error) from error


def _with_new_copies(groups: Mapping[str, int], spark_partitions: int) -> dict[str, int]:
    """Group values with those of new, empty copies of the global tables, one a partition, in place of the old copies.

    They are below all that were ever used, so that Spark finds no state for them, and runs them first.
    """
    copies = [name for name in groups if COPY in name]
    assigned = {name: group for name, group in groups.items() if name not in copies}
    free = count(min(0, *groups.values()) - 1, -1) if copies else iter(())
    for kind in sorted({name.rpartition(", ")[0] for name in copies}):
        for partition in range(spark_partitions):
            assigned[f"{kind}, {partition}"] = next(g for g in free if spark_hash(g) % spark_partitions == partition)
    return assigned


def _read_again(files: CheckpointFiles, batch: int, topics: Iterable[str]) -> None:
    """Have the next batch read some topics from their beginning, by removing their positions."""
    entry = f"offsets/{batch}"
    *before, last = (files.read(entry) or b"").decode().splitlines()
    entry_json = json.loads(last)
    for topic in topics:
        entry_json["offsets"].pop(topic, None)
    files.write(entry, "\n".join([*before, json.dumps(entry_json)]).encode())
