"""The first ten minutes with the kit, as the notebook's design describes them: one notebook, cell by cell, in a
browser.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook

pytestmark = [pytest.mark.browser]

LOAD, SAMPLE, SOURCE, LATE, COUNTS, TOPOLOGY, REPLAY, EXPLORER, STEPPER, SAVE = range(10)
CELLS = [
    "%load_ext kstreamnb",
    '''
import kstreamnb as ks
builder = ks.StreamsBuilder("delays")
builder.sample = ks.Sample.from_text("""
    topic   | key  | value                        | time
    flights | N101 | {"carrier": "AA", "late": 45} | 0
    flights | N102 | {"carrier": "UA", "late": 5}  | 60000
    flights | N103 | {"carrier": "AA", "late": 25} | 120000
    flights | N104 | {"carrier": "UA", "late": 90} | 7200000
    flights | N105 | {"carrier": "AA", "late": 70} | 30000
""")
builder.sample
''',
    'flights = builder.stream("flights")\nflights',
    'late = flights.filter(lambda tail, flight: flight["late"] > 30)\nlate',
    """
windows = ks.TimeWindows.of_size_and_grace("1h", "10m")
hourly = late.group_by(lambda tail, flight: flight["carrier"]).windowed_by(windows).count(store="hourly")
hourly
""",
    'hourly.to_stream(lambda window, count: window.key).to("late-flights")\ntopology = builder.build()\ntopology',
    "replay = ks.replay(topology, builder.sample)\nreplay",
    "explorer = ks.widgets.explorer(topology)\nexplorer",
    "stepper = ks.widgets.stepper(replay)\nstepper",
    "%ks save_regression saved.ipynb\n%ks export builder app.py",
]

_IS_IN_FRAME = """stepper => {
    stepper.scrollIntoView({block: "center"});
    const edge = stepper.querySelector(".ks-passed").getBoundingClientRect();
    const frame = stepper.querySelector(".ks-scroll[aria-label='graph']").getBoundingClientRect();
    const isDrawn = edge.width + edge.height > 0;  // a level edge has no height
    return isDrawn && edge.top <= frame.bottom && edge.bottom >= frame.top && edge.left <= frame.right;
}"""
"""Tells whether the record in flight is where the picture of the graph shows it."""


@pytest.fixture(scope="module")
def notebook(lab: Lab) -> Iterator[Notebook]:
    with lab.notebook("first", CELLS) as found:
        yield found
        found.assert_quiet()


def test_the_first_ten_minutes(notebook: Notebook, lab: Lab) -> None:
    """Load, sample, build cell by cell, edit one cell, see the graph, replay, explore, step, save and export."""
    loaded = notebook.run(LOAD)
    expect(loaded).to_contain_text("kstreamnb")
    assert len(loaded.inner_text().strip().splitlines()) == 1
    expect(notebook.run(SAMPLE)).to_contain_text("Sample of 5 records")

    expect(notebook.run(SOURCE)).to_contain_text("N102")
    first = notebook.run(LATE)
    notebook.assert_drawn(first, "filter")
    expect(first).to_contain_text("N101")
    expect(first).not_to_contain_text("N103")
    notebook.assert_drawn(notebook.run(COUNTS), "count")

    edited = notebook.run(LATE, source='late = flights.filter(lambda tail, flight: flight["late"] > 20)\nlate')
    expect(edited).to_contain_text("N103")
    assert "N103" in notebook.python("str(late.head())")
    graph = notebook.run(TOPOLOGY)
    notebook.assert_drawn(graph, "repartition", "key changed at")
    notebook.picture(graph, "first-topology")

    replayed = notebook.run(REPLAY)
    notebook.assert_drawn(replayed, "1 late")
    expect(replayed).to_contain_text('output "late-flights"')
    notebook.picture(replayed, "first-replay")

    explorer = notebook.run(EXPLORER).locator(".ks-explorer")
    explorer.get_by_role("button", name="count, processor").first.click()
    expect(explorer.locator(".ks-code")).to_contain_text('count(store="hourly")')
    expect(explorer.locator(".ks-details")).to_contain_text("cell ")
    stepper = notebook.run(STEPPER).locator(".ks-stepper")
    expect(stepper.locator(".ks-passed").first).to_be_visible()
    notebook.page.wait_for_function(_IS_IN_FRAME, arg=stepper.element_handle())
    notebook.python("stepper.tell('run_back')")
    stepper.get_by_role("button", name="Step", exact=True).click()
    notebook.until("replay.position", "1")
    notebook.python("stepper.tell('seek', step=len(replay.steps))")
    expect(stepper.locator(".ks-explained")).to_contain_text("had closed")

    notebook.run(SAVE)
    notebook.until("__import__('os').path.exists('saved.ipynb') and __import__('os').path.exists('app.py')", "True")
    notebook.save()


def test_the_node_that_failed_is_red_in_the_next_graph(notebook: Notebook) -> None:
    """A record that the filter cannot read: the error names the node, and the topology's picture marks it."""
    broken = 'ks.replay(topology, ks.Sample.from_records([("flights", 0, 0, 0, "N1", 7)]))'
    failed = notebook.run(len(CELLS), source=broken)
    expect(failed).to_contain_text("ProcessingError")
    graph = notebook.run(len(CELLS) + 1, source="topology")
    notebook.assert_drawn(graph, "filter", "failed")
    notebook.picture(graph, "first-failed")


