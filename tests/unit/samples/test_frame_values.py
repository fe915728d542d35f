"""Cells of pandas frames become values that JSON can hold, whichever role their column has."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import kstreamnb as ks
from kstreamnb.spark.io.dataframe_input import _pandas_records

NOON = "2026-01-01T12:00:00Z"
NOON_MS = 1_767_268_800_000
CELLS: dict[str, tuple[Any, Any]] = {
    "decimal": (Decimal("1.50"), "1.50"),
    "date": (dt.date(2026, 1, 1), "2026-01-01"),
    "time with a zone": (pd.Timestamp(NOON), NOON),
    "time without a zone": (pd.Timestamp("2026-01-01T12:00"), "2026-01-01T12:00:00"),
    "a thousandth of a second": (pd.Timestamp("2026-01-01T12:00:00.123Z"), "2026-01-01T12:00:00.123Z"),
    "time of NumPy": ([np.datetime64("2026-01-01T12:00:00", "ns")], ["2026-01-01T12:00:00"]),
    "duration": (pd.Timedelta("90s"), 90.0),
    "duration of NumPy": ([np.timedelta64(1_500_000_000, "ns")], [1.5]),
    "period": (pd.Period("2026-01", "M"), "2026-01"),
    "interval": (pd.Interval(0, 5), "(0, 5]"),
    "interval of a calendar": (pa.MonthDayNano((14, -1, 7_203_500_000_000)), "P14M-1DT7203.5S"),
    "intervals of a calendar": ([pa.MonthDayNano((0, 3, 0)), pa.MonthDayNano((0, 0, 0))], ["P3D", "PT0S"]),
    "array": (np.array([[1.5, np.nan], [2.5, 3.0]]), [[1.5, None], [2.5, 3.0]]),
    "gaps in a dict": ({"a": float("nan"), "b": pd.NaT, "c": [pd.NA]}, {"a": None, "b": None, "c": [None]}),
    "id": (UUID(int=7), UUID(int=7)),
    "bytes": (bytearray(b"ab"), b"ab"),
    "numbers of NumPy": ([np.int64(7), np.bool_(True)], [7, True]),
}


@pytest.mark.parametrize("case", CELLS)
def test_a_cell_is_the_same_alone_and_in_a_dict(case: str, tmp_path: Path) -> None:
    """It is displayed, replayed, and kept in files."""
    cell, plain = CELLS[case]
    frame = pd.DataFrame({"at": [0], "cell": pd.Series([cell], dtype=object)})
    alone = ks.Sample.from_dataframe(frame, topic="t", timestamp="at", value="cell")
    assert [plain] == [record.value for record in alone]
    assert type(plain) is type(alone[0].value)
    whole = ks.Sample.from_dataframe(frame, topic="t", timestamp="at")
    assert {"cell": plain} == whole[0].value
    assert ", hash " in repr(alone)
    alone.to_json_lines(tmp_path / "lines")
    assert alone == ks.Sample.from_json_lines(tmp_path / "lines")
    alone.to_parquet(tmp_path / "file")
    assert alone == ks.Sample.from_parquet(tmp_path / "file")


@pytest.mark.parametrize("cell", [{"a", "b"}, frozenset("ab"), {"tags": [{"a", "b"}]}])
def test_a_set_is_refused_because_it_has_no_order(cell: Any) -> None:
    """Its text, and with it a sample's hash, would differ between processes; `ks.run` gives the same answer."""
    frame = pd.DataFrame({"timestamp": [0], "value": pd.Series([cell], dtype=object)})
    refused = r'column "value" has a value of type "(frozen)?set", which has no order'
    with pytest.raises(ks.errors.ConfigError, match=refused) as caught:
        ks.Sample.from_dataframe(frame, topic="t", timestamp="timestamp")
    assert caught.value.hint == 'make lists of the sets: frame["value"] = frame["value"].map(sorted)'
    with pytest.raises(ks.errors.ConfigError, match=refused):
        list(_pandas_records("t", ks.spark.FrameInput(frame, key=None)))


