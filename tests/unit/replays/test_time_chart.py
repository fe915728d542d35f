"""Timelines: records, windows, grace, stream time and pairs over event time, as a model, text and a picture."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

import kstreamnb as ks
from kstreamnb.errors import ConfigError, EngineError, StateError
from kstreamnb.replays.analysis.time_chart import TimeChart

CLICKS = """key | value | time
ann | 1 | 1000
bob | 1 | 3000
ann | 1 | 9000
ann | 1 | 12000
ann | 1 | 8000
bob | 1 | 17000
ann | 1 | 2000
eve | 2 | 26000
bob | 2 | 4000
ann | 2 | 27000
"""

SHOP = """topic | key | value | time
customers | a | "Ann" | 0
orders | a | 1 | 1000
payments | a | 10 | 2000
orders | a | 2 | 4000
customers | b | "Bob" | 5000
orders | b | 3 | 5500
payments | b | 20 | 9000
payments | a | 30 | 9500
orders | a | 4 | 10000
"""


def clicks(add: Callable[[ks.KGroupedStream[str, int]], object], partitions: int = 1) -> ks.Replay:
    """Replay the clicks through an aggregate."""
    builder = ks.StreamsBuilder("clicks")
    add(builder.stream("clicks").group_by_key())
    return ks.replay(builder.build(), ks.Sample.from_text(CLICKS, topic="clicks"), partitions=partitions)


def by_windows(windows: ks.TimeWindows, partitions: int = 1) -> TimeChart:
    """Count the clicks in windows."""
    return clicks(lambda by_key: by_key.windowed_by(windows).count(store="counts"), partitions).timeline("counts")


def shop(join: Callable[[ks.KStream[str, int], ks.KStream[str, int], ks.KTable[str, str]], object]) -> ks.Replay:
    """Replay orders, payments and customers through a join."""
    builder = ks.StreamsBuilder("shop")
    orders, payments = builder.stream("orders"), builder.stream("payments")
    join(orders, payments, builder.table("customers", store="customers"))
    return ks.replay(builder.build(), ks.Sample.from_text(SHOP))


def rows(chart: TimeChart) -> list[tuple[str, ...]]:
    """Return the table without the task."""
    return [row[1:] for row in chart.table()]


TUMBLING = ks.TimeWindows.of(size="10s", grace="5s")


def test_a_window_holds_its_records_and_closes_after_its_grace() -> None:
    """Ann's first window has the three records that were on time, and closes when stream time is its end + grace."""
    chart = by_windows(TUMBLING)
    assert rows(chart)[:2] == [
        ('"ann"', "[0, 10000)", "1000, 8000 and 9000", "15000", "step 6", "3"),
        ('"ann"', "[10000, 20000)", "12000", "25000", "step 8", "1"),
    ]
    assert rows(chart)[2][-3:] == ("35000", "open", "1")


def test_a_late_record_is_told_apart_from_one_that_is_out_of_order() -> None:
    """8000 came after 12000 and was still on time; 2000 came after its window had closed."""
    chart = by_windows(TUMBLING)
    fates = {record.time_ms: record.fate for record in chart.records}
    assert [time for time, fate in fates.items() if fate == "late"] == [2000, 4000]
    assert fates[8000] == "kept"
    assert 'late in step 7: key "ann" at 2000, its window [0, 10000) had closed at stream time 17000' in chart.more()


def test_a_record_may_be_late_for_one_of_its_windows_only() -> None:
    """With hopping windows 8000 misses [0, 10000) and is counted in [5000, 15000)."""
    chart = by_windows(ks.TimeWindows.of(size="10s", advance="5s", grace="2s"))
    assert {r.time_ms: r.fate for r in chart.records}[8000] == "partly late"
    assert ('"ann"', "[0, 10000)", "1000 and 9000", "12000", "step 4", "2") in rows(chart)
    assert ('"ann"', "[5000, 15000)", "8000, 9000 and 12000", "17000", "step 6", "3") in rows(chart)


def test_merged_sessions_are_one_bar() -> None:
    """8000 connects 9000 and 12000; the earlier sessions belong to earlier moments."""
    run = clicks(lambda by_key: by_key.windowed_by(ks.SessionWindows.of(gap="4s", grace="2s")).count(store="counts"))
    chart = run.timeline()
    assert ('"ann"', "[8000, 12000]", "8000, 9000 and 12000", "18001", "step 8", "3") in rows(chart)
    assert "[9000, 9000]" not in str(chart)
    assert "[9000, 9000]" in str(chart.at(3))


def test_a_session_that_expires_when_it_closes_keeps_its_bar() -> None:
    """A record that is much later closes the session and lets the store forget it in the same step."""
    builder = ks.StreamsBuilder("visits")
    builder.stream("clicks").group_by_key().windowed_by(ks.SessionWindows.of("30m")).count(store="visits")
    records = [("clicks", 0, 0, 0, "a", 1), ("clicks", 0, 1, 300_000, "a", 1), ("clicks", 0, 2, 3_000_000, "b", 1)]
    first, _ = ks.replay(builder.build(), ks.Sample.from_records(records)).timeline("visits").tasks[0].lanes
    assert [(span.end_ms, span.closed_step, span.values) for span in first.current] == [(300_000, 3, ((2, "2"),))]


