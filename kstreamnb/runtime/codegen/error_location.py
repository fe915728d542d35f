"""Finds the node and record of a failure from the traceback, so that successful records cost nothing.

Every bound function runs under a code object that belongs to its node alone; `ErrorLocations` knows them all.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable
from dis import opmap
from traceback import walk_tb
from types import CodeType, FunctionType, TracebackType
from typing import Any

from kstreamnb.core.codec import to_bytes
from kstreamnb.core.record import Headers
from kstreamnb.core.source_location import PACKAGE, SourceLocation, origin_of
from kstreamnb.errors import KStreamError, ProcessingError, SerdeError
from kstreamnb.hints import message_of
from kstreamnb.java_texts import CANNOT_READ
from kstreamnb.runtime.context.handlers import ErrorContext, answer_of
from kstreamnb.runtime.context.task_context import TaskContext
from kstreamnb.topology.nodes import Sink, Source

_RAISE = opmap["RAISE_VARARGS"]
_LIBRARIES = tuple(
    os.path.join(path, "") for path in dict.fromkeys(sysconfig.get_paths()[name] for name in ("stdlib", "purelib"))
)


class HandledFailure(Exception):
    """An error after which a handler decided to end the task."""

    def __init__(self, node: str, error: BaseException) -> None:
        super().__init__(node, error)
        self.node, self.error = node, error


def original(error: BaseException) -> BaseException:
    """Return the cause to raise an error from: the user's own error, not the wrapper of a handler's decision."""
    return error.error if isinstance(error, HandledFailure) else error


def is_interruption(error: BaseException) -> bool:
    """Return whether an error comes from outside the user's code: a signal, or a generator that is closed.

    Both look like errors that a function raises, but no ``raise`` statement is where their traceback ends.
    """
    if not isinstance(error, KeyboardInterrupt | GeneratorExit):
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is None or last.tb_frame.f_code.co_code[last.tb_lasti] != _RAISE


class ErrorLocations:
    """Code objects of a task, the node that each of their lines belongs to, and the source of generated ones."""

    def __init__(self) -> None:
        # By identity: equal code objects of two nodes must not be mistaken. The entry keeps its code object alive.
        self._nodes: dict[int, tuple[CodeType, tuple[str, ...], str]] = {}

    def name(self, process: Callable[..., Any], node: str) -> Callable[..., Any]:
        """Return the function with a separate code object, named after the node."""
        if not isinstance(process, FunctionType):
            function = process

            def process(key: object, value: object, timestamp: int, headers: Headers) -> None:
                function(key, value, timestamp, headers)

        if id(process.__code__) in self._nodes:
            return process
        code = process.__code__.replace(co_name=node, co_qualname=node)
        renamed = FunctionType(code, process.__globals__, node, process.__defaults__, process.__closure__)
        renamed.__kwdefaults__ = process.__kwdefaults__
        self.add(code, (node,))
        return renamed

    def add(self, code: CodeType, nodes: tuple[str, ...], source: str = "") -> None:
        """Register a code object.

        Args:
            code: the code object.
            nodes: the node of each line from line 1 on; the last one has the lines that follow.
            source: the source, if it was generated.
        """
        self._nodes[id(code)] = (code, nodes, source)

    def find(self, trace: TracebackType | None) -> str | None:
        """Return the innermost node on a traceback."""
        node = None
        for frame, line in walk_tb(trace):
            known = self._nodes.get(id(frame.f_code))
            if known is not None:
                nodes = known[1]
                node = nodes[0] if len(nodes) == 1 else nodes[min(line, len(nodes)) - 1]
        return node

    def source(self) -> str:
        """Return the generated functions; a comment stands before the lines of each node."""
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
    scope: TaskContext, places: ErrorLocations, error: BaseException, java: str | None = None
) -> ProcessingError:
    """Make the error about a node that failed on a record or while a cache was flushed."""
    node = error.node if isinstance(error, HandledFailure) else places.find(error.__traceback__)
    (offset, timestamp, *_), topic, partition = scope.cursor.record(), scope.cursor.topic, scope.cursor.partition
    node, task_id = node or scope.cursor.source, scope.plan.task_id
    place = f"taskId={task_id}, processor={node}, topic={topic}, partition={partition}, offset={offset}"
    where = f"record {topic}-{partition}@{offset}, timestamp {timestamp} ms, task {task_id}"
    if isinstance(error, SerdeError) and isinstance(scope.plan.topology.nodes.get(node), Source):
        java = java or CANNOT_READ
    found = _error(scope, node, original(error), where, java or f"Exception caught in process. {place}")
    found.coordinates = (str(topic), partition, offset, timestamp)
    return found


def punctuation_error(scope: TaskContext, places: ErrorLocations, node: str, error: BaseException) -> ProcessingError:
    """Make the error about a punctuator that failed."""
    node = error.node if isinstance(error, HandledFailure) else places.find(error.__traceback__) or node
    where = f"punctuator, stream time {scope.stream_time[0]} ms, task {scope.plan.task_id}"
    return _error(scope, node, original(error), where, f"Exception caught while punctuating processor '{node}'")


def init_error(scope: TaskContext, node: str, error: BaseException) -> ProcessingError:
    """Make the error about a node that could not be started."""
    java = f"failed to initialize processor {node}"
    origin = getattr(scope.plan.topology.nodes[node], "origin", None)
    return ProcessingError(f'failed to initialize processor "{node}"', java=java, origin=origin)


def _error(scope: TaskContext, node: str, error: BaseException, where: str, java: str) -> ProcessingError:
    declared: SourceLocation | None = getattr(scope.plan.topology.nodes.get(node), "origin", None)
    place = _user_frame(error.__traceback__)
    line = None if place is None else origin_of(*place)
    detail = f"{where}; node declared at {declared}" if line and declared else where
    fact = f": {error.message}" if isinstance(error, KStreamError) else f" with {type(error).__name__}"
    return ProcessingError(
        f'node "{node}" failed{fact}',
        node=node,
        detail=detail,
        hint=getattr(error, "hint", None) or _none_hint(scope, node, error),
        origin=line or declared,
        java=java,
    )


def _none_hint(scope: TaskContext, node: str, error: BaseException) -> str | None:
    """Return a hint about an unexpected None if session aggregations above the node emit nulls."""
    topology, above = scope.plan.topology, [node]
    for name in above if "NoneType" in message_of(error) else ():
        known = topology.nodes[name]
        if any(topology.stores[store].kind == "session" for store in known.stores if store in topology.stores):
            return "a session merge emits null for the session that it replaces; test value is not None first"
        above.extend(parent for parent in known.parents if parent not in above)
    return None


def _user_frame(trace: TracebackType | None) -> tuple[str, int] | None:
    """Return file and line of the innermost frame in the user's code."""
    found = None
    for frame, line in walk_tb(trace):
        file = frame.f_code.co_filename
        if not file.startswith((PACKAGE, "<kstreamnb", *_LIBRARIES)):
            found = (file, line)
    return found


