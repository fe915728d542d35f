"""A real kernel, addressed as front ends do: with the id of the cell in each request.

JupyterLab and Notebook send the id that the cell has in the file, with the cells that were deleted; VS Code sends the
address of the cell's document, with the cell's metadata, and between cells it runs code that has no id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.blocking import BlockingKernelClient

from kstreamnb.notebook.recorder import IpcKernelManager

pytestmark = [pytest.mark.notebook]

_PATIENCE_S = 180


@pytest.fixture
def kernel() -> Iterator[BlockingKernelClient]:
    manager = IpcKernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=_PATIENCE_S)
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    manager.cleanup_resources()


def _run(client: BlockingKernelClient, source: str, cell: str, **metadata: Any) -> str:
    """Run a cell under its id and return what it prints and shows, errors too."""
    return _asked(client, source, {"cellId": cell, **metadata})


def _look(client: BlockingKernelClient, source: str) -> str:
    """Run code that VS Code runs internally: not silent, without history, without an id."""
    return _asked(client, source, {}, store_history=False)


def _asked(client: BlockingKernelClient, source: str, about: dict[str, Any], *, store_history: bool = True) -> str:
    content = {
        "code": source,
        "silent": False,
        "store_history": store_history,
        "stop_on_error": False,
        "user_expressions": {},
        "allow_stdin": True,
    }
    request = client.session.send(client.shell_channel.socket, "execute_request", content, metadata=about)
    shown: list[str] = []
    while True:
        message: Any = client.get_iopub_msg(timeout=_PATIENCE_S)
        if message["parent_header"].get("msg_id") != request["header"]["msg_id"]:
            continue
        said = message["content"]
        if message["msg_type"] == "status" and said["execution_state"] == "idle":
            return "\n".join(shown)
        shown.append(str(said.get("text", "")) + str(said.get("data", {}).get("text/plain", "")))
        shown += said.get("traceback", [])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "cell",
    ["1e9aac6b-cee9-4786-813b-{}", "vscode-notebook-cell:/shop/orders%20of%20today.ipynb#W{}sZmlsZQ%3D%3D"],
    ids=["JupyterLab and Notebook", "VS Code"],
)
def test_an_edited_cell_replaces_what_it_declared(kernel: BlockingKernelClient, cell: str) -> None:
    """Cells of a front end that sends ids may run again; the error names the cell by the displayed number."""

    def run(source: str, number: int) -> str:
        return _run(kernel, source, cell.format(number))

    run("%load_ext kstreamnb\nimport kstreamnb as ks", 0)
    run('builder = ks.StreamsBuilder("app")\norders = builder.stream("orders")', 1)
    run("paid = orders.filter(print)", 2)
    run('paid.to("out")', 3)
    run("paid = orders.map_values(print)", 2)
    described = run("print(builder.build().describe())", 4)
    assert "KSTREAM-MAPVALUES-0000000001" in described
    assert "FILTER" not in described
    run("paid = None", 2)
    assert '`paid.to("out")` in cell 4 uses "paid", which no cell makes any more' in run("builder.build()", 4)


@pytest.mark.filterwarnings("ignore")
def test_what_a_front_end_runs_for_itself_is_no_cell(kernel: BlockingKernelClient) -> None:
    """VS Code asks for variables between cells: that moves no declaration and does not appear in the saved notebook."""
    cell = "vscode-notebook-cell:/shop/orders.ipynb#W{}sZmlsZQ%3D%3D"
    look = "import os as _VSCODE_os\nfor looked in dir():\n    pass"
    _run(kernel, "%load_ext kstreamnb\nimport kstreamnb as ks", cell.format(0), tags=["setup"])
    _look(kernel, look)
    _run(kernel, 'builder = ks.StreamsBuilder("app")\norders = builder.stream("orders")', cell.format(1))
    for _ in range(2):
        _look(kernel, look)
        _run(kernel, "paid = orders.filter(print)", cell.format(2))
    _look(kernel, look)
    _run(kernel, 'paid.to("out")', cell.format(3))
    described = _run(kernel, "print(builder.build().describe())", cell.format(4))
    assert 1 == described.count("Processor: KSTREAM-FILTER-0000000001")
    _run(kernel, "paid = None", cell.format(2))
    assert '`paid.to("out")` in cell 5 uses "paid", which no cell makes any more' in _run(
        kernel, "builder.build()", "last"
    )
    cells = _run(kernel, "print([each.source for each in get_ipython().kstreamnb_cells.latest()])", "cells")
    assert "paid.to" in cells
    assert "_VSCODE" not in cells


@pytest.mark.filterwarnings("ignore")
def test_what_a_deleted_cell_declared_is_taken_back(kernel: BlockingKernelClient) -> None:
    """JupyterLab sends the deleted cells with the next one that runs; their dependents are stale."""
    _run(kernel, "%load_ext kstreamnb\nimport kstreamnb as ks", "a")
    _run(kernel, 'builder = ks.StreamsBuilder("app")\norders = builder.stream("orders")', "b")
    _run(kernel, 'orders.to("copies")', "c")
    _run(kernel, "paid = orders.filter(print)", "d")
    described = _run(kernel, "print(builder.build().describe())", "e", deletedCells=["c"])
    assert "FILTER" in described
    assert "copies" not in described
    _run(kernel, 'paid.to("out")', "f")
    assert '`paid.to("out")` in cell 6 uses "paid", which no cell makes any more' in _run(
        kernel, "builder.build()", "e", deletedCells=["d"]
    )


@pytest.mark.filterwarnings("ignore")
def test_the_cell_that_loads_the_extension_has_its_number_too(kernel: BlockingKernelClient) -> None:
    """Errors name it like the others, not by the kernel's file."""
    source = "%load_ext kstreamnb\nimport kstreamnb as ks\nbuilder = ks.StreamsBuilder()\norders = builder.stream('a')"
    _run(kernel, f"{source}\npaid = orders.filter(print)\npaid.to('out')", "a")
    assert "(cell 1, line 4)" in _run(kernel, "builder.table('a')\nbuilder.build()", "b")


