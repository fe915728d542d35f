"""Data of strangers stay text in every form of every display, and control no terminal."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

import kstreamnb as ks
from kstreamnb.errors import KStreamError
from kstreamnb.masking import clean_lines
from kstreamnb.notebook.tracebacks import error_page, error_text
from kstreamnb.topology.description import TopologyDescription
from tests.displays import displays, widgets
from tests.hostile import ATTACKS, hostile_displays, hostile_widgets

HTML = "text/html"
SVG = "image/svg+xml"


class _Parts(HTMLParser):
    """Collects the tags of a page, and the names of their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.values: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.values += [value or "" for name, value in attrs if name in ("style", "href", "xlink:href")]


@cache
def _hostile() -> dict[str, Any]:
    return {**hostile_displays(), **{name: _Static(each) for name, each in hostile_widgets().items()}}


class _Static:
    """The static form of a widget."""

    def __init__(self, widget: Any) -> None:
        self.widget = widget

    def _repr_mimebundle_(self) -> dict[str, str]:
        forms: dict[str, str] = self.widget.forms()
        return forms


@cache
def _usual() -> _Parts:
    """Return the parts of all displays of harmless data."""
    shown = [*(_forms(each) for each in displays().values()), *(each.forms() for each in widgets().values())]
    return _Parts("".join(forms.get(kind, "") for forms in shown for kind in (HTML, SVG)))


def _forms(thing: Any) -> dict[str, str]:
    bundle: dict[str, str] = thing._repr_mimebundle_() if hasattr(thing, "_repr_mimebundle_") else {}
    return bundle or {
        "text/plain": str(thing),
        **({HTML: thing._repr_html_()} if hasattr(thing, "_repr_html_") else {}),
    }


NAMES = sorted({*displays(), *widgets()} | {"foreign records", "foreign topology", "foreign description"})
NAMES += ["description of foreign records", "foreign driver", "foreign settings", "foreign replay", "foreign answer"]
NAMES += ["statistics of foreign records", "foreign explorer", "foreign browser", "foreign editor"]


def test_every_display_is_shown_with_hostile_data() -> None:
    """A new display is among them."""
    assert sorted(NAMES) == sorted(_hostile())


@pytest.mark.parametrize("name", NAMES)
def test_data_of_strangers_add_no_element_to_a_display(name: str) -> None:
    """Only elements and attributes of displays of harmless data; no address, and SVG is well-formed."""
    forms = _forms(_hostile()[name])
    parts = _Parts("".join(forms.get(kind, "") for kind in (HTML, SVG)))
    assert parts.tags - _usual().tags <= {"span", "bdi"}, "which keep formulas and marks of direction apart"
    assert parts.attributes - _usual().attributes <= {"data-closed"}, "of a window that closes in this run only"
    assert not [value for value in parts.values if re.search(r"javascript:|url\(|evil", value)]
    if SVG in forms:
        ElementTree.fromstring(forms[SVG])


@pytest.mark.parametrize("name", NAMES)
def test_data_of_strangers_control_no_terminal(name: str) -> None:
    """Every form is free of control characters and of marks that reorder or hide text."""
    thing = _hostile()[name]
    texts = [*_forms(thing).values()]
    if not isinstance(thing, _Static | TopologyDescription):  # the text of a description is Java's, byte for byte
        texts += [repr(thing), str(thing)]
    for text in texts:
        assert text == clean_lines(text)


@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
def test_an_error_about_a_record_of_strangers_is_text(text: str) -> None:
    """In a notebook it quotes key and value, and the user's own error, which may quote anything."""

    def failing(value: object) -> object:
        raise ValueError(f"bad {value}")

    builder = ks.StreamsBuilder("failing")
    builder.stream("in").map_values(failing).to("out")
    with pytest.raises(KStreamError) as caught:
        ks.replay(builder.build(), ks.Sample.from_records([("in", 0, 0, 0, text, text)]))
    assert error_text(caught.value) == clean_lines(error_text(caught.value))
    parts = _Parts(error_page(caught.value))
    assert parts.tags <= {"pre", "details", "summary"}
    assert parts.attributes <= {"style"}
