"""The status of a query, and its description with positions, tasks and their stores; both display as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kstreamnb.core.formatting import format_time, pluralize
from kstreamnb.core.tables import Tabular
from kstreamnb.errors import KStreamError
from kstreamnb.hints import reason_of
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.spark.planning.deployment import Deployment, TaskPlacement
from kstreamnb.spark.planning.key_routing import spark_hash
from kstreamnb.spark.telemetry.metrics import BatchFigures, Metric

_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_FIGURES: Mapping[str, Callable[[float], str]] = {
    "process-total": lambda value: f"{value:,.0f}",
    "dropped-records-total": lambda value: f"{value:,.0f}",
    "state-bytes": lambda value: format_size(value),
    "stream-time": lambda value: format_time(int(value)) if value >= 0 else "none yet",
}
"""The figures of a task that are shown, and how."""


@dataclass(frozen=True, repr=False)
class QueryStatus(Tabular):
    """The state of a query at one moment; displays as a table of its tasks with the query's figures.

    It holds what was read when it was made, so it can be displayed after the query and its JVM have ended.

    Attributes:
        state: "starting" until the first batch of a start is finished or there is none to do, then "running"; at the
            end "stopping", "stopped" or "failed".
        batch: the number of the last finished batch, -1 before the first.
        lag: records that wait in the input topics; -1 if no broker answers, and while the first batch runs.
        positions: offsets of the next records, by topic and partition.
        clock_ms: the wall clock of the last batch, in ms.
        durations_ms: the durations of the parts of the last batch, as Spark measures them, in ms.
        error: the text of the error that ended the query.
        slow: a batch that runs for longer than ``deploy(…, slow_batch=…)``, with the task, node and record it is at.
        stuck: the slow batch has not come to another record for as long.
        application: the application's id.
        last_error: the text of the last error, also after a restart.
        metrics: counts and rates since the query was made, as `Query.metrics` returns them, without the lag.
        last: the figures of the last batch; None before the first.
        away: why the query waits for its broker, such as a refused password; None while it does not.

    Example:
        >>> print(QueryStatus("running", 3, 0, {"pages": {0: 2}}, application="visits"))
        application "visits": running, after batch 3
        in 0 records, 0.0/s; out 0 records, 0.0/s; lag 0 records
    """

    header = ("task", "records", "dropped", "state", "stream time")

    state: str
    batch: int
    lag: int
    positions: Offsets
    clock_ms: int = 0
    durations_ms: dict[str, int] = field(default_factory=dict)
    error: str | None = None
    slow: str | None = None
    stuck: bool = False
    application: str = ""
    last_error: str | None = None
    metrics: tuple[Metric, ...] = ()
    last: BatchFigures | None = None
    away: str | None = None

    @property
    def title(self) -> str:
        """Application, state and number of the last batch."""
        after = f"after batch {self.batch:,}" if self.batch >= 0 else "before its first batch"
        return f'application "{self.application}": {self.state}, {after}'

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield the figures of each task that has run."""
        for task, figures in self.by_task.items():
            yield (task, *figures)

    @cached_property
    def by_task(self) -> Mapping[str, tuple[str, ...]]:
        """Records, drops, size of the state and stream time of each task that has run, as text."""
        rows: dict[str, dict[str, float]] = {}
        for group, name, tags, value in self.metrics:
            if name in _FIGURES and group in ("stream-task-metrics", "stream-state-metrics"):
                rows.setdefault(dict(tags)["task-id"], {})[name] = value
        return {task: tuple(show(each.get(name, 0)) for name, show in _FIGURES.items()) for task, each in rows.items()}

    def more(self) -> Iterator[str]:
        """Yield rates, lag, the last batch, why it waits for the broker, and errors."""
        lag = "lag unknown" if self.lag < 0 else f"lag {pluralize(self.lag, 'record')}"
        yield f"in {flow_text(self.metrics, 'records-consumed')}; out {flow_text(self.metrics, 'record-send')}; {lag}"
        if self.last is not None:
            size = format_size(self.last.state_bytes)
            read, written = pluralize(self.last.consumed, "record"), self.last.published
            yield f"last batch: {read} in, {written:,} out, {1000 * self.last.seconds:,.0f} ms; state {size}"
        yield from [f"waits for the broker: {self.away}"] if self.away else []
        yield from [f"slow batch: {self.slow}"] if self.slow else []
        yield from [f"last error: {self.last_error or self.error}"] if self.last_error or self.error else []


@dataclass(frozen=True, repr=False)
class QueryDescription(Tabular):
    """A query at one moment: status, positions, and the place, input, stores and figures of every task."""

    header = ("task", "partition of Spark", "reads", "keeps", *QueryStatus.header[1:])

    status: QueryStatus
    deployment: Deployment

    @property
    def title(self) -> str:
        """Application, state and number of the last batch."""
        return self.status.title

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield every task, also those that have not run yet."""
        for task in self.deployment.tasks:
            name = task.name.partition("/")[2]
            yield (name, *self._place(task), *self.status.by_task.get(name, ("not run yet", "", "", "")))

    def more(self) -> Iterator[str]:
        """Yield what the status says, and the positions."""
        yield from self.status.more()
        for topic, parts in self.status.positions.items():
            yield f"topic {topic}: " + ", ".join(f"{part} at {offset}" for part, offset in sorted(parts.items()))

    def _place(self, task: TaskPlacement) -> tuple[str, str, str]:
        application = self.deployment.applications[task.application]
        owners = {group.id: group.stores for group in application.running.subtopologies()}
        ids = [(plan.subtopologies[0], plan.partition) for plan in task.plans]
        read: dict[str, set[int]] = {}
        for id_, partition in ids:
            for topic in application.reads[id_]:
                read.setdefault(topic, set()).add(partition)
        reads = [f"{topic}-{'…'.join(map(str, sorted({min(own), max(own)})))}" for topic, own in sorted(read.items())]
        stores = sorted({store for id_, _ in ids for store in owners[id_]})
        return str(spark_hash(task.routing_key) % self.deployment.spark_partitions), ", ".join(reads), ", ".join(stores)


def flow_text(metrics: Iterable[Metric], name: str) -> str:
    """Return the total and the rate of records that some metrics count under a name."""
    value = {each.name: each.value for each in metrics}
    rate = value.get(f"{name}-rate", 0.0)
    return f"{pluralize(int(value.get(f'{name}-total', 0)), 'record')}, {rate:,.{int(rate < 100)}f}/s"


def failure_line(error: KStreamError) -> str:
    """Return an error in one line: its message with the cause, the record, and the user's line.

    Example:
        >>> from kstreamnb.errors import ProcessingError
        >>> error = ProcessingError('node "KM" failed with ZeroDivisionError', coordinates=("trips", 0, 7, 5))
        >>> error.__cause__ = ZeroDivisionError("division by zero")
        >>> failure_line(error)
        'node "KM" failed with ZeroDivisionError: division by zero; record trips-0@7'
    """
    cause, message = error.__cause__, error.message
    kind = type(cause).__name__
    if cause is not None and message.endswith(f" with {kind}"):
        message = message.removesuffix(kind) + reason_of(cause, error.origin)
    coordinates = getattr(error, "coordinates", None)
    record = coordinates and "record {}-{}@{}".format(*coordinates)
    return "; ".join(filter(None, (message, record, f"at {error.origin}" if error.origin else None)))


def format_size(size: float) -> str:
    """Return a number of bytes in a readable unit.

    Example:
        >>> format_size(512), format_size(1_250_000)
        ('512 bytes', '1.2 MB')
    """
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            break
        size /= 1000
    return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
