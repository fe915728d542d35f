"""Builds the MIME bundle a notebook displays for a model: text, HTML, SVG and Mermaid.

Other packages register their types with ``view_of.register``: a function from the object to a `GraphView`. A display
never raises and never runs user code: a value that cannot be drawn is shown as text, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from contextlib import suppress
from functools import singledispatch
from html import escape

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
def view_of(model: object, overlay: Overlay | None = None) -> GraphView:
    """Return the picture of a model.

    Raises: EngineError when no function is registered for its type.
    """
    raise EngineError(f"a {type(model).__name__} has no picture")


@view_of.register
def _(model: GraphView, overlay: Overlay | None = None) -> GraphView:
    return model


@view_of.register
def _(model: TopologyDescription, overlay: Overlay | None = None) -> GraphView:
    return graph_view(model, overlay)


@view_of.register
def _(model: Topology, overlay: Overlay | None = None) -> GraphView:
    return graph_view(model.description(), overlay)


@singledispatch
def forms_of(model: object) -> dict[str, str] | None:
    """Return all forms of a value that is not only a graph; None for a plain picture."""
    if isinstance(model, Displayed) and view_of.dispatch(type(model)) is view_of.dispatch(object):
        text = str(model)
        return {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}
    return None


def graph_forms(view: GraphView) -> dict[str, str]:
    """Return a picture in every form, by MIME type."""
    bundle = {"text/plain": to_text(view), "text/html": to_html(view), "text/vnd.mermaid": to_mermaid(view)}
    with suppress(EngineError):  # the HTML already carries the message
        bundle["image/svg+xml"] = to_svg(view)
    return bundle


def mimebundle(
    model: object, include: Collection[str] | None = None, exclude: Collection[str] | None = None
) -> dict[str, str]:
    """Return every form of a model by its MIME type; ``include`` and ``exclude`` are IPython's."""
    try:
        bundle = forms_of(model) or graph_forms(view_of(model))
    except Exception as error:  # a display that raises would hide the user's own result
        warnings.warn(f"cannot draw this {type(model).__name__}: {error}", stacklevel=2)
        return {"text/plain": repr(model)}
    wanted = {name for name in bundle if (not include or name in include) and name not in (exclude or ())}
    return {name: text for name, text in bundle.items() if name in wanted or name == "text/plain"}


def draw(model: object, form: str) -> str:
    """Return the picture of a model in one form: ``to_text``, ``to_mermaid``, ``to_dot`` or ``to_svg``."""
    return _FORMS[form](view_of(model))


_FORMS = {"to_text": to_text, "to_mermaid": to_mermaid, "to_dot": to_dot, "to_svg": to_svg}
