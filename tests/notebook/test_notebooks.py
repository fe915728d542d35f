"""Every notebook runs from top to bottom and reproduces its reference outputs, whatever the hash seed."""

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
_ALL = sorted(_FOLDER.rglob("*.ipynb"))
_PAGE = 104
"""Characters of code or printed text that fit into a line of the rendered page."""
_WITH_JAVA = [path for path in _ALL if re.search(r"ks\.(spark\.spark_session|kafka\.local_broker)\(", path.read_text())]
_NOTEBOOKS = [path for path in _ALL if path not in _WITH_JAVA]

pytestmark = [pytest.mark.notebook]


def _outputs(path: Path) -> str:
    """The outputs of a notebook as text."""
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(nbformat.NotebookNode(cell).__repr__() for cell in cells if cell.cell_type == "code")


def test_outputs_are_those_that_were_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nbval runs all notebooks that need no Java, with another hash seed; a third one records them again, see below."""
    monkeypatch.setenv("PYTHONHASHSEED", "4711")
    check(*_NOTEBOOKS)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java 17 or later")
@pytest.mark.parametrize("path", _WITH_JAVA, ids=lambda path: path.stem)
def test_outputs_with_spark_and_kafka_are_those_that_were_recorded(path: Path) -> None:
    """Nbval runs the notebooks that start Spark or a broker; kills, restarts and batches do not show in outputs."""
    check(path)


def test_the_notebooks_that_need_java_are_left_out_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Java, nbval runs the others and lists those it skipped."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    folder = tmp_path / "notebooks"
    folder.mkdir()
    shutil.copy(_FOLDER / "conftest.py", folder)
    save_cells(folder / "sum.ipynb", ["1 + 1"])
    cell = nbformat.v4.new_code_cell("ks.spark.spark_session()", execution_count=1, id="cell-1")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / "spark.ipynb")
    check(folder)
    monkeypatch.setenv("JAVA_HOME", str(_with_a_java(tmp_path)))
    with pytest.raises(EngineError, match="differs"):
        check(folder)


def _with_a_java(tmp_path: Path) -> Path:
    """A folder that has a program named java."""
    program = tmp_path / "jre" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    return program.parents[1]


@pytest.mark.parametrize("path", _NOTEBOOKS, ids=lambda path: path.stem)
def test_recording_again_gives_the_same_file(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every byte of a recorded notebook is determined by its cells and the versions it names, whatever the seed."""
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    folder = tmp_path / path.parent.name
    shutil.copytree(path.parent, folder, ignore=shutil.ignore_patterns("*.ipynb", "deployment", "regression"))
    again = Path(shutil.copy(path, folder))
    record(again)
    versions = re.compile(r"kstreamnb [0-9][^;]*; ")
    assert versions.sub("", path.read_text()) == versions.sub("", again.read_text())


@pytest.mark.parametrize("path", _ALL, ids=lambda path: path.stem)
def test_outputs_name_no_address_and_no_place_on_this_machine(path: Path) -> None:
    """A reference contains no memory address, absolute path or kernel file."""
    assert not re.search(r"0x[0-9a-f]{6,}|/tmp/|/home/|/root/|ipykernel_\d", _outputs(path))


def test_a_changed_output_is_found(tmp_path: Path) -> None:
    """`check` names the notebook whose output differs from the recorded one, and shows the rows that differ."""
    path = tmp_path / "sum.ipynb"
    save_cells(path, ["import pandas\npandas.DataFrame({'key': ['a', 'b'], 'count': [1, 2]})"])
    check(tmp_path)
    path.write_text(path.read_text().replace("<td>2</td>", "<td>3</td>"))
    with pytest.raises(EngineError, match="differs from its reference") as raised:
        check(tmp_path)
    assert "sum.ipynb" in str(raised.value.detail)
    assert "\n 0 | a | 1\n-1 | b | 3\n+1 | b | 2\n" in str(raised.value.detail)


def test_addresses_kernel_files_and_widgets_do_not_count(tmp_path: Path) -> None:
    """Meaningless differences between two runs are excluded from the comparison."""
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
    assert [str(path.relative_to(_FOLDER)) for path in _ALL] == sorted(linked)


@pytest.fixture(scope="module")
def exporter() -> HTMLExporter:
    """One exporter for all notebooks, which compiles its templates once, without code, which has no pictures."""
    return HTMLExporter(template_name="basic", exclude_input=True)


@pytest.mark.parametrize("path", _ALL, ids=lambda path: path.stem)
def test_a_saved_notebook_shows_its_pictures_without_a_kernel(path: Path, exporter: HTMLExporter) -> None:
    """As images or within HTML, each with a title for screen readers; none contacts another host."""
    cells = nbformat.read(path, as_version=4).cells
    shown = [output.get("data", {}) for cell in cells if cell.cell_type == "code" for output in cell.outputs]
    page, _ = exporter.from_filename(str(path))
    pictures = [data["image/svg+xml"] for data in shown if "image/svg+xml" in data]
    pictures += re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert pictures or path.parent.name == "regression"
    assert all('role="img"' in picture and "<title" in picture for picture in pictures)
    assert not re.search(r'(src|href)="https?:', "".join(pictures))


@pytest.mark.parametrize("path", _ALL, ids=lambda path: path.stem)
def test_no_line_of_code_is_cut_off_on_the_page(path: Path) -> None:
    """Code does not wrap: longer lines can be read only by scrolling sideways, and not at all on paper."""
    cells = nbformat.read(path, as_version=4).cells
    lines = [line for cell in cells if cell.cell_type == "code" for line in cell.source.splitlines()]
    assert not [line for line in lines if len(line) > _PAGE]


@pytest.mark.parametrize("path", _ALL, ids=lambda path: path.stem)
def test_no_line_of_output_is_broken_on_the_page(path: Path) -> None:
    """Plain text breaks anywhere, inside words too, if a line is wider than the page."""
    cells = nbformat.read(path, as_version=4).cells
    outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
    texts = [output.get("text") or output.data["text/plain"] for output in outputs if _is_text(output)]
    assert not [line for text in texts for line in text.splitlines() if len(line) > _PAGE]


def _is_text(output: nbformat.NotebookNode) -> bool:
    """Return whether a page shows an output as text, because it has no other form."""
    return output.output_type == "stream" or set(output.get("data", {})) == {"text/plain"}
