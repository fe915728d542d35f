"""Binds the nodes of a task to functions that call each other.

Nodes are bound children first, so that every function holds its children directly. In fast mode chains of stateless
nodes become one function each, with or without lines that write a recording; where something has to be caught between
nodes (an error handler may continue), every node stays a separate function with a thin one around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from kstreamnb.core.block import Block
from kstreamnb.core.operator import Forward, Process
from kstreamnb.core.record import Headers
from kstreamnb.core.serde import Serde
from kstreamnb.runtime.codegen.error_location import ErrorLocations, Guard, HandledFailure, init_error, is_interruption
from kstreamnb.runtime.codegen.event_lines import add_consumed, add_forwarded
from kstreamnb.runtime.codegen.function_builder import FunctionBuilder
from kstreamnb.runtime.codegen.node_context import NodeContext
from kstreamnb.runtime.codegen.record_loop import WIRE_RECORDS, EndLines, Loop, record_loop
from kstreamnb.runtime.codegen.serde_lines import read_expression
from kstreamnb.runtime.codegen.sinks import add_sink, bind_sink, is_plain_sink
from kstreamnb.runtime.context.record_queue import RecordQueue
from kstreamnb.runtime.context.task_context import TaskContext
from kstreamnb.topology.nodes import ProcessorNode, Sink, Source


class TaskCompiler:
    """The bound functions of one task, by node."""

    def __init__(self, scope: TaskContext, places: ErrorLocations, nodes: tuple[str, ...], guard: Guard | None) -> None:
        topology = scope.plan.topology
        self._scope, self._places, self._guard = scope, places, guard
        self._nodes = {name: topology.nodes[name] for name in nodes}
        self._children = {name: _children_of(name, self._nodes) for name in nodes}
        self._fuses = guard is None
        self._bound: dict[str, Process] = {}
        self._blocks: dict[str, Block | None] = {}
        for name in reversed(nodes):
            node = self._nodes[name]
            if not self._inlines(name) and not isinstance(node, Source):
                self.process(name)

    def entry(self, source: str, *, decoded: bool) -> Process:
        """The function that takes a record of a source through all nodes below; from its wire form, or decoded."""
        builder = FunctionBuilder(source)
        if not decoded:
            for name, serde in zip(("key", "value"), self._serdes(source), strict=True):
                builder.add(source, f"{name} = {read_expression(builder, serde, name)}")
        recorder, cursor, task = self._scope.recorder, self._scope.cursor, self._scope.plan.task_id
        if recorder is not None:
            keep = recorder.keep

            def consume(key: object, value: object, timestamp: int, headers: Headers) -> None:
                place, offset = (str(cursor.topic), cursor.partition), cursor.record()[0]
                recorder.add("consumed", task, source, place, offset, timestamp, keep(key), keep(value), headers)

            builder.call(source, consume, "consume")
        return self._continue(builder, source).compile(self._places)

    def loop(
        self,
        lane: RecordQueue,
        shape: str,
        punctuate: Callable[[int], None],
        marks: tuple[list[int], list[Any]] | None,
        end_lines: EndLines | None,
        first: list[int],
    ) -> Loop:
        """Loop and nodes in one: records of a shape from a lane through all nodes below its source."""
        scope, source = self._scope, lane.source
        clocks = scope.stream_time, scope.stream_schedules.due
        serdes, recorder = self._serdes(source), scope.recorder
        counts = first if recorder is not None and shape != WIRE_RECORDS else None
        builder = record_loop(source, shape, serdes, *clocks, punctuate, marks, end_lines, counts)
        if recorder is not None:
            lasting = serdes[0].plain | serdes[1].plain
            add_consumed(builder, recorder, (scope.plan.task_id, source, lane.topic, lane.partition), lasting)
        builder = self._continue(builder, source)
        if end_lines is not None:
            for line in ("if now >= due[0]: punctuate(now)", "if begun:", *(" " + line for line in end_lines(builder))):
                builder.end(line)
        builder.end("return now")
        return builder.compile(self._places)

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
                builder = FunctionBuilder(name)
                add_sink(builder, node, self._scope)
                return builder.compile(self._places)
            return self._wrap(name, self._places.name(bind_sink(node, self._scope), name))
        assert isinstance(node, ProcessorNode)
        if self._block(name) is not None:
            builder = FunctionBuilder(name)
            return self._continue(builder, self._append(builder, name)).compile(self._places)
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

    def _continue(self, builder: FunctionBuilder, name: str) -> FunctionBuilder:
        """Append what happens below a node: inlined where that is possible, else called."""
        while True:
            children = self._children[name]
            for child in children[:-1]:
                self._call(builder, name, child)
            if not children:
                return builder
            last = children[-1]
            node = self._nodes[last]
            if not self._inlines(last):
                self._call(builder, name, last)
                return builder
            self._note_hop(builder, name, last)
            if isinstance(node, Sink):
                add_sink(builder, node, self._scope)
                return builder
            name = self._append(builder, last)

    def _call(self, builder: FunctionBuilder, name: str, child: str) -> None:
        """Append the call of a child."""
        self._note_hop(builder, name, child)
        builder.call(name, self.process(child), "child")

    def _note_hop(self, builder: FunctionBuilder, name: str, child: str) -> None:
        if self._scope.recorder is not None:
            add_forwarded(builder, self._scope.recorder, self._scope.plan.task_id, name, child)

    def _append(self, builder: FunctionBuilder, name: str) -> str:
        """Append a node's own lines; gives the last node whose work is done by them."""
        block, child = self._block(name), self._child_reading_new(name)
        assert block is not None
        builder.add_block(name, block)
        return name if child is None or not self._nodes[name].traits.offers_new else child

    def _inlines(self, name: str) -> bool:
        """Whether a node can be part of its parent's function."""
        node = self._nodes[name]
        if not self._fuses or len([parent for parent in node.parents if parent in self._nodes]) != 1:
            return False
        return is_plain_sink(node, self._scope) if isinstance(node, Sink) else self._block(name) is not None

    def _block(self, name: str) -> Block | None:
        """Return a processor's lines; None if it needs a separate function."""
        if name not in self._blocks:
            self._blocks[name] = self._find_block(name)
        return self._blocks[name]

    def _find_block(self, name: str) -> Block | None:
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
        except BaseException as error:
            if is_interruption(error):
                raise
            raise init_error(self._scope, name, error) from error

    def _hop(self, name: str, child: str) -> Forward:
        """Return the function that hands a record from a node to one of its children."""
        if self._scope.recorder is None:
            return self.process(child)
        builder = FunctionBuilder(name)
        self._call(builder, name, child)
        return builder.compile(self._places)

    def _wrap(self, name: str, process: Process) -> Process:
        """Wrap a function with the error handler, if one may continue, and with the recording of a sink."""
        recorder, guard, out = self._scope.recorder, self._guard, self._scope.out
        if recorder is not None and isinstance(self._nodes[name], Sink):
            write, task, note = process, self._scope.plan.task_id, recorder.add

            def process(key: object, value: object, timestamp: int, headers: Headers) -> None:
                before = len(out)
                write(key, value, timestamp, headers)
                for row in out[before:]:
                    note("produced", task, "", *row)

        if guard is None:
            return process
        run, decide = process, guard

        def guarded(key: object, value: object, timestamp: int, headers: Headers) -> None:
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

        def stamped(key: object, value: object, timestamp: int, headers: Headers) -> None:
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
