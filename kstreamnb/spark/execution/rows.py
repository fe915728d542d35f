"""Rows between the operators of a streaming query: packed record batches, addressed to tasks; and tasks' reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NotRequired, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa

OUT, REPORT, FAILURE, DELTA, PUBLISHED, REMOVED = -1, -2, -3, -4, -5, -6
"""Targets that are not tasks: output of the query, a task's counters, an error that ends the query, a state change,
what an executor has published, input that no longer existed when it was to be read.
"""

STORE = -4
"""Target of a part of a task's stores at the end of a run over static DataFrames."""

ROW_SCHEMA = "g int, target int, source int, seq int, blob binary"
_NUMBERS = [(name, pa.int32()) for name in ("g", "target", "source", "seq")]
_ARROW = pa.schema([*_NUMBERS, ("blob", pa.binary())])
Row5: TypeAlias = tuple[int, int, int, int, bytes]
"""Group value, target (a task or a negative address), producer, number among the producer's rows, packed batch."""

RowFunction: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function of rows as record batches of Arrow, for `mapInArrow`."""


class TaskReport(TypedDict):
    """The counts of a task in a batch; ``topics`` counts records by output topic, inner ones among them.

    ``consumed`` counts all records that the task processed, ``inputs`` those that were read from input topics.
    ``stores`` has, for each store with a state log: its rows, an estimate of its bytes, and how many rows the batch
    wrote and deleted.
    """

    task: str
    consumed: int
    inputs: NotRequired[int]
    produced: int
    topics: dict[str, int]
    dropped: dict[tuple[str, str], int]
    stream_time_ms: int
    state: str
    state_bytes: int
    seconds: float
    lateness_ms: tuple[float, float]
    stores: NotRequired[dict[str, tuple[int, int, int, int]]]


def row_batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema = _ARROW) -> pa.RecordBatch:
    """Convert rows of whole numbers and, last, bytes to Arrow."""
    # Buffers, because `pa.array` imports pandas, which a new worker pays for in a query's first batch, and copies bytes
    # again whenever its buffer has to grow.
    *numbers, blobs = zip(*rows, strict=True) if rows else ([()] * len(schema))
    ends = np.asarray([*accumulate(map(len, blobs), initial=0)], np.int32)
    kinds = [kind.to_pandas_dtype() for kind in schema.types[:-1]]
    buffers: list[list[Any]] = [[np.asarray(column, kind)] for column, kind in zip(numbers, kinds, strict=True)]
    buffers.append([ends, b"".join(blobs)])
    contents = ([None, *map(pa.py_buffer, each)] for each in buffers)
    pairs = zip(schema.types, contents, strict=True)
    arrays = [pa.Array.from_buffers(kind, len(rows), each) for kind, each in pairs]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_in(arrow: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Return the rows of a record batch of Arrow."""
    return zip(*(column.to_pylist() for column in arrow.columns), strict=True)
