"""The replay stepper: time travel over a recorded run, with the current record and everything it changed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from operator import attrgetter
from typing import ClassVar

import traitlets

from kstreamnb.core.arguments import expect
from kstreamnb.core.formatting import format_stream_time, format_time, format_value, pluralize, shown_of
from kstreamnb.display.graph import GraphView, Overlay, graph_view
from kstreamnb.display.logical import logical_view
from kstreamnb.display.mime import data_of
from kstreamnb.display.names import identifier
from kstreamnb.display.time_picture import time_facts, to_time_svg
from kstreamnb.errors import EngineError
from kstreamnb.notebook.widgets.base import Facts, esm, named
from kstreamnb.notebook.widgets.graphs import GraphWidget, described, flow_order, picture, things
from kstreamnb.recording.events import Forwarded, Punctuated, RecordConsumed
from kstreamnb.recording.steps import Drop, Step
from kstreamnb.recording.store_rows import StoredRow
from kstreamnb.replays.analysis.snapshot import Snapshot
from kstreamnb.replays.analysis.state_diff import RowChange
from kstreamnb.replays.analysis.time_sources import sources_of
from kstreamnb.replays.navigation import Breakpoint
from kstreamnb.replays.replay import Replay
from kstreamnb.runtime.context.handlers import RecordProduced
from kstreamnb.samples.text import parse_cell
from kstreamnb.topology.nodes import grouped

_ROWS = 50
_SHOWN = 12
_EXPLAINED = 5_000
"""Steps up to which unmatched joins are explained, which reads the whole run."""


class Stepper(GraphWidget):
    """A replay, step by step.

    Attributes:
        replay: the replay; its ``position`` is the widget's.
        timeline: the timeline of a store, as SVG with all steps; empty for a long run.
    """

    _esm = esm("stepper")
    timeline = traitlets.Unicode("").tag(sync=True)
    svg = traitlets.Unicode("").tag(sync=True)
    graph = traitlets.Dict().tag(sync=True)

    def __init__(self, replay: Replay) -> None:
        expect(replay, Replay, "replay", hint="pass the result of ks.replay")
        self.replay = self.pictured = replay
        self.audiences = (replay.followers,)
        self._description, overlay = described(replay)
        self._overlay = Overlay(overlay.counts, marks=overlay.marks)
        self._view = self._drawn(self._overlay)
        self._chart = replay.timeline() if len(replay.steps) <= _EXPLAINED else None
        svg, graph = self._graph()
        timeline = "" if self._chart is None else to_time_svg(self._chart, history=True)
        super().__init__(f"stepper: {replay.topology.name or 'replay'}", svg=svg, graph=graph, timeline=timeline)

    def make_facts(self) -> Facts:
        """Return everything about the present position."""
        replay, step, moment = self.replay, self.replay.current, self.replay.now
        drops = () if step is None or step.elsewhere else step.dropped
        has_failed = replay.error is not None and replay.position == len(replay.steps)
        return {
            "position": replay.position,
            "total": len(replay.steps),
            "title": step.title if step else "before the first step",
            "summary": step.summary() if step else "",
            "hit": step is not None and any(stop.hits(step) for stop in replay.breakpoints),
            "failed": (str(replay.error) or "interrupted") if has_failed else "",
            "flight": list(self._flight(step)) if step and not step.elsewhere else [],
            "counts": self._counts(moment),
            "drops": [{"node": self._place_of(drop), "reason": drop.reason} for drop in drops],
            "events": {"header": list(Step.header), "rows": [list(row) for row in step.table()] if step else []},
            "stores": list(self._stores(moment)),
            "times": list(self._times(moment)),
            "timeline": self._timeline(),
            "windows": _windows(moment),
            "waiting": _waiting(moment),
            "explanations": self._whys.get(step.number, []) if step is not None else [],
            "breakpoints": [_breakpoint(stop) for stop in replay.breakpoints],
        }

    def stale(self) -> str | None:
        """Say that the replay used an older topology."""
        return self.replay.topology.stale

    def forms(self) -> dict[str, str]:
        """Return the replay's data. A picture inside HTML would be shown as source where HTML is sanitized."""
        return data_of(self.replay) or {}

    # --- commands of the page ---
    def seek(self, step: int) -> None:
        """Go to a step."""
        self.replay.seek(int(step))

    def show(self, view: str) -> None:
        """Switch between operators and nodes."""
        self.view = view
        self._view = self._drawn(self._overlay)
        with self.hold_sync():  # the page needs both at once
            self.svg, self.graph = self._graph()

    def step(self) -> None:
        """Go one step forwards."""
        self.replay.step()

    def back(self) -> None:
        """Go one step backwards."""
        self.replay.back()

    def run_on(self) -> None:
        """Run to the next breakpoint or the end."""
        self.replay.run_until()

    def run_back(self) -> None:
        """Run back to the previous breakpoint or the beginning."""
        replay = self.replay
        earlier = range(replay.position - 1, 0, -1)
        hit = (at for at in earlier if any(stop.hits(replay.steps[at - 1]) for stop in replay.breakpoints))
        replay.seek(next(hit, 0))

    def stop_at(self, node: str = "", key: str = "") -> None:
        """Set a breakpoint; for the box of an operator, one at each node by which records enter it.

        A key is parsed like a cell of a sample: JSON or a bare word.
        """
        if not node and not key.strip():
            raise EngineError("a breakpoint needs a node or a key", hint="click a node, or type a key")
        for name in self._entries(node):
            self.replay.breakpoint(node=name or None, key=parse_cell(key) if key.strip() else None)

    def clear(self, index: int) -> None:
        """Remove a breakpoint."""
        stops = self.replay.breakpoints
        self.replay.breakpoints = (*stops[:index], *stops[index + 1 :])

    def show_time(self, store: str) -> None:
        """Show the timeline of a store."""
        self._chart = self.replay.timeline(store)
        self.timeline = to_time_svg(self._chart, history=True)

    commands: ClassVar = named(seek, show, step, back, run_on, run_back, stop_at, clear, GraphWidget.select, show_time)

    # --- facts ---
    def _drawn(self, overlay: Overlay) -> GraphView:
        return (logical_view if self.view == "logical" else graph_view)(self._description, overlay)

    def _graph(self) -> tuple[str, dict[str, object]]:
        """Return the picture, and the shapes in it."""
        return picture(self._view), {"order": flow_order(self._view), "things": things(self._view, self._description)}

    def _entries(self, name: str) -> list[str]:
        """Return the nodes by which records enter the box with an id; the name of any other shape."""
        boxes = {box.id: [item.name for item in box.items] for box in self._view.boxes}
        nodes = self._description.nodes()
        inside = [nodes[each] for each in boxes.get(name, ()) if each in nodes]
        return [node.name for node in inside if {*node.predecessors} - {*boxes[name]}] or [name]

    def _timeline(self) -> dict[str, object]:
        """Return what changes in the timeline from step to step."""
        chart = self._chart
        if chart is None:
            note = "the run is long: draw a part of it with replay.timeline(key=…) or replay.timeline(between=…)"
            return {"note": note}
        stores = [source.name for source in sources_of(self.replay.run) if source.name]
        return {"stores": list(dict.fromkeys(stores)), "store": chart.name, **time_facts(chart, self.replay.position)}

    def _flight(self, step: Step) -> Iterator[dict[str, str]]:
        """Yield the edges that the record passes, in order, and what went over each."""
        at = identifier("node", step.node)
        for event in step.events:
            if isinstance(event, RecordConsumed):
                topic = identifier("topic", self.replay.run.short(event.topic))
                yield self._hop(topic, identifier("node", event.node), event.key, event.value, event.timestamp)
            elif isinstance(event, Forwarded):
                at = identifier("node", event.child)
                yield self._hop(identifier("node", event.node), at, event.key, event.value, event.timestamp)
            elif isinstance(event, RecordProduced):
                yield self._passage(at, identifier("topic", self.replay.run.short(event.topic)), "written")
            elif isinstance(event, Punctuated):
                yield self._passage(at, at, f"punctuated at {format_time(event.now_ms)}")

    def _hop(self, tail: str, head: str, key: object, value: object, timestamp: int) -> dict[str, str]:
        return self._passage(tail, head, f"{format_value(key)}: {format_value(value)} at {format_time(timestamp)}")

    def _passage(self, tail: str, head: str, text: str) -> dict[str, str]:
        """Return the edge between two shapes; none inside one that is folded."""
        tail, head = (self._view.shown.get(each, each) for each in (tail, head))
        return {"edge": self._view.edge_ids.get((tail, head), ""), "tail": tail, "head": head, "text": text}

    def _place_of(self, drop: Drop) -> str:
        """Return the id of the shape that dropped a record: a node, a store or the operator that it belongs to."""
        shape = identifier("node" if drop.node in self.replay.topology.nodes else "store", drop.node)
        return self._view.shown.get(shape, shape)

    def _counts(self, moment: Snapshot) -> dict[str, str]:
        """Return the records over each edge so far, by edge id."""
        edges, ids = self._drawn(Overlay(moment.counts())).edges, self._view.edge_ids
        return {ids[edge.tail, edge.head]: f"{edge.count or 0:,}" for edge in edges if edge.kind == "flow"}

    def _stores(self, moment: Snapshot) -> Iterator[dict[str, object]]:
        """Yield the rows of every store after the step; changed rows also as they were before."""
        position = self.replay.position
        changed = grouped(self.replay.diff(position - 1, position) if position else (), attrgetter("store"))
        for name in moment.stores:
            table, changes = moment.store(name), changed.get(name, [])
            touched = {(change.task, format_value(change.key)): change for change in changes}
            rows = [_row(row, touched.get((row.task, format_value(row.key)))) for row in table.rows]
            gone = [change for change in changes if change.kind == "-D"]
            rows += [([each.task, format_value(each.key), format_value(each.old), "", "", ""], "gone") for each in gone]
            shown = sorted(rows, key=lambda row: not row[1])[:_ROWS] if len(rows) > _ROWS else rows
            number = pluralize(len(table.rows), "row")
            yield {
                "name": name,
                "id": identifier("store", name),
                "kind": table.kind,
                "number": f"{len(shown):,} of {number}, changed ones first" if len(rows) > _ROWS else number,
                "changed": len(changes),
                "rows": [cells for cells, _ in shown],
                "marks": [mark for _, mark in shown],
            }

    def _times(self, moment: Snapshot) -> Iterator[list[str]]:
        before = self.replay.at(max(0, self.replay.position - 1)).stream_time
        for task, time in moment.stream_time.items():
            yield [task, format_stream_time(before[task]), format_stream_time(time)]

    @cached_property
    def _whys(self) -> dict[int, list[str]]:
        """Explanations by the step that revealed each reason, which may be later than its cause."""
        explanations = [*self.replay.why_dropped()]
        explanations += self.replay.why_no_match() if len(self.replay.steps) <= _EXPLAINED else []
        whys = grouped((each for each in explanations if each.steps), lambda each: max(each.steps))
        return {step: list(map(str, own)) for step, own in whys.items()}