def test_a_set_as_a_result_is_answered_with_sorted() -> None:
    """Also within a dict."""
    tags = ks.StreamsBuilder().stream("t").map_values(lambda value: {"tags": {"b", "a"}})
    with pytest.raises(ks.KStreamError, match='a value of type "set" in field "tags"') as caught:
        ks.head(tags, {"t": [("a", 1)]})
    assert caught.value.hint == "for the value: make it a list in a fixed order: sorted(…)"


@pytest.mark.parametrize("kind", ["Int64", "int64[pyarrow]", "UInt8"])
def test_whole_numbers_with_gaps_stay_whole(kind: str) -> None:
    """If the column's type says so; alone, as a key and in a dict."""
    frame = pd.DataFrame({"at": [0, 1], "id": pd.Series([7, None], dtype=kind)})
    sample = ks.Sample.from_dataframe(frame, topic="t", timestamp="at", key="id")
    assert [(7, {"id": 7}), (None, {"id": None})] == [(record.key, record.value) for record in sample]
    assert type(sample[0].key) is type(sample[0].value["id"]) is int


def test_a_sample_names_columns_of_whole_numbers_that_gaps_made_floats() -> None:
    """With the call that keeps them whole; other floats, and columns that are not read, are not named."""
    gap = float("nan")
    columns = {
        "at": [0, 1, 2],
        "n": [1.0, gap, 3.0],
        "rate": [0.5, gap, 2.0],
        "full": [1.0, 2.0, 3.0],
        "none": [gap] * 3,
    }
    sample = ks.Sample.from_dataframe(pd.DataFrame(columns), topic="t", timestamp="at")
    hint = 'whole numbers of column "n" are floats, because it has gaps: .astype("Int64")'
    assert ("from a pandas frame", hint) == sample.notes
    other = ks.Sample.from_dataframe(pd.DataFrame(columns), topic="t", timestamp="at", value=["rate", "none"])
    assert ("from a pandas frame",) == other.notes
    whole = pd.DataFrame(columns).astype({"n": "Int64"})
    assert ("from a pandas frame",) == ks.Sample.from_dataframe(whole, topic="t", timestamp="at").notes


def test_a_sample_names_the_option_that_sorts_rows_by_time() -> None:
    """Most rows of an unsorted frame are late for their windows."""
    frame = pd.DataFrame({"at": [2, 1, 3], "part": [1, 0, 0]})
    note = 'rows are not sorted by time: order_by="at" sorts them'
    from_frame = partial(ks.Sample.from_dataframe, topic="t", timestamp="at")
    assert from_frame(frame).notes == ("from a pandas frame", note)
    assert from_frame(pa.table(frame)).notes == ("from an arrow frame", note)
    assert from_frame(frame, order_by="at").notes == ("from a pandas frame",)
    assert from_frame(frame, order_by="part").notes == ("from a pandas frame",)  # another order was asked for
    assert from_frame(frame, partition="part").notes == ("from a pandas frame",)  # each partition has its own order
    assert from_frame(frame[1:]).notes == ("from a pandas frame",)


@pytest.mark.parametrize("role", ["key", "value"])
def test_large_whole_numbers_beside_gaps_stay_exact_in_frames(role: str) -> None:
    """Floats have 53 bits; small ones become floats, as everywhere in pandas."""
    for number, exact in ((2**53 + 1, True), (2**64 - 1, True), (3, False)):
        records = [{"key": "a", "value": 1, role: each} for each in (number, None)]
        sample = ks.Sample.from_records([("t", 0, 0, 0, each["key"], each["value"]) for each in records])
        cells = sample.to_pandas()[role]
        assert (number, object if exact else np.dtype("float64")) == (cells[0], cells.dtype)


