"""`run` over static DataFrames produces what the driver produces."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.core.codec import partition_for
from kstreamnb.spark import FrameInput
from tests import howto
from tests.spark.streams import Row, by_partition, driven
from tests.spark.test_streaming import disordered, joined, three_levels, two_levels
from tests.spark.test_time_and_tables import with_global_table

pytestmark = pytest.mark.spark


def as_records(rows: list[Row]) -> list[ks.TopicRecord]:
    """Rows as records without partitions."""
    return [ks.TopicRecord(topic, -1, at, time, key, value) for at, (topic, key, value, time) in enumerate(rows)]


def got(result: Any, topics: list[str]) -> dict[str, Any]:
    """Records of a result by topic and partition."""
    return {
        topic: by_partition([record for rows in result.records(topic).values() for record in rows]) for topic in topics
    }


@pytest.mark.parametrize(
    ("build", "inputs", "written"),
    [
        (two_levels, ["in"], ["totals", "windows"]),
        (three_levels, ["in"], ["out"]),
        (joined, ["left", "right"], ["pairs", "sums"]),
    ],
    ids=["two levels", "three levels", "joins"],
)
def test_records_in_order_of_arrival_give_the_drivers_output(
    spark: Any, build: Any, inputs: list[str], written: list[str]
) -> None:
    """Out-of-order input keeps its order in each partition."""
    topology, rows = build(), disordered(inputs, 300)
    result = ks.run(topology, spark=spark, inputs=as_records(rows), partitions=3)
    assert driven(topology, rows, 3, written) == got(result, written)
    result.close()


def test_rows_without_an_order_go_by_time_and_then_by_content(spark: Any) -> None:
    """The result does not depend on Spark's physical layout."""
    topology, rows = joined(), disordered(["left", "right"], 300)
    frames = {
        topic: spark.createDataFrame(
            [(key, value, time) for name, key, value, time in rows if name == topic],
            "key string, value bigint, timestamp bigint",
        ).repartition(5)
        for topic in ("left", "right")
    }
    result = ks.run(topology, spark=spark, inputs=frames, partitions=3)
    ordered = sorted(rows, key=lambda row: (row[3], row[0], row[1], str(row[2])))
    assert driven(topology, ordered, 3, ["pairs", "sums"]) == got(result, ["pairs", "sums"])


def test_a_dict_is_made_of_the_columns_that_are_nothing_else(spark: Any) -> None:
    """Times become text, missing values None."""
    builder = ks.StreamsBuilder("columns")
    builder.stream("in").map_values(lambda value: value).to("out")
    frame = spark.sql(
        "select * from values ('a', 1, timestamp'2026-01-01 00:00:00', null), "
        "('b', 2, timestamp'2026-01-01 00:00:01', 5d) as rows(sku, n, sold_at, price)"
    )
    given = FrameInput(frame, key="sku", timestamp="sold_at")
    result = ks.run(builder.build(), spark=spark, inputs={"in": given})
    assert [
        ("a", {"sku": "a", "n": 1, "price": None}, 1767225600000),
        ("b", {"sku": "b", "n": 2, "price": 5.0}, 1767225601000),
    ] == got(result, ["out"])["out"][0]


def test_output_topics_are_data_frames(spark: Any) -> None:
    """S1-22, S2-61: columns are typed by the serdes, offsets count in order, and SQL joins them with the rows of a
    store, which is a frame of Spark and of pandas.
    """
    topology, rows = two_levels(), disordered(["in"], 200)
    result = ks.run(topology, spark=spark, inputs=as_records(rows), partitions=3)
    assert ["totals", "windows"] == list(result.outputs)
    frame = result.outputs["totals"]
    assert [("key", "string"), ("value", "bigint")] == [each for each in frame.dtypes if each[0] in ("key", "value")]
    rows_of = [
        ks.TopicRecord("totals", row["partition"], row["offset"], row["timestamp"], row["key"], row["value"])
        for row in frame.orderBy("partition", "offset").collect()
    ]
    assert [record for part in result.records("totals").values() for record in part] == rows_of
    driver = ks.TopologyTestDriver(topology, partitions=3)
    driver.pipe(as_records(rows))
    totals = dict(result.store("totals").all())
    assert dict(driver.get_key_value_store("totals").all()) == totals
    assert spark == frame.sparkSession
    result.store("totals").to_spark(spark).createOrReplaceTempView("totals")
    assert dict(result.store("totals").to_pandas()[["key", "value"]].itertuples(index=False)) == totals
    frame.createOrReplaceTempView("updates")
    last = "select key, max(value) as most from updates group by key"
    joined_ = spark.sql(f"select key, value, most from totals join ({last}) using (key)").collect()
    assert {(name, total, total) for name, total in totals.items()} == {tuple(row) for row in joined_}


