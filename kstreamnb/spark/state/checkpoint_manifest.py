"""The manifest of a checkpoint, and the check whether another topology can continue from it.

The file ``kstreamnb.json`` beside Spark's holds the query's identity, the group value of every task, the number of
Spark partitions, and the shape of the state. It is compared before anything is changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from kstreamnb.core.formatting import pluralize
from kstreamnb.core.serdes import WindowedSerde
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import format_duration
from kstreamnb.errors import CheckpointError, StorageError
from kstreamnb.kafka.storage.checkpoint_files import CLAIM_FILE, MANIFEST, CheckpointFiles
from kstreamnb.runtime.context.task_context import header_use
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.state.checkpoint_reader import offsets_entry
from kstreamnb.topology.nodes import Sink, Source

_NUMBER = re.compile(r"\d{10}")  # of a name that was generated
_SHIFTED = "a node before it shifted its number; name the operator before the first deployment; "
_OLDEST_FORMAT = 3
_FORMAT = 6  # earlier versions would keep rows whose expiry is not in the state log
_SHORTER = "an earlier version of kstreamnb chose the partitions of its windowed keys by the key without its window"


@dataclass(frozen=True)
class Manifest:
    """The manifest of a checkpoint.

    ``state`` describes, by sub-topology with state, its stores, the processors that keep cells, and its tasks;
    ``levels`` says of each level whether it has state and reads global tables; ``topic_ids`` are those of the inputs.
    ``changelogs``: the changelog topics have the whole state. ``slots``: executors publish the output in that many.
    ``split``: the foreign-key joins whose sides run in separate tasks. ``windowed``: the repartition topics
    whose partitions the whole windowed key chooses; none in manifests of versions that used the key without its window.
    """

    query: str
    application: str
    spark_partitions: int
    levels: list[list[bool]]
    state: dict[str, Any]
    inputs: dict[str, int]
    groups: dict[str, int] = field(repr=False, default_factory=dict)
    topology: str = field(repr=False, default="")
    format: int = _FORMAT
    global_topics: list[str] = field(default_factory=list)
    topic_ids: dict[str, str] = field(repr=False, default_factory=dict)
    changelogs: bool = False
    slots: int = 0
    split: list[str] = field(default_factory=list)
    windowed: list[str] = field(default_factory=list)


def manifest_of(deployment: Deployment) -> Manifest:
    """Return the manifest of a deployment."""
    first, state = deployment.application, _state(deployment)
    return Manifest(
        deployment.name,
        first.id,
        deployment.spark_partitions,
        [[level.stateful, level.uses_global] for level in deployment.levels],
        state,
        {topic: first.partitions.get(topic, 1) for topic in first.inputs},
        deployment.routing_keys(),
        first.topology.describe(),
        global_topics=list(first.global_topics),
        changelogs=deployment.options.changelogs,
        slots=deployment.options.slots,
        split=first.split,
        windowed=_windowed(deployment.tasks[0].plans[0], state),
    )


def read_manifest(checkpoint: CheckpointFiles) -> Manifest | None:
    """Return the manifest of a checkpoint; None if no checkpoint exists yet.

    Fields that a later version has added are ignored: it raises the format if an older one must not ignore them.

    Raises:
        CheckpointError: the checkpoint is damaged, another program's, or of a later format.
    """
    text = checkpoint.read(MANIFEST)
    if text is None:
        _refuse_remains(checkpoint)
        return None
    try:
        content = json.loads(text)
        version = content["format"]
    except (ValueError, LookupError, TypeError) as error:
        raise damaged_file(checkpoint, MANIFEST, error) from error
    if version not in range(_OLDEST_FORMAT, _FORMAT + 1):
        reads = f"this version reads formats {_OLDEST_FORMAT} to {_FORMAT}"
        hint = "deploy with the version of kstreamnb that wrote it, or with a later one"
        raise CheckpointError(f'checkpoint "{checkpoint}" has format {version}, but {reads}', hint=hint)
    known = {each.name for each in fields(Manifest)}
    try:
        return Manifest(**{**{name: value for name, value in content.items() if name in known}, "format": _FORMAT})
    except TypeError as error:  # a field is missing
        raise damaged_file(checkpoint, MANIFEST, error) from error


def require_manifest(checkpoint: CheckpointFiles) -> Manifest:
    """Return the manifest of a checkpoint; raises CheckpointError also if no checkpoint exists."""
    manifest = read_manifest(checkpoint)
    if manifest is None:
        raise CheckpointError(f'folder "{checkpoint}" is not a checkpoint')
    return manifest


def _refuse_remains(checkpoint: CheckpointFiles) -> None:
    """Raise CheckpointError if a folder without a manifest has files of a query."""
    if not any(checkpoint.exists(name) for name in ("offsets", "commits", "state")):
        return
    if _is_own(checkpoint):
        fact = f'checkpoint "{checkpoint}" is incomplete: it has no {MANIFEST}'
        detail = "it may have been removed while its query was running, which then wrote files of the next batch"
        hint = "restore the folder from a copy; or delete it and reset the application to start again"
        raise CheckpointError(fact, detail=detail, hint=hint)
    fact = f'folder "{checkpoint}" is a checkpoint of another program'
    detail = f"it has files of a Spark query but no {MANIFEST}"
    raise CheckpointError(fact, detail=detail, hint="choose an empty folder")


def _is_own(checkpoint: CheckpointFiles) -> bool:
    """Return whether Spark's files belong to a query of this package: its offsets have a clock."""
    entries = (offsets_entry(checkpoint, number) for number in checkpoint.numbers("offsets"))
    return any({"clock", "tick", "offsets"} <= entry.keys() for entry in entries)