@pytest.mark.parametrize(
    ("cells", "detail"),
    [
        (pa.array([2**62], pa.timestamp("us", "UTC")), "date value out of range"),
        (pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), "its fields a, a are not unique"),
    ],
)
def test_a_value_of_arrow_that_python_cannot_hold_is_refused_with_its_column(cells: pa.Array, detail: str) -> None:
    """Times after the year 9999; of two fields with one name, the first was lost."""
    table = pa.table({"at": [0], "cell": cells})
    fact = r'column "cell" of type .* has a value that Python cannot hold'
    with pytest.raises(ks.errors.ConfigError, match=fact) as caught:
        ks.Sample.from_dataframe(table, topic="t", timestamp="at")
    assert detail == caught.value.detail


def test_times_between_two_milliseconds_are_kept_in_values_and_warned_of_as_event_times() -> None:
    """One warning per column at the user's line, for pandas, Arrow and Python; `ks.run` reads the same."""
    fine = pd.to_datetime(["2026-01-01T12:00:00.123456Z"] * 2)
    columns = {
        "pandas": fine,
        "Arrow": pd.Series(fine).astype("timestamp[us, tz=UTC][pyarrow]"),
        "Python": pd.Series(list(fine.to_pydatetime()), dtype=object),
    }
    for times in columns.values():
        frame = pd.DataFrame({"timestamp": times})
        with pytest.warns(UserWarning, match='times of column "timestamp" are cut to whole milliseconds') as caught:
            sample = ks.Sample.from_dataframe(frame, topic="t", timestamp="timestamp", value=["timestamp"])
        assert [__file__] == [each.filename for each in caught]
        with pytest.warns(UserWarning, match="are cut"):
            read = list(_pandas_records("t", ks.spark.FrameInput(frame, key=None)))
        for records in (list(sample), read):
            assert [NOON_MS + 123] * 2 == [record.timestamp for record in records]
        assert {"timestamp": "2026-01-01T12:00:00.123456Z"} == sample[0].value


def test_a_column_can_have_several_roles(tmp_path: Path) -> None:
    """The time of a record is in ms, and the same column as a key or value is text, in every kind of source."""
    frame = pd.DataFrame({"at": pd.to_datetime([NOON])})
    for value, expected in (("at", NOON), (["at"], {"at": NOON})):
        record = ks.Sample.from_dataframe(frame, topic="t", timestamp="at", key="at", value=value)[0]
        assert (NOON_MS, NOON, expected) == (record.timestamp, record.key, record.value)
        frame.to_parquet(tmp_path / "file")
        sample = ks.Sample.from_parquet(tmp_path / "file", topic="t", timestamp="at", key="at", value=value)
        assert record == sample[0]
    tmp_path.joinpath("lines").write_text(json.dumps({"at": NOON}))
    record = ks.Sample.from_json_lines(tmp_path / "lines", topic="t", timestamp="at", key="at", value="at")[0]
    assert (NOON_MS, NOON, NOON) == (record.timestamp, record.key, record.value)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_arrow_have_their_zone(unit: str) -> None:
    """With a zone they are read, without one they are refused."""
    times = pd.Series(pd.to_datetime([NOON])).astype(f"timestamp[{unit}, tz=UTC][pyarrow]")
    sample = ks.Sample.from_dataframe(pd.DataFrame({"at": times}), topic="t", timestamp="at")
    assert NOON_MS == sample[0].timestamp
    local = pd.Series(pd.to_datetime(["2026-01-01"])).astype(f"timestamp[{unit}][pyarrow]")
    with pytest.raises(ks.errors.ConfigError, match='column "at" has times without a time zone'):
        ks.Sample.from_dataframe(pd.DataFrame({"at": local}), topic="t", timestamp="at")
    gap = pd.Series(pd.to_datetime([NOON, None])).astype(f"timestamp[{unit}, tz=UTC][pyarrow]")
    with pytest.raises(ks.errors.ConfigError, match='column "at" has no time in 1 of 2 rows'):
        ks.Sample.from_dataframe(pd.DataFrame({"at": gap}), topic="t", timestamp="at")


