"""The model that a picture of a graph is drawn from, and its forms for a front end.

Pictures show operators, from left to right; their text shows every node with its full name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kstreamnb.core.formatting import clean
from kstreamnb.core.tables import escaped
from kstreamnb.display.graph import GraphView, Overlay, graph_view
from kstreamnb.display.logical import logical_view
from kstreamnb.display.style import preformatted
from kstreamnb.display.svg import to_svg
from kstreamnb.display.text import to_text
from kstreamnb.errors import EngineError
from kstreamnb.topology.description import TopologyDescription
from kstreamnb.topology.topology import Topology


@dataclass(frozen=True)
class GraphPicture:
    """A topology with the figures and marks that are drawn onto it."""

    description: TopologyDescription
    overlay: Overlay = field(default_factory=Overlay)
    notice: str = ""

    @classmethod
    def of(cls, topology: Topology, overlay: Overlay | None = None) -> GraphPicture:
        """Return the picture of a topology, with a notice if it is stale or writes nothing."""
        notice = f"stale: {topology.stale}" if topology.stale else topology.nodes and topology.unwritten
        return cls(topology.description(), overlay or Overlay(), notice or "")

    def nodes(self, *, with_notice: bool = True) -> GraphView:
        """Return the view of Kafka's nodes in their sub-topologies."""
        return replace(graph_view(self.description, self.overlay), notice=self.notice if with_notice else "")

    def operators(self) -> GraphView:
        """Return the view of the operators of the DSL."""
        return replace(logical_view(self.description, self.overlay), notice=self.notice)


def picture_forms(picture: GraphPicture) -> dict[str, str]:
    """Return a picture by MIME type: text and SVG, which viewers show that remove or escape HTML."""
    text = to_text(picture.nodes())
    try:
        return {"text/plain": text, "image/svg+xml": to_svg(picture.operators())}
    except EngineError as error:
        return {"text/plain": text, "text/html": _without_renderer(error, text)}


def to_html(picture: GraphPicture) -> str:
    """Return a self-contained fragment without script: the picture, the reasons for its cuts, and the text."""
    view = picture.nodes()
    text = to_text(view)
    try:
        drawn = to_svg(picture.operators())
    except EngineError as error:
        return _without_renderer(error, text)
    sentences = "".join(f"<li>{escaped(clean(sentence))}</li>" for sentence in view.sentences())
    cuts = f'<ul class="ks-cuts">{sentences}</ul>' if sentences else ""
    summary = escaped(f"{clean(view.title)} as text: {view.summary()}")
    return (
        f'<div class="ks-view"><div style="overflow-x:auto">{drawn}</div>{cuts}'
        f"<details><summary>{summary}</summary>{preformatted(text)}</details></div>"
    )


def _without_renderer(error: EngineError, text: str) -> str:
    return f'<div class="ks-view"><p>{escaped(str(error))}</p>{preformatted(text)}</div>'