Guard = Callable[[str, BaseException, Any, Any, int, Headers], None]
"""``guard(node, error, *record)``: returns if the task continues without the record, raises otherwise."""


def guard_of(scope: TaskContext) -> Guard | None:
    """Return the function that decides about failures in nodes; None if every failure ends the task."""
    config = scope.plan.config
    if (config.processing_handler, config.production_handler, config.dead_letter_topic) == ("fail", "fail", None):
        return None
    nodes = scope.plan.topology.nodes

    def guard(node: str, error: BaseException, key: object, value: object, timestamp: int, headers: Headers) -> None:
        writes = isinstance(nodes[node], Sink)
        handler = config.production_handler if writes else config.processing_handler
        context = _context(scope, node, "production" if writes else "processing", timestamp, headers)
        answer = answer_of(handler, context, error, config.dead_letter_topic)
        scope.emit(tuple(letter) for letter in answer.dead_letters)
        if answer.action == "fail":
            raise HandledFailure(node, error) from error
        reason = "production error" if writes else "processing error"
        scope.drop(node, reason, key, value, timestamp, {"error": type(error).__name__})

    return guard


def _context(scope: TaskContext, node: str, stage: str, timestamp: int, headers: Headers) -> ErrorContext:
    plan, cursor = scope.plan, scope.cursor
    metadata, source = scope.metadata(), plan.topology.nodes.get(cursor.source)
    raw: tuple[bytes | None, bytes | None] = (None, None)
    if metadata.topic is None:
        stage = "punctuation" if stage == "processing" else stage
    elif isinstance(source, Source) and metadata == cursor.metadata():  # else it waited in a store, without its bytes
        (key_serde, value_serde), wire = plan.serdes(source), cursor.raw or cursor.record()
        raw = to_bytes(key_serde, wire[2]), to_bytes(value_serde, wire[3])
    return ErrorContext(
        stage, node, plan.task_id, metadata.topic, cursor.partition, metadata.offset, timestamp, headers, *raw
    )
