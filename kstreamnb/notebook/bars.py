"""Bars for actions that take long: one at a time, where somebody watches, and none for what is over at once.

In a notebook the bar is a line in a corner of the page and no output of a cell: what is saved, and what nbval compares,
does not depend on how long something took.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from threading import Event, Thread
from typing import Protocol

from kstreamnb.core.progress import Done, Look

__all__ = ["Bars", "Place", "Terminal"]

_SHORT_S, _EVERY_S = 0.5, 0.2
_COLUMNS = 78


class Place(Protocol):
    """Where one bar is seen."""

    def show(self, text: str) -> None:
        """Replace what is seen."""

    def close(self) -> None:
        """Leave nothing behind."""


class Terminal:
    """The line of standard error on which the cursor stands."""

    def show(self, text: str) -> None:
        """Write over the line."""
        sys.stderr.write(f"\r{text:{_COLUMNS}}")
        sys.stderr.flush()

    def close(self) -> None:
        """Take the line away."""
        sys.stderr.write(f"\r{'':{_COLUMNS}}\r")
        sys.stderr.flush()


class Bars:
    """Watches actions, and shows a bar for the outermost one.

    Args:
        open_place: opens the place of a bar; None when nobody watches just now. Asked when a bar is due.
    """

    def __init__(self, open_place: Callable[[], Place | None]) -> None:
        self._open_place = open_place
        self._is_busy = False

    @contextmanager
    def __call__(self, unit: str, total: int | None, look: Look | None = None) -> Iterator[Done]:
        """A bar from half a second on until the block ends; an action within another one has none."""
        counted = _Counted(total)
        if self._is_busy:
            yield counted.add
            return
        over = Event()
        painter = Thread(target=self._paint, args=(unit, look or counted.look, over), name="kstreamnb bar", daemon=True)
        self._is_busy = True
        painter.start()
        try:
            yield counted.add
        finally:
            over.set()
            painter.join()
            self._is_busy = False

    def _paint(self, unit: str, look: Look, over: Event) -> None:
        began = time.monotonic()
        if over.wait(_SHORT_S) or (place := self._open_place()) is None:
            return
        from tqdm import tqdm

        with closing(place), suppress(Exception):  # what can be asked no more is told by the action itself
            while not over.is_set():
                (number, total), passed = look(), time.monotonic() - began
                if total is None and number == 0:
                    place.show(f"{unit}: {tqdm.format_interval(passed)}")
                else:
                    place.show(tqdm.format_meter(number, total, passed, ncols=_COLUMNS, unit=f" {unit}"))
                over.wait(_EVERY_S)


class _Counted:
    """How many parts are done, of how many."""

    def __init__(self, total: int | None) -> None:
        self.number, self.total = 0, total

    def look(self) -> tuple[int, int | None]:
        """What the bar shows."""
        return self.number, self.total

    def add(self, more: int) -> None:
        """So many more are done."""
        self.number += more
