"""The run of an application in a cluster driver: with offsets as the broker gave them, and what readers saw when."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache, cached_property
from math import inf
from typing import Any

from kstreamnb.errors import EngineError
from kstreamnb.recording.recorded_run import RecordedRun, Waiting
from kstreamnb.recording.trace import Recording
from kstreamnb.recording.trace_index import TraceIndex
from kstreamnb.simulation.cluster.broker import Broker
from kstreamnb.simulation.cluster.trace import ClusterTrace


class SharedLog:
    """The log that all applications share so far, and the fate of its records at the broker."""

    def __init__(self, trace: ClusterTrace, broker: Broker) -> None:
        self.log, self.codes, self.owners = trace.log[:], trace.codes[:], trace.owners[:]
        self.placed, self.arrived, self.ended = dict(trace.placed), dict(trace.arrived), dict(trace.ended)
        self.topics = {topic: [each.records[:] for each in partitions] for topic, partitions in broker.topics.items()}
        self.seen_from = cache(self._seen_from)

    @cached_property
    def offsets(self) -> dict[tuple[str, int, int], int]:
        """Log positions of written records by topic, partition and offset."""
        log, codes = self.log, self.codes
        return {(codes[log[at][0]].other, log[at][1], offset): at for at, (offset, _) in self.placed.items()}

    @cached_property
    def causes(self) -> dict[int, int]:
        """Log positions of consumed records, mapped to where they were written, for all applications."""
        result = {}
        for position, entry in enumerate(self.log):
            code = self.codes[entry[0]]
            if code.kind == "consumed" and (written := self.offsets.get((*code.other, entry[1]))) is not None:
                result[position] = written
        return result

    def _seen_from(self, topic: str, partition: int) -> list[float]:
        """Return, per offset, the log length at which a reader of committed records could see it; inf for never.

        An unfinished transaction also hides the records after it.
        """
        result, hidden_until = list[float](), 0.0
        for offset in range(len(self.topics[topic][partition])):
            position = self.offsets.get((topic, partition, offset))
            if position is None:
                hidden_until = max(hidden_until, self.arrived.get((topic, partition, offset), 0))
                result.append(hidden_until)
                continue
            transaction = self.placed[position][1]
            end, aborted = (position, False) if transaction is None else self.ended.get(transaction, (inf, False))
            hidden_until = max(hidden_until, end)
            result.append(inf if aborted else hidden_until)
        return result


class ClusterRun(RecordedRun):
    """One application's part of the shared log; ``peers`` holds the runs of all applications by name."""

    def __init__(self, application: str, trace: ClusterTrace, shared: SharedLog, peers: dict[str, ClusterRun]) -> None:
        recorder, self.shared, self.peers = trace.recorders[application], shared, peers
        recording = Recording()
        recording.log, recording.state_vars, own = shared.log, recorder.state_vars, len(application) + 1
        owned = list(zip(shared.codes, shared.owners, strict=True))
        recording.codes = [code._replace(task=code.task[own:]) if name == application else code for code, name in owned]
        others = [code for code, name in owned if name != application]
        fed = {topic for topic, _, _ in shared.arrived} | {code.other for code in others if code.kind == "produced"}
        counts = {topic: len(partitions) for topic, partitions in shared.topics.items()}
        super().__init__(recorder.topology, recorder.config, recording, recorder.tasks, counts, fed)
        self.index = TraceIndex(recording, [code.task for code in others])

    def owner(self, position: int) -> RecordedRun:
        """Return the run of the application that wrote an entry."""
        return self.peers[self.shared.owners[self.shared.log[position][0]]]

    # --- topics ---
    @cached_property
    def written(self) -> dict[tuple[str, int], array[int]]:
        """Log positions of the records that this application wrote to each partition."""
        result: dict[tuple[str, int], array[int]] = {}
        for position, code, entry in self.index.entries("produced"):
            if position in self.shared.placed:
                result.setdefault((code.other, entry[1]), array("q")).append(position)
        return result

    def offset(self, position: int) -> int:
        """Return the broker's offset of the record written at a log position; -1 if it was not written."""
        return self.shared.placed.get(position, (-1, None))[0]

    def output_positions(self, topic: str, until: int | None = None) -> list[int]:
        """Return log positions of the application's committed records on a topic, visible after ``until`` steps."""
        end = len(self.index.log) if until is None else self.index.end(until)
        return [position for position, seen in self._written_to(topic) if seen <= end]

    def unseen(self, topic: str) -> int:
        """Return the number of records on a topic that no reader of committed records sees."""
        return sum(seen == inf for _, seen in self._written_to(topic))

    def _written_to(self, topic: str) -> list[tuple[int, float]]:
        result: list[tuple[int, float]] = []
        for (name, partition), positions in self.written.items():
            if topic in (name, self.short(name)):
                seen = self.shared.seen_from(name, partition)
                result += [(position, seen[self.offset(position)]) for position in positions]
        return sorted(result)

    def _written_at(self, topic: str, partition: int, offset: int) -> int | None:
        """Return the log position at which any application wrote a record; None if none did."""
        return self.shared.offsets.get((topic, partition, offset))

    def find_input(self, topic: str, partition: int, offset: int) -> list[int]:
        """Return all log positions at which a record was consumed, by any application."""
        result, nobody = list[int](), None
        for run in self.peers.values():
            try:
                result += RecordedRun.find_input(run, topic, partition, offset)
            except EngineError as error:
                nobody = nobody or error
        if not result and nobody is not None:
            raise nobody
        return sorted(result)

    # --- links between steps ---
    @property
    def causes(self) -> dict[int, int]:
        """Log positions of consumed records, mapped to where any application wrote them."""
        return self.shared.causes

    @property
    def taken(self) -> None:
        """None: a cluster reads again after a crash."""
        return

    def waiting(self, step: int) -> Iterator[Waiting]:
        """Yield the visible records that were not processed after ``step`` steps."""
        end = self.index.end(step)
        for task_id, task in self.tasks.items():
            plan = task.plan
            for topic, partitions in self.shared.topics.items():
                if task_id == "global" or plan.source_of(topic) is None or plan.partition >= len(partitions):
                    continue
                start = self._position(topic, plan.partition, end)
                for offset, seen in enumerate(self.shared.seen_from(topic, plan.partition)):
                    if seen <= end and offset >= start:
                        yield self._lying(task_id, topic, plan.partition, offset)

    def _position(self, topic: str, partition: int, end: int) -> int:
        """Return the first offset of a partition that was not processed at a log length."""
        begun = _last(self.index.positions_of("restarted"), end)
        for position in reversed(self.index.positions_of("consumed", other=(topic, partition))):
            if begun < position < end:
                return int(self.index.log[position][1]) + 1
        for position in reversed(self.index.positions_of("published")):
            if position < min(end, begun) and (topic, partition) in self.index.log[position][1]:
                return int(self.index.log[position][1][topic, partition])
        return 0

    def _lying(self, task: str, topic: str, partition: int, offset: int) -> Waiting:
        plan, record = self.tasks[task].plan, self.shared.topics[topic][partition][offset]
        source: Any = plan.source_of(topic)
        where: Any = "input" if (topic, partition, offset) in self.shared.arrived else "between tasks"
        return Waiting(where, task, record.read(topic, partition, plan.serdes(source)))


def _last(positions: list[int], end: int) -> int:
    """Return the last position before an end; -1 if there is none."""
    at = bisect_left(positions, end)
    return positions[at - 1] if at else -1


def cluster_runs(trace: ClusterTrace, broker: Broker) -> dict[str, ClusterRun]:
    """Return everything recorded so far, as runs of all applications."""
    shared = SharedLog(trace, broker)
    runs: dict[str, ClusterRun] = {}
    for application in trace.recorders:
        runs[application] = ClusterRun(application, trace, shared, runs)
    return runs
