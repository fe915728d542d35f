"""Finds the node and record of a failure from the traceback, so that successful records cost nothing.

Every bound function runs under a code object that belongs to its node alone; `ErrorLocations` knows them all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator
from dis import opmap
from signal import SIGINT, getsignal
from traceback import walk_stack, walk_tb
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, TypeAlias

from kstreamnb.core.codec import decode, to_bytes
from kstreamnb.core.operator import Process
from kstreamnb.core.processor import Processor
from kstreamnb.core.record import Headers, Record
from kstreamnb.core.serde import FITTING, SCALARS
from kstreamnb.core.serdes import JsonSerde
from kstreamnb.errors import ConfigError, KStreamError, ProcessingError, RecordRefusedError, SerdeError
from kstreamnb.hints import for_python, message_of
from kstreamnb.java_texts import CANNOT_READ
from kstreamnb.runtime.context.handlers import ErrorContext, Stage, answer_of
from kstreamnb.runtime.context.task_context import TaskContext
from kstreamnb.source_location import PACKAGE, SourceLocation, user_line
from kstreamnb.topology.nodes import Sink, Source

_RAISE = opmap["RAISE_VARARGS"]


class HandledFailure(Exception):
    """An error after which a handler decided to end the task."""

    def __init__(self, node: str, error: BaseException) -> None:
        super().__init__(node, error)
        self.node, self.error = node, error


def is_interruption(error: BaseException) -> bool:
    """Return whether an error comes from outside the user's code: a signal, or a generator that is closed.

    Both look like errors that a function raises, but no ``raise`` statement is where their traceback ends, unless a
    handler of signals has it.
    """
    if not isinstance(error, KeyboardInterrupt | GeneratorExit):
        return False
    last, handler = error.__traceback__, getsignal(SIGINT)
    # Handlers of pyspark and asyncio, of which the latter is a partial of a method, are functions of Python.
    handling = getattr(getattr(handler, "func", handler), "__code__", None)
    while last is not None and last.tb_next is not None and last.tb_frame.f_code is not handling:
        last = last.tb_next
    return last is None or last.tb_frame.f_code is handling or last.tb_frame.f_code.co_code[last.tb_lasti] != _RAISE


class ErrorLocations:
    """Code objects of a task, the node that each of their lines belongs to, and the source of generated ones."""

    def __init__(self) -> None:
        # Code objects are compared by identity: equal ones of two nodes must not be confused. The entry keeps its code
        # object alive.
        self._nodes: dict[int, tuple[CodeType, tuple[str, ...], str]] = {}

    def name(self, process: Callable[..., Any], node: str) -> Callable[..., Any]:
        """Return the function with a separate code object, named after the node."""
        code = process.__code__.replace(co_name=node, co_qualname=node)
        self.add(code, (node,))
        return FunctionType(code, process.__globals__, node, process.__defaults__, process.__closure__)

    def add(self, code: CodeType, nodes: tuple[str, ...], source: str = "") -> None:
        """Register a code object.

        Args:
            code: the code object.
            nodes: the node of each line, beginning with line 1; the last one has all lines that follow.
            source: the source, if it was generated.
        """
        self._nodes[id(code)] = (code, nodes, source)

    def find(self, trace: TracebackType | None, among: Container[str] | None = None) -> str | None:
        """Return the innermost node on a traceback, or the innermost of some nodes."""
        nodes = reversed([*self._nodes_of(walk_tb(trace))])
        return next((node for node in nodes if among is None or node in among), None)

    def at_work(self, frame: FrameType | None) -> str | None:
        """Return the innermost node on the stack of a thread, given its innermost frame."""
        return None if frame is None else next(self._nodes_of(walk_stack(frame)), None)

    def _nodes_of(self, frames: Iterable[tuple[FrameType, int]]) -> Iterator[str]:
        for frame, line in frames:
            if (known := self._nodes.get(id(frame.f_code))) is not None:
                nodes = known[1]
                yield nodes[0] if len(nodes) == 1 else nodes[min(line, len(nodes)) - 1]

    def source(self) -> str:
        """Return the generated functions, with a comment before the lines of each node."""
        return "\n\n".join(_with_nodes(source, nodes) for _, nodes, source in self._nodes.values() if source)


def _with_nodes(source: str, nodes: tuple[str, ...]) -> str:
    lines, node = [], ""
    for line, of_line in zip(source.split("\n"), nodes, strict=True):
        if of_line != node:
            node = of_line
            lines.append(f"{' ' * (len(line) - len(line.lstrip()))}# {node}")
        lines.append(line)
    return "\n".join(lines) + "\n"


def processing_error(
    context: TaskContext, locations: ErrorLocations, error: BaseException, java: str | None = None
) -> ProcessingError:
    """Make the error about a node that failed on a record, in a punctuator, or while a cache was flushed.

    Its cause is the user's own error, not the wrapper of a handler's decision.
    """
    node, cause, record = locations.find(error.__traceback__), error, context.record_context
    if isinstance(error, HandledFailure):
        node, cause = error.node, error.error
    (offset, timestamp, *_), topic, partition = record.record(), record.topic, record.partition
    node, task_id = node or record.source, context.plan.task_id
    if topic is None and record.source:  # a punctuator of that node
        java = f"stream-thread [main] task [{task_id}] Exception caught while punctuating processor '{record.source}'"
        where = f"punctuator, stream time {context.stream_time[0]} ms, task {task_id}"
        return _error(context, node, cause, where, java)
    above, sink = node, context.plan.topology.nodes.get(node)
    if isinstance(sink, Sink):  # in Kafka Streams, the node above has failed
        above = locations.find(error.__traceback__, sink.parents) or sink.parents[0]
    position = f"taskId={task_id}, processor={above}, topic={topic}, partition={partition}, offset={offset}"
    where = f"record {topic}-{partition}@{offset}, timestamp {timestamp} ms, task {task_id}"
    if isinstance(error, SerdeError) and isinstance(context.plan.topology.nodes.get(node), Source):
        java = java or CANNOT_READ
    failure = _error(context, node, cause, where, java or f"Exception caught in process. {position}")
    failure.coordinates = (str(topic), partition, offset, timestamp)
    failure.record = _key_and_value(context)
    return failure


def _key_and_value(context: TaskContext) -> tuple[object, object] | None:
    """Return the current record's key and value, as their bytes if they cannot be read; None without a source."""
    record, plan = context.record_context, context.plan
    source, wire = plan.topology.nodes.get(record.source), record.record()[2:4]
    if not isinstance(source, Source):
        return None
    try:
        key, value = map(decode, plan.serdes(source), wire)
    except Exception:  # the serde may belong to the user and raise anything; the failure itself is reported
        key, value = wire
    return key, value