def test_global_tables_are_complete_from_the_start(spark: Any) -> None:
    """Every worker has the whole table."""
    topology = with_global_table()
    rows: list[Row] = [("names", f"k{n}", f"name {n}", n) for n in range(9)] + disordered(["in"], 100)
    result = ks.run(topology, spark=spark, inputs=as_records(rows), partitions=3)
    assert driven(topology, rows, 3, ["first", "second"]) == got(result, ["first", "second"])


def test_pandas_frames_keep_their_order(spark: Any) -> None:
    """Later rows may have earlier times."""
    import pandas

    topology, rows = two_levels(), disordered(["in"], 200)
    frame = pandas.DataFrame(
        [(key, value, time) for _, key, value, time in rows], columns=["key", "value", "timestamp"]
    )
    result = ks.run(topology, spark=spark, inputs={"in": frame}, partitions=3)
    assert driven(topology, rows, 3, ["totals"]) == got(result, ["totals"])


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_a_row_gets_the_partition_that_kafkas_producer_chooses(spark: Any, kind: str) -> None:
    """Keys of every length modulo four, bytes above 127, and none."""
    texts = ["", *("Zürich 東京 🚀"[:length] for length in range(1, 12)), "k" * 1000, None]
    builder = ks.StreamsBuilder("copies")
    builder.stream("in", value_serde="long").to("out", value_serde="long")
    rows = [(text if text is None or kind == "string" else text.encode(), at, 0) for at, text in enumerate(texts)]
    frame = spark.createDataFrame(rows, f"key {kind}, value bigint, timestamp bigint")
    found = ks.run(builder.build(), spark=spark, inputs={"in": FrameInput(frame, value="value")}, partitions=7)
    expected = {at: 0 if text is None else partition_for(text.encode(), 7) for at, text in enumerate(texts)}
    assert expected == {record.value: record.partition for part in found.records("out").values() for record in part}
    assert len(set(expected.values())) > 4


def test_times_in_values_are_the_text_of_a_sample_in_sessions_of_any_zone(spark: Any) -> None:
    """With a zone, without, days and decimals; a time zone that repeats an hour keeps the two apart."""
    frame = spark.sql("""
        SELECT key, timestamp_millis(ms) at, date'2026-10-25' day, 12.50BD price, 0L timestamp,
            timestamp_ntz'2026-10-25 02:30:00' + make_dt_interval(0, 0, 0, ms / 1e5) local
        FROM VALUES ('a', 1792888200000), ('b', 1792891800120), ('c', NULL) AS rows(key, ms)
    """)
    builder = ks.StreamsBuilder("times")
    builder.stream("in").to("out")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        sample = ks.Sample.from_dataframe(frame, topic="in", key="key", timestamp="timestamp")
        found = ks.run(builder.build(), spark=spark, inputs={"in": FrameInput(frame)}).records("out")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00.120Z", None] == [record.value["at"] for record in sample]
    values = {record.key: record.value for part in found.values() for record in part}
    assert {record.key: {**record.value} for record in sample} == values


@pytest.mark.parametrize("place", ["3", "-1", "NULL"])
def test_a_row_of_a_partition_that_does_not_exist_is_refused(spark: Any, place: str) -> None:
    """The error names the topic and the partition."""
    frame = spark.sql(f"SELECT 'a' key, 1L value, 0L timestamp, {place} place")
    given = FrameInput(frame, value="value", partition="place")
    with pytest.raises(
        ks.errors.PartitionError, match=f'^input "in" has a row for partition {place}, expected 0 to 2\\n'
    ):
        ks.run(two_levels(), spark=spark, inputs={"in": given}, partitions=3)


