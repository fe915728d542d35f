"""The graph explorer: a topology to navigate, fold and unfold, by nodes or by operators."""

from __future__ import annotations

from typing import ClassVar

from kstreamnb.core.tables import text_table
from kstreamnb.display.graph import GraphView, graph_view
from kstreamnb.display.logical import logical_view
from kstreamnb.display.mime import mimebundle
from kstreamnb.display.picture import GraphPicture
from kstreamnb.display.runs import heat_of
from kstreamnb.errors import EngineError
from kstreamnb.notebook.widgets.base import Facts, esm, named
from kstreamnb.notebook.widgets.graphs import GraphWidget, described, flow_order, picture, things
from kstreamnb.notebook.widgets.live_cost import TASK_HEADER, cost_of, is_live, task_rows
from kstreamnb.topology.topology import Topology

_MANY = 100
"""Nodes from which a topology opens as its folded sub-topologies."""


class Explorer(GraphWidget):
    """The interactive graph of a topology."""

    _esm = esm("explorer")

    def __init__(self, thing: object) -> None:
        self._thing, self._cost = thing, cost_of(thing)
        self._description, self._overlay = described(thing if self._cost is None else self._cost)
        subs = self._description.subtopologies
        is_large = len(subs) > 1 and len(self._description.nodes()) > _MANY
        self._folded: set[str] = {f"sub-{each.id}" for each in subs} if is_large else set()
        self._unfolded: set[str] = set()
        self.view = "physical" if is_large else "logical"
        super().__init__(self._drawn().title)

    def make_facts(self) -> Facts:
        """Return the picture and the details of each shape; of a query, its tasks, and whether it can still change."""
        drawn = self._drawn()
        folds = [{"id": box.id, "title": box.title, "folded": box.folded} for box in drawn.boxes]
        return {
            "summary": drawn.summary(),
            "cuts": list(drawn.sentences()),
            "svg": picture(drawn),
            "order": flow_order(drawn),
            "things": things(drawn, self._description),
            "boxes": folds,
            "task_header": TASK_HEADER,
            "tasks": task_rows(self._cost),
            "heat": [] if self._cost is None else [heat_of(task.share) for task in self._cost.tasks],
            "live": is_live(self._thing),
        }

    def stale(self) -> str | None:
        """Say that the topology is older than its declarations."""
        topology = getattr(self._thing, "topology", self._thing)
        return topology.stale if isinstance(topology, Topology) else None

    def forms(self) -> dict[str, str]:
        """Return the complete picture; of a query, also its tasks."""
        forms = mimebundle(GraphPicture(self._description, self._overlay))
        tasks = task_rows(self._cost)
        return {**forms, "text/plain": f"{forms['text/plain']}\n{text_table(TASK_HEADER, tasks)}"} if tasks else forms

    def refresh(self) -> None:
        """Read the figures of a query again."""
        self._cost = cost_of(self._thing)
        if self._cost is not None:
            self._overlay = described(self._cost)[1]

    def show(self, view: str) -> None:
        """Switch between the views."""
        self.view = view

    def fold(self, box: str) -> None:
        """Fold an open box, or open a folded one."""
        if box not in {each.id for each in self._drawn().boxes}:
            raise EngineError(f'no box has the id "{box}"')
        changed = self._folded if self.view == "physical" else self._unfolded
        changed.symmetric_difference_update({box})

    def fold_all(self, folded: bool) -> None:
        """Fold or open every box of the view."""
        boxes = {box.id for box in self._drawn().boxes}
        if self.view == "physical":
            self._folded = boxes if folded else set()
        else:
            self._unfolded = set() if folded else boxes

    def _drawn(self) -> GraphView:
        if self.view == "logical":
            return logical_view(self._description, self._overlay, unfold=self._unfolded)
        subs = self._description.subtopologies
        return graph_view(self._description, self._overlay, fold=[s.id for s in subs if f"sub-{s.id}" in self._folded])

    commands: ClassVar = named(show, fold, fold_all, GraphWidget.select, refresh)
