"""Cells that run again: their declarations are replaced, and dependent ones follow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kstreamnb as ks
from kstreamnb.errors import DOCUMENTATION, TopologyError
from kstreamnb.notebook.builder_display import show_builder
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
    """Only the edited cell runs again; the sink is attached to its new last step."""
    shell.run("paid = orders.filter(lambda key, value: value).map_values(str)", "paid")
    described = shell.value("builder").build().describe()
    assert "KSTREAM-SINK-0000000003 (topic: out)\n      <-- KSTREAM-MAPVALUES-0000000002" in described


def test_the_builders_cell_may_run_again(shell: Shell) -> None:
    """Creating the builder again keeps the declarations of other cells."""
    shell.run('builder = ks.StreamsBuilder("app")', "make")
    assert ["orders"] == _topics(shell)


def test_a_cell_that_replaces_its_own_variable_may_run_again(shell: Shell) -> None:
    """`s = s.filter(…)` run twice filters once."""
    for _ in range(2):
        shell.run("orders = orders.filter(lambda key, value: True)", "narrow")
    assert 2 == shell.value("builder").build().describe().count("Processor: KSTREAM-FILTER")


def test_data_in_variables_is_not_looked_through(shell: Shell) -> None:
    """A cell that declares nothing looks into no variable; one that declares, into small collections only."""
    shell.run(
        "looks = []\n"
        "class Rows(list):\n"
        "    def __iter__(self):\n        looks.append(len(self))\n        return super().__iter__()\n"
        "few, many = Rows([1]), Rows(range(100_000))",
        "data",
    )
    shell.run("1", "other")
    assert [] == shell.value("looks")
    shell.run('streams = {"paid": orders.filter(lambda key, value: value)}', "paid")
    assert {1} == set(shell.value("looks"))


def test_what_lost_its_parent_is_stale_and_named_with_its_cell(shell: Shell) -> None:
    """The error shows the orphan's line and cell, the variable that is gone, and one next action."""
    shell.run("paid = None", "paid")
    with pytest.raises(TopologyError, match="1 declaration is stale") as raised:
        shell.value("builder").build()
    assert '`paid.to("out")` in cell 5 uses "paid", which no cell makes any more' in str(raised.value)
    assert raised.value.hint == 'make "paid" again and run cell 5, or remove cell 5 with builder.forget("cell 5")'


def test_the_hint_calls_the_builder_by_the_users_name() -> None:
    """The printed call runs, and the topology is whole again."""
    with loaded_shell() as shell:
        for cell, code in enumerate(('b = ks.StreamsBuilder("app")', 's = b.stream("in")', 's.to("out")', "s = None")):
            shell.run(code, "s" if code == "s = None" else str(cell))
        shell.run("s = None", "1")
        with pytest.raises(TopologyError, match="stale") as raised:
            shell.value("b").build()
        call = (raised.value.hint or "").rpartition(" with ")[2]
        assert 'b.forget("cell 4")' == call
        shell.run(call, "forget")
        assert not shell.value("b").build().sources()


@pytest.mark.parametrize("again", [False, True], ids=["reader not run", "reader run again"])
def test_a_renamed_variable_is_named_where_it_is_still_used(shell: Shell, again: bool) -> None:
    """The old value is still in the namespace, so running the reader again does not help: the new name does."""
    shell.run("settled = orders.filter(lambda key, value: value)", "paid")
    if again:
        shell.run('paid.to("out")', "out")
    reader = "cell 7" if again else "cell 5"
    with pytest.raises(TopologyError, match="1 declaration is stale") as raised:
        shell.value("builder").build()
    assert f'{reader} uses "paid", which cell 6 no longer makes: it makes "settled"' in str(raised.value)
    assert raised.value.hint == f'write "settled" instead of "paid" in {reader}, and run it'


