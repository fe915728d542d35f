"""Draws a topology as text: one tree per sub-topology, then the reasons for its cuts."""

from __future__ import annotations

from kstreamnb.core.formatting import clean
from kstreamnb.display.graph import Box, Edge, GraphView, Item


def to_text(view: GraphView) -> str:
    """Return the picture as plain text, without colors and the same on every terminal."""
    lines = [f"{clean(view.title)}: {view.summary()}", *([clean(view.notice)] if view.notice else [])]
    for box in view.boxes:
        lines += ["", box.title, *_Tree(view, box).lines()]
    if view.sentences():
        lines += ["", "Cuts:", *(f"  {clean(sentence)}" for sentence in view.sentences())]
    return "\n".join(lines)


class _Tree:
    """One box, walked from its sources; a node with several parents is drawn in full under the first one."""

    def __init__(self, view: GraphView, box: Box) -> None:
        self.view = view
        self.box = box
        self.items = {item.id: item for item in view.items()}
        self.drawn: set[str] = set()

    def lines(self) -> list[str]:
        if self.box.folded:
            return [f"  {len(self.box.items)} parts, folded"]
        return [line for item in self.box.items if item.kind == "source" for line in self._source(item)]

    def _source(self, item: Item) -> list[str]:
        incoming = [edge for edge in self.view.edges if edge.head == item.id]
        read = (f"{self._shown_topic(edge.tail)}{_times(edge.count)}" for edge in incoming)
        return [f"  {self._line(item)} <- {', '.join(read) or 'nothing'}", *self._below(item.id, "  ")]

    def _below(self, id_: str, indent: str) -> list[str]:
        """Return the lines below a node: a chain goes straight down, several children branch."""
        lines: list[str] = []
        self.drawn.add(id_)
        while True:
            edges = [edge for edge in self.view.edges if edge.tail == id_ and edge.kind == "flow"]
            if len(edges) != 1:
                break
            line, follow = self._child(edges[0])
            lines.append(f"{indent}{'->' if follow is None else '|'}{_times(edges[0].count)} {line}")
            if follow is None or follow in self.drawn:
                return lines
            id_ = follow
            self.drawn.add(id_)
        for number, edge in enumerate(edges):
            last = number == len(edges) - 1
            line, follow = self._child(edge)
            arrow = "─>" if follow is None else "─"
            lines.append(f"{indent}{'└' if last else '├'}{arrow}{_times(edge.count)} {line}")
            if follow is not None and follow not in self.drawn:
                lines += self._below(follow, indent + ("   " if last else "│  "))
        return lines

    def _child(self, edge: Edge) -> tuple[str, str | None]:
        """Return the line of an edge's head, and its id unless it is a topic."""
        item = self.items[edge.head]
        if item.kind in ("topic", "internal topic"):
            return self._shown_topic(item.id), None
        return self._line(item, again=item.id in self.drawn), item.id

    def _line(self, item: Item, *, again: bool = False) -> str:
        if again:
            return f"{_named(item)} (above)"
        stores = [self.items[edge.head] for edge in self.view.edges if edge.tail == item.id and edge.kind == "store"]
        parts = [_named(item)]
        parts += [f"(store {', '.join(clean(store.name) for store in stores)})"] if stores else []
        parts += [f"! {clean(item.note)}"] if item.note else []
        parts += [f"<{clean(item.mark)}>"] if item.mark else []
        return " ".join(parts)

    def _shown_topic(self, id_: str) -> str:
        item = self.items[id_]
        why = f" ({clean(item.word)})" if item.word else ""
        return f"{item.kind} {clean(item.name if item.kind == 'internal topic' else item.label)}{why}"


def _named(item: Item) -> str:
    """Return the label, followed by the full name if that differs."""
    label = f"{item.label}: {item.word}" if item.word and item.kind == "processor" else item.label
    return clean(label if item.label == item.name else f"{label} [{item.name}]")


def _times(count: int | None) -> str:
    return "" if count is None else f" ({count:,})"
