"""Exports the cells that made a topology as a script that makes an equal one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path

from kstreamnb.core.arguments import check_arguments
from kstreamnb.data_files import text_of
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.errors import EngineError
from kstreamnb.notebook.cells import loaded
from kstreamnb.notebook.secrets import from_environment
from kstreamnb.notebook.variables import edited, plain_source, read_names, span, written_names
from kstreamnb.topology.nodes import walk


def export(path: Path | str, builder: StreamsBuilder) -> None:
    """Write the cells that made a builder's topology, and those that they need, as a script.

    The script builds a topology with the same fingerprint. Without arguments it prints the description; with
    ``--servers`` it runs on Spark until SIGTERM, which stops it after the running batch. Secrets in the cells are not
    written: the script reads them from the environment, and its first line names the variables.

    Args:
        path: the file to write.
        builder: a builder that a variable of the notebook holds.

    Raises: EngineError outside IPython, if no cell declared anything, or for a secret that is computed in a cell.
    """
    check_arguments(export, locals())
    if not loaded:
        raise EngineError("no cells were recorded", hint="run %load_ext kstreamnb first")
    sources, shell = loaded[0].sources, loaded[0].shell
    names = [name for name, thing in shell.user_ns.items() if thing is builder and not name.startswith("_")]
    if not names:
        raise EngineError("no variable holds the builder to export")
    makers = {declaration.identity.group for declaration in builder.declarations()}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(script(sources, makers, names[0], shell.transform_cell), encoding="utf-8", newline="\n")


def script(
    sources: Mapping[Hashable, str], makers: Iterable[Hashable], builder: str, transform: Callable[[str], str]
) -> str:
    """Return a script of the cells ``makers`` and of all that they need, with a command line."""
    texts = {cell: _without_displays(transform(source)) for cell, source in sources.items()}
    trees = {cell: ast.parse(text).body for cell, text in texts.items()}
    written = {cell: written_names(tree) for cell, tree in trees.items()}

    def writers(names: set[str]) -> list[Hashable]:
        return [cell for cell in trees if written[cell] & names]

    declaring = [cell for cell in makers if cell in trees]
    if not declaring:
        raise EngineError("nothing of the topology comes from a cell", hint="run its cells after %load_ext kstreamnb")
    wanted = set(walk([*declaring, *writers({builder})], lambda cell: writers(read_names(trees[cell]))))
    chunks, hidden = [], dict[str, None]()
    for cell in (cell for cell in trees if cell in wanted and trees[cell]):
        text, names = from_environment(texts[cell])
        chunks.append(text.strip("\n"))
        hidden |= dict.fromkeys(names)
    note = f" It reads {', '.join(hidden)} from the environment." if hidden else ""
    title = f'"""A topology of Kafka Streams, exported from a notebook.{note}"""'
    begin = [title, *(["import os"] if hidden else [])]
    main = text_of(__package__, "script_main.txt").replace("{builder}", builder)
    return "\n\n".join([*begin, *chunks, f"\n{main}"])


def _without_displays(source: str) -> str:
    """Return a cell's text, as it is written, without magics, displays and previews."""
    try:
        text = plain_source(source)
    except SyntaxError:
        return ""
    edits = []
    for row in _rows(ast.parse(text).body):
        kept = [node for node in row if not _only_shows(node)]
        begin, end = span(text, row[0], row[-1])
        if not kept:  # with the comment behind it
            line_end = text.find("\n", end)
            edits.append((begin, len(text) if line_end < 0 else line_end + 1, ""))
        elif len(kept) < len(row):
            edits.append((begin, end, "; ".join(text[slice(*span(text, node))] for node in kept)))
    return edited(text, edits)


def _rows(nodes: Iterable[ast.stmt]) -> list[list[ast.stmt]]:
    """Return statements grouped by the lines that they share."""
    rows: list[list[ast.stmt]] = []
    for node in nodes:
        if rows and rows[-1][-1].end_lineno == node.lineno:
            rows[-1].append(node)
        else:
            rows.append([node])
    return rows


def _only_shows(node: ast.stmt) -> bool:
    if "get_ipython()" in ast.unparse(node):
        return True
    if not isinstance(node, ast.Expr):
        return False
    value = node.value
    if not isinstance(value, ast.Call):
        return True
    word = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    return word in _SHOWS


_SHOWS = frozenset({"print", "display", "head", "build", "describe", "explain", "replay", "export", "deploy", "run"})
