"""The end of the first ten minutes: parity, a deployment from Kafka to Kafka, and its panel in a real browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab, Notebook

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java, which Spark and Kafka need"),
]

LOAD, BUILD, DEPLOY, PANEL, FAIL, TORN, COST, LETTERS = range(8)
CELLS = [
    "%load_ext kstreamnb",
    """
import tempfile
import kstreamnb as ks

def checked(price):
    if price < 0:
        raise ValueError("<script>alert(1)</script> is not a price")
    return price

builder = ks.StreamsBuilder("prices")
prices = builder.stream("prices").map_values(checked, name="check").group_by_key()
windows = ks.TimeWindows.of_size_and_grace("1s", "0s")
counts = prices.windowed_by(windows).count(store="per-second")
counts.to_stream(lambda window, count: window.key).to("counts", value_serde="long")
topology = builder.build()
rows = [("prices", -1, 0, at * 500 if at != 7 else 0, f"k{at % 2}", at) for at in range(20)]
builder.sample = ks.Sample.from_records(rows)
""",
    """
broker = ks.kafka.local_broker()
servers = broker.bootstrap_servers
ks.kafka.Admin(servers).create_topic("prices", partitions=2)
ks.kafka.produce(servers, builder.sample)
query = ks.deploy(topology, bootstrap_servers=servers, checkpoint=tempfile.mkdtemp())
query.await_input(600)
""",
    "panel = ks.widgets.panel(query)\npanel",
    'ks.kafka.produce(servers, ks.Sample.from_records([("prices", -1, 0, 99_000, "k0", -1)]))',
    """
import os
here = os.getpid()
torn = ks.StreamsBuilder("torn")
torn.stream("prices").map_values(lambda price, here=here: os.getpid() == here).to("torn-out")
torn.sample = builder.sample
ks.deploy(torn.build(), bootstrap_servers=servers, checkpoint=tempfile.mkdtemp())
""",
    "explorer = ks.widgets.explorer(query)\nexplorer",
    """
strict = ks.StreamsBuilder("strict")
strict.stream("prices").map_values(checked).to("strict-out")
settings = {"processing_handler": "continue", "dead_letter_topic": "strict-letters"}
tolerant = ks.deploy(strict.build(), bootstrap_servers=servers, checkpoint=tempfile.mkdtemp(), config=settings)
tolerant.await_input(600)
letters = ks.widgets.panel(tolerant)
letters
""",
]
_SLOW_MS = 600_000


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Notebook]:
    with lab.notebook("panel", CELLS) as found:
        found.run(LOAD)
        found.run(BUILD)
        found.watch_bars()
        yield found
        found.python("(ks.spark.stop_all(), broker.close())")
        found.assert_quiet()


@pytest.fixture(scope="module")
def opened(notebook: Notebook) -> Locator:
    """The panel of a query that has processed everything and waits for more."""
    notebook.run(DEPLOY)
    panel = notebook.run(PANEL).locator(".ks-panel")
    expect(panel).to_be_visible(timeout=_SLOW_MS)
    return panel


@pytest.fixture
def widget(opened: Locator) -> Locator:
    """Return the panel while the query runs."""
    expect(opened.locator(".ks-state")).to_have_text("running")
    expect(opened.get_by_role("alert")).to_be_hidden()
    return opened


def test_parity_comes_first(notebook: Notebook, opened: Locator) -> None:
    """Before anything is deployed, driver and Spark are compared on the builder's sample."""
    expect(notebook.output(DEPLOY)).to_contain_text("driver and Spark agree on 20 records")
    notebook.picture(notebook.output(DEPLOY), "parity")


