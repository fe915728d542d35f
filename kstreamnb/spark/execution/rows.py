"""Rows between the operators of a streaming query: packed record batches, addressed to tasks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import pyarrow as pa

OUT, REPORT, FAILURE, DELTA, PUBLISHED = -1, -2, -3, -4, -5
"""Targets that are not tasks: output of the query, a task's counters, an error that ends the query, a state change,
what an executor has published.
"""

STORE = -4
"""Target of a part of a task's stores at the end of a run over static DataFrames."""

ROW_SCHEMA = "g int, target int, source int, seq int, blob binary"
_ARROW = pa.schema(
    [("g", pa.int32()), ("target", pa.int32()), ("source", pa.int32()), ("seq", pa.int32()), ("blob", pa.binary())]
)
Row5: TypeAlias = tuple[int, int, int, int, bytes]
"""Group value, target (a task or a negative address), producer, number among the producer's rows, packed batch."""


def row_batch(rows: Sequence[Row5]) -> pa.RecordBatch:
    """Convert rows to Arrow."""
    # Buffers, because `pa.array` imports pandas, which a new worker pays for in a query's first batch.
    *numbers, blobs = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    ends = np.asarray([*accumulate(map(len, blobs), initial=0)], np.int32)
    buffers = [[np.asarray(column, np.int32)] for column in numbers] + [[ends, b"".join(blobs)]]
    arrays = [
        pa.Array.from_buffers(kind.type, len(rows), [None, *map(pa.py_buffer, each)])
        for kind, each in zip(_ARROW, buffers, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
