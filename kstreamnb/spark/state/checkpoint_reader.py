"""State read from a checkpoint through Spark's own reader of state stores, whether the query runs or not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kstreamnb.background import wait_until
from kstreamnb.errors import ApplicationStateError
from kstreamnb.kafka.storage.checkpoint_files import CheckpointFiles
from kstreamnb.spark.execution.cyclic_task import AnyTask
from kstreamnb.spark.execution.state_codec import unpack_delta, unpack_entry
from kstreamnb.spark.execution.state_log import HEAD
from kstreamnb.spark.execution.worker_cache import empty_task
from kstreamnb.spark.jvm.session import query_session
from kstreamnb.spark.planning.deployment import Deployment

_COMMIT_S = 30.0

StoredDelta = tuple[int, int, list[bytes]]
"""Group value, number in the log, packed deltas to apply one after the other."""


def last_batch(checkpoint: CheckpointFiles) -> int:
    """Return the last batch that a checkpoint has committed; -1 before the first."""
    return max(checkpoint.numbers("commits"), default=-1)


def last_begun(checkpoint: CheckpointFiles) -> int:
    """Return the last batch for which a checkpoint has offsets, committed or not; -1 before the first."""
    return max(checkpoint.numbers("offsets"), default=-1)


def require_finished(checkpoint: CheckpointFiles, application: str, hint: str) -> int:
    """Return the last batch of a checkpoint; raises ApplicationStateError with a hint if it is not committed."""
    batch = last_begun(checkpoint)
    if batch != last_batch(checkpoint):
        raise ApplicationStateError(f'"{application}" has not finished batch {batch}', hint=hint)
    return batch


def begun_partitions(checkpoint: CheckpointFiles) -> int | None:
    """Return the number of Spark partitions that the last batch was begun with; None before the first, or if the log of
    offsets is damaged, which Spark reports.
    """
    with suppress(OSError, ValueError, LookupError):
        _, settings, *_ = (checkpoint.read(f"offsets/{last_begun(checkpoint)}") or b"").decode().splitlines()
        return int(json.loads(settings)["conf"]["spark.sql.shuffle.partitions"])
    return None


def offsets_entry(checkpoint: CheckpointFiles, batch: int) -> dict[str, Any]:
    """Return a batch's entry in the log of offsets; empty if it is damaged, which Spark reports."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        return dict(json.loads(checkpoint.last_line(f"offsets/{batch}")))
    return {}


def batches_without_input(checkpoint: CheckpointFiles) -> frozenset[int]:
    """Return the numbers of batches that moved no position and no tick: those that a rescaling writes."""
    entries = {number: offsets_entry(checkpoint, number) for number in checkpoint.numbers("offsets")}
    pairs = ((number, entries.get(number - 1), entry) for number, entry in entries.items())
    unmoved = ((number, old, new) for number, old, new in pairs if old and new and old["tick"] == new["tick"])
    return frozenset(number for number, old, new in unmoved if new["offsets"].items() <= old["offsets"].items())


def settle(checkpoint: CheckpointFiles) -> None:
    """Let Spark find the files of a checkpoint that was moved or copied: its metadata has the absolute paths of some.

    A checkpoint at its original place is not changed.
    """
    for operator in checkpoint.numbers("state"):
        notes = f"state/{operator}/_metadata/v2"
        moved: list[tuple[str, str]] = []
        for number in reversed(checkpoint.numbers(notes)):
            try:
                version, text = (checkpoint.read(f"{notes}/{number}") or b"").decode().split("\n", 1)
                note = json.loads(text)
                here = _placed(note, checkpoint)
            except (ValueError, KeyError):  # damaged: Spark detects that by its checksum
                break
            if here == note:
                break
            moved.append((f"{notes}/{number}", f"{version}\n{json.dumps(here)}"))
        for name, text in reversed(moved):  # the newest last: if it is correct, so are all earlier ones
            checkpoint.write(name, text.encode())


def _placed(note: dict[str, Any], checkpoint: CheckpointFiles) -> dict[str, Any]:
    """Return Spark's metadata of an operator's state with the paths of its files here."""

    def here(path: str) -> str:
        return f"{checkpoint.address}/state/{path.rpartition('/state/')[2]}"

    paths = "stateSchemaFilePaths"
    stores = [{**store, paths: list(map(here, store[paths]))} for store in note["stateStoreInfo"]]
    return {**note, "stateStoreInfo": stores}


def await_commit(checkpoint: CheckpointFiles, batch: int, *, wait: bool = True) -> None:
    """Wait until Spark has committed a batch that was published: its reader refuses the states of any other.

    Raises:
        ApplicationStateError: Spark has not committed it in time.
    """
    if not wait_until(lambda: last_batch(checkpoint) >= batch, _COMMIT_S if wait else 0, pause_s=0.01):
        hint = "watchers need live=True to read stores; if the query has ended, query.restart() repeats it"
        raise ApplicationStateError(f"batch {batch} is published, but not committed in the checkpoint", hint=hint)


def read_entries(
    spark: SparkSession, deployment: Deployment, checkpoint: CheckpointFiles, level: int, since: Mapping[int, int]
) -> tuple[int, list[StoredDelta]]:
    """Return the last committed batch, and the log entries of some groups of a level after the
    given numbers, in order.
    """
    batch = last_batch(checkpoint)
    if batch < 0:
        return batch, []
    stateful = [each.number for each in deployment.levels if each.stateful]
    frame = _log_frame(spark, checkpoint, len(stateful) - 1 - stateful.index(level), batch)
    frame = frame.where(F.col("g").isin(list(since)) & (F.col("seq") != HEAD))
    for group, seq in since.items():
        if seq > HEAD:
            frame = frame.where((F.col("g") != group) | (F.col("seq") > seq))
    rows = sorted(frame.collect(), key=lambda row: (row["g"], row["seq"]))
    return batch, [(row["g"], row["seq"], unpack_entry(bytes(row["e"])).deltas) for row in rows]


def read_states(spark: SparkSession, deployment: Deployment, checkpoint: CheckpointFiles) -> dict[str, list[bytes]]:
    """Return all deltas of every task, by the task's name, in their order: the whole state of a query, for checks."""
    states: dict[str, list[bytes]] = {}
    for level in deployment.levels:
        if level.stateful:
            names = {group: placed.name for group, placed in deployment.placements[level.number].items()}
            _, entries = read_entries(spark, deployment, checkpoint, level.number, dict.fromkeys(names, 0))
            for group, _, deltas in entries:
                states.setdefault(names[group], []).extend(deltas)
    return states


def read_tasks(spark: SparkSession, deployment: Deployment, checkpoint: CheckpointFiles) -> dict[str, AnyTask]:
    """Return every task with state, by name, as of the last batch."""
    states = read_states(spark, deployment, checkpoint)
    tasks = {placed.name: empty_task(deployment, placed) for placed in deployment.tasks if placed.stateful}
    for name, task in tasks.items():
        for delta in states.get(name, ()):
            task.apply_delta(unpack_delta(delta, trust=True))
    return tasks


def _log_frame(spark: SparkSession, checkpoint: CheckpointFiles, operator: int, batch: int) -> DataFrame:
    """Return the entries of all state logs of one operator: group, number, entry."""
    settle(checkpoint)
    options: dict[str, Any] = {"stateVarName": "log", "operatorId": str(operator), "batchId": str(batch)}
    log = query_session(spark).read.format("statestore").options(**options).load(checkpoint.plain_address)
    seq, entry = F.col("user_map_key.seq").alias("seq"), F.col("user_map_value.entry").alias("e")
    return log.select(F.col("key.g").alias("g"), seq, entry)
