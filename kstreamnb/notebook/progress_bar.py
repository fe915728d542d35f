"""Progress bars for long operations: one at a time, only if somebody watches, none for operations under half a second.

In JupyterLab and Notebook 7 the bar is a line in a corner of the page and not part of a cell's output, so saved
outputs do not depend on how long an operation took; in VS Code and Colab it is an output that is empty at the end.
Notebooks that nbval compares have no bar.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from threading import Event, current_thread, main_thread
from typing import Any, Protocol

from kstreamnb.background import background
from kstreamnb.hooks import Advance, Poll

_SHORT_S, _EVERY_S = 0.5, 0.2
_COLUMNS = 78
_COUNT = "{n:,} {unit} [{elapsed}{postfix}]"
_METER = "{l_bar}{bar}| {n:,}/{total:,} {unit} [{elapsed}<{remaining}{postfix}]"


class BarOutput(Protocol):
    """An output that shows one bar."""

    def show(self, text: str) -> None:
        """Replace the text of the bar."""

    def close(self) -> None:
        """Remove the bar."""


class TerminalBar:
    """The current line of standard error."""

    def show(self, text: str) -> None:
        """Overwrite the line."""
        sys.stderr.write(f"\r{text:{_COLUMNS}}")
        sys.stderr.flush()

    def close(self) -> None:
        """Clear the line."""
        sys.stderr.write(f"\r{'':{_COLUMNS}}\r")
        sys.stderr.flush()


class CellBar:
    """An output of the cell, replaced while the operation runs and empty at its end.

    For front ends that show widgets in outputs alone: VS Code and Colab.
    """

    def __init__(self) -> None:
        self._shown: Any = None

    def show(self, text: str) -> None:
        """Replace the output."""
        if self._shown is None:
            from IPython.display import display

            self._shown = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self._shown.update({"text/plain": text}, raw=True)

    def close(self) -> None:
        """Empty the output: the front end would keep the last text."""
        if self._shown is not None:
            self.show("")


class ProgressBar:
    """Watches operations of the main thread and shows a bar for the outermost one.

    If that one has no parts to count, it shows what is under way within it: ``deploying · starting Spark: 00:05``.

    Args:
        open_output: returns the output of a bar, or None if nobody watches; called when a bar is due.
    """

    def __init__(self, open_output: Callable[[], BarOutput | None]) -> None:
        self._open_output = open_output
        self._under_way: list[_Operation] = []

    @contextmanager
    def __call__(self, unit: str, total: int | None, look: Poll | None = None) -> Iterator[Advance]:
        """Show a bar from half a second until the block ends; nested operations change its text."""
        operation = _Operation(unit, total, look)
        # A browser cannot start threads, and the background threads of queries show no bar.
        if sys.platform == "emscripten" or current_thread() is not main_thread():
            yield operation.add
            return
        over = Event()
        is_first = not self._under_way
        self._under_way.append(operation)
        painter = background(partial(self._paint, over), "kstreamnb bar") if is_first else None
        try:
            yield operation.add
        finally:
            self._under_way.remove(operation)
            if painter is not None:
                over.set()
                painter.join()

    def _text(self, passed: float) -> str:
        """Return the outermost operation and those within it, up to the first that counts its parts."""
        from tqdm import tqdm

        names: list[str] = []
        for operation in [*self._under_way]:
            number, total = operation.look()
            if total is not None or number:
                before = "".join(f"{name} · " for name in names)
                speed = number / passed if passed else 0
                return before + tqdm.format_meter(
                    number, total, passed, ncols=_COLUMNS - len(before), unit=operation.unit,
                    bar_format=_COUNT if total is None or number > total else _METER,
                    postfix=f"{speed:,.0f} {operation.unit}/s" if speed >= 1 else None,
                )  # fmt: skip
            names.append(operation.unit)
            if operation.counts:
                break
        return f"{' · '.join(names)}: {tqdm.format_interval(passed)}"

    def _paint(self, over: Event) -> None:
        began = time.monotonic()
        if over.wait(_SHORT_S) or (output := self._open_output()) is None:
            return
        with closing(output), suppress(Exception):  # an error of a broken source is the operation's to raise
            while not over.is_set():
                output.show(self._text(time.monotonic() - began))
                over.wait(_EVERY_S)


class _Operation:
    """An operation under way: its parts done and their total, unless ``look`` tells them."""

    def __init__(self, unit: str, total: int | None, look: Poll | None) -> None:
        self.unit, self.number, self.total = unit, 0, total
        self.look = look or (lambda: (self.number, self.total))
        self.counts = total is not None or look is not None

    def add(self, more: int) -> None:
        """Add finished parts."""
        self.number += more