def test_a_sample_is_displayed_whatever_its_values_are() -> None:
    """A value without a text has no hash, and a display does not fail."""
    circle: list[Any] = []
    circle.append(circle)
    for value in (dt.timedelta(1), {(1, 2): 3}, circle, {1: 2, "a": 3}):
        sample = ks.Sample.from_records([("t", 0, 0, 0, "a", value)])
        assert "Sample of 1 record" in repr(sample)
        assert "<table" in sample._repr_html_()


def of(table: Any, **columns: Any) -> ks.Sample:
    """A sample of a table with times."""
    return ks.Sample.from_dataframe(table, **{"topic": "t", "timestamp": "at", **columns})


def test_a_map_of_arrow_is_a_dict_also_within_other_values(tmp_path: Path) -> None:
    """As in `ks.run`; a table is also read batch by batch, as DuckDB and Polars hand it over."""
    counts = pa.map_(pa.string(), pa.int64())
    kinds = {
        "map": (counts, [("a", 1)], {"a": 1}),
        "days": (pa.map_(pa.date32(), pa.float64()), [(dt.date(2026, 1, 1), float("nan"))], {"2026-01-01": None}),
        "maps": (pa.list_(counts), [[("a", 1)], None, []], [{"a": 1}, None, {}]),
        "struct": (pa.struct([("m", counts)]), {"m": [("a", 1)]}, {"m": {"a": 1}}),
    }
    columns = {name: pa.array([cell, None], kind) for name, (kind, cell, _) in kinds.items()}
    table = pa.table({"at": [0, 1], **columns})
    for each in (table, table.to_reader()):
        sample = of(each)
        expected = [{name: plain for name, (_, _, plain) in kinds.items()}, dict.fromkeys(kinds)]
        assert expected == [record.value for record in sample]
    pa.parquet.write_table(table, tmp_path / "file")
    assert sample == ks.Sample.from_parquet(tmp_path / "file", topic="t", timestamp="at")
    twice = pa.table({"at": [0], "map": pa.array([[("a", 1), ("a", 2)]], counts)})
    with pytest.raises(ks.errors.ConfigError, match='column "map" of type') as caught:
        of(twice)
    assert "names of a map are not unique" == caught.value.detail


def test_columns_of_several_levels_are_answered_with_how_to_join_their_names() -> None:
    """The line of the hint gives a frame that can be read."""
    frame = pd.DataFrame({"at": [1, 2], "k": ["a", "b"]}).groupby("k").agg({"at": ["min", "max"]}).reset_index()
    with pytest.raises(ks.errors.ConfigError, match="names of several levels") as caught:
        of(frame)
    exec(str(caught.value.hint).removeprefix("join their names: "), {"frame": frame})
    assert [{"k": "a", "at_max": 1}, {"k": "b", "at_max": 2}] == [row.value for row in of(frame, timestamp="at_min")]


def test_columns_of_pyarrow_in_pandas_may_have_gaps() -> None:
    """All that `convert_dtypes` makes; such a column keeps whole numbers, so nothing is noted."""
    frame = pd.DataFrame({"at": [0, 1], "n": [1.0, None], "x": [1.5, None], "s": ["a", None], "l": [[1], None]})
    sample = of(frame.convert_dtypes(dtype_backend="pyarrow"))
    assert [{"n": 1, "x": 1.5, "s": "a", "l": [1]}, dict.fromkeys("nxsl")] == [record.value for record in sample]
    assert ("from a pandas frame",) == sample.notes


@pytest.mark.parametrize(
    ("columns", "fact"),
    [
        ({"timestamp": None}, "timestamp must be str, got None"),
        ({"topic": None}, "topic must be str, got None"),
        ({"key": ["at", "n"]}, "key must be str or None, got a list of str"),
        ({"partitions": "4"}, "partitions must be int or None"),
    ],
)
def test_a_column_of_another_type_than_text_is_refused(columns: dict[str, Any], fact: str) -> None:
    """Before the frame is read."""
    with pytest.raises(ks.errors.ConfigError, match=fact):
        of(pd.DataFrame({"at": [0], "n": [1]}), **columns)


