"""Samples from invalid frames, files and tables: errors with one fact and one action."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import kstreamnb as ks
from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.formatting import format_value
from kstreamnb.errors import ConfigError, KStreamError
from tests.hostile import ATTACKS

UTC = dt.UTC


def framed(frame: pd.DataFrame, **roles: Any) -> ks.Sample:
    """A frame with the columns k and ts as a sample."""
    return ks.Sample.from_dataframe(frame, **{"topic": "t", "key": "k", "timestamp": "ts", **roles})


def column(**columns: list[Any]) -> pd.DataFrame:
    """A frame with keys, with the time column missing or invalid, and with other columns."""
    rows = len(next(iter(columns.values())))
    return pd.DataFrame({"k": ["a"] * rows, "ts": list(range(rows)), **columns})


FRAMES: dict[str, tuple[pd.DataFrame, dict[str, Any], str]] = {
    "a wrong column": (column(v=[1]), {"timestamp": "when"}, 'column "when" does not exist'),
    "no columns at all": (pd.DataFrame(), {}, 'column "ts" does not exist'),
    "times in the index": (column(v=[1]).set_index("ts"), {}, '"ts" is the index of the frame'),
    "keys in the index": (column(v=[1]).set_index("k", append=True), {}, '"k" is the index of the frame'),
    "two columns of one name": (pd.DataFrame([["a", 1, 2, 0]], columns=["k", "v", "v", "ts"]), {}, "is not unique"),
    "a missing time": (
        column(ts=pd.to_datetime(["2024-01-01", None], utc=True)), {}, 'column "ts" has no time in 1 of 2 rows',
    ),
    "a missing number": (column(ts=[1.0, float("nan")]), {}, 'row 1 of column "ts" has no time'),
    "a time without a zone": (column(ts=pd.to_datetime(["2024-01-01"])), {}, "times without a time zone"),
    "a time of 70 bits": (column(ts=[2**70]), {}, "must be a 64-bit integer, got 1180591620717411303424"),
    "half a millisecond": (column(ts=[5.5]), {}, 'column "ts": time must be a 64-bit integer, got 5.5'),
    "a word as a time": (column(ts=[0, "noon"]), {}, 'row 1 of column "ts": time "noon" is not an instant'),
    "a partition that is a word": (column(p=["x"]), {"partition": "p"}, "partition numbers from 0, got 'x' in row 0"),
    "a missing partition": (column(p=[0, None]), {"partition": "p"}, 'partition numbers from 0, got None in row 1'),
    "a partition below zero": (column(p=[-3]), {"partition": "p"}, 'partition numbers from 0, got -3 in row 0'),
    "no partitions": (column(v=[1]), {"partitions": 0}, "partitions must be at least 1, got 0"),
    "a name that is a number": (column(v=[1]).rename(columns={"v": 2025}), {}, "column 2025 has a name that is"),
    "a value of another type": (column(v=[1j]), {}, 'column "v" has a value of type "complex", which a sample cannot'),
    "another type in a list": (column(v=[[object()]]), {"value": "v"}, 'column "v" has a value of type "object"'),
    "keys of another type": (column(k=[1]), {"partitions": 2}, 'serde "string" cannot write a value of type "int"'),
}  # fmt: skip


@pytest.mark.parametrize("case", FRAMES)
def test_a_frame_that_cannot_be_read_says_why(case: str) -> None:
    """The column and the row are in the first line."""
    frame, roles, said = FRAMES[case]
    with pytest.raises(KStreamError) as raised:
        framed(frame, **roles)
    assert said in str(raised.value)


def test_times_in_another_form_are_answered_with_the_call_that_converts_the_column() -> None:
    """Not with the form of a single time, and keys are one column."""
    with pytest.raises(KStreamError) as raised:
        framed(column(ts=["01.02.2026 09:05"]))
    call = 'convert the column first: frame["ts"] = pandas.to_datetime(frame["ts"], '
    # By default pandas takes 02.01. for a day of February.
    assert raised.value.hint == call + "dayfirst=True, utc=True)  # dayfirst=False if the month is first"
    with pytest.raises(KStreamError) as raised:
        framed(column(ts=["2026-02-01 09:05"]))
    assert raised.value.hint == call + "utc=True)"
    with pytest.raises(KStreamError, match="key must be str or None, got a list of str"):
        framed(column(v=[1]), key=["k"])


@pytest.mark.parametrize("text", ["2/1/2026", "02.01.2026 10:00:30", "02-01-2026 10:00", "Jan 2, 2026", "2026/01/02"])
def test_the_call_that_converts_a_column_of_times_runs(text: str) -> None:
    """Whatever the form of its texts, and as the day that they mean in most countries."""
    frame = column(ts=[text])
    with pytest.raises(KStreamError) as raised:
        framed(frame)
    exec((raised.value.hint or "").partition(": ")[2], {"pandas": pd, "frame": frame})
    (record,) = framed(frame)
    assert pd.Timestamp(record.timestamp, unit="ms").date() == dt.date(2026, 1, 2)


def test_scalars_of_numpy_become_values_of_python() -> None:
    """Texts, bytes, numbers and truth values in a column of objects are those that JSON and serdes know."""
    scalars = [np.str_("a"), np.bytes_(b"x"), np.float64(1.5), np.int8(1), np.bool_(True), np.float64("nan")]
    values = [row.value for row in framed(column(v=[scalars, *scalars]), value="v")]
    assert [["a", b"x", 1.5, 1, True, None], "a", b"x", 1.5, 1, True, None] == values
    assert [list, str, bytes, float, int, bool, type(None)] == list(map(type, values))
    assert [str, bytes, float, int, bool, type(None)] == list(map(type, values[0]))


def test_masked_values_of_numpy_are_missing() -> None:
    """Masked arrays are arrays, and what they hold for a masked value is not passed on."""
    masked = np.ma.array([1, 2], mask=[False, True])
    assert [[1, None], None] == [row.value for row in framed(column(v=[masked, np.ma.masked]), value="v")]


def test_a_replay_refuses_a_partition_that_was_read_from_a_wrong_column() -> None:
    """A hundred thousand tasks would take hours to begin with."""
    builder = ks.StreamsBuilder("wrong")
    builder.stream("t").to("out")
    sample = framed(column(p=[0, 99_999]), partition="p")
    with pytest.raises(ConfigError, match="a record is in partition 99999, so a replay would need 100,000 partitions"):
        ks.replay(builder.build(), sample)


def test_odd_frames_are_read_as_they_are() -> None:
    """Mixed types, numbers of 70 bits, nanoseconds, zones, no rows: only fractions of a millisecond are lost."""
    mixed = framed(column(k=["a", 1, None, 2.5], v=[1, "x", [1], {"a": 2**70}]), value="v")
    assert [("a", 1), (1, "x"), (None, [1]), (2.5, {"a": 2**70})] == [(row.key, row.value) for row in mixed]
    with pytest.warns(UserWarning, match='times of column "ts" are cut to whole milliseconds'):
        nanos = framed(column(ts=pd.to_datetime([1_704_067_200_123_456_789], utc=True)))
    assert 1_704_067_200_123 == nanos[0].timestamp
    with pytest.warns(UserWarning, match='times of column "ts" are cut to whole milliseconds'):
        texts = framed(column(ts=["2024-01-01T00:00:00.123456Z", "2024-01-01T01:00:00.5+01:00", 7]))
    assert [1_704_067_200_123, 1_704_067_200_500, 7] == [row.timestamp for row in texts]
    berlin = framed(column(ts=pd.to_datetime(["2024-01-01"]).tz_localize("Europe/Berlin")))
    assert dt.datetime(2023, 12, 31, 23, tzinfo=UTC).timestamp() * 1000 == berlin[0].timestamp
    assert 0 == len(framed(pd.DataFrame(columns=["k", "v", "ts"])))
    floats = framed(column(p=[1.0, 0.0]), partition="p")
    assert [1, 0] == [row.partition for row in floats]
    assert all(type(row.partition) is int for row in floats)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (None, "table must be str, got None"),
        ("", "the table is empty"),
        ("key | value\na | 1", "has no topic"),
        ('topic | value | headers\nt | 1 | {"a": 1}', 'headers must map names to strings, got {"a": 1}'),
        ("topic | value | headers\nt | 1 | 7", "headers must map names to strings, got 7"),
        ("topic | value | time\nt | 1 | 2024-01-01T00:00:00", "has no time zone"),
    ],
)
def test_a_table_that_cannot_be_read_says_why(table: Any, said: str) -> None:
    """The cell is in the first line, and the line of the table below."""
    with pytest.raises(ConfigError) as raised:
        ks.Sample.from_text(table)
    assert said in str(raised.value)


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    """Bytes that are neither text nor Parquet."""
    path = tmp_path / "strange"
    path.write_bytes(b'\xff{"k"')
    with pytest.raises(ConfigError, match='file "strange" cannot be read as text in UTF-8'):
        ks.Sample.from_json_lines(path, topic="t", timestamp="ts")
    with pytest.raises(ConfigError, match='file "strange" is not a Parquet file'):
        ks.Sample.from_parquet(path, topic="t", timestamp="ts")


def test_a_sample_merges_with_samples_only() -> None:
    """A list of records is not one."""
    sample = ks.Sample.from_text("topic | value\nt | 1")
    with pytest.raises(ConfigError, match="each sample to merge must be Sample, got a list of TopicRecord"):
        sample.merge([sample[0]])  # type: ignore[arg-type]


def test_what_could_not_be_decoded_is_gone_after_a_redaction() -> None:
    """Keys too, because their content is unknown."""
    sample = ks.Sample.from_text('topic | key | value\nt | undecoded:01 | undecoded:ff\nt | a | {"card": 1}')
    redacted = sample.redact("card")
    assert [(SerializedValue(), SerializedValue()), ("a", {"card": 0})] == [(row.key, row.value) for row in redacted]


@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
def test_a_text_of_strangers_is_shown_and_kept(text: str, tmp_path: Path) -> None:
    """Text that looks like a key in thousands of windows, or like a time of thousands of digits, is text."""
    sample = ks.Sample.from_records([("orders", 0, 0, 0, text, {"note": text, text: text})])
    assert sample.content_hash
    assert "1 record" in sample.describe().title
    assert len(str(sample)) < 2000
    sample.to_json_lines(tmp_path / "s.jsonl")
    assert sample.records == ks.Sample.from_json_lines(tmp_path / "s.jsonl").records
    assert sample.records == ks.Sample.from_text(sample.to_text()).records


def deep(levels: int) -> Any:
    """Lists within lists."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