def test_run_a_topology_over_spark_frames(spark: Any) -> None:
    """The how-to page: its counts are those of Spark's own windows."""
    names = howto.run("spark-frames", {}, spark=spark)
    assert 3 == names["expected"].count()
    assert [] == names["differences"].collect()
    assert "no record was dropped" in str(names["why"])


@pytest.mark.parametrize("kind", ["timestamp", "bigint"])
def test_a_row_without_a_time_is_refused(spark: Any, kind: str) -> None:
    """The error names the column, and not a timestamp that no row has."""
    frame = spark.sql(f"SELECT 'a' key, 1L value, cast(null as {kind}) timestamp")
    expected = '^column "timestamp" of input "in" has a row without a time\n'
    with pytest.raises(ks.errors.EngineError, match=expected) as caught:
        ks.run(two_levels(), spark=spark, inputs={"in": frame})
    assert caught.value.hint == 'drop such rows: frame.dropna(subset=["timestamp"])'


def test_a_streaming_frame_is_refused(spark: Any) -> None:
    """A run ends, and so must its input."""
    frame = spark.readStream.format("rate").load()
    with pytest.raises(ks.errors.ConfigError, match='expected a static DataFrame for input "in", got a streaming one'):
        ks.run(two_levels(), spark=spark, inputs={"in": FrameInput(frame, key=None)})