def test_stream_time_advances_only() -> None:
    """The line of stream time is that of the aggregate's node: the greatest time that it has seen."""
    chart = by_windows(TUMBLING)
    (task,) = chart.tasks
    assert task.stream_times == ((1, 1000), (2, 3000), (3, 9000), (4, 12000), (6, 17000), (8, 26000), (10, 27000))
    assert [r.stream_time_ms for r in chart.records if r.time_ms == 2000] == [17000]


def test_a_record_without_a_key_does_not_advance_stream_time() -> None:
    """The aggregate drops it before reading its time; otherwise the picture would close windows early."""
    builder = ks.StreamsBuilder("clicks")
    builder.stream("clicks").group_by_key().windowed_by(TUMBLING).count(store="counts")
    records = [("clicks", 0, 0, 1000, "ann", 1), ("clicks", 0, 1, 90_000, None, 1), ("clicks", 0, 2, 2000, "ann", 1)]
    run = ks.replay(builder.build(), ks.Sample.from_records(records))
    chart = run.timeline()
    assert chart.tasks[0].stream_times == ((1, 1000), (3, 2000))
    assert [record.fate for record in chart.records] == ["kept", "dropped", "kept"]
    assert [window.stream_time_ms for window in run.now.windows()] == [2000]


def test_each_task_has_its_own_stream_time() -> None:
    """With two partitions a key is late only if its own partition is ahead."""
    builder = ks.StreamsBuilder("clicks")
    builder.stream("clicks").group_by_key().windowed_by(TUMBLING).count(store="counts")
    records = [("clicks", 0, 0, 90_000, "ann", 1), ("clicks", 1, 0, 1000, "bob", 1), ("clicks", 1, 1, 3000, "bob", 1)]
    chart = ks.replay(builder.build(), ks.Sample.from_records(records), partitions=2).timeline()
    assert [(task.task, task.stream_time_ms) for task in chart.tasks] == [("0_0", 90_000), ("0_1", 3000)]
    assert all(record.fate == "kept" for record in chart.records)


def test_a_join_links_the_pairs_that_were_joined() -> None:
    """Orders and payments at most three seconds apart; for key b the nearest payment is half a second too far."""
    windows = ks.JoinWindows.of(difference="3s", grace="1s")
    run = shop(lambda orders, payments, _: orders.join(payments, lambda o, p: [o, p], windows).to("paid"))
    chart = run.timeline("KSTREAM-JOINTHIS-0000000006-store")
    assert chart.tracks == ("orders", "payments")
    assert [row for row in rows(chart) if row[1] == "payments"] == [
        ('"a"', "payments", "2000", "3", "1000 and 4000"),
        ('"a"', "payments", "9500", "8", "10000"),
        ('"b"', "payments", "9000", "7", "none"),
    ]
    links = sum(len(lane.links) for lane in chart.lanes)
    assert links == len(run.output("paid"))


def test_a_lookup_links_each_record_with_its_row() -> None:
    """The order of key b matches the customer half a second earlier."""
    run = shop(lambda orders, _, customers: orders.join(customers, lambda o, c: [o, c]).to("enriched"))
    chart = run.timeline("customers")
    assert [row for row in rows(chart) if row[1] == "orders"] == [
        ('"a"', "orders", "1000", "2", "0"),
        ('"a"', "orders", "4000", "4", "0"),
        ('"a"', "orders", "10000", "9", "0"),
        ('"b"', "orders", "5500", "6", "5000"),
    ]


def test_a_table_shows_how_long_each_row_was_valid() -> None:
    """A count's rows follow each other; the last one is currently valid."""
    chart = clicks(lambda by_key: by_key.count(store="counts")).timeline()
    assert rows(chart)[:2] == [('"ann"', "1000", "9000", "1"), ('"ann"', "9000", "12000", "2")]
    assert rows(chart)[-1] == ('"eve"', "26000", "now", "1")


def test_a_deletion_is_a_record_and_ends_its_row() -> None:
    """A tombstone moves stream time like any other record; records of several keys come in order of arrival."""
    builder = ks.StreamsBuilder("rows")
    builder.table("rows", store="rows").to_stream().to("out")
    records = [
        ("rows", 0, at, at, key, value) for at, (key, value) in enumerate([("a", 1), ("b", 2), ("a", 3), ("a", None)])
    ]
    chart = ks.replay(builder.build(), ks.Sample.from_records(records)).timeline("rows")
    assert [(record.step, record.value) for record in chart.records] == [(1, 1), (2, 2), (3, 3), (4, None)]
    assert chart.tasks[0].stream_time_ms == 3
    assert rows(chart) == [
        ('"a"', "0", "2", "1"),
        ('"a"', "2", "3", "3"),
        ('"b"', "1", "now", "2"),
    ]


