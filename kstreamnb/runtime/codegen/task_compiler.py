"""Binding a task: from nodes to functions that call each other.

Nodes are bound children first, so that every function holds its children directly. In fast mode chains of stateless
nodes become one function each, with or without lines that write a recording; where something has to be caught between
nodes (by an error handler that may go on), every node stays a function of its own with a thin one around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import setitem
from typing import Any

from kstreamnb.core.operator import Cancellable, Forward, FusedStep, Process, Punctuate
from kstreamnb.core.processor import PunctuationType
from kstreamnb.core.record import Headers
from kstreamnb.core.serde import Serde
from kstreamnb.errors import ProcessingError, StateError
from kstreamnb.java_texts import STORE_NOT_CONNECTED
from kstreamnb.runtime.codegen.error_location import ErrorLocations, Guard, HandledFailure, init_error
from kstreamnb.runtime.codegen.function_builder import (
    WIRE_RECORDS,
    Ending,
    FunctionBuilder,
    Loop,
    decoding,
    loop_chain,
    note_consumed,
    note_hop,
)
from kstreamnb.runtime.codegen.sinks import bind_sink, is_plain_sink, sink_line
from kstreamnb.runtime.context.punctuation import Schedule, first_due
from kstreamnb.runtime.context.record_queue import RecordQueue
from kstreamnb.runtime.context.task_context import TaskContext
from kstreamnb.topology.nodes import ProcessorNode, Sink, Source


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


class TaskCompiler:
    """The bound functions of one task, by node."""

    def __init__(self, scope: TaskContext, places: ErrorLocations, nodes: tuple[str, ...], guard: Guard | None) -> None:
        topology = scope.plan.topology
        self._scope, self._places, self._guard = scope, places, guard
        self._nodes = {name: topology.nodes[name] for name in nodes}
        self._children = {name: _children_of(name, self._nodes) for name in nodes}
        self._fuses = guard is None
        self._bound: dict[str, Process] = {}
        self._steps: dict[str, FusedStep | None] = {}
        for name in reversed(nodes):
            node = self._nodes[name]
            if not self._inlines(name) and not isinstance(node, Source):
                self.process(name)

    def entry(self, source: str, *, decoded: bool) -> Process:
        """The function that takes a record of a source through all nodes below; from its wire form, or decoded."""
        chain = FunctionBuilder(source)
        if not decoded:
            for name, serde in zip(("key", "value"), self._serdes(source), strict=True):
                chain.add(source, f"{name} = {decoding(chain, serde, name)}")
        recorder, cursor, task = self._scope.recorder, self._scope.cursor, self._scope.plan.task_id
        if recorder is not None:
            keep = recorder.keep

            def consume(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                place, offset = (str(cursor.topic), cursor.partition), cursor.record()[0]
                recorder.add("consumed", task, source, place, offset, timestamp, keep(key), keep(value), headers)

            chain.call(source, consume)
        return self._continue(chain, source).compile(self._places)  # type: ignore[no-any-return]

    def loop(
        self,
        lane: RecordQueue,
        shape: str,
        punctuate: Callable[[int], None],
        marks: tuple[list[int], list[Any]] | None,
        ending: Ending | None,
        first: list[int],
    ) -> Loop:
        """Loop and nodes in one: records of a shape from a lane through all nodes below its source."""
        scope, source = self._scope, lane.source
        clocks = scope.stream_time, scope.stream_schedules.due
        serdes, recorder = self._serdes(source), scope.recorder
        counts = first if recorder is not None and shape != WIRE_RECORDS else None
        chain = loop_chain(source, shape, serdes, *clocks, punctuate, marks, ending, counts)
        if recorder is not None:
            lasting = serdes[0].plain | serdes[1].plain
            note_consumed(chain, recorder, (scope.plan.task_id, source, lane.topic, lane.partition), lasting)
        chain = self._continue(chain, source)
        if ending is not None:
            for line in ("if now >= due[0]: punctuate(now)", "if begun:", *(" " + line for line in ending(chain))):
                chain.end(line)
        chain.end("return now")
        return chain.compile(self._places)  # type: ignore[no-any-return]

    def _serdes(self, source: str) -> tuple[Serde, Serde]:
        node: Any = self._nodes[source]
        return self._scope.plan.serdes(node)

    def process(self, name: str) -> Process:
        """The bound function of a node."""
        found = self._bound.get(name)
        if found is None:
            found = self._bound[name] = self._bind(name)
        return found

    def _bind(self, name: str) -> Process:
        node = self._nodes[name]
        if isinstance(node, Sink):
            if self._fuses and is_plain_sink(node, self._scope):
                chain = FunctionBuilder(name)
                sink_line(chain, node, self._scope)
                return chain.compile(self._places)  # type: ignore[no-any-return]
            return self._wrap(name, self._places.name(bind_sink(node, self._scope), name))
        assert isinstance(node, ProcessorNode)
        if self._step(name) is not None:
            chain = FunctionBuilder(name)
            return self._continue(chain, self._append(chain, name)).compile(self._places)  # type: ignore[no-any-return]
        return self._wrap(name, self._bind_operator(node))

    def _bind_operator(self, node: ProcessorNode) -> Process:
        name, children = node.name, self._children[node.name]
        if len(children) == 1 and self._scope.recorder is None:
            forward = self.process(children[0])
        else:
            forward = self._continue(FunctionBuilder(name), name).compile(self._places)
        with self._starting(name):
            process = node.operator.bind(self._context(name), forward)
        process = self._places.name(process, name)
        return self._stamped(process) if any(map(self._notes_record, node.stores)) else process

    def _continue(self, chain: FunctionBuilder, name: str) -> FunctionBuilder:
        """Append what happens below a node: inlined where that is possible, else called."""
        while True:
            children = self._children[name]
            for child in children[:-1]:
                self._call(chain, name, child)
            if not children:
                return chain
            last = children[-1]
            node = self._nodes[last]
            if not self._inlines(last):
                self._call(chain, name, last)
                return chain
            self._note_hop(chain, name, last)
            if isinstance(node, Sink):
                sink_line(chain, node, self._scope)
                return chain
            name = self._append(chain, last)

    def _call(self, chain: FunctionBuilder, name: str, child: str) -> None:
        """Append the call of a child."""
        self._note_hop(chain, name, child)
        chain.call(name, self.process(child))

    def _note_hop(self, chain: FunctionBuilder, name: str, child: str) -> None:
        if self._scope.recorder is not None:
            note_hop(chain, self._scope.recorder, self._scope.plan.task_id, name, child)

    def _append(self, chain: FunctionBuilder, name: str) -> str:
        """Append a node's own lines; gives the last node whose work is done by them."""
        step, child = self._step(name), self._child_reading_new(name)
        assert step is not None
        chain.step(name, step)
        return name if child is None or not self._nodes[name].traits.offers_new else child

    def _inlines(self, name: str) -> bool:
        """Whether a node can be part of its parent's function."""
        node = self._nodes[name]
        if not self._fuses or len([parent for parent in node.parents if parent in self._nodes]) != 1:
            return False
        return is_plain_sink(node, self._scope) if isinstance(node, Sink) else self._step(name) is not None

    def _step(self, name: str) -> FusedStep | None:
        """A processor's lines for a fused chain, None where it needs a function of its own."""
        if name not in self._steps:
            self._steps[name] = self._find_step(name)
        return self._steps[name]

    def _find_step(self, name: str) -> FusedStep | None:
        node = self._nodes[name]
        if not isinstance(node, ProcessorNode) or not self._fuses or any(map(self._notes_record, node.stores)):
            return None
        new_only = self._child_reading_new(name) is not None
        with self._starting(name):
            return node.operator.fuse(self._context(name), new_only=new_only)

    def _context(self, name: str) -> NodeContext:
        return NodeContext(self._scope, name, self._children[name], partial(self._hop, name))

    def _child_reading_new(self, name: str) -> str | None:
        """A table node's only child, where that is inlined and wants no more than the new value of each change."""
        children = self._children[name]
        if (
            self._scope.recorder is None
            and len(children) == 1
            and self._nodes[children[0]].traits.reads_new
            and self._inlines(children[0])
        ):
            return children[0]
        return None

    @contextmanager
    def _starting(self, name: str) -> Iterator[None]:
        """Say which node could not be started."""
        try:
            yield
        except Exception as error:
            raise init_error(self._scope, name, error) from error

    def _hop(self, name: str, child: str) -> Forward:
        """What hands a record from a node to one of its children."""
        if self._scope.recorder is None:
            return self.process(child)
        chain = FunctionBuilder(name)
        self._call(chain, name, child)
        return chain.compile(self._places)  # type: ignore[no-any-return]

    def _wrap(self, name: str, process: Process) -> Process:
        """Let the error handler in, where one may go on, and note what a sink wrote."""
        recorder, guard, out = self._scope.recorder, self._guard, self._scope.out
        if recorder is not None and isinstance(self._nodes[name], Sink):
            write, task, note = process, self._scope.plan.task_id, recorder.add

            def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                before = len(out)
                write(key, value, timestamp, headers)
                for row in out[before:]:
                    note("produced", task, "", *row)

        if guard is None:
            return process
        run, decide = process, guard

        def guarded(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                run(key, value, timestamp, headers)
            except HandledFailure:
                raise
            except Exception as error:
                decide(name, error, key, value, timestamp, headers)

        return guarded

    def _notes_record(self, store: str) -> bool:
        """Whether a store wants to know the timestamp and headers of the record that changes it."""
        found = self._scope.stores.get(store)
        return found is not None and (self._scope.keeps_changelog or found.spec.cached)

    def _stamped(self, process: Process) -> Process:
        stamp = self._scope.stamp

        def stamped(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            before = stamp[0]
            stamp[0] = (timestamp, headers)
            try:
                process(key, value, timestamp, headers)
            finally:
                stamp[0] = before

        return stamped


def _children_of(name: str, nodes: Mapping[str, Any]) -> tuple[str, ...]:
    """Children in the order in which they were added; one that names a parent twice gets its records twice."""
    return tuple(node.name for node in nodes.values() for parent in dict.fromkeys(node.parents) if parent == name)
