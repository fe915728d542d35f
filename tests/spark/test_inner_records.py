"""Records of internal topics between the levels of a query: values that need no bytes are not serialized."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import kstreamnb as ks
from kstreamnb.core import serdes
from kstreamnb.core.codec import CopiedValue, SerializedValue
from kstreamnb.core.record import Change, Windowed
from kstreamnb.operators.derived_tables import ChangeSerde
from kstreamnb.operators.foreign_key import Instruction, Response, ResponseSerde, Subscription
from kstreamnb.spark.execution.record_batch import OrderKey, RecordBatch, are_portable, pack, unpack
from kstreamnb.state.codec import RowWithHeaders
from tests.spark.level_runs import forget, ran
from tests.spark.streams import Row, driven


class Place(NamedTuple):
    """A named tuple of a user."""

    name: str


COLUMNS: list[list[Any]] = [
    ["a", 1, 2.5, True, b"b", None],
    [SerializedValue(b"a"), None],
    [CopiedValue(a=1, b="é"), CopiedValue(), None],
    [Change(1, None, True), None, Change("a", "b", True)],
    [Windowed("a", 0, 10), Windowed("b", 10, 20)],
    [Subscription(b"0" * 16, Instruction.DELETE_KEY_AND_PROPAGATE, Windowed("a", 0, 10), 3)],
    [Response(None, CopiedValue(a=1), None), Response(b"0" * 16, None, None)],
    ["a", SerializedValue(b"b"), CopiedValue(a=1), Change(1, 2, True), None],
]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_has_its_types_in_every_process(column: list[Any]) -> None:
    """Types of items and of their fields, because readers test them."""
    count = len(column)
    order = OrderKey.of_root(0, count)
    batch = RecordBatch("topic", 0, order, np.zeros(count, np.int64), column, column[::-1])
    again = unpack(pack(batch))
    assert (column, column[::-1]) == (again.keys, again.values)
    for item, other in zip(column, again.keys, strict=True):
        assert type(item) is type(other)
        fields = zip(item, other, strict=True) if isinstance(item, tuple) else ()
        assert all(type(field) is type(copied) for field, copied in fields)
    assert are_portable(column)


def test_values_with_other_content_are_not_portable() -> None:
    """Classes of users may be unknown to other processes, and a subclass of a tuple may have attributes."""
    headers = (("name", b"value"),)
    for item in (Place("a"), RowWithHeaders("a", 1, headers), [1], Change(Place("a"), None, True), object()):
        assert not are_portable([item])


def counted(builder: ks.StreamsBuilder) -> None:
    """Flat and nested JSON, counted by a field."""
    stream = builder.stream("left", value_serde="json")
    stream.group_by(lambda key, value: value["of"]).count().to_stream().to("out", value_serde="long")


def regrouped(builder: ks.StreamsBuilder) -> None:
    """A table of JSON, grouped by a field; rows move between groups."""
    table = builder.table("left", value_serde="json").map_values(lambda value: value["of"], value_serde="string")
    rows = table.group_by(lambda key, value: (value, key), value_serde="string")
    reduced = rows.reduce(lambda before, value: before + value, lambda before, value: before.replace(value, "", 1))
    reduced.to_stream().to("out", value_serde="string")


def by_window(builder: ks.StreamsBuilder) -> None:
    """Counts by window, grouped by the windowed key."""
    windows = ks.TimeWindows.of("1s")
    counts = builder.stream("left", value_serde="json").group_by_key().windowed_by(windows).count()
    key_serde = ks.Serdes.time_windowed(ks.Serdes.string(), "1s")
    grouped = counts.to_stream().group_by(lambda window, count: window, key_serde=key_serde, value_serde="long")
    totals = grouped.reduce(lambda before, value: before + value)
    totals.to_stream(lambda window, total: f"{window}").to("out", value_serde="long")


def joined(builder: ks.StreamsBuilder, foreign: str = "json") -> None:
    """A left join by foreign key with values that the joiner changes."""
    orders = builder.table("left", value_serde="json")
    customers = builder.table("right", value_serde=foreign)

    def pair(order: dict[str, Any], customer: Any) -> dict[str, Any]:
        order["customer"] = customer
        if isinstance(customer, dict):
            customer["seen"] = True
        return order

    orders.left_join(customers, pair, foreign_key=lambda order: order["of"]).to_stream().to("out", value_serde="json")


def joined_text(builder: ks.StreamsBuilder) -> None:
    """The same with text, which may be empty."""
    joined(builder, "string")


def rows_of(shape: Callable[..., None]) -> list[Row]:
    """Flat values, and some that are not."""
    rows: list[Row] = []
    for at in range(240):
        value = {"of": f"k{at * 7 % 5}", "n": at} | ({"parts": [at]} if at % 6 == 0 else {})
        rows.append(("left", f"o{at * 3 % 17}", None if at % 23 == 22 and shape is not counted else value, 10 * at))
        if at % 9 == 0 and shape in (joined, joined_text):
            right = {"name": f"é{at}", "in": {"a": 1}} if at % 18 else {"name": at}
            text = "" if at % 27 == 0 else f"n{at}"
            rows.append(("right", f"k{at % 5}", right if shape is joined else text, 10 * at + 5))
    return rows


@pytest.mark.parametrize("shape", [counted, regrouped, by_window, joined, joined_text])
@pytest.mark.parametrize("batches", [1, 5])
def test_values_pass_levels_as_they_pass_the_driver(tmp_path: Path, shape: Callable[..., None], batches: int) -> None:
    """With lost workers between batches."""
    builder = ks.StreamsBuilder("inner")
    shape(builder)
    topology, rows = builder.build(), rows_of(shape)
    config = {"statestore.cache.max.bytes": 0}
    found, _ = ran(tmp_path, topology, rows, ["out"], batches=batches, between=forget, **config)
    assert driven(topology, rows, 3, ["out"], **config) == found
    assert any(found["out"].values())


@pytest.mark.parametrize(("shape", "serde"), [(regrouped, ChangeSerde), (joined_text, ResponseSerde)])
def test_messages_of_tables_are_not_read_from_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: Callable[..., None], serde: type[Any]
) -> None:
    """Changes of a regrouped table and answers of a foreign-key join."""
    builder = ks.StreamsBuilder("inner")
    shape(builder)
    read, seen = serde._read, []

    def note(self: Any, data: bytes) -> Any:
        seen.append(data)
        return read(self, data)

    monkeypatch.setattr(serde, "_read", note)
    rows = [row for row in rows_of(shape) if row[2] != ""]
    ran(tmp_path, builder.build(), rows, ["out"], batches=2)
    assert [] == seen


def test_flat_json_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of the repartition topic gets a copy."""
    builder = ks.StreamsBuilder("inner")
    counted(builder)
    decode, seen = serdes._decode, []

    def note(text: str) -> Any:
        seen.append(text)
        return decode(text)

    monkeypatch.setattr(serdes, "_decode", note)
    rows = [row for row in rows_of(counted) if "parts" not in row[2]]
    ran(tmp_path, builder.build(), rows, ["out"], batches=2)
    assert len(seen) == len(rows)
