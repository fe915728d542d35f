"""The IPython extension: cells get identities, handles and errors a display, and ``%ks`` its verbs."""

from __future__ import annotations

import platform
import shutil
import sys
from typing import Any

from kstreamnb import __version__, hooks
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.declarations import Handle
from kstreamnb.errors import KStreamError
from kstreamnb.notebook.bars import Bars, Place, Terminal
from kstreamnb.notebook.builders import show_builder
from kstreamnb.notebook.cells import Cells, loaded
from kstreamnb.notebook.handles import HandleDisplay
from kstreamnb.notebook.rehearsing import NotebookRehearsal
from kstreamnb.notebook.tracebacks import Tracebacks
from kstreamnb.topology.topology import Topology

__all__ = ["load", "unload"]

_EVENTS = (("pre_run_cell", "started"), ("post_run_cell", "ended"))


def load(shell: Any) -> None:
    """Set everything up in a shell, and say so in one line; nothing is started."""
    if getattr(shell, "kstreamnb_cells", None) is not None:
        return
    cells = shell.kstreamnb_cells = Cells(shell)
    cells.joined(*_running(shell))
    for event, method in _EVENTS:
        shell.events.register(event, getattr(cells, method))
    loaded[:] = [cells]
    hooks.install(
        identities=cells,
        cell_of=cells.place,
        pre_deploy=NotebookRehearsal(shell),
        progress=Bars(lambda: _place_of_bars(cells)),
    )
    formatter = shell.display_formatter.mimebundle_formatter
    formatter.for_type(Handle, HandleDisplay(cells).bundle)
    formatter.for_type(StreamsBuilder, show_builder)
    tracebacks = Tracebacks(shell, cells)
    formatter.for_type(Topology, tracebacks.show_topology)
    KStreamError._render_traceback_ = lambda error: tracebacks.render(error)  # type: ignore[attr-defined]
    from kstreamnb.notebook.magics import KsMagics

    shell.register_magics(KsMagics)
    print(_line())  # noqa: T201 - the one line that loading prints


def unload(shell: Any) -> None:
    """Take everything back, but the magics, which IPython keeps."""
    cells = getattr(shell, "kstreamnb_cells", None)
    if cells is None:
        return
    for event, method in _EVENTS:
        shell.events.unregister(event, getattr(cells, method))
    loaded.clear()
    hooks.install(identities=None, cell_of=None, pre_deploy=None, progress=None)
    for shown in (Handle, StreamsBuilder, Topology):
        shell.display_formatter.mimebundle_formatter.pop(shown, None)
    del KStreamError._render_traceback_  # type: ignore[attr-defined]
    shell.kstreamnb_cells = None


def _place_of_bars(cells: Cells) -> Place | None:
    """The page of a front end that says which cell runs, or a terminal; nowhere where nobody watches."""
    if not cells.ids_are_sent:
        return Terminal() if sys.stderr.isatty() else None
    from kstreamnb.notebook.widgets.line import Line

    return Line()


def _running(shell: Any) -> tuple[str, int]:
    """The text and number of the cell that loads the extension: its other lines are part of the notebook too."""
    entered = shell.history_manager.input_hist_raw
    return str(entered[-1]), len(entered) - 1


def _line() -> str:
    import IPython

    java = "Java found" if shutil.which("java") else "no Java: replays work, deployment to Spark needs Java 17"
    return (
        f"kstreamnb {__version__}, Python {platform.python_version()}, IPython {IPython.__version__}, {java}; "
        "Spark logs: %ks logs"
    )
