"""Samples from and to files and frames."""

from __future__ import annotations

import json
import warnings
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.record import Windowed
from kstreamnb.errors import ConfigError
from kstreamnb.samples import Sample

PLAIN = Sample.from_records(
    [
        ("t", 0, 5, 10, "a", {"n": 1, "x": 0.5, "s": "text", "l": [1, 2], "b": True}),
        ("t", 1, 0, 11, "b", {"n": 2, "x": 1.5, "s": "", "l": [], "b": False}, (("h", b"\xff"), ("n", None))),
    ],
    note="made",
)
ODD = Sample.from_records(
    [
        ("t", 0, 0, 10, "a", {"n": 1}),
        ("t", 0, 1, 10, None, None),
        ("t", 0, 2, 10, Windowed("a", 0, 10), 1.0),
        ("u", 0, 0, 10, UUID(int=1), {"n": None, "other": [{"x": 1}, {"y": "a|b"}]}),
        ("u", 0, 1, 10, 7, SerializedValue(b"\x00")),
        ("u", 0, 2, 10, b"\x01", True),
        ("u", 0, 3, 10, "7", {"$cell": 1}),
    ]
)


@pytest.mark.parametrize("sample", [PLAIN, ODD, Sample(())], ids=["plain", "odd", "empty"])
def test_files_give_back_equal_samples(sample, tmp_path):
    """Parquet and JSON lines keep every record, whatever its key and value are."""
    sample.to_parquet(tmp_path / "s.parquet")
    back = Sample.from_parquet(tmp_path / "s.parquet")
    assert sample == back
    assert [repr(record) for record in sample] == [repr(record) for record in back]
    assert sample.notes == back.notes
    sample.to_json_lines(tmp_path / "s.jsonl")
    assert [repr(record) for record in sample] == [repr(r) for r in Sample.from_json_lines(tmp_path / "s.jsonl")]


def test_what_a_file_cannot_keep_is_refused(tmp_path):
    """A sample that would not be restored equal is not written."""
    sample = Sample.from_records([("t", 0, 0, 0, "k", {1: object()}), ("t", 0, 0, 0, 1, {})])
    for write in (sample.to_parquet, sample.to_json_lines):
        with pytest.raises(ConfigError, match="cannot be written as text"):
            write(tmp_path / "x")


def test_parquet_keeps_types_where_arrow_can(tmp_path):
    """A sample of similar dicts becomes typed columns, readable by any program."""
    PLAIN.to_parquet(tmp_path / "s.parquet")
    schema = pq.read_schema(tmp_path / "s.parquet")
    assert pa.types.is_struct(schema.field("value").type)
    ODD.to_parquet(tmp_path / "odd.parquet")
    assert pa.types.is_string(pq.read_schema(tmp_path / "odd.parquet").field("value").type)


def _frame():
    return pd.DataFrame(
        {
            "sku": ["shoe", "sock", None],
            "sold_at": pd.to_datetime(["2026-01-01 09:00", "2026-01-01 08:00", "2026-01-01 10:00"], utc=True),
            "quantity": [1, 2, 3],
            "price": [9.5, float("nan"), 1.0],
        }
    )


def test_a_pandas_frame_keeps_its_order_and_becomes_plain_values():
    """Rows keep their order; NaN becomes None; numbers are Python's own."""
    sample = Sample.from_dataframe(_frame(), topic="sales", key="sku", timestamp="sold_at")
    assert [
        {"sku": "shoe", "quantity": 1, "price": 9.5},
        {"sku": "sock", "quantity": 2, "price": None},
        {"sku": None, "quantity": 3, "price": 1.0},
    ] == [record.value for record in sample]
    assert ["shoe", "sock", None] == [record.key for record in sample]
    assert [1_767_258_000_000, 1_767_254_400_000, 1_767_261_600_000] == [record.timestamp for record in sample]
    assert type(sample[0].value["quantity"]) is int
    assert ("sku", "object") == sample.schema[0]


