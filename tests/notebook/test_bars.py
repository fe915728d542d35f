"""Progress bars of long actions: shown if there is a viewer, one at a time, and removed completely."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import kstreamnb as ks
from kstreamnb import hooks
from kstreamnb.core.progress import pieces, under_way
from kstreamnb.notebook import progress_bar
from kstreamnb.notebook.progress_bar import CellBar, ProgressBar, TerminalBar
from tests.notebook.shells import loaded_shell, new_shell

_LONG_S = 60


class Seen:
    """A place that records what was shown, and signals when something is."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.is_closed = False
        self._news = threading.Condition()

    def show(self, text: str) -> None:
        with self._news:
            self.texts.append(text)
            self._news.notify_all()

    def close(self) -> None:
        self.is_closed = True

    def wait_for(self, part: str) -> None:
        """Wait until a text contains a part."""
        with self._news:
            assert self._news.wait_for(lambda: any(part in text for text in self.texts), _LONG_S), self.texts


@pytest.fixture
def opened() -> Iterator[list[Seen]]:
    """Places in which bars were shown."""
    places: list[Seen] = []

    def open_place() -> Seen:
        places.append(Seen())
        return places[-1]

    hooks.install(progress=ProgressBar(open_place))
    yield places
    hooks.install(progress=None)


def _until(places: list[Seen]) -> Seen:
    ready = threading.Event()
    for _ in range(_LONG_S * 20):
        if places:
            return places[-1]
        ready.wait(0.05)
    raise AssertionError("there is no bar")


def test_a_long_action_has_a_bar_that_counts_and_goes(opened: list[Seen]) -> None:
    """The bar shows progress as parts of a total until that is exceeded; its place is closed at the end."""
    with under_way("cells", 4) as done:
        done(1)
        seen = _until(opened)
        seen.wait_for("1/4 cells [00:0")
        done(2)
        seen.wait_for("3/4 cells [00:0")
        done(3)
        seen.wait_for("6 cells [00:0")
        assert not seen.is_closed
    assert seen.is_closed


