"""`NodeContext`: what a node may use of its task while it is bound and while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import setitem
from typing import Any

from kstreamnb.core.operator import Cancellable, Forward, Punctuate
from kstreamnb.core.processor import PunctuationType
from kstreamnb.core.record import Headers, RecordMetadata
from kstreamnb.core.serde import Serde
from kstreamnb.errors import ProcessingError, StateError
from kstreamnb.java_texts import STORE_NOT_CONNECTED
from kstreamnb.runtime.context.punctuation import Schedule, first_due
from kstreamnb.runtime.context.task_context import TaskContext

_NOT_GLOBAL = "this should not happen: {}() not supported in global processor context."


class NodeContext:
    """One node's view of its task.

    ``children`` are the names of the node's children; ``hop(child)`` returns the function that forwards to one of them,
    or to all for None.
    """

    def __init__(
        self, context: TaskContext, node: str, children: Sequence[str], hop: Callable[[str | None], Forward]
    ) -> None:
        plan = context.plan
        self.node, self.partition = node, plan.partition
        self.task_id = "-1_-1" if plan.is_global else plan.task_id  # as in Kafka
        self.application_id, self.configs = plan.application_id, plan.config.dotted
        self.metadata, self.resume = context.metadata, context.resume
        self.timestamp, self.headers, self.keeps_copies = context.timestamp, context.headers, context.keeps_copies
        self.key_serde, self.value_serde = context.key_serde, context.value_serde
        self.drop = partial(context.drop, node)
        self.state_var, self.shared_state_var = partial(context.state_var, node), partial(context.state_var, "")
        self.on_start = lambda callback: context.starters.setdefault(node, []).append(callback)
        self.only_reads = context.global_stores.__contains__
        self.note_processor = partial(setitem, context.processors, node)
        self._task_context, self._children, self._hop = context, children, hop
        self._stores, self._scheduled = plan.topology.nodes[node].stores, 0

    def store(self, name: str) -> Any:
        """Return a store connected to this node, or a global store; raises StateError otherwise."""
        context = self._task_context
        if name in context.global_stores:
            return context.global_stores[name]
        if name in self._stores:
            return context.stores[name]
        if name in context.plan.topology.stores:
            fact, hint = "is not connected to it", f'name it where the node is added, such as process(…, "{name}")'
        else:
            fact, hint = "does not exist", f"existing stores: {', '.join(context.plan.topology.stores) or 'none'}"
        message = f'node "{self.node}" uses store "{name}", which {fact}'
        raise StateError(message, hint=hint, java=STORE_NOT_CONNECTED.format(node=self.node, store=name))

    def kept_rows(self, store: str | None, serde: Serde) -> Mapping[object, tuple[Any, int]]:
        """Return the rows of a store of this task by key, with values in wire form; empty if it has no such rows."""
        known = self._task_context.stores.get(store or "")
        in_place = None if known is None or known.spec.value_serde != serde else known.in_place()
        return {} if in_place is None else in_place[0]

    def forward_to(self, child: str | None) -> Forward:
        """Return the function that forwards a record to one child, all for None; raises ProcessingError for others."""
        if child is not None and child not in self._children:
            java = f"Unknown downstream node: {child} either does not exist or is not connected to this processor."
            if self._task_context.plan.is_global:
                java = _NOT_GLOBAL.format("forward")
            children = ", ".join(f'"{name}"' for name in self._children) or "none"
            detail = f"its children are {children}"
            raise ProcessingError(f'node "{self.node}" has no child "{child}"', detail=detail, java=java)
        return self._hop(child)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call a processor's ``close`` when the task is closed."""

        def close() -> None:
            try:
                callback()
            except Exception as error:
                fact, java = f"failed with {type(error).__name__}", f"failed to close processor {self.node}"
                raise ProcessingError(f'close of node "{self.node}" {fact}', node=self.node, java=java) from error

        self._task_context.closers.append(close)

    def stream_time_ms(self) -> int:
        """Return the stream time of the task, -1 before the first record."""
        self._refuse_global("stream time", "There is no concept of stream-time for a global processor.")
        return int(self._task_context.stream_time[0])

    def wall_clock_ms(self) -> int:
        """Return the time of the engine's wall clock."""
        return self._task_context.clock.now_ms

    def schedule(self, interval_ms: int, kind: str, punctuate: Punctuate, start_ms: int | None = None) -> Cancellable:
        """Call ``punctuate`` every ``interval_ms`` of "stream_time" or "wall_clock_time"."""
        context, name = self._task_context, f"schedule {self._scheduled}"
        self._refuse_global("punctuators", _NOT_GLOBAL.format("schedule"))
        stream = kind == PunctuationType.STREAM_TIME
        due = first_due(interval_ms, kind, start_ms, context.stream_time[0] if stream else context.clock.now_ms)
        is_new = (self.node, name) not in context.state_vars and (self.node, name) not in context.restored
        state_var = context.state_var(self.node, name, None)
        if is_new:
            state_var[0] = due
        self._scheduled += 1
        schedule = Schedule(self.node, interval_ms, punctuate, state_var)
        (context.stream_schedules if stream else context.wall_schedules).add(schedule)
        return schedule

    def _refuse_global(self, what: str, java: str) -> None:
        if self._task_context.plan.is_global:
            raise ProcessingError(f'node "{self.node}" fills a global store, so it has no {what}', java=java)

    @contextmanager
    def reading_row(self, timestamp: int, headers: Headers) -> Iterator[None]:
        """Replace the current record by a row: it has a timestamp (-1 for no row) and headers, but no position."""
        stamp = self._task_context.stamp
        before = stamp[0], self.resume(RecordMetadata(None, -1, -1))
        stamp[0] = timestamp, headers
        try:
            yield
        finally:
            stamp[0] = before[0]
            self.resume(before[1])

    def commit(self) -> None:
        """Request a commit after this record."""
        self._task_context.commit_requested[0] = True
