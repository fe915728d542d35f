"""The base class of widgets with a graph, and facts about it: picture, order of the flow, details of each shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import traitlets

from kstreamnb.core.formatting import clean, pluralize
from kstreamnb.display.graph import Box, GraphView, Item, Overlay
from kstreamnb.display.mime import picture_of
from kstreamnb.display.svg import to_svg
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.declarations import Handle
from kstreamnb.errors import EngineError
from kstreamnb.notebook.widgets.base import FactsWidget
from kstreamnb.tools.preview import upstream_part
from kstreamnb.topology.description import TopologyDescription


class GraphWidget(FactsWidget):
    """A widget with a graph.

    Attributes:
        selected: the name of the node, store, topic or box clicked last; empty before.
        view: "logical", the operators of the DSL, or "physical", Kafka's nodes in their sub-topologies. The page
            remembers the last choice.
    """

    selected = traitlets.Unicode("").tag(sync=True)
    view = traitlets.Enum(("logical", "physical"), "logical").tag(sync=True)

    def select(self, name: str) -> None:
        """Record what was clicked."""
        self.selected = name


def described(thing: object) -> tuple[TopologyDescription, Overlay]:
    """Return the description of anything with a graph, and the figures of a run."""
    if isinstance(thing, StreamsBuilder):
        return thing.build().description(), Overlay()
    if isinstance(thing, Handle):
        return upstream_part(thing).description(), Overlay()
    drawn = picture_of(thing)
    if drawn is not None:
        return drawn.description, drawn.overlay
    fact = f"expected something with a graph, got {type(thing).__name__}"
    raise EngineError(fact, hint="pass a topology, a builder, a stream, a table, a replay or a query")


def picture(view: GraphView) -> str:
    """Return the picture as SVG; empty without a renderer, because the lists beside it say the same."""
    try:
        return to_svg(view)
    except EngineError:
        return ""


def flow_order(view: GraphView) -> list[str]:
    """Return the ids of all visible shapes in the order in which records pass; stores after their users."""
    left = dict.fromkeys(_seen(view), 0)
    below: dict[str, list[str]] = {id_: [] for id_ in left}
    for edge in view.edges:
        left[edge.head] += 1
        below[edge.tail].append(edge.head)
    order: list[str] = []
    while left:
        id_ = next((id_ for id_, above in left.items() if above <= 0), next(iter(left)))
        order.append(id_)
        del left[id_]
        for child in below[id_]:
            if child in left:  # false in a loop through a topic, in which one node has to be first
                left[child] -= 1
    return order


def things(view: GraphView, description: TopologyDescription) -> dict[str, dict[str, object]]:
    """Return the details of every visible shape, by id."""
    details: dict[str, dict[str, object]] = {}
    for box in view.boxes:
        if box.folded or box.kind == "operator":
            details[box.id] = _about_box(view, box, description)
        if not box.folded:
            for item in box.items:
                details[item.id] = _about(view, item, description, box)
    for item in view.topics:
        details[item.id] = _about(view, item, description, None)
    return details


def _seen(view: GraphView) -> list[str]:
    inside = [[box.id] if box.folded else [item.id for item in box.items] for box in view.boxes]
    return [*(id_ for ids in inside for id_ in ids), *(item.id for item in view.topics)]


def _about(view: GraphView, item: Item, description: TopologyDescription, box: Box | None) -> dict[str, object]:
    node = description.nodes().get(item.name) if item.kind in ("source", "processor", "sink") else None
    line, _, code = (node.origin or "").partition(": ") if node is not None else ("", "", "")
    rows: list[tuple[str, str | None]] = [("name", item.name), ("kind", item.kind)]
    if node is not None:
        home = next(sub for sub in description.subtopologies if node in sub.nodes)
        rows += [("operator", node.dsl), ("sub-topology", str(home.id)), ("declared in", line)]
        rows += [("topics", ", ".join(node.topics)), ("topic", node.topic), ("stores", ", ".join(node.stores))]
        rows += _serdes(node.kind, node.settings)
    else:
        rows += [(name, text) for name, _, text in (line.partition(": ") for line in item.about)]
    word = item.word or item.kind
    says = [item.label, word if word != item.label else "", box.title if box is not None else ""]
    return {**_details(view, item, rows, code, says), "word": clean(item.word or ""), "box": box.id if box else ""}


def _about_box(view: GraphView, box: Box, description: TopologyDescription) -> dict[str, object]:
    nodes = description.nodes()
    origins = dict.fromkeys(nodes[item.name].origin for item in box.items if item.name in nodes)
    origin = next((origin for origin in origins if origin), "") if box.kind == "operator" else ""
    line, _, code = origin.partition(": ")
    names, parts = ", ".join(clean(item.name) for item in box.items), f"{len(box.items)} parts"
    rows = [("kind", box.kind), ("parts", names), ("declared in", line), ("why", box.reason)]
    return {**_details(view, box, rows, code, [box.title, f"{parts}, folded"]), "word": parts, "box": box.id}


def _details(
    view: GraphView, shape: Item | Box, rows: Sequence[tuple[str, str | None]], code: str, says: list[str]
) -> dict[str, object]:
    """Return the details of any shape; ``says`` begins with its label, and is what a screen reader says."""
    counts, notes = _counts(view, shape.id), [text for text in (shape.note, shape.mark) if text]
    rows = [*rows, *(("note", text) for text in notes), *counts]
    return {
        "label": clean(says[0]),
        "kind": shape.kind,
        "rows": [[name, clean(text)] for name, text in rows if text],
        "code": clean(code),
        "says": clean(", ".join(filter(None, [*says, *notes, *(f"{text} {name}" for name, text in counts)]))),
        "mark": shape.mark or "",
    }


def _serdes(kind: str, settings: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """Return a node's settings; at topics also the default serdes."""
    chosen: Mapping[str, str] = dict(settings)
    default = {"key_serde": "the application's", "value_serde": "the application's"} if kind != "processor" else {}
    return [(name.replace("_", " "), text) for name, text in {**default, **chosen}.items() if name != "operator"]


def _counts(view: GraphView, id_: str) -> list[tuple[str, str]]:
    names = {item.id: item.label for item in view.items()} | {box.id: box.title for box in view.boxes}
    into = [(names[edge.tail], edge.count) for edge in view.edges if edge.head == id_ and edge.count is not None]
    out = [(names[edge.head], edge.count) for edge in view.edges if edge.tail == id_ and edge.count is not None]
    rows = [(f"from {name}", pluralize(count, "record")) for name, count in into]
    return rows + [(f"to {name}", pluralize(count, "record")) for name, count in out]