def damaged_file(checkpoint: CheckpointFiles, file: str, error: Exception) -> CheckpointError:
    """Return the error about a file of a checkpoint whose content cannot be read."""
    fact = f'file "{file}" of checkpoint "{checkpoint}" is damaged'
    detail = f"{type(error).__name__}: {error}"
    return CheckpointError(fact, detail=detail, hint="restore the checkpoint from a copy, or reset the application")


def write_manifest(checkpoint: CheckpointFiles, manifest: Manifest, *, new: bool = False) -> None:
    """Write the manifest, with ``new`` the first one.

    Raises:
        CheckpointError: another start has written the first one; each has its own identity.
        StorageError: nothing can be written there.
    """
    try:
        checkpoint.write(MANIFEST, json.dumps(asdict(manifest), indent=1).encode(), new=new)
    except StorageError:
        if not new or not checkpoint.exists(MANIFEST):
            raise
        fact = f'another start has begun checkpoint "{checkpoint}" meanwhile'
        raise CheckpointError(fact, hint="deploy again to take over from it") from None


def withdraw_manifest(checkpoint: CheckpointFiles) -> None:
    """Remove the traces of a refused first start, so that the folder belongs to no application."""
    for name in (MANIFEST, CLAIM_FILE):
        checkpoint.delete(name)


def checkpoint_missing(checkpoint: CheckpointFiles, application: str) -> CheckpointError:
    """Return the error of a query whose checkpoint folder does not exist any more."""
    detail = "it was deleted, moved or replaced since the query started; no batch is published without it"
    hint = "deploy from where it is now, or put it back where it was, or reset the application"
    return CheckpointError(f'checkpoint "{checkpoint}" of "{application}" no longer exists', detail=detail, hint=hint)


def other_partitions(checkpoint: CheckpointFiles, begun: int | None, expected: int) -> CheckpointError:
    """Return the error of state for another number of Spark partitions than its manifest or query has."""
    fact = f'checkpoint "{checkpoint}" has state for {begun} Spark partitions, not {expected}'
    hint = f'call ks.spark.rescale("{checkpoint}", {begun}), which finishes it; then deploy again'
    return CheckpointError(fact, detail="it was rescaled since, or a rescale was interrupted", hint=hint)


