"""Checks whether the state that an application has in Kafka fits a topology; `adopt` reports what they find."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from kstreamnb.core.formatting import format_value, join_list
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.spark.planning.deployment import ApplicationPlan
from kstreamnb.spark.state.store_view import StoreView
from kstreamnb.state.versioned import VersionedRows
from kstreamnb.topology.partitions import OwnedTopic

POLICY, RETENTION = "cleanup.policy", "retention.ms"
_COMPACTION_LAG = "min.compaction.lag.ms"  # of versioned stores
SETTINGS = {POLICY, RETENTION, _COMPACTION_LAG}
_LOG, _INNER = "-changelog", ("-repartition", "-topic")
_LOOKED_AT = 100
_LETTERS = range(32, 127)


def missing_offsets(application: ApplicationPlan, committed: Offsets, first: Offsets, last: Offsets) -> Iterator[str]:
    """Yield input partitions that have records, but no committed offset."""
    for topic in application.external:
        if topic not in committed:
            yield f'group "{application.id}" has no offsets of topic "{topic}": it starts as in a new deployment'
            continue
        parts = [p for p, end in last[topic].items() if p not in committed[topic] and end > first[topic][p]]
        if parts:
            names = join_list(map(str, parts))
            yield f'topic "{topic}": no offset is committed for partition {names}, which is read from its start'


def foreign_topics(application: ApplicationPlan, known: Iterable[str], existing: Iterable[str]) -> Iterator[str]:
    """Yield changelogs under the application's id that belong to no store; ``known`` are those that do."""
    used = {*known}
    for topic in existing:
        if topic.startswith(f"{application.id}-") and topic.endswith(_LOG) and topic not in used:
            yield f'topic "{topic}" belongs to no store of this topology'


def unread_topics(application: ApplicationPlan, committed: Offsets, existing: Iterable[str]) -> list[str]:
    """Return the topics that the application has read, but this topology does not."""
    known = {*application.inputs, *application.internal_topics}
    return sorted(topic for topic in committed if topic not in known and topic in {*existing})


def is_repartition(application: ApplicationPlan, topic: str) -> bool:
    """Return whether a topic has the name of a repartition topic of the application."""
    return topic.startswith(f"{application.id}-") and topic.endswith(_INNER)


def other_partitions(expected: Mapping[str, int], existing: Mapping[str, int]) -> Iterator[str]:
    """Yield topics that have another number of partitions than their tasks."""
    for topic, count in sorted(expected.items()):
        if topic in existing and existing[topic] != count:
            yield f'topic "{topic}" has {existing[topic]} partitions, and the topology needs {count}'


def other_policy(topic: OwnedTopic, settings: Mapping[str, str]) -> Iterator[str]:
    """Yield the cleanup policy of a changelog if it is that of another kind of store."""
    wanted, policy = dict(topic.config)[POLICY], settings.get(POLICY, "")
    if {*policy.split(",")} != {*wanted.split(",")}:
        yield (
            f'store "{topic.store}": topic "{topic.name}" has {POLICY} {policy}, expected {wanted}: '
            "windows and sessions have compact,delete, windows with duplicates, such as those of joins, have delete, "
            "and other stores have compact"
        )


def other_settings(topic: OwnedTopic, settings: Mapping[str, str]) -> Iterator[str]:
    """Yield settings of a changelog that follow from sizes, graces and retentions, and differ."""
    for name, wanted in {_COMPACTION_LAG: "0", **dict(topic.config)}.items():
        if name != POLICY and (value := settings.get(name, wanted)) != wanted:
            yield (
                f'store "{topic.store}": topic "{topic.name}" has {name} {value}, expected {wanted}: '
                "compare kind, size, grace and retention of the store"
            )


def other_keys(kind: str, keys: Iterable[bytes]) -> Iterator[str]:
    """Yield how keys differ from those of stores of a kind: windows end with 12 bytes, sessions with end and start."""
    size = 16 if kind == "session" else 12 if "window" in kind else 0
    for key in keys:
        if len(key) < size:
            yield f"expected keys of a {kind} store, with {size} bytes of time at their end, got {len(key)} bytes"
        elif kind == "session" and key[-16:-8] < key[-8:]:
            yield "expected keys of a session store, with end and start, got an end before its start"


def readable_stores(application: ApplicationPlan) -> set[str]:
    """Return the stores that have views; the buffers of operators have none."""
    return {name for name, store in application.topology.stores.items() if store.kind != "internal"}


def first_rows(name: str, stores: Iterable[Any]) -> Iterator[tuple[object, object]]:
    """Decode some rows of every partition; a versioned store lists no keys, but has the history of each."""
    for store in stores:
        if isinstance(store, VersionedRows):
            for raw_key in islice(filter(None, store.raw), _LOOKED_AT):
                key = store.keys.decode(raw_key[0])
                yield from ((key, row.value) for row in store.history(key))
        else:
            yield from islice(StoreView(name, [store]), _LOOKED_AT)


def doubts(name: str, rows: Iterable[tuple[object, object]]) -> Iterator[str]:
    """Yield keys and values that can be read, but look as if another serde had written them."""
    remarks: dict[str, str] = {}
    for row in rows:
        for side, item in zip(("key", "value"), row, strict=True):
            plain = getattr(item, side, item)  # of a windowed key, and of a value with its timestamp
            kind = _other_kind(plain)
            if kind is not None:
                remark = f'store "{name}": {side} {format_value(plain)} looks like {kind}: compare serdes'
                remarks.setdefault(side, remark)
    yield from remarks.values()


def _other_kind(value: object) -> str | None:
    if isinstance(value, str) and any(letter < " " and not letter.isspace() for letter in value):
        return "a number that was read as text"
    if isinstance(value, float) and 0 < abs(value) < sys.float_info.min:
        return "an integer that was read as a fraction"
    if isinstance(value, int) and 0 < value < 1 << 63 and all(byte in _LETTERS for byte in value.to_bytes(8)):
        return "text that was read as an integer"
    return None