def test_order_partitions_and_values_of_a_frame_can_be_said():
    """``order_by`` sorts, a column or a number sets partitions, names select the value."""
    frame = _frame().assign(place=[2, 0, 2])
    sample = Sample.from_dataframe(
        frame, topic="s", key="sku", timestamp="sold_at", value=["quantity"], partition="place", order_by="sold_at"
    )
    assert [(0, 0, {"quantity": 2}), (2, 0, {"quantity": 1}), (2, 1, {"quantity": 3})] == [
        (record.partition, record.offset, record.value) for record in sample
    ]
    single = Sample.from_dataframe(frame, topic="s", key="sku", timestamp="sold_at", value="quantity", partitions=4)
    assert [1, 2, 3] == [record.value for record in single]
    assert all(0 <= record.partition < 4 for record in single)


def test_values_that_json_cannot_hold_become_text():
    """Times, dates and decimals are text, missing ones None."""
    frame = pd.DataFrame(
        {
            "t": [5, 6],
            "at": [datetime(2026, 1, 1, 9, tzinfo=UTC), None],
            "day": [date(2026, 1, 1), None],
            "cost": [Decimal("1.10"), None],
            "count": pd.array([1, None], dtype="Int64"),
            "kind": pd.Categorical(["a", None]),
            "list": [[1, 2], None],
        }
    )
    first, second = Sample.from_dataframe(frame, topic="x", timestamp="t")
    assert {
        "at": "2026-01-01T09:00:00Z",
        "day": "2026-01-01",
        "cost": "1.10",
        "count": 1,
        "kind": "a",
        "list": [1, 2],
    } == first.value
    assert {None} == set(second.value.values())
    table = pa.Table.from_pandas(frame)
    assert first.value == _from_table(table)[0].value


def _from_table(table, tmp=[]):  # noqa: B006 - keeps the folder for the session
    import tempfile

    tmp.append(tempfile.TemporaryDirectory())
    pq.write_table(table, f"{tmp[-1].name}/x.parquet")
    return Sample.from_parquet(f"{tmp[-1].name}/x.parquet", topic="x", timestamp="t")


def test_dicts_in_a_column_are_values_as_they_are():
    """A value column is taken as it is."""
    frame = pd.DataFrame({"key": ["a", "b"], "value": [{"x": 1}, None], "timestamp": [1, 2]})
    sample = Sample.from_dataframe(frame, topic="t", key="key", value="value", timestamp="timestamp", partitions=2)
    assert [{"x": 1}, None] == [record.value for record in sample]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"timestamp": "when"}, 'column "when" does not exist'),
        ({}, {"timestamp": "sku"}, "is not an instant|has no time"),
        ({"sold_at": pd.to_datetime(["2026-01-01"] * 3)}, {}, "times without a time zone"),
        ({"sold_at": [pd.NaT] * 3}, {}, "time"),
        ({}, {"limit": 5}, 'option "limit" applies only to a Spark frame'),
    ],
)
def test_what_a_frame_cannot_give_is_refused(change, options, message):
    """Missing columns and times without a zone are errors that say so."""
    with pytest.raises(ConfigError, match=message):
        Sample.from_dataframe(
            _frame().assign(**change), **{"topic": "t", "key": "sku", "timestamp": "sold_at", **options}
        )
    with pytest.raises(ConfigError, match='expected a DataFrame, got type "list"'):
        Sample.from_dataframe([], topic="t", timestamp="t")


def test_any_parquet_file_can_be_read_when_its_columns_are_named(tmp_path):
    """Another program's file equals the frame it was written from."""
    _frame().to_parquet(tmp_path / "f.parquet")
    named = {"topic": "s", "key": "sku", "timestamp": "sold_at", "partitions": 3}
    assert Sample.from_dataframe(_frame(), **named) == Sample.from_parquet(tmp_path / "f.parquet", **named)
    with pytest.raises(ConfigError, match=r"was not written by Sample\.to_parquet"):
        Sample.from_parquet(tmp_path / "f.parquet")
    with pytest.raises(ConfigError, match="time column"):
        Sample.from_parquet(tmp_path / "f.parquet", topic="s")
    with pytest.raises(ConfigError, match="need a topic"):
        Sample.from_parquet(tmp_path / "f.parquet", key="sku")
    with pytest.raises(ConfigError, match='unknown option "kye"'):
        Sample.from_parquet(tmp_path / "f.parquet", topic="s", kye="sku")


