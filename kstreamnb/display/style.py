"""The style sheet and legend of pictures: one look in light and dark, in JupyterLab, VS Code and elsewhere.

Background and text colors come from the page's variables (JupyterLab's, then VS Code's), otherwise from the reader's
light or dark preference. Kinds differ by shape, label and translucent tint, so text keeps the contrast of the page.
"""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache

from kstreamnb.data_files import text_of

PLAIN = 'fill="#1f2328" font-family="Helvetica,Arial,sans-serif" font-size="10"'
"""Attributes of a whole picture, from which texts inherit if a viewer removes the style sheet."""
_PRE = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;font-family:var(--jp-code-font-family,monospace)"
_RULE, _CLASS = re.compile(r"([^{}]+){([^{}]+)}"), re.compile(r"\.(ks-[\w-]+)(?:>\w+|>:is\(.*?\))?(?:,|$)")
_PROPERTY, _CLASSES = re.compile(r"([\w-]+):([^;]+)"), re.compile(r'class="([^"]+)"')


def preformatted(text: str) -> str:
    """Return text as HTML that keeps its columns: JupyterLab breaks words, and exported pages have another font."""
    return f'<pre style="{_PRE}">{html.escape(text)}</pre>'


@cache
def css(*kinds: str) -> str:
    """Return the style of a picture: that of every picture, and that of its kinds, such as "graph" and "heat"."""
    return "".join(text_of(__package__, f"{kind}.css") for kind in ("page", *kinds)).rstrip()


@cache
def _paint(*kinds: str) -> dict[str, list[tuple[str, str]]]:
    """Return the properties of each class of some kinds of pictures, in light colors."""
    paint = defaultdict[str, list[tuple[str, str]]](list)
    sheet = css(*kinds).replace("\n", "").replace("var(--ks-ground)", "#ffffff").replace("var(--ks-ink)", "#1f2328")
    for selectors, body in _RULE.findall(sheet):
        for name in _CLASS.findall(selectors):
            paint[name] += _PROPERTY.findall(body)
    return paint


def painted(shapes: str, *kinds: str) -> str:
    """Return SVG elements with the style of their classes also as attributes, for viewers that remove style sheets.

    If a viewer keeps the style sheet, it overrides them.

    Args:
        shapes: the elements, without attributes that the style of their classes sets.
        kinds: the kinds of picture, such as "charts".
    """

    def with_paint(classes: re.Match[str]) -> str:
        rules = dict(rule for each in classes[1].split() for rule in _paint(*kinds).get(each, ()))
        return classes[0] + "".join(f' {name}="{value}"' for name, value in rules.items())

    return _CLASSES.sub(with_paint, shapes)


_PILL = '<path d="M5,1H13A5,5 0 0 1 18,6V8A5,5 0 0 1 13,13H5A5,5 0 0 1 0,8V6A5,5 0 0 1 5,1Z"/>'
_BOX = '<polygon points="0,1 18,1 18,13 0,13"/>'
_CYLINDER = '<path d="M0,3V11C0,14 18,14 18,11V3"/><path d="M0,3C0,0 18,0 18,3C18,6 0,6 0,3Z"/>'
_SHAPES = {
    "operator": f'<g class="ks-processor">{_BOX}</g>',
    "topic": f'<g class="ks-topic">{_PILL}</g>',
    "internal topic": f'<g class="ks-topic ks-internal">{_PILL}</g>',
    "store": f'<g class="ks-store">{_CYLINDER}</g>',
    "sub-topology": f'<g class="ks-box">{_BOX}</g>',
    "the darker, the greater its share": f'<g class="ks-heat-4">{_BOX}</g>',
}
_LETTER, _GAP, _SHAPE = 4.9, 16, 24


def legend(kinds: Sequence[str]) -> tuple[str, float]:
    """Return one line of shapes and labels as SVG elements starting at 0, and its width in pixels."""
    parts, x = [], 0.0
    for kind in kinds:
        text = f'<text x="{_SHAPE}" y="11" font-size="10">{html.escape(kind)}</text>'
        parts.append(f'<g transform="translate({x:g} 0)">{painted(_SHAPES[kind], "graph", "heat")}{text}</g>')
        x += round(_SHAPE + _LETTER * len(kind) + _GAP, 1)
    return "".join(parts), x
