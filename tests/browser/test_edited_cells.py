"""Cells that are edited, renamed and replaced in JupyterLab: nothing stale stays unmarked."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab, Notebook

pytestmark = [pytest.mark.browser]

LOAD, MAKE, BIG, COUNT, BUILD, REPLAY, STEPPER, EXPLORER, PLAN, SCRATCH, NEW = range(11)
CELLS = [
    "%load_ext kstreamnb\nimport kstreamnb as ks",
    '''
builder = ks.StreamsBuilder("shop")
orders = builder.stream("orders")
builder.sample = ks.Sample.from_text("""
    topic  | key | value | time
    orders | a   | 1     | 0
    orders | b   | 5     | 1000
    orders | a   | 7     | 2000
""")
''',
    "big = orders.filter(lambda k, v: v > 3)\nbig",
    'big.group_by_key().count(store="sold").to_stream().to("out")',
    "topology = builder.build()\ntopology",
    "replay = ks.replay(topology, builder.sample)\nreplay",
    "stepper = ks.widgets.stepper(replay)\nstepper",
    "explorer = ks.widgets.explorer(topology)\nexplorer",
    "ks.plan(topology, partitions=2)",
    *("pass", "pass"),
]
STALE = re.compile(r'built before cell \d+ changed "big"; run builder.build\(\) again')
WRITE = re.compile(r'write "large" instead of "big" in cell \d+, and run it')
DEPLOY = 'ks.deploy(topology, bootstrap_servers="localhost:1", checkpoint="nowhere")'


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Iterator[Notebook]:
    """Return a notebook whose cells have run once, from the first to the explorer's."""
    with lab.notebook("edited", CELLS) as found:
        for number in range(EXPLORER + 1):
            found.run(number)
        expect(found.output(EXPLORER).locator(".ks-thing").first).to_be_visible()
        yield found
        found.assert_quiet()


@pytest.fixture
def notebook(opened: Notebook) -> Notebook:
    """Return the notebook with its cells as they were first."""
    for number in (BIG, COUNT, SCRATCH, NEW, BUILD, REPLAY):
        opened.run(number, source=CELLS[number])
    return opened


def test_an_edit_marks_all_that_was_built_before_it(notebook: Notebook) -> None:
    """The filter's cell runs, the builder's does not: widgets say so at once, other displays when they run again."""
    edited = notebook.run(BIG, source="big = orders.filter(lambda k, v: v > 0)\nbig")
    expect(edited).to_contain_text("3 records, from 3 input records")
    for cell in (STEPPER, EXPLORER):
        expect(notebook.output(cell).locator(".ks-widget")).to_contain_text(STALE)
    replayed = notebook.run(REPLAY)
    expect(replayed).to_contain_text(STALE)
    expect(replayed).not_to_contain_text('"a": 1')
    drawn = notebook.run(BUILD, source="topology")
    notebook.assert_drawn(drawn, "stale: built before cell ", "; run builder.build")
    notebook.picture(drawn, "stale-topology")
    expect(notebook.run(PLAN)).to_contain_text(STALE)
    refused = notebook.run(NEW, source=DEPLOY)
    expect(refused).to_contain_text("TopologyError: the topology is stale: ")
    expect(refused).to_contain_text(STALE)

    notebook.run(BUILD, source=CELLS[BUILD])
    fresh = notebook.run(REPLAY)
    expect(fresh).not_to_contain_text("stale")
    expect(fresh).to_contain_text('output "out": 3')


def test_a_renamed_variable_is_named_wherever_it_was_used(notebook: Notebook) -> None:
    """The renaming cell, the one that still has the old name, and the builder say what to write where."""
    renamed = notebook.run(BIG, source="large = orders.filter(lambda k, v: v > 3)\nlarge")
    expect(renamed).to_contain_text(re.compile(r'uses "big", which cell \d+ no longer makes: it makes "large"'))
    expect(renamed).to_contain_text(WRITE)
    shown = notebook.run(COUNT, source='counts = big.group_by_key().count(store="sold")\ncounts')
    expect(shown).to_contain_text(WRITE)
    notebook.picture(shown, "renamed-reader")
    refused = notebook.run(BUILD)
    expect(refused).to_contain_text("TopologyError: 1 declaration is stale: `counts = big.group_by_key()")
    expect(refused).to_contain_text(WRITE)
    notebook.run(COUNT, source=CELLS[COUNT].replace("big.", "large."))
    notebook.assert_drawn(notebook.run(BUILD), "large · filter")


