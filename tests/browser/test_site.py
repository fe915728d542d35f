"""The pages of the documentation are accessible, searchable without another host, and fit on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

import kstreamnb as ks
from kstreamnb.errors import DOCUMENTATION
from tests.browser.static_site import StaticSite, served_site

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = (
    "index",
    "tutorial/10_bad_records",
    "patterns",
    "errors/brokererror",
    "howto/json-to-alert",
    "howto/port-from-java",
    "metrics",
    "performance",
    "reference/KTable",
    "reference/kafka",
    "settings",
)

# The theme's own button that folds a section of the navigation has no text.
THEME = {"summary-name"}


@pytest.fixture(scope="module")
def site(built_site: Path) -> Iterator[StaticSite]:
    with served_site(built_site) as served:
        yield served


@contextmanager
def reader(browser: Browser, site: StaticSite, width: int = 1280, scheme: Any = "light") -> Iterator[Page]:
    """Open a page in a window of this width; in the end, no request has gone to another host."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, strangers = context.new_page(), list[str]()
    page.on("request", lambda request: strangers.append(request.url))
    yield page
    context.close()
    host = site.url.rpartition("/")[0]
    assert [each for each in strangers if not each.startswith((host, "data:"))] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_have_no_barriers_and_fit_the_screen(browser: Browser, site: StaticSite, width: int, scheme: Any) -> None:
    problems = []
    with reader(browser, site, width, scheme) as page:
        for name in PAGES:
            page.goto(f"{site.url}/{name}.html")
            if page.evaluate("() => document.documentElement.scrollWidth > innerWidth"):
                problems.append(f"{name} scrolls sideways")
            found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
            grave = [each for each in found if each["impact"] in ("serious", "critical") and each["id"] not in THEME]
            problems += [f"{name}: {each['id']}: {each['nodes'][0]['html'][:120]}" for each in grave]
    assert problems == []


def test_columns_of_numbers_are_aligned_right(browser: Browser, site: StaticSite) -> None:
    """Their sizes can be compared at a glance; words stay on the left."""
    with reader(browser, site) as page:
        page.goto(f"{site.url}/performance.html")
        for name, side in (("1,640,000", "right"), ("piped", "right"), ("filter and map", "left")):
            cell = page.locator("article :is(td, th)").get_by_text(name, exact=True).first
            assert cell.evaluate("cell => getComputedStyle(cell).textAlign").replace("start", "left") == side


@pytest.mark.parametrize("width", [1280, 390])
def test_the_search_finds_pages_without_another_host(browser: Browser, site: StaticSite, width: int) -> None:
    """From the keyboard, as the field says, to a page with the words."""
    with reader(browser, site, width) as page:
        page.goto(f"{site.url}/index.html")
        page.keyboard.press("Control+K")
        page.get_by_role("dialog").get_by_role("searchbox").fill("foreign key")
        page.keyboard.press("Enter")
        results = page.locator("#search-results li a")
        expect(results.first).to_be_visible()
        expect(page.locator("#search-results")).to_contain_text("found")  # the last sentence, after all results
        print(f"\n{results.count()} results:", *results.all_inner_texts()[:10], sep="\n  ")
        results.first.click()
        expect(page.locator("article")).to_contain_text("foreign key", ignore_case=True)


def test_the_link_of_an_error_leads_to_its_page(browser: Browser, site: StaticSite) -> None:
    with pytest.raises(ks.errors.ConfigError) as raised:
        ks.TimeWindows.of(size="5 parsecs")
    with reader(browser, site) as page:
        page.goto(f"{site.url}/{raised.value.url.removeprefix(DOCUMENTATION)}")
        expect(page.locator("h1")).to_contain_text("ConfigError")
        for title in ("Cause", "Remedy", "Example"):
            expect(page.get_by_role("heading", level=2, name=title)).to_be_visible()
        expect(page.locator("article")).to_contain_text("5 parsecs")


@pytest.mark.parametrize(
    ("words", "page"),
    [("groupByKey", "Port a Java application"), ("interactive queries", "Read a store"), ("serde", "Choose serdes")],
)
def test_the_search_lists_the_reference_and_guides_first(
    browser: Browser, site: StaticSite, words: str, page: str
) -> None:
    """Many chapters of the course contain the words of an operator as well."""
    with reader(browser, site) as tab:
        tab.goto(f"{site.url}/search.html?q={words}")
        expect(tab.locator("#search-results")).to_contain_text("found")
        assert page in tab.locator("#search-results li a").all_inner_texts()[:5]


def test_a_copied_block_is_code(browser: Browser, site: StaticSite) -> None:
    """Prompts and output are not selected, so a block can be pasted into a file."""
    with reader(browser, site) as page:
        page.goto(f"{site.url}/howto/serdes.html")
        block = page.locator("article pre").first
        code = block.evaluate("block => { getSelection().selectAllChildren(block); return getSelection().toString() }")
        assert code.startswith("import kstreamnb as ks\nbuilder = ")
        assert "(7, 3.5)" not in code
