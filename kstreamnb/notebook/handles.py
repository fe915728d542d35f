"""What a stream or a table at the end of a cell shows: its part of the graph, what changed, and its first records."""

from __future__ import annotations

from collections.abc import Collection
from html import escape
from typing import Any

from kstreamnb.dsl.declarations import Handle
from kstreamnb.errors import KStreamError
from kstreamnb.preview import upstream_topology
from kstreamnb.topology import DescribedNode, DescribedSubtopology, TopologyDescription
from kstreamnb.view import Overlay, graph_view, mimebundle, to_html, to_text

__all__ = ["HandleDisplay", "without_preview"]

_INTO = "preview"


class HandleDisplay:
    """Shows handles; remembers what was shown last for a variable's declaration, to mark what changed since."""

    def __init__(self) -> None:
        self._shown: dict[Any, TopologyDescription] = {}

    def bundle(
        self, handle: Handle, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """Every form of a handle by its MIME type; never raises, for that would hide the user's own result."""
        try:
            return self._bundle(handle, include, exclude)
        except KStreamError as error:
            text = "\n".join([repr(handle), f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
            return {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}

    def _bundle(
        self, handle: Handle, include: Collection[str] | None, exclude: Collection[str] | None
    ) -> dict[str, str]:
        description = without_preview(upstream_topology(handle, into=_INTO).description(), _INTO)
        identity = handle.declaration.identity
        place = (id(handle.ledger), identity.group, type(handle).__name__)
        before = self._shown.get(place)
        self._shown[place] = description
        view = graph_view(description, _changes(before, description))
        bundle = mimebundle(view, include, exclude)
        title, rows = f"{type(handle).__name__} {handle.declaration.word}", _first_rows(handle)
        gone = sorted(before.nodes().keys() - description.nodes().keys()) if before else []
        notes = [f"gone since the last run: {', '.join(gone)}"] if gone else []
        bundle["text/plain"] = "\n".join([title, to_text(view), *notes, *([rows] if rows else [])])
        if "text/html" in bundle:
            table = f"<pre>{escape(rows)}</pre>" if rows else ""
            said = "".join(f"<p>{escape(note)}</p>" for note in notes)
            bundle["text/html"] = f"<div><b>{escape(title)}</b>{to_html(view)}{said}{table}</div>"
        return bundle


def _first_rows(handle: Handle) -> str:
    """The first records that reach the handle; what fails on them, in words; empty without a sample."""
    if handle.ledger.sample is None:
        return ""
    try:
        return str(handle.head())
    except KStreamError as error:
        return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])


def _changes(before: TopologyDescription | None, after: TopologyDescription) -> Overlay:
    from kstreamnb.view import overlay_of_changes

    return overlay_of_changes(before, after) if before is not None else Overlay()


def without_preview(description: TopologyDescription, into: str) -> TopologyDescription:
    """The description without the sink and the step that only the preview needs."""
    hidden = {name for name in description.nodes() if name in (f"{into}-sink", f"{into}-stream")}
    subs = []
    for sub in description.subtopologies:
        kept = tuple(_cut(node, hidden) for node in sub.nodes if node.name not in hidden)
        if kept:
            subs.append(DescribedSubtopology(sub.id, kept, sub.is_global))
    return TopologyDescription(tuple(subs), description.stores, description.internal_topics, (), description.name)


def _cut(node: DescribedNode, hidden: Collection[str]) -> DescribedNode:
    fields = {name: getattr(node, name) for name in DescribedNode.__dataclass_fields__}
    return DescribedNode(**{**fields, "successors": tuple(name for name in node.successors if name not in hidden)})
