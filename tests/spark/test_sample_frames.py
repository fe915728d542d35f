"""Samples drawn from Spark frames: bounded, and the same on every run."""

from __future__ import annotations

import pandas as pd
import pytest

from kstreamnb.core.record import TopicRecord, Windowed
from kstreamnb.errors import ConfigError
from kstreamnb.frames import Records
from kstreamnb.samples import Sample

pytestmark = pytest.mark.spark

ROLES = {"topic": "sales", "key": "sku", "timestamp": "sold_at"}


def _rows(count=200):
    return pd.DataFrame(
        {
            "sku": [f"sku{n % 17}" if n % 10 else None for n in range(count)],
            "sold_at": pd.to_datetime([1_767_258_000_000 + 1000 * (n // 2) for n in range(count)], unit="ms", utc=True),
            "quantity": range(count),
        }
    )


def test_rows_are_ordered_by_time_and_content_whatever_their_partitions(spark):
    """Another physical layout of the same rows produces the same sample."""
    frame = spark.createDataFrame(_rows())
    first = Sample.from_dataframe(frame.repartition(7), **ROLES, partitions=4)
    second = Sample.from_dataframe(frame.orderBy("quantity", ascending=False), **ROLES, partitions=4)
    assert first == second
    assert 200 == len(first)
    assert sorted(record.timestamp for record in first) == [record.timestamp for record in first]
    assert {"sku", "quantity"} == set(first[0].value)
    assert ("sku", "string") == first.schema[0]


def test_a_named_order_is_kept(spark):
    """``order_by`` defines the order of arrival; it may contradict the times."""
    frame = spark.createDataFrame(_rows(20)).repartition(5)
    sample = Sample.from_dataframe(frame, **ROLES, value="quantity", order_by="quantity")
    assert list(range(20)) == [record.value for record in sample]


def test_a_draw_takes_times_or_whole_keys(spark):
    """A range of times; or a share of the keys with all their rows, the same ones on every run."""
    frame = spark.createDataFrame(_rows())
    part = Sample.from_dataframe(frame, **ROLES, between=("2026-01-01T09:00:10Z", "2026-01-01T09:00:20Z"))
    assert 20 == len(part)
    drawn = Sample.from_dataframe(frame, **ROLES, key_share=0.5)
    assert drawn == Sample.from_dataframe(frame.repartition(3), **ROLES, key_share=0.5)
    keys = {record.key for record in drawn}
    assert 2 < len(keys) < 17
    everything = Sample.from_dataframe(frame, **ROLES)
    assert drawn.of_topic("sales") == Sample(
        tuple(r._replace(offset=n) for n, r in enumerate(r for r in everything if r.key in keys))
    )


def test_too_many_rows_are_refused(spark):
    """A limit alone would be arbitrary, so it is refused."""
    with pytest.raises(ConfigError, match="more than 50 rows were selected"):
        Sample.from_dataframe(spark.createDataFrame(_rows()), **ROLES, limit=50)


def test_times_without_a_zone_are_refused(spark):
    """The error names the column and its type."""
    frame = spark.createDataFrame(_rows(3))
    with pytest.raises(ConfigError, match='expected event times in column "sold_at", got type "timestamp_ntz"'):
        Sample.from_dataframe(frame.selectExpr("sku", "cast(sold_at as timestamp_ntz) sold_at"), **ROLES)
    with pytest.raises(ConfigError, match='column "sku" does not exist'):
        Sample.from_dataframe(frame.drop("sku"), **ROLES)


def test_records_become_a_spark_frame_with_structs_and_times(spark):
    """Windows are columns of timestamps; values without a common type are refused by column."""
    window = Windowed("hat", 0, 10_000)
    frame = Records([TopicRecord("sales", 0, 0, 1000, window, {"pieces": 2})]).to_spark(spark)
    row = frame.selectExpr("key", "value.pieces", "unix_millis(timestamp)", "unix_millis(window_end)").first()
    assert ("hat", 2, 1000, 10_000) == tuple(row)
    assert "array<struct<key:string,value:binary>>" == dict(frame.dtypes)["headers"]
    nothing = Records([TopicRecord("sales", 0, 0, 1000, None, None, (("trace", b"\xff"),))]).to_spark(spark)
    assert (None, None, "trace", b"\xff") == tuple(nothing.selectExpr("key", "value", "inline(headers)").first())
    assert ("string", "string") == tuple(dict(nothing.dtypes)[name] for name in ("key", "value"))
    mixed = Records([TopicRecord("sales", 0, at, 0, "hat", value) for at, value in enumerate([1, "two"])])
    with pytest.raises(ConfigError, match='column "value" has values that share no Spark type'):
        mixed.to_spark(spark)