def test_a_renamed_variable_that_is_shown_is_named_at_once_and_in_what_used_it(shell: Shell) -> None:
    """The cell that renames, the one that still reads the old name, and the builder say the same new name; the
    outputs that IPython keeps are no names.
    """
    shell.run("counted = paid.group_by_key().count()\ncounted", "counts")
    renamed = shell.run("settled = orders.filter(lambda key, value: value)\nsettled", "paid")
    assert 'uses "paid", which cell 7 no longer makes: it makes "settled"' in renamed
    assert 'write "settled" instead of "paid" in cell 6, and run it' in renamed
    shown = shell.run("counted = paid.group_by_key().count()\ncounted", "counts")
    assert '"count" (cell 8, line 1) is stale: ' in shown
    assert 'Hint: write "settled" instead of "paid" in cell 8, and run it' in shown
    with pytest.raises(TopologyError, match='it makes "settled"'):
        shell.value("builder").build()


def test_a_handle_whose_cell_no_longer_makes_it_says_so(shell: Shell) -> None:
    """A scratch cell was overwritten; its variable still holds the handle."""
    shell.run("scratch = paid.map_values(str)\nscratch", "scratch")
    shell.run("1 + 1", "scratch")
    shown = shell.run("scratch", "show")
    assert "is stale: its cell ran again and no longer declares it" in shown
    assert "Hint: declare it again, or use another handle" in shown


def test_several_stale_declarations_are_all_named(shell: Shell) -> None:
    """The first one is shown first, with its action; the others follow."""
    shell.run('paid.to("copies")', "copies")
    shell.run("paid = None", "paid")
    with pytest.raises(TopologyError, match="2 declarations are stale") as raised:
        shell.value("builder").build()
    assert raised.value.detail == '`paid.to("copies")` in cell 6 uses "paid", which no cell makes any more'


@pytest.mark.parametrize("name", ["_", "_hidden"])
def test_what_has_no_variable_follows_in_its_order(shell: Shell, name: str) -> None:
    """Outputs of cells and names with an underscore are no variables; their handles follow all the same."""
    for _ in range(2):
        shell.run(f'{name} = builder.stream("other").filter(print)', "other")
        if not str(shell.value("builder").build().describe()).count("topic: copy"):
            shell.run(f'{name}.to("copy")', "copy")
    described = str(shell.value("builder").build().describe())
    assert "topic: copy)\n      <-- KSTREAM-FILTER" in described


def test_a_second_handle_of_one_declaration_follows(shell: Shell) -> None:
    """Two variables of one stream, and one of them goes."""
    shell.run('twice = builder.stream("twice")\nsame = twice', "twice")
    shell.run('twice.to("a")\nsame.to("b")', "sinks")
    shell.run('same = builder.stream("twice")', "twice")
    described = str(shell.value("builder").build().describe())
    assert 1 == described.count("topics: [twice]")


def test_a_cell_may_run_again_after_its_deletion_was_undone(shell: Shell) -> None:
    """JupyterLab reports it as deleted once more."""
    shell.ip.get_parent = lambda: {"metadata": {"cellId": "paid", "deletedCells": ["paid"]}}
    assert "KeyError" not in shell.run("paid = orders.filter(lambda key, value: value)", "paid")
    assert "topic: out" in shell.value("builder").build().describe()


def test_a_function_of_a_deleted_cell_stays_in_use(shell: Shell) -> None:
    """The namespace still has it."""
    shell.run("def keep(key, value): return value", "keep")
    shell.run("paid = orders.filter(keep)", "paid")
    shell.ip.get_parent = lambda: {"metadata": {"deletedCells": ["keep"]}}
    assert "topic: out" in shell.run("print(builder.build().describe())", "build")


