"""Cells that run again: what they declared is replaced, and what was made from it follows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kstreamnb.errors import TopologyError
from tests.notebook.shells import Shell, loaded_shell


@pytest.fixture
def shell() -> Iterator[Shell]:
    with loaded_shell() as made:
        made.run('builder = ks.StreamsBuilder("app")', "make")
        made.run('orders = builder.stream("orders")', "orders")
        made.run("paid = orders.filter(lambda key, value: value)", "paid")
        made.run('paid.to("out")', "out")
        yield made


def _topics(shell: Shell) -> list[str]:
    return [topic for source in shell.value("builder").build().sources() for topic in source.topics]


def test_loading_prints_one_line_and_starts_nothing() -> None:
    """The line names versions and whether Java is there, and no absolute path."""
    shell = Shell()
    printed = shell.run("%load_ext kstreamnb")
    shell.run("%unload_ext kstreamnb")
    assert 1 == len(printed.splitlines())
    assert printed.startswith("kstreamnb ")
    assert " /" not in printed


def test_a_rerun_cell_declares_nothing_twice(shell: Shell) -> None:
    """Running every cell again leaves the same topology."""
    before = shell.value("builder").build().describe()
    shell.run("paid = orders.filter(lambda key, value: value)", "paid")
    shell.run('paid.to("out")', "out")
    assert before == shell.value("builder").build().describe()


def test_what_was_made_from_an_edited_cell_follows(shell: Shell) -> None:
    """Only the edited cell runs again; the sink hangs on its new last step."""
    shell.run("paid = orders.filter(lambda key, value: value).map_values(str)", "paid")
    described = shell.value("builder").build().describe()
    assert "KSTREAM-SINK-0000000003 (topic: out)\n      <-- KSTREAM-MAPVALUES-0000000002" in described


def test_the_builders_cell_may_run_again(shell: Shell) -> None:
    """Making the builder again continues what other cells declared."""
    shell.run('builder = ks.StreamsBuilder("app")', "make")
    assert ["orders"] == _topics(shell)


def test_a_cell_that_replaces_its_own_variable_may_run_again(shell: Shell) -> None:
    """`s = s.filter(…)` run twice filters once."""
    for _ in range(2):
        shell.run("orders = orders.filter(lambda key, value: True)", "narrow")
    assert 2 == shell.value("builder").build().describe().count("Processor: KSTREAM-FILTER")


def test_what_lost_its_parent_is_stale_and_named_with_its_cell(shell: Shell) -> None:
    """The error names the cell of the orphan and of what it was made from."""
    shell.run("paid = None", "paid")
    with pytest.raises(TopologyError, match="1 declaration is stale") as raised:
        shell.value("builder").build()
    assert raised.value.detail == '"to" (cell 5, line 1) was made from "filter" (cell 4, line 1)'


def test_a_cell_can_be_forgotten_by_name(shell: Shell) -> None:
    """`builder.forget("cell 5")` takes back what that cell declared."""
    shell.value("builder").forget("cell 5")
    assert "topic: out" not in shell.value("builder").build().describe()


def test_an_alias_made_in_another_cell_follows(shell: Shell) -> None:
    """`same = paid` follows when the cell of `paid` runs again."""
    shell.run("same = paid", "alias")
    shell.run("paid = orders.map_values(str)", "paid")
    assert "map_values" == shell.value("same").declaration.word


def test_handles_in_a_dict_follow(shell: Shell) -> None:
    """What was made from `branches["big"]` follows the entry of that name."""
    branches = 'branches = orders.split(name="by-").branch(lambda k, v: v > {}, name="big").no_default_branch()'
    shell.run(branches.format(1), "split")
    shell.run('branches["by-big"].to("big")', "big")
    shell.run(branches.format(2), "split")
    assert "topic: big" in shell.value("builder").build().describe()


def test_without_cell_ids_a_clash_says_what_to_do() -> None:
    """A console sends no ids: a store that is declared twice is an error with the remedy."""
    with loaded_shell() as shell:
        shell.run('builder = ks.StreamsBuilder()\norders = builder.stream("orders")')
        for _ in range(2):
            shell.run('orders.group_by_key().count(store="counts")')
        shown = shell.run("builder.build()")
    assert "builder.forget" in shown
    assert "cell 4" in shown


def test_an_error_shows_the_users_frames_only(shell: Shell) -> None:
    """Frames of the kit are left out; `%ks traceback` shows them."""
    shown = shell.run('def declare():\n    orders.filter(len, name="bad name!")\n\ndeclare()')
    assert "in declare" in shown
    assert "/kstreamnb/" not in shown
    assert "kstreamnb/dsl/" in shell.run("%ks traceback")