def test_a_name_of_a_serde_chooses_the_partitions_of_keys() -> None:
    """As in every other call."""
    frame = pd.DataFrame({"at": range(9), "k": range(9)})
    expected = of(frame, key="k", partitions=3, key_serde=ks.Serdes.long())
    assert expected == of(frame, key="k", partitions=3, key_serde="long")
    assert expected == of(frame, key="k").with_partitions(3, key_serde="long")


def test_times_of_tables_that_need_a_zone_or_have_gaps_are_answered_with_a_call(tmp_path: Path) -> None:
    """That of the library from which the table comes, and it helps; a file is read with pandas."""
    local, gap = pa.array([dt.datetime.fromisoformat(NOON[:-1])]), pa.array([dt.datetime.fromisoformat(NOON), None])
    table, path = pa.table({"at": local}), tmp_path / "local.parquet"
    with pytest.raises(ks.errors.ConfigError, match="without a time zone") as caught:
        of(table)
    zoned = eval(_advice(caught), {"pyarrow": pa, "table": table})
    assert NOON_MS == of(pa.table({"at": zoned}))[0].timestamp
    pa.parquet.write_table(table, path)
    with pytest.raises(ks.errors.ConfigError, match="without a time zone") as caught:
        ks.Sample.from_parquet(path, topic="t", timestamp="at")
    exec(_advice(caught), names := {"pandas": pd, "path": path})
    assert NOON_MS == of(names["frame"])[0].timestamp
    gaps = pa.table({"at": gap})
    with pytest.raises(ks.errors.ConfigError, match="has no time in 1 of 2 rows") as caught:
        of(gaps)
    assert NOON_MS == of(eval(_advice(caught), {"table": gaps}))[0].timestamp
    pa.parquet.write_table(gaps, path)
    with pytest.raises(ks.errors.ConfigError, match="has no time in 1 of 2 rows") as caught:
        ks.Sample.from_parquet(path, topic="t", timestamp="at")
    exec(_advice(caught), names := {"pandas": pd, "path": path})
    assert NOON_MS == of(names["frame"])[0].timestamp


@pytest.mark.parametrize(("package", "advice"), [("polars.dataframe", "pl.col("), ("_duckdb", "AT TIME ZONE 'UTC'")])
def test_polars_and_sql_have_calls_of_their_own_for_a_zone(package: str, advice: str) -> None:
    """Which are no packages of the tests."""
    exported = type("Exported", (), {"__module__": package, "columns": ["at"]})
    exported.__arrow_c_stream__ = pa.table({"at": pa.array([0], pa.timestamp("ms"))}).__arrow_c_stream__
    with pytest.raises(ks.errors.ConfigError, match="without a time zone") as caught:
        of(exported())
    assert advice in _advice(caught)


def _advice(caught: pytest.ExceptionInfo[ks.errors.ConfigError]) -> str:
    """Return the code of a hint, which follows a few words."""
    return str(caught.value.hint).partition(": ")[2]


def test_texts_without_a_zone_in_a_column_of_pandas_are_answered_with_pandas() -> None:
    """As a CSV file has them."""
    frame = pd.DataFrame({"at": [NOON[:-1].replace("T", " ")]})
    with pytest.raises(ks.errors.ConfigError, match="has no time zone") as caught:
        of(frame)
    exec(_advice(caught), {"pandas": pd, "frame": frame})
    assert NOON_MS == of(frame)[0].timestamp


