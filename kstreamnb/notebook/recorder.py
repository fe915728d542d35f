"""Executes a notebook and keeps the outputs that every later run reproduces.

nbval compares the outputs of a later run with these, one by one. Four kinds of output cannot be compared: those
updated in place, cleared, or captured by an ``Output`` widget (nbval sees every frame, a reader only the last one), and
those that differ from run to run, found by a second run. Their cells get nbval's tag ``nbval-ignore-output``: they run
and are shown, but not compared.
"""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from configparser import RawConfigParser
from copy import deepcopy
from itertools import zip_longest
from pathlib import Path
from typing import Any

from jupyter_client.manager import AsyncKernelManager, KernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

from kstreamnb.core.formatting import format_value

SANITIZERS = Path(__file__).with_name("sanitizers.cfg")
"""The file for ``--nbval-sanitize-with``: differences between machines that mean nothing."""

_IGNORE = "nbval-ignore-output"
_WIDGET = "application/vnd.jupyter.widget-view+json"
_REWRITTEN = ("kernel files", "addresses")
_DIFFERS = "differs from run to run"
_UNCOMPARED = ("image/png", "image/jpeg", "execution_count", "traceback")  # as in nbval
_TIMEOUT_S = 300
OUTPUT_S = 60  # the defaults of nbclient and nbval, 4 and 5 s, lose later outputs on a busy machine
START_S = 300
_LONGEST_FOLDER = 80  # of a socket: macOS allows paths of 103 bytes, and the names have up to 23


class IpcKernelManager(KernelManager):
    """Starts a kernel that listens on Unix sockets.

    A kernel binds the TCP ports that its manager found free, and ends if another process has bound one meanwhile.
    """

    def __init__(self, **options: Any) -> None:
        if os.name == "posix" and len(os.fsencode(tempfile.gettempdir())) <= _LONGEST_FOLDER:
            handle, name = tempfile.mkstemp(".json", "kernel-")
            os.close(handle)
            options |= {"transport": "ipc", "connection_file": name}  # the sockets are named after the file
        super().__init__(**options)


class AsyncIpcKernelManager(IpcKernelManager, AsyncKernelManager):
    """The same for a client that awaits its kernel."""


class NotebookRecorder(NotebookClient):
    """Executes a notebook in a folder and normalizes its outputs; `live` names the cells not compared, and why."""

    def __init__(self, notebook: NotebookNode, folder: Path | str) -> None:
        super().__init__(
            notebook,
            timeout=_TIMEOUT_S,
            startup_timeout=START_S,
            iopub_timeout=OUTPUT_S,
            kernel_name="python3",
            kernel_manager_class=AsyncIpcKernelManager,
            resources={"metadata": {"path": str(folder)}},
            extra_arguments=["--log-level=40"],
        )
        self.live: dict[int, str] = {}

    def record(self, *, twice: bool = False) -> None:
        """Execute every cell and leave the outputs in the notebook.

        Args:
            twice: execute them in another kernel, too, and mark cells with another output there.

        Raises: nbclient's own error when a cell fails that does not have the tag ``raises-exception``.
        """
        for cell in self.nb.cells:
            _untag(cell)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Proactor event loop", RuntimeWarning)  # of Windows, which needs a thread
            if twice:
                self._mark_differing()
            else:
                self._run()
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        self.nb.metadata = NotebookNode(kernelspec=kernel, language_info={"name": "python"})
        for index, reason in self.live.items():
            _tag(self.nb.cells[index], reason.partition(":")[0])

    def _run(self) -> None:
        """Execute the cells and tidy their outputs."""
        self.execute(env=quiet_environment())
        for cell in self.nb.cells:
            cell.metadata.pop("execution", None)
            if cell.cell_type == "code":
                cell.outputs = _tidied(cell.outputs)

    def _mark_differing(self) -> None:
        """Execute the cells in two kernels, the second of which starts while the first one works."""
        second = NotebookRecorder(deepcopy(self.nb), self.resources["metadata"]["path"])
        second.create_kernel_manager()
        unseeded = {name: text for name, text in quiet_environment().items() if name != "PYTHONHASHSEED"}
        second.start_new_kernel(env=unseeded)
        try:
            self._run()
            second._run()
        finally:
            if second.km is not None:
                second._cleanup_kernel()
        rewrites = _rewrites()
        for index, (one, other) in enumerate(zip(self.nb.cells, second.nb.cells, strict=True)):
            difference = next(_differences(one, other, rewrites), None)
            if difference is not None:
                self.live.setdefault(index, f"{_DIFFERS}: {' and '.join(map(format_value, difference))}")

    # --- messages of the kernel ---
    def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> NotebookNode | None:
        """Handle one message of the kernel, noting what nbval could not compare."""
        kind, is_caught = msg["msg_type"], self.output_hook_stack[msg["parent_header"].get("msg_id")]
        if kind == "update_display_data":
            display = (msg["content"].get("transient") or {}).get("display_id")
            for shown_in in self._display_id_map.get(display, {cell_index: []}):
                self.live.setdefault(shown_in, "is updated in place")
        elif kind == "clear_output":
            self.live.setdefault(cell_index, "is cleared")
        elif kind in ("stream", "display_data", "execute_result") and is_caught:
            self.live.setdefault(cell_index, "goes into an Output widget")
        return super().process_message(msg, cell, cell_index)


