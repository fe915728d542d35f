"""A topology that was built before a cell changed its declarations reports that, as do all its displays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kstreamnb as ks
from kstreamnb.errors import TopologyError
from tests.notebook.shells import Shell, loaded_shell

CELLS = {
    "make": 'builder = ks.StreamsBuilder("app")\norders = builder.stream("orders")',
    "wanted": "def wanted(key, value):\n    return value > 3",
    "big": "big = orders.filter(lambda key, value: value > 3)",
    "few": 'few = orders.filter(wanted)\nfew.to("few")',
    "out": 'big.to("out")',
    "build": "topology = builder.build()",
    "sample": 'sample = ks.Sample.from_text("key | value | time\\na | 1 | 0", topic="orders")',
    "run": "run = ks.replay(topology, sample)",
}
CHANGED = "big = orders.filter(lambda key, value: value > 0)"


@pytest.fixture
def shell() -> Iterator[Shell]:
    with loaded_shell() as made:
        for cell, source in CELLS.items():
            made.run(source, cell)
        yield made


def test_an_edit_makes_the_topology_stale_until_it_is_built_again(shell: Shell) -> None:
    """The message names the cell by its current number, the variable, and the next action."""
    assert shell.value("topology").stale is None
    shell.run(CHANGED, "big")
    assert shell.value("topology").stale == 'built before cell 10 changed "big"; run builder.build() again'
    shell.run(CELLS["build"], "build")
    assert shell.value("topology").stale is None


@pytest.mark.parametrize("cell", list(CELLS))
def test_a_cell_that_runs_again_without_an_edit_changes_nothing(shell: Shell, cell: str) -> None:
    """Every run creates new functions and handles; only their content counts."""
    built = shell.value("topology")
    shell.run(CELLS[cell], cell)
    assert built.stale is None


def test_going_back_makes_the_topology_fresh(shell: Shell) -> None:
    """The declarations are compared, not counted."""
    shell.run(CHANGED, "big")
    shell.run(CELLS["big"], "big")
    assert shell.value("topology").stale is None


def test_a_new_and_a_forgotten_cell_are_told_apart(shell: Shell) -> None:
    """Additions are named by their cell; removals by their variable or method."""
    shell.run('orders.to("copies")', "more")
    assert shell.value("topology").stale == 'built before cell 10 added "to"; run builder.build() again'
    shell.run('builder.forget("cell 10")', "forget")
    assert shell.value("topology").stale is None
    shell.run("builder.forget(big)", "forget")
    assert '"filter" disappeared' in shell.value("topology").stale


def test_a_new_handle_is_named_by_its_variable_not_by_an_output_of_a_cell(shell: Shell) -> None:
    """IPython keeps the value of each cell in a variable such as `_10` as well."""
    shell.run("huge = orders.filter(lambda key, value: value > 9)\nhuge", "more")
    assert shell.value("topology").stale == 'built before cell 10 added "huge"; run builder.build() again'


def test_the_call_that_builds_again_has_the_users_name_of_the_builder(shell: Shell) -> None:
    """Each topology names its own builder; "builder" if no variable holds it."""
    shell.run('shop = ks.StreamsBuilder("shop")\nsold = shop.stream("sold")', "shop")
    shell.run("sold.to('out')", "sold")
    shell.run("built = shop.build()", "built")
    shell.run("sold.to('copies')", "sold")
    shell.run(CHANGED, "big")
    assert shell.value("built").stale.endswith("; run shop.build() again")
    assert shell.value("topology").stale.endswith("; run builder.build() again")
    shell.run("del shop", "more")
    assert shell.value("built").stale.endswith("; run builder.build() again")


def test_an_edited_function_makes_the_topology_stale(shell: Shell) -> None:
    """The filter holds the old function; its cell has to run before the topology is built again."""
    shell.run("def wanted(key, value):\n    return value > 5", "wanted")
    assert '"wanted"' in shell.value("topology").stale


def test_everything_that_shows_the_topology_says_it(shell: Shell) -> None:
    """Picture, replay, plan and live widgets carry the mark; outputs of the replay are unchanged."""
    shell.run("stepper, explorer = ks.widgets.stepper(run), ks.widgets.explorer(topology)", "widgets")
    before = shell.value("run").output("out")
    shell.run(CHANGED, "big")
    sentence = 'stale: built before cell 11 changed "big"; run builder.build() again'
    for shown in ("topology", "run", "ks.plan(topology)"):
        assert sentence in shell.run(shown, "show")
    assert sentence.replace('"', "&quot;") in shell.value("topology").to_svg()
    assert [f"stale: {shell.value(name).notice}" for name in ("stepper", "explorer")] == [sentence] * 2
    assert shell.value("run").output("out") == before
    shell.run(CELLS["big"], "big")
    assert shell.value("stepper").notice == ""


def test_a_stale_topology_is_not_deployed(shell: Shell) -> None:
    """A deployment would run what the notebook no longer contains."""
    shell.run(CHANGED, "big")
    with pytest.raises(TopologyError, match='the topology is stale: built before cell 10 changed "big"'):
        ks.deploy(shell.value("topology"), checkpoint="nowhere", bootstrap_servers="localhost:1")


def test_a_script_may_build_twice(shell: Shell) -> None:
    """Without cells a topology stays as it was built, whatever is declared later."""
    shell.run("%unload_ext kstreamnb")
    builder = ks.StreamsBuilder("script")
    builder.stream("orders").to("out")
    built = builder.build()
    builder.stream("more").to("more-out")
    assert built.stale is None


def test_a_handle_points_out_a_field_that_no_record_has(shell: Shell) -> None:
    """The display names the field that was probably meant, beside the failed row."""
    shell.run(
        'builder.sample = ks.Sample.from_text(\'key | value | time\\na | {"amount": 1} | 0\', topic="orders")', "data"
    )
    shown = shell.run('rich = orders.filter(lambda key, value: value.get("amuont"))\nrich', "rich")
    assert 'it reads the field "amuont", which no record of "orders" in the sample has: did you mean "amount"?' in shown
