"""Topics that an application owns: repartition topics and changelogs, with the settings that Kafka gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kstreamnb.core.stores import StoreSpec
from kstreamnb.topology.partitions import partition_counts, source_topics

if TYPE_CHECKING:  # a topology lists its topics through this module
    from kstreamnb.topology.topology import Topology


_DAY_MS = 86_400_000


@dataclass(frozen=True)
class OwnedTopic:
    """One topic of an application, under its full name.

    ``partitions`` is None while the counts of the user's topics are unknown; ``store`` names a changelog's store.
    """

    name: str
    kind: Literal["repartition", "changelog"]
    partitions: int | None
    config: tuple[tuple[str, str], ...]
    store: str | None = None


def repartition_topic(application_id: str, name: str) -> str:
    """Full name of a repartition topic."""
    return f"{application_id}-{name}"


def changelog_topic(application_id: str, store: StoreSpec) -> str:
    """Full name of a store's changelog: its own, or the topic that serves as its log."""
    return store.changelog_topic or f"{application_id}-{store.name}-changelog"


def owned_topics(
    topology: Topology, application_id: str, topics: Mapping[str, int] | None = None
) -> tuple[OwnedTopic, ...]:
    """Repartition topics, then changelogs, by sub-topology; ``topics`` are partition counts of the user's topics.

    A changelog has a partition for every task of its sub-topology.
    """
    counts = partition_counts(topology, topics) if topics is not None else {}
    owned: dict[str, OwnedTopic] = {}
    for name in topology.internal_topics:
        full = repartition_topic(application_id, name)
        owned[full] = OwnedTopic(full, "repartition", counts.get(name), _REPARTITION)
    for sub in topology.subtopologies():
        if sub.is_global:
            continue
        read = source_topics(topology, sub, counts)
        tasks = max((counts[topic] for topic in read if topic in counts), default=None)
        for store in (topology.stores[name] for name in sub.stores):
            if store.logged and store.changelog_topic is None:
                full = changelog_topic(application_id, store)
                owned[full] = OwnedTopic(full, "changelog", tasks, _changelog_config(store), store.name)
    return tuple(owned.values())


_CREATE_TIME = ("message.timestamp.type", "CreateTime")
_REPARTITION = (("cleanup.policy", "delete"), _CREATE_TIME, ("retention.ms", "-1"), ("segment.bytes", "52428800"))


def _changelog_config(store: StoreSpec) -> tuple[tuple[str, str], ...]:
    config = {"cleanup.policy": "compact", _CREATE_TIME[0]: _CREATE_TIME[1]}
    if store.kind in ("window", "timestamped_window", "session"):
        # Kafka adds windowstore.changelog.additional.retention.ms, a day, for clocks that disagree.
        config |= {"cleanup.policy": "compact,delete", "retention.ms": str((store.retention_ms or 0) + _DAY_MS)}
    elif store.kind == "versioned":
        config |= {"min.compaction.lag.ms": str((store.history_ms or 0) + _DAY_MS)}
    return tuple(sorted({**config, **dict(store.log_config)}.items()))
