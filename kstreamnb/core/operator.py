"""The contract between a node's operator and the task that runs it.

An operator is a small frozen value. Binding it to a task builds a closure once; per record there is only
that closure's call. `TableView` is the same for reading a table that may not be materialized.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import fields, is_dataclass, replace
from types import FunctionType
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from kstreamnb.core.block import Block
from kstreamnb.core.codec import CopiedValue, StreamPartitioner
from kstreamnb.core.record import Change, Headers, RecordMetadata
from kstreamnb.core.serde import Serde
from kstreamnb.core.traits import NO_TRAITS, OperatorTraits

Process: TypeAlias = Callable[[Any, Any, int, Headers], None]
"""``process(key, value, timestamp, headers)``: one record through one bound node."""

Forward: TypeAlias = Process
"""Hands a record to all children of a node, depth first, in the order in which they were added."""

Punctuate: TypeAlias = Callable[[int], None]
"""``punctuate(now_ms)``: called with the current stream time or wall clock, not with the scheduled time."""


class Cancellable(Protocol):
    """A schedule that can be ended."""

    def cancel(self) -> None:
        """Never fire again."""


Details: TypeAlias = dict[str, Any]
"""Numbers and names that explain an event, by name."""


class RecordAccess(Protocol):
    """The services that a task offers to its nodes and stores alike: the current record, and the serdes.

    Attributes:
        keeps_copies: whether stores keep values as copies instead of bytes: their rows are read only in this process.
    """

    keeps_copies: bool

    def timestamp(self) -> int:
        """Return the timestamp of the current record (ms)."""

    def headers(self) -> Headers:
        """Return the headers of the current record."""

    def metadata(self) -> RecordMetadata | None:
        """Return topic, partition and offset of the current record; (None, -1, -1) in a punctuator."""

    def resume(self, metadata: RecordMetadata | None) -> RecordMetadata | None:
        """Replace the metadata of the current record; return the previous replacement, or None.

        For what forwards a record kept earlier, such as a cache: nodes downstream see where it came from.
        """

    def key_serde(self, serde: Serde | str | None = None) -> Serde:
        """Return a key serde, completed by the application's defaults; the default for None."""

    def value_serde(self, serde: Serde | str | None = None) -> Serde:
        """Return a value serde, completed by the application's defaults; the default for None."""


