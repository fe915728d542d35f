"""The IPython extension: cell tracking, displays of handles and errors, and the verbs of ``%ks``."""

from __future__ import annotations

import inspect
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from IPython import version_info
from IPython.display import display

import kstreamnb as ks
from kstreamnb import __version__, hooks
from kstreamnb.charts import BeforeAfter
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.declarations import Handle
from kstreamnb.errors import EngineError, KStreamError
from kstreamnb.notebook.builder_display import show_builder
from kstreamnb.notebook.cells import Cells, loaded
from kstreamnb.notebook.handle_display import show_handle
from kstreamnb.notebook.outputs import Parts, formatter, only_in_outputs, parts_of
from kstreamnb.notebook.progress_bar import BarOutput, CellBar, ProgressBar, TerminalBar
from kstreamnb.notebook.tracebacks import Tracebacks
from kstreamnb.recording.offset_table import OffsetTable
from kstreamnb.replays.analysis.run_profile import RunProfile
from kstreamnb.replays.replay import Replay
from kstreamnb.runtime.context.config import Config
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_EVENTS = (("pre_run_cell", "started"), ("post_run_cell", "ended"))
_SHOWN = (Handle, StreamsBuilder, Topology, Replay, RunProfile, OffsetTable, TopologyTestDriver, BeforeAfter)


def load(shell: InteractiveShell) -> None:
    """Set up a shell and print one line; starts no process."""
    if getattr(shell, "kstreamnb_cells", None) is not None:
        return
    cells = shell.kstreamnb_cells = Cells(shell)
    again = cells.joined([str(entered) for entered in shell.history_manager.input_hist_raw])
    for event, method in _EVENTS:
        shell.events.register(event, getattr(cells, method))
    loaded[:] = [cells]
    progress = ProgressBar(lambda: _bar_output(cells))
    hooks.install(identities=cells, cell_of=cells.place, pre_deploy=_check_parity, progress=progress)
    tracebacks = Tracebacks(shell, cells)
    shown: dict[type, Callable[[Any], Parts]] = {
        Handle: partial(show_handle, cells),
        StreamsBuilder: show_builder,
        Topology: tracebacks.parts_of_topology,
    }
    for kind in _SHOWN:
        bundles = shell.display_formatter.mimebundle_formatter
        bundles.for_type(kind, formatter(shell, shown.get(kind, parts_of)))
    shell.set_custom_exc((Exception,), tracebacks.show_python_error)
    KStreamError._render_traceback_ = lambda error: tracebacks.render(error)  # type: ignore[attr-defined]
    from kstreamnb.notebook.magics import KsMagics

    shell.register_magics(KsMagics)
    if version_info >= (8, 6):  # Colab has 7.34, without matchers of this kind
        from kstreamnb.notebook.completion import matcher_of

        shell.Completer.custom_matchers.append(matcher_of(shell))
    shell.builtin_trap.auto_builtins["help"] = _Help()
    print("\n".join(filter(None, [_line(), again])))  # noqa: T201 - the line that loading prints, and what to do


def _check_parity(topology: Topology, session: Any, config: Config, partitions: Mapping[str, int]) -> None:
    """Compare driver and Spark on the builder's sample, if it has one; raise EngineError if they disagree."""
    from kstreamnb.tools.parity import parity

    if (sample := topology.sample) is not None:
        result = parity(topology, sample, session, partitions=partitions, config=config)
        display(result)
        if not result.is_equal:
            hint = "deploy(…, parity=False) deploys anyway"
            raise EngineError("driver and Spark differ on the sample", detail=result.title, hint=hint)


def unload(shell: InteractiveShell) -> None:
    """Undo `load`, except for the magics, which IPython keeps."""
    cells = getattr(shell, "kstreamnb_cells", None)
    if cells is None:
        return
    for event, method in _EVENTS:
        shell.events.unregister(event, getattr(cells, method))
    loaded.clear()
    hooks.install(identities=None, cell_of=None, pre_deploy=None, progress=None)
    for kind in _SHOWN:
        shell.display_formatter.mimebundle_formatter.pop(kind, None)
    shell.set_custom_exc((), None)
    matchers = getattr(shell.Completer, "custom_matchers", [])
    matchers[:] = [each for each in matchers if not getattr(each, "matcher_identifier", "").startswith("kstreamnb.")]
    shell.builtin_trap.auto_builtins.pop("help", None)
    del KStreamError._render_traceback_  # type: ignore[attr-defined]
    shell.kstreamnb_cells = None


class _Help(type(help)):  # type: ignore[misc]
    """Python's ``help`` without the thousands of lines about all public names, which a notebook would show at once."""

    def __call__(self, *things: object, **options: object) -> None:
        if things in ((ks,), (ks.__name__,)):
            print(inspect.getdoc(ks))  # noqa: T201 - as Python's own
        else:
            super().__call__(*things, **options)


def _bar_output(cells: Cells) -> BarOutput | None:
    """Return where a bar is shown: on the page, in the output of the cell, or on the terminal; None for nowhere."""
    if only_in_outputs(cells):
        return CellBar()
    if not cells.ids_are_sent:
        return TerminalBar() if sys.stderr.isatty() else None
    from kstreamnb.notebook.widgets.status_line import StatusLine

    return StatusLine()


def _line() -> str:
    import IPython

    java = "Java found" if shutil.which("java") else "no Java: replays work, deployment to Spark needs Java 17"
    if sys.platform == "win32":
        java = "Windows: replays work, deployment to Spark needs WSL"
    python = f"Python {platform.python_version()}, IPython {IPython.__version__}"
    return f"kstreamnb {__version__}, {python}, {java}; Spark logs: %ks logs"
