"""Sphinx's configuration: Markdown and notebooks as they are in the repository, and a generated reference."""

import re
from typing import Any

import kstreamnb

project = "kstreamnb"
author = "The kstreamnb developers"
copyright = "The kstreamnb developers, Apache-2.0"
release = version = kstreamnb.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
default_role = "code"  # single backticks name things; they are no cross-references
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type", "misc.highlighting_failure"]

toc_object_entries = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {
    "members": True,
    "inherited-members": True,
    "exclude-members": "with_traceback, add_note, args",
}
napoleon_custom_sections = ["Shape", "Units", "Lateness", "Source"]
napoleon_use_rtype = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # saved outputs are the reference; the tests compare them
nb_ipywidgets_js = {}  # saved notebooks show static pictures, and no page asks another machine

html_theme = "pydata_sphinx_theme"
html_title = "kstreamnb"
html_static_path = ["_static"]
html_css_files = ["kstreamnb.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 5,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}

_FACT = re.compile(r"(Shape|Units|Late|Source): \S")


def join_facts(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Join the indented lines after "Shape: …" and the like to it, which docutils takes for a definition list.

    Args:
        app: Sphinx.
        what: the kind of the documented object.
        name: its full name.
        thing: the object.
        options: those of the directive.
        lines: the docstring, which is changed in place.
    """
    joined: list[str] = []
    for line in lines:
        if joined and _FACT.match(joined[-1]) and line.startswith("    "):
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line)
    lines[:] = joined


def setup(app: Any) -> None:
    """Register the change before napoleon's, which comes at 500.

    Args:
        app: Sphinx.
    """
    app.connect("autodoc-process-docstring", join_facts, priority=400)
