"""Tracebacks of the kit's errors: the user's frames, the message and its notes; ``%ks traceback`` shows the rest."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from kstreamnb.core.origin import origin_of
from kstreamnb.errors import KStreamError
from kstreamnb.notebook.cells import Cells

__all__ = ["Tracebacks", "whole_traceback"]

_PACKAGE = str(Path(__file__).parent.parent)
_IPYTHON = ("/IPython/", "/ipykernel/", "\\IPython\\", "\\ipykernel\\")
_CLASH = 'each execution counts as a new cell here: take an earlier one back with builder.forget("cell …")'


class Tracebacks:
    """Renders errors for one shell, and keeps the last one whole."""

    def __init__(self, shell: Any, cells: Cells) -> None:
        self.shell, self.cells = shell, cells

    def render(self, error: KStreamError) -> list[str]:
        """The lines that IPython prints instead of a whole traceback."""
        self.shell.kstreamnb_error = error
        lines = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
        if not self.cells.ids_are_sent and "already" in f"{error} {error.java}":
            lines.append(f"Hint: {_CLASH}")
        cause = error.__cause__
        if cause is not None:
            lines += ["", "Caused by:", *_frames(cause), f"{type(cause).__name__}: {cause}"]
        return [*_frames(error), *lines]


def _frames(error: BaseException) -> list[str]:
    """The user's frames, outermost first; a file by its name, never by its folder."""
    frames = traceback.extract_tb(error.__traceback__)
    shown = []
    for frame in frames:
        if frame.filename.startswith((_PACKAGE, "<frozen")) or any(part in frame.filename for part in _IPYTHON):
            continue
        origin = origin_of(frame.filename, frame.lineno or 0)
        where = f" in {frame.name}" if frame.name != "<module>" else ""
        shown += [f"  {origin.place}, line {origin.line}{where}", f"    {frame.line or origin.code}"]
    return shown


def whole_traceback(shell: Any) -> str:
    """The last error of the kit with every frame."""
    error = getattr(shell, "kstreamnb_error", None)
    if error is None:
        return "no error of the kit so far"
    return "".join(traceback.format_exception(error)).rstrip()
