"""Widgets without a browser: their messages to the page, their reactions, and what remains without a kernel."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher

import kstreamnb as ks
from kstreamnb.notebook.widgets.base import FactsWidget
from kstreamnb.notebook.widgets.graphs import GraphWidget
from tests.notebook.shells import loaded_shell

STATIC = Path(ks.__file__).parent / "notebook" / "static"
_BANNED = ("import ", "http:", "https:", "innerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(")
NASTY = "<script>alert(1)</script>"


def topology() -> ks.Topology:
    """A join, which is five nodes, and a count after a repartition."""
    builder = ks.StreamsBuilder("shop")
    orders = builder.stream("orders").filter(lambda key, order: order != "free")
    orders.group_by(lambda key, order: order).count(store="per-order").to_stream().to("counts")
    windows = ks.JoinWindows.of_time_difference_with_no_grace("5m")
    orders.join(builder.stream("shipments"), lambda order, box: [order, box], windows).to("shipped")
    return builder.build()


def replay() -> ks.Replay:
    """Three orders, one of them free, one with markup in its value."""
    rows = [("orders", 0, at, at, f"o{at}", value) for at, value in enumerate(["hat", "free", NASTY])]
    return ks.replay(topology(), ks.Sample.from_records(rows))


def widgets() -> dict[str, Any]:
    """One of each that needs no Spark."""
    run = replay()
    return {
        "explorer": ks.widgets.explorer(topology()),
        "stepper": ks.widgets.stepper(run),
        "browser": ks.widgets.browse(run.now.store("per-order")),
        "editor": ks.widgets.edit(ks.Sample.from_records([("orders", 0, 0, 5, "shoe", NASTY)])),
    }


@pytest.mark.parametrize("kind", ["explorer", "stepper", "browser", "editor"])
def test_a_widget_carries_its_static_form_in_the_same_bundle(kind: str) -> None:
    """S1-23: the saved notebook has a complete static form, without address, uuid or users' markup."""
    widget = widgets()[kind]
    data, _ = widget._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert len(data["text/plain"].splitlines()) > 1
    assert NASTY not in data.get("text/html", "")
    assert ("text/html" in data) != (kind == "explorer"), "a pure picture has no HTML, which viewers would prefer"
    again, _ = widgets()[kind]._repr_mimebundle_()
    kept = {name: text for name, text in data.items() if "widget-view" not in name}
    assert kept == {name: text for name, text in again.items() if "widget-view" not in name}
    assert not re.search(r"0x[0-9a-f]{6}|[0-9a-f]{32}", repr(widget) + data["text/plain"])


@pytest.mark.parametrize(("kind", "pictures"), [("explorer", 1), ("stepper", 1), ("browser", 0), ("editor", 0)])
def test_jupyterlab_gets_the_static_form_as_outputs_before_the_widget(kind: str, pictures: int) -> None:
    """JupyterLab shows no other form of an output whose widget it does not find; viewers show HTML before pictures."""
    with loaded_shell() as shell:
        shell.run("1", "a cell with an id")
        shell.ip.display_pub = shown = CapturingDisplayPublisher()
        bundle, _ = widgets()[kind]._repr_mimebundle_()
    assert sorted(bundle) == ["application/vnd.jupyter.widget-view+json", "text/plain"]
    page, *others = [output["data"] for output in shown.outputs]
    assert "Run this cell again to use it" in page["text/html"]
    assert ("<table" in page["text/html"]) == (kind != "explorer")
    assert [sorted(each) for each in others] == [["image/svg+xml", "text/plain"]] * pictures


@pytest.mark.parametrize("kind", ["explorer", "stepper", "browser", "editor"])
def test_facts_are_plain_json(kind: str) -> None:
    """A page gets text and numbers, never objects."""
    facts = widgets()[kind].facts
    assert json.loads(json.dumps(facts)) == facts


