"""Rows of static frames, packed by partition, come back in the order in which tasks read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kstreamnb as ks
from kstreamnb.core.codec import partition_for
from kstreamnb.spark.execution.frame_rows import FrameRows, by_partition, in_order
from kstreamnb.spark.io.dataframe_input import _pandas_records

RANKS = [7, 3]
KEYS = st.one_of(st.none(), st.sampled_from(["", "a", "b", "ü"]))
ROWS = st.lists(st.tuples(st.integers(0, 3), KEYS, st.integers(0, 12)), max_size=40)


def packed(rows: list[tuple[Any, ...]], *names: str, ranks: list[int] = RANKS, sort: bool = True) -> list[FrameRows]:
    """Rows with columns of these names, divided by the partitions of their keys, after a way through bytes."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    kinds = {"ts": pa.int64(), "k": pa.string()}
    arrays = {name: pa.array(column, kinds.get(name)) for name, column in zip(names, columns, strict=True)}
    arrow = pa.record_batch({"p": pa.array([-1] * len(rows), pa.int32()), **arrays})
    parts = by_partition(arrow, ranks, ks.Serdes.string(), sort=sort)
    return [FrameRows.unpack(part.rank, part.pack()) for part in parts]


def read(parts: list[FrameRows], *names: str, arrival: bool = False) -> list[tuple[Any, ...]]:
    """Rank and columns of all rows in the order of `in_order`."""
    return [
        (part.rank, *row)
        for chunk in in_order(parts, arrival=arrival)
        for part in chunk
        for row in zip(*(part.arrow.column(name).to_pylist() for name in names), strict=True)
    ]


@given(ROWS, st.integers(1, 9))
def test_rows_of_a_partition_go_by_time_and_content_however_they_were_divided(rows: list[Any], size: int) -> None:
    """Numbers compare as text, and a null key as an empty one."""
    names = "ts", "k", "v"
    parts = [part for at in range(0, len(rows), size) for part in packed(rows[at : at + size], *names)]
    found = [(time, rank, key or "", str(value)) for rank, time, key, value in read(parts, *names)]
    ranked = [(ts, RANKS[0 if k is None else partition_for(k.encode(), 2)], k or "", str(v)) for ts, k, v in rows]
    assert sorted(ranked) == sorted(found)
    for rank in RANKS:
        assert sorted(row for row in ranked if row[1] == rank) == [row for row in found if row[1] == rank]


def test_partitions_are_merged_by_time_some_thousands_of_rows_at_once() -> None:
    """However mixed the rows of a frame are."""
    rows = [(at * 7919 % 50_021, f"k{at}", at) for at in range(50_021)]
    parts = [part for at in range(0, len(rows), 9_000) for part in packed(rows[at : at + 9_000], "ts", "k", "v")]
    chunks = list(in_order(parts, arrival=False))
    assert [2, 2, 2] == [len({part.rank for part in chunk}) for chunk in chunks]
    times = [np.concatenate([part.times for part in chunk]) for chunk in chunks]
    assert list(range(50_021)) == [time for chunk in times for time in sorted(chunk.tolist())]


def test_rows_in_order_of_arrival_go_partition_by_partition_and_nulls_first() -> None:
    """Of two columns that give the order, one has a gap; the time decides among equals."""
    rows = [(5, "a", 1, 2, "x"), (4, "a", 2, None, "x"), (3, "a", 3, 2, "w"), (2, "a", 4, 2, "x"), (9, "d", 5, 1, None)]
    found = read(packed(rows, "ts", "k", "v", "o0", "o1", sort=False), "k", "v", arrival=True)
    assert [2, 3, 4, 1] == [value for _, key, value in found if key == "a"]
    assert sorted(found, key=lambda row: row[0]) == found
    assert 2 == len({rank for rank, *_ in found})


def test_topics_may_be_ordered_by_columns_of_different_types() -> None:
    """One by text, one by numbers, of which 10 follows 9."""
    texts = packed([(0, "a", 1, "y"), (0, "a", 2, "x")], "ts", "k", "v", "o0", ranks=[1], sort=False)
    numbers = packed([(0, "a", 3, 10), (0, "a", 4, 9)], "ts", "k", "v", "o0", ranks=[0], sort=False)
    assert [(0, 4), (0, 3), (1, 2), (1, 1)] == read([*texts, *numbers], "v", arrival=True)


def test_equal_rows_follow_each_other_by_the_text_of_structures_and_bytes() -> None:
    """Values are dicts, or bytes that are no text."""
    dicts, data = [{"n": 2}, {"n": 10}, None], [b"\xff", b"a", None]
    for values in dicts, data:
        parts = packed([(0, "k", value) for value in values], "ts", "k", "v", ranks=[0])
        assert values[::-1] == [value for _, value in read(parts, "v")]


def test_large_rows_are_packed_in_pieces() -> None:
    """A piece has some 4 MiB, so that the pieces that Spark hands to Python at once are no more than it can bear."""
    parts = packed([(at, "k", "v" * 100_000) for at in range(100)], "ts", "k", "v", ranks=[0])
    assert 5 << 20 > max(part.arrow.nbytes for part in parts)
    assert list(range(100)) == [time for _, time in read(parts, "ts")]


@pytest.mark.parametrize("role", ["key", "value", "timestamp", "partition", "headers", "order_by"])
def test_roles_of_columns_are_names(role: str) -> None:
    """A role that is not the name of a column is refused where the input is described."""
    roles: dict[str, Any] = {role: 5}
    with pytest.raises(ks.errors.ConfigError, match=f"{role} must be .*, got 5"):
        ks.spark.FrameInput(None, **roles)


def test_names_of_columns_may_be_an_index_of_pandas() -> None:
    """As `frame.columns[1:3]` is; it must have texts, too."""
    frame = pd.DataFrame({"key": ["a"], "x": [1], "y": [2], "timestamp": [3]})
    roles = ks.spark.FrameInput(frame, value=frame.columns[1:3], order_by=frame.columns[1:2])
    assert [{"x": 1, "y": 2}] == [record.value for record in _pandas_records("in", roles)]
    assert ("x",) == roles.columns()
    numbers: Any = pd.Index([1, 2])
    with pytest.raises(ks.errors.ConfigError, match="value must be str or Collection of str or None"):
        ks.spark.FrameInput(frame, value=numbers)