def test_what_is_over_at_once_has_no_bar(opened: list[Seen], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is shown before a bar is due, and the timer ends with the action."""
    monkeypatch.setattr(progress_bar, "_SHORT_S", 60.0)
    for _ in range(3):
        with under_way("cells", 4) as done:
            done(4)
    assert [] == opened
    assert not [each for each in threading.enumerate() if each.name == "kstreamnb bar"]


def test_an_action_within_another_has_no_bar_of_its_own(opened: list[Seen]) -> None:
    """Only the outermost action has a bar: parity shows engines, not the records of each."""
    with under_way("engines", 2) as done:
        with under_way("records", 1000) as inner:
            inner(500)
            _until(opened).wait_for("0/2 ")
        done(1)
        opened[0].wait_for("1/2 ")
    assert 1 == len(opened)
    assert not any("records" in text for text in opened[0].texts)


def test_an_action_without_parts_says_what_it_waits_for(opened: list[Seen]) -> None:
    """A deployment shows its stage, and of a stage with parts how many are done."""
    with under_way("deploying"):
        seen = _until(opened)
        seen.wait_for("deploying: 00:0")
        with under_way("starting Spark"):
            seen.wait_for("deploying · starting Spark: 00:0")
        with under_way("engines", 2) as done:
            done(1)
            seen.wait_for("deploying ·  50%")
    assert [seen] == opened


def test_an_action_of_unknown_length_says_how_much_is_done(opened: list[Seen]) -> None:
    """A capture that waits for new records shows how many it has."""
    with under_way("records") as done:
        seen = _until(opened)
        seen.wait_for("records: 00:0")
        done(20_000)
        seen.wait_for("20,000 records [00:0")
        seen.wait_for(" records/s]")


def test_companions_of_a_query_do_not_change_the_bar(opened: list[Seen]) -> None:
    """A thread that asks the broker now and then has no bar."""
    with under_way("starting"):
        seen = _until(opened)
        asking = threading.Thread(target=lambda: under_way("asking").__enter__())
        asking.start()
        asking.join()
        seen.texts.clear()
        seen.wait_for("starting: 00:0")
    assert not any("asking" in text for text in seen.texts)


def test_a_broker_that_is_away_is_named_while_it_is_waited_for(opened: list[Seen]) -> None:
    """The first contact may take seconds: the bar says what is asked, and where."""
    with pytest.raises(ks.errors.BrokerError):
        ks.kafka.Admin("localhost:1").topics()
    assert any(text.startswith("waiting for Kafka at localhost:1, listing topics: 00:0") for text in opened[0].texts)
    assert opened[0].is_closed


def test_a_command_in_a_terminal_says_what_it_waits_for_in_one_line(tmp_path: Path) -> None:
    """The line is on standard error, and blank at the end; without a terminal there is none."""
    place = str(tmp_path / "sample")
    command = [sys.executable, "-m", "kstreamnb", "capture", "--servers", "localhost:1", "in", "-o", place]
    reader, writer = pty.openpty()
    subprocess.run(command, stderr=writer, stdout=subprocess.DEVNULL, timeout=_LONG_S, check=False)
    os.close(writer)
    shown = b""
    with suppress(OSError):  # the end of a terminal
        while part := os.read(reader, 4096):
            shown += part
    os.close(reader)
    assert b"\rwaiting for Kafka at localhost:1, looking up offsets: 00:0" in shown
    silent = subprocess.run(command, capture_output=True, timeout=_LONG_S, check=False)
    assert b"waiting for" not in silent.stderr


def test_an_error_takes_the_bar_away(opened: list[Seen]) -> None:
    """An interrupt also closes the bar; the next action has a bar again."""
    for _ in range(2):
        opened.clear()
        with pytest.raises(KeyboardInterrupt):
            _interrupted(opened)
        assert opened[0].is_closed


def _interrupted(opened: list[Seen]) -> None:
    with under_way("records", 9) as done:
        done(3)
        _until(opened).wait_for("3/9 ")
        raise KeyboardInterrupt


def test_what_others_do_is_asked_for(opened: list[Seen]) -> None:
    """Spark reports its own progress; without a total the elapsed time is shown."""
    told: list[Any] = [(0, None)]
    with under_way("tasks", look=lambda: told[0]):
        seen = _until(opened)
        seen.wait_for("tasks: 00:")
        told[0] = (5, 8)
        seen.wait_for("5/8 ")


def test_what_cannot_be_asked_any_more_ends_the_bar_alone(opened: list[Seen]) -> None:
    """A session that ends during an action is reported by the action, not by the bar."""
    told = [(1, 2)]
    with under_way("tasks", look=lambda: told[0]):
        seen = _until(opened)
        seen.wait_for("1/2 ")
        told.clear()
    assert seen.is_closed


def test_nobody_is_told_when_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a place there is no bar: a notebook without cell ids, as nbval runs it."""
    bars = ProgressBar(lambda: None)
    with bars("cells", 2) as done:
        done(2)
    assert ("", "") == capsys.readouterr()
    assert [[1, 2, 3]] == list(pieces([1, 2, 3], "records"))


def test_a_terminal_keeps_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """The line is overwritten and finally blank, with the cursor at its start."""
    place = TerminalBar()
    place.show("1/2")
    place.close()
    said = capsys.readouterr().err
    assert "1/2" in said
    assert said.endswith("\r")
    assert "" == said.split("\r")[-2].strip()


def test_an_output_of_the_cell_is_replaced_and_empty_at_the_end() -> None:
    """VS Code and Colab show widgets in outputs alone; an operation that shows nothing leaves no output."""
    new_shell()
    try:
        with capture_output() as shown:
            bar = CellBar()
            for text in ("1/3", "2/3"):
                bar.show(text)
            bar.close()
            CellBar().close()
    finally:
        InteractiveShell.clear_instance()
    assert [each.data for each in shown.outputs] == [{"text/plain": text} for text in ("1/3", "2/3", "")]
    assert [each.update for each in shown.outputs] == [False, True, True]


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("shape", ["alone", "chained", "global"])
def test_watching_changes_nothing(opened: list[Seen], shape: str, partitions: int) -> None:
    """Records counted in chunks have the same output, recording and state as records in one chunk."""
    builder = ks.StreamsBuilder("watched")
    stream = builder.stream("in")
    if shape == "global":
        stream = stream.left_join(builder.global_table("known"), lambda key, value: key, lambda one, two: [one, two])
    grouped = stream.group_by_key() if shape == "alone" else stream.group_by(lambda key, value: f"g{len(str(value))}")
    grouped.count(store="counts").to_stream().to("out", value_serde="long")
    topology = builder.build()
    rows = [("in", -1, 0, (at * 7919) % 5000, f"k{at % 11}", at) for at in range(2500)]
    rows += [("known", -1, 0, at * 400, f"k{at % 11}", at) for at in range(9)] if shape == "global" else []
    sample = ks.Sample.from_records(rows)

    def found() -> tuple[Any, ...]:
        run = ks.replay(topology, sample, partitions=partitions)
        with ks.TopologyTestDriver(topology, partitions=partitions) as driver:
            driver.pipe(sample)
            piped = driver.create_output_topic("out").read_records()
        return str(run), run.output("out"), run.now.store("counts").to_dict(), [str(s) for s in run.steps[-5:]], piped

    watched = found()
    hooks.install(progress=None)
    assert found() == watched


def test_the_extension_watches_and_stops_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook the bar is a line of the page; a shell without cell ids has one in a terminal, or none."""
    from kstreamnb.notebook.extension import _bar_output
    from kstreamnb.notebook.widgets.status_line import StatusLine

    with loaded_shell() as shell:
        cells = shell.ip.kstreamnb_cells
        monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
        assert _bar_output(cells) is None
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        assert isinstance(_bar_output(cells), TerminalBar)
        shell.run("1 + 1", "a cell with an id")
        place = _bar_output(cells)
        assert isinstance(place, StatusLine)
        place.close()
        shell.run("1 + 1", "vscode-notebook-cell:/home/ann/shop.ipynb#W0sZmlsZQ==")
        assert isinstance(_bar_output(cells), CellBar)
    assert [["a"]] == list(pieces(["a"], "records"))
