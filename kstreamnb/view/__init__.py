"""Pictures: a frozen model becomes a view-model, and that becomes text, Mermaid, DOT, SVG or HTML.

Pure functions that know no notebook: `mimebundle` gives what a notebook front end asks an object for.
"""

from kstreamnb.view.dot import to_dot
from kstreamnb.view.graph import Box, Edge, GraphView, Item, Overlay, graph_view, overlay_of_changes, upstream_of
from kstreamnb.view.html import to_html
from kstreamnb.view.logical import logical_view
from kstreamnb.view.mermaid import to_mermaid
from kstreamnb.view.mime import forms_of, mimebundle, view_of
from kstreamnb.view.runs import overlay_of_run
from kstreamnb.view.svg import to_svg, warm_up
from kstreamnb.view.text import to_text

__all__ = [
    "Box",
    "Edge",
    "GraphView",
    "Item",
    "Overlay",
    "forms_of",
    "graph_view",
    "logical_view",
    "mimebundle",
    "overlay_of_changes",
    "overlay_of_run",
    "to_dot",
    "to_html",
    "to_mermaid",
    "to_svg",
    "to_text",
    "upstream_of",
    "view_of",
    "warm_up",
]