def test_it_shows_what_the_query_is_doing(notebook: Notebook, widget: Locator) -> None:
    """State, batch and duration, records in and out with their rates, lag, drops, state, tasks, and the journal's last
    lines. The query has not been started again: it is that of the whole file.
    """
    expect(widget).to_contain_text("prices")
    figures = widget.locator(".ks-figures")
    expect(figures).to_contain_text(re.compile(r"in20 records, [\d,.]+/s"))
    expect(figures).to_contain_text("lag0 records")
    expect(figures).to_contain_text("restarts0")
    expect(figures).to_contain_text(re.compile(r"duration[\d,.]+ (ms|s|min)"))
    expect(figures).to_contain_text("dead letters")
    charts = widget.get_by_role("region", name="charts")
    expect(charts).to_contain_text("batch time (ms)")
    expect(charts.locator(".ks-point").first).to_be_visible()
    expect(widget.get_by_role("table", name="Tasks")).to_contain_text("0_1")  # the partitions of k0 and k1
    expect(widget.get_by_role("table", name="Dropped")).to_contain_text("late")
    notebook.picture(widget, "panel")


def test_long_work_says_what_it_waits_for(notebook: Notebook, opened: Locator) -> None:
    """Starting, comparing, restoring, capturing and connecting show a line in the page, which is gone at the end."""
    capture = 'ks.Sample.capture(servers, "prices", records=None, seconds=3, follow=True)'
    expect(notebook.run(LETTERS + 1, source=capture)).to_contain_text("Sample of 20 records")
    expect(notebook.run(LETTERS + 1, source='ks.kafka.Admin("localhost:1").topics()')).to_contain_text("BrokerError")
    notebook.run(LETTERS + 1, source="query.restart(); query.await_input(600)")
    expect(notebook.page.locator(".ks-line")).to_have_count(0)
    shown = notebook.bars()
    stages = (
        "starting a Kafka broker on this machine: 00:0",
        "starting Spark: 00:0",
        " engines",
        'waiting for the first batch of "prices": 00:0',
        "20 records [00:0",
        "waiting for Kafka at localhost:1, listing topics: 00:0",
        'starting "prices"',
    )
    assert [stage for stage in stages if stage not in shown] == [], shown


def test_what_differs_is_shown_and_not_deployed(notebook: Notebook, opened: Locator) -> None:
    """The table shows where the engines differ, and the error how to deploy anyway."""
    shown = notebook.run(TORN)
    expect(shown).to_contain_text("driver and Spark DIFFER on 20 records", timeout=_SLOW_MS)
    expect(shown).to_contain_text("parity=False", timeout=_SLOW_MS)
    notebook.picture(shown, "parity-differs")


def test_rows_of_stores_are_counted_when_asked_for(notebook: Notebook, widget: Locator) -> None:
    """Counting reads the stores, so it happens only on request; the store can be browsed while the query runs."""
    expect(widget.get_by_role("table", name="Stores")).to_contain_text("not counted")
    widget.get_by_role("button", name="Count rows").click()
    expect(widget.get_by_role("table", name="Stores")).to_contain_text(re.compile(r"per-second\d+"), timeout=_SLOW_MS)
    assert notebook.python("ks.widgets.browse(query.store('per-second')).facts['number']").startswith("'1 to ")


def test_it_looks_again_by_itself(notebook: Notebook, widget: Locator) -> None:
    """While the query runs, the panel polls every second until it is stopped."""
    notebook.python("setattr(panel, 'facts', {**panel.facts, 'application': 'old'})")
    notebook.until("panel.facts['application']", "'prices'")


def test_an_error_is_visible_in_the_widget(notebook: Notebook, widget: Locator) -> None:
    """Errors raised in Python are shown in the widget."""
    widget.get_by_role("checkbox", name="live").uncheck()
    notebook.python("panel.tell('explode')")
    expect(widget.get_by_role("alert")).to_contain_text('this widget has no command "explode"')
    widget.get_by_role("checkbox", name="live").check()
    expect(widget.get_by_role("alert")).to_be_hidden()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_keeps_people_out(notebook: Notebook, widget: Locator, dark: bool) -> None:
    """Axe finds no serious violation: names, roles, contrast."""
    notebook.theme(dark)
    assert notebook.barriers(".ks-panel") == []
    notebook.theme(False)


