"""Collects the shapes and texts of a picture as SVG."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from kstreamnb.core.formatting import clean
from kstreamnb.core.tables import isolated
from kstreamnb.display.style import PLAIN, css, painted


class Canvas:
    """Shapes and texts in the order in which they are painted.

    Example:
        >>> canvas = Canvas()
        >>> canvas.add("circle", "a <record>", kind="ks-dot", cx=5, cy=5, r=3)
        >>> canvas.parts[0]
        '<circle class="ks-dot" cx="5" cy="5" r="3"><title>a &lt;record&gt;</title></circle>'
    """

    style = ' style="max-width:100%"'

    def __init__(self) -> None:
        self.parts: list[str] = []

    def add(self, tag: str, about: str = "", step: int | None = None, **attributes: object) -> None:
        """Add a shape with its tooltip and the step in which it appears; ``kind`` is its class."""
        at = "" if step is None else f' data-step="{step}"'
        body = f"><title>{escape(isolated(clean(about)))}</title></{tag}>" if about else "/>"
        self.parts.append(f"<{tag}{_attributes(attributes)}{at}{body}")

    def text(self, x: float, y: float, text: str, **attributes: object) -> None:
        """Add a text; an underscore in the name of an attribute is a hyphen."""
        self.parts.append(f'<text x="{x:g}" y="{y:g}"{_attributes(attributes)}>{escape(isolated(clean(text)))}</text>')

    def framed(self, kind: str, title: str, words: str, width: int, height: int) -> str:
        """Return the picture as an SVG element with a title, a description in words and the style of its kind."""
        title, shapes = escape(clean(title)), painted("".join(self.parts), kind)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="ks-graph ks-{kind}" role="img" aria-label="{title}" '
            f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"{self.style} {PLAIN}>'
            f"<title>{title}</title><desc>{escape(clean(words))}</desc><style>{css(kind)}</style>"
            f'<rect class="ks-ground" width="100%" height="100%" fill="#ffffff"/>{shapes}</svg>'
        )


def fitted(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters, both ends of a longer one: names often differ at the end.

    Example:
        >>> fitted("registrations-of-the-subsidiary-0", 17)
        'registra…idiary-0'
    """
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def _attributes(given: Mapping[str, object]) -> str:
    names = ("class" if name == "kind" else name.replace("_", "-") for name in given)
    return "".join(f' {name}="{value}"' for name, value in zip(names, given.values(), strict=True))
