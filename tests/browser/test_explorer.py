"""The graph explorer in a real browser."""

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
builder = ks.StreamsBuilder("shop")
orders = builder.stream("orders").filter(lambda key, order: order["paid"])
counts = orders.group_by(lambda key, order: order["who"]).count(store="per-customer")  # <script>alert(1)</script>
counts.to_stream().to("counts")
shipped = orders.join(builder.stream("shipments"), lambda order, box: [order, box],
                      ks.JoinWindows.of_time_difference_with_no_grace("5m"))
shipped.to("shipped")
sample = ks.Sample.from_text('''
    topic  | key | value                       | time
    orders | o1  | {"who": "ann", "paid": true}  | 0
    orders | o2  | {"who": "bob", "paid": false} | 5
''')
replay = ks.replay(builder.build(), sample)
explorer = ks.widgets.explorer(replay)
explorer
""",
]


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Notebook]:
    with lab.prepared("explorer", CELLS, ready=".ks-explorer .ks-thing") as found:
        yield found


@pytest.fixture
def widget(notebook: Notebook) -> Locator:
    """The explorer as it first opens."""
    notebook.python("[explorer.tell('show', view='physical'), explorer.tell('fold_all', folded=False)]")
    found = notebook.page.locator(".ks-explorer")
    expect(found.locator(".ks-thing").first).to_be_visible()
    return found


def shape(widget: Locator, says: str) -> Locator:
    return widget.get_by_role("button", name=re.compile(rf"^(\w+ · )?{says}"))


def folded_box(widget: Locator, number: int) -> Locator:
    return widget.get_by_role("button", name=re.compile(rf"^Sub-topology {number}, \d+ parts, folded"))


def test_it_shows_the_graph_with_counts(notebook: Notebook, widget: Locator) -> None:
    """Nodes, stores and topics of all sub-topologies, and how many records went over each edge."""
    expect(widget).to_contain_text("sub-topologies")
    expect(shape(widget, "filter, .*, Sub-topology 0")).to_be_visible()
    expect(widget.locator(".ks-graph")).to_contain_text("2")
    notebook.picture(widget, "explorer")


def test_a_click_shows_code_and_cell_and_reaches_python(notebook: Notebook, widget: Locator) -> None:
    """The node's line, cell, stores and counts are shown beside the graph."""
    shape(widget, "count, processor").click()
    details = widget.locator(".ks-details")
    expect(details.locator(".ks-code")).to_contain_text(
        'counts = orders.group_by(lambda key, order: order["who"]).count'
    )
    expect(details).to_contain_text("KSTREAM-AGGREGATE-")
    expect(details).to_contain_text("per-customer")
    notebook.until("explorer.selected[:17]", "'KSTREAM-AGGREGATE'")
    notebook.picture(widget, "explorer-details")


def test_names_of_the_users_stay_text(notebook: Notebook, widget: Locator) -> None:
    """A <script> in the user's own line is shown as text, not run."""
    shape(widget, "count, processor").click()
    expect(widget.locator(".ks-code")).to_contain_text("<script>alert(1)</script>")
    assert notebook.page.locator(".ks-widget script").count() == 0


def test_sub_topologies_fold_and_unfold(notebook: Notebook, widget: Locator) -> None:
    """A folded box is one shape that shows how many nodes it hides."""
    widget.get_by_role("button", name="Fold all", exact=True).click()
    folded = folded_box(widget, 1)
    expect(folded).to_be_visible()
    expect(shape(widget, "filter, ")).to_have_count(0)
    folded.click()
    widget.get_by_role("button", name="Unfold Sub-topology 1").click()
    expect(shape(widget, "count, processor")).to_be_visible()
    expect(shape(widget, "filter, ")).to_have_count(0)


def test_operators_of_the_dsl_fold_and_unfold(notebook: Notebook, widget: Locator) -> None:
    """In the logical view a join is one shape; unfolded it shows its nodes."""
    widget.get_by_role("button", name="Operators").click()
    join = shape(widget, "join, 7 parts, folded")
    expect(join).to_be_visible()
    expect(shape(widget, "merge")).to_have_count(0)
    join.dblclick()
    expect(shape(widget, "merge, processor, shipped · join")).to_be_visible()
    expect(widget.get_by_role("button", name="Operators")).to_have_attribute("aria-pressed", "true")
    notebook.picture(widget, "explorer-operators")


