"""Screenshots of displays that are mostly looked at: checks, errors of the kit and static forms, in light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from kstreamnb.errors import DOCUMENTATION
from tests.browser.lab import ARTEFACTS, Lab, Notebook

pytestmark = [pytest.mark.browser]

MISTYPED, WRONG, POISON, CHECKS, STATIC, MERMAID, NASTY = range(2, 9)
CELLS = [
    "%load_ext kstreamnb\nimport kstreamnb as ks\nfrom IPython.display import HTML, display",
    """
builder = ks.StreamsBuilder("shop")
orders = builder.stream("orders")
spent = orders.map_values(lambda order: order["pieces"] * order["price"])
by_customer = spent.group_by(lambda key, price: str(price))
totals = by_customer.windowed_by(ks.TimeWindows.of_size_and_grace("1h", "10m")).count()
totals.to_stream(lambda window, count: window.key).to("totals", value_serde="long")
topology = builder.build()
sample = ks.Sample.from_text('''
    topic  | key | value                     | time
    orders | o1  | {"pieces": 2, "price": 5} | 0
    orders | o2  | {"pieces": 1, "price": 7} | 7200000
    orders | o3  | {"pieces": 1, "price": 7} | 30000
''')
replay = ks.replay(topology, sample)
""",
    "orders.filtr(lambda key, order: order)",
    """
wrong = ks.StreamsBuilder("wrong")
wrong.stream("orders").to("copies")
wrong.table("orders")
wrong.build()
""",
    'ks.replay(topology, ks.Sample.from_records([("orders", 0, 0, 0, "o4", {"pieces": 1})]))',
    """
uneven = ks.StreamsBuilder("uneven")
rates = uneven.table("rates")
uneven.stream("orders").join(rates, lambda order, rate: [order, rate]).to("out")
ks.testing.check(uneven.build(), partitions={"orders": 4, "rates": 2, "out": 4}, folders={"checkpoint": "/tmp/uneven"})
""",
    """
widgets = [each.forms() for each in (ks.widgets.explorer(topology), ks.widgets.stepper(replay))]
bundles = [each._repr_mimebundle_() for each in (topology, replay, replay.why_dropped())]
for bundle in (*bundles, *widgets):
    display(HTML(bundle.get("text/html") or bundle["image/svg+xml"]))
""",
    'display({"text/vnd.mermaid": replay.to_mermaid(), "text/plain": "no Mermaid"}, raw=True)',
    """
name = "<script>window.hurt = 1</script><img src=x onerror=window.hurt=1>"
nasty = ks.Topology(name).add_source("in " + name, "orders").add_sink("out " + name, "copies", "in " + name)
display({"text/vnd.mermaid": nasty.to_mermaid(), "text/plain": "no Mermaid"}, raw=True)
nasty
""",
]


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Notebook]:
    with lab.prepared("pictures", CELLS) as found:
        yield found


@pytest.mark.parametrize(
    ("cell", "name", "says"),
    [
        (MISTYPED, "error-mistyped", ('UnknownNameError: a KStream has no "filtr"', 'did you mean "filter"?')),
        (WRONG, "error-topology", ('TopologyError: topic "orders" is read both as a stream and as a table', "cell 4")),
        (POISON, "error-record", ('KeyError \'price\' at orders-0@0 key "o4" value {"pieces": 1}', "Caused by")),
    ],
    ids=["mistyped", "topology", "record"],
)
def test_an_error_says_what_where_and_what_to_do(
    notebook: Notebook, cell: int, name: str, says: tuple[str, ...]
) -> None:
    """The user's lines, the message and its notes; no frame of the kit."""
    shown = notebook.run(cell)
    for each in says:
        expect(shown).to_contain_text(each)
    expect(shown).not_to_contain_text("site-packages")
    assert "kstreamnb" not in shown.inner_text().replace(DOCUMENTATION, "")
    notebook.picture(shown, name)


def test_the_list_of_checks_is_a_table(notebook: Notebook) -> None:
    """Findings with their severity and remedy."""
    shown = notebook.run(CHECKS)
    expect(shown.locator("table")).to_contain_text('"orders" has 4, "rates" has 2')
    notebook.picture(shown, "checks")


def test_static_forms_can_be_read_without_a_kernel(notebook: Notebook) -> None:
    """A topology, a replay, an explanation and two widgets; the stepper's form has tables and no picture."""
    shown = notebook.run(STATIC)
    expect(shown.locator(".ks-graph")).to_have_count(3)
    expect(shown).to_contain_text("late")
    expect(shown).not_to_contain_text("Error")
    notebook.picture(shown, "static")


def test_mermaid_is_drawn_by_the_front_end(notebook: Notebook) -> None:
    """JupyterLab draws the text itself, with the titles of the picture."""
    shown = notebook.run(MERMAID)
    drawn = shown.locator(".jp-RenderedMermaid img, .jp-RenderedMermaid svg")
    expect(drawn.first).to_be_visible()
    expect(shown.locator(".jp-mod-warning")).to_have_count(0)
    notebook.picture(shown, "mermaid")


def test_names_of_the_users_stay_text_in_pictures(notebook: Notebook) -> None:
    """Markup in names is shown as text, by Mermaid and in SVG, and is not interpreted."""
    shown = notebook.run(NASTY)
    expect(shown.locator(".jp-RenderedMermaid img, .jp-RenderedMermaid svg").first).to_be_visible()
    expect(shown.locator(".jp-RenderedSVG img")).to_be_visible()
    expect(shown.locator(".jp-RenderedSVG img")).to_have_attribute("src", re.compile("window.hurt"))
    assert notebook.page.evaluate("() => window.hurt === undefined")
    assert shown.locator("script, img[src=x]").count() == 0


def test_tab_offers_operators_first(notebook: Notebook) -> None:
    """JupyterLab keeps the order of the kernel: the usual next operators, then the others."""
    editor = notebook.page.locator(".jp-Cell .cm-content").last
    notebook.run(NASTY, source="pass")
    editor.click()
    editor.press("ControlOrMeta+A")
    editor.press_sequentially("spent.")
    editor.press("Tab")
    offered = notebook.page.locator(".jp-Completer-item .jp-Completer-match")
    expect(offered.first).to_be_visible()
    names = offered.all_inner_texts()
    notebook.page.screenshot(path=ARTEFACTS / "completion.png")
    notebook.page.keyboard.press("Escape")
    assert ["filter", "map_values", "group_by_key", "join", "to", "filter_not"] == names[:6]
