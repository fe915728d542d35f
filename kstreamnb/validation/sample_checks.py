"""Checks that need sample records: misplaced keys, keys changed without repartitioning, and failing records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import attrgetter

from kstreamnb.core.codec import encoder, key_partitioner
from kstreamnb.core.formatting import format_value, join_list, pluralize
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serdes import WindowedSerde
from kstreamnb.core.windows import SessionWindows
from kstreamnb.errors import KStreamError
from kstreamnb.frame_cells import wrong_unit
from kstreamnb.recording.read_tracking import stores_to_watch
from kstreamnb.recording.steps import Drop
from kstreamnb.recording.trace import Recording
from kstreamnb.replays.explain.explanation import Explanation
from kstreamnb.replays.explain.joins import KEY_REMEDY, key_clash
from kstreamnb.replays.explain.schedules import CLOCK_REMEDY, never_fired
from kstreamnb.replays.replay import Replay, recorded
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.nodes import grouped, walk
from kstreamnb.topology.topology import Topology
from kstreamnb.validation.issue import Issue, Severity
from kstreamnb.validation.key_changes import key_change_findings

_NAMED = 3
_LEAST_LOOPS, _LOOPS = 10_000, 10
"""Records that may go round in a loop, for a sample and for each of its records."""
_FAILURES = ("processing error", "production error", "deserialization")


def check_sample(
    topology: Topology, config: Config, counts: Mapping[str, int], records: list[TopicRecord], *, runs: bool
) -> Iterator[Issue]:
    """Yield findings about a sample and, if it can run, about the fate of its records."""
    yield from _wrong_units(topology, records)
    yield from _mixed_keys(topology, records)
    yield from _misplaced(topology, config, counts, records)
    if not runs:
        return
    patient = replace(
        config, processing_handler="continue", production_handler="continue", deserialization_handler="continue"
    )
    known = [record for record in records if any(source.reads(record.topic) for source in topology.sources())]
    try:
        result = _ran(topology, patient, counts, known)
    except KStreamError as error:
        yield Issue("error", getattr(error, "node", "") or "run", error.message, error.hint or "", error.origin)
        return
    yield from _failures(topology, result)
    yield from _losses(topology, result, known)
    yield from _without_rows(topology, result)
    yield from _never_fired(topology, result)
    yield from key_change_findings(topology, result)


def _ran(topology: Topology, config: Config, counts: Mapping[str, int], records: list[TopicRecord]) -> Replay:
    """Replay records; raise EngineError if they go round in a loop that does not end."""
    recording = Recording(stores_to_watch(topology))
    driver = TopologyTestDriver(topology, config, partitions=counts, observe=recording)
    driver.tasks.most_rows = _LEAST_LOOPS + _LOOPS * len(records)
    return recorded(driver, recording, lambda: driver.pipe(records), {record.topic for record in records})


def _wrong_units(topology: Topology, records: list[TopicRecord]) -> Iterator[Issue]:
    """Find topics whose times all look like a unit other than milliseconds."""
    for topic in dict.fromkeys(record.topic for record in records):
        times = [record.timestamp for record in records if record.topic == topic]
        first, last = min(times), max(times)
        if not (wrong := wrong_unit(first, last)):
            continue
        fact = f"its times are {first} to {last}: {wrong.unit} instead of milliseconds?"
        origin = next((source.origin for source in topology.sources() if source.reads(topic)), None)
        yield Issue("warning", f'topic "{topic}"', fact, wrong.remedy, origin)


def _mixed_keys(topology: Topology, records: list[TopicRecord]) -> Iterator[Issue]:
    """Find joined topics with keys that read alike and are of different types, such as 1 and 1.0."""
    for group in topology.copartitioned:
        sources = [source for source in topology.sources() if source.name in group]
        topics = [topic for topic in dict.fromkeys(r.topic for r in records) if any(s.reads(topic) for s in sources)]
        first: dict[str, TopicRecord] = {}
        for record in records:
            if record.topic not in topics or record.key is None:
                continue
            whole = isinstance(record.key, float) and record.key.is_integer()
            other = first.setdefault(str(int(record.key) if whole else record.key), record)
            if clash := key_clash(record.key, [other.key]):
                origin = next(each.origin for each in sources if each.reads(record.topic))
                yield Issue("warning", f'topic "{record.topic}"', clash, KEY_REMEDY, origin)
                break


def _misplaced(
    topology: Topology, config: Config, counts: Mapping[str, int], records: list[TopicRecord]
) -> Iterator[Issue]:
    """Find keys outside the partition that Kafka's default partitioner chooses."""
    plan = TaskPlan(topology, (), config=config)
    joined = {name for group in topology.copartitioned for name in group if len(group) > 1}
    for source in topology.sources():
        serde = plan.key_serde(source.key_serde)
        encode = encoder(serde)
        for topic in dict.fromkeys(record.topic for record in records if source.reads(record.topic)):
            count = counts.get(topic, 1)
            partition_of = key_partitioner(serde, count)
            assigned = [record for record in records if record.topic == topic and record.partition >= 0]
            wrong: dict[str, str] = {}
            for record in assigned if count > 1 and not isinstance(serde, WindowedSerde) else ():
                if record.key is not None and (right := partition_of(encode(record.key))) != record.partition:
                    key = format_value(record.key)
                    wrong[key] = f"{key} is in {record.partition} and belongs to {right}"
            if wrong:
                keys = pluralize(len({format_value(record.key) for record in assigned}), "key")
                named = join_list(wrong.values(), most=_NAMED)
                fact = f"{len(wrong):,} of {keys} are not in the partition of their key: {named}"
                remedy = (
                    "it was written with another partitioner, or is not partitioned by its key: "
                    "call repartition() before joining or grouping it"
                )
                severity: Severity = "error" if source.name in joined else "warning"
                yield Issue(severity, f'topic "{topic}"', fact, remedy, source.origin)