def test_loading_late_says_what_to_run_again() -> None:
    """Cells that ran before are known for export; running those named makes declarations that follow."""
    shell = Shell()
    cells = {
        "make": 'import kstreamnb as ks\nb = ks.StreamsBuilder("late")',
        "read": 's = b.stream("a")',
        "sum": "1 + 1",
    }
    for cell, source in cells.items():
        shell.run(source, cell)
    said = shell.run("%load_ext kstreamnb").splitlines()
    assert 'made before %load_ext kstreamnb: "b"; run cell 1 and cell 2 again' in said[1]
    for cell in ("make", "read", "read"):
        shell.run(cells[cell], cell)
    shell.run('s.to("out")')
    assert 1 == shell.run("print(b.build().describe())").count("topics: [a]")
    sources = [run.source for run in shell.ip.kstreamnb_cells.latest()]
    shell.run("%unload_ext kstreamnb")
    assert list(cells.values()) == sources[:3]
    assert 6 == len(sources)


def test_a_builder_without_declarations_has_no_picture() -> None:
    """An empty picture would be an empty output with a number."""
    builder = ks.StreamsBuilder("shop")
    assert [] == show_builder(builder)[1]
    builder.stream("orders")
    assert 1 == len(show_builder(builder)[1])


def test_a_topic_that_is_read_twice_has_one_source_in_the_picture_of_a_builder() -> None:
    """As in the topology that it builds; the display of the builder once was an error."""
    builder = ks.StreamsBuilder("shop")
    for topic in ("all", "paid"):
        builder.stream("orders").to(topic)
    data, (picture,) = show_builder(builder)
    assert "Error" not in data["text/plain"]
    assert picture.description == builder.build().description()


def test_a_cell_can_be_forgotten_by_name(shell: Shell) -> None:
    """`builder.forget("cell 5")` removes what that cell declared."""
    shell.value("builder").forget("cell 5")
    assert "topic: out" not in shell.value("builder").build().describe()


def test_an_alias_made_in_another_cell_follows(shell: Shell) -> None:
    """`same = paid` follows when the cell of `paid` runs again."""
    shell.run("same = paid", "alias")
    shell.run("paid = orders.map_values(str)", "paid")
    assert "map_values" == shell.value("same").declaration.word


def test_handles_in_a_dict_follow(shell: Shell) -> None:
    """Declarations that use `branches["big"]` follow the entry of that name."""
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
        call = shown.partition("remove an earlier one with ")[2].partition("\n")[0]
        assert call.startswith('builder.forget("cell ')
        shell.run(call)
        assert "counts" in shell.value("builder").build().describe()
    assert "cell 4" in shown


def test_without_cell_ids_a_clash_of_edited_cells_names_the_earlier_one() -> None:
    """The text differs, so the error says which cell declared the name first."""
    with loaded_shell() as shell:
        shell.run('builder = ks.StreamsBuilder()\norders = builder.stream("orders")')
        shell.run('orders.group_by_key().count(store="counts")')
        shell.run('orders.filter(bool).group_by_key().count(store="counts")')
        assert 'remove an earlier one with builder.forget("cell 3")' in shell.run("builder.build()")


@pytest.mark.parametrize(
    ("field", "hint"), [("amount", 'did you mean "Amount"?'), ("pieces", "the record has the fields Amount, Item")]
)
def test_a_missing_field_is_answered_with_those_of_the_failing_record(shell: Shell, field: str, hint: str) -> None:
    """In a notebook, which shows the record as well."""
    shell.run('sample = ks.Sample.from_records([("orders", 0, 0, 5, "a", {"Amount": 1, "Item": "hat"})])')
    assert f"Hint: {hint}\n" in shell.run(f'orders.map_values(lambda order: order["{field}"]).head(sample)')


def test_a_missing_field_in_a_timestamp_extractor_is_answered_with_those_of_the_record(shell: Shell) -> None:
    """With the record, as for any other function, and with what failed."""
    shell.run('sample = ks.Sample.from_records([("orders", 0, 0, 5, "a", {"Amount": 1, "Item": "hat"})])')
    shell.run(
        'sold = ks.StreamsBuilder().stream("orders", timestamp_extractor=lambda record, _: record.value["amount"])'
    )
    shown = shell.run("sold.head(sample)")
    assert 'the timestamp extractor failed: KeyError: \'amount\' at orders-0@0 key "a" value {"Amount": 1' in shown
    assert 'Hint: did you mean "Amount"?\n' in shown
    assert "Cause: " not in shown