@pytest.mark.parametrize("kind", ["explorer", "stepper", "browser", "editor"])
def test_a_failure_is_told_and_goes_away(kind: str) -> None:
    """A widget's callback has no caller: its errors are in ``error`` until something succeeds."""
    widget = widgets()[kind]
    widget.tell("fly", to="the moon")
    assert widget.error == 'KStreamError: this widget has no command "fly"'
    first = {"explorer": "fold_all", "stepper": "step", "browser": "refresh", "editor": "undo"}[kind]
    widget.tell(first, **({"folded": False} if kind == "explorer" else {}))
    assert widget.error == ""


def test_a_module_asks_nobody_and_imports_nothing() -> None:
    """One plain ES module each: no import, no network address, no markup from text, no evaluation."""
    for file in sorted(STATIC.glob("*.js")):
        text = re.sub(r"http://www\.w3\.org/2000/svg", "", file.read_text())
        for banned in (
            "import ",
            "http:",
            "https:",
            "innerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "fetch(",
        ):
            assert banned not in text, f"{file.name} has {banned}"


def test_without_anywidget_the_missing_package_is_named() -> None:
    """A clear message instead of a ModuleNotFoundError."""
    code = (
        "import sys; sys.modules['anywidget'] = None\n"
        "import kstreamnb as ks\n"
        "try: ks.widgets.explorer(ks.Topology())\n"
        "except ks.errors.MissingPackageError as error: print(error, *error.__notes__[:-1], sep='|')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = 'the package "anywidget" is not installed|Hint: pip install "kstreamnb[notebook]"'
    assert done.stdout.strip() == said


@pytest.mark.parametrize(
    ("opened", "said"),
    [
        (ks.widgets.explorer, "expected something with a graph, got int"),
        (ks.widgets.stepper, "replay must be Replay, got 7"),
        (ks.widgets.browse, "expected rows, got int"),
        (ks.widgets.edit, "sample must be Sample, got 7"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_a_hint(opened: Any, said: str) -> None:
    """The hint says what to pass instead."""
    with pytest.raises(ks.KStreamError, match=said) as caught:
        opened(7)
    assert any(note.startswith("Hint: pass") for note in caught.value.__notes__)


def test_the_explorer_folds_operators_of_the_dsl() -> None:
    """A stream-stream join is one operator of seven parts: five nodes and their internal stores."""
    explorer = ks.widgets.explorer(topology())
    explorer.tell("show", view="logical")
    join = next(box for box in explorer.facts["boxes"] if box["title"] == "join")
    assert join["folded"]
    assert explorer.facts["things"][join["id"]]["word"] == "7 parts"
    assert explorer.facts["things"][join["id"]]["code"].startswith("orders.join(")
    explorer.tell("fold", box=join["id"])
    assert "join window" in {thing["label"] for thing in explorer.facts["things"].values()}


def test_the_explorer_walks_from_topics_to_topics() -> None:
    """Every node comes after its parents; stores come after the nodes that use them."""
    explorer = ks.widgets.explorer(topology())
    explorer.tell("show", view="physical")
    names = [explorer.facts["things"][id_]["label"] for id_ in explorer.facts["order"]]
    assert names.index("orders") < names.index("orders · filter") < names.index("group_by") < names.index("count")
    assert names.index("count") < names.index("per-order") < len(names)
    assert names.index("to_stream") < names.index("counts")


def test_a_loop_through_a_topic_has_an_order_too() -> None:
    """A cycle has no natural start: the walk still visits every node once."""
    loop = ks.Topology().add_source("in", "a").add_sink("out", "a", "in")
    explorer = ks.widgets.explorer(loop)
    assert explorer.facts["order"] == ["topic-a"]
    explorer.tell("show", view="physical")
    order = explorer.facts["order"]
    assert sorted(order) == ["node-in", "node-out", "topic-a"]


def test_the_explorer_of_a_stream_shows_what_is_above_it() -> None:
    """A handle's own part of the graph, without the preview's additions."""
    texts = ks.StreamsBuilder("shop").stream("orders").map_values(str)
    labels = {thing["label"] for thing in ks.widgets.explorer(texts).facts["things"].values()}
    assert labels == {"orders", "texts · map_values"}


def test_the_stepper_moves_the_replay_itself() -> None:
    """The widget and Python are at the same step."""
    stepper = ks.widgets.stepper(replay())
    stepper.tell("seek", step=0)
    assert [waiting[0] for waiting in stepper.facts["waiting"]["rows"]] == ["input"] * 3
    stepper.tell("step")
    assert stepper.replay.position == 1
    assert next(hop["text"] for hop in stepper.facts["flight"]) == '"o0": "hat" at 0'
    stepper.tell("show", view="physical")
    assert all(hop["edge"] for hop in stepper.facts["flight"])


def test_the_stepper_shows_operators_until_nodes_are_asked_for() -> None:
    """Records fly between operators; what happens inside one stays at its shape, and counts are those of the step."""
    stepper = ks.widgets.stepper(replay())
    assert stepper.view == "logical"
    shapes = {thing["label"]: thing["kind"] for thing in stepper.graph["things"].values()}
    assert shapes["join"] == shapes["repartition"] == "operator"
    assert "sink" not in shapes.values()
    stepper.tell("seek", step=1)
    seen = {end for hop in stepper.facts["flight"] for end in (hop["tail"], hop["head"])}
    assert seen <= {*stepper.graph["order"]}
    edges = [hop["edge"] for hop in stepper.facts["flight"] if hop["edge"]]
    assert {stepper.facts["counts"][edge] for edge in edges} == {"1"}
    assert all(f'id="{edge}"' in stepper.svg for edge in edges)
    stepper.tell("show", view="physical")
    assert "sink" in {thing["kind"] for thing in stepper.graph["things"].values()}
    assert len([hop for hop in stepper.facts["flight"] if hop["edge"]]) > len(edges)


def test_a_breakpoint_at_an_operator_stops_at_each_way_in() -> None:
    """A join of streams has two."""
    stepper = ks.widgets.stepper(replay())
    (join,) = (id_ for id_, thing in stepper.graph["things"].items() if thing["label"] == "join")
    stepper.tell("stop_at", node=join)
    assert [stop.node.rpartition("-")[0] for stop in stepper.replay.breakpoints] == ["KSTREAM-WINDOWED"] * 2
    stepper.tell("seek", step=0)
    stepper.tell("run_on")
    assert stepper.facts["hit"]


def test_the_stepper_counts_records_over_edges_up_to_the_step() -> None:
    """Counts start at nothing and end with those of the whole run."""
    stepper = ks.widgets.stepper(replay())
    last = stepper.facts["counts"]
    stepper.tell("seek", step=0)
    assert set(stepper.facts["counts"].values()) == {"0"}
    assert "3" in last.values()


def test_the_stepper_shows_rows_before_and_after() -> None:
    """New, unchanged and changed rows are distinguished."""
    run = ks.replay(topology(), ks.Sample.from_records([("orders", 0, at, at, "k", "hat") for at in range(2)]))
    stepper = ks.widgets.stepper(run)
    marks = {}
    for step in range(len(run.steps) + 1):
        stepper.tell("seek", step=step)
        rows = next(store for store in stepper.facts["stores"] if store["name"] == "per-order")
        marks[step] = [(*cells[2:4], mark) for cells, mark in zip(rows["rows"], rows["marks"], strict=True)]
    assert [("", "1", "new")] in marks.values()
    assert [("1", "1", "")] in marks.values()
    assert [("1", "2", "other")] in marks.values()


def test_breakpoints_are_those_of_the_replay() -> None:
    """A key is parsed as in a sample; changes made in Python appear in the widget."""
    stepper = ks.widgets.stepper(replay())
    stepper.tell("seek", step=0)
    stepper.tell("stop_at", key="o2")
    assert stepper.replay.breakpoints[0].key == "o2"
    stepper.tell("run_on")
    assert stepper.facts["hit"]
    assert '"o2"' in stepper.facts["title"]
    stepper.tell("clear", index=0)
    assert stepper.facts["breakpoints"] == []


def test_the_browser_leaves_out_the_partition_of_records_without_one() -> None:
    """As a sample's own table does; beside records with a partition the cell is empty."""
    table = "topic | key | partition\nt | a |\n"
    assert "partition" not in str(ks.widgets.browse(ks.Sample.from_text(table)))
    browser = ks.widgets.browse(ks.Sample.from_text(f"{table}t | b | 1\n"))
    at = browser.facts["header"].index("partition")
    assert ["", "1"] == [row[at] for row in browser.facts["rows"]]


def test_the_browser_pages_through_many_rows() -> None:
    """The last page ends with the rows, and a search restarts at the first page."""
    builder = ks.StreamsBuilder()
    builder.stream("in").group_by_key().count(store="counts")
    driver = ks.TopologyTestDriver(builder.build())
    topic = driver.create_input_topic("in")
    for number in range(60):
        topic.pipe_input(f"key-{number:02}", number, at=number)
    browser = ks.widgets.browse(driver.get_key_value_store("counts"))
    browser.tell("turn", page=99)
    assert browser.facts["number"] == "51 to 60 of 60"
    browser.tell("search", text="KEY-5")
    assert browser.facts["number"] == "1 to 10 of 10 that match, of 60"
    topic.pipe_input("key-50", 0, at=99)
    browser.tell("refresh")
    assert browser.facts["rows"][0][1] == "2"
    assert browser.forms()["text/plain"].endswith("10 of 60")


@pytest.fixture
def priced() -> ks.Replay:
    """Sixty orders of two customers, a price each, an hour apart; every second is written."""
    builder = ks.StreamsBuilder("priced")
    builder.stream("orders").filter(lambda key, order: order["price"] % 2 == 0).to("even")
    hour = 3_600_000
    rows = [("orders", 0, at, 1_767_225_600_000 + at * hour, "ab"[at % 4 // 2], {"price": at}) for at in range(60)]
    return ks.replay(builder.build(), ks.Sample.from_records(rows))


@pytest.mark.parametrize(
    ("condition", "number"),
    [
        ("value.price >= 50", "1 to 5 of 5 that match, of 30"),
        ("value.price = 4", "1 to 1 of 1 that match, of 30"),
        ("time < 2026-01-01T06:00Z", "1 to 3 of 3 that match, of 30"),
        ("key = a", "1 to 15 of 15 that match, of 30"),
        ('key = "b"', "1 to 15 of 15 that match, of 30"),
        ("offset<2", "1 to 2 of 2 that match, of 30"),
        ("value.weight > 0", "0 of 30: no row matches"),
        ("price", "1 to 25 of 30"),
    ],
)
def test_the_rows_of_an_output_are_filtered_by_conditions_on_columns_and_fields(
    priced: ks.Replay, condition: str, number: str
) -> None:
    """Numbers, times and texts compare as what they are; anything else is looked for as text."""
    browser = ks.widgets.browse(priced.output("even"))
    browser.tell("search", text=condition)
    assert (browser.error, browser.facts["number"]) == ("", number)


def test_the_rows_of_an_output_are_sorted_by_any_column(priced: ks.Replay) -> None:
    """Times as instants, and a time that is none is refused in the widget."""
    browser = ks.widgets.browse(priced.output("even"))
    assert browser.facts["header"] == ["topic", "partition", "offset", "time", "key", "value"]
    browser.tell("sort", by="time")
    browser.tell("sort", by="time")
    assert browser.facts["rows"][0][2:4] == ["29", "2026-01-03T10:00:00Z"]
    browser.tell("search", text="time > soon")
    assert "soon" in browser.error
    assert "<table>" in browser.forms()["text/html"]


def test_the_caption_says_which_rows_and_how_many(priced: ks.Replay) -> None:
    """Also after the rows were replaced."""
    browser = ks.widgets.browse(priced.output("even"))
    assert browser.facts["title"] == browser.label == "30 records of even"
    browser.source = priced.output("none")
    browser.tell("refresh")
    assert (browser.label, browser.facts["number"]) == ("0 records", "no rows")


def test_a_browser_keeps_search_and_order_when_its_cell_runs_again() -> None:
    """Another cell begins without a search."""
    with loaded_shell() as shell:
        rows = "ks.Sample.from_records([('orders', 0, n, n, 'a', n) for n in range(60)])"
        shell.run(f"found = ks.widgets.browse({rows})", "first")
        shell.value("found").tell("search", text="value > 57")
        shell.value("found").tell("sort", by="value")
        shell.run(f"found = ks.widgets.browse({rows} + {rows})", "first")
        facts = shell.value("found").facts
        assert (facts["text"], facts["by"]) == ("value > 57", "value")
        assert facts["number"] == "1 to 4 of 4 that match, of 120"
        shell.run(f"other = ks.widgets.browse({rows})", "second")
        assert shell.value("other").facts["text"] == ""


def test_widgets_of_one_replay_and_its_code_follow_each_other() -> None:
    """A step in code or in one stepper moves all of them."""
    run = replay()
    one, other = ks.widgets.stepper(run), ks.widgets.stepper(run)
    run.seek(0)
    assert one.facts["position"] == other.facts["position"] == 0
    run.step()
    assert one.facts["position"] == 1
    one.tell("step")
    assert (run.position, other.facts["position"]) == (2, 2)
    run.run_until()
    assert one.facts["position"] == len(run.steps)
    one.tell("run_back")
    assert (run.position, other.facts["position"]) == (0, 0)


def test_a_reaction_to_a_step_may_close_another_widget_of_the_replay() -> None:
    """The set of followers changes while they are called."""
    run = replay()
    first, second = ks.widgets.stepper(run), ks.widgets.stepper(run)
    first.observe(lambda _: second.close(), "facts")
    run.seek(1)
    assert first.facts["position"] == 1
    assert [first] == [*run.followers]


def test_a_widget_that_its_cell_makes_again_is_closed_when_no_page_shows_it() -> None:
    """The replay and the notebook call only the widgets that are open; a closed one that is shown again opens."""
    with loaded_shell() as shell:
        run = shell.ip.user_ns["run"] = replay()
        cells = shell.ip.kstreamnb_cells
        shell.run("first = last = ks.widgets.stepper(run)", "make")
        first = shell.value("first")
        first._view_count = 1  # as a page that shows it says
        shell.run("last = ks.widgets.stepper(run)", "make")
        last = shell.value("last")
        assert {first, last} == set(run.followers) == set(cells.widgets)
        first._view_count = 0
        assert [last] == [*run.followers] == [*cells.widgets]
        assert first.comm is first.layout.comm is None, "its layout is a model of its own"
        run.seek(1)
        assert "application/vnd.jupyter.widget-view+json" in first._repr_mimebundle_()[0]
        assert first.facts["position"] == 1
        assert first.layout.comm is not None
        assert {first, last} == set(run.followers) == set(cells.widgets)
        shell.run("1 / 0", "make")
        assert [first] == [*cells.widgets], "no cell makes the last one any more; the first belongs to no cell"


def test_every_kind_of_rows_can_be_browsed(priced: ks.Replay) -> None:
    """Outputs, drops, samples and previews, also without a row."""
    builder = ks.StreamsBuilder("app")
    stream = builder.stream("orders")
    sample = ks.Sample.from_records([("orders", 0, 0, 5, "a", 1)])
    for rows, count in ((sample, 1), (stream.head(sample), 1), (priced.drops, 0), (priced.output("none"), 0)):
        assert len(ks.widgets.browse(rows).facts["rows"]) == count


def test_an_edit_reads_only_the_cell_that_was_typed() -> None:
    """The neighbors of a cell remain the same objects."""
    held = {"quantity": [1]}
    editor = ks.widgets.edit(ks.Sample((ks.TopicRecord("in", 0, 0, 5, "shoe", held),)))
    editor.tell("put", row=0, column="key", text="boot")
    assert editor.sample[0] == ks.TopicRecord("in", 0, 0, 5, "boot", held)
    assert editor.sample[0].value is held


@pytest.mark.parametrize(
    ("column", "text", "said"),
    [
        ("value", '{"a": ', "cell {"),
        ("time", "soon", 'time "soon" is not an instant'),
        ("time", "", "a record needs a time"),
        ("topic", " ", "a record needs a topic"),
        ("partition", "two", 'partition must be an integer, got "two"'),
    ],
)
def test_a_cell_that_cannot_be_read_keeps_the_last_sample(column: str, text: str, said: str) -> None:
    """The cell keeps the typed text and its error; the sample stays valid."""
    given = ks.Sample.from_records([("in", 0, 0, 5, "shoe", 1)])
    editor = ks.widgets.edit(given)
    editor.tell("put", row=0, column=column, text=text)
    assert editor.facts["rows"][0]["wrong"][column].startswith(said)
    assert text in editor.facts["rows"][0]["cells"]
    assert editor.sample is given


def test_an_edited_sample_keeps_its_offsets_where_they_were_given() -> None:
    """Counted offsets are renumbered; captured offsets are kept."""
    counted = ks.widgets.edit(ks.Sample.from_records([("in", 0, at, at, None, at) for at in range(3)]))
    counted.tell("remove", row=0)
    assert [record.offset for record in counted.sample] == [0, 1]
    captured = ks.widgets.edit(ks.Sample.from_records([("in", 0, 40 + at, at, None, at) for at in range(3)]))
    captured.tell("remove", row=0)
    assert [record.offset for record in captured.sample] == [41, 42]


def test_a_widgets_module_does_not_hide_the_function_that_opens_it() -> None:
    """Both are called stepper; the function works even if the module was imported first."""
    import importlib

    module = importlib.import_module("kstreamnb.notebook.widgets.stepper")
    opening = importlib.import_module("kstreamnb.notebook.opening")
    assert callable(opening.stepper)
    assert opening.stepper is not module
    assert opening.stepper is ks.widgets.stepper


def test_the_stepper_tells_what_the_timeline_shows_at_each_step() -> None:
    """The picture holds every step; row values and stream time follow the position."""
    stepper = ks.widgets.stepper(replay())
    stepper.tell("show_time", store="per-order")
    stepper.tell("seek", step=0)
    assert stepper.facts["timeline"]["values"] == ["", ""]
    assert stepper.facts["timeline"]["times"] == ["not begun"]
    stepper.tell("seek", step=len(stepper.replay.steps))
    assert stepper.facts["timeline"]["values"] == ["1", "1"]
    assert stepper.facts["timeline"]["store"] == "per-order"
    assert stepper.timeline.count('class="ks-value"') == 2
    stepper.tell("show_time", store="none")
    assert 'store "none"' in stepper.error


@pytest.mark.parametrize("kind", ["explorer", "stepper", "browser", "editor"])
def test_a_widget_is_made_with_its_facts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page may paint as soon as it receives the model: before, a large stepper showed "step undefined"."""
    opened: list[dict[str, Any]] = []
    monkeypatch.setattr("anywidget.AnyWidget.open", lambda widget: opened.append(dict(widget.get_state())))
    widget = widgets()[kind]
    own = next(state for state in opened if state["label"] == widget.label)
    assert own["facts"] == widget.facts
    assert [own.get(name) for name in ("svg", "graph", "timeline")] == [
        getattr(widget, name, None) for name in ("svg", "graph", "timeline")
    ]


def test_no_command_of_a_page_replaces_a_method_that_every_widget_has() -> None:
    """The panel's "look" once did: each cell that ran read the dead letters, and the panel never became stale."""
    for module in ("browser", "editor", "explorer", "panel", "question", "stepper"):
        importlib.import_module(f"kstreamnb.notebook.widgets.{module}")
    kinds = [*FactsWidget.__subclasses__(), *GraphWidget.__subclasses__()]
    assert len(kinds) >= 6
    for kind in kinds:
        assert set(kind.commands) & set(dir(FactsWidget)) == set(), kind


def test_a_panel_says_that_the_notebook_has_changed_what_is_deployed(tmp_path: Path) -> None:
    """After any cell, as every widget does."""
    with loaded_shell() as shell:
        shell.run("from tests.unit.spark.query.streams import query_without_spark\nfrom pathlib import Path", "load")
        shell.run(f"query = query_without_spark(Path({str(tmp_path)!r}))", "deploy")
        shell.run("panel = ks.widgets.panel(query)", "panel")
        assert shell.value("panel").notice == ""
        shell.run("pass", "deploy")
        assert shell.value("panel").notice.startswith("the deployed topology was built before")
