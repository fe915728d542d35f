"""Recording: the reference contains what every later run reproduces, and nbval's known traps are avoided.

One notebook with a cell for each trap is recorded twice, in two kernels, and then checked by nbval in a third.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import nbformat
import psutil
import pytest

from kstreamnb.errors import EngineError
from kstreamnb.notebook.portable_cells import CellRun
from kstreamnb.notebook.recorder import SANITIZERS
from kstreamnb.notebook.regression import check, record, save_cells
from kstreamnb.samples import Sample

pytestmark = [pytest.mark.notebook]

_CELLS = {
    "load": "%load_ext kstreamnb\nimport kstreamnb as ks\nfrom IPython.display import clear_output, display",
    "pieces": "import time\nfor word in ('one', 'two', 'three'):\n    print(word, flush=True)\n    time.sleep(0.05)",
    "updated": "shown = display('before', display_id='shown')",
    "updating": "shown.update('after')",
    "cleared": "print('gone')\nclear_output()\nprint('kept')",
    "caught": "import ipywidgets\ncaught = ipywidgets.Output()\nwith caught:\n    print('inside')\ncaught",
    "widget": "ipywidgets.IntSlider(value=3)",
    "address": "object()",
    "warning": "import warnings\nwarnings.warn('careful')",
    "picture": "builder = ks.StreamsBuilder('app')\nbuilder.stream('in').to('out')\nbuilder.build()",
    "bar": "from tqdm import tqdm\nsum(tqdm(range(3)))",
    "endless bar": "sum(tqdm(iter(range(3))))",
}
_NAMES = tuple(_CELLS)


@dataclass(frozen=True)
class Recorded:
    """A notebook that was recorded twice and then checked."""

    notes: tuple[str, ...]
    first: str
    second: str
    failing: frozenset[int]

    def cell(self, name: str) -> nbformat.NotebookNode:
        """Return one of its cells."""
        return nbformat.reads(self.second, as_version=4).cells[_NAMES.index(name)]

    def passes(self, name: str) -> bool:
        """Return whether nbval found a cell's outputs as recorded."""
        return _NAMES.index(name) not in self.failing


def failing(*places: Path) -> frozenset[int]:
    """Return the numbers of the code cells in which nbval finds differences."""
    try:
        check(*places)
    except EngineError as error:
        said = error.detail or ""
    else:
        return frozenset()
    found = re.findall(r"FAILED \S+\.ipynb::Cell (\d+)", said)
    assert found, said
    return frozenset(map(int, found))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    path = tmp_path_factory.mktemp("traps") / "traps.ipynb"
    notes = save_cells(path, _CELLS.values())
    first = path.read_text()
    record(path)
    second = path.read_text()
    path.write_text(second.replace("<svg ", "<svg data-drawn='elsewhere' "))
    return Recorded(notes, first, second, failing(path))


def test_what_is_printed_in_pieces_is_one_output(recorded: Recorded) -> None:
    """However the kernel splits a stream, the reference contains it whole."""
    assert [("stdout", "one\ntwo\nthree\n")] == [(each.name, each.text) for each in recorded.cell("pieces").outputs]
    assert recorded.passes("pieces")


def test_an_output_that_is_updated_later_shows_its_last_state_and_is_not_compared(recorded: Recorded) -> None:
    """Nbval sees the first state, a reader the last: the cell that shows it is tagged."""
    cell = recorded.cell("updated")
    assert "'after'" == cell.outputs[0].data["text/plain"]
    assert ["nbval-ignore-output"] == cell.metadata.tags
    assert recorded.passes("updated")
    assert "cell 3 is not compared: its output is updated in place" in recorded.notes


def test_the_cell_that_updates_another_is_compared(recorded: Recorded) -> None:
    """The cell itself has no output."""
    assert "tags" not in recorded.cell("updating").metadata
    assert recorded.passes("updating")


def test_an_output_that_is_cleared_is_not_compared(recorded: Recorded) -> None:
    """Nbval sees every frame, a reader the last."""
    cell = recorded.cell("cleared")
    assert ["kept\n"] == [each.text for each in cell.outputs]
    assert {"not compared": "the output is cleared"} == cell.metadata.kstreamnb
    assert recorded.passes("cleared")


def test_what_an_output_widget_catches_is_not_compared(recorded: Recorded) -> None:
    """Nbval sees it as output of the cell, the saved notebook does not."""
    assert "cell 6 is not compared: its output goes into an Output widget" in recorded.notes
    assert recorded.passes("caught")