class BindContext(RecordAccess, Protocol):
    """The services that a task offers to a node: while it is bound, and later inside its closure.

    All mutable state is in stores and in cells, so that a task can be snapshotted, restored and undone.
    A state variable is a list of one element; operators bind it to a local name, and read and write its element 0.

    Attributes:
        node: name of the node that is bound.
        task_id: ``<sub-topology>_<partition>``, such as ``0_3``.
        partition: the partition of the task.
        application_id: the application's id, the prefix of internal topics.
    """

    node: str
    task_id: str
    partition: int
    application_id: str

    def store(self, name: str) -> Any:
        """Return a store connected to this node, or a global store; raises StateError otherwise."""

    def kept_rows(self, store: str | None, serde: Serde) -> Mapping[object, tuple[Any, int]]:
        """Return the rows of a store of this task by key, with values in wire form; empty if it has no such rows.

        They must not be changed. The store need not be connected; ``serde`` is the one of its values.
        """

    def only_reads(self, store: str) -> bool:
        """Return whether a store is a global one, which only its own source fills."""

    def forward_to(self, child: str | None) -> Forward:
        """Return the function that forwards a record to one child, all for None; raises ProcessingError for others."""

    def state_var(self, name: str, initial: object) -> list[Any]:
        """Return a state variable of this node, part of snapshots; its content must be immutable and picklable."""

    def shared_state_var(self, name: str, initial: object) -> list[Any]:
        """Return a state variable of the whole task: the same list for every node that asks for ``name``."""

    def drop(self, reason: str, key: object, value: object, timestamp: int, details: Details | None = None) -> None:
        """Count and report one dropped record.

        ``reason`` is one of "null key", "null value", "null foreign key", "late", "expired", "negative timestamp",
        "deserialization", "out of order"; ``details`` hold the numbers that explain it
        (``window_start, window_end, close_ms, grace_ms, stream_time_ms`` …).
        """

    def stream_time_ms(self) -> int:
        """Return the stream time of the task: the highest timestamp so far, -1 before the first record."""

    def wall_clock_ms(self) -> int:
        """Return the time of the engine's wall clock (ms)."""

    def schedule(self, interval_ms: int, kind: str, punctuate: Punctuate, start_ms: int | None = None) -> Cancellable:
        """Call ``punctuate`` every ``interval_ms`` of "stream_time" or "wall_clock_time"."""

    def reading_row(self, timestamp: int, headers: Headers) -> AbstractContextManager[None]:
        """Replace the current record by a row: it has a timestamp (-1 for no row) and headers, but no position."""

    def on_start(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when all nodes are bound, in node order; callbacks that it adds run last."""

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when the task ends."""

    def note_processor(self, processor: object) -> None:
        """Register the user's processor behind this node with the engine."""

    def commit(self) -> None:
        """Request a commit after this record."""

    def configs(self) -> Mapping[str, Any]:
        """Return the application's configuration, by Kafka's dotted names."""


class Apart(NamedTuple):
    """The operators of a join of answers that runs apart from its table.

    Attributes:
        send: sends the table's rows, as changes reach it.
        keep: keeps the rows in a store, under the keys that they were sent with.
        resolve: takes the place of the operator.
        serde: that of the values that are sent and kept.
        partitioner: sends each row to the partition of the task that it is from.
    """

    send: Operator
    keep: Operator
    resolve: Operator
    serde: Serde
    partitioner: StreamPartitioner


class Operator(ABC):
    """Describes what a node does to a record; subclasses are frozen dataclasses."""

    @property
    @abstractmethod
    def traits(self) -> OperatorTraits:
        """The properties by which the rest of the package recognizes the operator."""

    @abstractmethod
    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure that processes the node's records in one task."""

    def changed(self, **fields: object) -> Self:
        """Return the operator with other values of some fields."""
        return replace(self, **fields)  # type: ignore[type-var] # subclasses are dataclasses

    def apart(self, store: str) -> Apart | None:
        """Return how the operator works without its table's stores, with a copy of the rows; None if it cannot.

        Args:
            store: the name of the store for the copy.
        """
        return None

    def fuse(self, context: BindContext) -> Block | None:
        """Return the operator's work as lines for a generated function; None if only a closure can do it.

        Args:
            context: the node's context.
        """
        return None


class BlockOperator(Operator):
    """An operator whose block is all that it does; without a generated function it runs as a closure."""

    @abstractmethod
    def bind_block(self, context: BindContext, get_forward: Callable[[], Forward]) -> Block:
        """Return the lines that do the operator's work in one task; ``get_forward`` has the function that forwards."""

    def fuse(self, context: BindContext) -> Block:
        """Return the block for a generated function."""
        return self.bind_block(context, lambda: context.forward_to(None))

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        return bound(self.bind_block(context, lambda: forward), forward)


class Stateless(BlockOperator):
    """An operator whose block is the same in every task."""

    @property
    def traits(self) -> OperatorTraits:
        """The default: no traits."""
        return NO_TRAITS

    @abstractmethod
    def block(self) -> Block:
        """Return the lines that do the operator's work."""

    def bind_block(self, context: BindContext, get_forward: Callable[[], Forward]) -> Block:
        """Return the block."""
        return self.block()


def bound(block: Block, forward: Forward) -> Process:
    """Return a function of a block's lines, which then forwards to all children unless the block ``ends``."""
    lines = ["def process(key, value, timestamp, headers):", *block.render(str, "return")]
    lines += [] if block.old is None else [f"value = make(Change, (value, {block.old}, True))"]
    lines += [] if block.ends else ["forward(key, value, timestamp, headers)"]
    names: dict[str, Any] = {**block.objects, "forward": forward, "make": tuple.__new__, "Change": Change}
    names["CopiedValue"] = CopiedValue
    exec(compile("\n ".join(lines), "<kstreamnb>", "exec"), names)
    process: Process = names["process"]
    return process


GetRow: TypeAlias = Callable[..., tuple[Any, int] | None]
"""``get(key)`` gives ``(value, timestamp)``, or None for no row; ``get(key, as_of_ms)`` if there are versions."""


class TableView(Protocol):
    """How to look up the current row of a table in a task, materialized or not.

    ``stores`` are the names of the stores that a node must be connected to in order to bind the view.
    """

    @property
    def stores(self) -> tuple[str, ...]:
        """Stores that the view reads."""

    @property
    def versioned(self) -> bool:
        """Whether the view answers ``as of`` a time (its store is versioned)."""

    def bind(self, context: BindContext) -> GetRow:
        """Return a function that looks up a row by its key."""


EMITTED = "last_close_ms"
"""Name of the state variable with the time (ms) up to which an operator has emitted closed windows."""


def functions_in(operator: object, *, of_values: bool = False) -> Iterator[FunctionType]:
    """Yield the Python functions among the fields of an operator: those that a user gave, and those in tuples.

    ``of_values`` leaves out those that take only aggregates, as the metadata of their fields say.
    """
    for each in fields(operator) if is_dataclass(operator) else ():
        if of_values and "takes_aggregates" in each.metadata:
            continue
        value = getattr(operator, each.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, FunctionType):
                yield part
