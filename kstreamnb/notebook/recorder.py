"""The recorder: executes a notebook and keeps of its outputs what every later run gives again.

nbval compares the outputs of a later run with these, one by one. Three kinds of output cannot be compared so: what is
updated in place, what is cleared, and what an ``Output`` widget catches (nbval sees every frame of them, a reader only
the last). Their cells get nbval's own tag ``nbval-ignore-output``: they run and are shown, but are not compared.
"""

from __future__ import annotations

import os
import re
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbformat import NotebookNode

__all__ = ["SANITIZERS", "START_S", "NotebookRecorder", "quiet_environment"]

SANITIZERS = Path(__file__).with_name("sanitizers.cfg")

_IGNORE = "nbval-ignore-output"
_WIDGET = "application/vnd.jupyter.widget-view+json"
_REWRITTEN = ("kernel files", "addresses")
_TIMEOUT_S = 300
_OUTPUT_S = 60  # nbclient gives a busy machine 4 s, and leaves out what comes later
START_S = 300


class NotebookRecorder(NotebookClient):
    """Executes a notebook in a folder and tidies its outputs; `live` says which cells are not compared, and why."""

    def __init__(self, notebook: NotebookNode, folder: Path) -> None:
        super().__init__(
            notebook,
            timeout=_TIMEOUT_S,
            startup_timeout=START_S,
            iopub_timeout=_OUTPUT_S,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
            extra_arguments=["--log-level=40"],
        )
        self.live: dict[int, str] = {}

    def record(self) -> None:
        """Execute every cell and leave the outputs in the notebook.

        Raises: nbclient's own error when a cell fails that does not have the tag ``raises-exception``.
        """
        for cell in self.nb.cells:
            _untag(cell)
        self.execute(env=quiet_environment())
        self.nb.metadata = NotebookNode(
            kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
            language_info={"name": "python"},
        )
        for index, cell in enumerate(self.nb.cells):
            cell.metadata.pop("execution", None)
            if cell.cell_type == "code":
                cell.outputs = _tidied(cell.outputs)
            if index in self.live:
                _tag(cell, self.live[index])

    # --- what the kernel says while it runs ---
    def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> NotebookNode | None:
        """Take one message of the kernel, noting what nbval could not compare."""
        kind = msg["msg_type"]
        if kind == "update_display_data":
            display = (msg["content"].get("transient") or {}).get("display_id")
            for shown_in in self._display_id_map.get(display, {cell_index: []}):
                self.live.setdefault(shown_in, "is updated in place")
        elif kind == "clear_output":
            self.live.setdefault(cell_index, "is cleared")
        elif kind in ("stream", "display_data", "execute_result") and self._is_caught(msg):
            self.live.setdefault(cell_index, "goes into an Output widget")
        return super().process_message(msg, cell, cell_index)

    def _is_caught(self, message: dict[str, Any]) -> bool:
        return bool(self.output_hook_stack[message["parent_header"].get("msg_id")])


def quiet_environment() -> dict[str, str]:
    """A kernel that asks no debugger for validation, which would write a warning into the first cell."""
    return {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def _tag(cell: NotebookNode, reason: str) -> None:
    tags = cell.metadata.setdefault("tags", [])
    if _IGNORE not in tags:
        tags.append(_IGNORE)
        cell.metadata["kstreamnb"] = {"not compared": f"the output {reason}"}


def _untag(cell: NotebookNode) -> None:
    """Take away the tag of an earlier recording; one that the author set stays."""
    if cell.metadata.pop("kstreamnb", None) is not None:
        cell.metadata.tags.remove(_IGNORE)
        if not cell.metadata.tags:
            del cell.metadata["tags"]


def _tidied(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Outputs with neighbouring streams in one, without widgets' ids, addresses and names of kernel files.

    How a kernel cuts what is printed into pieces depends on how fast it runs.
    """
    kept: list[NotebookNode] = []
    for output in outputs:
        before = kept[-1] if kept else None
        if before is not None and output.output_type == before.output_type == "stream" and output.name == before.name:
            before.text += output.text
        else:
            output.get("data", {}).pop(_WIDGET, None)  # nobody saves its state; the other forms stay
            kept.append(output)
    rewrites = _rewrites()
    return [NotebookNode({name: _rewritten(part, rewrites) for name, part in output.items()}) for output in kept]


def _rewrites() -> list[tuple[re.Pattern[str], str]]:
    """The sanitisers that also hold for what is saved: the others would take pictures and versions away."""
    parser = RawConfigParser()
    parser.read(SANITIZERS, encoding="utf-8")
    return [(re.compile(parser[name]["regex"]), parser[name]["replace"]) for name in _REWRITTEN]


def _rewritten(part: Any, rewrites: list[tuple[re.Pattern[str], str]]) -> Any:
    if isinstance(part, dict):
        return NotebookNode({name: _rewritten(each, rewrites) for name, each in part.items()})
    if isinstance(part, list):
        return [_rewritten(each, rewrites) for each in part]
    if isinstance(part, str):
        for pattern, replacement in rewrites:
            part = pattern.sub(replacement, part)
    return part
