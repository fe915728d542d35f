"""Tracks variables that hold streams and tables: what each cell saw, bound, and would see now.

Cells are ordered by their first runs. When one runs again, its variables hold what the cells before it last bound, so
that ``s = s.filter(…)`` filters once however often it runs.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Hashable, Iterable, Iterator

from IPython.core.inputtransformer2 import TransformerManager

from kstreamnb.dsl.declarations import Declaration, Handle

_Names = dict[str, object]
_MOST_PARTS = 250
_RUN_CODE = ("time", "capture", "prun")


class Variables:
    """The handles in a namespace, by cell.

    Args:
        namespace: the user's variables; names with a leading underscore are ignored.
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
        """Begin a cell: restore the handles that the cells before it left."""
        rank = self._ranks.setdefault(cell, len(self._ranks))
        own = set()
        for name, binder in self._binders.items():
            if name in self._namespace and self._ranks[binder] <= rank:
                earlier = self._before(name, rank)
                if isinstance(earlier, Handle):
                    self._namespace[name] = earlier
                elif binder == cell:
                    own.add(name)
        self._start = self.visible()
        before = self._start.items()
        self._seen[cell] = {name: thing for name, thing in before if isinstance(thing, Handle) and name not in own}

    def leave(self, cell: Hashable, code: Iterable[ast.stmt], *, failed: bool) -> None:
        """End a cell: record what it bound; after a failure also what its earlier run had bound."""
        code = list(code)
        self._read[cell], written = read_names(code), written_names(code)
        ever = {name for names in self._bound.values() for name in names}
        known = {name: thing for name, thing in self.visible().items() if isinstance(thing, Handle) or name in ever}
        again = set[str]() if failed else written
        bound = {name: thing for name, thing in known.items() if thing is not self._start.get(name) or name in again}
        self._bound[cell] = {**self._bound.get(cell, {}), **bound} if failed else bound
        self._binders.update(dict.fromkeys(bound, cell))

    def drop(self, cell: Hashable) -> None:
        """Remove a deleted cell and what it bound."""
        self._bound.pop(cell, None)
        self._binders = {name: binder for name, binder in self._binders.items() if binder != cell}

    def name_of(self, cell: Hashable, declaration: Declaration) -> str | None:
        """Return the variable in which a cell saw a declaration; None if there was none."""
        seen = self._seen.get(cell, {}).items()
        return next((name for name, handle in seen if handle.declaration is declaration), None)

    def outdated(self, cell: Hashable) -> dict[Declaration, str]:
        """Return declarations that a cell saw in its variables and would not see now, with the variable's name."""
        rank, names = self._ranks.get(cell, 0), {}
        for name, seen in self._seen.get(cell, {}).items():
            if name in self._read.get(cell, ()) and self._ranks.get(self._binders.get(name), rank) < rank:
                now = self._before(name, rank)
                if now is not None and not (isinstance(now, Handle) and now.declaration is seen.declaration):
                    names[seen.declaration] = name
        return names

    def _before(self, name: str, rank: int) -> object:
        """Return what the nearest earlier cell bound to a name; None if none did."""
        binders = [cell for cell, names in self._bound.items() if name in names and self._ranks[cell] < rank]
        return self._bound[max(binders, key=self._ranks.__getitem__)][name] if binders else None

    def visible(self) -> _Names:
        """Return the user's variables; names with a leading underscore hold outputs of cells."""
        return {name: thing for name, thing in self._namespace.items() if not name.startswith("_")}


def statements(source: str) -> list[ast.stmt]:
    """Return the statements of a cell's Python, also those run by ``%%time`` and similar magics."""
    try:
        return ast.parse(plain_source(source)).body
    except SyntaxError:
        return []


def plain_source(source: str) -> str:
    """Return a cell's Python with the code that ``%%time`` and similar magics run in their place.

    Raises: SyntaxError for a cell that is not Python.
    """
    magics = [(node, code) for node in ast.parse(source).body if (code := _run_by_magic(node)) is not None]
    return edited(source, [(*span(source, node), plain_source(code)) for node, code in magics])


def _run_by_magic(node: ast.stmt) -> str | None:
    """Return the code that a magic runs in the notebook's namespace."""
    match node:
        case ast.Expr(
            ast.Call(ast.Attribute(attr="run_cell_magic" | "run_line_magic"), [ast.Constant(word), *_, code])
        ):
            if word in _RUN_CODE and isinstance(code, ast.Constant):
                return TransformerManager().transform_cell(str(code.value)).rstrip("\n")
    return None


def span(source: str, first: ast.stmt | ast.expr, last: ast.stmt | ast.expr | None = None) -> tuple[int, int]:
    """Return where a node, or the text from one to another, begins and ends in a source, in characters."""
    last = last or first
    start = min([first, *getattr(first, "decorator_list", ())], key=lambda node: node.lineno)
    begin = _place(source, start.lineno, start.col_offset) - (start is not first)  # a decorator begins after its @
    return begin, _place(source, last.end_lineno or 1, last.end_col_offset or 0)


def _place(source: str, line: int, byte: int) -> int:
    lines = source.split("\n")
    return sum(len(each) + 1 for each in lines[: line - 1]) + len(lines[line - 1].encode()[:byte].decode())


def edited(source: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """Return a source with parts, given by begin and end, replaced by other texts."""
    for begin, end, text in sorted(edits, reverse=True):
        source = source[:begin] + text + source[end:]
    return source


def read_names(nodes: Iterable[ast.stmt]) -> set[str]:
    """Return the names that statements read from the notebook, without parameters and local names."""
    return set(_global_names(_names_of(nodes)))


def written_names(nodes: Iterable[ast.stmt]) -> set[str]:
    """Return the names that statements bind at the top level of a cell."""
    binding = (node for node in nodes if not isinstance(node, ast.Delete))  # to Python's table, `del` binds as well
    symbols = _names_of(binding).get_symbols()  # and `:=` in a comprehension declares its name as global
    bound = (each for each in symbols if each.is_assigned() or each.is_imported() or each.is_declared_global())
    return {each.get_name() for each in bound}


def _names_of(nodes: Iterable[ast.stmt]) -> symtable.SymbolTable:
    """Return Python's table of names, which is empty for statements that cannot run, such as ``def f(a, a): pass``."""
    try:
        return symtable.symtable(ast.unparse(ast.Module(list(nodes), [])), "<cell>", "exec")
    except SyntaxError:  # the user has seen the error, and may leave the cell as it is
        return symtable.symtable("", "<cell>", "exec")


def _global_names(table: symtable.SymbolTable) -> Iterator[str]:
    is_top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (is_top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _global_names(child)


def handles_in(path: str, thing: object, depth: int) -> Iterator[tuple[str, Declaration]]:
    """Yield the handles in a value with their paths, down to a depth."""
    if isinstance(thing, Handle):
        yield path, thing.declaration
    elif depth:
        for key, part in _parts(thing):
            for inner, declaration in handles_in("", part, depth - 1):
                yield f"{path}[{key!r}]{inner}", declaration


def _parts(thing: object) -> list[tuple[object, object]]:
    """Return the parts of a small collection: a large one holds data, and this runs after each cell that declares."""
    if isinstance(thing, list | tuple | dict) and len(thing) > _MOST_PARTS:
        return []
    if isinstance(thing, dict):
        return list(thing.items())
    if isinstance(thing, list | tuple):
        return list(enumerate(thing))
    if type(thing).__module__ == "__main__":
        return list(getattr(thing, "__dict__", {}).items())
    return []