def init_error(context: TaskContext, node: str, error: BaseException) -> ProcessingError:
    """Make the error about a node that could not be started."""
    origin = getattr(context.plan.topology.nodes[node], "origin", None)
    hint = getattr(error, "hint", None) or _hint(context, node, error, user_line(error))
    fact = f'failed to initialize processor "{node}"{_reason(node, error)}'
    return ProcessingError(fact, hint=hint, java=f"failed to initialize processor {node}", origin=origin)


def _reason(node: str, error: BaseException) -> str:
    """Return why a node failed, as the end of a sentence that names the node."""
    if not isinstance(error, KStreamError):
        return f" with {type(error).__name__}"
    return ": " + error.message.replace(f'node "{node}" ', "it ", 1)


def _error(context: TaskContext, node: str, error: BaseException, where: str, java: str) -> ProcessingError:
    declared: SourceLocation | None = getattr(context.plan.topology.nodes.get(node), "origin", None)
    line = user_line(error)
    # A detail made of another error's text may quote the record, which logs must not contain.
    why = error.detail if isinstance(error, KStreamError) and error.__cause__ is None else None
    above = f"node declared at {declared}" if line and declared and line != declared else None
    hint = _sink_hint(context, node, error) or getattr(error, "hint", None) or _hint(context, node, error, line)
    fact, detail = f'node "{node}" failed{_reason(node, error)}', "; ".join(filter(None, (where, why, above)))
    failure = ProcessingError(fact, node=node, detail=detail, hint=hint, origin=line or declared, java=java)
    failure.__cause__ = error
    return failure


