"""Every notebook runs from top to bottom and gives its reference outputs, whatever the hash seed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter

from kstreamnb.errors import EngineError
from kstreamnb.notebook.regression import check, record, save_cells

_FOLDER = Path(__file__).parents[2] / "notebooks"
_NOTEBOOKS = sorted(_FOLDER.glob("*.ipynb"))

pytestmark = [pytest.mark.notebook]


def _outputs(path: Path) -> str:
    """The outputs of a notebook as text."""
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(nbformat.NotebookNode(cell).__repr__() for cell in cells if cell.cell_type == "code")


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_outputs_are_those_that_were_recorded(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nbval runs all notebooks with another hash seed."""
    monkeypatch.setenv("PYTHONHASHSEED", seed)
    check(_FOLDER)


@pytest.mark.parametrize("path", _NOTEBOOKS, ids=lambda path: path.stem)
def test_recording_again_gives_the_same_file(path: Path, tmp_path: Path) -> None:
    """Every byte of a recorded notebook follows from its cells and the versions that it names."""
    again = Path(shutil.copy(path, tmp_path))
    record(again)
    versions = re.compile(r"kstreamnb [0-9][^;]*; ")
    assert versions.sub("", path.read_text()) == versions.sub("", again.read_text())


@pytest.mark.parametrize("path", _NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_name_no_address_and_no_place_on_this_machine(path: Path) -> None:
    """No memory address, absolute path or kernel file stands in a reference."""
    assert not re.search(r"0x[0-9a-f]{6,}|/tmp/|/home/|/root/|ipykernel_\d", _outputs(path))


def test_a_changed_output_is_found(tmp_path: Path) -> None:
    """`check` names the notebook whose output is not the recorded one."""
    path = tmp_path / "sum.ipynb"
    save_cells(path, ["1 + 1"])
    check(tmp_path)
    path.write_text(path.read_text().replace('"2"', '"3"'))
    with pytest.raises(EngineError, match="differs from its reference") as raised:
        check(tmp_path)
    assert "sum.ipynb" in str(raised.value.detail)


def test_addresses_kernel_files_and_widgets_do_not_count(tmp_path: Path) -> None:
    """What differs between two runs and means nothing is left out of the comparison."""
    path = tmp_path / "traps.ipynb"
    save_cells(
        path,
        [
            "object()",
            "import warnings\nwarnings.warn('careful')",
            "import os; print(f'/tmp/ipykernel_{os.getpid()}/{os.getpid()}.py:1')",
            "%load_ext kstreamnb",
        ],
    )
    check(tmp_path)
    check(tmp_path)


def test_the_folder_has_a_map_of_its_notebooks() -> None:
    """The README links every notebook."""
    linked = re.findall(r"\]\((\S+\.ipynb)\)", (_FOLDER / "README.md").read_text())
    assert [path.name for path in _NOTEBOOKS] == linked


@pytest.mark.parametrize("path", _NOTEBOOKS, ids=lambda path: path.stem)
def test_a_saved_notebook_shows_its_pictures_without_a_kernel(path: Path) -> None:
    """As HTML it has the drawn topologies, each with a title for screen readers, and asks no other machine."""
    page, _ = HTMLExporter(template_name="basic").from_filename(str(path))
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert pictures
    assert all('role="img"' in picture and "<title" in picture for picture in pictures)
    assert not re.search(r'(src|href)="https?:', "".join(pictures))
