"""Displays of recorded runs (the graph with counts, outputs and drops) and of values that are tables.

Text and HTML hold the same facts. Displaying a run never runs it again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from kstreamnb.charts import BeforeAfter, CostPicture
from kstreamnb.core.formatting import clean, format_time, format_value, pluralize, shown_of
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.tables import Tabular, escaped, html_table, text_table
from kstreamnb.display.graph import Overlay
from kstreamnb.display.mime import data_of, picture_of, pictures_of
from kstreamnb.display.picture import GraphPicture
from kstreamnb.display.time_picture import to_time_svg
from kstreamnb.recording.steps import Drop
from kstreamnb.replays.analysis.run_profile import RunProfile
from kstreamnb.replays.analysis.time_chart import TimeChart
from kstreamnb.replays.explain.explanation import Explanation, Explanations
from kstreamnb.replays.replay import Replay
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.labels import node_title

_SHOWN = 10
_HEAT = (0.04, 0.12, 0.24, 0.36, 0.48)
"""Least shares of the cost for each depth of color."""
_Lines = list[Sequence[str]]


def overlay_of_run(replay: Replay) -> Overlay:
    """Return records per edge, drops by node, and the node that failed."""
    drops: dict[str, Counter[str]] = defaultdict(Counter)
    for drop in replay.drops:
        item = drop.node if drop.node in replay.topology.nodes else f"store {drop.node}"
        drops[item][drop.reason] += 1
    counted = ((item, [f"{number:,} {reason}" for reason, number in counts.items()]) for item, counts in drops.items())
    notes = {item: ", ".join(each) for item, each in counted}
    failed = getattr(replay.error, "node", "")
    return Overlay(replay.counts(), notes, {failed: "failed"} if failed else {})


picture_of.register(TopologyTestDriver, lambda driver: GraphPicture.of(driver.topology))
picture_of.register(Replay, lambda replay: GraphPicture.of(replay.topology, overlay_of_run(replay)))
picture_of.register(RunProfile, lambda profile: GraphPicture.of(profile.topology, overlay_of_profile(profile)))


@data_of.register
def _(model: TopologyTestDriver) -> dict[str, str]:
    return {"text/plain": str(model), "text/html": f"<p>{escaped(str(model))}</p>"}


@data_of.register
def _(model: Tabular) -> dict[str, str]:
    rows = list(model.table())
    table = html_table(model.header, rows, [model.title]) if rows else f"<p>{escaped(model.title)}</p>"
    lines = "".join(f"<p>{escaped(line)}</p>" for line in model.more())
    return {"text/plain": str(model), "text/html": f"<div>{table}{lines}</div>"}


@data_of.register(BeforeAfter)
def _(model: BeforeAfter[Any]) -> dict[str, str]:
    """Show the changes as a table."""
    rows = [(each.rule, ", ".join(each.before), ", ".join(each.after) or "nothing", each.why) for each in model]
    caption = pluralize(len(rows), "optimization")
    page = html_table(("rule", "before", "after", "why"), rows, [caption]) if rows else f"<p>{escaped(str(model))}</p>"
    return {"text/plain": str(model), "text/html": page}


@pictures_of.register(BeforeAfter)
def _(model: BeforeAfter[Any]) -> tuple[GraphPicture, ...]:
    """Return the topology before and after its changes, with what differs marked; nothing if there are none."""
    return (_changed(model, "before"), _changed(model, "after")) if model else ()


def _changed(model: BeforeAfter[Any], word: str) -> GraphPicture:
    """Return the picture of one of two topologies, with the word and its numbers of nodes above it."""
    topology, other = (model.before, model.after) if word == "before" else (model.after, model.before)
    named = [name for each in model for name in getattr(each, word) if name in topology.nodes]
    only = {name: f"only {word}" for name in topology.nodes if name not in other.nodes}
    counts = pluralize(len(topology.subtopologies()), "sub-topology"), pluralize(len(topology.nodes), "node")
    overlay = Overlay(notes=only, marks=dict.fromkeys([*named, *only], "changed"))
    return GraphPicture(topology.description(), overlay, f"{word}: {', '.join(counts)}")


def overlay_of_profile(profile: RunProfile) -> Overlay:
    """Return the cost of each node as a depth of color, and its figures as a note."""
    heat, notes = {}, {}
    for each in profile.nodes:
        heat[each.node] = heat_of(profile.weight(each))
        size = pluralize(each.bytes, "byte") if each.cpu_share is None else f"{each.cpu_share:.0%} CPU"
        notes[each.node] = f"{pluralize(each.records, 'record')}, {size}"
    total = sum(store.writes for store in profile.stores) or 1
    for store in profile.stores:
        name = f"store {store.store}"
        heat[name] = heat_of(store.writes / total)
        notes[name] = f"{pluralize(store.writes, 'write')}, {store.rows:,} left"
    return Overlay(notes=notes, heat=heat)


def heat_of(share: float) -> int:
    """Return the depth of color of a share of the cost, from 0 to 5."""
    return sum(share >= least for least in _HEAT)


@picture_of.register
def _(model: CostPicture) -> GraphPicture:
    heat = {node: heat_of(share) for node, share in model.shares.items()}
    return GraphPicture.of(model.topology, Overlay(notes=dict(model.notes), heat=heat))


data_of.register(TimeChart, lambda chart: {"text/plain": str(chart), "image/svg+xml": to_time_svg(chart)})


@data_of.register
def _(model: Explanation | Explanations) -> dict[str, str]:
    answers, more = ([model], []) if isinstance(model, Explanation) else (model.shown, model.more())
    page = "".join(map(_paragraph, answers)) or f"<p>{escaped(str(model))}</p>"
    page += "".join(f"<p>{escaped(line)}</p>" for line in more)
    return {"text/plain": str(model), "text/html": f"<div>{page}</div>"}


def _paragraph(model: Explanation) -> str:
    """Return an answer and its reasons as text that wraps between words; in a `pre` front ends break inside them."""
    answer, *rest = (escaped(line.strip()) for line in str(model).splitlines())
    items = "".join(f"<li>{line}</li>" for line in rest)
    return f"<p>{answer}</p>" + (f"<ul>{items}</ul>" if items else "")


@data_of.register
def _(model: Replay) -> dict[str, str]:
    parts = [_output(model, topic) for topic in model.topics] + ([_dropped(model)] if model.drops else [])
    text, page = [str(model)], [f"<p>{escaped(str(model))}</p>"]
    for title, header, rows in parts:
        text += ["", title, text_table(header, rows)]
        page.append(html_table(header, rows, [title]))
    return {"text/plain": "\n".join(text), "text/html": f"<div>{''.join(page)}</div>"}


def _record_cells(record: Drop | TopicRecord) -> tuple[str, str, str]:
    return format_value(record.key), format_value(record.value), format_time(record.timestamp)


def _output(replay: Replay, topic: str) -> tuple[str, Sequence[str], _Lines]:
    """Return the first records of an output topic."""
    positions = replay.run.output_positions(topic)
    number = shown_of(_SHOWN, len(positions), "record")
    records = map(replay.run.produced, positions[:_SHOWN])
    rows: _Lines = [(*_record_cells(each), str(each.partition)) for each in records]
    return f'output "{clean(topic)}": {number}', ("key", "value", "time", "partition"), rows


def _dropped(replay: Replay) -> tuple[str, Sequence[str], _Lines]:
    """Return the first records that were dropped."""
    drops, nodes = replay.drops, replay.topology.description().nodes()
    number = shown_of(_SHOWN, len(drops), "record")
    first = drops[:_SHOWN]
    rows: _Lines = [(str(each.step), node_title(nodes, each.node), each.reason, *_record_cells(each)) for each in first]
    return f"dropped: {number}", ("step", "node", "why", "key", "value", "time"), rows
