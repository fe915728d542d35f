"""Regression notebooks: executed, with their outputs as the reference for later runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from html import unescape
from pathlib import Path
from typing import Any

import nbformat
from nbclient.exceptions import CellExecutionError

from kstreamnb.core.formatting import pluralize
from kstreamnb.core.progress import under_way
from kstreamnb.errors import ConfigError, EngineError
from kstreamnb.notebook.portable_cells import CellRun, portable
from kstreamnb.notebook.recorder import (
    OUTPUT_S,
    SANITIZERS,
    START_S,
    IpcKernelManager,
    NotebookRecorder,
    quiet_environment,
)
from kstreamnb.notebook.scheduling import pytest_xdist_make_scheduler as pytest_xdist_make_scheduler

_NO_TESTS = 5  # pytest's exit code when it collected nothing
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_BETWEEN_CELLS = re.compile(r"</t[dh]>\s*(?=<t[dh])")
_LINE_ENDS = re.compile(r"</(?:tr|p|li|caption|div|pre)>|<br\s*/?>")
_NO_TEXT = re.compile(r"<style.*?</style>|<svg.*?</svg>|<[^>]*>", re.DOTALL)


def record(path: Path | str) -> tuple[str, ...]:
    """Execute a notebook in its folder and write its outputs into it as the reference.

    Execution counts and outputs depend on the notebook alone, so recording twice gives the same file.

    Returns: a sentence for every cell whose output changes while it runs and is therefore not compared.

    Raises: EngineError when a cell without the tag ``raises-exception`` fails.
    """
    file = Path(path)
    return _recorded(_read(file), file, twice=False)


def save_cells(path: Path | str, cells: Iterable[CellRun | str]) -> tuple[str, ...]:
    """Write cells as a notebook, execute it twice from the top, and keep the first outputs as the reference.

    Cells that need Spark or Kafka are left out, with those that need their results, so that the notebook runs
    anywhere; their captured samples are kept, as text or in a file beside the notebook.

    Returns: sentences on what was left out, kept, and excluded from comparison.
    """
    runs = [CellRun(cell) if isinstance(cell, str) else cell for cell in cells]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    sources, notes = portable(runs, Path(path))
    kept = f"{pluralize(len(sources), 'cell')} and their outputs"
    notes.append(f"{Path(path).name}: {kept}, as the reference of pytest --nbval")
    made = [nbformat.v4.new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(sources, 1)]
    return (*notes, *_recorded(nbformat.v4.new_notebook(cells=made), Path(path), twice=True))


def check(*places: Path | str) -> None:
    """Run notebooks, or all in a folder, and compare their outputs with the reference.

    Raises: EngineError with pytest's output when one differs, or when one was never recorded.
    """
    options = f"-q -p no:cacheprovider -p {__name__} -o addopts= -W default --color=no --nbval".split()
    where = ["--nbval-sanitize-with", str(SANITIZERS), "--nbval-current-env", "--import-mode=importlib"]
    patience = f"--nbval-kernel-startup-timeout={START_S}"
    paths = [Path(place).resolve() for place in places]
    _refuse_unrecorded(file for path in paths for file in (path.rglob("*.ipynb") if path.is_dir() else [path]))
    root = os.path.commonpath([path.parent for path in paths])  # notebooks are named from here
    command = [sys.executable, "-m", "pytest", *options, *where, patience, "--rootdir", root, *map(str, paths)]
    with under_way("running notebooks"):
        environment = quiet_environment() | {"PYTHONIOENCODING": "utf-8"}  # on Windows, pipes lack many characters
        ended = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, env=environment)
    if ended.returncode == _NO_TESTS:
        raise EngineError("no notebook to check", detail=f"in {', '.join(map(str, places))}")
    if ended.returncode != 0:
        output = _COLOURS.sub("", ended.stdout + ended.stderr).strip()
        raise EngineError("a notebook differs from its reference", detail=output)


def _read(file: Path) -> nbformat.NotebookNode:
    try:
        return nbformat.read(file, as_version=4)
    except (ValueError, nbformat.ValidationError) as error:
        detail = str(error).partition("\n")[0]
        raise ConfigError(f'file "{file.name}" is not a notebook', detail=detail) from error


def _refuse_unrecorded(files: Iterable[Path]) -> None:
    """Raise EngineError for a notebook without outputs: nbval compares no cell that was never executed."""
    for file in files:
        if file.suffix != ".ipynb" or ".ipynb_checkpoints" in file.parts:
            continue
        cells = [cell for cell in _read(file).cells if cell.cell_type == "code"]
        if cells and all(cell.execution_count is None for cell in cells):
            detail = "none of its cells was executed; tools such as nbstripout and jupytext remove outputs"
            hint = f"restore the outputs, or run kstreamnb notebook record {file.name}"
            raise EngineError(f'"{file.name}" has no recorded outputs', detail=detail, hint=hint)


def pytest_configure() -> None:
    """Let the kernels of nbval listen on Unix sockets."""
    import nbval.kernel

    nbval.kernel.KernelManager = IpcKernelManager


def pytest_itemcollected(item: Any) -> None:
    """Let the cells of nbval wait for their outputs as long as the recorder does."""
    if hasattr(item, "output_timeout"):
        item.output_timeout = OUTPUT_S


def pytest_exception_interact(node: Any, report: Any) -> None:
    """Add the rows that differ to the report of a notebook's cell that nbval compared."""
    if outputs := getattr(node, "test_outputs", None):
        old, new = ([node.sanitize(line) for line in _lines(each)] for each in (node.cell.outputs, outputs))
        if difference := "\n".join(unified_diff(old, new, "reference", "this run", n=1, lineterm="")):
            report.sections.append(("rows that differ", difference))


def _lines(outputs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the outputs of a cell as lines of text, of HTML its visible text with a line for each row."""
    texts = []
    for output in outputs:
        data = output.get("data", {})
        page = _LINE_ENDS.sub("\n", _BETWEEN_CELLS.sub(" | ", data.get("text/html", "")))
        texts.append(unescape(_NO_TEXT.sub("", page)) or data.get("text/plain", output.get("text", "")))
    return [line.strip() for text in texts for line in text.splitlines() if line.strip()]


def _recorded(notebook: nbformat.NotebookNode, path: Path, *, twice: bool) -> tuple[str, ...]:
    recorder = NotebookRecorder(notebook, path.parent)
    try:
        with under_way("cells", sum(cell.cell_type == "code" for cell in notebook.cells)) as done:
            recorder.on_cell_executed = lambda **_: done(1)
            recorder.record(twice=twice)
    except CellExecutionError as error:
        output = _COLOURS.sub("", str(error)).strip()
        raise EngineError(f'a cell of "{path.name}" fails', detail=output) from None  # the detail repeats it
    text = nbformat.writes(nbformat.validator.normalize(notebook)[1]).rstrip() + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")
    counts = {index: cell.get("execution_count") for index, cell in enumerate(notebook.cells)}
    live = sorted(recorder.live.items())
    return tuple(f"cell {counts[index]} is not compared: its output {reason}" for index, reason in live)
