"""An IPython shell in this process, in which tests run cells as a front end does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

_CONFIG = Config(HistoryManager={"hist_file": ":memory:"})
"""The history in a file takes longer than most cells, and the user's own would get the cells of tests."""


@cache
def _folder() -> TemporaryDirectory[str]:
    """Return the folder of IPython's profile, which is removed when this process ends."""
    return TemporaryDirectory(prefix="ipython-")


def new_shell() -> InteractiveShell:
    """Return a shell of IPython that needs no home of the user."""
    return InteractiveShell.instance(ipython_dir=_folder().name, config=_CONFIG)


class Shell:
    """Runs cells, with ids as JupyterLab sends them or without as a console does."""

    def __init__(self) -> None:
        self.ip = InteractiveShell(ipython_dir=_folder().name, config=_CONFIG)

    def run(self, source: str, cell: str | None = None) -> str:
        """Run a cell and give what it prints and shows as text; an error of the cell is shown, not raised."""
        with capture_output() as captured:
            self.ip.run_cell(source, store_history=True, cell_id=cell)
        shown = "".join(str(output.data.get("text/plain", "")) for output in captured.outputs)
        return str(captured.stdout) + str(captured.stderr) + shown

    def value(self, name: str) -> Any:
        """Return the value of a variable."""
        return self.ip.user_ns[name]


@contextmanager
def loaded_shell() -> Iterator[Shell]:
    """A shell with the extension, which is unloaded at the end."""
    shell = Shell()
    shell.run("%load_ext kstreamnb\nimport kstreamnb as ks", "load")
    try:
        yield shell
    finally:
        shell.run("%unload_ext kstreamnb")
        shell.ip.history_manager.end_session()
        shell.ip.history_manager.enabled = False
        InteractiveShell.clear_instance()
