"""The levels of a query without Spark: the same functions over lists of rows, with state in dictionaries.

Spark's part (group, sort, shuffle, commit) takes a few lines here, so that merging, state logs and routing can be
tested in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from kstreamnb.spark.execution import worker_cache
from kstreamnb.spark.execution.batch_output import BatchOutput
from kstreamnb.spark.execution.state_codec import unpack_delta, unpack_entry
from kstreamnb.spark.execution.state_log import HEAD, StateLog
from kstreamnb.spark.execution.stateful_operator import run_group
from kstreamnb.spark.execution.worker_cache import empty_task
from kstreamnb.spark.io.stream_source import QuerySourceReader, SourceSettings
from kstreamnb.spark.planning.deployment import Deployment, WorkerOptions
from kstreamnb.spark.query.streaming_query import owners_of
from kstreamnb.spark.state.store_view import StoreView, stores_named, tasks_with
from tests.spark.file_source import FileOffsetSource

__all__ = ["Cluster", "DictLog"]

Row5 = tuple[int, int, int, int, bytes]


class DictLog:
    """A map state."""

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}

    def getValue(self, key: Any) -> Any:
        """A row, or None."""
        return self.rows.get(key)

    def updateValue(self, key: Any, row: Any) -> None:
        """Set a row."""
        self.rows[key] = row

    def removeKey(self, key: Any) -> None:
        """Forget a row."""
        self.rows.pop(key, None)

    def iterator(self) -> Iterator[tuple[Any, Any]]:
        """All rows."""
        return iter(list(self.rows.items()))


@dataclass
class Cluster:
    """Runs a deployment batch by batch; ``forget()`` clears the workers' memory as a restart would."""

    deployment: Deployment
    states: dict[tuple[int, int], DictLog] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, deployment: Deployment, name: str, **settings: Any) -> Cluster:
        """An empty cluster."""
        return cls(replace(deployment, name=name, options=WorkerOptions(**settings)))

    @staticmethod
    def forget() -> None:
        """Clears the memory as if every worker had ended."""
        worker_cache.forget()

    @staticmethod
    def forget_tasks() -> None:
        """Clears the memory as if a task moved to another worker with every batch."""
        worker_cache._states.clear()

    def store(self, name: str) -> StoreView:
        """Return a store of the first application, as a query's checkpoint shows it."""
        placed = tasks_with(self.deployment, name)
        tasks = {task.name: empty_task(self.deployment, task) for task in placed}
        for task, deltas in self.deltas().items():
            for delta in deltas if task in tasks else ():
                tasks[task].apply_delta(unpack_delta(delta, trust=True))
        return StoreView(name, [store for task in placed for store in stores_named(tasks[task.name], name)])

    def deltas(self) -> dict[str, list[bytes]]:
        """Return all deltas of every task, by the task's name, in order."""
        found: dict[str, list[bytes]] = {}
        for level in self.deployment.levels:
            for group, placed in self.deployment.placements[level.number].items():
                log = self.states.get((level.number, group), DictLog())
                for _, (_, entry) in sorted(row for row in log.rows.items() if row[0] != (HEAD,)):
                    found.setdefault(placed.name, []).extend(unpack_entry(entry).deltas)
        return found

    def batches(
        self, feed: FileOffsetSource, between: Callable[[int], None] = lambda number: None
    ) -> Iterator[BatchOutput]:
        """Yield the output of every batch of a feed."""
        reader = QuerySourceReader(SourceSettings(feed, self.deployment, max_records=1))
        start, number = reader.initialOffset(), 0
        while (end := reader.latestOffset(start)) != start:
            rows: list[Row5] = []
            for share in reader.partitions(start, end):
                for batch in reader.read(share):
                    rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
            yield self.run(rows)
            between(number)
            start, number = end, number + 1

    def run(self, rows: list[Row5]) -> BatchOutput:
        """Run one batch through all levels."""
        for level in self.deployment.levels:
            groups: dict[int, list[Row5]] = {}
            for row in rows:
                groups.setdefault(row[0], []).append(row)
            rows = []
            for group in sorted(groups):
                state = self.states.setdefault((level.number, group), DictLog())
                log = StateLog(state, verify=self.deployment.options.verify) if level.stateful else None
                rows += run_group(self.deployment, level.number, group, groups[group], log)
                self.found += [log.found] if log is not None else []
        names = ("g", "target", "source", "seq", "blob")
        table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
        return BatchOutput.of(table, owners_of(self.deployment))