def test_an_error_shows_the_users_frames_only(shell: Shell) -> None:
    """Frames of the kit are hidden, as are those of constructors that Python wrote; `%ks traceback` shows them."""
    assert "<string>" not in shell.run('ks.Config({"processing.guarantee": "exactly_once"})')
    shown = shell.run('def declare():\n    orders.filter(len, name="bad name!")\n\ndeclare()')
    assert "in declare" in shown
    assert "/kstreamnb/" not in shown.replace(DOCUMENTATION, "")
    assert "kstreamnb/dsl/" in shell.run("%ks traceback")
    assert "<string>" not in shell.run("ks.TimeWindows(size_ms=-1)")  # methods of dataclasses have no file


@pytest.mark.parametrize("magic", ["%%capture", "%%time"])
def test_what_a_cell_runs_by_a_magic_is_part_of_it(shell: Shell, magic: str) -> None:
    """A cell under %%capture or %%time may run again like any other."""
    text = magic + "\nrich = orders.filter(lambda key, value: value > {})\nrich.to('rich')"
    shell.run(text.format(1), "rich")
    before = shell.value("builder").build().describe()
    shell.run(text.format(2), "rich")
    assert before == shell.value("builder").build().describe()
    assert str(before).count("topic: rich") == 1
    shell.run("rich = None", "rich")
    assert "topic: rich" not in str(shell.value("builder").build().describe())


def test_a_mistyped_method_is_told_the_right_one_and_where_it_stands(shell: Shell) -> None:
    """All errors of the kit have this form: one fact, the hint, and only the user's line."""
    shown = shell.run("late = orders.filtr(len)")
    assert 'UnknownNameError: a KStream has no "filtr"' in shown
    assert 'Hint: did you mean "filter"?' in shown
    assert "cell 6, line 1\n    late = orders.filtr(len)" in shown
    assert "/kstreamnb/" not in shown.replace(DOCUMENTATION, "")
    assert 'Hint: did you mean "StreamsBuilder"?' in shell.run("ks.StreamBuilder()")
    assert 'Hint: did you mean "stream"?' in shell.run('builder.streem("orders")')
    replay = "run = ks.replay(ks.Topology().add_source('in', 'a'), ks.Sample.from_records([('a', 0, 0, 0, 'k', 1)]))"
    assert 'Hint: did you mean "why_dropped"?' in shell.run(f"{replay}\nrun.why_droped()")


_TESTS = """
def wanted(key, value):
    return value > 1
"""


def test_a_function_that_was_edited_in_another_cell_makes_its_users_stale(shell: Shell) -> None:
    """The step with the old function is named with its cell, and marked in the picture of the builder."""
    shell.run(_TESTS, "functions")
    shell.run("paid = orders.filter(wanted)", "paid")
    assert shell.value("builder").build()
    shell.run(_TESTS.replace("1", "2"), "functions")
    with pytest.raises(TopologyError, match="1 declaration is stale") as raised:
        shell.value("builder").build()
    fact = '`paid = orders.filter(wanted)` in cell 7 has "wanted" from before cell 8 was edited'
    assert fact in str(raised.value)
    assert raised.value.hint == "run cell 7 again"
    assert "KSTREAM-FILTER-0000000001] ! old function in cell 7 <stale>" in shell.run("builder")
    assert "<stale>" in shell.run("paid")
    shell.run("paid = orders.filter(wanted)", "paid")
    assert "<stale>" not in shell.run("builder")


