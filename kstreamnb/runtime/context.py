"""What a node may ask of its task: the implementation of `core.operator.BindContext`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kstreamnb.core.operator import Cancellable, Forward, Punctuate
from kstreamnb.core.processor import PunctuationType
from kstreamnb.core.record import RecordMetadata
from kstreamnb.errors import ProcessingError, StateError
from kstreamnb.runtime.punctuation import Schedule, first_due
from kstreamnb.runtime.scope import Scope


class NodeContext:
    """One node's view of its task."""

    def __init__(self, scope: Scope, node: str, children: Mapping[str, Forward]) -> None:
        self.node = node
        self.task_id = scope.plan.task_id
        self.partition = scope.plan.partition
        self.application_id = scope.plan.application_id
        self._scope = scope
        self._children = children
        self._stores = scope.plan.topology.nodes[node].stores
        self._scheduled = 0

    def store(self, name: str) -> Any:
        """A store connected to this node, or a global store; raises StateError otherwise."""
        scope = self._scope
        if name in scope.global_stores:
            return scope.global_stores[name]
        if name in self._stores:
            return scope.stores[name]
        if name in scope.plan.topology.stores:
            fact, hint = "is not connected to it", "connect it where the node is added, with stores=…"
        else:
            fact, hint = "does not exist", f"there are {', '.join(scope.plan.topology.stores) or 'no stores'}"
        message = f'node "{self.node}" uses store "{name}", which {fact}'
        raise StateError(message, hint=hint, java=_NOT_CONNECTED.format(node=self.node, store=name))

    def only_reads(self, store: str) -> bool:
        """Whether a store is a global one, which only its own source fills."""
        return store in self._scope.global_stores

    def forward_to(self, child: str) -> Forward:
        """Hands a record to the child of that name only; raises ProcessingError when there is none."""
        found = self._children.get(child)
        if found is None:
            java = f"Unknown downstream node: {child} either does not exist or is not connected to this processor."
            there = ", ".join(f'"{name}"' for name in self._children) or "none"
            detail = f"its children are {there}"
            raise ProcessingError(f'node "{self.node}" has no child "{child}"', detail=detail, java=java)
        return found

    def cell(self, name: str, initial: Any) -> list[Any]:
        """A snapshotted cell of this node."""
        return self._scope.cell(self.node, name, initial)

    def shared_cell(self, name: str, initial: Any) -> list[Any]:
        """A snapshotted cell of the whole task."""
        return self._scope.cell("", name, initial)

    def drop(self, reason: str, key: Any, value: Any, timestamp: int, details: dict[str, Any] | None = None) -> None:
        """Count and report one dropped record."""
        self._scope.drop(self.node, reason, key, value, timestamp, details)

    def stream_time_ms(self) -> int:
        """Stream time of the task, -1 before the first record."""
        return int(self._scope.stream_time[0])

    def wall_clock_ms(self) -> int:
        """The engine's wall clock."""
        return self._scope.clock.now_ms

    def schedule(self, interval_ms: int, kind: str, punctuate: Punctuate, start_ms: int | None = None) -> Cancellable:
        """Call ``punctuate`` every ``interval_ms`` of "stream_time" or "wall_clock_time"."""
        scope, name = self._scope, f"schedule {self._scheduled}"
        due = first_due(interval_ms, kind, start_ms, scope.clock.now_ms)
        is_new = (self.node, name) not in scope.cells and (self.node, name) not in scope.restored
        cell = scope.cell(self.node, name, None)
        if is_new:
            cell[0] = due
        self._scheduled += 1
        schedule = Schedule(self.node, interval_ms, kind, punctuate, cell)
        stream = kind == PunctuationType.STREAM_TIME
        (scope.stream_schedules if stream else scope.wall_schedules).add(schedule)
        return schedule

    def metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the record in hand; (None, -1, -1) in a punctuator."""
        return self._scope.metadata()

    def resume(self, metadata: RecordMetadata | None) -> RecordMetadata | None:
        """Let ``metadata`` stand in for that of the record in hand; gives what stood in before, None for nothing."""
        return self._scope.resume(metadata)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when the task ends."""
        self._scope.closers.append(callback)

    def note_processor(self, processor: object) -> None:
        """Let the engine know the user's processor behind this node."""
        self._scope.processors[self.node] = processor

    def commit(self) -> None:
        """Ask for a commit after this record."""
        self._scope.commit_requested[0] = True

    def configs(self) -> Mapping[str, Any]:
        """The application's configuration, by Kafka's dotted names."""
        return self._scope.plan.config.dotted()

    def key_serde(self) -> Any:
        """The application's default key serde."""
        return self._scope.key_serde()

    def value_serde(self) -> Any:
        """The application's default value serde."""
        return self._scope.value_serde()


_NOT_CONNECTED = (
    "Processor {node} has no access to StateStore {store} as the store is not connected to the processor. "
    "If you add stores manually via '.addStateStore()' make sure to connect the added store to the processor "
    "by providing the processor name to '.addStateStore()' or connect them via '.connectProcessorAndStateStores()'. "
    "DSL users need to provide the store name to '.process()', '.processValues()', or '.transformValues()' to connect "
    "the store to the corresponding operator, or they can provide a StoreBuilder by implementing the stores() method "
    "on the Supplier itself. If you do not add stores manually, please file a bug report at "
    "https://issues.apache.org/jira/projects/KAFKA."
)
