"""The replay stepper in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab, Notebook

pytestmark = [pytest.mark.browser]

CELLS = [
    "%load_ext kstreamnb\nimport kstreamnb as ks",
    """
builder = ks.StreamsBuilder("clicks")
clicks = builder.stream("clicks").group_by(lambda key, click: click["who"])
windows = ks.TimeWindows.of_size_and_grace("10s", "5s")
clicks.windowed_by(windows).count(store="per-window").to_stream().to("counts")
sample = ks.Sample.from_text('''
    topic  | key | value                                       | time
    clicks | a   | {"who": "ann"}                              | 0
    clicks | b   | {"who": "bob"}                              | 5000
    clicks | c   | {"who": "ann"}                              | 21000
    clicks | d   | {"who": "<script>alert(1)</script>"}        | 22000
    clicks | e   | {"who": "ann"}                              | 1000
''')
replay = ks.replay(builder.build(), sample)
stepper = ks.widgets.stepper(replay)
stepper
""",
]

_COUNT_FLIGHTS = """widget => {
    window.flights = 0;
    const isFlight = node => node.classList?.contains("ks-flight");
    const added = changes => changes.flatMap(each => [...each.addedNodes]);
    const count = changes => { window.flights += added(changes).filter(isFlight).length; };
    new MutationObserver(count).observe(widget, {subtree: true, childList: true});
}"""


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Notebook]:
    with lab.prepared("stepper", CELLS, ready=".ks-stepper .ks-thing") as found:
        yield found


@pytest.fixture
def widget(notebook: Notebook) -> Locator:
    """Return the stepper before the first step, without breakpoints."""
    notebook.python(
        "[setattr(replay, 'breakpoints', ()), stepper.tell('show', view='logical'), stepper.tell('seek', step=0)]"
    )
    found = notebook.page.locator(".ks-stepper")
    expect(found.get_by_role("button", name="Operators")).to_have_attribute("aria-pressed", "true")
    expect(found.locator(".ks-place")).to_have_text("step 0 of 10")
    return found


def press(widget: Locator, name: str) -> None:
    widget.get_by_role("button", name=name, exact=True).click()


def at(widget: Locator, step: int) -> None:
    expect(widget.locator(".ks-place")).to_have_text(f"step {step} of 10")


def test_a_step_shows_the_record_in_flight_and_reaches_python(notebook: Notebook, widget: Locator) -> None:
    """Edges that the record passed are highlighted, counts are those so far, and the replay itself has moved."""
    press(widget, "Step")
    at(widget, 1)
    expect(widget.locator(".ks-title-line")).to_contain_text("clicks-0@0")
    expect(widget.locator(".ks-passed")).to_have_count(2)  # into group_by, and into its repartition
    expect(widget.locator('[data-id^="edge-0-topic-clicks-"] text')).to_have_text("1")
    notebook.until("replay.position", "1")


def test_the_graph_shows_operators_or_nodes_and_the_page_remembers_which(notebook: Notebook, widget: Locator) -> None:
    """Nodes show every hop of the record; the next stepper begins with the view chosen last."""
    press(widget, "Step")
    at(widget, 1)
    press(widget, "Nodes")
    expect(widget.get_by_role("button", name="Nodes")).to_have_attribute("aria-pressed", "true")
    expect(widget.locator(".ks-passed")).to_have_count(5)
    expect(widget.locator('[data-id^="edge-0-topic-clicks-"] text')).to_have_text("1")
    notebook.picture(widget, "stepper-nodes")
    second = notebook.run(2, source="ks.widgets.stepper(replay)")
    expect(second.get_by_role("button", name="Nodes")).to_have_attribute("aria-pressed", "true")
    expect(second.locator(".ks-passed")).to_have_count(5)
    second.get_by_role("button", name="Operators").click()
    expect(second.locator(".ks-passed")).to_have_count(2)
    notebook.run(2, source="")


def test_stores_are_shown_before_and_after(notebook: Notebook, widget: Locator) -> None:
    """The row that the step changed is highlighted, with its previous value."""
    notebook.python("stepper.tell('seek', step=2)")
    at(widget, 2)
    row = widget.locator(".ks-store-rows tr.ks-new")
    expect(row).to_contain_text('"ann" from 0 to 10000')
    expect(widget).to_contain_text("Stores: 1 changed")
    expect(widget).to_contain_text("Open windows: 1 window")
    notebook.picture(widget, "stepper")


def test_long_rows_stay_inside_the_widget(notebook: Notebook, widget: Locator) -> None:
    """In a narrow window the panels scroll; none extends beyond the cell, where it would be cut off."""
    notebook.python("stepper.tell('seek', step=8)")
    at(widget, 8)
    notebook.page.set_viewport_size({"width": 780, "height": 1000})
    notebook.page.wait_for_function("() => document.querySelector('.ks-stepper').getBoundingClientRect().right < 780")
    right, *panels = widget.evaluate(
        "each => [each, ...each.querySelectorAll('.ks-panels details')].map(part => part.getBoundingClientRect().right)"
    )
    notebook.page.set_viewport_size({"width": 1280, "height": 1000})
    assert panels
    assert max(panels) <= right


def test_back_undoes_a_step(notebook: Notebook, widget: Locator) -> None:
    """Stores and counts are as they were."""
    notebook.python("stepper.tell('seek', step=2)")
    press(widget, "Step back")
    at(widget, 1)
    expect(widget.locator(".ks-store-rows tbody tr")).to_have_count(0)


def test_the_slider_moves_through_time_by_keyboard(notebook: Notebook, widget: Locator) -> None:
    """Arrow keys, Home and End move the slider; Python follows."""
    slider = widget.get_by_role("slider", name="step")
    slider.focus()
    notebook.page.keyboard.press("ArrowRight")
    notebook.page.keyboard.press("ArrowRight")
    at(widget, 2)
    notebook.until("replay.position", "2")
    notebook.page.keyboard.press("End")
    at(widget, 10)
    notebook.until("replay.position", "10")


def test_the_slider_stays_where_it_was_put_while_python_is_slow(notebook: Notebook, widget: Locator) -> None:
    """Answers for earlier positions do not move the slider back: each key press is one step."""
    slider = widget.get_by_role("slider", name="step")
    slider.focus()
    notebook.start("import time; time.sleep(1)")
    for _ in range(6):
        notebook.page.keyboard.press("ArrowRight", delay=60)  # longer than the slider's debounce time
    at(widget, 6)
    expect(slider).to_have_value("6")
    notebook.until("replay.position", "6")


def test_a_late_record_is_explained_where_it_was_dropped(notebook: Notebook, widget: Locator) -> None:
    """The node that rejected it is marked, and the numbers are shown."""
    press(widget, "To the end")
    at(widget, 10)
    expect(widget.locator(".ks-explained")).to_contain_text("window [0, 10000) had closed")
    expect(widget.locator(".ks-dropped")).to_have_count(1)
    notebook.picture(widget, "stepper-late")


def test_values_of_the_users_stay_text(notebook: Notebook, widget: Locator) -> None:
    """A record with <script> is shown as text, not run."""
    notebook.python("stepper.tell('seek', step=8)")
    at(widget, 8)
    expect(widget.locator(".ks-title-line")).to_contain_text("<script>alert(1)</script>")
    expect(widget.locator(".ks-store-rows")).to_contain_text("<script>alert(1)</script>")
    assert notebook.page.locator(".ks-widget script").count() == 0


def test_a_breakpoint_at_a_node_stops_the_run(notebook: Notebook, widget: Locator) -> None:
    """Click a node, set a breakpoint, continue to the next hit, step back, and remove it."""
    widget.get_by_role("button", name="count, processor").click()
    notebook.until("stepper.selected", "'KSTREAM-AGGREGATE-0000000002'")
    press(widget, "Stop at count")
    expect(widget.locator(".ks-stops")).to_contain_text("node KSTREAM-AGGREGATE-0000000002")
    press(widget, "To the next breakpoint")
    at(widget, 2)
    press(widget, "To the next breakpoint")
    at(widget, 4)
    press(widget, "To the previous breakpoint")
    at(widget, 2)
    widget.get_by_role("button", name="Remove the breakpoint").click()
    notebook.until("replay.breakpoints", "()")


def test_a_breakpoint_at_a_key_stops_the_run(notebook: Notebook, widget: Locator) -> None:
    """A key is typed as in a sample and also matches windows of that key."""
    key = widget.get_by_role("textbox", name="key to stop at")
    key.fill("bob")
    key.press("Enter")
    expect(widget.locator(".ks-stops")).to_contain_text('key "bob"')
    press(widget, "To the next breakpoint")
    at(widget, 3)


def test_play_goes_on_by_itself_until_a_breakpoint(notebook: Notebook, widget: Locator) -> None:
    """Play advances step by step and stops at a breakpoint."""
    notebook.python("stepper.tell('stop_at', key='bob')")
    widget.get_by_role("combobox", name="speed").select_option("fast")
    press(widget, "Play")
    at(widget, 3)
    expect(widget.get_by_role("button", name="Play", exact=True)).to_have_attribute("aria-pressed", "false")


def test_the_record_flies_unless_less_motion_is_asked_for(notebook: Notebook, widget: Locator) -> None:
    """The dot moves along the edges; with prefers-reduced-motion only the trail is drawn."""
    widget.evaluate(_COUNT_FLIGHTS)
    notebook.page.emulate_media(reduced_motion="no-preference")
    press(widget, "Step")
    notebook.page.wait_for_function("() => window.flights > 0")  # it may have arrived before the test looks
    at(widget, 1)
    expect(widget.locator(".ks-flight")).to_have_count(0)
    notebook.page.emulate_media(reduced_motion="reduce")
    flights = notebook.page.evaluate("() => window.flights")
    press(widget, "Step")
    at(widget, 2)
    expect(widget.locator(".ks-flight")).to_have_count(0)
    assert notebook.page.evaluate("() => window.flights") == flights


def test_an_error_is_visible_in_the_widget(notebook: Notebook, widget: Locator) -> None:
    """A key that cannot be parsed, or a breakpoint without node and key, is reported beside the input."""
    press(widget, "Stop at key")
    expect(widget.get_by_role("alert")).to_contain_text("a breakpoint needs a node or a key")
    press(widget, "Step")
    expect(widget.get_by_role("alert")).to_be_hidden()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_keeps_people_out(notebook: Notebook, widget: Locator, dark: bool) -> None:
    """Axe finds no serious violation: names, roles, contrast."""
    notebook.python("stepper.tell('seek', step=10)")
    at(widget, 10)
    notebook.theme(dark)
    assert notebook.barriers(".ks-stepper") == []
    notebook.theme(False)


def test_the_timeline_shows_the_moment_of_the_step(notebook: Notebook, widget: Locator) -> None:
    """Records, windows and stream time appear with their step; clicking a record moves to its step."""
    notebook.python("stepper.tell('seek', step=2)")
    at(widget, 2)
    timeline = widget.locator(".ks-timeline")
    expect(timeline.locator("g[data-step] .ks-window:visible")).to_have_count(1)
    expect(timeline.locator(".ks-now-text")).to_have_text(re.compile("^[0-9]+$"))
    expect(timeline.locator(".ks-late[data-step]:visible")).to_have_count(0)
    notebook.picture(widget, "stepper-timeline")
    press(widget, "To the end")
    at(widget, 10)
    expect(timeline.locator(".ks-late[data-step]:visible")).to_have_count(2)
    timeline.locator(".ks-dot[data-step='4']").first.click()
    at(widget, 4)
    notebook.until("replay.position", "4")


def test_the_timeline_is_a_picture_where_no_widget_runs(lab: Lab) -> None:
    """A cell shows the timeline as an image with a description; the saved notebook keeps it beside text."""
    cells = [CELLS[0], CELLS[1].replace("stepper = ks.widgets.stepper(replay)\nstepper", "replay.timeline()")]
    with lab.notebook("timeline", cells) as found:
        found.run(0)
        picture = found.run(1).locator("img, svg.ks-time").first
        expect(picture).to_be_visible()
        found.picture(found.output(1), "timeline")
        found.assert_quiet()


_IS_IN_FRAME = """row => {
    const body = row.closest(".ks-body").getBoundingClientRect(), box = row.getBoundingClientRect();
    return box.height > 0 && box.top >= body.top && box.bottom <= body.bottom;
}"""


def test_the_row_that_a_step_changed_is_brought_into_view(lab: Lab) -> None:
    """Of many stores, the frame shows the one that changed, also when the widget is shown first."""
    many = """
builder = ks.StreamsBuilder("many")
numbers = builder.stream("numbers")
for rest in range(9):
    numbers.filter(lambda key, n, rest=rest: n % 9 == rest).group_by_key().count(store=f"rest-{rest}")
replay = ks.replay(builder.build(), ks.Sample.from_records([("numbers", 0, n, n, f"k{n % 5}", n) for n in range(45)]))
ks.widgets.stepper(replay)
"""
    with lab.prepared("many-stores", [CELLS[0], many], ready=".ks-stepper tr.ks-other") as found:
        stepper = found.page.locator(".ks-stepper")
        for step in range(45, 40, -1):
            expect(stepper.locator(".ks-place")).to_have_text(f"step {step} of 45")
            changed = stepper.locator(".ks-store-rows tr:is(.ks-new, .ks-other)").element_handle()
            found.page.wait_for_function(_IS_IN_FRAME, arg=changed)
            press(stepper, "Step back")
