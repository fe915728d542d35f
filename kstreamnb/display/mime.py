"""What a notebook shows for an object: one bundle with text, HTML, SVG and Mermaid.

Other packages teach it their types with ``view_of.register``: a function from the object to a `GraphView`. A display
never raises and never runs anything: what cannot be drawn is warned about and shown as text.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from contextlib import suppress
from functools import singledispatch
from html import escape
from typing import Any

from kstreamnb.core.displayed import Displayed
from kstreamnb.display.dot import to_dot
from kstreamnb.display.graph import GraphView, Overlay, graph_view
from kstreamnb.display.html import to_html
from kstreamnb.display.mermaid import to_mermaid
from kstreamnb.display.svg import to_svg
from kstreamnb.display.text import to_text
from kstreamnb.errors import EngineError
from kstreamnb.topology.description import TopologyDescription
from kstreamnb.topology.topology import Topology

__all__ = ["draw", "forms_of", "graph_forms", "mimebundle", "view_of"]


@singledispatch
def view_of(thing: Any, overlay: Overlay | None = None) -> GraphView:
    """The picture of a thing.

    Raises: EngineError when nothing says how to draw its type.
    """
    raise EngineError(f"a {type(thing).__name__} has no picture")


@view_of.register
def _(thing: GraphView, overlay: Overlay | None = None) -> GraphView:
    return thing


@view_of.register
def _(thing: TopologyDescription, overlay: Overlay | None = None) -> GraphView:
    return graph_view(thing, overlay)


@view_of.register
def _(thing: Topology, overlay: Overlay | None = None) -> GraphView:
    return graph_view(thing.description(), overlay)


@singledispatch
def forms_of(thing: Any) -> dict[str, str] | None:
    """All forms of a thing that is more, or other, than a picture of a graph; None for a picture."""
    if isinstance(thing, Displayed) and view_of.dispatch(type(thing)) is view_of.dispatch(object):
        text = str(thing)
        return {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}
    return None


def graph_forms(view: GraphView) -> dict[str, str]:
    """A picture in every form."""
    bundle = {"text/plain": to_text(view), "text/html": to_html(view), "text/vnd.mermaid": to_mermaid(view)}
    with suppress(EngineError):  # the HTML says so already
        bundle["image/svg+xml"] = to_svg(view)
    return bundle


def mimebundle(
    thing: Any, include: Collection[str] | None = None, exclude: Collection[str] | None = None
) -> dict[str, str]:
    """Every form of a picture by its MIME type; ``include`` and ``exclude`` are what IPython asks for."""
    try:
        bundle = forms_of(thing) or graph_forms(view_of(thing))
    except Exception as error:  # a display that raises would hide the user's own result
        warnings.warn(f"cannot draw this {type(thing).__name__}: {error}", stacklevel=2)
        return {"text/plain": repr(thing)}
    wanted = {name for name in bundle if (not include or name in include) and name not in (exclude or ())}
    return {name: text for name, text in bundle.items() if name in wanted or name == "text/plain"}


def draw(thing: Any, form: str) -> str:
    """Return the picture of a thing in one form: ``to_text``, ``to_mermaid``, ``to_dot`` or ``to_svg``."""
    return _FORMS[form](view_of(thing))


_FORMS = {"to_text": to_text, "to_mermaid": to_mermaid, "to_dot": to_dot, "to_svg": to_svg}
