"""Display of a stream or table: its part of the graph, what changed since the last run, and its first records."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from html import escape

from kstreamnb.display import Overlay, graph_view, mimebundle, overlay_of_changes, to_html, to_text
from kstreamnb.dsl.declarations import Declaration, Handle
from kstreamnb.errors import KStreamError
from kstreamnb.hints import message_of
from kstreamnb.notebook.cells import Cells
from kstreamnb.notebook.functions import functions_of, same_functions
from kstreamnb.tools.preview import upstream_topology
from kstreamnb.topology.description import DescribedNode, DescribedSubtopology, TopologyDescription
from kstreamnb.topology.topology import Topology

__all__ = ["HandleDisplay", "declared_in", "error_text", "error_words", "without_preview"]

_INTO = "preview"


@dataclass(frozen=True)
class _Shown:
    """A displayed part of the graph, and the functions of its nodes."""

    description: TopologyDescription
    functions: Mapping[str, tuple[object, ...]]


@dataclass(frozen=True)
class _Rows:
    """The first records that reach a handle, or the error that prevents them; empty without a sample."""

    text: str = ""
    html: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)


class HandleDisplay:
    """Displays handles, and marks what changed since each cell's previous run."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._shown: dict[Hashable, _Shown] = {}
        self._run, self._count = 0, 0

    def bundle(
        self, handle: Handle, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return every form of a handle by its MIME type; never raises, which would hide the user's result."""
        try:
            return self._bundle(handle, include, exclude)
        except KStreamError as error:
            text = f"{handle!r}\n{error_text(error)}"
            return {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}

    def _bundle(
        self, handle: Handle, include: Collection[str] | None, exclude: Collection[str] | None
    ) -> dict[str, str]:
        topology = upstream_topology(handle, into=_INTO)
        nodes, outdated = declared_in(topology, handle.declaration_log.declarations()), handle.declaration_log.outdated
        functions = {name: functions_of(declaration) for name, declaration in nodes.items()}
        now = _Shown(without_preview(topology.description(), _INTO), functions)
        before = self._before(now)
        rows = _first_rows(handle)
        old = [name for name in now.description.nodes() if nodes.get(name) in outdated]
        marks = {**_changes(before, now), **dict.fromkeys(old, "stale"), **rows.marks}
        view = graph_view(now.description, Overlay(marks=marks))
        bundle = mimebundle(view, include, exclude)
        title = f"{type(handle).__name__} {handle.declaration.word}"
        notes = [*_gone(before, now), *dict.fromkeys(outdated[nodes[name]] for name in old), *_orphans(handle)]
        bundle["text/plain"] = "\n".join([title, to_text(view), *notes, *([rows.text] if rows.text else [])])
        if "text/html" in bundle:
            paragraphs = "".join(f"<p>{escape(note)}</p>" for note in notes)
            bundle["text/html"] = f"<div><b>{escape(title)}</b>{to_html(view)}{paragraphs}{rows.html}</div>"
        return bundle

    def _before(self, now: _Shown) -> _Shown | None:
        """Return what this cell displayed at the same position in its previous run, and record the present."""
        self._count = self._count + 1 if self._run == self._cells.run else 1
        self._run = self._cells.run
        place = (self._cells.cell, self._count)
        before = self._shown.get(place)
        self._shown[place] = now
        return before


def declared_in(topology: Topology, declarations: Collection[Declaration]) -> dict[str, Declaration]:
    """Return the declaration that made each node, matched by origin."""
    by_origin = {id(declaration.origin): declaration for declaration in declarations}
    makers = {name: by_origin.get(id(node.origin)) for name, node in topology.nodes.items()}
    return {name: declaration for name, declaration in makers.items() if declaration is not None}


def error_text(error: KStreamError) -> str:
    """Return an error with its type, cause and notes."""
    return f"{type(error).__name__}: {error_words(error)}"


def error_words(error: BaseException) -> str:
    """Return an error's message, cause and notes, line by line."""
    cause = error.__cause__
    because = (
        []
        if cause is None or isinstance(cause, KStreamError)
        else [f"Cause: {type(cause).__name__}: {message_of(cause)}"]
    )
    return "\n".join([str(error), *because, *getattr(error, "__notes__", ())])


def _first_rows(handle: Handle) -> _Rows:
    if handle.declaration_log.sample is None:
        return _Rows()
    try:
        bundle = mimebundle(handle.head())
    except KStreamError as error:
        text, node = error_text(error), getattr(error, "node", "")
        return _Rows(text, f"<pre>{escape(text)}</pre>", {node: "failed"} if node else {})
    return _Rows(bundle["text/plain"], bundle["text/html"])


def _changes(before: _Shown | None, now: _Shown) -> dict[str, str]:
    """Return marks for new and changed nodes, also if only a function changed."""
    if before is None:
        return {}
    edited = {
        name: "changed"
        for name, functions in now.functions.items()
        if name in before.functions and not same_functions(before.functions[name], functions)
    }
    return {**edited, **overlay_of_changes(before.description, now.description).marks}


def _gone(before: _Shown | None, now: _Shown) -> list[str]:
    gone = sorted(before.description.nodes().keys() - now.description.nodes().keys()) if before else []
    return [f"gone since the last run: {', '.join(gone)}"] if gone else []


def _orphans(handle: Handle) -> list[str]:
    """Return what has become stale elsewhere, so that an edit shows what it broke."""
    return [f"stale: {child} was made from {parent}" for child, parent in handle.declaration_log.stale()]


def without_preview(description: TopologyDescription, into: str) -> TopologyDescription:
    """Return the description without the sink and step that only the preview needs."""
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