def _sink_hint(context: TaskContext, node: str, error: BaseException) -> str | None:
    """Return which of key and value the serde of a sink cannot write, and the call that names another one."""
    sink, plan = context.plan.topology.nodes.get(node), context.plan
    if not isinstance(sink, Sink) or not isinstance(error, SerdeError):
        return None
    frames = [frame for frame, _ in walk_tb(error.__traceback__) if {"key", "value"} <= set(frame.f_locals)]
    written = (each.f_locals for each in frames if each.f_code.co_filename.startswith(("<kstreamnb", _SINKS)))
    record: dict[str, object] = next(reversed([*written]), {})
    for side, serde in zip(("key", "value"), plan.serdes(sink), strict=True):
        fault = record.get(side)
        try:
            serde.serialize(fault)
        except SerdeError:
            fitting = FITTING.get(type(fault), serde.name) if isinstance(serde, _BUILT_IN) else serde.name
            if fitting == serde.name or not isinstance(sink.topic, str) or sink.topic in plan.topology.internal_topics:
                return error.hint and f"for the {side}: {error.hint}"
            return f'for the {side}, write .to("{sink.topic}", {side}_serde="{fitting}")'
    return None


def _hint(context: TaskContext, node: str, error: BaseException, line: SourceLocation | None) -> str | None:
    """Return a hint about a context that was not kept, a call in Java's shape, or an unexpected None.

    Session aggregations above the node emit nulls.
    """
    if isinstance(error, AttributeError) and isinstance(error.obj, Processor) and error.name == "context":
        return "keep the context: call super().init(context) first in init"
    topology, above = context.plan.topology, [node]
    for name in above if "NoneType" in message_of(error) else ():
        known = topology.nodes[name]
        if any(topology.stores[store].kind == "session" for store in known.stores if store in topology.stores):
            return "a session merge emits null for the session that it replaces; test value is not None first"
        above.extend(parent for parent in known.parents if parent not in above)
    return for_python(error, line.code if line else "")


_SINKS = os.path.join(PACKAGE, "runtime", "codegen", "sinks.py")
_BUILT_IN = (JsonSerde, *map(type, SCALARS))
Guard: TypeAlias = Callable[[str, Process], Process]
"""``guard(node, process)``: the same function, but a record on which it fails may be dropped."""


def guard_of(context: TaskContext) -> Guard | None:
    """Return the function that puts error handlers around nodes; None if every failure ends the task."""
    config = context.plan.config
    if (config.processing_handler, config.production_handler, config.dead_letter_topic) == ("fail", "fail", None):
        return None
    nodes = context.plan.topology.nodes

    def decide(node: str, error: Exception, record: Record[Any, Any]) -> None:
        writes = isinstance(nodes[node], Sink)
        if writes and not isinstance(error, SerdeError | RecordRefusedError):
            raise error  # the choice of a topic or partition: as in Kafka Streams, the node above has failed
        handler = config.production_handler if writes else config.processing_handler
        failure = _error_context(context, node, "production" if writes else "processing", record)
        try:
            answer = answer_of(handler, failure, error, config.dead_letter_topic)
        except ConfigError as own:  # the handler's mistake: no other one is asked about it
            raise HandledFailure(node, own) from own
        context.emit(answer.dead_letters)
        if answer.action == "fail":
            if writes:
                raise error  # next, the processing handler decides about the node above, as in Kafka Streams
            raise HandledFailure(node, error) from error
        reason = "production error" if writes else "processing error"
        context.drop(node, reason, record.key, record.value, record.timestamp, {"error": type(error).__name__})

    def guard(node: str, process: Process) -> Process:
        def guarded(key: object, value: object, timestamp: int, headers: Headers) -> None:
            try:
                process(key, value, timestamp, headers)
            except HandledFailure:
                raise
            except Exception as error:  # unchecked: a failure must not hide another
                decide(node, error, Record._make((key, value, timestamp, headers)))

        return guarded

    return guard


def _error_context(context: TaskContext, node: str, stage: Stage, record: Record[Any, Any]) -> ErrorContext:
    plan, current = context.plan, context.record_context
    metadata, source = context.metadata(), plan.topology.nodes.get(current.source)
    raw: tuple[bytes | None, bytes | None] = (None, None)
    if metadata.topic is None:
        stage = "punctuation" if stage == "processing" else stage
    elif isinstance(source, Source) and metadata == current.metadata():  # otherwise a store held it, without its bytes
        (key_serde, value_serde), wire = plan.serdes(source), current.raw or current.record()
        raw = to_bytes(key_serde, wire[2]), to_bytes(value_serde, wire[3])
    position = metadata.topic, current.partition, metadata.offset, record.timestamp, record.headers
    is_none = stage == "punctuation" and (record.key, record.value) == (None, None)
    topic = getattr(plan.topology.nodes[node], "topic", None)  # of a sink
    target = plan.topic(topic) if isinstance(topic, str) else None
    return ErrorContext(stage, node, plan.task_id, *position, *raw, None if is_none else record, target)
