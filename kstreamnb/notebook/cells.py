"""Cells: which one declares what, so that running one again replaces what it declared before.

A front end sends the id of the cell it runs; without one (a console, nbclient) every execution is a cell of its own.
What was made from a declaration follows the *variable*: when a cell runs again, what its variables held before is
succeeded by what they hold now.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from kstreamnb.dsl.declarations import Declaration, DeclarationLog, Handle, Identity
from kstreamnb.notebook.functions import file_of, functions_of, same_code
from kstreamnb.notebook.saving import CellRun, bound_samples
from kstreamnb.notebook.variables import Variables, statements

__all__ = ["Cells", "loaded"]

loaded: list[Cells] = []
"""The cells of the shell into which the extension was loaded; empty without one."""


_NO_IDS = (
    "kstreamnb: this front end does not say which cell runs, so each execution counts as a new cell and this one "
    'declared its part again; take the earlier one back with builder.forget("{place}")'
)


class Cells:
    """What the kit knows of the cells of one shell; an `Identities` of the DSL, fed by IPython's events.

    Args:
        shell: the interactive shell: its namespace, its counter and its names of code files are used.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.ids_are_sent = "cellId" in _about(shell)
        self.cell: Hashable = None
        self.run = self._aside = 0
        self.sources: dict[Hashable, str] = {}
        self._samples: dict[Hashable, dict[str, Any]] = {}
        self._failed: set[Hashable] = set()
        self._order = 0
        self._number = 0
        self._count, self._ahead = shell.execution_count, 1  # some IPythons count a cell before it runs, others after
        self._uncounted = len(getattr(shell.compile, "_filename_map", ())) or 1  # cells so far, this one with them
        self._places: dict[str, str] = {}
        self._texts: dict[str, tuple[Hashable, str]] = {}
        self._has_told = False
        self._logs: dict[Hashable, list[DeclarationLog]] = {}
        self._taken: list[DeclarationLog] = []
        self._all: list[DeclarationLog] = []
        self._bound: dict[Hashable, dict[str, Declaration]] = {}
        self._variables = Variables(shell.user_ns)

    def joined(self, source: str, number: int) -> None:
        """The cell that is running while these cells begin to be known."""
        self.sources["load"] = source
        self._name("load", source, number)

    # --- what IPython tells ---
    def started(self, info: Any) -> None:
        """A cell is about to run: what it declared before is gone, and its variables are as before its first run.

        What a cell runs by a magic such as ``%%capture`` is part of it. What a front end that names its cells runs
        without a name is its own (VS Code looks at variables so), and no cell.
        """
        cell_id = getattr(info, "cell_id", None)
        is_part = self.cell is not None and cell_id is None
        if is_part or (self.ids_are_sent and cell_id is None and not info.store_history):
            self._aside += 1
            if is_part:
                self._name(self.cell, info.raw_cell, self._number)
            return
        self.run += 1
        self._order = self._aside = 0
        self._taken = []
        self.ids_are_sent = self.ids_are_sent or cell_id is not None
        self.cell = cell_id if cell_id is not None else ("run", self.run)
        self.sources[self.cell] = info.raw_cell
        self._count = self.shell.execution_count
        self._number = self._count - self._ahead if info.store_history else self._uncounted + self.run
        self._name(self.cell, info.raw_cell, self._number)
        self._variables.enter(self.cell)
        self._forget_deleted()
        for log in self._all:
            if self.cell in log.groups():
                log.begin(self.cell, self.run)

    def ended(self, result: Any = None) -> None:
        """A cell has run: what is made outside cells from now on belongs to none."""
        if self._aside:
            self._aside -= 1
            return
        if result is not None and result.info.store_history and result.execution_count is not None:
            self._ahead = self._count - result.execution_count
        for log in self._all:
            self.settle(log)
        if self.cell is not None:
            failed = result is not None and not result.success
            self._failed.discard(self.cell)
            if failed:
                self._failed.add(self.cell)
            own = {path: held for path, held in self._paths() if held.identity.group == self.cell}
            self._bound[self.cell] = {**self._bound.get(self.cell, {}), **own} if failed else own
            code = statements(self.shell.transform_cell(self.sources[self.cell]))
            self._variables.leave(self.cell, code, failed=failed)
            self._samples[self.cell] = bound_samples(self.sources[self.cell], self.shell.user_ns)
            self._tell_of_missing_ids()
        self.cell = None

    def _forget_deleted(self) -> None:
        """Take back what cells declared that the user has deleted, where the front end tells (JupyterLab does)."""
        for cell in _about(self.shell).get("deletedCells", ()):
            self.sources.pop(cell, None)
            self._variables.drop(cell)
            for log in self._all:
                log.forget(*(each for each in log.declarations() if each.identity.group == cell))

    def latest(self) -> tuple[CellRun, ...]:
        """Every cell as it ran last, in the order of their first runs; the one that runs now left out."""
        return tuple(
            CellRun(source, self._samples.get(cell, {}), cell in self._failed)
            for cell, source in self.sources.items()
            if cell != self.cell
        )

    def place(self, file: str) -> str | None:
        """The name of the cell that a code file is, such as ``cell 3``: the number that the front end shows."""
        return self._places.get(file)

    # --- what the DSL asks ---
    def declaration_log(self, name: str | None) -> DeclarationLog | None:
        """The log that this cell's builder had in the cell's run before: of that name, or else the next one."""
        if self.cell is None:
            return None
        free = [log for log in self._logs.get(self.cell, ()) if log not in self._taken]
        found = next((log for log in free if log.name == name), free[0] if free else None)
        if found is not None:
            found.name = name
            self._taken.append(found)
        return found

    def opened(self, log: DeclarationLog) -> None:
        """Remember a new log as one of this cell."""
        self._all.append(log)
        if self.cell is not None:
            self._logs.setdefault(self.cell, []).append(log)
            self._taken.append(log)

    def identity(self, log: DeclarationLog, word: str) -> Identity | None:
        """A declaration of this run of this cell."""
        if self.cell is None:
            return None
        self._order += 1
        return Identity(self.cell, self.run, (self.run, self._order, word))

    def settle(self, log: DeclarationLog) -> None:
        """Let what this cell's variables hold now succeed what they held after its run before."""
        before = self._bound.get(self.cell) if self.cell is not None else None
        if not before:
            return
        now = dict(self._paths())
        successors = {
            gone: now[path]
            for path, gone in before.items()
            if path in now and now[path] is not gone and self._is_new(now[path]) and not log.holds(gone)
        }
        log.succeed({gone: new for gone, new in successors.items() if log.holds(new)})

    def outdated(self, log: DeclarationLog) -> dict[Declaration, str]:
        """Declarations whose cell, run now, would find another function or another handle under a name."""
        found, held = {}, log.declarations()
        others = {
            cell: self._variables.outdated(cell, _latest) for cell in {each.identity.group: None for each in held}
        }
        for declaration in held:
            for parent, name in others[declaration.identity.group].items():
                if parent in declaration.parents:
                    found[declaration] = f'{declaration} was made from what "{name}" was before a cell was edited'
            for function in functions_of(declaration):
                cell, text = self._texts.get(file_of(function) or "", (None, ""))
                if cell is not None and self.sources[cell] != text and not self._is_defined_again(function, cell):
                    name = getattr(function, "__name__", "a function")
                    called = "a function" if name == "<lambda>" else f'"{name}"'
                    found[declaration] = f"{declaration} has {called} from before its cell was edited"
        return found

    def _is_defined_again(self, function: Any, cell: Hashable) -> bool:
        """Whether a cell, as it ran last, defines the same function."""
        newest = (cell, self.sources[cell])
        return any(
            self._texts.get(file_of(thing) or "") == newest and same_code(thing, function)
            for thing in list(self.shell.user_ns.values())
            if callable(thing)
        )

    def _tell_of_missing_ids(self) -> None:
        """Say once, where the front end sends no ids, that a cell which ran again has declared its part twice."""
        if self.ids_are_sent or self._has_told:
            return
        text = self.sources[self.cell]
        twins = {cell for cell, source in self.sources.items() if source == text and cell != self.cell}
        for log in self._all:
            held = log.declarations()
            earlier = [each.origin.place for each in held if each.identity.group in twins]
            if earlier and any(each.identity.group == self.cell for each in held):
                self._has_told = True
                print(_NO_IDS.format(place=earlier[0]), file=sys.stderr)  # noqa: T201 - said once, where it matters

    def _name(self, cell: Hashable, source: str, number: int) -> None:
        """Remember which code file a cell is, and by which number the front end shows it."""
        file = self.shell.compile.get_code_name(source, self.shell.transform_cell(source), number)
        self._places[file] = f"cell {number}"
        self._texts[file] = (cell, self.sources[cell])

    # --- variables ---
    def _is_new(self, declaration: Declaration) -> bool:
        return declaration.identity[:2] == (self.cell, self.run)

    def _paths(self) -> Iterator[tuple[str, Declaration]]:
        """What the user's variables hold, also in lists, dicts and objects of the user's own classes."""
        for name, thing in list(self.shell.user_ns.items()):
            if not name.startswith("_"):
                yield from _handles(name, thing, depth=2)


def _about(shell: Any) -> dict[str, Any]:
    """What the front end says of the cell that it asks to run."""
    parent: dict[str, Any] = getattr(shell, "get_parent", dict)() or {}
    about: dict[str, Any] = parent.get("metadata", {})
    return about


def _latest(handle: Handle) -> Declaration:
    return handle._declaration.latest()  # noqa: SLF001 - the same as .declaration


def _handles(path: str, thing: Any, depth: int) -> Iterator[tuple[str, Declaration]]:
    if isinstance(thing, Handle):
        yield path, _latest(thing)
    elif depth:
        for key, part in _parts(thing):
            yield from _handles(f"{path}[{key!r}]", part, depth - 1)


def _parts(thing: Any) -> list[tuple[Any, Any]]:
    if isinstance(thing, Mapping):
        return list(thing.items())
    if isinstance(thing, list | tuple):
        return list(enumerate(thing))
    if type(thing).__module__ == "__main__":
        return list(getattr(thing, "__dict__", {}).items())
    return []
