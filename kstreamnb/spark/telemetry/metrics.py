"""Metrics of a query under the names of Kafka Streams, fed by the reports of its tasks with each batch."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kstreamnb.core.displayed import MimeTypes
from kstreamnb.core.tables import Tabular, html_table
from kstreamnb.core.time import Duration, duration_ms
from kstreamnb.errors import ConfigError
from kstreamnb.kafka.batch_offsets import Offsets, ranges
from kstreamnb.kafka.output_batch import OutputBatch
from kstreamnb.spark.contracts import QueryBatch
from kstreamnb.spark.execution.rows import TaskReport

_WINDOW_S = 30.0  # Kafka's rates divide by their whole window, too: a lone batch does not make a rate of thousands
_REMEMBERED = 120
_HEADER = ("group", "name", "of", "value")
_LATENCIES = ("record-e2e-latency-min", "record-e2e-latency-avg", "record-e2e-latency-max")
_OF_SPARK = {
    "total-sst-files-size": "rocksdbSstFileSize",
    "compaction-time": "rocksdbTotalCompactionLatencyMs",
    "compaction-bytes-read": "rocksdbTotalBytesReadByCompaction",
    "compaction-bytes-written": "rocksdbTotalBytesWrittenByCompaction",
}
"""Metrics of Spark's state stores, which keep the logs of tasks in RocksDB: Spark's names by those here."""
_Tags = tuple[tuple[str, str], ...]


class Metric(NamedTuple):
    """A number with Kafka's group and name, its tags, and the value: ms for times, records and bytes for counts."""

    group: str
    name: str
    tags: _Tags
    value: float


