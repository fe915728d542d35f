"""Metrics of a query under the names of Kafka Streams, fed by the reports of its tasks with each batch."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
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
FETCHED = "consumer-fetch-manager-metrics"  # the group of the metrics of what was read, and of lag
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


class MetricsBook:
    """Totals since the query was made, and rates over the last half minute."""

    def __init__(self, application: str) -> None:
        self._client: _Tags = (("application-id", application),)
        self.batches = self.consumed = self.published = self.suppressed = self.differing = 0
        self.skipped = 0  # offsets that the cluster removed before they were read
        self.replicas = 0  # the fewest of a topic that the query writes; 0 if it writes none
        self.away: str | None = None  # why the broker did not answer the last look
        self.restarts = 0  # automatic ones
        self.states: dict[str, int] = defaultdict(int)  # how tasks obtained their state: from memory, by a rebuild, …
        self.recent: deque[BatchFigures] = deque(maxlen=_REMEMBERED)
        self.lags: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)  # epoch ms and waiting records, when looked at
        # Numbers by name, by their group and tags: of tasks with their nodes, output topics and stores.
        self._by_task: dict[tuple[str, _Tags], dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._seconds: dict[_Tags, float] = defaultdict(float)  # by task, at work
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
            state_bytes=int(self._sum("state-bytes")),
        )
        self.recent.append(figures)
        now = time.monotonic()
        self._window.append((now, figures))
        while now - self._window[0][0] > _WINDOW_S:
            self._window.popleft()
        return figures

    def _add_report(self, report: TaskReport) -> None:
        tags = (*self._client, ("task-id", report["task"].partition("/")[2]))

        def of(group: str, *more: tuple[str, str]) -> dict[str, float]:
            return self._by_task[f"stream-{group}-metrics", (*tags, *more)]

        task = of("task")
        task["process-total"] += report["consumed"]
        self._seconds[tags] += report["seconds"]
        task["process-latency-avg"] = 1000 * self._seconds[tags] / max(1, task["process-total"])
        latency = 1000 * report["seconds"] / max(1, report["consumed"])
        task["process-latency-max"] = max(task["process-latency-max"], latency)
        task["record-lateness-avg"], task["record-lateness-max"] = report.get("lateness_ms", (0.0, 0.0))
        task["dropped-records-total"] += sum(report["dropped"].values())
        task["restores-total"] += report["state"] == "rebuild"
        task["stream-time"] = report["stream_time_ms"]
        of("state")["state-bytes"] = report["state_bytes"]  # of its log; those of a store are its rows
        for (node, reason), count in report["dropped"].items():
            of("processor-node", ("processor-node-id", node), ("reason", reason))["dropped-records-total"] += count
        for topic, count in report["topics"].items():
            of("topic", ("topic-name", topic))["records-produced-total"] += count
        for name, (rows, size, updates, tombstones) in report.get("stores", {}).items():
            store = of("state", ("in-memory-state-id", name))
            store["num-keys"], store["store-bytes"] = rows, size
            store["changelog-updates-total"] += updates
            store["changelog-tombstones-total"] += tombstones
        self.states[report["state"]] += 1

    def _sum(self, name: str) -> float:
        """Return the sum of a number of all tasks."""
        return sum(numbers.get(name, 0) for numbers in [*self._by_task.values()])

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
        numbers: dict[str, dict[str, float]] = {
            "stream-metrics": {
                "running": state == "running",
                "failed-stream-threads": state == "failed",
                "topic-replicas-min": self.replicas,
                "broker-reachable": self.away is None,
                "restarts-total": self.restarts,
            },
            "stream-thread-metrics": self._thread(),
            FETCHED: {
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
        every = {(group, self._client): each for group, each in numbers.items()} | self._by_task
        if lag is not None:
            numbers[FETCHED]["records-lag-max"] = max(lag.values(), default=0)
            every |= {
                (FETCHED, (*self._client, ("topic", topic), ("partition", str(part)))): {"records-lag": count}
                for (topic, part), count in lag.items()
            }
            self.lags.append((int(time.time() * 1000), sum(lag.values())))  # noqa: TID251 - the time of the reading
        named = ((group, name, tags, value) for (group, tags), each in every.items() for name, value in [*each.items()])
        reading = Metrics(sorted(Metric(group, name, tags, float(value)) for group, name, tags, value in named))
        reading.taken_s = time.monotonic()
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
            "process-total": self._sum("process-total"),
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


def _ages(batch: QueryBatch, now_ms: float) -> tuple[float, float, float] | None:
    """Return the minimum, mean and maximum age of a batch's output in ms, by its timestamps."""
    times = batch.output.times()
    if not times:
        return None
    counts, sums, least, most = zip(*times, strict=True)
    latest, mean, earliest = max(most), sum(sums) / sum(counts), min(least)
    return round(now_ms - latest, 3), round(now_ms - mean, 3), round(now_ms - earliest, 3)