def test_an_overwritten_scratch_cell_leaves_nothing_behind(notebook: Notebook) -> None:
    """Its declarations are gone from the topology, and its handle says so."""
    notebook.run(SCRATCH, source='scratch = big.map_values(str)\nscratch.to("scratch")')
    notebook.assert_drawn(notebook.run(BUILD), "scratch · map_values")
    notebook.run(SCRATCH, source="1 + 1")
    stale = notebook.run(BUILD, source="topology")
    notebook.assert_drawn(stale, "scratch", "disappeared")
    shown = notebook.run(NEW, source="scratch")
    expect(shown).to_contain_text("is stale: its cell ran again and no longer declares it")
    rebuilt = notebook.run(BUILD, source=CELLS[BUILD])
    expect(rebuilt.locator(".jp-RenderedSVG img")).not_to_have_attribute("src", re.compile("scratch"))


def test_only_what_changed_is_marked_and_what_is_gone_has_its_name(notebook: Notebook) -> None:
    """An edited filter is changed, what follows it is not; a replaced one is named as the user knows it."""
    shown = notebook.run(COUNT, source="sold = big.group_by_key().count()\nsold")
    notebook.assert_drawn(shown, "big · filter", "sold · count")
    edited = notebook.run(BIG, source="big = orders.filter(lambda k, v: v > 0)\nbig")
    notebook.assert_drawn(edited, "changed")
    expect(notebook.run(BIG)).not_to_contain_text("gone")
    again = notebook.run(COUNT)
    notebook.assert_drawn(again, "changed")
    replaced = notebook.run(BIG, source="big = orders.map_values(lambda v: v + 1)\nbig")
    expect(replaced).to_contain_text("gone since the last run: big · filter")
    expect(replaced).not_to_contain_text("KSTREAM-")
    notebook.picture(replaced, "gone")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("orders.to(orders)", 'Hint: name it: "orders"'),
        ("orders.count()", 'did you mean "group_by_key().count"?'),
        ('builder.table("t").to("x")', 'did you mean "to_stream().to"?'),
        ("orders.group_by_key().to_stream()", 'did you mean "count().to_stream"?'),
        ("args = (topology, builder.sample, 3, 4)\nks.replay(*args)", "Hint: pass args[3] by name: config=…"),
        ("ks.replay(builder.build())", "3 records in"),
        ("%ks replay topology builder.sample", "3 records in"),
        (
            'odd = ks.StreamsBuilder("odd")\nodd.stream("orders").map_values(lambda v: v["m"]).to("o")\n'
            'ks.replay(odd.build(), ks.Sample.from_records([("orders", 0, 0, 5, "a", {"n": 1})]))',
            'KeyError \'m\' at orders-0@0 key "a" value {"n": 1}',
        ),
    ],
)
def test_a_slip_is_answered_with_the_missing_step(notebook: Notebook, source: str, says: str) -> None:
    expect(notebook.run(NEW, source=source)).to_contain_text(says)


def test_the_exported_script_keeps_comments_and_layout(notebook: Notebook, lab: Lab) -> None:
    """Displays and magics are left out; all else stays as it was typed."""
    notebook.run(COUNT, source=f"# the shop's sums\n{CELLS[COUNT]}  # by key")
    expect(notebook.run(NEW, source="%ks export builder exported.py")).to_contain_text("exported.py")
    text = (lab.folder / "exported.py").read_text()
    assert f"# the shop's sums\n{CELLS[COUNT]}  # by key" in text
    assert CELLS[MAKE].strip() in text
    assert "ks.widgets" not in text
