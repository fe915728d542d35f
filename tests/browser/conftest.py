"""One JupyterLab and one browser for all tests; without Chromium they are skipped, with a word on what is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.lab import FLAGS, PATIENCE_MS, Lab, chromium, served


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab over an empty folder."""
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium, or name one in the variable CHROMIUM")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        with served(tmp_path_factory.mktemp("lab"), browser) as found:
            yield found
        browser.close()
