"""Sinks: the nodes whose output leaves the task, as rows ``(topic, partition, timestamp, key, value, headers)``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kstreamnb.core.codec import encoded, encoder, key_partitioner, to_bytes
from kstreamnb.core.operator import Process
from kstreamnb.core.record import Headers
from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError
from kstreamnb.runtime.codegen.event_lines import add_produced
from kstreamnb.runtime.codegen.function_builder import FunctionBuilder
from kstreamnb.runtime.codegen.record_limits import RecordLimits
from kstreamnb.runtime.codegen.serde_lines import write_expression
from kstreamnb.runtime.context.task_context import TaskContext
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.topology.nodes import Sink


def topic_serdes(plan: TaskPlan, nodes: Iterable[str]) -> dict[str, tuple[Serde, Serde]]:
    """Serdes by topic, where all sinks among ``nodes`` that write to it agree; other topics carry bytes only."""
    found: dict[str, tuple[Serde, Serde] | None] = {}
    sinks = [node for name in nodes if isinstance(node := plan.topology.nodes[name], Sink)]
    for sink in sinks:
        if isinstance(sink.topic, str):
            serdes, topic = plan.serdes(sink), plan.topic(sink.topic)
            found[topic] = serdes if found.get(topic, serdes) == serdes else None
    if any(not isinstance(sink.topic, str) for sink in sinks):
        return {}
    return {topic: serdes for topic, serdes in found.items() if serdes is not None}


def is_plain_sink(sink: Sink, scope: TaskContext) -> bool:
    """Whether the sink always writes to one topic, by key, in a form that its readers know."""
    fixed = isinstance(sink.topic, str) and sink.partitioner is None and not _is_limited(scope)
    return fixed and scope.plan.topic(str(sink.topic)) in scope.topic_serdes


def _is_limited(scope: TaskContext) -> bool:
    return any(limit is not None for limit in RecordLimits.of(scope.plan.config))


def add_sink(builder: FunctionBuilder, sink: Sink, scope: TaskContext) -> None:
    """Append the work of a plain sink to a function."""
    plan, (key_serde, value_serde) = scope.plan, scope.plan.serdes(sink)
    key, value = write_expression(builder, key_serde, "key"), write_expression(builder, value_serde, "value")
    append = builder.name(scope.out.append, "produce")
    topic, partition = plan.topic(str(sink.topic)), "0"
    if scope.recorder is not None or plan.count(topic) > 1:  # else the expressions are used once, in the row
        builder.add(sink.name, f"key, value = {key}, {value}")
        key, value = "key", "value"
    if plan.count(topic) > 1:
        partition = "partition"
        partitioner = builder.name(key_partitioner(key_serde, plan.count(topic)), "partition_of")
        builder.add(sink.name, f"partition = {partitioner}(key)")
    if scope.recorder is not None:
        add_produced(builder, scope.recorder, plan.task_id, sink.name, topic, partition)
    builder.add(sink.name, f"{append}(({topic!r}, {partition}, timestamp, {key}, {value}, headers))")


def bind_sink(sink: Sink, scope: TaskContext) -> Process:
    """A sink of any kind as a function."""
    plan = scope.plan
    key_serde, value_serde = plan.serdes(sink)
    append, choose = scope.out.append, _partitions(sink, scope, key_serde)
    if isinstance(sink.topic, str) and plan.topic(sink.topic) in scope.topic_serdes:
        write_key, write_value = encoder(key_serde), encoder(value_serde)
    else:
        write_key, write_value = _bytes_of(key_serde), _bytes_of(value_serde)
    fixed = plan.topic(sink.topic) if isinstance(sink.topic, str) else None
    name_topic, metadata = sink.topic, scope.metadata
    limits = RecordLimits.of(plan.config)
    check = limits.checker(scope.clock) if _is_limited(scope) else None

    def write(key: object, value: object, timestamp: int, headers: Headers) -> None:
        topic = name_topic(key, value, metadata()) if fixed is None else fixed  # type: ignore[operator]
        if not isinstance(topic, str):
            raise EngineError(f'sink "{sink.name}" chose {topic!r} instead of a topic')
        wire_key, wire_value = write_key(key), write_value(value)
        if check is not None:
            check(topic, timestamp, to_bytes(key_serde, wire_key), to_bytes(value_serde, wire_value), headers)
        for partition in choose(topic, key, value):
            append((topic, partition, timestamp, wire_key, wire_value, headers))

    return write


def _bytes_of(serde: Serde) -> Callable[[Any], Any]:
    return lambda value: encoded(serde.serialize(value))


def _partitions(sink: Sink, scope: TaskContext, key_serde: Serde) -> Callable[[str, Any, Any], Iterable[int]]:
    """``choose(topic, key, value)``: the partitions of a record, none where it is to be dropped."""
    by_key: dict[str, Callable[[Any], int]] = {}
    encode, count, partitioner = encoder(key_serde), scope.plan.count, sink.partitioner
    ask: Any = getattr(partitioner, "partitions", partitioner)

    def default(topic: str, key: Any, value: Any) -> Iterable[int]:
        found = by_key.get(topic)
        if found is None:
            found = by_key[topic] = key_partitioner(key_serde, count(topic))
        return (found(encode(key)),)

    def choose(topic: str, key: Any, value: Any) -> Iterable[int]:
        chosen = ask(topic, key, value, count(topic))
        if chosen is None:
            return default(topic, key, value)
        partitions = (chosen,) if isinstance(chosen, int) else tuple(sorted(set(chosen)))
        for partition in partitions:
            if not 0 <= partition < count(topic):
                raise EngineError(
                    f'the partitioner of sink "{sink.name}" chose partition {partition}',
                    detail=f'topic "{topic}" has {count(topic)} partitions',
                )
        if not partitions:
            scope.drop(sink.name, "partitioner", key, value, scope.cursor.record()[1])
        return partitions

    return default if partitioner is None else choose
