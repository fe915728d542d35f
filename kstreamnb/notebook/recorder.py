"""Executes a notebook and keeps the outputs that every later run reproduces.

nbval compares the outputs of a later run with these, one by one. Three kinds of output cannot be compared: those
updated in place, cleared, or captured by an ``Output`` widget (nbval sees every frame, a reader only the last one).
Their cells get nbval's tag ``nbval-ignore-output``: they run and are shown, but not compared.
"""

from __future__ import annotations

import os
import re
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbformat import NotebookNode

SANITIZERS = Path(__file__).with_name("sanitizers.cfg")

_IGNORE = "nbval-ignore-output"
_WIDGET = "application/vnd.jupyter.widget-view+json"
_REWRITTEN = ("kernel files", "addresses")
_TIMEOUT_S = 300
_OUTPUT_S = 60  # nbclient's default of 4 s loses later outputs on a busy machine
START_S = 300


class NotebookRecorder(NotebookClient):
    """Executes a notebook in a folder and normalizes its outputs; `live` names the cells not compared, and why."""

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

    # --- messages of the kernel ---
    def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> NotebookNode | None:
        """Handle one message of the kernel, noting what nbval could not compare."""
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
    """Return an environment in which the debugger prints no warning into the first cell."""
    return {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def _tag(cell: NotebookNode, reason: str) -> None:
    tags = cell.metadata.setdefault("tags", [])
    if _IGNORE not in tags:
        tags.append(_IGNORE)
        cell.metadata["kstreamnb"] = {"not compared": f"the output {reason}"}


def _untag(cell: NotebookNode) -> None:
    """Remove the tag of an earlier recording; a tag set by the author stays."""
    if cell.metadata.pop("kstreamnb", None) is not None:
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
    rewrites = _rewrites()
    return [NotebookNode({name: _rewritten(part, rewrites) for name, part in output.items()}) for output in kept]


def _rewrites() -> list[tuple[re.Pattern[str], str]]:
    """Return the sanitizers that also apply to saved outputs: the others would remove pictures and versions."""
    parser = RawConfigParser()
    parser.read(SANITIZERS, encoding="utf-8")
    return [(re.compile(parser[name]["regex"]), parser[name]["replace"]) for name in _REWRITTEN]


def _rewritten(part: object, rewrites: list[tuple[re.Pattern[str], str]]) -> object:
    if isinstance(part, dict):
        return NotebookNode({name: _rewritten(each, rewrites) for name, each in part.items()})
    if isinstance(part, list):
        return [_rewritten(each, rewrites) for each in part]
    if isinstance(part, str):
        for pattern, replacement in rewrites:
            part = pattern.sub(replacement, part)
    return part
