"""What happens when a node fails and an error handler may let the task go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kstreamnb.core.wire import to_bytes
from kstreamnb.runtime.failures import HandledFailure
from kstreamnb.runtime.handlers import ErrorContext, answer_of
from kstreamnb.runtime.scope import Scope
from kstreamnb.topology.nodes import Sink, Source

Guard = Callable[[str, BaseException, Any, Any], None]
"""``guard(node, error, key, value)``: returns when the task goes on without the record, raises when it does not."""


def guard_of(scope: Scope) -> Guard | None:
    """What decides about failures in nodes; None where every failure ends the task."""
    config = scope.plan.config
    if (config.processing_handler, config.production_handler, config.dead_letter_topic) == ("fail", "fail", None):
        return None
    nodes = scope.plan.topology.nodes

    def guard(node: str, error: BaseException, key: Any, value: Any) -> None:
        writes = isinstance(nodes[node], Sink)
        handler = config.production_handler if writes else config.processing_handler
        context = _context(scope, node, "production" if writes else "processing")
        answer = answer_of(handler, context, error, config.dead_letter_topic)
        scope.emit(tuple(letter) for letter in answer.dead_letters)
        if answer.action == "fail":
            raise HandledFailure(node, error) from error
        reason = "production error" if writes else "processing error"
        scope.drop(node, reason, key, value, context.timestamp, {"error": type(error).__name__})

    return guard


def _context(scope: Scope, node: str, stage: str) -> ErrorContext:
    plan, cursor = scope.plan, scope.cursor
    record, metadata, source = cursor.record(), scope.metadata(), plan.topology.nodes.get(cursor.source)
    raw: tuple[bytes | None, bytes | None] = (None, None)
    if metadata.topic is None:
        stage = "punctuation" if stage == "processing" else stage
    elif isinstance(source, Source):
        wire = cursor.raw or record
        raw = (
            to_bytes(plan.key_serde(source.key_serde), wire[2]),
            to_bytes(plan.value_serde(source.value_serde), wire[3]),
        )
    _, timestamp, _, _, headers = record
    return ErrorContext(
        stage, node, plan.task_id, metadata.topic, cursor.partition, metadata.offset, timestamp, headers, *raw
    )
