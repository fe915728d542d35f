"""Draws a topology as HTML: the picture, the reasons for its cuts, and the same facts as text for screen readers."""

from __future__ import annotations

import html

from kstreamnb.display.graph import GraphView
from kstreamnb.display.names import clean
from kstreamnb.display.svg import to_svg
from kstreamnb.display.text import to_text
from kstreamnb.errors import EngineError

__all__ = ["to_html"]


def to_html(view: GraphView, *, direction: str = "TB") -> str:
    """Return a self-contained fragment without script; without a renderer, text replaces the picture."""
    text = f"<pre>{html.escape(to_text(view))}</pre>"
    try:
        picture = to_svg(view, direction=direction)
    except EngineError as error:
        return f'<div class="ks-view"><p>{html.escape(str(error))}</p>{text}</div>'
    sentences = "".join(f"<li>{html.escape(clean(sentence))}</li>" for sentence in view.sentences())
    cuts = f'<ul class="ks-cuts">{sentences}</ul>' if sentences else ""
    summary = html.escape(f"{clean(view.title)} as text: {view.summary()}")
    return (
        f'<div class="ks-view"><div style="overflow-x:auto">{picture}</div>{cuts}'
        f"<details><summary>{summary}</summary>{text}</details></div>"
    )
