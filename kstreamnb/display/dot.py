"""Draws a topology in DOT, the language of Graphviz; colors are left to the style sheet of the SVG."""

from __future__ import annotations

import re
from collections import Counter
from typing import cast

import graphviz

from kstreamnb.core.formatting import clean
from kstreamnb.display.graph import Box, GraphView, Item
from kstreamnb.display.titles import pad_title

_FONT = "Helvetica"
_SHAPES = {
    "topic": {"shape": "box", "style": "rounded"},
    "internal topic": {"shape": "box", "style": "rounded,dashed"},
    "store": {"shape": "cylinder"},
}
_EDGES = {"flow": "ks-flow", "store": "ks-use"}
_LINE = 26
_FAN = 6  # edges at one node beyond which ranks are drawn further apart


def to_dot(view: GraphView, *, direction: str = "TB") -> str:
    """Return the picture as DOT text; ``direction`` is TB (top to bottom) or LR (left to right)."""
    graph = graphviz.Digraph("topology")
    apart = "0.35" if _widest(view) <= _FAN else "0.7"
    beside = "0.45" if direction == "TB" else "0.25"
    graph.attr(rankdir=direction, bgcolor="transparent", fontname=_FONT, fontsize="11", nodesep=beside, ranksep=apart)
    graph.attr("node", fontname=_FONT, fontsize="12", margin="0.14,0.07", height="0.3")
    graph.attr("edge", fontname=_FONT, fontsize="10", arrowsize="0.7")
    for box in view.boxes:
        _add_box(graph, box)
    for item in view.topics:
        _add_item(graph, item)
    for edge in view.edges:
        count = "" if edge.count is None else f" {edge.count:,} "
        style = {"style": "dashed", "dir": "none"} if edge.kind == "store" else {}
        id_ = view.edge_ids[edge.tail, edge.head]
        graph.edge(edge.tail, edge.head, label=count, id=id_, **{"class": _EDGES[edge.kind]}, **style)
    if direction == "LR":
        for user, store in _next_to_their_user(view):
            with graph.subgraph() as column:
                column.attr(rank="same")
                column.node(user)
                column.node(store)
    return str(graph.source)


def _next_to_their_user(view: GraphView) -> list[tuple[str, str]]:
    """Return stores that only one shape uses, with it, unless one of them is in an open box."""
    boxed = {item.id for box in view.boxes if not box.folded for item in box.items}
    uses = [(edge.tail, edge.head) for edge in view.edges if edge.kind == "store"]
    users = Counter(store for _, store in uses)
    return [pair for pair in uses if users[pair[1]] == 1 and not {*pair} & boxed]


def _widest(view: GraphView) -> int:
    """Return the largest number of edges that leave or enter one shape."""
    degrees = Counter([*((edge.tail, "out") for edge in view.edges), *((edge.head, "in") for edge in view.edges)])
    return max(degrees.values(), default=0)


def _add_box(graph: graphviz.Digraph, box: Box) -> None:
    if box.folded:
        kind = "ks-processor" if box.kind == "operator" else "ks-box"
        _add_shape(graph, box, kind, f"{len(box.items)} parts", shape="box", peripheries="2")
        return
    with graph.subgraph(name=f"cluster_{box.id}") as inside:
        kind = "ks-box ks-global" if box.is_global else "ks-box"
        style = {"labeljust": "l", "style": "rounded", "margin": "10", "class": kind}
        inside.attr(label=_label(pad_title(box.title)), id=box.id, **style)
        for item in box.items:
            _add_item(inside, item)


def _add_item(graph: graphviz.Digraph, item: Item) -> None:
    kind = "ks-topic ks-internal" if item.kind == "internal topic" else f"ks-{item.kind}"
    _add_shape(graph, item, kind, item.word, **_SHAPES.get(item.kind, {"shape": "box"}))


def _add_shape(graph: graphviz.Digraph, thing: Item | Box, kind: str, word: str | None, **style: str) -> None:
    """Add a node with its label, and with its kind, mark and cost as classes of the style sheet."""
    classes = [kind, *([f"ks-{thing.mark}"] if thing.mark else []), *([f"ks-heat-{thing.heat}"] if thing.heat else [])]
    small = [line for text in (word, thing.note, thing.mark) if text for line in _wrapped(text, 32)]
    label = _label([*large_lines(thing), *small])
    graph.node(thing.id, label, id=thing.id, **{"class": " ".join(classes)}, **style)


def large_lines(shape: Item | Box) -> list[str]:
    """Return the label of a shape, or the title of a folded box, broken into lines."""
    return _wrapped(shape.label if isinstance(shape, Item) else shape.title)


def _label(lines: list[str]) -> str:
    """Return a label of several lines; the user's text is never read as an escape or as HTML."""
    return cast(str, graphviz.nohtml("\\n".join(str(graphviz.escape(line)) for line in lines)))


def _pieces(word: str, width: int) -> list[str]:
    return [word] if len(word.rstrip()) <= width else re.findall(r"[^._/-]*[._/-]\s?|[^._/-]+", word)


def _wrapped(text: str, width: int = _LINE) -> list[str]:
    """Break text into lines of about ``width`` characters after spaces, and in longer words after dots and dashes."""
    lines = [""]
    for piece in (piece for word in re.findall(r"\S+\s?|\s", clean(text)) for piece in _pieces(word, width)):
        while len(piece) > width:
            lines += [piece[:width], ""]
            piece = piece[width:]
        if len(lines[-1]) + len(piece.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += piece
    return [line for line in lines if line.strip()] or [" "]
