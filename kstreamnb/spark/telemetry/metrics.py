"""A query's metrics under the names of Kafka Streams, fed by what tasks report with each batch."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kstreamnb.core.tables import html_table
from kstreamnb.kafka.batch_offsets import Offsets, ranges
from kstreamnb.kafka.output_batch import OutputBatch
from kstreamnb.spark.contracts import QueryBatch

__all__ = ["BatchFigures", "Metric", "Metrics", "MetricsBook", "as_dict", "lag_between"]

_WINDOW_S = 30.0
_REMEMBERED = 120
_HEADER = ("group", "name", "of", "value")
_Tags = tuple[tuple[str, str], ...]


class Metric(NamedTuple):
    """One number: Kafka's group and name, its tags, and the value (ms for times, records and bytes for counts)."""

    group: str
    name: str
    tags: _Tags
    value: float


class Metrics(list[Metric]):
    """Metrics in order; shown as a table, which leaves out the application that they have in common.

    Example:
        >>> tags = (("application-id", "shop"), ("task-id", "0_1"))
        >>> print(Metrics([Metric("stream-task-metrics", "process-total", tags, 1200.0)]))
        stream-task-metrics
          process-total  1,200  task-id 0_1
    """

    def table(self) -> Iterator[tuple[str, str, str, str]]:
        """Group, name, other tags and the value as text."""
        for group, name, tags, value in self:
            of = ", ".join(f"{tag} {word}" for tag, word in tags if tag != "application-id")
            yield group, name, of, f"{value:,.0f}" if value.is_integer() else f"{value:,.2f}"

    def __str__(self) -> str:
        rows, lines = list(self.table()), dict[str, None]()
        wide, long = (max((len(row[at]) for row in rows), default=0) for at in (1, 3))
        for group, name, of, value in rows:
            lines[group] = None
            lines[f"  {name:{wide}}  {value:>{long}}  {of}".rstrip()] = None
        return "\n".join(lines)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": html_table(_HEADER, self.table())}


class BatchFigures(NamedTuple):
    """One batch in figures: records in from the input topics, records out, records dropped, and what it took.

    ``at_ms`` is the wall clock at its end; ``seconds`` the time for processing and publishing, ``commit_seconds``
    for publishing alone; ``latency_ms`` the age of its youngest, middle and oldest output, None without output.
    """

    number: int
    at_ms: int
    consumed: int
    published: int
    dropped: int
    seconds: float
    commit_seconds: float
    suppressed: bool = False
    latency_ms: tuple[float, float, float] | None = None