def test_a_widget_leaves_its_text_and_no_address(recorded: Recorded) -> None:
    """The id of a widget's model changes with each run, and its state is not saved: the other forms are kept."""
    assert [["text/plain"]] == [list(each.data) for each in recorded.cell("widget").outputs]
    assert "model_id" not in recorded.second
    assert recorded.passes("widget")


def test_an_address_in_memory_is_not_kept(recorded: Recorded) -> None:
    """The text says that there was a widget."""
    assert "<object at ADDRESS>" == recorded.cell("address").outputs[0].data["text/plain"]
    assert recorded.passes("address")


def test_a_warning_names_no_kernel_file(recorded: Recorded) -> None:
    """The line number within its cell is kept, the kernel's file of this run is not."""
    assert recorded.cell("warning").outputs[0].text.startswith("CELL:2: UserWarning: careful")
    assert recorded.passes("warning")


def test_a_picture_may_have_other_bytes(recorded: Recorded) -> None:
    """Another version of Graphviz draws other curves: the text beside it is compared instead."""
    assert "<svg " in recorded.second
    assert recorded.passes("picture")


@pytest.mark.parametrize("name", ["bar", "endless bar"])
def test_a_progress_bar_may_take_another_time(recorded: Recorded, name: str) -> None:
    """Bars with and without a total."""
    assert any(each.output_type == "stream" for each in recorded.cell(name).outputs)
    assert recorded.passes(name)


def test_recording_again_gives_the_same_file(recorded: Recorded) -> None:
    """Everything except the times in progress bars is determined by the cells."""
    bar = re.compile(r".*\[\d\d:\d\d.*")
    assert bar.sub("", recorded.first) == bar.sub("", recorded.second)


def test_a_tag_of_the_author_stays_and_one_of_the_recorder_goes(tmp_path: Path) -> None:
    """When a live output became a plain one, it is compared again."""
    path = tmp_path / "tags.ipynb"
    save_cells(path, ["from IPython.display import clear_output\nclear_output()", "1"])
    notebook = nbformat.read(path, as_version=4)
    assert ["nbval-ignore-output"] == notebook.cells[0].metadata.tags
    notebook.cells[0].source = "2"
    notebook.cells[1].metadata.tags = ["nbval-ignore-output"]
    nbformat.write(notebook, path)
    assert () == record(path)
    again = nbformat.read(path, as_version=4)
    assert "tags" not in again.cells[0].metadata
    assert ["nbval-ignore-output"] == again.cells[1].metadata.tags


def test_what_really_differs_is_found(tmp_path: Path) -> None:
    """The sanitizers remove nothing meaningful: text beside a picture, words of a warning, a number."""
    path = tmp_path / "differs.ipynb"
    save_cells(path, [_CELLS[name] for name in ("load", "picture", "warning")] + ["40 + 2"])
    changed = path.read_text()
    for before, after in (("-> topic out", "-> topic up"), ("careful\\n", "careless\\n"), ('"42"', '"43"')):
        assert before in changed
        changed = changed.replace(before, after)
    path.write_text(changed)
    assert {1, 2, 3} == failing(path)


def test_an_output_that_differs_from_run_to_run_is_named_with_its_cell(tmp_path: Path) -> None:
    """The cells run in two kernels: random numbers, clocks and the order of sets differ between them. Recording again
    keeps the tag, and addresses do not count.
    """
    path = tmp_path / "random.ipynb"
    sources = [
        "import random",
        "print('same')\nprint(random.random())",
        "object()",
        "print({str(n) for n in range(20)})",
    ]
    notes = save_cells(path, sources)
    assert 'cell 2 is not compared: its output differs from run to run: "0.' in notes[1]
    assert ["cell 2", "cell 4"] == [note.partition(" is not")[0] for note in notes[1:]]
    record(path)
    tags = [cell.metadata.get("tags") for cell in nbformat.read(path, as_version=4).cells]
    assert [None, ["nbval-ignore-output"], None, ["nbval-ignore-output"]] == tags
    check(path)


def test_a_notebook_whose_outputs_were_removed_is_refused(tmp_path: Path) -> None:
    """As by nbstripout and jupytext: nbval compares no cell that was not executed, and would pass."""
    path = tmp_path / "stripped.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")]), path)
    for place in (path, tmp_path):
        with pytest.raises(EngineError, match=r'"stripped\.ipynb" has no recorded outputs'):
            check(place)
    record(path)
    check(path)


