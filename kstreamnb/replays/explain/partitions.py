"""Explains which partition a key belongs to, and why a topology is split into sub-topologies."""

from __future__ import annotations

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.codec import by_inner_key, murmur2
from kstreamnb.core.formatting import format_value, join_list, pluralize
from kstreamnb.core.record import unwindowed
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import WindowedSerde
from kstreamnb.errors import EngineError
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.trace import shown
from kstreamnb.replays.analysis.node_flow import sinks_of
from kstreamnb.replays.explain.explanation import Explanation, Explanations, described
from kstreamnb.replays.navigation import Navigation

_POSITIVE = 0x7FFFFFFF


def why_partition(self: Navigation, key: object, topic: str | None = None) -> Explanations:
    """Explain which partition a key belongs to.

    Args:
        key: the key, before it is serialized.
        topic: name of the topic. Default: all topics that the topology reads.

    Raises: EngineError if the topology does not read the topic.
    """
    check_arguments(why_partition, locals())
    run = self.run
    plan = next(iter(run.tasks.values())).plan
    sources = run.topology.sources()
    known = {plan.topic(name): source.key_serde for source in sources for name in source.topics}
    names = [name for name in known if topic in (None, name, run.short(name))]
    if not names:
        raise EngineError(f'no source reads topic "{topic}"', detail=f"the sources read {', '.join(known)}")
    return Explanations([_placed(run, key, name, plan.key_serde(known[name])) for name in names], "no topic is read")


def _placed(run: RecordedRun, key: object, topic: str, serde: Serde) -> Explanation:
    count = run.partitions.get(topic, 1)
    chosen_by = {name: getattr(run.topology.nodes[name], "partitioner", None) for name in sinks_of(run, topic)}
    part = key  # of the key, which chooses the partition
    if by_inner_key in chosen_by.values() and isinstance(serde, WindowedSerde):
        part, serde = unwindowed(key), serde.inner_serde
    data = serde.serialize(part)
    readers = [task_id for task_id, task in run.tasks.items() if task.plan.source_of(topic) is not None]
    if data is None:
        fact = f'a null key of "{topic}" goes to partition 0 here, and to any in Kafka'
        return Explanation(fact, numbers={"partition": 0})
    number = murmur2(data)
    partition = (number & _POSITIVE) % count
    task = next((task_id for task_id in readers if task_id.endswith(f"_{partition}")), None)
    custom = [name for name, chooser in chosen_by.items() if chooser not in (None, by_inner_key)]
    seen = _seen(run, key, topic)
    because = [f'serde "{serde}" writes {pluralize(len(data), "byte")}: {data.hex()}']
    because += [f"task {task} takes it"] if task else []
    because += [f"{described(run, name)} has a custom partitioner, which may choose another" for name in custom]
    if seen:
        odd = "" if seen == [partition] else f"; Kafka's partitioner would choose {partition}"
        because.append(f"in this run its records were in partition {join_list(map(str, seen))}{odd}")
    belongs = "belongs in" if custom else "goes to"
    return Explanation(
        f'key {format_value(key)} of "{topic}" {belongs} partition {partition}: murmur2 of its bytes is {number}, '
        f"without its sign {number & _POSITIVE}, and that modulo {count} is {partition}",
        tuple(because),
        {"murmur2": number, "partitions": count, "partition": partition, "seen": seen},
        task=task,
    )


def _seen(run: RecordedRun, key: object, topic: str) -> list[int]:
    """Return the partitions in which records of a key were consumed."""
    log = run.index.log
    read = [(code.other[1], at) for code, at in run.index.of_kind("consumed") if code.other[0] == topic]
    return sorted(number for number, positions in read if any(shown(log[at][3]) == key for at in positions))


def why_cut(self: Navigation, topic: str | None = None) -> Explanations:
    """Explain why the topology is split into sub-topologies.

    Args:
        topic: name of the repartition topic. Default: all of them.

    Raises: EngineError if the topology is not split at the topic.
    """
    check_arguments(why_cut, locals())
    topology = self.run.topology
    cuts = topology.description().cuts()
    if topic is not None and topic not in (known := [cut.topic for cut in cuts]):
        raise EngineError(f'no cut is at topic "{topic}"', detail=f"cut topics: {', '.join(known) or 'none'}")
    result = []
    for cut in cuts:
        if topic in (None, cut.topic):
            writers = [sink for sink in topology.sinks() if sink.topic == cut.topic]
            node, origin = (writers[0].name, writers[0].origin) if writers else (None, None)
            numbers = {"before": cut.before, "after": cut.after}
            answer = f"sub-topologies {cut.before} and {cut.after} are separate: {cut.why}"
            result.append(Explanation(answer, numbers=numbers, node=node, origin=origin))
    subs = [sub.id for sub in topology.subtopologies()]
    nothing = "it has no cuts" if len(subs) == 1 else f"sub-topologies {join_list(map(str, subs))} share nothing"
    return Explanations(result, nothing)
