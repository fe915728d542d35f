"""Rows of static frames on their way to the tasks: packed by partition, and back in the order in which they are read.

Shuffling and sorting a row costs Spark more than processing it costs a task. So the rows of a partition travel
together, as Arrow's bytes in one row of Spark, and are sorted where they arrive.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kstreamnb.core.codec import encoder, key_partitioner
from kstreamnb.core.serde import Serde, StringSerde
from kstreamnb.errors import EngineError
from kstreamnb.frame_cells import python_values
from kstreamnb.spark.execution.kafka_columns import column_partitions
from kstreamnb.spark.execution.record_batch import Numbers, stretches

Places: TypeAlias = npt.NDArray[np.signedinteger[Any]]

_CHUNK = 20_000
_MOST_BYTES = 1 << 22  # of packed rows: Spark looks at the size of what it sends to Python after every sixteenth


@dataclass(frozen=True, slots=True)
class FrameRows:
    """Rows of one input partition, given by its rank: columns ts, k, v, h if there are headers, and o0, o1, … if an
    order was given. Without one, rows that are packed are sorted by time.
    """

    rank: int
    arrow: pa.RecordBatch

    def __len__(self) -> int:
        return self.arrow.num_rows

    @property
    def times(self) -> Numbers:
        """The times in ms; -1 where there is none."""
        return _numbers(self.arrow.column("ts"))

    def part(self, begin: int, end: int) -> FrameRows:
        """Return the rows from one position to another."""
        return FrameRows(self.rank, self.arrow.slice(begin, end - begin))

    def position(self, border: tuple[int, ...]) -> int:
        """Count the rows before a time, the first part of an order key."""
        return int(np.searchsorted(self.times, border[0], "left"))

    def first(self) -> tuple[int, int, int, int]:
        """Return the order key by which packed rows are sorted: time and rank of the first row."""
        return int(self.times[0]), self.rank, 0, 0

    def pack(self) -> bytes:
        """Serialize the rows."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.arrow.schema) as writer:
            writer.write_batch(self.arrow)
        return sink.getvalue().to_pybytes()

    @classmethod
    def unpack(cls, rank: int, data: bytes) -> FrameRows:
        """Deserialize rows."""
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            return cls(rank, reader.read_next_batch())