def _row(row: StoredRow, change: RowChange | None) -> tuple[list[str], str]:
    """Return a row's cells, with its value before and after, and its mark."""
    time = "" if row.timestamp is None else format_time(row.timestamp)
    before, mark = format_value(row.value), ""
    if change is not None:
        before, mark = ("", "new") if change.kind == "+I" else (format_value(change.old), "other")
    return [row.task, format_value(row.key), before, format_value(row.value), time, row.note], mark


def _windows(moment: Snapshot) -> dict[str, object]:
    windows = moment.windows()
    rows = [
        [each.store, format_value(each.key), format_value(each.value),
         format_time(each.stream_time_ms) if each.stream_time_ms >= 0 else "",
         "never" if each.never_closes else f"at {format_time(each.closes_at_ms)}"]
        for each in windows[:_SHOWN]
    ]  # fmt: skip
    number = shown_of(_SHOWN, len(windows), "window")
    return {"number": number, "header": ["store", "window", "value", "stream time", "closes"], "rows": rows}


def _waiting(moment: Snapshot) -> dict[str, object]:
    records, total = moment.first_waiting(_SHOWN), moment.count_waiting()
    rows = [
        [each.where, each.task, f"{each.record.topic}-{each.record.partition}@{each.record.offset}",
         format_value(each.record.key), format_value(each.record.value), format_time(each.record.timestamp)]
        for each in records
    ]  # fmt: skip
    header = ["where", "task", "record", "key", "value", "time"]
    return {"number": shown_of(_SHOWN, total, "record"), "header": header, "rows": rows}


def _breakpoint(stop: Breakpoint) -> str:
    parts = [f"node {stop.node}"] if stop.node is not None else []
    parts += [f"key {format_value(stop.key)}"] if stop.key is not None else []
    parts += ["a condition"] if stop.when is not None else []
    return " and ".join(parts) or "every step"