VALUES = {"deep": deep(5_000), "number": 10**5_000, "inner number": {"n": [10**5_000]}, "inner": {"d": deep(5_000)}}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_without_text_is_shown_by_its_type(value: Any) -> None:
    """A display never fails for one value: Python refuses to write such numbers, and such nesting."""
    sample = ks.Sample.from_records([("orders", 0, 0, 0, "a", value), ("orders", 0, 1, 0, "b", 1)])
    assert "that cannot be shown" in str(sample)
    assert "that cannot be shown" in format_value(value)
    assert "b" in sample._repr_html_()
    assert "1 topic, 2 records" in str(sample.describe())
    assert sample.statistics()


@pytest.mark.parametrize(
    "line",
    [
        '{"topic": "in", "timestamp": 0, "value": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"topic": "in", "timestamp": 0, "value": ' + "1" * 100_000 + "}",
        "[" * 100_000,
    ],
    ids=["deep", "number", "open"],
)
def test_a_line_that_json_cannot_hold_is_named(line: str, tmp_path: Path) -> None:
    """Instead of an error of Python about its stack."""
    (tmp_path / "s.jsonl").write_text(line)
    with pytest.raises(ConfigError, match="line 1 is not JSON"):
        ks.Sample.from_json_lines(tmp_path / "s.jsonl")


@pytest.mark.parametrize("cell", ["[" * 100_000, "a" + "@0/1" * 50_000, '{"a":' * 100_000])
def test_a_cell_that_is_nested_too_deeply_is_refused(cell: str) -> None:
    """A table that somebody sent."""
    with pytest.raises(ConfigError, match="nested too deeply"):
        ks.Sample.from_text(f"topic | key | value\nin | a | {cell}")


def test_bytes_that_would_exhaust_python_are_bytes_that_no_serde_reads() -> None:
    """The deserialization handler decides about them as about any others."""
    for data in (b"[" * 100_000, b"1" * 100_000, b'{"a":' * 100_000, b"1e999"):
        with pytest.raises(ks.errors.SerdeError, match="cannot read"):
            ks.Serdes.json().deserialize(data)
