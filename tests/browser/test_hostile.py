"""Displays and widgets of data that strangers wrote, in a browser: nothing of them runs, and nothing is requested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from kstreamnb.notebook.widgets.base import FactsWidget
from tests.browser.lab import Lab
from tests.browser.pages import widget_page
from tests.hostile import ATTACKS, hostile_displays, hostile_widgets

pytestmark = [pytest.mark.browser]

_CLICKABLE = "button:visible, summary:visible, td:visible, .ks-thing, svg [data-step], select:visible, a"
_MOST_CLICKS = 40
CELL = """
%load_ext kstreamnb
from tests.hostile import hostile_{0}
for thing in hostile_{0}().values():
    display(thing)
"""


class Watched:
    """A page, and what it requested, logged and opened."""

    def __init__(self, page: Page) -> None:
        self.page, self.found = page, list[str]()
        page.on("request", self._requested)
        page.on("dialog", lambda dialog: (self.found.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: self.found.append(f"error {error}"))
        page.on("popup", lambda other: self.found.append(f"popup {other.url}"))
        page.on("framenavigated", lambda frame: frame.url != "about:blank" and self.found.append(f"frame {frame.url}"))
        page.route("http*://**", lambda route: route.abort())

    def _requested(self, request: Request) -> None:
        if not request.url.startswith("data:"):
            self.found.append(f"request {request.url[:80]}")

    def show(self, content: str) -> None:
        """Show a page, and click whatever can be clicked."""
        self.page.set_content(content)
        self.page.wait_for_timeout(100)
        for each in self.page.locator(_CLICKABLE).all()[:_MOST_CLICKS]:
            each.dispatch_event("click")
        self.page.wait_for_timeout(50)
        hurt = self.page.evaluate("[window.hurt, Object.prototype.hurt, document.querySelectorAll('iframe, a').length]")
        assert (hurt, self.found) == ([None, None, 0], [])


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    page = browser.new_page()
    yield Watched(page)
    page.close()


def test_the_attacks_would_succeed_in_a_page_that_trusts_them(watched: Watched) -> None:
    """Otherwise this file would show nothing."""
    for attack in ATTACKS[1:5]:
        with pytest.raises(AssertionError):
            watched.show(f"<!doctype html><table><tr><td>{attack}</td></tr></table>")
        watched.found.clear()


def test_no_form_of_a_display_runs_or_requests_anything(watched: Watched) -> None:
    """HTML, and SVG both inside a page and as a document."""
    for name, thing in hostile_displays().items():
        forms: dict[str, Any] = thing._repr_mimebundle_() if hasattr(thing, "_repr_mimebundle_") else {}
        pages = [forms.get("text/html", ""), forms.get("image/svg+xml", "")]
        pages += [thing._repr_html_()] if hasattr(thing, "_repr_html_") else []
        shown = [page for page in pages if page]
        assert shown or name == "builder", f"{name} has no form; a builder is displayed by the extension alone"
        for page in shown:
            watched.show(f"<!doctype html><meta charset=utf-8>{page}")


@pytest.mark.parametrize("state", ["as it begins", "after commands"])
def test_no_widget_runs_or_requests_anything(watched: Watched, state: str) -> None:
    """With its static form beside it, as front ends have it; then with a chosen row, a search, an edit, or an error."""
    widgets = {name: each for name, each in hostile_widgets().items() if isinstance(each, FactsWidget)}
    for name, widget in widgets.items():
        if state == "after commands":
            _use(widget)
        static = widget.forms().get("text/html", "")
        watched.show(f"<!doctype html><meta charset=utf-8>{static}{widget_page(widget)}")
        assert watched.page.locator("#here section").count() == 1, name
        assert watched.page.locator("#here").inner_text().strip(), name
        assert "this widget has a fault" not in watched.page.locator("#here").inner_text(), name


def _use(widget: Any) -> None:
    """Send what a page may send, with hostile texts; a failure becomes the error that the widget shows."""
    for command, arguments in (
        ("choose", {"index": 1}),
        ("put", {"row": 1, "column": "value", "text": ATTACKS[0]}),
        ("put", {"row": 2, "column": "time", "text": ATTACKS[1]}),
        ("show", {"view": "physical"}),
        ("seek", {"step": 4}),
        ("stop_at", {"node": ATTACKS[1], "key": ATTACKS[2]}),
        ("fold_all", {"folded": True}),
    ):
        if command in widget.commands:
            widget.tell(command, **arguments)
    if "sort" in widget.commands:
        widget.tell("sort", by=ATTACKS[1])
        assert ATTACKS[1] in widget.error


def test_jupyterlab_runs_and_typesets_nothing_of_them(lab: Lab) -> None:
    """A trusted notebook, in which HTML is not sanitized and formulas are typeset."""
    cells = [CELL.format(made) for made in ("displays", "widgets")]
    with lab.prepared("hostile", cells) as notebook:
        widgets = notebook.output(1).locator(".ks-widget")
        expect(widgets.nth(len(hostile_widgets()) - 1)).to_be_attached()
        notebook.page.wait_for_timeout(1000)  # formulas are typeset after the output is shown
        assert None is notebook.page.evaluate("window.hurt")
        outputs = notebook.page.locator(".jp-OutputArea-output")
        assert 0 == outputs.locator("mjx-container, .MathJax, a, iframe, script").count()