def test_the_second_kernel_ends_when_a_cell_fails(tmp_path: Path) -> None:
    """It was started while the first one worked."""
    with pytest.raises(EngineError, match="a cell of"):
        save_cells(tmp_path / "fails.ipynb", ["1 / 0"])
    kernels = [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(tmp_path)]
    assert not kernels


def test_outputs_that_arrive_seconds_after_the_end_of_their_cell_are_compared(tmp_path: Path) -> None:
    """As from a kernel that a busy machine does not let run: nbclient waits for 4 s by default, and nbval for 5 s."""
    path = tmp_path / "late.ipynb"
    late = "import sys, time\nsys.stdout.flush_timeout = sys.stderr.flush_timeout = 0.1\n"
    late += "get_ipython().kernel.iopub_thread.io_loop.add_callback(time.sleep, 7)\n1 + 1"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(late)]), path)
    record(path)
    assert "2" == nbformat.read(path, as_version=4).cells[0].outputs[0].data["text/plain"]
    check(path)


@pytest.mark.skipif(os.name != "posix", reason="needs sockets that are files")
def test_kernels_use_no_port_that_another_program_could_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two runs that found the same TCP port free, one could not start; the files are removed."""
    files, path = tmp_path / "files", tmp_path / "transport.ipynb"
    files.mkdir()
    monkeypatch.setenv("TMPDIR", str(files))
    monkeypatch.setattr(tempfile, "tempdir", None)
    save_cells(path, ["import ipykernel, json\njson.loads(ipykernel.get_connection_info())['transport']"])
    assert "'ipc'" == nbformat.read(path, as_version=4).cells[0].outputs[0].data["text/plain"]
    check(path)
    assert not list(files.iterdir())


def test_a_long_temporary_folder_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a socket has 103 bytes at most on macOS, and 107 on Linux: elsewhere kernels use ports."""
    path, files = tmp_path / "transport.ipynb", tmp_path / ("x" * 100)
    files.mkdir()
    monkeypatch.setenv("TMPDIR", str(files))
    monkeypatch.setattr(tempfile, "tempdir", None)
    save_cells(path, ["1 + 1"])
    check(path)


def test_other_line_ends_change_nothing(tmp_path: Path) -> None:
    """Git for Windows may give a notebook and its samples other ends of lines; recorded again, both are as before."""
    orders = Sample.from_records([("orders", 0, at, at, "a", f"line\n{at}") for at in range(40)])
    path = tmp_path / "shop.ipynb"
    cells = ["import kstreamnb as ks", CellRun("orders = ks.Sample.capture(servers, 'orders')", {"orders": orders})]
    save_cells(path, [*cells, "print('a\\nb')", "orders.head(2)"])
    saved = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert {file.suffix for file in saved} == {".ipynb", ".jsonl"}
    for file, content in saved.items():
        file.write_bytes(content.replace(b"\n", b"\r\n"))
    check(path)
    record(path)
    assert path.read_bytes() == saved[path]


def test_the_sanitisers_are_one_file_that_nbval_reads() -> None:
    """Each section has a pattern that compiles and a replacement that no other pattern matches."""
    from nbval.plugin import get_sanitize_patterns

    patterns = get_sanitize_patterns(SANITIZERS.read_text())
    assert SANITIZERS.read_text().count("[") >= len(patterns) >= 6
    for _, replacement in patterns:
        for regex, other in patterns:
            assert re.sub(regex, other, replacement) in (replacement, other)


@pytest.mark.parametrize("options", [(), ("--dist", "loadgroup"), ("--dist", "worksteal")], ids="-".join)
def test_processes_of_xdist_share_no_notebook(options: tuple[str, ...], tmp_path: Path) -> None:
    """Each cell needs those before it, so one process runs all of them; other tests are distributed as before."""
    for number in range(2):
        save_cells(tmp_path / f"saved_{number}.ipynb", ["number = 1", *["number += 1\nnumber"] * 12])
    (tmp_path / "test_other.py").write_text("".join(f"def test_{n}(): pass\n" for n in range(4)))
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["kstreamnb.testing.fixtures"]')
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-n", "2", "-o", "addopts=", "-v"]
    ended = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "30 passed" in ended.stdout, ended.stdout
    ran = re.findall(r"\[(gw\d)\].* PASSED saved_(\d)", ended.stdout)
    assert 26 == len(ran)
    assert 2 == len(set(ran))
