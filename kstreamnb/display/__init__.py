"""Pictures: a frozen model becomes a view-model, and that becomes text, Mermaid, DOT, SVG or HTML.

Pure functions independent of notebooks: `mimebundle` returns what a notebook front end requests from an object.
"""

from kstreamnb.display.charts import to_charts_svg
from kstreamnb.display.dot import to_dot
from kstreamnb.display.graph import Box, Edge, GraphView, Item, Overlay, graph_view, overlay_of_changes, upstream_of
from kstreamnb.display.logical import logical_view
from kstreamnb.display.mermaid import to_mermaid
from kstreamnb.display.mime import data_of, draw, drawing_of, joined, mimebundle, picture_of, wanted
from kstreamnb.display.offset_picture import to_offset_svg
from kstreamnb.display.picture import GraphPicture, picture_forms, to_html
from kstreamnb.display.runs import heat_of, overlay_of_profile, overlay_of_run
from kstreamnb.display.svg import to_svg, warm_up
from kstreamnb.display.text import to_text

__all__ = [
    "Box",
    "Edge",
    "GraphView",
    "Item",
    "Overlay",
    "GraphPicture",
    "data_of",
    "draw",
    "drawing_of",
    "graph_view",
    "heat_of",
    "joined",
    "logical_view",
    "mimebundle",
    "overlay_of_changes",
    "overlay_of_profile",
    "overlay_of_run",
    "picture_forms",
    "picture_of",
    "to_charts_svg",
    "to_dot",
    "to_html",
    "to_mermaid",
    "to_offset_svg",
    "to_svg",
    "to_text",
    "upstream_of",
    "wanted",
    "warm_up",
]
