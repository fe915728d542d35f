"""Real changelog topics: what changed in the stores of a batch, as Kafka Streams would have written it.

The kit itself never reads them: its state lies in the checkpoint. They are for others who want the tables as compacted
topics. A batch brings the last value of each key that it changed; of a versioned store that is the latest version, and
older ones stay in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kstreamnb.kafka.output_batch import OutputRecord
from kstreamnb.spark.contracts import QueryBatch
from kstreamnb.spark.execution.state_codec import unpack_delta
from kstreamnb.spark.execution.worker_cache import empty_task
from kstreamnb.spark.planning.deployment import Deployment, TaskPlacement
from kstreamnb.state.versioned import LATEST_ROW, VersionedRows
from kstreamnb.topology.partitions import OwnedTopic, owned_topics

__all__ = ["Changelogs"]


class Changelogs:
    """Makes changelog records of a deployment's state changes.

    Attributes:
        topics: the topics that must exist, with their settings.
    """

    def __init__(self, deployment: Deployment) -> None:
        application = deployment.application
        owned = owned_topics(application.topology, application.id, application.partitions)
        self.topics: tuple[OwnedTopic, ...] = tuple(topic for topic in owned if topic.kind == "changelog")
        self._names = {topic.store: topic.name for topic in self.topics}
        self._first = len(deployment.input_ranks)
        self._deployment = deployment
        self._stores: dict[int, dict[str, Any]] = {}

    def records(self, batch: QueryBatch) -> Iterator[OutputRecord]:
        """The records of one batch."""
        for source, _, delta in batch.output.deltas:
            number = source - self._first
            if number < len(self._deployment.tasks):  # not a copy of global tables: their topics are their logs
                yield from self._of_task(self._deployment.tasks[number], delta, batch.clock_ms)

    def _of_task(self, placed: TaskPlacement, delta: bytes, clock_ms: int) -> Iterator[OutputRecord]:
        if placed.number not in self._stores:
            self._stores[placed.number] = dict(empty_task(self._deployment, placed).stores)
        stores = self._stores[placed.number]
        for full, rows in sorted(unpack_delta(delta, trust=True).rows.items()):
            member, _, name = full.rpartition("/")
            topic, store = self._names.get(name), stores[full]
            if topic is None:
                continue
            partition = int(member.rpartition("_")[2]) if member else placed.plan.partition
            for raw_key, row, timestamp in _logged(store, rows):
                key, value = store.changelog_entry(raw_key, row)
                yield topic, partition, clock_ms if timestamp is None else timestamp, key, value, ()


def _logged(store: Any, rows: dict[Any, Any]) -> Iterator[tuple[Any, Any, int | None]]:
    """Raw key, row and timestamp, where the row has one, of what goes into a changelog.

    What a store keeps under None, how far it has seen time, follows from its records.
    """
    for raw_key, row in rows.items():
        if raw_key is None:
            continue
        if isinstance(store, VersionedRows):
            if raw_key[1] == LATEST_ROW:
                yield raw_key[0], *(row or (None, None))
        else:
            yield raw_key, row, row[1] if row is not None and getattr(store, "timestamped", False) else None