@pytest.mark.parametrize(
    "again",
    [_TESTS, "# the same, further down\n\n" + _TESTS, _TESTS + "\nanother = 5"],
    ids=["same", "moved", "longer"],
)
def test_a_function_that_is_defined_again_as_it_was_changes_nothing(shell: Shell, again: str) -> None:
    """Running its cell again, or editing something else in it, makes nothing stale."""
    shell.run(_TESTS, "functions")
    shell.run("paid = orders.filter(wanted)", "paid")
    shell.run(again, "functions")
    assert shell.value("builder").build()


def test_a_name_that_another_cell_uses_for_something_else_changes_nothing(shell: Shell) -> None:
    """From top to bottom, each step has the function that its name referred to at that point."""
    shell.run(_TESTS, "functions")
    shell.run("paid = orders.filter(wanted)", "paid")
    shell.run(_TESTS.replace("1", "2"), "other functions")
    assert shell.value("builder").build()


def test_a_processor_whose_method_was_edited_is_stale(shell: Shell) -> None:
    """A class is compared by its functions."""
    made = "class Doubled(ks.Processor):\n    def process(self, record):\n        self.context.forward(record)"
    shell.run(made, "processor")
    shell.run("paid = orders.process(Doubled)", "paid")
    assert shell.value("builder").build()
    shell.run(made.replace("forward(record)", "forward(None)"), "processor")
    assert "process" in shell.run("builder")
    with pytest.raises(TopologyError, match='has "Doubled" from before cell 8 was edited'):
        shell.value("builder").build()


def test_a_function_that_a_step_calls_through_another_is_always_the_newest(shell: Shell) -> None:
    """Names in a function's body are looked up when it runs, as everywhere in Python."""
    shell.run(_TESTS, "functions")
    shell.run("paid = orders.filter(lambda key, value: wanted(key, value))", "paid")
    shell.run(_TESTS.replace("1", "2"), "functions")
    topology = shell.value("builder").build()
    with ks.TopologyTestDriver(topology) as driver:
        driver.create_input_topic("orders").pipe_input("a", 2)
        assert driver.create_output_topic("out").is_empty()


def test_a_handle_marks_the_step_whose_function_is_another_than_before(shell: Shell) -> None:
    """The structure is the same, the predicate differs."""
    shell.run("paid = orders.filter(lambda key, value: value > 1)\npaid", "paid")
    assert "<changed>" not in shell.run("paid = orders.filter(lambda key, value: value > 1)\npaid", "paid")
    shown = shell.run("paid = orders.filter(lambda key, value: value > 2)\npaid", "paid")
    assert "paid · filter: value > 2 [KSTREAM-FILTER-0000000001] <changed>" in shown


def test_a_builder_shows_what_is_gone_and_what_has_lost_it(shell: Shell) -> None:
    """Both are marked and named with their cells; displaying them raises nothing."""
    shell.run("paid = None", "paid")
    shown = shell.run("builder")
    assert "[KSTREAM-FILTER-0000000001] ! gone from cell 4 <stale>" in shown
    assert "sink [KSTREAM-SINK-0000000002] ! orphan of cell 5 <stale>" in shown
    assert 'stale: `paid.to("out")` in cell 5 uses "paid", which no cell makes any more' in shown


def test_a_handle_says_what_its_edit_has_broken_elsewhere(shell: Shell) -> None:
    """An edit that removes a variable shows which cells are now orphaned."""
    shown = shell.run("paid = None\nsettled = orders.filter(lambda key, value: value)\nsettled", "paid")
    assert 'stale: `paid.to("out")` in cell 5 uses "paid", which cell 6 no longer makes: it makes "settled"' in shown


def test_forgetting_a_cell_that_declared_nothing_is_an_error(shell: Shell) -> None:
    """The error lists the existing cells."""
    with pytest.raises(TopologyError, match='nothing was declared in "cell 77"') as raised:
        shell.value("builder").forget("cell 77")
    assert raised.value.detail == "declared in cell 3, cell 4, cell 5"


