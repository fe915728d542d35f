"""Snapshots of stores for changelogs that begin later than the stores, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kstreamnb.spark.execution.state_codec import unpack_delta
from kstreamnb.spark.execution.worker_cache import AnyTask, empty_task
from tests.java.feeds import input_records
from tests.java.topologies import build
from tests.spark.file_source import FileOffsetSource
from tests.spark.inprocess import Cluster
from tests.spark.streams import batched, placed

NAMES = (
    "count",
    "tumbling",
    "sessions",
    "suppress-windows",
    "stream-outer-join",
    "stream-left-join-in-memory",
    "versioned-join",
    "foreign-key-join",
    "processor",
)
TEXT = {"default_key_serde": "string", "default_value_serde": "string"}


def rows(store: Any) -> dict[Any, Any]:
    """Return a store's rows without its clock, which follows from the rows after a restore."""
    return {key: row for key, row in store.raw.items() if key is not None}


@pytest.mark.parametrize("name", NAMES)
def test_a_store_is_restored_from_its_snapshot(tmp_path: Path, name: str) -> None:
    """S0-22: for every kind of store, the written records restore the same rows."""
    deployment = placed(build(name, "p"), 3, application_id="p", **TEXT)
    cluster = Cluster.of(deployment, f"snapshot-{name}")
    cluster.forget()
    records = [(each.topic, each.key, each.value, each.timestamp) for each in input_records(name, "p")]
    feed = FileOffsetSource.write(tmp_path / "feed.pickle", batched(deployment, records, 3))
    assert len(list(cluster.batches(feed))) == 3
    deltas, seen = cluster.deltas(), 0
    for task in cluster.deployment.tasks:
        kept: AnyTask = empty_task(cluster.deployment, task)
        for delta in deltas.get(task.name, ()):
            kept.apply_delta(unpack_delta(delta, trust=True))
        again = empty_task(cluster.deployment, task)
        for full, store in kept.stores.items():
            entries = []
            for raw_key, row, timestamp, headers in store.changelog_snapshot(0):
                key, value = store.changelog_entry(raw_key, row)
                entries.append((key, value, timestamp, headers))
            again.stores[full].restore_changelog(entries)
            assert rows(again.stores[full]) == rows(store)
            seen += len(entries)
    assert seen > 5
