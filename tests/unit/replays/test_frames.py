"""Previews, outputs and stores become frames with times as timestamps."""

from __future__ import annotations

import pandas
import pytest
from IPython.lib.pretty import pretty

import kstreamnb as ks
from kstreamnb.errors import ConfigError, StateError
from kstreamnb.frames import Records

SAMPLE = ks.Sample.from_text(
    "topic | key | value | time\nclicks | ann | 1 | 2026-01-01T09:00:00Z\nclicks | ann | 2 | 2026-01-01T09:00:07Z\n"
    "clicks | bob | 5 | 2026-01-01T09:00:11Z"
)
UTC = "datetime64[ms, UTC]"


def test_records_and_drops_display_as_tables_with_times_in_utc() -> None:
    """The list itself stays a list of records; columns without content are left out."""
    builder = ks.StreamsBuilder("late")
    hours = ks.TimeWindows.of(size="1h", grace="0s")
    counts = builder.stream("orders").group_by_key().windowed_by(hours).count(store="counts")
    counts.to_stream(lambda window, count: window.key).to("out")
    start = 1_767_225_600_000
    times = (start, start + 7_200_000, start + 1)
    sample = ks.Sample.from_records([("orders", 0, at, time, "ann", 1) for at, time in enumerate(times)])
    run = ks.replay(builder.build(), sample)
    assert str(run.output("out")).splitlines() == [
        "2 records",
        "topic | partition | offset | time                 | key   | value",
        "------+-----------+--------+----------------------+-------+------",
        'out   | 0         | 0      | 2026-01-01T00:00:00Z | "ann" | 1',
        'out   | 0         | 1      | 2026-01-01T02:00:00Z | "ann" | 1',
    ]
    assert "<table>" in run.output("out")._repr_mimebundle_()["text/html"]
    assert repr(run.output("out")).startswith("[TopicRecord(")
    (dropped,) = run.drops.to_pandas().to_dict("records")
    assert (dropped["step"], dropped["reason"], dropped["key"]) == (3, "late", "ann")
    assert dropped["timestamp"].isoformat() == "2026-01-01T00:00:00.001000+00:00"
    assert "2026-01-01T00:00:00.001Z" in str(run.drops)


def test_a_long_output_names_what_shows_all_of_it() -> None:
    """Ten rows and the number of all."""
    builder = ks.StreamsBuilder("copies")
    builder.stream("in").to("out")
    run = ks.replay(builder.build(), ks.Sample.from_records([("in", 0, at, at, "a", at) for at in range(2000)]))
    title, *rows, last = str(run.output("out")).splitlines()
    assert (title, len(rows)) == ("10 of 2,000 records", 12)
    assert last == "ks.widgets.browse(…) sorts and filters all of them"


def test_a_display_of_a_large_run_reads_only_the_records_that_it_shows() -> None:
    """Counting the records of an output decodes none of them."""
    read: list[bytes] = []

    def parse(data: bytes) -> str:
        read.append(data)
        return data.decode()

    builder = ks.StreamsBuilder("copies")
    builder.stream("in", value_serde="string").to("out", value_serde=ks.Serdes.serde_from(str.encode, parse))
    sample = ks.Sample.from_records([("in", 0, at, at, "a", str(at)) for at in range(2000)])
    run = ks.replay(builder.build(), sample)
    read.clear()
    assert "2,000 out" in str(run)
    assert "of 2,000 records" in run._repr_mimebundle_()["text/plain"]
    assert 0 < len(read) <= 20


def made() -> tuple[ks.KStream, ks.KTable, ks.Topology]:
    builder = ks.StreamsBuilder("clicks")
    clicks = builder.stream("clicks")
    counts = clicks.group_by_key().windowed_by(ks.TimeWindows.of(size="10s", grace="1m")).count(store="counts")
    counts.to_stream(lambda window, count: window.key).to("counted")
    clicks.group_by_key().count(store="totals")
    return clicks, clicks.to_table(), builder.build()


