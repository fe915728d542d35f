"""The task: one partition of one sub-topology at work.

Records and clock ticks go in, produced rows come out; a task does no input or output itself, and every engine
uses this one class.

What a task remembers is store rows and cells. A delta is made from the stores' journals, so it costs what changed and
not what is there. Deltas are values; how they are stored is the engine's matter.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias

from kstreamnb.core.serde import Serde
from kstreamnb.core.time import Clock
from kstreamnb.errors import StateError
from kstreamnb.runtime.codegen.sinks import topic_serdes
from kstreamnb.runtime.context.handlers import Produced
from kstreamnb.runtime.context.punctuation import PriorityQueue
from kstreamnb.runtime.context.record_context import WireRecord
from kstreamnb.runtime.context.record_queue import RecordQueue
from kstreamnb.runtime.context.task_context import Recorder, TaskContext, make_stores, store_order
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.runtime.task.executor import Executor
from kstreamnb.topology.partitions import changelog_topic

StateKey: TypeAlias = tuple[str, Any, Any]
"""``("store", store name, raw key)`` or ``("cell", node, cell name)``."""

_VERSION = 1


class StateDelta(NamedTuple):
    """Changes of a task's state: rows by store and raw key, cells by node and name; None is a deleted row.

    False without changes.
    """

    rows: dict[str, dict[Any, Any]]
    cells: dict[tuple[str, str], Any]

    def __bool__(self) -> bool:
        return bool(self.rows or self.cells)


class Checkpointed:
    """The part of a task that saves and restores its state."""

    scope: TaskContext
    _journals: dict[str, list[Any]] | None
    _taken: dict[tuple[str, str], Any]

    def snapshot(self) -> bytes:
        """The whole state of the task."""
        rows = {name: store.snapshot() for name, store in self.scope.stores.items()}
        return _pack(rows, {key: cell[0] for key, cell in self.scope.cells.items()})

    def restore(self, data: bytes) -> None:
        """Take up the state of a snapshot; everything else is forgotten."""
        rows, cells = _unpack(data)
        for name, store in self.scope.stores.items():
            store.restore(rows.get(name, {}))
        self._set_cells({**self.scope.initial, **cells})
        self._forget_changes()

    def take_delta(self) -> StateDelta:
        """Return what changed since the last delta, snapshot or start; needs a task made with ``track=True``."""
        if self._journals is None:
            raise StateError("the task does not track its changes", hint="make it with track=True")
        rows: dict[str, dict[Any, Any]] = {}
        for name, journal in self._journals.items():
            if journal:
                row_of = self.scope.stores[name].raw.get
                rows[name] = {raw_key: row_of(raw_key) for raw_key in dict.fromkeys(map(itemgetter(0), journal))}
        cells = {
            key: cell[0]
            for key, cell in self.scope.cells.items()
            if key not in self._taken or self._taken[key] != cell[0]
        }
        self._forget_changes()
        return StateDelta(rows, cells)

    def apply_delta(self, delta: StateDelta) -> None:
        """Apply a delta, or a part of a state made by `delta_of`."""
        rows, cells = delta
        for name, changed in rows.items():
            apply = self.scope.stores[name].apply
            for raw_key, row in changed.items():
                apply(raw_key, row)
        self._set_cells(cells)
        self._taken.update(cells)

    def state_keys(self) -> list[StateKey]:
        """Keys of everything that a snapshot would hold."""
        keys: list[StateKey] = [
            ("store", name, raw_key) for name, store in self.scope.stores.items() for raw_key in store.raw
        ]
        return keys + [("cell", *key) for key in self.scope.cells]

    def delta_of(self, keys: Iterable[StateKey]) -> StateDelta:
        """Return the present content of some keys as a delta, without keys that are gone."""
        rows: dict[str, dict[Any, Any]] = {}
        cells = {}
        for kind, first, second in keys:
            if kind == "cell":
                if (first, second) in self.scope.cells:
                    cells[first, second] = self.scope.cells[first, second][0]
            elif (row := self.scope.stores[first].raw.get(second)) is not None:
                rows.setdefault(first, {})[second] = row
        return StateDelta(rows, cells)

    def _set_cells(self, cells: dict[tuple[str, str], Any]) -> None:
        scope = self.scope
        for key, content in cells.items():
            if key in scope.cells:
                scope.cells[key][0] = content
            else:
                scope.restored[key] = content
        scope.stream_schedules.rebuild()
        scope.wall_schedules.rebuild()

    def _forget_changes(self) -> None:
        self._taken = {key: cell[0] for key, cell in self.scope.cells.items()}
        for journal in (self._journals or {}).values():
            journal.clear()


def _pack(rows: dict[str, dict[Any, Any]], cells: dict[tuple[str, str], Any]) -> bytes:
    return pickle.dumps((_VERSION, rows, cells), protocol=5)


def _unpack(data: bytes) -> tuple[dict[str, dict[Any, Any]], dict[tuple[str, str], Any]]:
    version, rows, cells = pickle.loads(data)
    if version != _VERSION:
        raise StateError(f"the state has format {version}, but this version reads format {_VERSION}")
    return rows, cells


class Queued:
    """The part of a task that lets records wait, and takes the one with the least event time first."""

    plan: TaskPlan
    _ready: PriorityQueue[RecordQueue]
    _waiting: set[int]
    _runner: Executor

    @property
    def first_lane(self) -> RecordQueue | None:
        """The lane whose head `run_ready` would take first; None when nothing waits."""
        return self._ready.peek()

    def push(self, topic: str, partition: int, records: Iterable[WireRecord]) -> None:
        """Let records wait in front of the task."""
        lane = self._runner.lane(topic, partition)
        lane.push(topic, records)
        self._line_up(lane)

    def run_ready(self, limit: int | None = None) -> int:
        """Process what waits, least (timestamp, topic, partition, offset) first; gives the number of records."""
        done, ready, single = 0, self._ready, self.plan.single
        while ready and (limit is None or done < limit):
            lane = ready.poll()
            other = ready.peek()
            self._waiting.discard(id(lane))
            try:
                if other is None and limit is None and lane.plain:
                    done += self._runner.bulk(lane, lane.rest(), None, None)
                else:
                    bound = None if other is None or single else other.place
                    left = 1 if single else None if limit is None else limit - done
                    done += self._runner.steps(lane, lane.take(bound, left), None)
            finally:
                self._line_up(lane)
        return done

    def queue_record(self, topic: str, partition: int, record: WireRecord) -> int | None:
        """Read one record ahead and return its event time; None if the record is refused.

        `run_queued` processes the record, `drop_queued` discards it.
        """
        queue = self._runner.lane(topic, partition)
        queue.push(topic, (record,))
        return queue.head[1] if queue.fill() and queue.head is not None else None

    def run_queued(self, topic: str, partition: int) -> None:
        """Process the record that `queue_record` read ahead."""
        queue = self._runner.lane(topic, partition)
        self._runner.steps(queue, queue.take(None, 1), None)

    def drop_queued(self, topic: str, partition: int) -> None:
        """Discard the record that `queue_record` read ahead."""
        self._runner.lane(topic, partition).rest()

    def _line_up(self, lane: RecordQueue) -> None:
        """Let a lane wait for its turn, if it has anything."""
        if id(lane) not in self._waiting and lane.fill():
            self._waiting.add(id(lane))
            self._ready.add(lane)


Changelog = Literal["off", "names", "records"]


class Task(Checkpointed, Queued):
    """Runs the nodes of a plan over records that are pushed or handed to it.

    Args:
        plan: what to run.
        clock: the engine's wall clock.
        global_state: the task that keeps the global stores, if there are any.
        recorder: gets everything that happens; without it nothing of the kind is made.
        track: note changes, so that deltas can be taken.
        changelog: what to note for `drain_changelog`: "off"; "names", the first records of each store, so that it is
            known which topics were written; or all "records".
        commit_every_record: flush caches after each record, as Kafka's test driver does.
        out: gets what is produced; tasks may share it where each is drained before the next one runs.
    """

    def __init__(
        self,
        plan: TaskPlan,
        clock: Clock,
        global_state: Task | None = None,
        recorder: Recorder | None = None,
        *,
        track: bool = False,
        changelog: Changelog = "off",
        commit_every_record: bool = False,
        out: list[Any] | None = None,
    ) -> None:
        self.plan = plan
        self.scope = scope = TaskContext(plan, clock, recorder, out)
        self.nodes = plan.nodes
        order: Any = (lambda lane: lane.place[0]) if plan.single else attrgetter("place")
        self._ready: PriorityQueue[RecordQueue] = PriorityQueue(order)
        self._waiting: set[int] = set()
        scope.topic_serdes = topic_serdes(plan, self.nodes)
        scope.stores = make_stores(scope, store_order(plan, self.nodes))
        self._note_changes(track=track, changelog=changelog)
        self._runner = Executor(scope, self.nodes, commit_every_record=commit_every_record)
        self.lane, self.interleave = self._runner.lane, self._runner.interleave
        self._global_state: Task | None = None
        self._connect(global_state)
        self._forget_changes()

    @property
    def global_state(self) -> Task | None:
        """The task that keeps the global stores; it can be exchanged."""
        return self._global_state

    @global_state.setter
    def global_state(self, other: Task | None) -> None:
        if other is not self._global_state:
            self._connect(other)

    @property
    def wants_commit(self) -> bool:
        """Whether a processor asked for a commit since the last one."""
        return self.scope.commit_requested[0]

    @property
    def produced(self) -> int:
        """Rows produced since the last `drain`."""
        return len(self.scope.out)

    @property
    def stores(self) -> dict[str, Any]:
        """The task's own stores by name."""
        return self.scope.stores

    def topic_serdes(self, topic: str) -> tuple[Serde, Serde] | None:
        """Key and value serde of the rows this task writes to a topic; None where they are all bytes."""
        return self.scope.topic_serdes.get(topic)

    def run(
        self,
        topic: str,
        partition: int,
        records: Iterable[Any],
        marks: list[int] | None = None,
        first: int | None = None,
    ) -> int:
        """Process records now and in this order, past whatever waits; gives their number.

        ``marks`` gets, after each record, the number of rows produced since the last `drain`. ``first`` is said where
        records are as users have them, only if `takes_records`: the offset of the first one.
        """
        lane = self._runner.lane(topic, partition)
        if lane.plain:
            return self._runner.bulk(lane, records if isinstance(records, list) else list(records), first, marks)
        done = 0
        for record in records:
            lane.push(topic, (record,))
            done += self._runner.steps(lane, lane.take(None, None), None)
            if marks is not None:
                marks.append(len(self.scope.out))  # a refused record has its mark too
        return done

    def takes_records(self, topic: str) -> bool:
        """Return whether records can be processed unserialised: nothing has to happen between them."""
        recorder = self.scope.recorder
        seen_later = recorder is None or recorder.reorders
        return seen_later and self._runner.lane(topic, 0).plain and self._runner.is_fast()

    def punctuate_wall_clock(self) -> bool:
        """Fire the punctuators that are due by the clock; says whether any was."""
        return self._runner.punctuate_wall_clock()

    def commit(self) -> None:
        """Flush the caches; what they held flows on through the task."""
        self._runner.commit()

    def drain(self) -> list[Any]:
        """Take the rows produced so far: ``(topic, partition, timestamp, key, value, headers)`` in wire form."""
        rows = self.scope.out[:]
        self.scope.out.clear()
        return rows

    def drain_changelog(self) -> list[Produced]:
        """Take the records for the changelog topics noted so far, with bytes as key and value.

        Where only names are wanted, a record with the timestamp -1 stands for a topic that was written.
        """
        rows, partition = [], self.plan.partition
        for store in self.scope.stores.values():
            if store.spec.kind == "internal" and store.changes is not None:
                store.flush()  # buffers note what came or went only now
            if not store.changes:
                continue
            topic = changelog_topic(self.plan.application_id, store.spec)
            if not self.scope.keeps_changelog:
                rows.append(Produced(topic, partition, -1, None, None))
                store.changes = None
                continue
            for raw_key, row, timestamp, headers in store.changes:
                key, value = store.changelog_entry(raw_key, row)
                rows.append(Produced(topic, partition, timestamp, key, value, headers))
            store.changes.clear()
        return rows

    def counters(self) -> dict[str, Any]:
        """Records consumed and dropped so far, the latter by node and reason."""
        return {"consumed": self._runner.consumed, "dropped": dict(self.scope.dropped)}

    def generated_source(self) -> str:
        """Return the Python source of the functions that were generated for the task's nodes, for debugging.

        Functions for nodes are generated when the task is made, loops over records when a source first gets records.
        """
        return self._runner.generated_source()

    def close(self) -> None:
        """End the task: users' processors are closed, stores are left as they are."""
        closers = self.scope.closers[::-1]
        self.scope.closers.clear()
        for close in closers:
            close()

    def _connect(self, global_state: Task | None) -> None:
        """Take another task's global stores, and bind all nodes to them."""
        self._global_state = global_state
        self.scope.global_stores = {} if global_state is None else global_state.stores
        self._runner.wire()

    def _note_changes(self, *, track: bool, changelog: Changelog) -> None:
        recorder, task = self.scope.recorder, self.plan.task_id
        self._journals = {} if track else None
        self.scope.keeps_changelog = changelog == "records"
        for name, store in self.scope.stores.items():
            if changelog == "off":
                store.changes = None
            journal: list[Any] | None = None
            if recorder is not None:
                journal = recorder.journal(task, store, keeps=track)
            elif track:
                journal = []
            if self._journals is not None and journal is not None:
                self._journals[name] = journal
            store.journal = journal


class GlobalTask(Task):
    """Keeps the global stores: every record of their topics goes into them at once, whatever its partition."""
