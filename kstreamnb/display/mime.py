"""Builds the MIME bundle that a notebook displays for a model: text, SVG and HTML.

Other packages register their types with ``picture_of.register`` and ``data_of.register``. A display never raises and
never runs user code: a value that cannot be drawn is shown as text, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import singledispatch

from kstreamnb.core.displayed import Displayed, MimeTypes
from kstreamnb.display.dot import to_dot
from kstreamnb.display.mermaid import to_mermaid
from kstreamnb.display.picture import GraphPicture, picture_forms, to_html
from kstreamnb.display.style import preformatted
from kstreamnb.display.svg import to_svg
from kstreamnb.display.text import to_text
from kstreamnb.errors import EngineError
from kstreamnb.topology.description import TopologyDescription
from kstreamnb.topology.topology import Topology


@singledispatch
def picture_of(model: object) -> GraphPicture | None:
    """Return what the picture of a model is drawn from; None for a model without a picture."""
    return None


picture_of.register(GraphPicture, lambda picture: picture)
picture_of.register(TopologyDescription, GraphPicture)
picture_of.register(Topology, GraphPicture.of)


@singledispatch
def pictures_of(model: object) -> tuple[GraphPicture, ...]:
    """Return all pictures of a model, in the order in which they are shown."""
    picture = picture_of(model)
    return () if picture is None else (picture,)


@singledispatch
def data_of(model: object) -> dict[str, str] | None:
    """Return text and HTML of what a model holds besides its picture; None for a plain picture."""
    if isinstance(model, Displayed) and picture_of.dispatch(type(model)) is picture_of.dispatch(object):
        text = str(model)
        return {"text/plain": text, "text/html": preformatted(text)}
    return None


@singledispatch
def drawing_of(model: object) -> str:
    """Return the SVG that belongs to the data of a model and shows no graph; empty without one."""
    return ""


def mimebundle(model: object, include: MimeTypes = None, exclude: MimeTypes = None) -> dict[str, str]:
    """Return every form of a model by its MIME type; ``include`` and ``exclude`` are IPython's."""
    try:
        bundle = joined(data_of(model), pictures_of(model), drawing_of(model))
        if not bundle:
            raise EngineError(f'type "{type(model).__name__}" has no picture')
    except Exception as error:  # a display that raises would hide the user's own result
        warnings.warn(f"cannot draw this {type(model).__name__}: {error}", stacklevel=2)
        return {"text/plain": repr(model)}
    return wanted(bundle, include, exclude)


def joined(data: dict[str, str] | None, pictures: Sequence[GraphPicture], drawing: str = "") -> dict[str, str]:
    """Return the forms of data and pictures as one bundle, data first; a drawing comes before its data."""
    if data is not None and drawing:
        return {**data, "text/html": f"<div>{drawing}{data['text/html']}</div>"}
    if data is None or not pictures:
        return data or (picture_forms(pictures[0]) if pictures else {})
    text = data["text/plain"]
    trees = (to_text(each.nodes(with_notice=each.notice not in text)) for each in pictures)
    page = "".join([data["text/html"], *map(to_html, pictures)])
    return {"text/plain": "\n\n".join([text, *trees]), "text/html": f"<div>{page}</div>"}


def wanted(bundle: dict[str, str], include: MimeTypes = None, exclude: MimeTypes = None) -> dict[str, str]:
    """Return the forms that IPython asks for; text always."""
    names = {name for name in bundle if (not include or name in include) and name not in (exclude or ())}
    return {name: text for name, text in bundle.items() if name in names or name == "text/plain"}


def draw(model: object, form: str) -> str:
    """Return the picture of a model in one form: ``to_text``, ``to_mermaid``, ``to_dot`` or ``to_svg``.

    Raises: EngineError when the model has no picture.
    """
    picture = picture_of(model)
    if picture is not None:
        return _FORMS[form](picture.nodes())
    text = (data_of(model) or {}).get({"to_text": "text/plain", "to_svg": "image/svg+xml"}.get(form, ""))
    if text is None:
        raise EngineError(f'type "{type(model).__name__}" has no picture')
    return text


_FORMS = {"to_text": to_text, "to_mermaid": to_mermaid, "to_dot": to_dot, "to_svg": to_svg}