def check_compatible(old: Manifest, new: Manifest) -> None:
    """Raise CheckpointError that lists every difference if a new deployment cannot use the state of an old one.

    Stores, users' processors and sub-topologies may be new: see `starts_empty`.
    """
    differences = [*_settings(old, new), *_differences(old, new)]
    if differences:
        fact = f'the checkpoint of "{old.application}" does not fit this topology'
        given = "pass the topology, application_id= and config="
        if any(_SHORTER in difference for difference in differences):
            given = "continue with the version of kstreamnb"
        hint = f"{given} that wrote it, or deploy with a new checkpoint"
        hint = f"{_SHIFTED if _is_shifted(old.state, new.state) else ''}{hint} and a new application id"
        raise CheckpointError(fact, detail="; ".join(differences), hint=hint)


def starts_empty(old: Manifest, new: Manifest) -> list[str]:
    """Return the stores and users' processors of a new deployment for which an old one has no state."""
    return [
        f'{kind[:-1]} "{name}"'
        for kind in ("stores", "processors")
        for group, after in new.state.items()
        for name in sorted(after[kind].keys() - old.state.get(group, {kind: {}})[kind].keys())
    ]


def _is_shifted(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether names of stores and processors that are gone have come back with other generated numbers."""
    before, after = (
        {(kind, name) for group in state.values() for kind in ("stores", "processors") for name in group[kind]}
        for state in (old, new)
    )
    pairs = before - after, after - before
    gone, added = (sorted((kind, _NUMBER.sub("", name)) for kind, name in names) for names in pairs)
    return bool(gone) and gone == added


def _settings(old: Manifest, new: Manifest) -> Iterator[str]:
    if old.application != new.application:
        yield f'it belongs to application "{old.application}", not "{new.application}"'
    if old.spark_partitions != new.spark_partitions:
        yield f"it has {old.spark_partitions} Spark partitions, not {new.spark_partitions}"
    if old.slots and not new.slots:
        yield 'executors publish its output, and the last batch may be published in part: publish="executors"'
    if old.levels != new.levels:
        yield f"it has {_levels_text(old)}, not {_levels_text(new)}, and Spark adds no state to a level later"
        for group in sorted(new.state.keys() - old.state.keys()):
            yield f"sub-topology {group} {'gained state' if _has(old, group) else 'is new'}"
    before, after = _circles(old), _circles(new)
    for circle in sorted(before ^ after):
        if any(group in old.state for group in circle):
            was, now = ("as one", "apart") if circle in before else ("apart", "as one")
            yield f"the tasks of sub-topologies {' and '.join(circle)} ran {was} and run {now} now"
    for topic in sorted(old.inputs.keys() & new.inputs.keys()):
        if old.inputs[topic] != new.inputs[topic] and new.state:
            yield (
                f'topic "{topic}" had {pluralize(old.inputs[topic], "partition")} and has {new.inputs[topic]} now: '
                "records would not reach the state of their keys (copy it into a new topic, with a new checkpoint)"
            )

    for topic in new.windowed:
        if topic not in old.windowed and f"(topic: {topic})" in old.topology:
            yield f'topic "{topic}": {_SHORTER}, so records would not reach the state of their keys'


def _circles(manifest: Manifest) -> set[tuple[str, ...]]:
    """Return the ids of the sub-topologies that feed each other, so that all their tasks are one."""
    names = (name.partition("/circle ")[2] for name in manifest.groups)
    return {tuple(ids.split("+")) for ids in names if ids}


def _levels_text(manifest: Manifest) -> str:
    kinds = [
        ("stateful" if stateful else "stateless") + (" with global tables" if tables else "")
        for stateful, tables in manifest.levels
    ]
    return f"{pluralize(len(kinds), 'level')} ({', '.join(kinds)})"


def _differences(old: Manifest, new: Manifest) -> Iterator[str]:
    """Yield the differences between sub-topologies with state."""
    for group in sorted(old.state):
        if group not in new.state:
            lost = "keeps none now" if _has(new, group) else "is gone"
            yield f"sub-topology {group} kept state and {lost}"
        else:
            before, after = old.state[group], new.state[group]
            if before["tasks"] != after["tasks"]:
                yield f"sub-topology {group} had {before['tasks']} tasks and has {after['tasks']}"
            for kind in ("stores", "processors"):
                yield from _changed(group, kind[:-1], before[kind], after[kind])


def _has(manifest: Manifest, group: str) -> bool:
    """Return whether a sub-topology exists, with or without state."""
    return f"Sub-topology: {group}\n" in manifest.topology or f"Sub-topology: {group} " in manifest.topology


def _changed(group: str, kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    changes = [
        f'buffer "{name}" of sub-topology {group} is gone: records that wait in its suppression or join would be lost'
        if before[name].get("kind") == "internal"
        else f'{kind} "{name}" of sub-topology {group} is gone'
        for name in sorted(before.keys() - after.keys())
    ]
    for name in sorted(before.keys() & after.keys()):
        if "headers" in after[name]:  # rows that were written without headers can be read
            before = {**before, name: {"headers": after[name]["headers"], **before[name]}}
        if before[name] != after[name]:
            settings = sorted({*before[name], *after[name]})
            differing = [setting for setting in settings if before[name].get(setting) != after[name].get(setting)]
            parts = [f"{each} {_words(each, before[name])} → {_words(each, after[name])}" for each in differing]
            changes.append(f'{kind} "{name}" of sub-topology {group} changed: {", ".join(parts)}')
    return changes


def _words(setting: str, shape: Mapping[str, Any]) -> object:
    value = shape.get(setting)
    return "none" if value is None else format_duration(value) if setting == "window" else value


def _state(deployment: Deployment) -> dict[str, Any]:
    topology = deployment.application.running
    by_group: dict[str, Any] = {}
    for task in deployment.tasks:
        for plan in task.plans if task.stateful else ():
            known = by_group.setdefault(str(plan.subtopologies[0]), {"tasks": 0, "stores": {}, "processors": {}})
            known["tasks"] += 1
            if known["tasks"] > 1:
                continue
            nodes = [topology.nodes[name] for name in plan.nodes]
            names = {store for node in nodes for store in node.stores if store in topology.stores}
            known["stores"] = {name: _shape(topology.stores[name], plan) for name in sorted(names)}
            own = [node for node in nodes if node.traits.user_code]
            known["processors"] = {node.name: {} for node in own}
    return by_group


def _windowed(plan: TaskPlan, state: Mapping[str, Any]) -> list[str]:
    """Return the topics with windowed keys that tasks with state read from other tasks."""
    nodes, groups = plan.topology.nodes, plan.topology.subtopologies()
    readers = [nodes[name] for group in groups if str(group.id) in state for name in group.nodes]
    read = {topic for node in readers if isinstance(node, Source) for topic in node.topics}
    sinks = [node for node in nodes.values() if isinstance(node, Sink) and node.topic in read and not node.partitioner]
    topics = {str(node.topic) for node in sinks if isinstance(plan.serdes(node)[0], WindowedSerde)}
    return sorted(topic for topic in topics if plan.count(plan.topic(topic)) > 1)


def _shape(spec: StoreSpec, plan: TaskPlan) -> dict[str, Any]:
    """Return the properties that determine a store's rows; a retention may change."""
    headers = header_use(spec, plan.config)
    return {
        "kind": spec.kind,
        "key": plan.key_serde(spec.key_serde).name,
        "value": plan.value_serde(spec.value_serde).name,
        "window": spec.window_size_ms,
        "duplicates": spec.retain_duplicates,
        **({"headers": headers} if headers == "kept" else {}),
    }
