"""Display of a stream or table: its part of the graph, what changed since the last run, and its first records."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kstreamnb.core.tables import escaped
from kstreamnb.data_files import rows_of
from kstreamnb.display.graph import Overlay
from kstreamnb.display.mime import mimebundle
from kstreamnb.display.picture import GraphPicture
from kstreamnb.dsl.declarations import Declaration, Handle
from kstreamnb.errors import KStreamError
from kstreamnb.notebook.cells import Cells
from kstreamnb.notebook.changes import Shown, changes, gone
from kstreamnb.notebook.functions import functions_of
from kstreamnb.notebook.tracebacks import error_page, error_text
from kstreamnb.tools.preview import has_records, upstream_part
from kstreamnb.topology.topology import Topology
from kstreamnb.topology.user_names import bound_variable
from kstreamnb.validation.field_checks import field_findings

NEXT = dict(rows_of(__package__, "next_calls.tsv"))
"""The usual next calls of each kind of handle, and of a builder."""


def show_handle(cells: Cells, handle: Handle) -> tuple[dict[str, str], Sequence[GraphPicture]]:
    """Return the data and the picture of a handle, with marks for what changed since its cell's previous run.

    Never raises, which would hide the user's result.
    """
    try:
        return _parts(cells, handle)
    except KStreamError as error:
        page = f"<p>{escaped(repr(handle))}</p>{error_page(error)}"
        return {"text/plain": f"{handle!r}\n{error_text(error)}", "text/html": page}, ()


def _parts(cells: Cells, handle: Handle) -> tuple[dict[str, str], Sequence[GraphPicture]]:
    topology = upstream_part(handle)
    nodes, outdated = declared_in(topology, handle.declaration_log.declarations()), handle.declaration_log.outdated
    functions = {name: functions_of(declaration) for name, declaration in nodes.items()}
    now = Shown(topology.description(), functions)
    before = cells.earlier("handle", now) or now  # nothing is new in what a cell shows first
    rows, failed = _first_rows(handle)
    old = [name for name in now.description.nodes() if nodes.get(name) in outdated]
    marks = {**changes(before, now), **dict.fromkeys(old, "stale"), **failed}
    lost = gone(before, now)
    notes = _unknown_fields(handle, topology)
    notes += [f"gone since the last run: {', '.join(lost)}"] if lost else []
    notes += dict.fromkeys(str(outdated[nodes[name]]) for name in old)  # and what an edit broke elsewhere:
    notes += [f"stale: {reason}; {reason.action}" for reason in handle.declaration_log.lost.values()]
    notes.append(f"next: {NEXT[handle.kind]}")
    variable = bound_variable(handle.origin, handle.declaration.word)
    label = " · ".join([*([variable] if variable else []), handle.declaration.word])
    title = f"{type(handle).__name__} {label}"
    lines = (f"<p>{escaped(note)}</p>" for note in notes)
    page = "".join([f"<p><b>{escaped(title)}</b></p>", rows.get("text/html", ""), *lines])
    text = "\n".join([title, *([rows["text/plain"]] if rows else []), *notes])
    return {"text/plain": text, "text/html": page}, [GraphPicture(now.description, Overlay(marks=marks))]


def declared_in(topology: Topology, declarations: Collection[Declaration]) -> dict[str, Declaration]:
    """Return the declaration that made each node, matched by origin."""
    by_origin = {id(declaration.origin): declaration for declaration in declarations}
    makers = {name: by_origin.get(id(node.origin)) for name, node in topology.nodes.items()}
    return {name: declaration for name, declaration in makers.items() if declaration is not None}


def _first_rows(handle: Handle) -> tuple[dict[str, str], dict[str, str]]:
    """Return the first records that reach a handle, or the error that prevents them, by MIME type, and marks by node.

    Both are empty without a sample.
    """
    if handle.declaration_log.sample is None or not has_records(handle):
        return {}, {}
    try:
        return mimebundle(handle.head()), {}
    except KStreamError as error:
        node = getattr(error, "node", "")
        return {"text/plain": error_text(error), "text/html": error_page(error)}, {node: "failed"} if node else {}


def _unknown_fields(handle: Handle, topology: Topology) -> list[str]:
    """Return the fields that functions read and no record of the builder's sample has."""
    sample = handle.declaration_log.sample
    issues = () if sample is None else field_findings(topology, list(sample))
    return [f"{each.fact}: {each.remedy} ({each.origin})" for each in issues]
