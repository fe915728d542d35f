"""Finds processors that change keys upstream of a store without a repartition in between.

Kafka Streams repartitions after `process` only before an operator of the DSL that groups or joins. A processor with a
store gets the records unchanged: state of one key is then spread over the tasks that read its old keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from kstreamnb.core.codec import encoder, key_partitioner
from kstreamnb.core.formatting import format_value, join_list, pluralize
from kstreamnb.core.record import unwindowed
from kstreamnb.core.serde import Serde
from kstreamnb.errors import SerdeError
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.trace import shown
from kstreamnb.recording.trace_index import last_in_step
from kstreamnb.replays.analysis.node_flow import arrivals, sources_above
from kstreamnb.replays.replay import Replay
from kstreamnb.topology.nodes import ProcessorNode, walk
from kstreamnb.topology.topology import Topology
from kstreamnb.validation.issue import Issue

_NAMED = 3


@dataclass
class _KeyChanges:
    """The keys that a node forwarded in place of others, by new key; *misplaced* are those in another partition."""

    old_keys: dict[str, str] = field(default_factory=dict)
    misplaced: set[str] = field(default_factory=set)
    partitions: int = 1


def key_change_findings(topology: Topology, sample: Replay) -> Iterator[Issue]:
    """Report stores downstream of processors that changed keys of the sample."""
    for node in topology.processors():
        if not node.traits.user_code:
            continue
        changes = _changes_at(sample.run, node.name)
        for reader in _stateful_below(topology, node.name) if changes.old_keys else ():
            yield _issue(sample, node, reader, changes)


def _changes_at(run: RecordedRun, name: str) -> _KeyChanges:
    """Compare the keys that reached a node with those that it forwarded, record by record."""
    arrived = {arrival.position: arrival for arrival in arrivals(run, name)}
    positions, known = list(arrived), {(arrival.task, repr(arrival.key)) for arrival in arrived.values()}
    result, serdes, index = _KeyChanges(), _key_serdes(run, name), run.index
    for code, forwarded in index.of_kind("forwarded", node=name):
        count = len({task.plan.partition for task in run.tasks.values() if name in task.nodes})
        partition = run.tasks[code.task].plan.partition
        for position in forwarded:
            came, key = last_in_step(index, positions, position), shown(index.log[position][1])
            if came is None or key is None or key == arrived[came].key:  # without a record it is a punctuation
                continue
            right = _partition_of(key, serdes, count)
            # a processor may forward the key of an earlier record, which belongs to this task
            if right == partition if count > 1 else (code.task, repr(key)) in known:
                continue
            text = format_value(key)
            result.partitions = count
            result.old_keys.setdefault(text, format_value(arrived[came].key))
            if count > 1 and right is not None:
                result.misplaced.add(text)
    return result


def _key_serdes(run: RecordedRun, name: str) -> list[Serde]:
    """Return the serdes that may partition a node's keys: those of its sources, and the default."""
    plan = next(task.plan for task in run.tasks.values() if name in task.nodes)
    own = (source.key_serde for source in sources_above(run, [name]))
    return [plan.key_serde(serde) for serde in (*own, None)]


def _partition_of(key: object, serdes: list[Serde], count: int) -> int | None:
    """Return the partition of a key; None if no serde can write it."""
    for serde in serdes:
        with suppress(SerdeError):
            return key_partitioner(serde, count)(encoder(serde)(key))
    return None


def _stateful_below(topology: Topology, name: str) -> Iterator[ProcessorNode]:
    """Yield the nodes with stores that a node's records reach without a topic in between."""
    for child in walk(topology.children(name), topology.children):
        node = topology.nodes[child]
        if isinstance(node, ProcessorNode) and node.stores:
            yield node


def _issue(sample: Replay, node: ProcessorNode, reader: ProcessorNode, changes: _KeyChanges) -> Issue:
    stores = [name for name in reader.stores if name in sample.now.stores]
    examples = [f"{old} to {new}" for new, old in changes.old_keys.items()]
    fact = f'"{node.name}" changed {pluralize(len(examples), "key")} of the sample ({join_list(examples, most=_NAMED)})'
    kept = changes.misplaced & {format_value(unwindowed(row.key)) for name in stores for row in sample.now.store(name)}
    named = join_list(f'"{name}"' for name in stores)
    if kept:
        fact += f", and {len(kept):,} of them are in store {named} of a partition that is not theirs"
    else:
        fact += f": on several partitions store {named} of each task sees only part of a key's records"
    remedy = f'call .repartition() between "{node.name}" and "{reader.name}"'
    if node.dsl is None:
        remedy = f'write the records of "{node.name}" to a topic with add_sink(), and read it with add_source()'
    return Issue("error" if kept else "warning", f'"{reader.name}"', fact, remedy, node.origin)
