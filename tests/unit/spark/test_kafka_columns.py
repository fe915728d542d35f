"""Columns read and written at once equal those read and written item by item."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.codec import partition_for
from kstreamnb.core.serdes import Serdes
from kstreamnb.spark.execution.kafka_columns import column_from_kafka, column_partitions, column_to_kafka

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.lists(LONGS))
def test_plain_columns_make_the_same_bytes_and_come_back(texts: list[str], numbers: list[int]) -> None:
    """Text and integers, in both directions, as each serde converts single items."""
    for serde, values in ((Serdes.string(), texts), (Serdes.long(), numbers)):
        data = [serde.serialize(value) for value in values]
        assert column_to_kafka(values, serde) == (data or None)
        assert column_from_kafka(data, serde) == (values if values or serde == Serdes.string() else None)


@pytest.mark.parametrize(
    ("serde", "column"),
    [
        (Serdes.string(), [b"ok", b"\xff"]),
        (Serdes.long(), [bytes(8), b"short"]),
        (Serdes.long(), [bytes(8), None]),
        (Serdes.json(), [b"1"]),
        (None, [b"x"]),
    ],
)
def test_unusual_bytes_are_left_to_their_handlers(serde: Any, column: list[bytes | None]) -> None:
    """If one item cannot be read, or for another serde: item by item."""
    assert column_from_kafka(column, serde) is None


@pytest.mark.parametrize(
    ("serde", "column"),
    [
        (Serdes.string(), ["ok", "\ud800"]),
        (Serdes.string(), ["ok", None]),
        (Serdes.long(), [1, 1 << 63]),
        (Serdes.long(), [1, True]),
        (Serdes.integer(), [1]),
    ],
)
def test_unusual_values_are_left_to_their_serde(serde: Any, column: list[Any]) -> None:
    """If a value cannot be written, or only by a special rule: item by item."""
    assert column_to_kafka(column, serde) is None


def test_text_without_a_key_stays_without() -> None:
    """Null is not text."""
    assert [None, "a"] == column_from_kafka([None, b"a"], Serdes.string())


def test_a_slice_of_a_column_of_keys_gets_the_partitions_of_the_whole() -> None:
    """Keys of every length modulo four, and none."""
    keys = ["", *("Zürich 東京"[:length] for length in range(1, 10)), None]
    whole = column_partitions(pa.array(keys), 5).tolist()
    assert [0 if key is None else partition_for(key.encode(), 5) for key in keys] == whole
    assert column_partitions(pa.array(keys).slice(3, 5), 5).tolist() == whole[3:8]
