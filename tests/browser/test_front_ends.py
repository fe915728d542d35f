"""Pictures and widgets with the style of other places: VS Code, Colab, and paper."""

from __future__ import annotations

from collections.abc import Iterator

import nbformat
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, Page

from tests.browser.pages import widget_page
from tests.displays import displays, widgets
from tests.unit.display.test_formats import contrast

pytestmark = [pytest.mark.browser]

_VARIABLES = "--vscode-editor-background:{ground};--vscode-editor-foreground:{ink}"
_THEMES = {
    "VS Code, light": ("vscode-light", "#ffffff", "#3b3b3b"),
    "VS Code, dark": ("vscode-dark", "#1f1f1f", "#cccccc"),
    "VS Code, high contrast": ("vscode-high-contrast", "#000000", "#ffffff"),
    "VS Code, light and high contrast": ("vscode-high-contrast-light vscode-high-contrast", "#ffffff", "#292929"),
}
_A4 = 718
"""Pixels of the content of a page of paper, with the margins of a browser."""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def _color(page: Page, selector: str, name: str) -> str:
    """Return a color of the first element that a selector names, as #rrggbb."""
    shown = page.locator(selector).first.evaluate("(element, name) => getComputedStyle(element)[name]", name)
    red, green, blue = (int(part) for part in shown[4:-1].split(", ")[:3])
    return f"#{red:02x}{green:02x}{blue:02x}"


def test_cost_stays_red_beside_other_pictures(page: Page) -> None:
    """VS Code puts all pictures into one document, where the last style sheet wins between equal selectors."""
    shown = displays()
    page.set_content(f"{shown['profile'].to_svg()}{shown['topology'].to_svg()}")
    assert "#d1242f" == _color(page, ".ks-heat-1 > polygon", "stroke")
    assert "#2f81f7" == _color(page, ".ks-processor:not([class*=heat]) > polygon", "stroke")


@pytest.mark.parametrize("theme", _THEMES)
def test_a_widget_follows_the_theme_of_vs_code(page: Page, theme: str) -> None:
    """Its warnings and pressed buttons can be read, although the operating system prefers the opposite colors."""
    classes, ground, ink = _THEMES[theme]
    page.emulate_media(color_scheme="dark" if "light" in theme else "light")
    style = f"<style>html{{{_VARIABLES.format(ground=ground, ink=ink)}}}body{{background:{ground}}}</style>"
    page.set_content(style + widget_page(widgets()["stepper"], classes))
    assert contrast(_color(page, ".ks-explained", "borderLeftColor"), ground) >= 3
    assert contrast(_color(page, 'button[aria-pressed="true"]', "borderTopColor"), ground) >= 3
    assert contrast(_color(page, ".ks-stepper text", "fill"), ground) >= 4.5


def test_pictures_and_widgets_are_dark_in_colab(page: Page) -> None:
    """Colab names its theme at the root of each output."""
    page.set_content(
        displays()["topology"].to_svg() + widget_page(widgets()["browser"]),
    )
    page.evaluate("() => document.documentElement.setAttribute('theme', 'dark')")
    assert ("#0d1117", "#e6edf3") == (_color(page, ".ks-ground", "fill"), _color(page, ".ks-graph text", "fill"))
    assert "#0d1117" == _color(page, ".ks-browser", "backgroundColor")


def test_a_picture_fits_on_paper_with_the_classic_template(page: Page) -> None:
    """With nbconvert's own template, the edge of the paper cuts wide pictures; `install.md` says so."""
    output = nbformat.v4.new_output("display_data", {"image/svg+xml": displays()["profile"].to_svg()})
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("profile", outputs=[output])])
    page.set_viewport_size({"width": _A4, "height": 1000})
    page.emulate_media(media="print")
    page.route("http*://**", lambda route: route.abort())
    page.set_content(HTMLExporter(template_name="classic").from_notebook_node(notebook)[0])
    picture = page.locator("img")
    box = picture.bounding_box()
    assert box is not None
    assert box["width"] > _A4 / 2
    assert box["x"] + box["width"] <= _A4
