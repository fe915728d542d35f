"""What a builder at the end of a cell shows: everything declared so far, with what is stale and what it has lost."""

from __future__ import annotations

from collections.abc import Collection
from html import escape

from kstreamnb.display import Overlay, graph_view, mimebundle, to_html, to_text
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.declarations import Declaration, DeclarationLog, replay
from kstreamnb.errors import KStreamError
from kstreamnb.logical.lowering import lower
from kstreamnb.notebook.handles import declared_in, error_text
from kstreamnb.topology.topology import Topology

__all__ = ["show_builder"]


def show_builder(
    builder: StreamsBuilder, include: Collection[str] | None = None, exclude: Collection[str] | None = None
) -> dict[str, str]:
    """Every form of a builder by its MIME type; what cannot be drawn is said in words, never raised."""
    log = builder.declaration_log
    log.settle()
    outdated, lost = log.outdated, log.stale()
    notes = [*(f"stale: {child} was made from {parent}" for child, parent in lost), *outdated.values()]
    try:
        topology, drawn = _drawn(log)
        marks, words = _marks(log, topology, drawn)
        view = graph_view(topology.description(), Overlay(notes=words, marks=marks))
    except KStreamError as error:
        text = "\n".join([repr(builder), *notes, error_text(error)])
        return {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}
    bundle = mimebundle(view, include, exclude)
    bundle["text/plain"] = "\n".join([repr(builder), to_text(view), *notes])
    if "text/html" in bundle:
        said = "".join(f"<p>{escape(note)}</p>" for note in notes)
        bundle["text/html"] = f"<div><b>{escape(repr(builder))}</b>{to_html(view)}{said}</div>"
    return bundle


def _drawn(log: DeclarationLog) -> tuple[Topology, tuple[Declaration, ...]]:
    """The topology with what stale declarations have lost; without both where that does not fit together any more."""
    whole = _with_lost(log)
    try:
        return lower(replay(whole, persistent=log.persistent).graph.freeze(), name=log.name), whole
    except KStreamError:
        sound = log.sound()
        return lower(replay(sound, persistent=log.persistent).graph.freeze(), name=log.name), sound


def _with_lost(log: DeclarationLog) -> tuple[Declaration, ...]:
    """What counts, and above it what is gone but was something's parent; parents first."""
    done: dict[Declaration, None] = {}

    def visit(declaration: Declaration) -> None:
        if declaration not in done:
            for parent in declaration.parents:
                visit(parent)
            done[declaration] = None

    for declaration in log.declarations():
        visit(declaration)
    return tuple(done)


def _marks(
    log: DeclarationLog, topology: Topology, drawn: tuple[Declaration, ...]
) -> tuple[dict[str, str], dict[str, str]]:
    """Marks and notes by node: gone, made from something gone, or with a function that was edited since."""
    sound, outdated = set(log.sound()), log.outdated
    marks, words = {}, {}
    for name, declaration in declared_in(topology, drawn).items():
        if not log.holds(declaration):
            marks[name], words[name] = "stale", f"gone from {declaration.origin.place}"
        elif declaration not in sound:
            marks[name], words[name] = "stale", f"orphan of {declaration.origin.place}"
        elif declaration in outdated:
            marks[name], words[name] = "stale", f"old function in {declaration.origin.place}"
    return marks, words
