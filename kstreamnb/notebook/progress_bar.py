"""Progress bars for long operations: one at a time, only if somebody watches, none for operations under half a second.

In a notebook the bar is a line in a corner of the page and not part of a cell's output, so saved outputs, and those
that nbval compares, do not depend on how long an operation took.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from threading import Event
from typing import Protocol

from kstreamnb.background import background
from kstreamnb.core.progress import Done, Look

_SHORT_S, _EVERY_S = 0.5, 0.2
_COLUMNS = 78


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


class ProgressBar:
    """Watches operations and shows a bar for the outermost one.

    Args:
        open_output: returns the output of a bar, or None if nobody watches; called when a bar is due.
    """

    def __init__(self, open_output: Callable[[], BarOutput | None]) -> None:
        self._open_output = open_output
        self._is_busy = False

    @contextmanager
    def __call__(self, unit: str, total: int | None, look: Look | None = None) -> Iterator[Done]:
        """Show a bar from half a second until the block ends; nested operations have none."""
        counter = _Counter(total)
        if self._is_busy or sys.platform == "emscripten":  # a browser cannot start threads
            yield counter.add
            return
        over = Event()
        self._is_busy = True
        painter = background(partial(self._paint, unit, look or counter.look, over), "kstreamnb bar")
        try:
            yield counter.add
        finally:
            over.set()
            painter.join()
            self._is_busy = False

    def _paint(self, unit: str, look: Look, over: Event) -> None:
        began = time.monotonic()
        if over.wait(_SHORT_S) or (output := self._open_output()) is None:
            return
        from tqdm import tqdm

        with closing(output), suppress(Exception):  # an error of a broken source is the operation's to raise
            while not over.is_set():
                (number, total), passed = look(), time.monotonic() - began
                if total is None and number == 0:
                    output.show(f"{unit}: {tqdm.format_interval(passed)}")
                else:
                    output.show(tqdm.format_meter(number, total, passed, ncols=_COLUMNS, unit=f" {unit}"))
                over.wait(_EVERY_S)


class _Counter:
    """Parts done, and their total."""

    def __init__(self, total: int | None) -> None:
        self.number, self.total = 0, total

    def look(self) -> tuple[int, int | None]:
        """Return the parts done and their total."""
        return self.number, self.total

    def add(self, more: int) -> None:
        """Add finished parts."""
        self.number += more
