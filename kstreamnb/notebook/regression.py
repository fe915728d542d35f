"""Regression notebooks: executed, with their outputs as the reference that later runs are compared with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from kstreamnb.errors import EngineError

__all__ = ["check", "record", "sanitizers", "save_cells"]

_TIMEOUT_S = 300


def record(path: Path | str) -> None:
    """Execute a notebook in its folder and write its outputs into it as the reference.

    Execution counts and outputs follow from the notebook alone, so recording twice gives the same file.

    Raises: nbclient's CellExecutionError when a cell fails.
    """
    place = Path(path)
    notebook = nbformat.read(place, as_version=4)
    _execute(notebook, place.parent)
    place.write_text(_text(notebook), encoding="utf-8")


def save_cells(path: Path | str, sources: Iterable[str]) -> None:
    """Write cells as a notebook, execute it from the top, and keep the outputs as the reference."""
    place = Path(path)
    kept = [source for source in sources if "save_regression" not in source]
    cells = [nbformat.v4.new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(kept, 1)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    _execute(notebook, place.parent)
    place.write_text(_text(notebook), encoding="utf-8")


def check(folder: Path | str) -> None:
    """Run every notebook of a folder and compare its outputs with the reference.

    Raises: EngineError when one differs, with what pytest said.
    """
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-W", "default", "--nbval"]
    where = ["--nbval-sanitize-with", str(sanitizers()), "--nbval-current-env", "--import-mode=importlib"]
    command = [sys.executable, "-m", "pytest", *options, *where, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    if ended.returncode != 0:
        raise EngineError("a notebook differs from its reference", detail=(ended.stdout + ended.stderr).strip())


def sanitizers() -> Path:
    """The file for ``--nbval-sanitize-with``: what may differ between two machines and means nothing."""
    return Path(__file__).with_name("sanitizers.cfg")


def _execute(notebook: nbformat.NotebookNode, folder: Path) -> None:
    client = NotebookClient(
        notebook, timeout=_TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=_environment())
    notebook.metadata = nbformat.NotebookNode(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python"},
    )
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)


def _environment() -> dict[str, str]:
    """A kernel that asks no debugger for validation, which would write a warning into the first cell."""
    return {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def _text(notebook: nbformat.NotebookNode) -> str:
    return nbformat.writes(nbformat.validator.normalize(notebook)[1]).rstrip() + "\n"
