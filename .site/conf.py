"""Sphinx's configuration: Markdown and notebooks as they are in the repository, and a generated reference.

Sphinx calls its handlers with the kind, the full name and the object that a docstring belongs to. They change
``lines``, the docstring's, in place.
"""

import builtins
import inspect
import re
import sys
from dataclasses import is_dataclass
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.inspect import stringify_signature

import kstreamnb

ROOT = Path(kstreamnb.__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / ".site")]

from java_counterparts import java_line

from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.keywords import documented_arguments
from tests.unit.public_names import returned_classes

project = "kstreamnb"
author = "The kstreamnb developers"
copyright = "The kstreamnb developers, Apache-2.0"
release = version = kstreamnb.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
default_role = "code"  # single backticks name things; they are no cross-references
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type", "misc.highlighting_failure"]

toc_object_entries_show_parents = "hide"  # "On this page" lists the methods of a class
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {
    "members": True,
    "inherited-members": "BaseException, Filterer, Handler, dict, list, object, tuple",  # all but Python's own
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
html_search_scorer = str(ROOT / ".site" / "_static" / "scorer.js")
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
# These have no pages below them, and their tables and programs need the room.
_ALONE = "index install teaching concepts patterns differences performance releases architecture decisions changelog"
html_sidebars = {page: [] for page in (*_ALONE.split(), "contributing")}

_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?( ?(%|ms|s|MB))?")
_FACT = re.compile(r"(Shape|Units|Late|Raises|Source): \S")


def join_facts(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Join the indented lines after "Shape: …" and the like to it, which docutils takes for a definition list."""
    joined: list[str] = []
    for line in lines:
        if joined and _FACT.match(joined[-1]) and line.startswith("    "):
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line)
    lines[:] = joined


def add_arguments(app: object, what: str, name: str, thing: type, options: object, lines: list[str]) -> None:
    """Add the section "Args" of the class whose constructor a class inherits, unless its own docstring has one."""
    if what == "class" and not issubclass(thing, Handle) and not documented_arguments(thing.__doc__):
        for base in thing.__mro__[1:]:
            if entries := documented_arguments(base.__doc__):
                # Before attributes: each becomes an entry of its own, and what follows belongs to the last of them.
                first = lines.index("Attributes:") if "Attributes:" in lines else len(lines)
                texts = [f"    {argument}: {text}" for argument, text in entries.items()]
                lines[first:first] = ["", "Args:", *texts, ""]
                return


def hide_constructor(app: object, what: str, name: str, thing: object, *_: object) -> tuple[str, None] | None:
    """Leave out the arguments of streams, tables and results, which no user makes; of results, show the fields."""
    if what != "class" or not isinstance(thing, type):
        return None
    if thing in returned_classes() and (is_dataclass(thing) or issubclass(thing, tuple)):
        made = inspect.signature(thing)
        fields = [field for field in made.parameters.values() if not field.name.startswith("_")]
        return stringify_signature(made.replace(parameters=fields, return_annotation=made.empty)), None
    return ("", None) if thing in returned_classes() or issubclass(thing, Handle) else None


def keep_first_line(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Keep a property's first line, which napoleon would split at a colon into a type and a text."""
    if what == "property":
        lines.insert(0, "")


def mend_names(app: Sphinx, page: nodes.document) -> None:
    """Show results without their modules, and link no builtin type: a field of the same name may be on some page."""
    for reference in list(page.findall(addnodes.pending_xref)):
        if hasattr(builtins, reference["reftarget"]):
            reference.replace_self(reference.children)
    if app.env.docname.startswith("reference/results/"):
        for module in list(page.findall(addnodes.desc_addname)):
            module.parent.remove(module)


def align_numbers(app: object, page: nodes.document) -> None:
    """Align the columns of numbers of a written table right, so that their sizes can be compared."""
    for table in page.findall(nodes.tgroup):
        head, body = (list(table.findall(part)) for part in (nodes.thead, nodes.tbody))
        rows = [list(row.findall(nodes.entry)) for part in body for row in part.findall(nodes.row)]
        titles = [list(row.findall(nodes.entry)) for part in head for row in part.findall(nodes.row)]
        for column, cells in enumerate(zip(*rows, strict=False)):
            if all(_NUMBER.fullmatch(cell.astext()) for cell in cells):
                for cell in (*cells, *(row[column] for row in titles)):
                    cell["classes"].append("text-right")


def name_java(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Add Java's name of a class or a member after its first paragraph, unless its docstring has the name."""
    if line := java_line(name, "\n".join(lines)):
        end = next((number for number, text in enumerate(lines) if not text.strip()), len(lines))
        lines[end:end] = ["", line]
    for number, text in enumerate(lines):  # a name such as from_ would be taken for a reference
        lines[number] = re.sub(r"^:param (\w+)_:", r":param \1\\_:", text)


def list_members_only(app: object, domain: str, kind: str, content: addnodes.desc_content) -> None:
    """Leave classes and functions out of "On this page": each has a heading of its own, under which its methods go.

    Args:
        app: Sphinx.
        domain: the language.
        kind: the kind of the documented object.
        content: its text, below the node with its signature.
    """
    if kind in ("class", "exception", "function"):
        content.parent["no-contents-entry"] = True


def setup(app: Sphinx) -> None:
    """Register the changes; those of docstrings come before or after napoleon's, which comes at 500.

    Args:
        app: Sphinx.
    """
    app.connect("autodoc-process-docstring", join_facts, priority=400)
    app.connect("autodoc-process-docstring", add_arguments, priority=450)
    app.connect("autodoc-process-docstring", keep_first_line, priority=460)
    app.connect("autodoc-process-signature", hide_constructor)
    app.connect("autodoc-process-docstring", name_java, priority=600)
    app.connect("object-description-transform", list_members_only)
    app.connect("doctree-read", mend_names)
    app.connect("doctree-read", align_numbers)
