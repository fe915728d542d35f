"""State read from a checkpoint through Spark's own reader of state stores, whether the query runs or not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kstreamnb.spark.execution.state_codec import unpack_entry
from kstreamnb.spark.execution.state_log import HEAD
from kstreamnb.spark.jvm.session import query_session
from kstreamnb.spark.planning.deployment import Deployment

__all__ = ["batches_without_input", "last_batch", "last_begun", "read_entries", "read_states", "settle"]

Entry = tuple[int, int, list[bytes]]
"""Group value, number in the log, packed deltas to apply one after the other."""


def last_batch(checkpoint: Path) -> int:
    """The last batch that a checkpoint has committed, -1 before the first."""
    return _newest(checkpoint / "commits")


def last_begun(checkpoint: Path) -> int:
    """The last batch that a checkpoint has offsets for, committed or not, -1 before the first."""
    return _newest(checkpoint / "offsets")


def batches_without_input(checkpoint: Path) -> frozenset[int]:
    """Return the numbers of batches that moved no position and no tick: those that a rescaling writes."""
    entries = {}
    for number in _numbers(checkpoint / "offsets"):
        with suppress(OSError, ValueError, LookupError):  # if it is damaged, Spark says so
            entries[number] = json.loads((checkpoint / "offsets" / str(number)).read_text().splitlines()[-1])
    return frozenset(
        number
        for number, entry in entries.items()
        if number - 1 in entries
        and entry["tick"] == entries[number - 1]["tick"]
        and entry["offsets"].items() <= entries[number - 1]["offsets"].items()
    )


def _newest(log: Path) -> int:
    return max(_numbers(log), default=-1)


def _numbers(log: Path) -> list[int]:
    return [int(path.name) for path in log.glob("*") if path.name.isdigit()]


def settle(checkpoint: Path) -> None:
    """Let Spark find the files of a checkpoint that was moved or copied: its notes have the whole paths of some.

    A checkpoint that is where it was is not touched.
    """
    for notes in checkpoint.glob("state/*/_metadata/v2"):
        moved: list[tuple[Path, str]] = []
        for number in sorted(_numbers(notes), reverse=True):
            try:
                version, text = (notes / str(number)).read_text().split("\n", 1)
                note = json.loads(text)
                here = _placed(note, checkpoint)
            except (ValueError, KeyError):  # it is damaged: Spark finds that by its checksum
                break
            if here == note:
                break
            moved.append((notes / str(number), f"{version}\n{json.dumps(here)}"))
        for path, text in reversed(moved):  # the newest last: where it is right, so are all before it
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # it was that of the other content
            path.write_text(text)


def _placed(note: dict[str, Any], checkpoint: Path) -> dict[str, Any]:
    """A note about an operator's state with the paths that its files have in this folder."""

    def here(path: str) -> str:
        return f"file:{checkpoint.absolute()}/state/{path.rpartition('/state/')[2]}"

    stores = [
        {**store, "stateSchemaFilePaths": [here(path) for path in store["stateSchemaFilePaths"]]}
        for store in note["stateStoreInfo"]
    ]
    return {**note, "stateStoreInfo": stores}


def read_entries(
    spark: SparkSession, deployment: Deployment, checkpoint: Path, level: int, since: Mapping[int, int]
) -> tuple[int, list[Entry]]:
    """The last committed batch, and the log entries of some groups of a level behind the given numbers, in order."""
    batch = last_batch(checkpoint)
    if batch < 0:
        return batch, []
    stateful = [each.number for each in deployment.levels if each.stateful]
    frame = _log_frame(spark, checkpoint, len(stateful) - 1 - stateful.index(level), batch)
    frame = frame.where(F.col("g").isin(list(since)) & (F.col("seq") != HEAD))
    for group, seq in since.items():
        if seq > HEAD:
            frame = frame.where((F.col("g") != group) | (F.col("seq") > seq))
    found = []
    for row in sorted(frame.collect(), key=lambda row: (row["g"], row["seq"])):
        found.append((row["g"], row["seq"], unpack_entry(bytes(row["e"])).deltas))
    return batch, found


def read_states(spark: SparkSession, deployment: Deployment, checkpoint: Path) -> dict[str, list[bytes]]:
    """All deltas of every task, by the task's name, in their order: the whole state of a query, for checks."""
    found: dict[str, list[bytes]] = {}
    for level in deployment.levels:
        if level.stateful:
            names = {group: placed.name for group, placed in deployment.placements(level.number).items()}
            _, entries = read_entries(spark, deployment, checkpoint, level.number, dict.fromkeys(names, 0))
            for group, _, deltas in entries:
                found.setdefault(names[group], []).extend(deltas)
    return found


def _log_frame(spark: SparkSession, checkpoint: Path, operator: int, batch: int) -> DataFrame:
    """The entries of all state logs of one operator: group, number, entry."""
    settle(checkpoint)
    options: dict[str, Any] = {"stateVarName": "log", "operatorId": str(operator), "batchId": str(batch)}
    return (
        query_session(spark)
        .read.format("statestore")
        .options(**options)
        .load(str(checkpoint))
        .select(
            F.col("key.g").alias("g"), F.col("user_map_key.seq").alias("seq"), F.col("user_map_value.entry").alias("e")
        )
    )
