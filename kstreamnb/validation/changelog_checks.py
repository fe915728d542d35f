"""Checks whether changelog topics keep the records that a store needs for a restore."""

from __future__ import annotations

from collections.abc import Iterator

from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import format_duration
from kstreamnb.topology.topology import Topology
from kstreamnb.validation.issue import Issue

_WEEK_MS = 7 * 24 * 60 * 60 * 1000
_FOREVER = -1


def changelog_findings(topology: Topology) -> Iterator[Issue]:
    """Yield what the settings of changelog topics would lose when a store is restored from nothing."""
    for topic in topology.owned_topics("app"):
        if topic.store is not None:
            yield from _of_store(topology.stores[topic.store], dict(topic.config))


def _of_store(store: StoreSpec, config: dict[str, str]) -> Iterator[Issue]:
    subject, policy = f'changelog of store "{store.name}"', config["cleanup.policy"].replace(" ", "").split(",")
    kept_ms, asked = int(config.get("retention.ms", _FOREVER)), dict(store.log_config)
    if "delete" not in policy:
        if "retention.ms" in asked:
            fact = f"retention.ms={asked['retention.ms']} has no effect while its cleanup.policy is compact"
            yield Issue("hint", subject, fact, 'remove it, or use cleanup.policy="compact,delete"')
        return
    if store.retention_ms is None and "compact" not in policy:
        fact = "cleanup.policy=delete removes rows that have not changed recently, so a restored store lacks them"
        yield Issue("warning", subject, fact, 'use cleanup.policy="compact"')
    if kept_ms == _FOREVER:
        return
    if store.retention_ms is not None and kept_ms < store.retention_ms:
        fact = f"it keeps {format_duration(kept_ms)}, the store {format_duration(store.retention_ms)}"
        remedy = f"set retention.ms to at least {store.retention_ms}, or windows are missing after a restore"
        yield Issue("warning", subject, fact, remedy)
    elif "retention.ms" in asked and kept_ms < _WEEK_MS:
        fact = f"it keeps {format_duration(kept_ms)}: a failure that lasts longer loses rows"
        yield Issue("warning", subject, fact, "set retention.ms to at least a week (604800000)")
