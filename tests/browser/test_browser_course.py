"""The course as a static site: every chapter runs to its last cell in a browser, with no server and no other host."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, Locator, Page, Request, expect

from tests.browser.lab import ARTEFACTS, PATIENCE_MS
from tests.browser.static_site import StaticSite, served_site

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MOST_MEGABYTES, MOST_LOOKS = 20, 10
COLD_MS = 3 * PATIENCE_MS
"""How long the interpreter may take to compile and start on a machine with other work."""
CHAPTERS = sorted(path.name for path in (Path(__file__).parents[2] / "notebooks").glob("[0-9]*.ipynb"))

_ONE_MORE = '''builder = ks.StreamsBuilder("counting")
builder.sample = ks.Sample.from_text("""
topic | key | value | time
input | a   | red   | 0
input | b   | blue  | 1
input | a   | green | 2
input | c   | red   | 3
input | a   | red   | 4
input | b   | red   | 5
""")'''
_STATES = """() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => ({
    id: cell.model.id,
    code: cell.model.type === "code",
    source: cell.model.sharedModel.getSource(),
    tags: cell.model.getMetadata("tags") ?? [],
    ran: cell.model.type !== "code" || cell.model.executionCount !== null,
    outputs: cell.model.type === "code" ? cell.model.outputs.toJSON() : [],
}))"""
_KERNEL = "() => window.jupyterapp?.shell.currentWidget?.context?.sessionContext?.session?.kernel"
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
    context.set_default_timeout(COLD_MS)
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
    """Run every cell as the menu does."""
    page.wait_for_function(_KERNEL)
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")


def run_cell(page: Page, words: str, *, source: str | None = None) -> Locator:
    """Run the code cell with these words, after replacing its text if a new one is given; return its output."""
    number: int = page.evaluate(
        """async ([words, source]) => {
            const notebook = window.jupyterapp.shell.currentWidget.content;
            const text = cell => cell.model.sharedModel.getSource();
            const number = notebook.widgets.findIndex(cell => cell.model.type === "code" && text(cell).includes(words));
            notebook.activeCellIndex = number;
            await notebook.scrollToItem(number);
            if (source !== null) notebook.activeCell.model.sharedModel.setSource(source);
            await window.jupyterapp.commands.execute("notebook:run-cell");
            return number;
        }""",
        [words, source],
    )
    return page.locator(f'.jp-Cell[data-windowed-list-index="{number}"] .jp-Cell-outputArea')


def cpu_s() -> dict[int, float]:
    """Return the seconds of CPU of the browser's processes; unlike the clock, they hardly depend on other work."""
    return {each.pid: sum(each.cpu_times()[:2]) for each in psutil.Process().children(recursive=True)}


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_runs_to_its_last_cell(browser: Browser, site: StaticSite, name: str) -> None:
    """No cell fails, no request leaves the site, and the first result comes soon."""
    site.bytes_sent, began, before = 0, time.monotonic(), cpu_s()
    with visitor(browser, site, f"lite/notebooks/index.html?path={name}") as (page, strangers):
        page.wait_for_function(_KERNEL)
        expect(run_cell(page, "ks.course.picture(").locator(".jp-OutputArea-output").first).to_be_visible()
        first = time.monotonic() - began
        cpu = sum(seconds - before.get(process, 0) for process, seconds in cpu_s().items())
        run_all(page)
        page.wait_for_function(_ALL_RAN, timeout=COLD_MS)
        last, sent = time.monotonic() - began, site.bytes_sent
        cells = page.evaluate(_STATES)
        page.screenshot(path=ARTEFACTS / f"course-{name}.png")
    failed = [
        (cell["source"][:80], output["ename"], output["evalue"])
        for cell in cells
        for output in cell["outputs"]
        if output["output_type"] == "error" and "raises-exception" not in cell["tags"]
    ]
    print(f"\n{name}: first result after {first:.0f} s ({cpu:.0f} s CPU), last after {last:.0f} s, {sent / 1e6:.1f} MB")
    assert failed == []
    assert sum(cell["code"] for cell in cells) > 3
    assert strangers == []
    assert sent < MOST_MEGABYTES * 1e6


