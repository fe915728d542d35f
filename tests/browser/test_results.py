"""Displays of values in JupyterLab: handles, times, rows first, names, frames, costs, and laws that do not hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.lab import SHOP, Lab, Notebook

pytestmark = [pytest.mark.browser]

SHOWN = len(SHOP)
CELLS = [*SHOP, "pass"]
TABLE = """output => {
    const table = output.querySelector("table").getBoundingClientRect();
    const picture = output.querySelector(".jp-RenderedSVG img").getBoundingClientRect();
    return [table.top < picture.top, picture.width > picture.height, picture.right <= innerWidth];
}"""


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Notebook]:
    with lab.prepared("results", CELLS) as found:
        yield found


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ('prices = ks.StreamsBuilder().global_table("prices"); prices', "GlobalKTable prices · global_table"),
        ("grouped = sales.group_by_key()\ngrouped", "next: count, reduce, aggregate, windowed_by, cogroup"),
        ("sales.group_by_key().windowed_by(hours)", "next: count, reduce, aggregate, emit_strategy"),
        ("sold", "KTable sold · count"),
        ("sales.split()", "next: branch, default_branch, no_default_branch"),
    ],
    ids=["global table", "grouped", "windowed", "table", "split"],
)
def test_each_handle_shows_its_graph_its_rows_and_the_next_calls(notebook: Notebook, source: str, says: str) -> None:
    shown = notebook.run(SHOWN, source=source)
    expect(shown).to_contain_text(says)
    expect(shown.locator(".jp-RenderedSVG img")).to_be_visible()
    expect(shown).not_to_contain_text("Error")


def test_a_table_shows_its_changes_and_a_preview_says_what_was_dropped(notebook: Notebook) -> None:
    """Each change has its kind; a dropped record is counted, with the call that explains it."""
    shown = notebook.run(SHOWN, source="sold")
    expect(shown.locator("table")).to_contain_text("+I")
    expect(shown).to_contain_text("4 changes, from 5 input records, 1 dropped on the way")
    expect(shown).to_contain_text("ks.replay(topology, sample, partitions=1).why_dropped()")
    notebook.picture(shown, "handle")
    apart = notebook.run(SHOWN, source="ks.replay(topology, partitions=4).why_dropped()")
    expect(apart).to_contain_text("over another number of partitions, others may be late")


def test_rows_come_before_a_wide_picture_with_the_users_names(notebook: Notebook) -> None:
    """A replay fits the page: rows, then operators from left to right, named by variable and lambda."""
    shown = notebook.run(SHOWN, source="replay")
    notebook.assert_drawn(shown, "many · filter", "sold · count", "window.key")
    assert shown.evaluate(TABLE) == [True, True, True]
    expect(shown).not_to_contain_text("KSTREAM-")
    notebook.picture(shown, "replay")


def test_time_is_a_picture_and_so_are_lateness_and_keys(notebook: Notebook) -> None:
    """Lanes by key with windows to their closing; charts of a sample with axes, also by arrival."""
    lanes = notebook.run(SHOWN, source='replay.timeline("sold")')
    notebook.assert_drawn(lanes, "late: dropped", "stream time", "will close", "event time")
    notebook.picture(lanes, "lanes")
    charts = notebook.run(SHOWN, source="builder.sample.statistics()")
    notebook.assert_drawn(charts, "behind stream time on arrival", "by key", "by partition")
    expect(charts.locator(".jp-RenderedSVG img")).not_to_have_attribute("src", re.compile("partition%20-1"))
    notebook.picture(charts, "sample-statistics")


def test_results_are_frames_with_times(notebook: Notebook) -> None:
    """Outputs, previews and stores become pandas frames whose times and windows are UTC timestamps."""
    for source in ('replay.output("sold-per-hour")', "sold.head()", 'replay.now.store("sold")'):
        shown = notebook.run(SHOWN, source=f"{source}.to_pandas()")
        expect(shown.locator("table.dataframe")).to_contain_text("2026-01-01 09:05:00+00:00")
    expect(shown).to_contain_text("window_start")
    rows = notebook.run(SHOWN, source='ks.widgets.browse(replay.output("sold-per-hour"))').locator(".ks-widget")
    expect(rows).to_contain_text("1 to 4 of 4")


def test_costs_are_painted(notebook: Notebook) -> None:
    """A profile is a table with bytes and state, and a picture that the explorer has as well."""
    shown = notebook.run(SHOWN, source="replay.profile()")
    expect(shown.locator("table")).to_contain_text("store sold")
    notebook.assert_drawn(shown, "the darker, the greater its share")
    notebook.picture(shown, "profile")
    explorer = notebook.run(SHOWN, source="ks.widgets.explorer(replay.profile())").locator(".ks-explorer")
    expect(explorer).to_contain_text("the darker, the greater its share")


def test_a_sample_is_described_and_a_misread_field_pointed_out(notebook: Notebook) -> None:
    """Types, missing values and ranges are a table; a field that no record has is named when a lambda reads it."""
    shown = notebook.run(SHOWN, source="builder.sample.describe()")
    expect(shown.locator("table")).to_contain_text("value.n")
    expect(shown).to_contain_text("sales: 5 records, 2 keys")
    wrong = notebook.run(SHOWN, source='wrong = sales.filter(lambda key, sale: sale.get("m"))\nwrong')
    expect(wrong).to_contain_text('it reads the field "m", which no record of "sales" in the sample has')
    notebook.picture(wrong, "misread-field")


def test_the_smallest_sample_that_breaks_a_law_is_a_table_and_a_replay(notebook: Notebook) -> None:
    """A law that a team wrote, and the records that break it."""
    law = """
def no_count_of_two(run):
    assert all(each.value < 2 for each in run.output("sold-per-hour")), "counted twice"

broken = ks.testing.counterexample(topology, builder.sample, no_count_of_two)
broken
"""
    shown = notebook.run(SHOWN, source=law)
    expect(shown).to_contain_text("the law is broken by 2 records: AssertionError: counted twice")
    expect(shown.locator("table tbody tr")).to_have_count(2)
    notebook.picture(shown, "broken-law")
    expect(notebook.run(SHOWN, source="broken.replay")).to_contain_text('output "sold-per-hour": 2 records')
