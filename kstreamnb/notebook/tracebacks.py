"""Tracebacks of the kit's errors: the user's frames, the message and its notes; ``%ks traceback`` shows the rest.

The node in which a function failed stands out in the next picture of its topology.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Collection
from pathlib import Path
from typing import Any

from kstreamnb.core.source_location import origin_of
from kstreamnb.display import Overlay, graph_view, mimebundle
from kstreamnb.errors import KStreamError
from kstreamnb.notebook.cells import Cells
from kstreamnb.topology.topology import Topology

__all__ = ["Tracebacks", "whole_traceback"]

_PACKAGE = str(Path(__file__).parent.parent)
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_CLASH = 'each execution counts as a new cell here: take an earlier one back with builder.forget("cell …")'


class Tracebacks:
    """Renders errors for one shell, and keeps the last one whole."""

    def __init__(self, shell: Any, cells: Cells) -> None:
        self.shell, self.cells = shell, cells
        self._failed = ""

    def show_topology(
        self, topology: Topology, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """Every form of a topology; the node of the last error is marked once."""
        if self._failed not in topology.nodes:
            return mimebundle(topology, include, exclude)
        view = graph_view(topology.description(), Overlay(marks={self._failed: "failed"}))
        self._failed = ""
        return mimebundle(view, include, exclude)

    def render(self, error: KStreamError) -> list[str]:
        """The lines that IPython prints instead of a whole traceback."""
        self.shell.kstreamnb_error = error
        self._failed = getattr(error, "node", "")
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
        if frame.filename.startswith((_PACKAGE, "<kstreamnb", "<frozen", *_LIBRARIES)):
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