def _failures(topology: Topology, result: Replay) -> Iterator[Issue]:
    """Report records on which a function, a serde or a sink failed, by node."""
    failed = (drop for drop in result.drops if drop.reason in _FAILURES)
    for (name, reason), drops in grouped(failed, attrgetter("node", "reason")).items():
        first, records = drops[0], pluralize(len(drops), "record")
        if reason == "deserialization":
            fact = f"{records} cannot be read by its serdes"
            remedy = "check the serdes of the topic"
        elif reason == "production error":
            fact = f"{records} cannot be written, the first with value {format_value(first.value)}"
            remedy = "give the sink a serde for such values, or convert them with map_values()"
        else:
            kind = first.details.get("error", "an error")
            fact = f"it failed on {records} with {kind}, first on value {format_value(first.value)}"
            remedy = _null_hint(topology, name, first)
        yield Issue("error", f'"{name}"', fact, remedy, topology.nodes[name].origin)


def _null_hint(topology: Topology, name: str, drop: Drop) -> str:
    """Return the remedy for a failure: session merges and deletions send null values."""
    if drop.value is not None:
        return "make the function accept such values, or filter them out first"
    above = walk(topology.nodes[name].parents, lambda each: topology.nodes[each].parents)
    merges = any(isinstance(topology.nodes[each].traits.windows, SessionWindows) for each in above)
    why = "a table emits null for a deleted row"
    if merges:
        why = "a session merge emits null for the session that it replaces"
    return f"{why}; test value is not None first"


def _behind(drop: Explanation) -> int:
    """Return how late (ms) a record was."""
    numbers = drop.numbers
    return int(numbers.get("stream_time_ms", 0)) - int(numbers.get("window_end", numbers["timestamp_ms"]))


def _losses(topology: Topology, result: Replay, records: list[TopicRecord]) -> Iterator[Issue]:
    """Report dropped records, by the node or store that dropped them and by the reason."""
    groups = Counter((drop.node, drop.reason) for drop in result.drops if drop.reason not in _FAILURES)
    positions = {name: position for position, name in enumerate(topology.nodes)}
    for name, reason in sorted(groups, key=lambda group: positions.get(group[0], len(positions))):
        count = groups[name, reason]
        fact = f"{pluralize(count, 'record')} of {len(records):,} in the sample dropped: {reason}"
        if reason in ("null key", "null value"):
            remedy = "filter such records out, or give them a key and a value"
        else:
            answers = (each for each in result.why_dropped(node=name) if each.numbers["reason"] == reason)
            remedy = max(answers, key=_behind).remedy or ""
        if reason in ("late", "expired"):
            fact = f"{pluralize(count, 'record')} of the sample arrived too late"
            remedy = remedy if count == 1 else remedy.replace("kept it", "kept them all")
        users = (node.origin for node in topology.nodes.values() if node.name == name or name in node.stores)
        subject = f'"{name}"' if name in positions else f'store "{name}"'
        yield Issue("warning", subject, fact, remedy, next(users, None))


def _never_fired(topology: Topology, result: Replay) -> Iterator[Issue]:
    """Report schedules of the wall clock, which does not move while a sample runs."""
    for name, count in Counter(never_fired(result.run)).items():
        fact = f"{pluralize(count, 'wall-clock schedule')} never fired: the clock does not move while a sample runs"
        yield Issue("hint", f'"{name}"', fact, CLOCK_REMEDY, topology.nodes[name].origin)


def _without_rows(topology: Topology, result: Replay) -> Iterator[Issue]:
    """Report aggregators that returned only None, such as a function that mutates the aggregate and returns nothing."""
    writes = [write for step in result.steps for write in step.writes if write.key is not None]
    for node in topology.processors():
        rows = [(write.old, write.new) for write in writes if write.store in node.stores]
        if node.dsl == "aggregate" and rows and all(row == (None, None) for row in rows):
            records = pluralize(len(rows), "record")
            fact = f"its aggregator returned None for {records} of the sample, which keeps no row"
            remedy = "return the aggregate: append() and update() return None"
            yield Issue("warning", f'"{node.name}"', fact, remedy, node.origin)
