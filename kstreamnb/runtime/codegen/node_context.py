"""`NodeContext`: what a node may use of its task while it is bound and while it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import setitem
from typing import Any

from kstreamnb.core.operator import Cancellable, Forward, Punctuate
from kstreamnb.core.processor import PunctuationType
from kstreamnb.errors import ProcessingError, StateError
from kstreamnb.java_texts import STORE_NOT_CONNECTED
from kstreamnb.runtime.context.punctuation import Schedule, first_due
from kstreamnb.runtime.context.task_context import TaskContext


class NodeContext:
    """One node's view of its task; what is the same for all nodes is the task's own.

    ``children`` are the names of the node's children, ``hop`` gives what hands a record to one of them.
    """

    def __init__(self, scope: TaskContext, node: str, children: Sequence[str], hop: Callable[[str], Forward]) -> None:
        plan = scope.plan
        self.node, self.task_id, self.partition = node, plan.task_id, plan.partition
        self.application_id, self.configs = plan.application_id, plan.config.dotted
        self.metadata, self.resume, self.on_close = scope.metadata, scope.resume, scope.closers.append
        self.key_serde, self.value_serde, self.drop = scope.key_serde, scope.value_serde, partial(scope.drop, node)
        self.cell, self.shared_cell = partial(scope.cell, node), partial(scope.cell, "")
        self.only_reads = scope.global_stores.__contains__
        self.note_processor = partial(setitem, scope.processors, node)
        self._scope, self._children, self._hop = scope, children, hop
        self._stores, self._scheduled = plan.topology.nodes[node].stores, 0

    def store(self, name: str) -> Any:
        """A store connected to this node, or a global store; raises StateError otherwise."""
        scope = self._scope
        if name in scope.global_stores:
            return scope.global_stores[name]
        if name in self._stores:
            return scope.stores[name]
        if name in scope.plan.topology.stores:
            fact, hint = "is not connected to it", "connect it where the node is added, with stores=…"
        else:
            fact, hint = "does not exist", f"there are {', '.join(scope.plan.topology.stores) or 'no stores'}"
        message = f'node "{self.node}" uses store "{name}", which {fact}'
        raise StateError(message, hint=hint, java=STORE_NOT_CONNECTED.format(node=self.node, store=name))

    def forward_to(self, child: str) -> Forward:
        """Hands a record to the child of that name only; raises ProcessingError when there is none."""
        if child not in self._children:
            java = f"Unknown downstream node: {child} either does not exist or is not connected to this processor."
            there = ", ".join(f'"{name}"' for name in self._children) or "none"
            detail = f"its children are {there}"
            raise ProcessingError(f'node "{self.node}" has no child "{child}"', detail=detail, java=java)
        return self._hop(child)

    def stream_time_ms(self) -> int:
        """Stream time of the task, -1 before the first record."""
        return int(self._scope.stream_time[0])

    def wall_clock_ms(self) -> int:
        """The engine's wall clock."""
        return self._scope.clock.now_ms

    def schedule(self, interval_ms: int, kind: str, punctuate: Punctuate, start_ms: int | None = None) -> Cancellable:
        """Call ``punctuate`` every ``interval_ms`` of "stream_time" or "wall_clock_time"."""
        scope, name = self._scope, f"schedule {self._scheduled}"
        due = first_due(interval_ms, kind, start_ms, scope.clock.now_ms)
        is_new = (self.node, name) not in scope.cells and (self.node, name) not in scope.restored
        cell = scope.cell(self.node, name, None)
        if is_new:
            cell[0] = due
        self._scheduled += 1
        schedule = Schedule(self.node, interval_ms, punctuate, cell)
        stream = kind == PunctuationType.STREAM_TIME
        (scope.stream_schedules if stream else scope.wall_schedules).add(schedule)
        return schedule

    def commit(self) -> None:
        """Ask for a commit after this record."""
        self._scope.commit_requested[0] = True