def test_frames_that_export_arrow_data_are_read_as_pandas_frames_are(tmp_path):
    """A table of pyarrow, and any frame that exports Arrow data as Polars does, gives the records of pandas."""
    named = {"topic": "s", "key": "sku", "timestamp": "sold_at", "order_by": "sold_at"}
    expected = _frame().assign(kind=pd.Categorical(["a", None, "b"]))
    table = pa.Table.from_pandas(expected, preserve_index=False)

    class Exported:
        columns = table.column_names
        __arrow_c_stream__ = table.__arrow_c_stream__

    for frame in (table, Exported()):
        assert Sample.from_dataframe(expected, **named).records == Sample.from_dataframe(frame, **named).records
    gaps = pa.table({"at": [0, 1, 2, 3], "n": pa.array([float("nan"), 2.0, None, 1.0])})
    sample = Sample.from_dataframe(gaps, topic="s", timestamp="at", order_by="n")
    assert [record.timestamp for record in sample] == [3, 1, 0, 2]
    with pytest.raises(ConfigError, match='option "limit" applies only to a Spark frame'):
        Sample.from_dataframe(table, limit=5, **named)


def test_an_unnamed_index_that_pandas_wrote_is_no_field(tmp_path):
    """Rows that were filtered or sorted have an index, which is not data unless it is named as a column."""
    kept = _frame().iloc[[2, 0]]
    kept.to_parquet(tmp_path / "f.parquet")
    named = {"topic": "s", "key": "sku", "timestamp": "sold_at"}
    assert Sample.from_dataframe(kept, **named) == Sample.from_parquet(tmp_path / "f.parquet", **named)
    by_index = Sample.from_parquet(tmp_path / "f.parquet", **{**named, "key": "__index_level_0__"})
    assert [record.key for record in by_index] == [2, 0]


