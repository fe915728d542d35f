"""Sinks: the nodes whose output leaves the task, as rows ``(topic, partition, timestamp, key, value, headers)``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from kstreamnb.core.codec import ByText, by_home, by_inner_key, copier, encoded, encoder, key_partitioner, to_bytes
from kstreamnb.core.operator import Process
from kstreamnb.core.record import Headers, OutputMetadata
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import JsonSerde
from kstreamnb.errors import EngineError
from kstreamnb.runtime.codegen.event_lines import add_produced
from kstreamnb.runtime.codegen.function_builder import FunctionBuilder
from kstreamnb.runtime.codegen.record_limits import RecordLimits
from kstreamnb.runtime.codegen.serde_lines import write_expression
from kstreamnb.runtime.context.task_context import TaskContext
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.topology.nodes import Sink


def topic_serdes(plan: TaskPlan, nodes: Iterable[str]) -> dict[str, tuple[Serde, Serde]]:
    """Return serdes by topic, if all sinks among ``nodes`` that write to it agree; other topics carry bytes only."""
    known: dict[str, tuple[Serde, Serde] | None] = {}
    for sink in [node for name in nodes if isinstance(node := plan.topology.nodes[name], Sink)]:
        if not isinstance(sink.topic, str):
            return {}
        serdes, topic = plan.serdes(sink), plan.topic(sink.topic)
        known[topic] = serdes if known.get(topic, serdes) == serdes else None
    return {topic: serdes for topic, serdes in known.items() if serdes is not None}


def sink_serdes(plan: TaskPlan, topic: str) -> tuple[Serde, Serde] | None:
    """Return the serdes of the sinks that name a topic, or else of those that choose topics; None if they differ."""
    pairs = all_serdes(plan, topic)
    return pairs[0] if pairs and pairs.count(pairs[0]) == len(pairs) else None


def all_serdes(plan: TaskPlan, topic: str) -> list[tuple[Serde, Serde]]:
    """Return the serdes of each sink that names a topic, or else of each that chooses topics."""
    sinks = plan.topology.sinks()
    writers = [sink for sink in sinks if isinstance(sink.topic, str) and plan.topic(sink.topic) == topic]
    if not writers and topic != plan.config.dead_letter_topic and not topic.endswith("-changelog"):
        writers = [sink for sink in sinks if not isinstance(sink.topic, str)]
    return [plan.serdes(sink) for sink in writers]


def is_plain_sink(sink: Sink, context: TaskContext) -> bool:
    """Return whether the sink always writes to one topic, with serdes that its readers know; by key if recorded."""
    if not isinstance(sink.topic, str) or RecordLimits.configured(context.plan.config):
        return False
    by_key = sink.partitioner in (None, by_inner_key) or context.recorder is None
    return by_key and context.plan.topic(sink.topic) in context.topic_serdes


def add_sink(builder: FunctionBuilder, sink: Sink, context: TaskContext) -> None:
    """Append the work of a plain sink to a function."""
    plan, (key_serde, value_serde) = context.plan, context.plan.serdes(sink)
    if sink.partitioner is not None:
        builder.own_value(sink.name)
    key = write_expression(builder, sink.name, key_serde, "key", in_process=False)
    value = write_expression(builder, sink.name, value_serde, "value", in_process=_copies(sink, context))
    append = builder.name(context.out.append, "produce")
    topic, partition, each, names = plan.topic(str(sink.topic)), "0", "", "key, value"
    by_inner = sink.partitioner is by_inner_key
    if by_inner:
        refuse = builder.name(by_inner_key, "refuse")
        builder.add(sink.name, f"if key is None: {refuse}({topic!r}, key)")
    elif sink.partitioner is not None:
        choose = builder.name(_partitions(sink, context, key_serde), "choose")
        chosen = f"{choose}({topic!r}, key, value)"
        if sink.partitioner is by_home:
            chosen = f"(value[2],) if 0 <= value[2] < {plan.count(topic)} else {chosen}"
        each = f"for partition in {chosen}: "
        partition, names = "partition", "wire_key, wire_value"
    used_again = each or context.recorder is not None or plan.count(topic) > 1  # otherwise the row is the only use
    if used_again and (key, value) != ("key", "value"):
        builder.add(sink.name, f"{names} = {key}, {value}")
        key, value = names.split(", ")
    if plan.count(topic) > 1 and not each:
        partition = "partition"
        if builder.facts.key_serde != key_serde or builder.facts.counted != plan.count(topic) or by_inner:
            partition_of = key_partitioner(key_serde, plan.count(topic), by_inner)
            known, of_other = builder.name(ByText(partition_of), "known"), builder.name(partition_of, "partition_of")
            builder.add(sink.name, f"partition = {known}[key] if type(key) is str else {of_other}(key)")
        else:
            builder.add(sink.name, "if is_new: partition = find(-1, key)")
    if context.recorder is not None:
        add_produced(builder, context.recorder, plan.task_id, sink.name, topic, partition)
    builder.add(sink.name, f"{each}{append}(({topic!r}, {partition}, timestamp, {key}, {value}, headers))")


def bind_sink(sink: Sink, context: TaskContext) -> Process:
    """Return the function of a sink of any kind."""
    plan = context.plan
    key_serde, value_serde = plan.serdes(sink)
    append, choose = context.out.append, _partitions(sink, context, key_serde)
    fixed = plan.topic(sink.topic) if isinstance(sink.topic, str) else None
    if fixed in context.topic_serdes:
        write_key, write_value = encoder(key_serde), (copier if _copies(sink, context) else encoder)(value_serde)
    else:
        write_key, write_value = _bytes_of(key_serde), _bytes_of(value_serde)
    name_topic: Any = sink.topic
    limited = RecordLimits.configured(plan.config)
    if limited and fixed is not None:
        RecordLimits.of(plan.config, fixed)  # refuses limits that are not numbers before the first record
    check_of = cache(lambda topic: RecordLimits.of(plan.config, topic).checker(context.clock))

    def write(key: object, value: object, timestamp: int, headers: Headers) -> None:
        topic = fixed or name_topic(key, value, OutputMetadata(context.metadata(), timestamp, headers))
        if not isinstance(topic, str):
            raise EngineError(f'sink "{sink.name}" chose {topic!r} instead of a topic')
        wire_key, wire_value = write_key(key), write_value(value)
        if limited:
            check_of(topic)(topic, timestamp, to_bytes(key_serde, wire_key), to_bytes(value_serde, wire_value), headers)
        for partition in choose(topic, key, value):
            append((topic, partition, timestamp, wire_key, wire_value, headers))

    return write


def _copies(sink: Sink, context: TaskContext) -> bool:
    """Return whether copies may leave instead of bytes: recordings hold those of dicts, but bytes of other values."""
    inside = context.in_process or (context.in_query and sink.topic in context.plan.topology.internal_topics)
    return inside and (context.recorder is None or isinstance(context.plan.serdes(sink)[1], JsonSerde))


def _bytes_of(serde: Serde) -> Callable[[Any], Any]:
    return lambda value: encoded(serde.serialize(value))


def _partitions(sink: Sink, context: TaskContext, key_serde: Serde) -> Callable[[str, Any, Any], Iterable[int]]:
    """Return ``choose(topic, key, value)``: the partitions of a record, none if it is to be dropped."""
    encode, count, partitioner = encoder(key_serde), cache(context.plan.count), sink.partitioner
    partition_of = cache(lambda topic: key_partitioner(key_serde, count(topic), partitioner is by_inner_key))
    ask: Any = getattr(partitioner, "partitions", partitioner)

    def default(topic: str, key: object, value: object) -> Iterable[int]:
        return (partition_of(topic)(encode(key)),)

    def choose(topic: str, key: object, value: object) -> Iterable[int]:
        chosen = ask(topic, key, value, count(topic))
        if chosen is None:
            return default(topic, key, value)
        partitions = (chosen,) if isinstance(chosen, int) else tuple(sorted(set(chosen)))
        for partition in partitions:
            if not 0 <= partition < count(topic):
                fact = f'the partitioner of sink "{sink.name}" chose partition {partition}'
                raise EngineError(fact, detail=f'topic "{topic}" has {count(topic)} partitions')
        if not partitions:
            context.drop(sink.name, "partitioner", key, value, context.record_context.record()[1])
        return partitions

    return default if partitioner is None else choose
