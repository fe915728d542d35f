"""Charts as SVG: units, tooltips, what does not fit, and the charts of a sample."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from kstreamnb import Sample
from kstreamnb.charts import Bars, Charts, Lines
from kstreamnb.display.axes import number_ticks
from kstreamnb.display.charts import to_charts_svg

START = 1_767_258_000_000


def test_lines_have_axes_units_and_tooltips() -> None:
    """Times are UTC, values have their unit, and each point says both."""
    drawn = to_charts_svg(Charts("query", (Lines("batch time", "ms", ((START, 200.0), (START + 60_000, 350.0))),)))
    ElementTree.fromstring(drawn)
    assert "batch time (ms)" in drawn
    assert ">time (UTC)<" in drawn
    assert "<title>2026-01-01T09:01:00Z: 350 ms</title>" in drawn
    assert "<script" not in drawn


def test_the_ticks_of_an_axis_have_one_unit() -> None:
    """An axis to fifteen thousand had the ticks 0, 5,000, 10k and 15k."""
    drawn = to_charts_svg(Charts("query", (Lines("batch time", "ms", ((START, 15_000.0),)),)))
    assert re.findall(r">([\d.,]+k?)</text>", drawn) == ["0", "5k", "10k", "15k"]


def test_an_axis_reaches_a_value_between_two_ticks() -> None:
    """An axis to 1.9 seconds ended at 1, so the point was drawn above its chart."""
    for value in (1.9, 4.5, 40.7, 20.3):
        assert number_ticks(value)[-1] >= value
    drawn = to_charts_svg(Charts("query", (Lines("batch time", "s", ((START, 1.9), (START + 60_000, 1.0))),)))
    assert re.findall(r">([\d.]+)</text>", drawn) == ["0", "1", "2"]
    assert min(float(y) for y in re.findall(r'cy="([\d.]+)"', drawn)) > 26, "below the title"


def test_without_points_a_chart_says_so() -> None:
    """A query that has just started has no batches."""
    assert "nothing yet" in to_charts_svg(Charts("query", (Lines("lag", "records", ()),)))


def test_bars_that_do_not_fit_are_counted() -> None:
    """Of twelve bars seven are drawn; names are text, never markup."""
    rows = tuple((f"<b>{number}", number) for number in range(12))
    drawn = to_charts_svg(Charts("many", (Bars("by key", "records", rows),)))
    assert drawn.count('class="ks-bars"') == 7
    assert "and 5 more" in drawn
    assert "<b>" not in drawn


def test_a_sample_draws_lateness_keys_and_partitions() -> None:
    """Lateness is that on arrival in the partition; bytes are those of keys and values as text."""
    rows = [("in", 0, 0, START, "a", 1), ("in", 0, 1, START + 90_000, "b", 2), ("in", 1, 0, START, "a", 33)]
    late = ("in", 0, 2, START, "a", 4)
    charts = Sample.from_records([*rows, late]).statistics().charts
    assert [str(bars) for bars in charts.each] == [
        "behind stream time on arrival (records): in order 3, up to 1s 0, up to 10s 0, up to 1m 0, up to 10m 1",
        "by key (records): a 3, b 1",
        "by partition (records): partition 0 3, partition 1 1",
        "by partition (bytes): partition 0 6, partition 1 3",
    ]
    assert charts.notes[2] == "grace 2m keeps 99.9% of the records"


def test_names_that_differ_at_their_end_stay_apart_and_titles_stay_inside_their_chart() -> None:
    """Names were cut at their end, so that all bars had the same; a long title ran into the chart beside it."""
    rows = (("registrations-0001", 3), ("registrations-0002", 4))
    drawn = to_charts_svg(Charts("t" * 300, (Bars("by key: " + "x" * 90, "records", rows),), ("n" * 300,)))
    labels = [text for text in re.findall(r"<text[^>]*>([^<]*)</text>", drawn) if text.startswith("regist")]
    assert labels == ["registra…ons-0001", "registra…ons-0002"]
    (title,) = re.findall(r"<text[^>]*>(by key[^<]*)<", drawn)
    assert title.endswith("x (records)")
    assert len(title) <= 68
    assert max(map(len, re.findall(r"<text[^>]*>([^<]*)<", drawn))) <= 136
