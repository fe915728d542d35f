"""Tracks which cell declares what, so that running a cell again replaces its earlier declarations.

A front end sends the id of the cell it runs; without one (a console, nbclient) every execution counts as a new cell.
Declarations made from another one follow the *variable*: when a cell runs again, the earlier values of its
variables are succeeded by the new ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypedDict
from weakref import WeakSet

from kstreamnb.core.formatting import join_list
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.declarations import Declaration, DeclarationLog, Handle, Identity, StaleReason
from kstreamnb.notebook.changes import Earlier
from kstreamnb.notebook.functions import file_of, functions_of, same_code
from kstreamnb.notebook.portable_cells import CellRun, bound_samples, notebook_order
from kstreamnb.notebook.staleness import changed_cells
from kstreamnb.notebook.variables import Variables, handles_in, read_names, statements, written_names
from kstreamnb.samples import Sample
from kstreamnb.topology.nodes import walk

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

loaded: list[Cells] = []
"""The cells of the shell that loaded the extension; empty without one."""


_MADE = (StreamsBuilder, Handle)
_NO_IDS = (
    "kstreamnb: this front end does not send cell ids, so each execution counts as a new cell and this one declared "
    "the same again; remove the earlier declarations with {call}"
)


class Cells:
    """Declarations by cell of one shell; implements `Identities` of the DSL, driven by IPython's events.

    Args:
        shell: the interactive shell: its namespace, its counter and its names of code files are used.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.ids_are_sent = "cellId" in _about(shell)
        self.cell: Hashable = None
        self.run = self._aside = 0
        self.sources: dict[Hashable, str] = {}
        self._samples: dict[Hashable, dict[str, Sample]] = {}
        self._failed: dict[Hashable, bool] = {}
        self._order = 0
        self._number = 0
        self._count, self._ahead = shell.execution_count, 1  # some IPythons count a cell before it runs, others after
        self._uncounted = len(getattr(shell.compile, "_filename_map", ())) or 1  # cells so far, this one with them
        self._places: dict[str, str] = {}
        self._numbers: dict[Hashable, str] = {}
        self._texts: dict[str, tuple[Hashable, str]] = {}
        self._has_warned = False
        self._logs: dict[Hashable, list[DeclarationLog]] = {}
        self._taken: list[DeclarationLog] = []
        self.logs: list[DeclarationLog] = []
        self.earlier = Earlier()
        self.widgets: WeakSet[_Looking] = WeakSet()
        self._bound: dict[Hashable, dict[str, Declaration]] = {}
        self._variables = Variables(shell.user_ns)

    def joined(self, entered: Sequence[str]) -> str:
        """Register the cells entered so far (the last one loads the extension); say which ones to run again."""
        for number, source in enumerate(entered[1:], 1):
            self.cell = ("before", number)
            if number == len(entered) - 1:
                self.cell = _about(self.shell).get("cellId", "load")
            self.sources[self.cell] = source
            self._name(self.cell, source, number)
        if self.cell is not None:
            self._variables.enter(self.cell)
        made = {name: thing for name, thing in self._variables.visible().items() if isinstance(thing, _MADE)}
        builders = [f'"{name}"' for name, thing in made.items() if isinstance(thing, StreamsBuilder)]
        if not builders:
            return ""
        code = {cell: statements(self.shell.transform_cell(source)) for cell, source in self.sources.items()}
        uses = {self._numbers[cell]: written_names(lines) | read_names(lines) for cell, lines in code.items()}
        again = [number for number, names in uses.items() if names & made.keys()]
        known = f"run {join_list(again, most=len(again))} again, and each cell replaces what it declared"
        return f"made before %load_ext kstreamnb: {join_list(builders)}; {known}"

    # --- events of IPython ---
    def started(self, info: ExecutionInfo) -> None:
        """Begin a cell: drop its earlier declarations and restore its variables to those before its first run.

        Code run by a magic such as ``%%capture`` is part of its cell. Code without a cell id, from a front end that
        sends ids, is the front end's own (VS Code inspects variables this way) and not a cell.
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
        self.earlier.begin(self.cell)
        self._claim(self.cell, info.raw_cell)
        self._count = self.shell.execution_count
        self._number = self._count - self._ahead if info.store_history else self._uncounted + self.run
        self._name(self.cell, info.raw_cell, self._number)
        self._variables.enter(self.cell)
        self._forget_deleted()
        for log in self.logs:
            if self.cell in log.groups():
                log.begin(self.cell, self.run)

    def ended(self, result: ExecutionResult | None = None) -> None:
        """End a cell: later declarations outside cells belong to none."""
        if self._aside:
            self._aside -= 1
            return
        if result is not None and result.info.store_history and result.execution_count is not None:
            self._ahead = self._count - result.execution_count
        for log in self.logs:
            self.settle(log)
        if self.cell is not None:
            failed = self._failed[self.cell] = result is not None and not result.success
            own = self._made_by(self.cell)
            self._bound[self.cell] = {**self._bound.get(self.cell, {}), **own} if failed else own
            code = statements(self.shell.transform_cell(self.sources[self.cell]))
            self._variables.leave(self.cell, code, failed=failed)
            self._samples[self.cell] = bound_samples(self.sources[self.cell], self.shell.user_ns)
            self._warn_of_missing_ids()
            for widget in self.earlier.left("widget"):
                widget.replaced = True
        self.cell = None
        for widget in tuple(self.widgets):
            widget.look()

    def _claim(self, cell: Hashable, source: str) -> None:
        """Record a cell's text, in place of the same text that ran before the extension was loaded."""
        before = (each for each in self.sources if isinstance(each, tuple) and each[0] == "before")
        same = (each for each in before if self.sources[each] == source and cell not in self.sources)
        earlier = next(same, None)
        self.sources = {cell if each == earlier else each: text for each, text in self.sources.items()}
        self.sources[cell] = source

    def _forget_deleted(self) -> None:
        """Drop the declarations of deleted cells, if the front end reports them (JupyterLab does).

        The running cell may be among them: JupyterLab also reports one whose deletion was undone.
        """
        for cell in {*_about(self.shell).get("deletedCells", ())} - {self.cell}:
            self.sources.pop(cell, None)
            self._variables.drop(cell)
            for log in self.logs:
                log.forget(*(each for each in log.declarations() if each.identity.group == cell))

    def latest(self) -> tuple[CellRun, ...]:
        """Return every cell as it ran last, in the order of the saved notebook, without the running one."""
        runs: dict[Hashable, CellRun] = {}
        for cell, source in self.sources.items():
            if cell != self.cell:
                runs[cell] = CellRun(source, self._samples.get(cell, {}), self._failed.get(cell, False))
        return notebook_order(runs, self.shell.user_ns.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME"))

    def place(self, file: str) -> str | None:
        """Return the name of the cell that a code file belongs to, such as ``cell 3``, as the front end numbers it."""
        return self._places.get(file)

    # --- Identities of the DSL ---
    def declaration_log(self, name: str | None) -> DeclarationLog | None:
        """Return the log that this cell's builder had in its earlier run: by name, otherwise the next one."""
        if self.cell is None:
            return None
        free = [log for log in self._logs.get(self.cell, ()) if log not in self._taken]
        log = next((log for log in free if log.name == name), free[0] if free else None)
        if log is not None:
            log.name = name
            self._taken.append(log)
        return log

    def opened(self, log: DeclarationLog) -> None:
        """Register a new log for this cell."""
        self.logs.append(log)
        if self.cell is not None:
            self._logs.setdefault(self.cell, []).append(log)
            self._taken.append(log)

    def identity(self, log: DeclarationLog, word: str) -> Identity | None:
        """Return the identity of the next declaration of this run."""
        if self.cell is None:
            return None
        self._order += 1
        return Identity(self.cell, self.run, (self.run, self._order, word))

    def settle(self, log: DeclarationLog) -> None:
        """Replace the earlier values of this cell's variables by their present ones, and others in order."""
        if self.cell is None:
            return
        before = self._bound.get(self.cell, {})
        now = dict(self._paths()) if before else {}
        changed = {gone: now[path] for path, gone in before.items() if path in now and now[path] is not gone}
        successors = {gone: new for gone, new in changed.items() if self._is_new(new) and not log.holds(gone)}
        made = {_order_of(each): each for each in log.declarations() if self._is_new(each)}
        for _, gone in log.stale():
            new = made.get(_order_of(gone)) if gone.identity.group == self.cell else None
            if new is not None and gone not in before.values():
                successors[gone] = new
        log.succeed({gone: new for gone, new in successors.items() if log.holds(new)})

    def lost(self, log: DeclarationLog, child: Declaration, parent: Declaration) -> StaleReason:
        """Return why what a declaration was made from is gone: its variable was renamed, replaced or removed."""
        cell, label = parent.identity.group, child.origin.place
        name, whose = self._variables.name_of(child.identity.group, parent), f"{_line_of(child)} in {label}"
        if name is None:
            fact = f'{whose} was made from "{parent.word}", which is gone'
            return StaleReason(fact, f"run {label} again, or remove it", f'"{parent.word}" disappeared')
        now = self.shell.user_ns.get(name)
        if isinstance(now, Handle) and log.holds(now.declaration):
            action = f"run {label} again"
            return StaleReason(f'{whose} was made from an earlier "{name}"', action, f'"{name}" changed')
        made = [(path, held) for path, held in self._made_by(cell).items() if log.holds(held) and path != name]
        renamed = next((path for path, held in made if held.word == parent.word), None)
        if renamed is not None:
            fact = f'{whose} uses "{name}", which {self._numbers[cell]} no longer makes: it makes "{renamed}"'
            action = f'write "{renamed}" instead of "{name}" in {label}, and run it'
        else:
            fact = f'{whose} uses "{name}", which no cell makes any more'
            action = f'make "{name}" again and run {label}, or remove {label} with {forgetting(self.shell, log, label)}'
        return StaleReason(fact, action, f'"{name}" disappeared')

    def outdated(self, log: DeclarationLog) -> dict[Declaration, StaleReason]:
        """Return declarations whose cell would now find another function or handle under a name."""
        reasons, declarations = {}, log.declarations()
        cells = dict.fromkeys(each.identity.group for each in declarations)
        others = {cell: self._variables.outdated(cell) for cell in cells}
        for declaration in declarations:
            for parent, name in others[declaration.identity.group].items():
                if parent in declaration.parents:
                    about = f'was made from an earlier "{name}"'
                    reasons[declaration] = _outdated(declaration, about, f'"{name}" changed')
            for function in functions_of(declaration):
                cell, text = self._texts.get(file_of(function) or "", (None, ""))
                if self.sources.get(cell, text) != text and not self._is_defined_again(function, cell):
                    name = getattr(function, "__name__", "a function")
                    called = "a function" if name == "<lambda>" else f'"{name}"'
                    now = self._numbers[cell]
                    about = f"has {called} from before {now} was edited"
                    reasons[declaration] = _outdated(declaration, about, f"{now} changed {called}")
        return reasons

    def stale(self, log: DeclarationLog, before: tuple[Declaration, ...]) -> str | None:
        """Say which cells changed what they declare since ``before``, and what to do; None if none did."""
        edited = (reason.change for reason in self.outdated(log).values())
        changes = changed_cells(before, log.declarations(), self._name_of) or next(edited, None)
        return changes and f"built before {changes}; run {_builder_of(self.shell, log)}.build() again"

    def _name_of(self, declaration: Declaration) -> str | None:
        """Return the variable that holds a declaration, or what its cell made of it."""
        bound = self._bound.get(declaration.identity.group, {})
        handles = self._variables.visible().items()
        now = {thing.declaration: name for name, thing in handles if isinstance(thing, Handle)}
        for path, held in bound.items():
            if declaration in walk([held], _parents_in_cell):
                return now.get(held, path)
        return None

    def _is_defined_again(self, function: object, cell: Hashable) -> bool:
        """Return True if a cell, as it ran last, defines the same function."""
        newest = (cell, self.sources[cell])
        called = filter(callable, list(self.shell.user_ns.values()))
        return any(self._texts.get(file_of(each) or "") == newest and same_code(each, function) for each in called)

    def _warn_of_missing_ids(self) -> None:
        """Warn once, if the front end sends no cell ids, that a cell which ran again has declared its part twice."""
        if self.ids_are_sent or self._has_warned:
            return
        text = self.sources[self.cell]
        same_text = {cell for cell, source in self.sources.items() if source == text and cell != self.cell}
        for log in self.logs:
            declarations = log.declarations()
            earlier = [each.origin.place for each in declarations if each.identity.group in same_text]
            if earlier and any(each.identity.group == self.cell for each in declarations):
                self._has_warned = True
                print(_NO_IDS.format(call=forgetting(self.shell, log, earlier[0])), file=sys.stderr)  # noqa: T201 - once per session

    def _name(self, cell: Hashable, source: str, number: int) -> None:
        """Record the code file and number of a cell."""
        file = self.shell.compile.get_code_name(source, self.shell.transform_cell(source), number)
        self._places[file] = self._numbers[cell] = f"cell {number}"
        self._texts[file] = (cell, self.sources[cell])

    # --- variables ---
    def _is_new(self, declaration: Declaration) -> bool:
        return declaration.identity[:2] == (self.cell, self.run)

    def _made_by(self, cell: Hashable) -> dict[str, Declaration]:
        """Return what a cell declared, by variable; what the running cell has declared so far."""
        if cell != self.cell:
            return self._bound.get(cell, {})
        paths = self._paths() if self._order or self._bound.get(cell) else ()  # looking at everything takes time
        return {path: made for path, made in paths if made.identity.group == cell}

    def _paths(self) -> Iterator[tuple[str, Declaration]]:
        """Yield the handles in the user's variables, also inside lists, dicts and objects of the user's classes."""
        for name, thing in list(self.shell.user_ns.items()):
            if not name.startswith("_") and name != "Out":
                yield from handles_in(name, thing, depth=2)


def forgetting(shell: InteractiveShell, log: DeclarationLog, label: str) -> str:
    """Return the call that forgets what a cell declared."""
    return f'{_builder_of(shell, log)}.forget("{label}")'


def _builder_of(shell: InteractiveShell, log: DeclarationLog) -> str:
    """Return the variable that holds the builder of a log; "builder" if none does."""
    builders = ((name, thing) for name, thing in shell.user_ns.items() if isinstance(thing, StreamsBuilder))
    names = (name for name, thing in builders if thing.declaration_log is log and not name.startswith("_"))
    return next(names, "builder")


def _about(shell: InteractiveShell) -> _RequestMetadata:
    """Return the front end's metadata of the request that runs the cell."""
    request: dict[str, _RequestMetadata] = getattr(shell, "get_parent", dict)() or {}
    return request.get("metadata", {})


class _Looking(Protocol):
    def look(self) -> None: ...


class _RequestMetadata(TypedDict, total=False):
    cellId: str
    deletedCells: Sequence[str]


def _order_of(declaration: Declaration) -> Hashable:
    """Return the number and word of a declaration within the run of its cell."""
    key = declaration.identity.key
    return key[1:] if isinstance(key, tuple) else key


def _outdated(declaration: Declaration, about: str, change: str) -> StaleReason:
    label = declaration.origin.place
    return StaleReason(f"{_line_of(declaration)} in {label} {about}", f"run {label} again", change)


def _line_of(declaration: Declaration) -> str:
    """Return the user's line that made a declaration; its word if the line is not known."""
    return f"`{declaration.origin.code}`" if declaration.origin.code else f'"{declaration.word}"'


def _parents_in_cell(declaration: Declaration) -> list[Declaration]:
    return [parent for parent in declaration.parents if parent.identity.group == declaration.identity.group]