def test_a_topology_without_stores_shows_its_input() -> None:
    """Keys and times, without bars."""
    builder = ks.StreamsBuilder("pass")
    builder.stream("clicks").to("out")
    chart = ks.replay(builder.build(), ks.Sample.from_text(CLICKS, topic="clicks")).timeline()
    assert chart.title == "timeline of the input: 3 keys, 10 records"
    assert rows(chart)[2] == ('"eve"', "26000")


def test_an_earlier_moment_has_less_on_the_same_scale() -> None:
    """After four steps no late record has come, and the first window is open."""
    chart = by_windows(TUMBLING)
    before = chart.at(4)
    assert (len(before.records), before.span_ms) == (4, chart.span_ms)
    assert rows(before)[0] == ('"ann"', "[0, 10000)", "1000 and 9000", "15000", "open", "2")


def test_what_is_left_out_is_said() -> None:
    """Keys with late records are shown first; the title counts all of them."""
    run = clicks(lambda by_key: by_key.windowed_by(TUMBLING).count(store="counts"))
    assert "2 of 3 keys, 9 of 10 records, 2 late" in run.timeline(most=2).title
    assert [lane.label for lane in run.timeline(most=2).lanes] == ['"ann"', '"bob"']
    assert "1 of 3 keys, 1 of 10 records" in run.timeline(key="eve").title
    assert [r.time_ms for r in run.timeline(between=(0, 3000)).records] == [1000, 3000, 2000]
    assert [lane.label for lane in run.timeline(by="task").lanes] == ["task 0_0"]


def test_a_selection_that_makes_no_picture_is_refused() -> None:
    """Unknown stores, lanes and empty spans are errors with a next action."""
    run = clicks(lambda by_key: by_key.count(store="counts"))
    with pytest.raises(StateError, match='store "count"'):
        run.timeline("count")
    with pytest.raises(ConfigError, match='by must be "key" or "task", got "window"'):
        run.timeline(by="window")  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="between must be"):
        run.timeline(between=(5, 1))
    with pytest.raises(ConfigError, match="most must be at least 1"):
        run.timeline(most=0)
    with pytest.raises(ConfigError, match="has no time zone"):
        run.timeline(between=("2026-01-01T00:00", 1))


def test_the_picture_says_in_words_what_it_shows() -> None:
    """SVG with title, description and shapes for every kind of record; the same run produces the same bytes."""
    chart = by_windows(TUMBLING)
    svg = chart.to_svg()
    root = ElementTree.fromstring(svg)
    names = {"s": "http://www.w3.org/2000/svg"}
    assert root.get("role") == "img"
    assert root.findtext("s:title", namespaces=names) == chart.title
    assert "window [0, 10000), records at 1000, 8000 and 9000" in (root.findtext("s:desc", namespaces=names) or "")
    assert len(root.findall(".//s:path[@class='ks-late']", names)) == 2 * 2 + 1  # by arrival, in lanes, in the legend
    assert svg == by_windows(TUMBLING).to_svg()


def test_long_names_do_not_overlap_in_the_picture() -> None:
    """The name of a join's input was written over the end of a long key; both inputs are in the legend."""
    builder = ks.StreamsBuilder("views")
    within = ks.JoinWindows.of_time_difference_with_no_grace("5ms")
    clicks = builder.stream("clicks-of-registered-customers")
    builder.stream("impressions-of-adverts").join(clicks, lambda one, two: [one, two], within).to("out")
    topics = ("clicks-of-registered-customers", "impressions-of-adverts")
    rows = [(topic, 0, 0, 5, "customer-0001-of-the-north", 1) for topic in topics]
    drawn = ks.replay(builder.build(), ks.Sample.from_records(rows)).timeline().to_svg()
    starts: dict[str, list[str]] = {}
    for x, y, text in re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)<', drawn):
        if float(x) <= 116:
            starts.setdefault(y, []).append(text)
    assert ["&quot;custome…e-north&quot;"] in starts.values()
    assert all(len(texts) == 1 for texts in starts.values())
    assert all(f">{topic}<" in drawn for topic in topics)


def test_a_hostile_key_stays_text_in_the_picture() -> None:
    """Markup and control characters of users are escaped."""
    builder = ks.StreamsBuilder("pass")
    builder.stream("clicks").to("out")
    records = [("clicks", 0, 0, 5, '<script>alert("1")</script>\x00', "<b>")]
    svg = ks.replay(builder.build(), ks.Sample.from_records(records)).timeline().to_svg()
    assert ElementTree.fromstring(svg) is not None
    assert "<script" not in svg


def test_a_notebook_gets_text_and_svg() -> None:
    """No HTML and no script: viewers that sanitize outputs still show the picture."""
    bundle = by_windows(TUMBLING)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/svg+xml"}
    assert bundle["text/plain"].startswith('timeline of store "counts" (windows of 10s, grace 5s)')