class Metrics(list[Metric]):
    """Sorted metrics; shown as a table without the application, which they have in common.

    ``taken_s`` is the monotonic time (s) of the reading; None for metrics that were not read from a query.

    Example:
        >>> tags = (("application-id", "shop"), ("task-id", "0_1"))
        >>> print(Metrics([Metric("stream-task-metrics", "process-total", tags, 1200.0)]))
        stream-task-metrics
          process-total  1,200  task-id 0_1
    """

    taken_s: float | None = None

    def table(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield group, name, other tags and the value as text."""
        for group, name, tags, value in self:
            labels = ", ".join(f"{tag} {word}" for tag, word in tags if tag != "application-id")
            yield group, name, labels, f"{value:,.0f}" if value.is_integer() else f"{value:,.2f}"

    def __str__(self) -> str:
        rows, lines = list(self.table()), dict[str, None]()
        name_width, value_width = (max((len(row[column]) for row in rows), default=0) for column in (1, 3))
        for group, name, labels, value in rows:
            lines[group] = None
            lines[f"  {name:{name_width}}  {value:>{value_width}}  {labels}".rstrip()] = None
        return "\n".join(lines)

    _repr_pretty_ = Tabular._repr_pretty_

    def _repr_mimebundle_(self, include: MimeTypes = None, exclude: MimeTypes = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": html_table(_HEADER, self.table())}


class BatchFigures(NamedTuple):
    """Figures of one batch.

    Attributes:
        number: the number of the batch.
        at_ms: the wall clock at its end.
        consumed: records read from the input topics; those of internal topics are not counted again.
        published: records written.
        dropped: records dropped.
        seconds: duration of processing and publishing.
        commit_seconds: duration of publishing alone.
        suppressed: Kafka had the batch already.
        latency_ms: minimum, mean and maximum age of its output by event time, negative for times in the future; None
            without output.
        processed: records that its tasks processed, with those of internal topics.
        state_bytes: size of the state of all tasks after it.
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
    processed: int = 0
    state_bytes: int = 0


@dataclass
class _TaskTotals:
    consumed: int = 0
    state_bytes: int = 0
    stream_time_ms: int = -1
    seconds: float = 0.0
    slowest: float = 0.0
    restores: int = 0
    lateness_ms: tuple[float, float] = (0.0, 0.0)
    dropped: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    topics: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    stores: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # by name, then by metric


class MetricsBook:
    """Totals since the query was made, and rates over the last half minute."""

    def __init__(self, application: str) -> None:
        self.application = application
        self.batches = self.consumed = self.published = self.suppressed = self.differing = 0
        self.skipped = 0  # offsets that the cluster removed before they were read
        self.tasks: dict[str, _TaskTotals] = defaultdict(_TaskTotals)
        self.replicas = 0  # the fewest of a topic that the query writes; 0 if it writes none
        self.away: str | None = None  # why the broker did not answer the last look
        self.restarts = 0  # automatic ones
        self.states: dict[str, int] = defaultdict(int)  # how tasks obtained their state: from memory, by a rebuild, …
        self.recent: deque[BatchFigures] = deque(maxlen=_REMEMBERED)
        self.lags: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)  # epoch ms and waiting records, when looked at
        self._window: deque[tuple[float, BatchFigures]] = deque()
        self._latency = (0.0, 0.0, 0.0)

    def add(self, batch: QueryBatch, done: OutputBatch, commit_seconds: float) -> BatchFigures:
        """Add the reports of a batch; returns its figures."""
        reports = batch.output.reports
        for report in reports:
            self._add_report(report)
        published = 0 if done.suppressed else done.records
        self.batches += 1
        consumed = sum(report.get("inputs", 0) for report in reports)
        self.consumed += consumed
        self.published += published
        self.suppressed += done.suppressed
        self.differing += done.differs
        now_ms = time.time() * 1000  # noqa: TID251 - the age of records as they leave
        latency = _ages(batch, now_ms)
        self._latency = latency or self._latency
        figures = BatchFigures(
            number=batch.number,
            at_ms=int(now_ms),
            consumed=consumed,
            published=published,
            dropped=sum(sum(report["dropped"].values()) for report in reports),
            seconds=batch.seconds + commit_seconds,
            commit_seconds=commit_seconds,
            suppressed=done.suppressed,
            latency_ms=latency,
            processed=sum(report["consumed"] for report in reports),
            state_bytes=sum(task.state_bytes for task in self.tasks.values()),
        )
        self.recent.append(figures)
        now = time.monotonic()
        self._window.append((now, figures))
        while now - self._window[0][0] > _WINDOW_S:
            self._window.popleft()
        return figures

    def _add_report(self, report: TaskReport) -> None:
        task = self.tasks[report["task"]]
        task.consumed += report["consumed"]
        task.seconds += report["seconds"]
        task.restores += report["state"] == "rebuild"
        task.slowest = max(task.slowest, report["seconds"] / max(1, report["consumed"]))
        task.state_bytes, task.stream_time_ms = report["state_bytes"], report["stream_time_ms"]
        task.lateness_ms = report.get("lateness_ms", task.lateness_ms)
        for cause, count in report["dropped"].items():
            task.dropped[cause] += count
        for topic, count in report["topics"].items():
            task.topics[topic] += count
        for name, (rows, size, updates, tombstones) in report.get("stores", {}).items():
            store = task.stores[name]
            store["num-keys"], store["store-bytes"] = rows, size
            store.update({"changelog-updates-total": updates, "changelog-tombstones-total": tombstones})
        self.states[report["state"]] += 1

    def all(
        self,
        lag: Mapping[tuple[str, int], int] | None = None,
        state: str = "running",
        spark: Mapping[str, float] | None = None,
    ) -> Metrics:
        """Return every metric, sorted by group, name and tags.

        Args:
            lag: records that wait, by topic and partition; without it there are no metrics of lag.
            state: the state of the query, as `QueryStatus` has it.
            spark: what Spark's state stores report of the last batch, by Spark's names.
        """
        client = (("application-id", self.application),)
        numbers: dict[str, dict[str, float]] = {
            "stream-metrics": {
                "running": state == "running",
                "failed-stream-threads": state == "failed",
                "topic-replicas-min": self.replicas,
                "broker-reachable": self.away is None,
                "restarts-total": self.restarts,
            },
            "stream-thread-metrics": self._thread(),
            "consumer-fetch-manager-metrics": {
                "records-consumed-total": self.consumed,
                "records-consumed-rate": self._rate(lambda figures: figures.consumed),
                "offsets-skipped-total": self.skipped,
            },
            "producer-metrics": {
                "record-send-total": self.published,
                "record-send-rate": self._rate(lambda figures: figures.published),
            },
            "stream-processor-node-metrics": dict(zip(_LATENCIES, self._latency, strict=True)),
            "stream-state-metrics": {name: (spark or {}).get(reported, 0) for name, reported in _OF_SPARK.items()},
        }
        figures = ((group, *figure) for group, each in numbers.items() for figure in each.items())
        own = [Metric(group, name, client, float(value)) for group, name, value in figures]
        reading = Metrics(sorted([*own, *self._of_tasks(client), *([] if lag is None else _lag_metrics(client, lag))]))
        reading.taken_s = time.monotonic()
        if lag is not None:
            self.lags.append((int(time.time() * 1000), sum(lag.values())))  # noqa: TID251 - the time of the reading
        return reading

    def _in_window(self) -> list[BatchFigures]:
        """Return the batches of the last half minute; copied first, because another thread may add one meanwhile."""
        now = time.monotonic()
        return [figures for ended, figures in list(self._window) if now - ended <= _WINDOW_S]

    def _rate(self, count: Callable[[BatchFigures], int]) -> float:
        return sum(map(count, self._in_window())) / _WINDOW_S

    def _thread(self) -> dict[str, float]:
        window = self._in_window()
        records = [figures.processed for figures in window] or [0]
        commits = [figures.commit_seconds * 1000 for figures in window] or [0.0]
        batches = [figures.seconds * 1000 for figures in window] or [0.0]
        return {
            "process-total": sum(task.consumed for task in [*self.tasks.values()]),  # another thread may add one
            "process-rate": self._rate(lambda figures: figures.processed),
            "process-latency-avg": sum(batches) / len(batches),
            "process-latency-max": max(batches),
            "process-ratio": (sum(batches) - sum(commits)) / (1000 * _WINDOW_S),
            "process-records-avg": sum(records) / len(records),
            "process-records-max": max(records),
            "commit-total": self.batches,
            "commit-rate": self._rate(lambda figures: 1),
            "commit-latency-avg": sum(commits) / len(commits),
            "commit-latency-max": max(commits),
            "commit-ratio": sum(commits) / (1000 * _WINDOW_S),
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
            yield from _of_stores(tags, task)
            for (node, reason), count in sorted(task.dropped.items()):
                node_tags = (*tags, ("processor-node-id", node), ("reason", reason))
                yield Metric("stream-processor-node-metrics", "dropped-records-total", node_tags, float(count))
            for topic, count in sorted(task.topics.items()):
                topic_tags = (*tags, ("topic-name", topic))
                yield Metric("stream-topic-metrics", "records-produced-total", topic_tags, float(count))


def _of_stores(tags: _Tags, task: _TaskTotals) -> Iterator[Metric]:
    """Yield the metrics of a task's stores; the bytes of a task are those of its log, of a store those of its rows."""
    group = "stream-state-metrics"
    yield Metric(group, "state-bytes", tags, float(task.state_bytes))
    for name, store in sorted(task.stores.items()):
        for number, value in [*store.items()]:
            yield Metric(group, number, (*tags, ("in-memory-state-id", name)), float(value))


def total(metrics: Iterable[Metric], name: str, group: str | None = None, *tags: tuple[str, str]) -> float:
    """Return the sum of the metrics with a name and all of these tags, in one group or, for None, in all."""
    named = (each for each in metrics if each.name == name and group in (None, each.group))
    return sum(each.value for each in named if {*tags} <= {*each.tags})


def lag_between(positions: Offsets, end: Offsets) -> dict[tuple[str, int], int]:
    """Return the number of records that are not read yet, by topic and partition."""
    return {(topic, partition): max(0, last - first) for topic, partition, first, last in ranges(positions, end)}


def elapsed_ms(before: Iterable[Metric], now: Iterable[Metric], elapsed: Duration | None) -> int:
    """Return the time between two readings (ms), if none is given that of ``query.metrics()``."""
    if elapsed is not None:
        return duration_ms(elapsed, "elapsed")
    taken = [reading.taken_s if isinstance(reading, Metrics) else None for reading in (before, now)]
    if taken[0] is None or taken[1] is None:
        raise ConfigError("the time between two readings is unknown", hint='pass elapsed="5m", or query.metrics()')
    return round(1000 * (taken[1] - taken[0]))


def _lag_metrics(client: _Tags, lag: Mapping[tuple[str, int], int]) -> Iterator[Metric]:
    group = "consumer-fetch-manager-metrics"
    for (topic, partition), records in sorted(lag.items()):
        yield Metric(group, "records-lag", (*client, ("topic", topic), ("partition", str(partition))), float(records))
    yield Metric(group, "records-lag-max", client, float(max(lag.values(), default=0)))


def _ages(batch: QueryBatch, now_ms: float) -> tuple[float, float, float] | None:
    """Return the minimum, mean and maximum age of a batch's output in ms, by its timestamps."""
    times = batch.output.times()
    if not times:
        return None
    counts, sums, least, most = zip(*times, strict=True)
    latest, mean, earliest = max(most), sum(sums) / sum(counts), min(least)
    return round(now_ms - latest, 3), round(now_ms - mean, 3), round(now_ms - earliest, 3)