def by_partition(rows: pa.RecordBatch, ranks: Sequence[int], serde: Serde, *, sort: bool = True) -> Iterator[FrameRows]:
    """Divide rows of one topic by their partition: the one in column p, or if that is negative the key's.

    Args:
        rows: columns p, and those of `FrameRows`.
        ranks: the rank of each partition.
        serde: the topic's key serde.
        sort: sort the rows of each partition by time.
    """
    partitions = _numbers(rows.column("p"))
    if len(partitions) and partitions[0] < 0:
        partitions = _partitions(rows.column("k"), serde, len(ranks))
    times = _numbers(rows.column("ts")) if sort else np.zeros(len(partitions), np.int64)
    rows = rows.drop_columns(["p"])
    order = np.lexsort((times, partitions))
    if (np.diff(order) != 1).any():
        rows, partitions = rows.take(pa.array(order)), partitions[order]
    step = max(1, len(partitions) * _MOST_BYTES // max(1, rows.nbytes))
    for begin, end in stretches(np.diff(partitions)) if len(partitions) else ():
        for at in range(begin, end, step):
            yield FrameRows(ranks[int(partitions[at])], rows.slice(at, min(step, end - at)))


def in_order(parts: Sequence[FrameRows], *, arrival: bool) -> Iterator[list[FrameRows]]:
    """Yield rows in the order in which tasks read them, some thousands at a time, those of each partition together.

    Rows with equal sort keys are ordered by the text of key and value, so that the order does not depend on how Spark
    has divided the frame.

    Args:
        parts: rows of any partitions.
        arrival: yield one partition after the other; otherwise they are merged by time.
    """
    groups = [[part for part in parts if part.rank == rank] for rank in sorted({part.rank for part in parts})]
    for group in groups if arrival else [parts]:  # the columns that order another topic may have other types
        if sum(map(len, group)):
            yield from _merged(group)


def _merged(parts: Sequence[FrameRows]) -> Iterator[list[FrameRows]]:
    source = np.repeat(np.arange(len(parts), dtype=np.int32), list(map(len, parts)))
    row = np.concatenate([np.arange(len(part), dtype=np.int32) for part in parts])
    ranks = np.asarray([part.rank for part in parts])[source]
    keys = _key_table(parts, ranks)
    index = _sorted(keys)
    _sort_equal(index, keys, parts, source, row)
    for begin in range(0, len(index), _CHUNK):
        chosen = index[begin : begin + _CHUNK]
        chosen_ranks = ranks[chosen]
        own = ((rank, chosen[chosen_ranks == rank]) for rank in np.unique(chosen_ranks).tolist())
        yield [FrameRows(rank, _gathered(parts, source[rows], row[rows])) for rank, rows in own]


def _key_table(parts: Sequence[FrameRows], ranks: Places) -> pa.Table:
    """Return the sort keys of all rows: the columns of a given order, nulls first, the time, and the rank."""
    unsorted = ("k", "v", "h")
    whole = (pa.Table.from_batches([part.arrow]) for part in parts)
    tables = [each.drop_columns([name for name in each.column_names if name in unsorted]) for each in whole]
    keys, columns = pa.concat_tables(tables, promote_options="default"), dict[str, Any]()
    for name in (*keys.column_names[1:], "ts"):
        columns |= {f"{name} is there": keys.column(name).is_valid(), name: keys.column(name)}
    return pa.table({**columns, "rank": ranks})


def _sorted(table: pa.Table) -> Places:
    """Return the positions of rows sorted by all columns; equal rows stay in their order."""
    return np.array(pc.sort_indices(table, [(name, "ascending") for name in table.column_names]))


def _sort_equal(index: Numbers, keys: pa.Table, parts: Sequence[FrameRows], source: Places, row: Places) -> None:
    """Sort rows that are equal by all keys by the text of key and value."""
    same = np.ones(len(index) - 1, bool)
    for name in keys.column_names:
        same &= np.diff(_codes(keys.column(name))[index]) == 0
    equal = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    group = np.insert(np.cumsum(~same), 0, 0)[equal]
    ranks = _codes(keys.column("rank"))[index[equal]]
    for rank in np.unique(ranks):  # keys and values of other topics may have other types
        at = equal[ranks == rank]
        rows = _gathered(parts, source[index[at]], row[index[at]])
        texts = pa.table({"group": group[ranks == rank], "k": _text(rows.column("k")), "v": _text(rows.column("v"))})
        index[at] = index[at[_sorted(texts)]]


def _codes(column: pa.ChunkedArray) -> Numbers:
    """Return numbers that are equal for equal items."""
    if pa.types.is_integer(column.type) and not column.null_count:
        return column.to_numpy()
    return column.combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)


def _gathered(parts: Sequence[FrameRows], source: Places, row: Places) -> pa.RecordBatch:
    """Return some rows of some parts, in that order."""
    if source[0] == source[-1] and (source == source[0]).all():
        arrow = parts[source[0]].arrow
        if (np.diff(row) == 1).all():
            return arrow.slice(int(row[0]), len(row))
        return arrow.take(pa.array(row))
    order = np.argsort(source, kind="stable")
    cuts = stretches(np.diff(source[order]))
    taken = [parts[source[order[begin]]].arrow.take(pa.array(row[order[begin:end]])) for begin, end in cuts]
    together, *beyond = pa.Table.from_batches(taken).combine_chunks().to_batches()
    if beyond:  # Arrow starts another piece where the text of a column exceeds 2 GB
        hint = "if many rows have the same time, pass a column that orders them: ks.spark.FrameInput(frame, order_by=…)"
        raise EngineError("a text column exceeds 2 GB in rows that must be sorted together", hint=hint)
    if (np.diff(order) == 1).all():
        return together
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return together.take(pa.array(back))


def _text(column: pa.Array) -> pa.Array:
    """Return a column as text to sort by; bytes are their own."""
    if pa.types.is_nested(column.type):
        text = partial(json.dumps, ensure_ascii=False, default=repr)
        items = (None if item is None else text(item) for item in column.to_pylist())
        column = pa.array(items, pa.string())
    elif not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        column = column.cast(pa.string())
    return column.cast(pa.binary()).fill_null(b"")


def _partitions(keys: pa.Array, serde: Serde, count: int) -> Numbers:
    """Return partitions as Kafka's producer would choose them."""
    binary = pa.types.is_binary(keys.type)
    if binary or (pa.types.is_string(keys.type) and type(serde) is StringSerde):
        return column_partitions(keys, count)
    choose, write = key_partitioner(serde, count), encoder(serde)
    return np.fromiter(map(choose, map(write, python_values(keys))), np.int64, len(keys))


def _numbers(column: pa.Array) -> Numbers:
    return np.asarray(column.fill_null(-1), np.int64)
