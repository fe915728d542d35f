"""The state with which the tasks of a query's first batch start, if it continues another application.

Files in a folder ``seed`` of the checkpoint: one for each task with its state and positions, and one with the records
of repartition topics that were not processed yet. The first batch moves everything into Spark's state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from kstreamnb.core.codec import encoded
from kstreamnb.core.record import Headers
from kstreamnb.runtime.context.record_context import Partition
from kstreamnb.runtime.task.task import StateDelta
from kstreamnb.spark.execution.record_batch import OrderKey, RecordBatch
from kstreamnb.spark.execution.record_merge import Positions
from kstreamnb.spark.execution.state_codec import pack, unpack
from kstreamnb.spark.execution.worker_cache import CachedTask

FOLDER = "seed"
_PENDING = "pending"
_FIRST = -(1 << 61)  # before the order key of every record of an input topic

PendingRecord = tuple[int, bytes | None, bytes | None, Headers]
"""Timestamp, key, value and headers, as Kafka has them."""

PendingRecords = dict[Partition, list[PendingRecord]]
"""By repartition topic and partition."""


def write_seed(folder: Path, task: str, state: StateDelta, positions: Positions) -> None:
    """Write the state of a task, and the next offsets of the repartition topics that it reads."""
    _file(folder, task).write_bytes(pack((tuple(state), positions)))


def plant(folder: str, task: str, cached: CachedTask) -> None:
    """Give a new task the state with which it begins."""
    path = _file(Path(folder), task)
    if path.exists():
        state, positions = unpack(path.read_bytes(), trust=True)  # this process runs the user's code anyway
        cached.task.apply_delta(StateDelta(*state))
        cached.positions = dict(positions)


def write_pending(folder: Path, records: PendingRecords) -> None:
    """Write records of repartition topics that the first batch processes before all others."""
    (folder / _PENDING).write_bytes(pack(records))


def pending_batches(folder: str) -> Iterator[RecordBatch]:
    """Yield these records, with order keys before those of all records of input topics."""
    records: Mapping[Partition, list[PendingRecord]] = unpack((Path(folder) / _PENDING).read_bytes())
    for (topic, partition), rows in sorted(records.items()):
        timestamps, keys, values, headers = (list(column) for column in zip(*rows, strict=True))
        zeros = np.zeros(len(rows), np.int64)
        order = OrderKey(zeros + _FIRST, zeros, np.arange(len(rows)), zeros)
        columns = timestamps, list(map(encoded, keys)), list(map(encoded, values)), headers
        yield RecordBatch.of_columns(topic, partition, order, columns)


def _file(folder: Path, task: str) -> Path:
    return folder / f"{task.replace('/', '-')}.state"
