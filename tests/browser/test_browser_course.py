"""The course as a static site: chapters run to their last cell in a browser, with no server and no other host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.browser.lab import ARTEFACTS, PATIENCE_MS
from tests.browser.static_site import StaticSite, served_site

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MOST_SECONDS, MOST_MEGABYTES = 20, 20
CHAPTERS = (
    *("count_topology", "ten_minute_sales", "hopping_windows", "seven_boxes"),
    *("reprocess", "logs_and_changes", "operations", "java_takeover", "storms"),
)

_STATES = """() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => ({
    id: cell.model.id,
    code: cell.model.type === "code",
    source: cell.model.sharedModel.getSource(),
    tags: cell.model.getMetadata("tags") ?? [],
    ran: cell.model.type !== "code" || cell.model.executionCount !== null,
    outputs: cell.model.type === "code" ? cell.model.outputs.toJSON() : [],
}))"""
_ALL_RAN = """() => window.jupyterapp.shell.currentWidget.content.widgets.every(cell =>
    cell.model.type !== "code" || cell.model.sharedModel.getSource() === ""
    || (cell.model.executionCount !== null && cell.model.executionState !== "running"))"""


@pytest.fixture(scope="module")
def site(built_site: Path) -> Iterator[StaticSite]:
    with served_site(built_site) as served:
        yield served


@contextmanager
def visitor(browser: Browser, site: StaticSite, path: str) -> Iterator[tuple[Page, list[str]]]:
    """Visit the site for the first time, with an empty cache; returns the page and the addresses of other hosts it
    requested.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(PATIENCE_MS)
    page, strangers = context.new_page(), list[str]()

    def note(request: Request) -> None:
        if not request.url.startswith((site.url.rpartition("/")[0], "data:", "blob:")):
            strangers.append(request.url)

    context.on("request", note)
    try:
        page.goto(f"{site.url}/{path}")
        yield page, strangers
    finally:
        context.close()


def run_all(page: Page) -> None:
    """Run every cell as the menu does, and wait for the last one."""
    page.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.context?.sessionContext?.session?.kernel")
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_runs_to_its_last_cell(browser: Browser, site: StaticSite, built_site: Path, chapter: str) -> None:
    """No cell fails, no request leaves the site, and the first result comes soon."""
    (name,) = [path.name for path in (built_site / "lite" / "files").glob(f"*_{chapter}.ipynb")]
    site.bytes_sent, began = 0, time.monotonic()
    with visitor(browser, site, f"lite/notebooks/index.html?path={name}") as (page, strangers):
        run_all(page)
        expect(page.locator(".jp-OutputArea-output").first).to_be_visible(timeout=PATIENCE_MS)
        first, sent = time.monotonic() - began, site.bytes_sent
        page.wait_for_function(_ALL_RAN, timeout=2 * PATIENCE_MS)
        last = time.monotonic() - began
        cells = page.evaluate(_STATES)
        page.screenshot(path=ARTEFACTS / f"course-{chapter}.png")
    failed = [
        (cell["source"][:80], output["ename"], output["evalue"])
        for cell in cells
        for output in cell["outputs"]
        if output["output_type"] == "error" and "raises-exception" not in cell["tags"]
    ]
    print(f"\n{name}: first result after {first:.1f} s, last after {last:.1f} s, {sent / 1e6:.1f} MB")
    assert failed == []
    assert sum(cell["code"] for cell in cells) > 3
    assert strangers == []
    assert sent < MOST_MEGABYTES * 1e6