def test_a_prediction_is_kept_the_stepper_steps_and_an_edit_is_followed(browser: Browser, site: StaticSite) -> None:
    """In chapter 1, as a learner does it: a wrong number, a step of the replay, one more record."""
    with visitor(browser, site, "lite/notebooks/index.html?path=01_count_topology.ipynb") as (page, strangers):
        run_all(page)
        page.wait_for_function(_ALL_RAN, timeout=COLD_MS)
        form = run_cell(page, 'ks.course.predict("count.updates")')
        form.locator('input[name="number"]').fill("3")
        form.get_by_role("button", name="Keep my answer").click()
        expect(form.get_by_role("status")).to_have_text("Kept. Run the next cell and compare.")
        compared = run_cell(page, 'ks.course.compare("count.updates"')
        expect(compared).to_contain_text("You predicted 3; the run gave 5.")
        expect(compared).to_contain_text("The store ends with one row for each key")
        stepper = run_cell(page, "ks.widgets.stepper(replay)")
        expect(stepper.locator(".ks-times svg")).to_be_visible()
        place = stepper.locator(".ks-place")
        for name in ("To the beginning", "Step"):  # a replay opens at its end
            before = place.inner_text()
            stepper.get_by_role("button", name=name, exact=True).click()
            expect(place).not_to_have_text(before)
        stepper.screenshot(path=ARTEFACTS / "course-stepper.png")
        run_cell(page, "builder.sample = ks.Sample", source=_ONE_MORE)
        for words in ('events = builder.stream("input")', "counts = events.group_by_key()"):
            run_cell(page, words)
        expect(run_cell(page, 'ks.course.compare("count.updates"')).to_contain_text("You predicted 3; the run gave 6.")
    assert strangers == []


_COMPLETE = """async (code) => {
    const kernel = window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;
    return (await kernel.requestComplete({code, cursor_pos: code.length})).content.matches;
}"""
_RESTART = "() => window.jupyterapp.shell.currentWidget.context.sessionContext.restartKernel()"


def test_python_starts_with_the_page_and_reads_the_files_of_students(browser: Browser, site: StaticSite) -> None:
    """It starts once, and imports without a look into the notebooks' folder; a restarted kernel works, too."""
    with visitor(browser, site, "lite/notebooks/index.html?path=01_count_topology.ipynb") as (page, strangers):
        looks = list[str]()
        page.context.on("request", lambda request: looks.extend(re.findall("/api/drive", request.url)))
        page.wait_for_function(_KERNEL)
        run_cell(page, "ks.course.picture(")
        assert len(looks) < MOST_LOOKS
        assert len(page.workers) == 1
        assert "StreamsBuilder" in page.evaluate(_COMPLETE, "ks.StreamsBu")
        own = 'len(open("01_count_topology.ipynb").read()) > 1000'
        expect(run_cell(page, "ks.widgets.stepper(replay)", source=own)).to_contain_text("True")
        page.evaluate(_RESTART)
        expect(run_cell(page, own, source=f"{own}, 2")).to_contain_text("(True, 2)")
    assert strangers == []


def test_time_is_drawn(browser: Browser, site: StaticSite) -> None:
    """The timeline of chapter 6 is a picture with the late record."""
    with visitor(browser, site, "lite/notebooks/index.html?path=06_ten_minute_sales.ipynb") as (page, strangers):
        run_all(page)
        page.wait_for_function(_ALL_RAN, timeout=COLD_MS)
        picture = run_cell(page, "run.timeline()").locator(".jp-RenderedSVG img")
        expect(picture).to_be_visible()
        assert picture.evaluate("image => image.complete && image.naturalWidth") > 300
        picture.screenshot(path=ARTEFACTS / "course-timeline.png")
    assert strangers == []
