"""`Task`: runs one sub-topology for one partition of each of its topics.

Records and clock ticks go in, produced rows come out; a task does no input or output itself, and every engine
uses this one class.

The state of a task is its store rows and state variables. A delta is computed from the stores' journals, so its cost
depends on the changes, not on the size of the state. Deltas are values; each engine decides how to store them.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict

from kstreamnb.core.serde import Serde
from kstreamnb.core.time import Clock
from kstreamnb.errors import StateError
from kstreamnb.runtime.codegen.sinks import topic_serdes
from kstreamnb.runtime.context.handlers import RecordProduced
from kstreamnb.runtime.context.punctuation import PriorityQueue
from kstreamnb.runtime.context.record_context import WireRecord
from kstreamnb.runtime.context.record_queue import RecordQueue
from kstreamnb.runtime.context.task_context import Recorder, RowsOf, TaskContext, make_stores, store_order
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.runtime.task.executor import Executor
from kstreamnb.state.cache import InCache
from kstreamnb.state.key_value import apply_rows
from kstreamnb.state.store import JournalEntry
from kstreamnb.topology.partitions import changelog_topic

StateKey: TypeAlias = tuple[str, Any, Any]
"""``("store", store name, raw key)`` or ``("state_var", node, name)``."""


class StateDelta(NamedTuple):
    """Changes of a task's state: rows by store and raw key, variables by node and name; None is a deleted row.

    False without changes.
    """

    rows: dict[str, dict[Any, Any]]
    state_vars: dict[tuple[str, str], Any]

    def __bool__(self) -> bool:
        return bool(self.rows or self.state_vars)


class _Changes(dict[Any, Any]):
    """A journal of the last row of each raw key, None if it was deleted; caches are empty when deltas are taken."""

    def record(self, raw_key: Any, _: object, row: object) -> None:
        """Record a change by its parts."""
        self[raw_key] = row

    def append(self, entry: JournalEntry) -> None:
        """Record one change."""
        if type(entry[0]) is not InCache:
            self.record(*entry)

    def extend(self, entries: Iterable[JournalEntry]) -> None:
        """Record changes of rows."""
        self.update(map(itemgetter(0, 2), entries))


class _ChangesByClock(_Changes):
    """The journal of a store whose rows expire by its clock, in tasks and wherever its changes are applied."""

    def extend(self, entries: Iterable[JournalEntry]) -> None:
        """Ignore expired rows: the row of the clock tells which they are."""


class Checkpointed:
    """The part of a task that saves and restores its state."""

    context: TaskContext
    _journals: dict[str, _Changes] | None
    _taken: dict[tuple[str, str], Any]

    def take_delta(self) -> StateDelta:
        """Return what changed since the last delta or start; needs a task made with ``track=True``."""
        if self._journals is None:
            raise StateError("the task does not track its changes", hint="make it with track=True")
        rows = {name: dict(journal) for name, journal in self._journals.items() if journal}
        taken, present = self._taken, self.state_vars()
        state_vars = {key: value for key, value in present.items() if key not in taken or taken[key] != value}
        self._forget_changes()
        return StateDelta(rows, state_vars)

    def apply_delta(self, delta: StateDelta) -> None:
        """Apply a delta, or a part of a state made by `delta_of`."""
        context = self.context
        for name, changed in delta.rows.items():
            apply_rows(context.stores[name], changed)
        for key, content in delta.state_vars.items():
            if key in context.state_vars:
                context.state_vars[key][0] = content
            else:
                context.restored[key] = content
        context.stream_schedules.rebuild()
        context.wall_schedules.rebuild()
        self._taken.update(delta.state_vars)

    def state_vars(self) -> dict[tuple[str, str], Any]:
        """Return the present content of all state variables."""
        return {key: state_var[0] for key, state_var in self.context.state_vars.items()}

    def state_keys(self) -> list[StateKey]:
        """Return the keys of the whole state."""
        stores = self.context.stores.items()
        keys: list[StateKey] = [("store", name, raw_key) for name, store in stores for raw_key in store.raw]
        return keys + [("state_var", *key) for key in self.context.state_vars]

    def delta_of(self, keys: Iterable[StateKey]) -> StateDelta:
        """Return the present content of some keys as a delta, without keys that are gone."""
        rows: dict[str, dict[Any, Any]] = {}
        state_vars = {}
        for kind, first, second in keys:
            if kind == "state_var":
                if (first, second) in self.context.state_vars:
                    state_vars[first, second] = self.context.state_vars[first, second][0]
            elif (row := self.context.stores[first].raw.get(second)) is not None:
                rows.setdefault(first, {})[second] = row
        return StateDelta(rows, state_vars)

    def _forget_changes(self) -> None:
        self._taken = self.state_vars()
        for journal in (self._journals or {}).values():
            journal.clear()


class Queued(Executor):
    """The part of a task that queues records and processes the one with the lowest event time first."""

    plan: TaskPlan
    _ready: PriorityQueue[RecordQueue]
    _waiting: set[int]

    @property
    def first_queue(self) -> RecordQueue | None:
        """The queue whose head `run_ready` would take first; None when nothing waits."""
        return self._ready.peek()

    def push(self, topic: str, partition: int, records: Iterable[WireRecord]) -> None:
        """Queue records of a partition."""
        queue = self.queue_of(topic, partition)
        queue.push(topic, records)
        self._enqueue(queue)

    def run_ready(self, limit: int | None = None) -> int:
        """Process queued records, lowest (timestamp, topic, partition, offset) first; return their number."""
        done, ready, single = 0, self._ready, self.plan.single
        while ready and (limit is None or done < limit):
            queue = ready.poll()
            other = ready.peek()
            self._waiting.discard(id(queue))
            try:
                if other is None and limit is None and queue.plain:
                    done += self.process_in_bulk(queue, queue.rest())
                else:
                    bound = None if other is None or single else other.order_key
                    left = 1 if single else None if limit is None else limit - done
                    done += self.process_each(queue, queue.take(bound, left))
            finally:
                self._enqueue(queue)
        return done

    def queue_record(self, topic: str, partition: int, record: WireRecord) -> int | None:
        """Read one record ahead and return its event time; None if the record is refused.

        `run_queued` processes the record, `drop_queued` discards it.
        """
        queue = self.queue_of(topic, partition)
        queue.push(topic, (record,))
        return queue.head[1] if queue.fill() and queue.head is not None else None

    def run_queued(self, topic: str, partition: int) -> None:
        """Process the record that `queue_record` read ahead."""
        queue = self.queue_of(topic, partition)
        self.process_each(queue, queue.take(None, 1))

    def drop_queued(self, topic: str, partition: int) -> None:
        """Discard the record that `queue_record` read ahead."""
        self.queue_of(topic, partition).rest()

    def _enqueue(self, queue: RecordQueue) -> None:
        """Schedule a queue, if it has a record."""
        if id(queue) not in self._waiting and queue.fill():
            self._waiting.add(id(queue))
            self._ready.add(queue)


Changelog = Literal["off", "names", "records"]


class Counters(TypedDict):
    """The counters of a task; drops by node and reason."""

    consumed: int
    dropped: dict[tuple[str, str], int]


class Task(Checkpointed, Queued):
    """Runs the nodes of a plan over records that are pushed or handed to it.

    Args:
        plan: what to run.
        clock: the engine's wall clock.
        global_state: the task with the global stores, if there are any.
        recorder: gets all events; without it none are created.
        track: journal changes, so that deltas can be taken; not possible with a recorder.
        changelog: what to keep for `drain_changelog`: "off"; "names", the first records of each store, which show which
            topics were written; or all "records".
        commit_every_record: flush caches after each record, as Kafka's test driver does.
        out: gets produced rows; tasks may share it if each is drained before the next one runs.
        in_process: only this process reads the rows and the stores.
        in_query: only tasks of this query, in any process, read the rows of internal topics.
        rows_of: the factories of stores whose rows are not in memory.
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
        in_process: bool = False,
        in_query: bool = False,
        rows_of: RowsOf | None = None,
    ) -> None:
        self.plan = plan
        self.context = context = TaskContext(plan, clock, recorder, out)
        order: Any = (lambda queue: queue.order_key[0]) if plan.single else attrgetter("order_key")
        self._ready: PriorityQueue[RecordQueue] = PriorityQueue(order)
        self._waiting: set[int] = set()
        context.topic_serdes = topic_serdes(plan, plan.nodes)
        context.keeps_changelog = changelog == "records"
        context.in_process, context.in_query = in_process, in_query
        context.keeps_copies = in_process and recorder is None and not context.keeps_changelog
        context.stores = make_stores(context, store_order(plan, plan.nodes), rows_of)
        self._note_changes(track=track, changelog=changelog)
        super().__init__(context, plan.nodes, commit_every_record=commit_every_record)
        self.connect(global_state)
        self._forget_changes()

    def connect(self, global_state: Task | None) -> None:
        """Bind all nodes to the global stores of a task, for the first time or instead of another one."""
        self.global_state = global_state
        self.context.global_stores = {} if global_state is None else global_state.stores
        self.bind()

    @property
    def wants_commit(self) -> bool:
        """Whether a processor asked for a commit since the last one."""
        return self.context.commit_requested[0]

    @property
    def produced(self) -> int:
        """Rows produced since the last `drain`."""
        return len(self.context.out)

    @property
    def stores(self) -> dict[str, Any]:
        """The task's own stores by name."""
        return self.context.stores

    def topic_serdes(self, topic: str) -> tuple[Serde, Serde] | None:
        """Return key and value serde of the rows that this task writes to a topic; None if they are all bytes."""
        return self.context.topic_serdes.get(topic)

    def run(self, topic: str, partition: int, records: Iterable[WireRecord], marks: list[int] | None = None) -> int:
        """Process records now and in this order, ahead of queued ones; return their number.

        ``marks`` gets, after each record, the number of rows produced since the last `drain`.
        """
        queue = self.queue_of(topic, partition)
        if queue.plain:
            return self.process_in_bulk(queue, records if isinstance(records, list) else list(records), marks)
        done = 0
        for record in records:
            queue.push(topic, (record,))
            done += self.process_each(queue, queue.take(None, None))
            if marks is not None:
                marks.append(len(self.context.out))  # a refused record has a mark too
        return done

    def takes_records(self, topic: str, partition: int) -> bool:
        """Return whether records of a partition can be processed in bulk: nothing has to happen between them."""
        return self.queue_of(topic, partition).plain and self.is_fast()

    def punctuate_stream_time(self) -> bool:
        """Fire the punctuators that are due by the stream time; return whether there were any."""
        return self.punctuate_until(self.context.stream_time[0])

    def drain(self) -> list[Any]:
        """Take the rows produced so far: ``(topic, partition, timestamp, key, value, headers)`` in wire form."""
        rows = self.context.out[:]
        self.context.out.clear()
        return rows

    def drain_changelog(self) -> list[RecordProduced]:
        """Take the records for the changelog topics noted so far, with bytes as key and value.

        If only names are noted, a record with the timestamp -1 stands for a topic that was written.
        """
        rows, partition = [], self.plan.partition
        for store in self.context.stores.values():
            if store.spec.kind == "internal" and store.changes is not None:
                store.flush()  # buffers record changes only now
            if not store.changes:
                continue
            topic = changelog_topic(self.plan.application_id, store.spec)
            if not self.context.keeps_changelog:
                rows.append(RecordProduced(topic, partition, -1, None, None))
                store.changes = None
                continue
            for raw_key, row, timestamp, headers in store.changes:
                key, value = store.changelog_entry(raw_key, row)
                rows.append(RecordProduced(topic, partition, timestamp, key, value, headers))
            store.changes.clear()
        return rows

    def counters(self) -> Counters:
        """Return the number of records consumed, and of those dropped by node and reason."""
        return {"consumed": self.consumed, "dropped": dict(self.context.dropped)}

    def generated_source(self) -> str:
        """Return the Python source of the functions that were generated for the task's nodes, for debugging.

        Functions for nodes are generated when the task is made, loops over records when a source first gets records.
        """
        return self.locations.source()

    def close(self) -> None:
        """Close the users' processors in the order of the topology, also if one fails; stores stay as they are."""
        with ExitStack() as last_first:
            for close in reversed(self.context.closers):
                last_first.callback(close)
            self.context.closers.clear()

    def _note_changes(self, *, track: bool, changelog: Changelog) -> None:
        recorder, task = self.context.recorder, self.plan.task_id
        self._journals = {} if track and recorder is None else None
        for name, store in self.context.stores.items():
            if changelog == "off":
                store.changes = None
            if recorder is not None:
                store.journal = recorder.journal(task, store)
            elif self._journals is not None:
                changes = _Changes if store.expired is None else _ChangesByClock
                store.journal = self._journals[name] = changes()
