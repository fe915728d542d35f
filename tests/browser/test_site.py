"""The pages of the documentation are accessible, contact no other host, and fit on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from tests.browser.static_site import StaticSite, served_site

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = (
    "index",
    "tutorial/10_bad_records",
    "patterns",
    "errors/brokererror",
    "howto/json-to-alert",
    "metrics",
    "performance",
    "reference/kafka",
)

# The theme's own button that folds a section of the navigation has no text.
THEME = {"summary-name"}


@pytest.fixture(scope="module")
def site(built_site: Path) -> Iterator[StaticSite]:
    with served_site(built_site) as served:
        yield served


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_have_no_barriers_and_fit_the_screen(browser: Browser, site: StaticSite, width: int, scheme: Any) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, strangers = context.new_page(), list[str]()
    page.on("request", lambda request: strangers.append(request.url))
    problems = []
    for name in PAGES:
        page.goto(f"{site.url}/{name}.html")
        if page.evaluate("() => document.documentElement.scrollWidth > innerWidth"):
            problems.append(f"{name} scrolls sideways")
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        grave = [each for each in found if each["impact"] in ("serious", "critical") and each["id"] not in THEME]
        problems += [f"{name}: {each['id']}: {each['nodes'][0]['html'][:120]}" for each in grave]
    context.close()
    host = site.url.rpartition("/")[0]
    assert problems == []
    assert [each for each in strangers if not each.startswith((host, "data:"))] == []