def test_the_keyboard_walks_in_the_order_of_the_flow(notebook: Notebook, widget: Locator) -> None:
    """Arrow keys follow the records; Enter selects, F folds the box, plus zooms."""
    walked = widget.locator(".ks-thing")
    first = widget.locator('.ks-thing[tabindex="0"]')
    first.focus()
    names = []
    for _ in range(4):
        names.append(str(notebook.page.evaluate("document.activeElement.getAttribute('aria-label')")).split(",")[0])
        notebook.page.keyboard.press("ArrowDown")
    assert names == ["orders", "source", "orders · filter", "shipped · join window"]
    notebook.page.keyboard.press("Home")
    notebook.page.keyboard.press("ArrowRight")
    notebook.page.keyboard.press("Enter")
    notebook.until("explorer.selected", "'KSTREAM-SOURCE-0000000000'")
    width = widget.locator(".ks-graph").evaluate("svg => svg.getBoundingClientRect().width")
    notebook.page.keyboard.press("+")
    assert widget.locator(".ks-graph").evaluate("svg => svg.getBoundingClientRect().width") > width
    notebook.page.keyboard.press("f")
    expect(folded_box(widget, 0)).to_be_visible()
    assert notebook.page.evaluate("document.activeElement.classList.contains('ks-thing')")
    expect(walked.first).to_be_visible()


def test_search_finds_by_name_code_and_setting(notebook: Notebook, widget: Locator) -> None:
    """Nodes that do not match fade; Enter moves to the next match."""
    box = widget.get_by_role("searchbox", name="Search in the graph")
    box.fill("shipments")
    expect(widget).to_contain_text("of ")
    expect(widget.locator(".ks-hit").first).to_be_visible()
    box.press("Enter")
    expect(widget.locator(".ks-chosen")).to_have_count(1)
    box.press("Escape")
    expect(widget.locator(".ks-dim")).to_have_count(0)


def test_an_error_is_visible_in_the_widget(notebook: Notebook, widget: Locator) -> None:
    """An error in Python is shown where the user clicked, and disappears with the next success."""
    notebook.python("explorer.tell('fold', box='sub-<b>9</b>')")
    expect(widget.get_by_role("alert")).to_contain_text('no box has the id "sub-<b>9</b>"')
    notebook.python("explorer.tell('select', name='')")
    expect(widget.get_by_role("alert")).to_be_hidden()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_keeps_people_out(notebook: Notebook, widget: Locator, dark: bool) -> None:
    """Axe finds no serious violation: names, roles, contrast."""
    shape(widget, "count, processor").click()
    notebook.theme(dark)
    assert notebook.barriers(".ks-explorer") == []
    notebook.theme(False)


def test_a_large_graph_opens_folded_and_can_be_pulled(notebook: Notebook) -> None:
    """A hundred and thirty nodes open as their sub-topologies; unfolded, the picture moves with the pointer."""
    source = """
large = ks.StreamsBuilder("large")
for number in range(10):
    stream = large.stream(f"in-{number}")
    for _ in range(11):
        stream = stream.map_values(str)
    stream.to(f"out-{number}")
wide = ks.widgets.explorer(large.build())
wide
"""
    widget = notebook.run(len(CELLS), source=source).locator(".ks-explorer")
    notebook.python("wide.tell('show', view='physical')")  # the page remembers the view of an earlier test
    expect(folded_box(widget, 9)).to_be_visible()
    notebook.picture(widget, "explorer-large")
    notebook.python("wide.tell('fold_all', folded=False)")
    canvas = widget.get_by_role("region", name="graph")
    expect(canvas.get_by_role("button")).to_have_count(150)
    for _ in range(4):
        widget.get_by_role("button", name="Zoom in").click()
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    before = canvas.evaluate("element => element.scrollLeft + element.scrollTop")
    notebook.page.mouse.move(box["x"] + box["width"] - 30, box["y"] + box["height"] - 30)
    notebook.page.mouse.down()
    notebook.page.mouse.move(box["x"] + 20, box["y"] + 20, steps=4)
    notebook.page.mouse.up()
    assert canvas.evaluate("element => element.scrollLeft + element.scrollTop") > before
    notebook.picture(widget, "explorer-large-unfolded")
