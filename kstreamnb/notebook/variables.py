"""Variables that hold streams and tables: what each cell saw in them, what it bound, and what it would see now.

Cells are taken in the order in which they first ran. When one runs again, its variables are what the cells before it
last bound, so that ``s = s.filter(…)`` filters once however often it runs.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

from kstreamnb.dsl.declarations import Declaration, Handle

__all__ = ["Variables", "read_names", "statements", "written_names"]

_Names = dict[str, Any]
_RUN_CODE = ("time", "capture", "prun")


class Variables:
    """The handles in a namespace, by cell.

    Args:
        namespace: the user's variables; names that begin with an underscore are left alone.
    """

    def __init__(self, namespace: _Names) -> None:
        self._namespace = namespace
        self._ranks: dict[Hashable, int] = {}
        self._binders: dict[str, Hashable] = {}
        self._bound: dict[Hashable, _Names] = {}
        self._seen: dict[Hashable, dict[str, Handle]] = {}
        self._read: dict[Hashable, set[str]] = {}
        self._start: _Names = {}

    def enter(self, cell: Hashable) -> None:
        """A cell begins: give it the handles that the cells before it left."""
        rank = self._ranks.setdefault(cell, len(self._ranks))
        own = set()
        for name, binder in self._binders.items():
            if name in self._namespace and self._ranks[binder] <= rank:
                found = self._before(name, rank)
                if isinstance(found, Handle):
                    self._namespace[name] = found
                elif binder == cell:
                    own.add(name)
        self._start = self._visible()
        self._seen[cell] = {
            name: thing for name, thing in self._start.items() if isinstance(thing, Handle) and name not in own
        }

    def leave(self, cell: Hashable, code: Iterable[ast.stmt], *, failed: bool) -> None:
        """A cell has ended: note what it bound; after a failure also what it had bound in its run before."""
        code = list(code)
        self._read[cell], written = read_names(code), written_names(code)
        ever = {name for names in self._bound.values() for name in names}
        bound = {
            name: thing
            for name, thing in self._visible().items()
            if (isinstance(thing, Handle) or name in ever)
            and (thing is not self._start.get(name) or (name in written and not failed))
        }
        self._bound[cell] = {**self._bound.get(cell, {}), **bound} if failed else bound
        self._binders.update(dict.fromkeys(bound, cell))

    def drop(self, cell: Hashable) -> None:
        """A cell is no more: what it bound does not count for the others."""
        self._bound.pop(cell, None)
        self._binders = {name: binder for name, binder in self._binders.items() if binder != cell}

    def outdated(self, cell: Hashable, latest: Callable[[Handle], Declaration]) -> dict[Declaration, str]:
        """Declarations that a cell found in its variables and would not find there now, with the variable's name."""
        rank, found = self._ranks.get(cell, 0), {}
        for name, seen in self._seen.get(cell, {}).items():
            if name in self._read.get(cell, ()) and self._ranks.get(self._binders.get(name), rank) < rank:
                now = self._before(name, rank)
                if now is not None and not (isinstance(now, Handle) and latest(now) is latest(seen)):
                    found[latest(seen)] = name
        return found

    def _before(self, name: str, rank: int) -> Any:
        """What the nearest cell above a rank bound a name to; None where none did."""
        binders = [cell for cell, names in self._bound.items() if name in names and self._ranks[cell] < rank]
        return self._bound[max(binders, key=self._ranks.__getitem__)][name] if binders else None

    def _visible(self) -> _Names:
        return {name: thing for name, thing in self._namespace.items() if not name.startswith("_")}


def statements(source: str) -> list[ast.stmt]:
    """The statements of a cell's Python, also those that ``%%time`` and its kind run; none where it is no Python."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return []
    return [part for node in body for part in _run_by_magic(node) or [node]]


def _run_by_magic(node: ast.stmt) -> list[ast.stmt]:
    """What a magic runs in the notebook as it stands."""
    match node:
        case ast.Expr(
            ast.Call(ast.Attribute(attr="run_cell_magic" | "run_line_magic"), [ast.Constant(word), *_, code])
        ):
            if word in _RUN_CODE and isinstance(code, ast.Constant):
                return statements(TransformerManager().transform_cell(str(code.value)))
    return []


def read_names(nodes: Iterable[ast.stmt]) -> set[str]:
    """Names that statements take from the notebook: not parameters, nor what functions and comprehensions bind."""
    table = symtable.symtable(ast.unparse(ast.Module(list(nodes), [])), "<cell>", "exec")
    return set(_global_names(table))


def _global_names(table: symtable.SymbolTable) -> Iterator[str]:
    is_top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (is_top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _global_names(child)


def written_names(nodes: Iterable[ast.stmt]) -> set[str]:
    """Names that statements give a value at the top level of a cell."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(each.asname or each.name).partition(".")[0] for each in node.names}
        else:
            parts = ast.walk(node)
            found |= {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return found