def test_maps_in_arrow_columns_of_pandas_are_dicts() -> None:
    """As those of Arrow tables are; also within lists, and for `ks.run`."""
    ages, entry = pa.map_(pa.string(), pa.int64()), [("ann", 7)]
    cells = {"map": pa.array([entry, None], ages), "list": pa.array([[entry], None], pa.list_(ages))}
    columns = {name: pd.Series(pd.arrays.ArrowExtensionArray(array)) for name, array in cells.items()}
    frame = pd.DataFrame({"timestamp": [0, 1], **columns})
    assert {"map": {"ann": 7}, "list": [{"ann": 7}]} == of(frame, timestamp="timestamp")[0].value
    assert {"map": None, "list": None} == of(frame, timestamp="timestamp")[1].value
    run = list(_pandas_records("t", ks.spark.FrameInput(frame, key=None)))
    assert {"map": {"ann": 7}, "list": [{"ann": 7}]} == run[0].value


def test_decimals_of_a_type_without_fractions_are_whole_numbers() -> None:
    """Such as the sums that DuckDB returns; those with fractions are text, which keeps them exact."""
    whole, money = pa.array([10**30, None], pa.decimal128(38, 0)), pa.array([Decimal("1.50")] * 2, pa.decimal128(9, 2))
    sample = of(pa.table({"at": [0, 1], "n": whole, "price": money}))
    assert [{"n": 10**30, "price": "1.50"}, {"n": None, "price": "1.50"}] == [record.value for record in sample]


def test_subclasses_of_pandas_frames_are_read_as_pandas() -> None:
    """GeoPandas has one, whose geometries have to become text."""

    class GeoFrame(pd.DataFrame): ...

    class Point: ...

    GeoFrame.__module__ = Point.__module__ = "geopandas.geodataframe"
    assert {"n": 7} == of(GeoFrame({"at": [0], "n": [7]}))[0].value
    with pytest.raises(ks.errors.ConfigError, match='column "where" has a value of type "Point"') as caught:
        of(GeoFrame({"at": [0], "where": [Point()]}))
    assert ".map(str)" in str(caught.value.hint)


@pytest.mark.parametrize("rows", [[{"at": 0, "n": 7}], {"at": [0], "n": [7]}, "rides.csv", Path("rides.csv")])
def test_rows_and_files_are_answered_with_a_frame_of_them(rows: Any) -> None:
    """Rows of dicts also where records are expected, and lines of a CSV file where a table is."""
    with pytest.raises(ks.errors.ConfigError, match="expected a DataFrame, got type") as caught:
        of(rows)
    assert "pandas.DataFrame(rows), or pandas.read_csv(path) for a file" in str(caught.value.hint)


def test_dicts_and_csv_text_are_answered_with_frames() -> None:
    """Where records, or a table with bars, are expected."""
    with pytest.raises(ks.errors.ConfigError, match='got type "dict"') as caught:
        ks.Sample.from_records([{"at": 0, "n": 7}])  # type: ignore[list-item]
    assert "pandas.DataFrame(rows)" in str(caught.value.hint)
    with pytest.raises(ks.errors.ConfigError, match='does not name its columns: "at,n"') as caught:
        ks.Sample.from_text("at,n\n0,7")
    assert "For a CSV file, pass pandas.read_csv(path)" in str(caught.value.hint)


def test_a_lazy_frame_is_run_first() -> None:
    """As the hint says."""

    class LazyFrame:
        def collect(self) -> None: ...

    with pytest.raises(ks.errors.ConfigError, match='got type "LazyFrame"') as caught:
        of(LazyFrame())
    assert "frame.collect()" in str(caught.value.hint)


@pytest.mark.parametrize("kind", ["Object", "Int128"])
def test_types_of_polars_that_arrow_cannot_hold_are_refused(kind: str) -> None:
    """Arrow would get the addresses of objects in memory, which differ from run to run."""

    class Exported:
        schema: ClassVar = {"at": "Int64", "c": kind}
        __arrow_c_stream__ = pa.table({"at": [0], "c": [b"\0\1"]}).__arrow_c_stream__

    with pytest.raises(ks.errors.ConfigError, match=f'column "c" has type "{kind}", which a sample cannot hold'):
        of(Exported())
