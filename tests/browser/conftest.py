"""One browser, one JupyterLab and one built site for all tests, which are skipped with a message if there is no
Chromium.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.lab import FLAGS, PATIENCE_MS, Lab, chromium, served

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium."""
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium, or name one in the variable CHROMIUM")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def lab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab over an empty folder."""
    with served(tmp_path_factory.mktemp("lab"), browser) as found:
        yield found


@pytest.fixture(scope="session")
def built_site() -> Path:
    """Return the folder of the documentation: the one that the variable SITE names, or a fresh build."""
    if "SITE" in os.environ:
        return Path(os.environ["SITE"]).resolve()
    subprocess.run([sys.executable, str(ROOT / ".site" / "build.py")], check=True)
    return ROOT / ".artefacts" / "site" / "html"