def test_the_explorer_paints_what_the_query_costs_while_it_runs(notebook: Notebook, widget: Locator) -> None:
    """Operators and stores have a depth of color and figures, tasks a row each; new records appear without a click."""
    explorer = notebook.run(COST).locator(".ks-explorer")
    expect(explorer.locator(".ks-graph .ks-heat-5").first).to_be_visible()
    expect(explorer.locator(".ks-graph .node.ks-store")).to_contain_text(re.compile(r"\d+ rows, \d+ writes"))
    tasks = explorer.get_by_role("table", name="Tasks")
    expect(tasks).to_contain_text("0_1")
    expect(tasks.locator("tr.ks-share-5, tr.ks-share-4").first).to_be_visible()
    notebook.picture(explorer, "explorer-cost")
    notebook.python("ks.kafka.produce(servers, builder.sample)")
    expect(explorer.locator(".ks-graph")).to_contain_text("40 records", timeout=_SLOW_MS)
    for dark in (False, True):
        notebook.theme(dark)
        assert notebook.barriers(".ks-explorer") == []
    notebook.theme(False)
    explorer.get_by_role("checkbox", name="live").uncheck()


def test_stop_and_restart_reach_the_query_by_keyboard(notebook: Notebook, widget: Locator) -> None:
    """Stop ends the query after the current batch; Restart continues from the checkpoint."""
    widget.get_by_role("button", name="Stop").focus()
    notebook.page.keyboard.press("Enter")
    expect(widget.locator(".ks-state")).to_have_text("stopped", timeout=_SLOW_MS)
    assert notebook.python("query.status(lag=False).state, ks.spark.active()") == "('stopped', ())"
    expect(widget.get_by_role("button", name="Stop")).to_be_disabled()
    notebook.picture(widget, "panel-stopped")
    widget.get_by_role("button", name="Restart").focus()
    notebook.page.keyboard.press("Enter")
    expect(widget.locator(".ks-state")).to_have_text("running", timeout=_SLOW_MS)
    assert notebook.python("query in ks.spark.active()") == "True"


def test_a_saved_notebook_keeps_the_figures_as_text(notebook: Notebook, widget: Locator) -> None:
    """Without a kernel the panel is its text form."""
    text = notebook.python("panel.forms()['text/plain']")
    assert 'deployment "prices": running' in text
    assert "lag: 0 records" in text


def test_the_last_error_is_shown_with_its_node(notebook: Notebook, widget: Locator) -> None:
    """A failed query shows the reason in the kit's words, and its graph has the node in red."""
    notebook.run(FAIL)
    expect(widget.locator(".ks-state")).to_have_text("failed", timeout=_SLOW_MS)
    expect(widget.locator(".ks-failure")).to_contain_text("Cause: ValueError: <script>alert(1)</script> is not a price")
    expect(widget.locator(".ks-graph .ks-failed")).to_contain_text("check")
    expect(widget.get_by_role("button", name="Restart")).to_be_enabled()
    assert notebook.page.locator(".ks-widget script").count() == 0
    notebook.picture(widget, "panel-failed")


def test_dead_letters_are_shown_on_request(notebook: Notebook, opened: Locator) -> None:
    """The button reads the newest letters from the broker: the record's place, its key, value and error."""
    panel = notebook.run(LETTERS).locator(".ks-panel")
    expect(panel.locator(".ks-figures")).to_contain_text(re.compile("dead letters[1-9]"), timeout=_SLOW_MS)
    panel.get_by_role("button", name="Look at dead letters").focus()
    notebook.page.keyboard.press("Enter")
    table = panel.get_by_role("table", name="The last dead letters")
    expect(table).to_contain_text(re.compile(r"prices-\d@\d+"), timeout=_SLOW_MS)
    expect(table).to_contain_text("<script>alert(1)</script> is not a price")
    assert notebook.barriers(".ks-panel") == []
    notebook.picture(panel, "panel-letters")
    notebook.run(LETTERS, source="tolerant.stop()")
