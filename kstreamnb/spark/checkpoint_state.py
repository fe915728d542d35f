"""State read from a checkpoint through Spark's own reader of state stores, whether the query runs or not."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kstreamnb.spark.session import tuned
from kstreamnb.spark.state_log import HEAD
from kstreamnb.spark.worker import Bundle, read

__all__ = ["last_batch", "last_begun", "read_entries", "read_states"]

Entry = tuple[int, int, list[bytes]]
"""Group value, number in the log, deltas to apply one after the other."""


def last_batch(checkpoint: Path) -> int:
    """The last batch that a checkpoint has committed, -1 before the first."""
    return _newest(checkpoint / "commits")


def last_begun(checkpoint: Path) -> int:
    """The last batch that a checkpoint has offsets for, committed or not, -1 before the first."""
    return _newest(checkpoint / "offsets")


def _newest(log: Path) -> int:
    return max([int(path.name) for path in log.glob("*") if path.name.isdigit()], default=-1)


def read_entries(
    spark: SparkSession, bundle: Bundle, checkpoint: Path, level: int, since: Mapping[int, int]
) -> tuple[int, list[Entry]]:
    """The last committed batch, and the log entries of some groups of a level behind the given numbers, in order."""
    batch = last_batch(checkpoint)
    if batch < 0:
        return batch, []
    stateful = [each.number for each in read(bundle).levels if each.stateful]
    frame = _log_frame(spark, checkpoint, len(stateful) - 1 - stateful.index(level), batch)
    frame = frame.where(F.col("g").isin(list(since)) & (F.col("seq") != HEAD))
    for group, seq in since.items():
        if seq > HEAD:
            frame = frame.where((F.col("g") != group) | (F.col("seq") > seq))
    found = []
    for row in sorted(frame.collect(), key=lambda row: (row["g"], row["seq"])):
        delta, _, _, part = pickle.loads(bytes(row["e"]))
        found.append((row["g"], row["seq"], [each for each in (part, delta) if each is not None]))
    return batch, found


def read_states(spark: SparkSession, bundle: Bundle, checkpoint: Path) -> dict[str, list[bytes]]:
    """All deltas of every task, by the task's name, in their order: the whole state of a query, for checks."""
    found: dict[str, list[bytes]] = {}
    deployment = read(bundle)
    for level in deployment.levels:
        if level.stateful:
            names = {group: placed.name for group, placed in deployment.at_group(level.number).items()}
            _, entries = read_entries(spark, bundle, checkpoint, level.number, dict.fromkeys(names, 0))
            for group, _, deltas in entries:
                found.setdefault(names[group], []).extend(deltas)
    return found


def _log_frame(spark: SparkSession, checkpoint: Path, operator: int, batch: int) -> DataFrame:
    """The entries of all state logs of one operator: group, number, entry."""
    options: dict[str, Any] = {"stateVarName": "log", "operatorId": str(operator), "batchId": str(batch)}
    return (
        tuned(spark)
        .read.format("statestore")
        .options(**options)
        .load(str(checkpoint))
        .select(
            F.col("key.g").alias("g"), F.col("user_map_key.seq").alias("seq"), F.col("user_map_value.entry").alias("e")
        )
    )
