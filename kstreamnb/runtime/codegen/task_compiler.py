"""Binds the nodes of a task to functions that call each other.

Nodes are bound children first, so that every function refers to its children directly. In fast mode chains of stateless
nodes become one function each, with or without lines that write a recording. If an error handler may continue, every
node remains a separate function within one that catches its errors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from kstreamnb.core.block import Block
from kstreamnb.core.codec import by_home, indexed_type
from kstreamnb.core.operator import Forward, Process
from kstreamnb.core.record import Headers
from kstreamnb.core.serde import Serde
from kstreamnb.runtime.codegen.error_location import ErrorLocations, guard_of, init_error, is_interruption
from kstreamnb.runtime.codegen.event_lines import add_consumed, add_forwarded
from kstreamnb.runtime.codegen.function_builder import FunctionBuilder
from kstreamnb.runtime.codegen.node_context import NodeContext
from kstreamnb.runtime.codegen.record_loop import PUNCTUATE, WIRE_RECORDS, EndLines, record_loop
from kstreamnb.runtime.codegen.serde_lines import add_reading
from kstreamnb.runtime.codegen.sinks import add_sink, bind_sink, is_plain_sink
from kstreamnb.runtime.context.record_queue import RecordQueue
from kstreamnb.runtime.context.task_context import TaskContext
from kstreamnb.topology.nodes import ProcessorNode, Sink, Source


class TaskCompiler:
    """Binds the nodes of one task to functions.

    ``first`` holds the offset of the last record of each queue, before the first one that of the record before.
    """

    def __init__(
        self,
        context: TaskContext,
        locations: ErrorLocations,
        nodes: tuple[str, ...],
        punctuate: Callable[[int], object],
    ) -> None:
        topology = context.plan.topology
        self._context, self._locations, self._punctuate = context, locations, punctuate
        self.guard, self.first = guard_of(context), defaultdict[RecordQueue, list[int]](lambda: [0])
        self._nodes = {name: topology.nodes[name] for name in nodes}
        self._children = {name: _children_of(name, self._nodes) for name in nodes}
        self._fuses = self.guard is None
        self._process, self._block = cache(self._bind), cache(self._find_block)
        for name in reversed(nodes):
            node = self._nodes[name]
            if not self._inlines(name) and not isinstance(node, Source):
                self._process(name)
        context.record_context.set((-1, context.clock.now_ms, None, None, ()), None, -1, "")  # of puts in `init`
        # Children are bound first, but Kafka Streams creates all processors and then initializes them, parents first.
        for name in (*nodes, *nodes):
            for begin in context.starters.pop(name, ()):
                with self._starting(name):
                    begin()
        context.record_context.clear()

    def entry(self, source: str, *, decoded: bool) -> Process:
        """Return the function that takes a record of a source, serialized or decoded, through all nodes below."""
        builder = FunctionBuilder(source)
        if not decoded:
            add_reading(builder, source, self._serdes(source))
        recorder, record, task = self._context.recorder, self._context.record_context, self._context.plan.task_id
        if recorder is not None:
            keep = recorder.keep

            def consume(key: object, value: object, timestamp: int, headers: Headers) -> None:
                partition, offset = (str(record.topic), record.partition), record.record()[0]
                recorder.add("consumed", task, source, partition, offset, timestamp, keep(key), keep(value), headers)

            builder.call(source, consume, "consume")
        return self._continue(builder, source).compile(self._locations)

    def loop(
        self, queue: RecordQueue, shape: str, marks: list[int] | None, end_lines: EndLines | None, own: int | None
    ) -> FunctionBuilder:
        """Return the loop that takes records of a shape from a queue through all nodes below its source.

        ``own`` is the partition; None if the tasks of all partitions share the loop.
        """
        context, source = self._context, queue.source
        punctuates = any(isinstance(node, ProcessorNode) and node.traits.user_code for node in self._nodes.values())
        clocks = context.stream_time, context.stream_schedules.due if punctuates else None
        serdes, recorder, shared = self._serdes(source), context.recorder, own is None
        holds = any(isinstance(node, ProcessorNode) and node.traits.buffer for node in self._nodes.values())
        counts = self.first[queue] if (holds or recorder is not None) and shape != WIRE_RECORDS and not shared else None
        builder = record_loop(source, shape, serdes, *clocks, self._punctuate, end_lines, counts, own)
        if shared and indexed_type(serdes[0]) in serdes[0].plain:  # otherwise a known key may be read as another one
            builder.facts.counted = context.plan.count(queue.topic)
        if holds:
            place = "number, offsets[number] + len(times[number]) - 1" if shared else f"{queue.partition}, offset"
            builder.position = f"({queue.topic!r}, {place})"
        if marks is not None:
            builder.add(source, f"{builder.name(marks.append, 'mark')}(len({builder.name(context.out, 'out')}))")
        if recorder is not None:
            builder.own_value(source)
            lasting = serdes[0].plain | serdes[1].plain
            add_consumed(builder, recorder, (context.plan.task_id, source, queue.topic, queue.partition), lasting)
        builder = self._continue(builder, source)
        ends = [] if end_lines is None else ["if begun:", *(" " + line for line in end_lines(builder))]
        for line in (*[PUNCTUATE] * (punctuates and not shared), *ends):
            builder.end(line)
        return builder

    def _serdes(self, source: str) -> tuple[Serde, Serde]:
        node: Any = self._nodes[source]
        return self._context.plan.serdes(node)

    def _bind(self, name: str) -> Process:
        """Return the function of a node; ``_process`` returns the same one at each call."""
        node = self._nodes[name]
        if isinstance(node, Sink):
            if self._fuses and is_plain_sink(node, self._context):
                builder = FunctionBuilder(name)
                add_sink(builder, node, self._context)
                return builder.compile(self._locations)
            return self._wrap(name, self._locations.name(bind_sink(node, self._context), name))
        assert isinstance(node, ProcessorNode)
        if (block := self._block(name)) is not None:
            builder = FunctionBuilder(name)
            builder.add_block(name, block)
            return self._continue(builder, None if block.ends else name).compile(self._locations)
        return self._wrap(name, self._bind_operator(node))

    def _bind_operator(self, node: ProcessorNode) -> Process:
        name, forward = node.name, self._hop(node.name, None)
        with self._starting(name):
            process = node.operator.bind(self._node_context(name), forward)
        process = self._locations.name(process, name)
        asks = node.traits.user_code and node.traits.sends_old  # transformers of a table's rows get no record
        return self._stamped(process) if asks or any(map(self._notes_record, node.stores)) else process

    def _continue(self, builder: FunctionBuilder, name: str | None) -> FunctionBuilder:
        """Append the nodes below a node, if any has to follow: inlined if possible, else called."""
        while name is not None:
            children = self._children[name]
            for child in children[:-1]:
                self._call(builder, name, child)
            if not children:
                return builder
            node = self._nodes[last := children[-1]]
            if not self._inlines(last):
                self._call(builder, name, last)
                return builder
            self._note_hop(builder, name, last)
            if isinstance(node, Sink):
                add_sink(builder, node, self._context)
                return builder
            block = self._block(last)
            assert block is not None
            builder.add_block(last, block)
            name = None if block.ends else last
        return builder

    def _call(self, builder: FunctionBuilder, name: str, child: str) -> None:
        """Append the call of a child."""
        self._note_hop(builder, name, child)
        builder.call(name, self._process(child), "child")

    def _note_hop(self, builder: FunctionBuilder, name: str, child: str) -> None:
        if self._context.recorder is not None:
            builder.join_parts(name)
            add_forwarded(builder, self._context.recorder, self._context.plan.task_id, name, child)

    def _inlines(self, name: str) -> bool:
        """Return whether a node can be part of its parent's function."""
        node = self._nodes[name]
        alone = len([parent for parent in node.parents if parent in self._nodes]) == 1
        if not self._fuses or not (alone or (isinstance(node, Sink) and node.partitioner is by_home)):
            return False
        return is_plain_sink(node, self._context) if isinstance(node, Sink) else self._block(name) is not None

    def _find_block(self, name: str) -> Block | None:
        """Return a processor's lines; None if it needs a separate function."""
        node = self._nodes[name]
        if not isinstance(node, ProcessorNode) or not self._fuses or any(map(self._notes_record, node.stores)):
            return None
        with self._starting(name):
            return node.operator.fuse(self._node_context(name))

    def _node_context(self, name: str) -> NodeContext:
        return NodeContext(self._context, name, self._children[name], partial(self._hop, name))

    @contextmanager
    def _starting(self, name: str) -> Iterator[None]:
        """Name the node in errors while it starts."""
        try:
            yield
        except BaseException as error:
            if is_interruption(error):
                raise
            raise init_error(self._context, name, error) from error

    def _hop(self, name: str, child: str | None) -> Forward:
        """Return the function that hands a record from a node to one of its children, or to all for None."""
        children, builder = self._children[name] if child is None else (child,), FunctionBuilder(name)
        if len(children) == 1 and self._context.recorder is None:
            return self._process(children[0])
        if child is None:
            self._continue(builder, name)
        else:
            self._call(builder, name, child)
        return builder.compile(self._locations)

    def _wrap(self, name: str, process: Process) -> Process:
        """Wrap a function with the error handler, if one may continue, and with the recording of a sink."""
        recorder, guard, out = self._context.recorder, self.guard, self._context.out
        if recorder is not None and isinstance(self._nodes[name], Sink):
            write, task, note = process, self._context.plan.task_id, recorder.add

            def process(key: object, value: object, timestamp: int, headers: Headers) -> None:
                before = len(out)
                write(key, value, timestamp, headers)
                for row in out[before:]:
                    note("produced", task, "", *row)

        return process if guard is None else guard(name, process)

    def _notes_record(self, store: str) -> bool:
        """Return whether a store needs the timestamp and headers of the record that changes it."""
        known = self._context.stores.get(store)
        return known is not None and (self._context.keeps_changelog or known.spec.cached)

    def _stamped(self, process: Process) -> Process:
        stamp = self._context.stamp

        def stamped(key: object, value: object, timestamp: int, headers: Headers) -> None:
            before = stamp[0]
            stamp[0] = (timestamp, headers)
            try:
                process(key, value, timestamp, headers)
            finally:
                stamp[0] = before

        return stamped


def _children_of(name: str, nodes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return children in the order in which they were added; one that names a parent twice gets its records twice."""
    return tuple(node.name for node in nodes.values() for parent in node.parents if parent == name)