_BEGIN = '''%load_ext kstreamnb
import kstreamnb as ks
builder = ks.StreamsBuilder("shop")
sales = builder.stream("sales")
sample = ks.Sample.from_text("""topic | key | value | time
sales | a | 1 | 5
sales | b | 0 | 6""")
driver = ks.TopologyTestDriver(builder.build())
def shares():
    shares = ks.StreamsBuilder("shares")
    shares.stream("sales").map_values(lambda value: 12 // value).to("out")
    return shares.build()
'''
_MISTAKES = {
    "sales.fliter(print)": "UnknownNameError",
    "sales.filter(lambda value: True)": "ConfigError",
    "sales.group_by_key().count(stor='counts')": "ConfigError",
    "sales.join(sales)": "TopologyError",
    "builder.stream('orders', value_serde='lonng')": "ConfigError",
    "ks.TimeWindows.of(size='an hour')": "ConfigError",
    "driver.store('counts')": "StateError",
    "driver.pipe([1, 2])": "ConfigError",
    "ks.TopologyTestDriver(shares()).pipe(sample)": "ProcessingError",
    "ks.replay(shares(), sample)": "ProcessingError",
    "ks.replay(builder.build(), sample).at('noon')": "ConfigError",
    "ks.StreamBuilder()": "UnknownNameError",
    "sample[99]": "IndexError",
    "sorted(ks.Headers(5) for _ in '1')": "Error",
    "ks.widgets.stepper(5)": "ConfigError",
    "sales.to()": "TypeError",
}


@pytest.mark.filterwarnings("ignore")
def test_frames_of_the_kit_end_no_traceback(kernel: BlockingKernelClient) -> None:
    """The user's own line is shown last; `%ks traceback` shows the rest."""
    _run(kernel, _BEGIN, "begin")
    for number, (mistake, kind) in enumerate(_MISTAKES.items()):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", _run(kernel, mistake, f"mistake {number}"))
        assert kind in shown, mistake
        assert mistake in shown, shown
        assert not re.search(r"kstreamnb/[\w/]+\.py|site-packages|<kstreamnb", shown), shown
    whole = _run(kernel, "sample[99]\n", "once more") and _run(kernel, "%ks traceback", "whole")
    assert "kstreamnb/samples/sample.py" in whole
    assert "in __getitem__" in whole
