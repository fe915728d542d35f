"""Measures what a notebook user waits for, against the targets: ``python -m tests.bench.notebook``.

Import and first picture are measured in fresh interpreters; the rest in one, as the median of several runs.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import kstreamnb as ks
from kstreamnb.notebook.regression import save_cells

AIMS_S = {
    "import kstreamnb": 0.02,
    "import kstreamnb, in IPython": 0.02,
    "%load_ext kstreamnb": 0.3,
    "first picture, renderer not loaded": 0.5,
    "later picture, 100 nodes": 0.05,
    "preview of 1,000 records, stateless": 0.05,
    "preview of 1,000 records, windowed count": 0.05,
    "head() on 100,000 records, stateless": 0.05,
    "head() on 100,000 records, windowed count": 0.05,
    "editor opens on 100,000 records": 1.0,
    "one step in 176,000": 0.1,
    "save_regression of 20 cells": 5.0,
}
_IMPORT = "import time; t = time.perf_counter(); import kstreamnb; print(time.perf_counter() - t)"
_IN_SHELL = """
import time
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
shell = InteractiveShell()
with capture_output():
    shell.run_cell({before!r})
    t = time.perf_counter()
    shell.run_cell({measured!r})
    seconds = time.perf_counter() - t
print(seconds)
"""
_FIRST = """
import time
import kstreamnb as ks
builder = ks.StreamsBuilder("first")
builder.stream("in").map_values(str).to("out")
topology = builder.build()
t = time.perf_counter()
topology._repr_mimebundle_()
print(time.perf_counter() - t)
"""


def fresh(code: str) -> float:
    """Return the figure that code prints in a separate interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def timed(work: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_shell(measured: str, before: str = "pass") -> float:
    """Return what a cell takes in an IPython shell of a separate interpreter."""
    return fresh(_IN_SHELL.format(measured=measured, before=before))


def saved() -> float:
    """Return what saving twenty cells as a regression notebook takes."""
    cells = ["%load_ext kstreamnb\nimport kstreamnb as ks", "builder = ks.StreamsBuilder('app')"]
    cells += [f"s{n} = builder.stream('in-{n}').filter(lambda key, value: value)\ns{n}" for n in range(18)]
    with TemporaryDirectory() as folder:
        return timed(lambda: save_cells(Path(folder) / "saved.ipynb", cells))


def large() -> ks.Topology:
    """A hundred nodes in ten branches."""
    builder = ks.StreamsBuilder("large")
    for number in range(10):
        stream = builder.stream(f"in-{number}")
        for _ in range(8):
            stream = stream.map_values(str)
        stream.to(f"out-{number}")
    return builder.build()


def orders_sample(count: int) -> ks.Sample:
    """Return a sample of one topic."""
    return ks.Sample.from_records([("orders", 0, n, 1000 * n, f"k{n % 50}", n) for n in range(count)])


def handles(count: int) -> tuple[ks.KStream, ks.KStream]:
    """Return a stream after two steps, and one after a windowed count, with a sample of ``count`` records."""
    builder = ks.StreamsBuilder("preview")
    orders = builder.stream("orders")
    builder.sample = orders_sample(count)
    plain = orders.filter(lambda key, value: value % 2 == 0).map_values(lambda value: value + 1)
    counts = orders.group_by_key().windowed_by(ks.TimeWindows.of(size="1m", grace="0s")).count()
    return plain, counts.to_stream()


def steps() -> list[float]:
    """Return what steps and jumps take in a run of 176,000 steps."""
    builder = ks.StreamsBuilder("steps")
    groups = builder.stream("orders").group_by(lambda key, value: f"g{value % 97}")
    groups.count(store="counts").to_stream().to("out")
    stepper = ks.widgets.stepper(ks.replay(builder.build(), orders_sample(88_000)))
    assert stepper.facts["total"] == 176_000
    stepper.tell("back")
    return [timed(lambda: stepper.tell("back")) for _ in range(9)]


def main() -> None:
    """Print each figure beside its target."""
    plain, counts = handles(1000)
    many_plain, many_counts = handles(100_000)
    sample = orders_sample(100_000)
    topology = large()
    topology._repr_mimebundle_()  # loads the renderer
    found = {
        "import kstreamnb": [fresh(_IMPORT) for _ in range(5)],
        "import kstreamnb, in IPython": [in_shell("import kstreamnb") for _ in range(5)],
        "%load_ext kstreamnb": [in_shell("%load_ext kstreamnb", "import kstreamnb") for _ in range(5)],
        "first picture, renderer not loaded": [fresh(_FIRST) for _ in range(3)],
        "later picture, 100 nodes": [timed(topology._repr_mimebundle_) for _ in range(5)],
        "preview of 1,000 records, stateless": [timed(plain.head) for _ in range(9)],
        "preview of 1,000 records, windowed count": [timed(counts.head) for _ in range(9)],
        "head() on 100,000 records, stateless": [timed(many_plain.head) for _ in range(9)],
        "head() on 100,000 records, windowed count": [timed(many_counts.head) for _ in range(9)],
        "editor opens on 100,000 records": [timed(lambda: ks.widgets.edit(sample)) for _ in range(3)],
        "one step in 176,000": steps(),
        "save_regression of 20 cells": [saved() for _ in range(3)],
    }
    for what, seconds in found.items():
        verdict = "met" if median(seconds) < AIMS_S[what] else "MISSED"
        print(f"{what:45} {1000 * median(seconds):8.1f} ms   aim {1000 * AIMS_S[what]:6.0f} ms   {verdict}")


if __name__ == "__main__":
    main()
