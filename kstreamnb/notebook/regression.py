"""Regression notebooks: executed, with their outputs as the reference that later runs are compared with."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbclient.exceptions import CellExecutionError

from kstreamnb.core.formatting import pluralize
from kstreamnb.core.progress import under_way
from kstreamnb.errors import EngineError
from kstreamnb.notebook.recorder import SANITIZERS, START_S, NotebookRecorder, quiet_environment
from kstreamnb.notebook.saving import CellRun, portable

__all__ = ["check", "record", "sanitizers", "save_cells"]

_NOTHING = 5  # what pytest ends with when it found no test
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def record(path: Path | str) -> tuple[str, ...]:
    """Execute a notebook in its folder and write its outputs into it as the reference.

    Execution counts and outputs follow from the notebook alone, so recording twice gives the same file.

    Returns: a sentence for every cell that later runs are not compared with, because its output changes while it runs.

    Raises: EngineError when a cell fails that does not have the tag ``raises-exception``.
    """
    place = Path(path)
    return _recorded(nbformat.read(place, as_version=4), place)


def save_cells(path: Path | str, cells: Iterable[CellRun | str]) -> tuple[str, ...]:
    """Write cells as a notebook, execute it from the top, and keep the outputs as the reference.

    Cells that reach for Spark or Kafka are left out, with what needs their results, for the notebook is to run
    anywhere; samples that they captured stay, as text or in a file beside the notebook.

    Returns: sentences on what was left out, what was kept, and what later runs are not compared with.
    """
    runs = [CellRun(cell) if isinstance(cell, str) else cell for cell in cells]
    sources, told = portable(runs, Path(path))
    told.append(
        f"{Path(path).name}: {pluralize(len(sources), 'cell')} with what they show, for pytest --nbval to compare with"
    )
    made = [nbformat.v4.new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(sources, 1)]
    return (*told, *_recorded(nbformat.v4.new_notebook(cells=made), Path(path)))


def check(*places: Path | str) -> None:
    """Run notebooks, or all of a folder, and compare their outputs with the reference.

    Raises: EngineError when one differs, with what pytest said.
    """
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-W", "default", "--color=no", "--nbval"]
    where = ["--nbval-sanitize-with", str(sanitizers()), "--nbval-current-env", "--import-mode=importlib"]
    patience = f"--nbval-kernel-startup-timeout={START_S}"
    paths = [Path(place).resolve() for place in places]
    root = os.path.commonpath([path.parent for path in paths])  # notebooks are named from here
    command = [sys.executable, "-m", "pytest", *options, *where, patience, "--rootdir", root, *map(str, paths)]
    with under_way("running notebooks"):
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=quiet_environment())
    if ended.returncode == _NOTHING:
        raise EngineError("there is no notebook to check", detail=f"in {', '.join(map(str, places))}")
    if ended.returncode != 0:
        said = _COLOURS.sub("", ended.stdout + ended.stderr).strip()
        raise EngineError("a notebook differs from its reference", detail=said)


def sanitizers() -> Path:
    """The file for ``--nbval-sanitize-with``: what may differ between two machines and means nothing."""
    return SANITIZERS


def _recorded(notebook: nbformat.NotebookNode, place: Path) -> tuple[str, ...]:
    recorder = NotebookRecorder(notebook, place.parent)
    try:
        with under_way("cells", sum(cell.cell_type == "code" for cell in notebook.cells)) as done:
            recorder.on_cell_executed = lambda **_: done(1)
            recorder.record()
    except CellExecutionError as error:
        said = _COLOURS.sub("", str(error)).strip()
        raise EngineError(f'a cell of "{place.name}" fails', detail=said) from None  # it says all that the error does
    text = nbformat.writes(nbformat.validator.normalize(notebook)[1]).rstrip() + "\n"
    place.write_text(text, encoding="utf-8")
    counts = {index: cell.get("execution_count") for index, cell in enumerate(notebook.cells)}
    return tuple(
        f"cell {counts[index]} is not compared: its output {reason}" for index, reason in sorted(recorder.live.items())
    )
