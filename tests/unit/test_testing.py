"""Assertions for tests of topologies: what they accept, and what their messages say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kstreamnb import Sample, StreamsBuilder, TopologyTestDriver
from kstreamnb.errors import ConfigError
from kstreamnb.testing import assert_outputs_equal, assert_topology_equal, nbval_sanitizers
from kstreamnb.testing.fixtures import topology_driver
from kstreamnb.topology.topology import Topology

__all__ = ["topology_driver"]  # pytest finds a fixture by its name


def _topology(output: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream("orders").to(output)
    return builder.build()


def test_equal_topologies_pass_as_objects_and_as_text() -> None:
    """A topology equals itself and the text of its description."""
    assert_topology_equal(_topology("out"), _topology("out"))
    assert_topology_equal(str(_topology("out").describe()), _topology("out"))


def test_a_topology_that_differs_is_shown_node_by_node() -> None:
    """The message names the node and what differs."""
    with pytest.raises(AssertionError, match="topic: out -> other"):
        assert_topology_equal(_topology("out"), _topology("other"))


def test_all_differences_of_outputs_are_shown_at_once() -> None:
    """One table shows missing and unexpected records."""
    found = Sample.from_text("topic | key | value\n out | a | 1\n out | b | 3\n out | c | 4")
    with pytest.raises(AssertionError) as raised:
        assert_outputs_equal("topic | key | value\n out | a | 1\n out | b | 2", found)
    lines = str(raised.value).splitlines()
    assert ["-", "+", "+"] == [line[0] for line in lines if line[0] in "-+"]


def test_equal_records_far_from_a_difference_are_counted() -> None:
    """Three before and after each difference are shown, as in a diff of a program; two differences keep their place."""
    found, expected = list(range(100)), list(range(100))
    found[20], found[60] = -1, -2
    del found[99]
    samples = [Sample.from_records([("out", 0, at, 0, None, value) for at, value in enumerate(values)])
               for values in (expected, found)]  # fmt: skip
    with pytest.raises(AssertionError) as raised:
        assert_outputs_equal(*samples, columns=["value"])
    assert str(raised.value).splitlines()[1:] == [
        "  value", "  … 17 equal records", "  17", "  18", "  19", "- 20", "+ -1", "  21", "  22", "  23",
        "  … 33 equal records", "  57", "  58", "  59", "- 60", "+ -2", "  61", "  62", "  63",
        "  … 32 equal records", "  96", "  97", "  98", "- 99",
    ]  # fmt: skip


def test_only_the_columns_of_a_typed_table_count() -> None:
    """Without a time column, any times match."""
    found = Sample.from_text("topic | key | value | time\n out | a | 1 | 77")
    assert_outputs_equal("topic | key | value\n out | a | 1", found)
    with pytest.raises(AssertionError, match="the outputs differ"):
        assert_outputs_equal("topic | key | value | time\n out | a | 1 | 78", found)


@pytest.mark.parametrize(
    "table",
    [
        "# a note\ntopic | key | value\nout | a | 1",
        "Topic | Key | Value | Timestamp\nout | a | 1 | 77",
        "| topic | key | value |\n|---|---|---|\n| out | a | 1 |",
    ],
)
def test_an_expected_table_has_every_form_that_samples_read(table: str) -> None:
    """Comments, capitals, the other name of the time, and Markdown."""
    assert_outputs_equal(table, Sample.from_text("topic | key | value | time\nout | a | 1 | 77"))


def test_an_empty_expected_table_is_refused_in_words() -> None:
    """The error is that of a sample without rows."""
    with pytest.raises(ConfigError, match="the table is empty"):
        assert_outputs_equal("", Sample.from_text("topic | value\nout | 1"))


def test_a_value_that_looks_like_a_rule_is_compared() -> None:
    """Records are compared cell by cell, whatever their text."""
    with pytest.raises(AssertionError, match="the outputs differ"):
        assert_outputs_equal("topic | value\nout | a-+-b", Sample.from_text("topic | value\nout | c-+-d"))


def test_the_sanitiser_file_is_there() -> None:
    """Nbval reads it with --nbval-sanitize-with."""
    assert "[addresses]" in Path(nbval_sanitizers()).read_text()


def test_the_fixture_makes_drivers(topology_driver: Callable[..., TopologyTestDriver]) -> None:
    """A driver created by the fixture works like any other."""
    driver = topology_driver(_topology("out"))
    driver.create_input_topic("orders").pipe_input("a", "1")
    assert "a" == driver.create_output_topic("out").read_record().key


_FAILING = """
import kstreamnb as ks


def test_mine(topology_driver):
    builder = ks.StreamsBuilder("mine")
    builder.stream("orders").map_values(lambda order: order["price"]).to("prices")
    driver = topology_driver(builder.build())
    driver.create_input_topic("orders").pipe_input("ann", {}, at=0)
"""


def _report(folder: Path, tests: str) -> str:
    """Return what pytest prints about a user's tests."""
    (folder / "conftest.py").write_text('pytest_plugins = ["kstreamnb.testing.fixtures"]')
    (folder / "test_mine.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_a_failing_test_of_a_user_shows_no_frames_of_the_package(tmp_path: Path) -> None:
    """A report once showed a dozen of them."""
    shown = _report(tmp_path, _FAILING)
    assert "ProcessingError" in shown
    assert "pipe_input" in shown
    assert "kstreamnb/" not in shown.replace("kstreamnb.github.io/kstreamnb/", "")


_GUESSING = """
import kstreamnb as ks


def test_a_column():
    ks.StreamsBuilder("mine").stream("orders")["price"]


def test_an_address():
    ks.deploy(ks.Topology(), "broker:9092")


def test_an_ordinary_mistake():
    (1, 2).add(3)
"""


def test_a_failing_test_of_a_user_shows_the_hints_of_notebooks(tmp_path: Path) -> None:
    """Python's own errors about calls of the kit had none outside of notebooks and scripts."""
    shown = _report(tmp_path, _GUESSING)
    assert "E       Hint: a stream or table holds no records itself: .head() returns the first ones" in shown
    assert "E       Hint: pass 'broker:9092' by name: " in shown
    # Where CI is set, pytest's summary shows whole messages once more.
    assert shown.count("E       Hint: ") == 2
