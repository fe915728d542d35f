"""Display of a builder: everything declared so far, with stale declarations and lost parents marked."""

from __future__ import annotations

from collections.abc import Sequence

from kstreamnb.core.tables import escaped
from kstreamnb.display.graph import Overlay
from kstreamnb.display.picture import GraphPicture
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.declarations import Declaration, DeclarationLog, parents_first, replay
from kstreamnb.errors import KStreamError
from kstreamnb.logical.lowering import lower
from kstreamnb.logical.optimizer.rewrites import optimise
from kstreamnb.notebook.handle_display import declared_in
from kstreamnb.notebook.tracebacks import error_page, error_text
from kstreamnb.topology.topology import Topology


def show_builder(builder: StreamsBuilder) -> tuple[dict[str, str], Sequence[GraphPicture]]:
    """Return the data and the picture of a builder; errors are shown as text, never raised."""
    log = builder.declaration_log
    log.settle()
    notes = [f"stale: {reason}; {reason.action}" for reason in {**log.outdated, **log.lost}.values()]
    text = "\n".join([repr(builder), *notes])
    page = f"<p><b>{escaped(repr(builder))}</b></p>" + "".join(f"<p>{escaped(note)}</p>" for note in notes)
    try:
        topology, drawn = _drawn(log)
        words = _marked(log, topology, drawn)
    except KStreamError as error:
        return {"text/plain": f"{text}\n{error_text(error)}", "text/html": page + error_page(error)}, ()
    drawing = GraphPicture(topology.description(), Overlay(notes=words, marks=dict.fromkeys(words, "stale")))
    return {"text/plain": text, "text/html": page}, [drawing] if topology.nodes else []


def _drawn(log: DeclarationLog) -> tuple[Topology, tuple[Declaration, ...]]:
    """Return the topology including lost parents of stale declarations; without both if that cannot be built."""
    whole = parents_first(log.declarations(), lambda each: True)  # with lost parents
    try:
        return _lowered(log, whole), whole
    except KStreamError:
        sound = log.sound()
        return _lowered(log, sound), sound


def _lowered(log: DeclarationLog, declarations: Sequence[Declaration]) -> Topology:
    """Return the topology of some declarations; a topic that is read twice has one source, as after `build()`."""
    graph = replay(log, declarations).graph.freeze()
    return lower(optimise(graph, ())[0], name=log.name)


def _marked(log: DeclarationLog, topology: Topology, drawn: tuple[Declaration, ...]) -> dict[str, str]:
    """Return why nodes are stale, by node: gone, made from something gone, or with an edited function."""
    sound, outdated = set(log.sound()), log.outdated
    words = {}
    for name, declaration in declared_in(topology, drawn).items():
        if not log.holds(declaration):
            words[name] = f"gone from {declaration.origin.place}"
        elif declaration not in sound:
            words[name] = f"orphan of {declaration.origin.place}"
        elif declaration in outdated:
            words[name] = f"old function in {declaration.origin.place}"
    return words