def test_a_cell_that_failed_half_way_is_mended_by_running_it_again(shell: Shell) -> None:
    """Declarations made before the error are replaced."""
    shell.run("paid = orders.filter(lambda key, value: value)\nraise ValueError", "paid")
    shell.run("paid = orders.filter(lambda key, value: value)", "paid")
    assert 1 == shell.value("builder").build().describe().count("Processor: KSTREAM-FILTER")


def test_without_cell_ids_a_cell_that_runs_again_is_told_so_once() -> None:
    """If each execution is a new cell, the first repetition says so, with the remedy; the remedy works."""
    with loaded_shell() as shell:
        shell.run("builder = ks.StreamsBuilder()")
        said = [shell.run('builder.stream("orders").to("out")') for _ in range(3)]
        assert ["", True, ""] == [
            said[0],
            'remove the earlier declarations with builder.forget("cell 3")' in said[1],
            said[2],
        ]
        shell.run('builder.forget("cell 3")')
        shell.run('builder.forget("cell 4")')
        assert 1 == shell.value("builder").build().describe().count("Sink:")


def test_the_node_that_failed_is_red_in_the_next_picture_and_only_there(shell: Shell) -> None:
    """A user's function raises; the picture after it shows where."""
    shell.run("paid = orders.map_values(lambda value: 1 / value)", "paid")
    shell.run("topology = builder.build()\ndriver = ks.TopologyTestDriver(topology)", "drive")
    assert "ZeroDivisionError" in shell.run('driver.create_input_topic("orders").pipe_input("a", 0)')
    assert "map_values: 1 / value [KSTREAM-MAPVALUES-0000000001] <failed>" in shell.run("topology")
    assert "<failed>" not in shell.run("topology")


def test_a_preview_on_which_a_function_fails_shows_where(shell: Shell) -> None:
    """The graph is drawn with the node marked, and the error replaces the rows."""
    shell.run('builder.sample = ks.Sample.from_text("topic | key | value \\n orders | a | 0")')
    shown = shell.run("orders.map_values(lambda value: 1 / value)")
    assert "<failed>" in shown
    assert "ProcessingError" in shown


def test_frames_of_libraries_are_left_out_of_an_error(shell: Shell) -> None:
    """Only the user's call and the user's function are shown, nothing between them."""
    shell.run("import json\npaid = orders.map_values(lambda value: json.loads('{'))", "paid")
    shell.run("driver = ks.TopologyTestDriver(builder.build())", "drive")
    shown = shell.run('driver.create_input_topic("orders").pipe_input("a", 0)')
    assert "in <lambda>" in shown
    assert "JSONDecodeError" in shown
    assert "decoder.py" not in shown
    assert "decoder.py" in shell.run("%ks traceback")


def test_a_variable_that_a_later_cell_narrows_is_whole_again_for_the_cells_before(shell: Shell) -> None:
    """Names mean what they mean from top to bottom, in whatever order the cells run again."""
    shell.run("orders = orders.filter(lambda key, value: value)", "narrow")
    shell.run('orders.to("narrow")', "narrow out")
    described = shell.value("builder").build().describe()
    for cell, text in (
        ("orders", 'orders = builder.stream("orders")'),
        ("narrow out", 'orders.to("narrow")'),
        ("paid", "paid = orders.filter(lambda key, value: value)"),
        ("narrow", "orders = orders.filter(lambda key, value: value)"),
    ):
        shell.run(text, cell)
        assert described == shell.value("builder").build().describe()


def test_a_cell_whose_name_meant_something_else_is_stale(shell: Shell) -> None:
    """`paid` was another name for `orders` and is now a separate step: its reader has to run again."""
    shell.run("paid = orders", "paid")
    shell.run('paid.to("out")', "out")
    assert shell.value("builder").build()
    shell.run("paid = orders.filter(lambda key, value: value)", "paid")
    with pytest.raises(TopologyError, match="1 declaration is stale") as raised:
        shell.value("builder").build()
    assert '`paid.to("out")` in cell 7 was made from an earlier "paid"' in str(raised.value)
    assert raised.value.hint == "run cell 7 again"