def test_a_file_that_is_missing_or_of_another_kind_is_named(tmp_path):
    """A missing file is called missing; another kind of file gets the way to read it."""
    with pytest.raises(ConfigError, match=r'f\.parquet" does not exist'):
        Sample.from_parquet(tmp_path / "f.parquet")
    (tmp_path / "f.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError, match="is not a Parquet file") as raised:
        Sample.from_parquet(tmp_path / "f.csv")
    assert "pass the frame to Sample.from_dataframe" in raised.value.hint


def test_seconds_as_times_are_warned_of():
    """Whole numbers are milliseconds; seconds would all fall into a few weeks of 1970."""
    frame = pd.DataFrame({"at": [1_767_258_000, 1_767_254_400]})
    with pytest.warns(UserWarning, match='"at" are within .* if these are seconds, multiply them by 1000'):
        Sample.from_dataframe(frame, topic="t", timestamp="at")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Sample.from_dataframe(frame * 1000, topic="t", timestamp="at")


@pytest.mark.parametrize("factor", [1000, 1_000_000])
def test_microseconds_and_nanoseconds_as_times_are_warned_of(factor):
    """They would be after the year 5000, in frames of pandas and of Arrow alike; the warning has the user's line."""
    table = pa.table({"at": [1_767_258_000_000 * factor, 1_767_254_400_000 * factor]})
    for frame in (table, table.to_pandas()):
        with pytest.warns(UserWarning, match=rf"are after the year 5000.*\] // {factor}$") as warned:
            Sample.from_dataframe(frame, topic="t", timestamp="at")
        assert warned[0].filename == __file__


def test_json_lines_of_values_have_named_fields(tmp_path):
    """Each line is a value; its key and time are fields of it."""
    lines = [{"id": "a", "at": "2026-01-01T09:00Z", "n": 1}, {"id": "b", "at": 1_767_258_000_000}]
    path = tmp_path / "v.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
    sample = Sample.from_json_lines(path, topic="t", key="id", timestamp="at", partitions=2)
    assert [("a", {"id": "a", "n": 1}), ("b", {"id": "b"})] == [(r.key, r.value) for r in sample]
    assert {1_767_258_000_000} == {record.timestamp for record in sample}
    with pytest.raises(ConfigError, match='line 1 has no field "nope"'):
        Sample.from_json_lines(path, topic="t", timestamp="nope")
    with pytest.raises(ConfigError, match="line 1 is not a record"):
        Sample.from_json_lines(path)
    path.write_text("{\n")
    with pytest.raises(ConfigError, match="line 1 is not JSON"):
        Sample.from_json_lines(path)


def test_a_sample_becomes_a_pandas_frame():
    """One column per field, times in UTC."""
    frame = PLAIN.to_pandas()
    assert ["topic", "partition", "offset", "timestamp", "key", "value", "headers"] == list(frame.columns)
    assert pd.Timestamp(10, unit="ms", tz="UTC") == frame["timestamp"][0]


@pytest.mark.slow
def test_a_million_records_load_in_two_seconds(tmp_path):
    """Parquet with four columns, measured in CPU time of this process."""
    import time

    count = 1_000_000
    frame = pd.DataFrame({"key": [f"user{n % 50_000}" for n in range(count)], "t": range(count), "n": range(count)})
    frame.to_parquet(tmp_path / "f.parquet")
    began = time.process_time()
    sample = Sample.from_parquet(tmp_path / "f.parquet", topic="t", key="key", timestamp="t")
    assert count == len(sample)
    assert time.process_time() - began < 2.0


def test_a_folder_of_parquet_files_is_read_in_the_order_of_their_names(tmp_path):
    """As pyarrow reads a data set; folders of samples' own files, patterns and empty folders are refused."""
    named = {"topic": "t", "timestamp": "at", "value": "n"}
    for name, number in (("b", 1), ("a", 2)):
        pq.write_table(pa.table({"at": [number], "n": [number]}), tmp_path / f"{name}.parquet")
    assert [record.value for record in Sample.from_parquet(tmp_path, **named)] == [2, 1]
    with pytest.raises(ConfigError, match="does not exist") as caught:
        Sample.from_parquet(tmp_path / "*.parquet", **named)
    assert "first + second" in caught.value.hint
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="has no Parquet file"):
        Sample.from_parquet(tmp_path / "empty", **named)
    (tmp_path / "own").mkdir()
    PLAIN.to_parquet(tmp_path / "own" / "a.parquet")
    ODD.to_parquet(tmp_path / "own" / "b.parquet")
    with pytest.raises(ConfigError, match="cannot be read"):
        Sample.from_parquet(tmp_path / "own", topic="t", timestamp="timestamp")
    with pytest.raises(ConfigError, match="is a folder") as caught:
        Sample.from_parquet(tmp_path / "own")
    assert "first + second" in caught.value.hint


def test_a_map_with_a_name_for_each_record_takes_no_column_for_each_name(tmp_path):
    """Parquet has the values as text, and a description looks at the fields that it shows only."""
    sample = Sample.from_records([("t", 0, at, at, "k", {"by": {f"u{at}": 1}}) for at in range(3000)])
    sample.to_parquet(tmp_path / "file")
    assert pa.string() == pq.read_schema(tmp_path / "file").field("value").type
    assert sample == Sample.from_parquet(tmp_path / "file")
    described = sample.describe()
    assert len(described.fields) + described.left_out == 3003
    assert (1, 2999) == (described.fields[3].distinct, described.fields[3].missing)


def test_a_folder_is_no_file_of_json_lines(tmp_path):
    """The error is that of any other file that is not text."""
    with pytest.raises(ConfigError, match="cannot be read as text in UTF-8") as caught:
        Sample.from_json_lines(tmp_path)
    assert "directory" in caught.value.detail
