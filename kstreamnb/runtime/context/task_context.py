"""The state that all nodes of a task share: time, current record, stores, state variables, schedules, output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from kstreamnb.core.record import Headers, RecordMetadata
from kstreamnb.core.serde import Serde
from kstreamnb.core.stores import HeaderUse, StoreSpec
from kstreamnb.core.time import Clock
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.handlers import DeadLetter, letter_row
from kstreamnb.runtime.context.punctuation import PunctuationQueue
from kstreamnb.runtime.context.record_context import RecordContext
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.state.cache import CacheBudget
from kstreamnb.state.make import make_store
from kstreamnb.state.store import Journal
from kstreamnb.topology.java_order import hash_order


class StateVarWatch(Protocol):
    """Records which state variables have changed since its last call.

    ``watched`` are lists of a variable, the content last seen in it, and the number of entries about it; generated code
    that records a change itself updates the content there.
    """

    watched: list[list[Any]]

    def __call__(self) -> None:
        """Record what has changed."""


class Recorder(Protocol):
    """Keeps or passes on the events of tasks.

    An entry is a tuple that begins with a number for its kind, task, node and so on. ``keep`` makes a value one that
    will not change; those of the types in ``atoms`` need no call.
    """

    log: list[tuple[Any, ...]]
    keep: Callable[[Any], Any]
    atoms: frozenset[type]

    def number(self, kind: str, task: str, node: str = "", other: object = None) -> int:
        """Return the number for entries of a kind about a node."""

    def add(self, kind: str, task: str, node: str, other: object, *rest: object) -> None:
        """Append one entry."""

    @property
    def reorders(self) -> bool:
        """Whether steps may come task by task, to be put in order when all are there."""

    def journal(self, task: str, store: Any) -> Journal:
        """Return a journal for a store."""

    def watch(self, task: str, state_vars: Mapping[tuple[str, str], list[Any]]) -> StateVarWatch:
        """Return a function that records which state variables have changed since its last call."""


class TaskContext:
    """The state that the nodes of one task share; its stores know it as `StoreContext`.

    ``record_context`` is the current record. ``stamp`` is None or the ``(timestamp, headers)`` that replaces the
    record's own, inside nodes that write to logged or cached stores. ``out`` collects rows ``(topic, partition,
    timestamp, key, value, headers)`` in wire form; ``in_process``: only this process reads them; ``in_query``: only
    tasks of this query read those of internal topics. ``topic_serdes`` are the serdes of each topic's wire form, and a
    topic that is not among them carries bytes only.
    """

    def __init__(self, plan: TaskPlan, clock: Clock, recorder: Recorder | None, out: list[Any] | None = None) -> None:
        self.plan, self.clock, self.recorder = plan, clock, recorder
        self.key_serde, self.value_serde = plan.key_serde, plan.value_serde
        self.state_vars: dict[tuple[str, str], list[Any]] = {}
        self.restored: dict[tuple[str, str], Any] = {}
        self.stream_time = self.state_var("", "stream_time_ms", -1)
        self.record_context = RecordContext()
        self.stamp: list[tuple[int, Headers] | None] = [None]
        self.resumed: list[RecordMetadata | None] = [None]
        self.out: list[Any] = [] if out is None else out
        self.stores: dict[str, Any] = {}
        self.global_stores: dict[str, Any] = {}
        self.topic_serdes: dict[str, tuple[Serde, Serde]] = {}
        self.in_process = self.in_query = self.keeps_changelog = self.keeps_copies = False
        self.dropped: dict[tuple[str, str], int] = {}
        self.stream_schedules = PunctuationQueue(heap_order=plan.single)
        self.wall_schedules = PunctuationQueue(heap_order=plan.single)
        self.commit_requested = [False]
        self.processors: dict[str, object] = {}
        self.starters: dict[str, list[Callable[[], None]]] = {}
        self.closers: list[Callable[[], None]] = []

    def state_var(self, node: str, name: str, initial: object) -> list[Any]:
        """Return a state variable of a node, with the content restored for it, if any."""
        return self.state_vars.setdefault((node, name), [self.restored.pop((node, name), initial)])

    def drop(
        self, node: str, reason: str, key: object, value: object, timestamp: int, details: dict[str, Any] | None = None
    ) -> None:
        """Count one dropped record, and report it to the recorder."""
        self.dropped[node, reason] = self.dropped.get((node, reason), 0) + 1
        recorder = self.recorder
        if recorder is not None:
            kept = recorder.keep(key), recorder.keep(value)
            recorder.add("dropped", self.plan.task_id, node, reason, *kept, timestamp, dict(details or {}))

    def refuse(self, store: str, key: object, value: object, timestamp: int, details: dict[str, Any]) -> None:
        """Count and report a put that a store refused, because it was too old."""
        self.drop(store, "expired", key, value, timestamp, details)

    def emit(self, letters: Iterable[DeadLetter]) -> None:
        """Produce dead letters, which no sink writes."""
        for letter in letters:
            row = tuple(letter_row(letter, self.plan.count(letter.topic)))
            self.out.append(row)
            if self.recorder is not None:
                self.recorder.add("produced", self.plan.task_id, "", row[0], *row[1:])

    def metadata(self) -> RecordMetadata:
        """Return topic, partition and offset of the current record."""
        return self.resumed[0] or self.record_context.metadata()

    def resume(self, metadata: RecordMetadata | None) -> RecordMetadata | None:
        """Replace the metadata of the current record; return the previous replacement, or None."""
        before = self.resumed[0]
        self.resumed[0] = metadata
        return before

    def timestamp(self) -> int:
        """Return the timestamp of the current record."""
        stamp = self.stamp[0]
        return self.record_context.record()[1] if stamp is None else stamp[0]

    def headers(self) -> Headers:
        """Return the headers of the current record."""
        stamp = self.stamp[0]
        return self.record_context.record()[4] if stamp is None else stamp[1]

    def set_record(self, timestamp: int, headers: Headers) -> None:
        """Replace timestamp and headers of the current record."""
        self.stamp[0] = (timestamp, headers)


def store_order(plan: TaskPlan, nodes: Iterable[str]) -> tuple[StoreSpec, ...]:
    """Return stores in the order in which Kafka Streams registers and flushes them: by node, then as a hash set has
    them.
    """
    topology = plan.topology
    names = dict.fromkeys(store for node in nodes for store in hash_order(topology.nodes[node].stores))
    return tuple({**topology.stores, **topology.global_stores}[name] for name in names)


def header_use(spec: StoreSpec, config: Config) -> HeaderUse:
    """Return what a store does with headers in an application."""
    if spec.headers != "as_configured":
        return spec.headers
    return "kept" if config.dsl_store_format == "headers" else "none"


RowsOf: TypeAlias = Callable[[str, StoreSpec], Any]
"""The factory of a store's rows by task id and spec; None for rows in memory."""


def make_stores(context: TaskContext, specs: Iterable[StoreSpec], rows_of: RowsOf | None = None) -> dict[str, Any]:
    """Build stores, with the application's serdes and caching filled in, and rows from the factories of ``rows_of``."""
    plan, stores = context.plan, {}
    budget = CacheBudget(plan.config.cache_max_bytes)
    for spec in specs:
        spec = replace(
            spec,
            key_serde=plan.key_serde(spec.key_serde),
            value_serde=plan.value_serde(spec.value_serde),
            cached=spec.cached and plan.config.cache_max_bytes > 0,
            headers=header_use(spec, plan.config),
            factory=(rows_of(plan.task_id, spec) if rows_of else None) or spec.factory,
        )
        stores[spec.name] = make_store(spec, context, budget)
    return stores