def quiet_environment() -> dict[str, str]:
    """Return an environment in which the debugger prints no warning into the first cell."""
    return {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def _tag(cell: NotebookNode, reason: str) -> None:
    tags = cell.metadata.setdefault("tags", [])
    if _IGNORE not in tags:
        tags.append(_IGNORE)
        cell.metadata["kstreamnb"] = {"not compared": f"the output {reason}"}


def _untag(cell: NotebookNode) -> None:
    """Remove the tag of an earlier recording; one set by the author or after two runs stays."""
    if _DIFFERS not in str(cell.metadata.get("kstreamnb")) and cell.metadata.pop("kstreamnb", None) is not None:
        cell.metadata.tags.remove(_IGNORE)
        if not cell.metadata.tags:
            del cell.metadata["tags"]


def _tidied(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Merge adjacent streams, and remove widget ids, addresses and names of kernel files.

    How a kernel splits printed text into messages depends on its speed.
    """
    kept: list[NotebookNode] = []
    for output in outputs:
        before = kept[-1] if kept else None
        if before is not None and output.output_type == before.output_type == "stream" and output.name == before.name:
            before.text += output.text
        else:
            output.get("data", {}).pop(_WIDGET, None)  # its state is not saved; the other forms stay
            kept.append(output)
    rewrites = _rewrites(*_REWRITTEN)
    return [NotebookNode({name: _rewritten(part, rewrites) for name, part in output.items()}) for output in kept]


def _compared(cell: NotebookNode) -> Iterator[str]:
    """Yield the parts of a cell's outputs that nbval compares, plain text first."""
    for output in cell.get("outputs", ()):
        forms = output.get("data", output)
        yield from (str(forms[name]) for name in sorted(forms, key="text/plain".__ne__) if name not in _UNCOMPARED)


def _differences(
    one: NotebookNode, other: NotebookNode, rewrites: list[tuple[re.Pattern[str], str]]
) -> Iterator[tuple[str | None, ...]]:
    """Yield the lines of two runs of a cell that nbval would find different."""
    for parts in zip_longest(_compared(one), _compared(other), fillvalue=""):
        if parts[0] != parts[1]:  # sanitizers take long on long lines
            lines = (str(_rewritten(part, rewrites)).splitlines() for part in parts)
            yield from (pair for pair in zip_longest(*lines) if pair[0] != pair[1])


def _rewrites(*names: str) -> list[tuple[re.Pattern[str], str]]:
    """Return sanitizers by name, by default all; some would remove pictures and versions from saved outputs."""
    parser = RawConfigParser()
    parser.read(SANITIZERS, encoding="utf-8")
    return [(re.compile(parser[name]["regex"]), parser[name]["replace"]) for name in names or parser.sections()]


def _rewritten(part: object, rewrites: list[tuple[re.Pattern[str], str]]) -> object:
    if isinstance(part, dict):
        return NotebookNode({name: _rewritten(each, rewrites) for name, each in part.items()})
    if isinstance(part, list):
        return [_rewritten(each, rewrites) for each in part]
    if isinstance(part, str):
        for pattern, replacement in rewrites:
            part = pattern.sub(replacement, part)
    return part
