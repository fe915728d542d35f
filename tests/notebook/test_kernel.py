"""A real kernel, spoken to as JupyterLab does: with the id of the cell in each request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

pytestmark = [pytest.mark.notebook]


@pytest.fixture
def kernel() -> Iterator[BlockingKernelClient]:
    manager, client = start_new_kernel(kernel_name="python3")
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    manager.cleanup_resources()


def _run(client: BlockingKernelClient, source: str, cell: str, **metadata: Any) -> str:
    """Run a cell under its id and give what it prints and shows, errors too."""
    content = {"code": source, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
    about = {"cellId": cell, **metadata}
    request = client.session.send(client.shell_channel.socket, "execute_request", content, metadata=about)
    shown: list[str] = []
    while True:
        message: Any = client.get_iopub_msg(timeout=60)
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
    """Cells of a front end that sends ids may run again; the error names the cell by the number that is shown."""

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
    assert '"to" (cell 4, line 1) was made from "map_values" (cell 5, line 1)' in run("builder.build()", 4)


@pytest.mark.filterwarnings("ignore")
def test_what_a_deleted_cell_declared_is_taken_back(kernel: BlockingKernelClient) -> None:
    """JupyterLab names the cells that were deleted with the next one that runs; what hung on them is stale."""
    _run(kernel, "%load_ext kstreamnb\nimport kstreamnb as ks", "a")
    _run(kernel, 'builder = ks.StreamsBuilder("app")\norders = builder.stream("orders")', "b")
    _run(kernel, 'orders.to("copies")', "c")
    _run(kernel, "paid = orders.filter(print)", "d")
    described = _run(kernel, "print(builder.build().describe())", "e", deletedCells=["c"])
    assert "FILTER" in described
    assert "copies" not in described
    _run(kernel, 'paid.to("out")', "f")
    assert '"to" (cell 6, line 1) was made from' in _run(kernel, "builder.build()", "e", deletedCells=["d"])


@pytest.mark.filterwarnings("ignore")
def test_the_cell_that_loads_the_extension_has_its_number_too(kernel: BlockingKernelClient) -> None:
    """Errors name it as they name the others, not by the kernel's file."""
    source = "%load_ext kstreamnb\nimport kstreamnb as ks\nbuilder = ks.StreamsBuilder()\norders = builder.stream('a')"
    _run(kernel, f"{source}\npaid = orders.filter(print)\npaid.to('out')", "a")
    assert "(cell 1, line 4)" in _run(kernel, "builder.table('a')\nbuilder.build()", "b")
