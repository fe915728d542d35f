"""Progress in a real browser: a line in a corner while something runs, and no output in the cell."""

from __future__ import annotations

import re
from collections.abc import Iterator

import nbformat
import pytest
from playwright.sync_api import expect

from tests.browser.lab import ARTEFACTS, JUPYTERLAB, NOTEBOOK_7, Lab, Notebook

pytestmark = [pytest.mark.browser]

REPLAY = 2
CELLS = [
    "%load_ext kstreamnb",
    """
import time
from pathlib import Path
import kstreamnb as ks

def slow(value):
    while value == 1500 and not Path("go-on").exists():
        time.sleep(0.05)
    return value

builder = ks.StreamsBuilder("slow")
builder.stream("in").map_values(slow).to("out")
topology = builder.build()
sample = ks.Sample.from_records([("in", 0, at, at, "k", at) for at in range(2001)])
""",
    "print('before')\nreplay = ks.replay(topology, sample)",
]


@pytest.fixture(params=[JUPYTERLAB, NOTEBOOK_7], ids=["JupyterLab", "Notebook 7"])
def notebook(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Notebook]:
    with lab.prepared("bars", CELLS, front_end=request.param) as found:
        yield found


def test_a_long_replay_has_a_bar_that_leaves_nothing_behind(notebook: Notebook, lab: Lab) -> None:
    """The bar counts records and disappears at the end or on an interrupt; the saved cell contains only its own
    output.
    """
    bar = notebook.page.locator(".ks-line")
    notebook.begin(REPLAY)
    expect(bar).to_contain_text(re.compile(r"1,\d\d\d/2,\d\d\d .*records/s"))
    bar.screenshot(path=ARTEFACTS / "bar.png")
    (lab.folder / "go-on").touch()
    notebook.until("len(replay.steps)", "2001")
    (lab.folder / "go-on").unlink()
    expect(bar).to_have_count(0)
    notebook.save()
    saved = nbformat.read(lab.folder / "bars.ipynb", as_version=4).cells[REPLAY]
    assert [("stdout", "before\n")] == [(each.get("name"), each.get("text")) for each in saved.outputs]

    output = notebook.begin(REPLAY)
    expect(bar).to_contain_text("records/s")
    notebook.page.evaluate("() => window.jupyterapp.commands.execute('notebook:interrupt-kernel')")
    expect(output).to_contain_text("KeyboardInterrupt")
    expect(bar).to_have_count(0)