def test_the_exported_script_makes_an_equal_topology(notebook: Notebook, lab: Lab) -> None:
    """The script prints the fingerprint of the notebook's topology."""
    ran = subprocess.run(
        [sys.executable, "app.py"], cwd=lab.folder, capture_output=True, text=True, check=False, timeout=600
    )
    assert ran.returncode == 0, ran.stderr
    assert f"fingerprint: {notebook.python('topology.fingerprint()')[1:-1]}" in ran.stdout


def test_the_regression_notebook_passes(lab: Lab) -> None:
    """The displayed outputs are the reference; checking them again finds no difference."""
    folder = lab.folder / "regression"
    folder.mkdir()
    shutil.copy(lab.folder / "saved.ipynb", folder)
    command = [sys.executable, "-m", "kstreamnb", "notebook", "check", str(folder)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_saved_notebook_shows_something_without_a_kernel(lab: Lab) -> None:
    """Every graph is saved as text and SVG, without the HTML that viewers would prefer; the stepper saves its tables
    in the output before. Those of widgets precede the widget.
    """
    notebook = nbformat.read(lab.folder / "first.ipynb", as_version=4)
    for number in (LATE, COUNTS, TOPOLOGY, REPLAY, EXPLORER, STEPPER):
        *before, last = _shown(notebook, number)
        if number in (EXPLORER, STEPPER):
            assert {"text/plain", "application/vnd.jupyter.widget-view+json"} == set(last)
            assert ("<table" in before[0]["text/html"]) == (number == STEPPER)
            last = before[-1]
        assert {"text/plain", "image/svg+xml"} == set(last), number
        for form in ("text/html", "image/svg+xml"):
            text = "".join(data.get(form, "") for data in (*before, last))
            assert "<script" not in text
            assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("sanitized", [False, True], ids=["trusted", "sanitized"])
def test_the_story_is_kept_as_html(lab: Lab, tmp_path: Path, sanitized: bool) -> None:
    """After nbconvert every picture is present without a kernel, even if HTML is sanitized."""
    command = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "html", "--output-dir", str(tmp_path)]
    command += [f"--HTMLExporter.sanitize_html={sanitized}"]
    done = subprocess.run(
        [*command, str(lab.folder / "first.ipynb")], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "first.html").read_text()
    assert page.count("data:image/svg+xml;base64,") >= 5


def _shown(notebook: nbformat.NotebookNode, number: int) -> list[dict[str, str]]:
    outputs = [output["data"] for output in notebook.cells[number].outputs if "data" in output]
    assert outputs, json.dumps(notebook.cells[number], indent=1)[:500]
    return [{name: text if isinstance(text, str) else "" for name, text in data.items()} for data in outputs]