def test_outputs_of_a_replay_are_a_list_and_a_frame() -> None:
    """Equal to a list of records; the frame has times in UTC."""
    replay = ks.replay(made()[2], SAMPLE)
    output = replay.output("counted")
    frame = output.to_pandas()
    assert list(output) == output == replay.at(len(replay.steps)).output("counted")
    assert [("ann", 1), ("ann", 2), ("bob", 1)] == list(zip(frame["key"], frame["value"], strict=True))
    assert UTC == str(frame["timestamp"].dtype)
    assert pandas.Timestamp("2026-01-01T09:00:07Z") == frame["timestamp"][1]


def test_stores_with_windows_have_their_bounds_as_times() -> None:
    """Of a driver and of a replay: start and end are columns, the key is the plain one."""
    topology = made()[2]
    with ks.TopologyTestDriver(topology) as driver:
        driver.pipe(SAMPLE)
        frames = [driver.store("counts").to_pandas()]
        plain = driver.store("totals").to_pandas()
    replay = ks.replay(topology, SAMPLE)
    frames.append(replay.at(len(replay.steps)).store("counts").to_pandas())
    for frame in frames:
        assert ["ann", "bob"] == list(frame["key"])
        assert [2, 1] == list(frame["value"])
        assert [UTC, UTC] == [str(frame[name].dtype) for name in ("window_start", "window_end")]
        assert list(pandas.to_datetime(["2026-01-01T09:00:10Z", "2026-01-01T09:00:20Z"])) == list(frame["window_end"])
    assert ["key", "value"] == list(plain.columns)


def test_a_preview_is_a_frame_and_that_of_a_table_has_the_kinds_of_changes() -> None:
    """The column "change" is that of the display."""
    clicks, table, _ = made()
    assert ["key", "value", "timestamp"] == list(clicks.head(SAMPLE).to_pandas().columns)
    frame = table.head(SAMPLE).to_pandas()
    assert ["+I", "-U", "+U", "+I"] == list(frame["change"])
    assert UTC == str(frame["timestamp"].dtype)


def test_empty_results_are_frames_with_columns_of_times() -> None:
    """Code that follows need not ask."""
    frame = made()[0].head(SAMPLE[:0]).to_pandas()
    assert (0, UTC) == (len(frame), str(frame["timestamp"].dtype))


def test_a_time_beyond_what_nanoseconds_hold_is_kept() -> None:
    """Unlimited windows end at the last ms there is."""
    frame = Records([ks.TopicRecord("t", 0, 0, 9_000_000_000_000_000, "a", 1)]).to_pandas()
    assert 9_000_000_000_000_000 == frame["timestamp"].astype("int64")[0]


def test_without_an_active_session_spark_frames_are_refused() -> None:
    """The error shows the call."""
    with pytest.raises(ConfigError, match="no Spark session is active") as caught:
        ks.replay(made()[2], SAMPLE).output("counted").to_spark()
    assert "to_spark(ks.spark.spark_session())" in str(caught.value.__notes__)


def test_a_store_that_is_asked_by_key_has_no_frame() -> None:
    """Versioned stores list no rows."""
    builder = ks.StreamsBuilder("prices")
    builder.table(
        "prices",
        materialized=ks.Materialized.as_(ks.Stores.persistent_versioned_key_value_store("prices", history="1h")),
    )
    with ks.TopologyTestDriver(builder.build()) as driver, pytest.raises(StateError, match="has no rows to list"):
        driver.store("prices").to_pandas()


def test_long_outputs_and_drops_display_their_first_items_and_a_count() -> None:
    """They once printed every record."""
    records = [ks.TopicRecord("clicks", 0, at, at, None if at % 2 else "ann", 1) for at in range(60)]
    builder = ks.StreamsBuilder("clicks")
    builder.stream("clicks").group_by_key().count().to_stream().to("counted")
    run = ks.replay(builder.build(), records)
    for shown in (run.output("counted"), run.drops):
        assert 30 == len(shown)
        assert repr(shown).endswith("… 10 of 30")
        assert repr(shown).startswith(repr(type(shown)(shown[:10])))
        assert pretty(shown) == str(shown)
    assert repr(list(run.output("counted")[:3])) == repr(Records(run.output("counted")[:3]))