def test_a_failure_is_the_users_own(spark: Any) -> None:
    """Node, coordinates and cause are those of the driver."""
    builder = ks.StreamsBuilder("failing")
    builder.stream("in").map_values(lambda value: 1 // value, name="divide").to("out")
    with pytest.raises(ks.errors.ProcessingError, match="divide") as caught:
        ks.run(builder.build(), spark=spark, inputs=[ks.TopicRecord("in", 0, 0, 5, "a", 0)])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert ("in", 0, 0, 5) == caught.value.coordinates


@pytest.mark.parametrize("kind", ["pandas", "spark"])
def test_a_key_or_value_of_another_type_is_named_with_its_column_and_the_users_line(spark: Any, kind: str) -> None:
    """A row is named by its position in the user's frame, which rows of Spark do not have; a record by its offset."""
    pandas = pytest.importorskip("pandas")
    builder = ks.StreamsBuilder("typed")
    builder.stream("in", key_serde="string", value_serde="long").to("out")  # here
    rows = pandas.DataFrame({"user": ["a", "b", "c"], "number": [1, 2, 3], "at": [3, 1, 2], "name": ["x", "y", "z"]})
    frame = rows if kind == "pandas" else spark.createDataFrame(rows)
    by_number = FrameInput(frame, key="number", value="number", timestamp="at", order_by="at")
    first = "a key of" if kind == "spark" else "the key at row 1 of"
    inputs: list[tuple[Any, str]] = [({"in": by_number}, f'{first} input "in", column "number"')]
    if kind == "pandas":
        by_name = FrameInput(frame.set_index("user", drop=False), key="user", value="name", timestamp="at")
        inputs.append(({"in": by_name}, 'the value at row 0 of input "in", column "name"'))
        inputs.append(([ks.TopicRecord("in", 0, 7, 5, "a", "b")], 'the value at offset 7 of input "in"'))
    for given, expected in inputs:
        with pytest.raises(ks.errors.SerdeError, match="cannot write a value of type") as caught:
            ks.run(builder.build(), spark=spark, inputs=given)
        assert f"Detail: it is {expected}" in caught.value.__notes__
        assert "# here" in str(caught.value.origin)


def test_a_result_says_how_many_records_each_node_dropped_and_why(spark: Any) -> None:
    """As the driver counts them, by node and reason."""
    builder = ks.StreamsBuilder("late")
    windows = ks.TimeWindows.of("10ms", grace="0ms")
    builder.stream("in").group_by_key().windowed_by(windows).count(name="counts").to_stream().to("out")
    records = [
        ks.TopicRecord("in", 0, at, time, key, 1) for at, (key, time) in enumerate([("a", 50), ("a", 3), (None, 51)])
    ]
    result = ks.run(builder.build(), spark=spark, inputs=records)
    assert {("counts", "late"): 1, ("counts", "null key"): 1} == result.dropped
    assert 2 == result.counts()["dropped"]


def test_a_store_that_uneven_topics_reach_is_warned_of(spark: Any) -> None:
    """As in a plan and a deployment, at the user's line."""
    builder = ks.StreamsBuilder("uneven")
    builder.stream("few").merge(builder.stream("many")).group_by_key().count(store="counts")
    frame = spark.createDataFrame([("a", 1, 0)], "key string, value bigint, timestamp bigint")
    with pytest.warns(UserWarning, match='meet at store "counts" with 1 and 2 partitions') as warned:
        ks.run(builder.build(), spark=spark, inputs={"few": frame, "many": frame}, partitions={"few": 1, "many": 2})
    assert Path(warned[0].filename).name == Path(__file__).name


def test_inputs_are_checked(spark: Any) -> None:
    """Missing topics and columns are named, with what there is."""
    frame = spark.createDataFrame([("a", 1)], "id string, n bigint")
    with pytest.raises(ks.errors.ConfigError, match='no input was given for topic "in"'):
        ks.run(two_levels(), spark=spark, inputs={})
    rows = spark.createDataFrame([("a", 1, 0)], "key string, value bigint, timestamp bigint")
    with pytest.raises(ks.errors.ConfigError, match='no input was given for topic "names"') as caught:
        ks.run(with_global_table(), spark=spark, inputs={"in": rows})
    assert "inputs were given for in" in (caught.value.detail or "")
    with pytest.raises(ks.errors.ConfigError, match='input "in" has no column "key"') as caught:
        ks.run(two_levels(), spark=spark, inputs={"in": frame})
    assert "id, n" in (caught.value.detail or "")
    assert "ks.spark.FrameInput(frame, key=…" in (caught.value.hint or "")
    shaped = spark.sql("SELECT 'a' key, 1L value, 0L timestamp, struct(1) place")
    with pytest.raises(ks.errors.ConfigError, match="and cannot order rows"):
        ks.run(two_levels(), spark=spark, inputs={"in": FrameInput(shaped, value="value", order_by="place")})


def test_a_pandas_frame_without_a_column_is_refused_as_a_spark_frame_is(spark: Any) -> None:
    """The error names the input and the column; a sample among frames is answered with the right call."""
    import pandas

    frame = pandas.DataFrame({"id": ["a"], "n": [1]})
    with pytest.raises(ks.errors.ConfigError, match='input "in" has no column "key"') as caught:
        ks.run(two_levels(), spark=spark, inputs={"in": frame})
    assert "id, n" in (caught.value.detail or "")
    frame = pandas.DataFrame({"key": ["a"], "value": [1], "timestamp": [0]})
    with pytest.raises(ks.errors.ConfigError, match='input "in" has no column "place"'):
        ks.run(two_levels(), spark=spark, inputs={"in": FrameInput(frame, order_by="place")})
    sample = ks.Sample.from_text("topic | key | value\nin | a | 1")
    with pytest.raises(ks.errors.ConfigError, match='expected a DataFrame for input "in", got type "Sample"') as caught:
        ks.run(two_levels(), spark=spark, inputs={"in": sample})
    assert "inputs=sample" in (caught.value.hint or "")


def test_a_pandas_frame_gives_the_values_of_its_sample(spark: Any) -> None:
    """Times, days, decimals, durations and gaps, in a dict and alone; names that are not text are refused."""
    import datetime as dt
    from decimal import Decimal

    import pandas

    at = pandas.to_datetime(["2026-01-01T12:00:00.123456Z", None])
    cells = {
        "price": [Decimal("1.50"), None],
        "day": [dt.date(2026, 1, 1), None],
        "at": at,
        "wait": pandas.to_timedelta(["90s", None]),
        "parts": [{"rate": float("nan"), "at": at[0]}, None],
    }
    frame = pandas.DataFrame({"key": ["a", "b"], **cells, "timestamp": [pandas.Timestamp("2026-01-01T12:00Z")] * 2})
    builder = ks.StreamsBuilder("cells")
    builder.stream("in").to("out")
    topology = builder.build()
    for value in (None, "timestamp", *cells):
        sample = ks.Sample.from_dataframe(frame, topic="in", key="key", timestamp="timestamp", value=value)
        found = ks.run(topology, spark=spark, inputs={"in": FrameInput(frame, value=value)}).records("out")
        expected = [(record.key, record.value, record.timestamp) for record in sample]
        assert expected == [(record.key, record.value, record.timestamp) for record in found[0]]
    with pytest.raises(ks.errors.ConfigError, match="column 2025 has a name that is not text"):
        ks.run(topology, spark=spark, inputs={"in": frame.rename(columns={"price": 2025})})


def test_ids_that_are_decimals_without_fractions_are_whole_numbers(spark: Any) -> None:
    """As databases export them; they choose the partitions that such keys have in Kafka."""
    frame = spark.sql("SELECT cast(id AS decimal(38, 0)) key, id * 1000 timestamp, 'x' value FROM range(20)")
    builder = ks.StreamsBuilder("ids")
    builder.stream("in", key_serde="long", value_serde="string").to("out", key_serde="long", value_serde="string")
    run = ks.run(builder.build(), spark=spark, inputs={"in": frame}, partitions=3)
    sample = ks.Sample.from_dataframe(frame, topic="in", key="key", timestamp="timestamp", value="value")
    spread = sample.with_partitions(3, key_serde="long")
    expected = {number: [each.key for each in spread if each.partition == number] for number in range(3)}
    assert expected == {number: [each.key for each in rows] for number, rows in run.records("out").items()}


@pytest.mark.parametrize(
    "column",
    [
        *["price", "whole", "wholes", "day", "at", "fine", "local", "timestamp", "wait", "parts", "list", "named"],
        *["clock", "clocks"],
    ],
)
def test_a_single_column_is_the_value_of_its_sample(spark: Any, column: str) -> None:
    """Also the column of times, which keeps its instant, intervals, and what is within structs, arrays and maps."""
    frame = spark.sql("""
        SELECT *, named_struct('day', day, 'rows', array(named_struct('at', fine, 'price', price))) parts,
            array(whole, null) wholes, array(day, null) list, map('a', wait) named,
            time'12:30:00' clock, array(time'12:30:00.5') clocks
        FROM (SELECT 'a' key, 12.50BD price, 123456789012345678901BD whole,
            date'2026-01-01' day, timestamp_millis(1767268800123) at,
            timestamp_micros(1767268800123456) fine, timestamp_ntz'2026-01-01 12:00:00.1234' local,
            timestamp_millis(1767268800000) timestamp, interval '-1 02:00:03.5' day to second wait)
    """)
    builder = ks.StreamsBuilder("single")
    builder.stream("in").to("out")
    (record,) = ks.Sample.from_dataframe(frame, topic="in", key="key", timestamp="timestamp", value=column)
    (found,) = ks.run(builder.build(), spark=spark, inputs={"in": FrameInput(frame, value=column)}).records("out")[0]
    assert (record.key, record.value, record.timestamp) == (found.key, found.value, found.timestamp)
    assert isinstance(record.value, dict if column == "named" else str | int | float | dict | list)
    assert 1767268800000 == record.timestamp


def test_a_key_is_that_of_its_sample(spark: Any) -> None:
    """Days and times of day are text, as they are in values."""
    frame = spark.sql("SELECT date'2026-01-01' day, time'12:30:00.123' clock, timestamp_millis(5) timestamp")
    builder = ks.StreamsBuilder("keyed")
    builder.stream("in").to("out")
    for key in ("day", "clock"):
        (record,) = ks.Sample.from_dataframe(frame, topic="in", key=key, timestamp="timestamp")
        (found,) = ks.run(builder.build(), spark=spark, inputs={"in": FrameInput(frame, key=key)}).records("out")[0]
        assert (record.key, record.value) == (found.key, found.value)


def test_event_times_that_are_cut_are_warned_of_once(spark: Any) -> None:
    """At the user's line, for the inputs that were read; whole milliseconds and numbers are not cut."""
    whole = spark.sql("SELECT 'a' key, 1 value, timestamp_millis(1767268800123) timestamp")
    fine = whole.selectExpr("key", "value", "timestamp + interval '0.000456' second timestamp")
    builder = ks.StreamsBuilder("cut")
    builder.stream("left").merge(builder.stream("right")).to("out")
    topology = builder.build()
    with pytest.warns(UserWarning, match='times of column "timestamp" are cut to whole milliseconds') as caught:
        found = ks.run(topology, spark=spark, inputs={"left": fine, "right": whole}).records("out")
    assert [__file__] == [each.filename for each in caught if each.category is UserWarning]
    assert [1767268800123] * 2 == [record.timestamp for record in found[0]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbers = whole.selectExpr("key", "value", "unix_millis(timestamp) timestamp")
        ks.run(topology, spark=spark, inputs={"left": whole.where("false"), "right": numbers})


def test_numbers_as_event_times_that_are_no_milliseconds_are_warned_of(spark: Any) -> None:
    """At the user's line, for frames of Spark and of pandas, and for records; the warning names the input."""
    pandas = pytest.importorskip("pandas")
    builder = ks.StreamsBuilder("units")
    builder.stream("left").merge(builder.stream("right")).to("out")
    micros = 1_767_268_800_123_000
    frame = pandas.DataFrame({"key": ["a"], "value": [1], "timestamp": [micros]})
    whole = spark.sql("SELECT 'a' key, 1 value, 1767268800123L timestamp")
    records = [ks.TopicRecord("right", 0, 0, micros, "a", 1)]
    for inputs in ({"left": whole, "right": frame}, {"left": whole, "right": spark.createDataFrame(frame)}, records):
        with pytest.warns(UserWarning, match='times of input "right" are after the year 5000.* by 1000') as caught:
            ks.run(builder.build(), spark=spark, inputs=inputs)
        assert [__file__] == [each.filename for each in caught if each.category is UserWarning]


def test_dead_letters_are_read_if_a_sink_chooses_its_topic(spark: Any) -> None:
    """`records` read them with the serde of that sink, and failed."""
    builder = ks.StreamsBuilder("letters")
    sizes = builder.stream("in").map_values(lambda value: value["n"])
    sizes.to(lambda key, value, record: f"out-{key}", value_serde="long")
    config = {"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "dead"}
    rows: list[Row] = [("in", "a", {"n": 1}, 1), ("in", "b", {"m": 2}, 2)]
    result = ks.run(builder.build(), spark=spark, inputs=as_records(rows), config=config)
    read = {topic: [each.value for each in result.records(topic)[0]] for topic in ("out-a", "dead")}
    assert read == {"out-a": [1], "dead": [{"m": 2}]}


def test_a_column_name_that_is_not_unique_is_refused(spark: Any) -> None:
    """For frames of Spark and of pandas; an index is answered with the call that makes columns of it."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([["a", 1, 2, 5]], columns=["key", "value", "value", "timestamp"])
    spark_frame = spark.sql("SELECT 'a' key, 1 value, 2 value, 5L timestamp")
    builder = ks.StreamsBuilder("twice")
    builder.stream("in").to("out")
    for given in (frame, spark_frame):
        with pytest.raises(ks.errors.ConfigError, match='column name "value" of input "in" is not unique'):
            ks.run(builder.build(), spark=spark, inputs={"in": given})
    with pytest.raises(ks.errors.ConfigError, match='input "in" has no column "timestamp"') as refused:
        ks.run(builder.build(), spark=spark, inputs={"in": frame.set_index("timestamp")})
    assert "frame.reset_index()" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("array(interval '3' month)", "interval month"),
        ("make_interval(1, 2)", "interval"),
        ("""parse_json('{"a": 1}')""", "variant"),
        ("struct(map('a', parse_json('1')) m)", "variant"),
    ],
)
def test_a_column_without_a_json_value_is_refused_before_the_run(spark: Any, value: str, kind: str) -> None:
    """Wherever it is in the row: the workers would fail, or give its bytes to functions of the topology."""
    frame = spark.sql(f"SELECT 'a' key, {value} value, 0L timestamp")
    builder = ks.StreamsBuilder("months")
    builder.stream("in").to("out")
    with pytest.raises(ks.errors.ConfigError, match=f'column "value" has type "{kind}", which JSON cannot'):
        ks.run(builder.build(), spark=spark, inputs={"in": frame})
    with pytest.raises(ks.errors.ConfigError, match=f'column "value" has type "{kind}", which JSON cannot'):
        ks.Sample.from_dataframe(frame, topic="in", timestamp="timestamp")