@dataclass
class _TaskTotals:
    consumed: int = 0
    produced: int = 0
    state_bytes: int = 0
    stream_time_ms: int = -1
    seconds: float = 0.0
    slowest: float = 0.0
    restores: int = 0
    lateness_ms: tuple[float, float] = (0.0, 0.0)
    dropped: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    topics: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class MetricsBook:
    """Totals since the query started, and rates over the last half minute."""

    def __init__(self, application: str) -> None:
        self.application = application
        self.batches = 0
        self.published = 0
        self.suppressed = 0
        self.differing = 0
        self.tasks: dict[str, _TaskTotals] = defaultdict(_TaskTotals)
        self.state_found: dict[str, int] = defaultdict(int)
        self.recent: deque[BatchFigures] = deque(maxlen=_REMEMBERED)
        self._window: deque[tuple[float, BatchFigures]] = deque()
        self._latency = (0.0, 0.0, 0.0)

    def add(self, batch: QueryBatch, done: OutputBatch, commit_seconds: float) -> BatchFigures:
        """Take up the reports of a batch; gives its figures."""
        consumed = dropped = 0
        for report in batch.output.reports:
            self._add_report(report)
            dropped += sum(report["dropped"].values())
            consumed += report["consumed"] if report["level"] == 0 else 0
        published = 0 if done.suppressed else done.records
        self.batches += 1
        self.published += published
        self.suppressed += done.suppressed
        self.differing += done.differs
        now_ms = time.time() * 1000  # noqa: TID251 - the age of records as they leave
        latency = _ages(batch, now_ms)
        self._latency = latency or self._latency
        figures = BatchFigures(
            batch.number,
            int(now_ms),
            consumed,
            published,
            dropped,
            batch.seconds + commit_seconds,
            commit_seconds,
            done.suppressed,
            latency,
        )
        self.recent.append(figures)
        now = time.monotonic()
        self._window.append((now, figures))
        while now - self._window[0][0] > _WINDOW_S:
            self._window.popleft()
        return figures

    def _add_report(self, report: Mapping[str, Any]) -> None:
        task = self.tasks[report["task"]]
        task.consumed += report["consumed"]
        task.produced += report["produced"]
        task.seconds += report["seconds"]
        task.restores += report["state"] == "rebuild"
        task.slowest = max(task.slowest, report["seconds"] / max(1, report["consumed"]))
        task.state_bytes, task.stream_time_ms = report["state_bytes"], report["stream_time_ms"]
        task.lateness_ms = report.get("lateness_ms", task.lateness_ms)
        for where, count in report["dropped"].items():
            task.dropped[where] += count
        for topic, count in report["topics"].items():
            task.topics[topic] += count
        self.state_found[report["state"]] += 1

    def all(self, lag: Mapping[tuple[str, int], int] | None = None, state: str = "running") -> Metrics:
        """Every metric, sorted by group, name and tags; none about lag where it is not known."""
        client = (("application-id", self.application),)
        numbers = {
            "stream-metrics": {"running": float(state == "running"), "failed-stream-threads": float(state == "failed")},
            "stream-thread-metrics": self._thread(),
            "producer-metrics": {
                "record-send-total": self.published,
                "record-send-rate": self._rate(lambda figures: figures.published),
            },
            "stream-processor-node-metrics": {
                f"record-e2e-latency-{name}": value
                for name, value in zip(("min", "avg", "max"), self._latency, strict=True)
            },
        }
        found = [
            Metric(group, name, client, float(value)) for group, each in numbers.items() for name, value in each.items()
        ]
        return Metrics(sorted([*found, *self._of_tasks(client), *([] if lag is None else _lag_metrics(client, lag))]))

    def _rate(self, number: Any) -> float:
        span = max(1e-3, time.monotonic() - self._window[0][0]) if self._window else 1.0
        return float(sum(number(figures) for _, figures in self._window) / span)

    def _thread(self) -> dict[str, float]:
        commits = [figures.commit_seconds * 1000 for _, figures in self._window] or [0.0]
        batches = [figures.seconds * 1000 for _, figures in self._window] or [0.0]
        return {
            "process-total": sum(task.consumed for task in self.tasks.values()),
            "process-rate": self._rate(lambda figures: figures.consumed),
            "process-latency-avg": sum(batches) / len(batches),
            "process-latency-max": max(batches),
            "commit-total": self.batches,
            "commit-rate": self._rate(lambda figures: 1),
            "commit-latency-avg": sum(commits) / len(commits),
            "commit-latency-max": max(commits),
            "records-published-total": self.published,
            "batches-suppressed-total": self.suppressed,
            "batches-differing-total": self.differing,
        }

    def _of_tasks(self, client: _Tags) -> Iterator[Metric]:
        for name, task in sorted(self.tasks.items()):
            tags = (*client, ("task-id", name.partition("/")[2]))
            numbers = {
                "process-total": task.consumed,
                "process-latency-avg": 1000 * task.seconds / max(1, task.consumed),
                "process-latency-max": 1000 * task.slowest,
                "record-lateness-avg": task.lateness_ms[0],
                "record-lateness-max": task.lateness_ms[1],
                "dropped-records-total": sum(task.dropped.values()),
                "restores-total": task.restores,
                "stream-time": task.stream_time_ms,
            }
            for number, value in numbers.items():
                yield Metric("stream-task-metrics", number, tags, float(value))
            yield Metric("stream-state-metrics", "state-bytes", tags, float(task.state_bytes))
            for (node, reason), count in sorted(task.dropped.items()):
                where = (*tags, ("processor-node-id", node), ("reason", reason))
                yield Metric("stream-processor-node-metrics", "dropped-records-total", where, float(count))
            for topic, count in sorted(task.topics.items()):
                where = (*tags, ("topic-name", topic))
                yield Metric("stream-topic-metrics", "records-produced-total", where, float(count))


def lag_between(positions: Offsets, end: Offsets) -> dict[tuple[str, int], int]:
    """Records that are not read yet, by partition."""
    return {(topic, partition): max(0, last - first) for topic, partition, first, last in ranges(positions, end)}


def as_dict(metrics: Iterable[Metric]) -> dict[str, float]:
    """Metrics by ``group:name{tags}``.

    Example:
        >>> as_dict([Metric("stream-task-metrics", "process-total", (("task-id", "0_1"),), 7.0)])
        {'stream-task-metrics:process-total{task-id=0_1}': 7.0}
    """
    return {
        f"{m.group}:{m.name}" + ("{" + ",".join(f"{k}={v}" for k, v in m.tags) + "}" if m.tags else ""): m.value
        for m in metrics
    }


def _lag_metrics(client: _Tags, lag: Mapping[tuple[str, int], int]) -> Iterator[Metric]:
    group = "consumer-fetch-manager-metrics"
    for (topic, partition), records in sorted(lag.items()):
        yield Metric(group, "records-lag", (*client, ("topic", topic), ("partition", str(partition))), float(records))
    yield Metric(group, "records-lag-max", client, float(max(lag.values(), default=0)))


def _ages(batch: QueryBatch, now_ms: float) -> tuple[float, float, float] | None:
    """Least, middle and greatest age of a batch's output, by its timestamps."""
    stamps = [each.timestamps for group in batch.output.batches.values() for _, _, each in group if len(each)]
    if not stamps:
        return None
    ages = now_ms - np.concatenate(stamps)
    return float(ages.min()), float(ages.mean()), float(ages.max())
