"""A query's metrics under the names of Kafka Streams, fed by what tasks report with each batch."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kstreamnb.kafka.cut import Offsets, ranges
from kstreamnb.spark.stream import Batch

__all__ = ["Metric", "MetricsBook"]

_WINDOW_S = 30.0


class Metric(NamedTuple):
    """One number: Kafka's group and name, its tags, and the value (ms for times, records and bytes for counts)."""

    group: str
    name: str
    tags: tuple[tuple[str, str], ...]
    value: float


@dataclass
class _TaskTotals:
    consumed: int = 0
    produced: int = 0
    state_bytes: int = 0
    stream_time_ms: int = -1
    seconds: float = 0.0
    dropped: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))


class MetricsBook:
    """Totals since the query started, and rates over the last half minute."""

    def __init__(self, application: str) -> None:
        self.application = application
        self.batches = 0
        self.published = 0
        self.suppressed = 0
        self.tasks: dict[str, _TaskTotals] = defaultdict(_TaskTotals)
        self.state_found: dict[str, int] = defaultdict(int)
        self._recent: deque[tuple[float, int, float]] = deque()
        self._latency: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def add(self, batch: Batch, commit_seconds: float) -> None:
        """Take up the reports of a batch."""
        self.batches += 1
        consumed = 0
        for report in batch.output.reports:
            task = self.tasks[report["task"]]
            task.consumed += report["consumed"]
            task.produced += report["produced"]
            task.seconds += report["seconds"]
            task.state_bytes, task.stream_time_ms = report["state_bytes"], report["stream_time_ms"]
            for where, count in report["dropped"].items():
                task.dropped[where] += count
            self.state_found[report["state"]] += 1
            consumed += report["consumed"] if report["level"] == 0 else 0
        now = time.monotonic()
        self._recent.append((now, consumed, commit_seconds))
        while self._recent and now - self._recent[0][0] > _WINDOW_S:
            self._recent.popleft()
        self._note_latency(batch)

    def _note_latency(self, batch: Batch) -> None:
        stamps = [parcel.timestamps for group in batch.output.parcels.values() for _, _, parcel in group if len(parcel)]
        if stamps:
            ages = time.time() * 1000 - np.concatenate(stamps)  # noqa: TID251 - the age of records as they leave
            self._latency = float(ages.min()), float(ages.mean()), float(ages.max())

    def all(self, lag: dict[tuple[str, int], int] | None = None) -> list[Metric]:
        """Every metric, sorted by group, name and tags."""
        client = (("application-id", self.application),)
        found = [*self._thread(client), *self._of_tasks(), *self._lag(lag or {})]
        for name, value in zip(("min", "avg", "max"), self._latency, strict=True):
            found.append(Metric("stream-processor-node-metrics", f"record-e2e-latency-{name}", client, value))
        return sorted(found)

    def _thread(self, tags: tuple[tuple[str, str], ...]) -> Iterable[Metric]:
        span = max(1e-9, time.monotonic() - self._recent[0][0]) if self._recent else 1.0
        commits = [seconds * 1000 for _, _, seconds in self._recent] or [0.0]
        numbers = {
            "process-total": sum(task.consumed for task in self.tasks.values()),
            "process-rate": sum(count for _, count, _ in self._recent) / span,
            "commit-total": self.batches,
            "commit-rate": len(self._recent) / span,
            "commit-latency-avg": sum(commits) / len(commits),
            "commit-latency-max": max(commits),
            "records-published-total": self.published,
            "batches-suppressed-total": self.suppressed,
        }
        return [Metric("stream-thread-metrics", name, tags, float(value)) for name, value in numbers.items()]

    def _of_tasks(self) -> Iterable[Metric]:
        for name, task in sorted(self.tasks.items()):
            tags = (("task-id", name.partition("/")[2]),)
            numbers = {
                "process-total": task.consumed,
                "process-latency-avg": 1000 * task.seconds / max(1, task.consumed),
                "dropped-records-total": sum(task.dropped.values()),
                "stream-time": task.stream_time_ms,
            }
            for number, value in numbers.items():
                yield Metric("stream-task-metrics", number, tags, float(value))
            yield Metric("stream-state-metrics", "state-bytes", tags, float(task.state_bytes))
            for (node, reason), count in sorted(task.dropped.items()):
                where = (*tags, ("processor-node-id", node), ("reason", reason))
                yield Metric("stream-processor-node-metrics", "dropped-records-total", where, float(count))

    @staticmethod
    def _lag(lag: dict[tuple[str, int], int]) -> Iterable[Metric]:
        group = "consumer-fetch-manager-metrics"
        for (topic, partition), records in sorted(lag.items()):
            tags = (("topic", topic), ("partition", str(partition)))
            yield Metric(group, "records-lag", tags, float(records))
        yield Metric(group, "records-lag-max", (), float(max(lag.values(), default=0)))


def lag_between(positions: Offsets, end: Offsets) -> dict[tuple[str, int], int]:
    """Records that are not read yet, by partition."""
    return {(topic, partition): max(0, last - first) for topic, partition, first, last in ranges(positions, end)}


def as_dict(metrics: Iterable[Metric]) -> dict[str, Any]:
    """Metrics by ``group:name{tags}``."""
    return {
        f"{m.group}:{m.name}" + ("{" + ",".join(f"{k}={v}" for k, v in m.tags) + "}" if m.tags else ""): m.value
        for m in metrics
    }
