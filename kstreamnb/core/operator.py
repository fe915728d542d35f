"""The contract between a node's operator and the task that runs it.

An operator is a small frozen value. Binding it to a task builds a closure once; per record there is only
that closure's call. `TableView` is the same for reading a table that may not be materialised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

from kstreamnb.core.record import Headers, RecordMetadata

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


class BindContext(Protocol):
    """What a node may ask of its task: while it is bound, and later from inside its closure.

    Everything that changes lives in stores and in cells, so that a task can be snapshotted, restored and undone.
    A cell is a list of one element; an operator keeps it in a local name and reads and writes ``cell[0]``.

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
        """A store connected to this node, or a global store; raises StateError otherwise."""

    def only_reads(self, store: str) -> bool:
        """Whether a store is a global one, which only its own source fills."""

    def forward_to(self, child: str) -> Forward:
        """Hands a record to the child of that name only; raises ProcessingError when there is none."""

    def cell(self, name: str, initial: Any) -> list[Any]:
        """A snapshotted cell of this node; its content must be immutable and picklable."""

    def shared_cell(self, name: str, initial: Any) -> list[Any]:
        """A snapshotted cell of the whole task: the same list for every node that asks for ``name``."""

    def drop(self, reason: str, key: Any, value: Any, timestamp: int, details: dict[str, Any] | None = None) -> None:
        """Count and report one dropped record.

        ``reason`` is one of "null key", "null value", "null foreign key", "late", "expired", "negative timestamp",
        "deserialization", "out of order"; ``details`` hold the numbers that explain it
        (``window_start, window_end, close_ms, grace_ms, stream_time_ms`` …).
        """

    def stream_time_ms(self) -> int:
        """Stream time of the task: the greatest timestamp taken so far, -1 before the first."""

    def wall_clock_ms(self) -> int:
        """The engine's wall clock."""

    def schedule(self, interval_ms: int, kind: str, punctuate: Punctuate, start_ms: int | None = None) -> Cancellable:
        """Call ``punctuate`` every ``interval_ms`` of "stream_time" or "wall_clock_time"."""

    def metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the record being processed; (None, -1, -1) in a punctuator."""

    def resume(self, metadata: RecordMetadata | None) -> RecordMetadata | None:
        """Make ``metadata`` that of the record in hand and give back what it was.

        For operators that forward a record which they have kept: what is downstream sees where it came from.
        """

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when the task ends."""

    def note_processor(self, processor: object) -> None:
        """Let the engine know the user's processor behind this node."""

    def commit(self) -> None:
        """Ask for a commit after this record."""

    def configs(self) -> Mapping[str, Any]:
        """The application's configuration, by Kafka's dotted names."""

    def key_serde(self, serde: Any = None) -> Any:
        """A key serde with the application's defaults in the places that it leaves open; the default for None."""

    def value_serde(self, serde: Any = None) -> Any:
        """The same for values."""


class Operator(Protocol):
    """A frozen description of what a node does to a record."""

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure that processes the node's records in one task."""


class FusedStep(NamedTuple):
    """What an operator does to one record, as lines of Python for a fused chain.

    The lines read and set the local names ``key``, ``value`` and ``timestamp``, may use others of their own, and end
    the record with ``return``. They call ``function`` as ``{f}`` and every other thing by its word in ``names``, such
    as ``{put}``. Nothing else may happen in the operator's closure besides these lines and one forward to all
    children. ``windows_ms``: the key that is left is the one in the local name ``inner``, in a window of that size.
    ``counts``: the value that is left is a count.

    An operator without state offers its step by ``fused()``, see `Stateless`. One with state may offer it by
    ``fuse(context, new_only)``, which gives None where only a closure will do; with ``new_only`` the value that is
    left is not a `Change` but its new value, because no child reads more. A child says so by ``reads_new = True``.
    """

    line: str
    function: Callable[..., Any] | None = None
    names: tuple[tuple[str, Any], ...] = ()
    windows_ms: int | None = None
    counts: bool = False


class Stateless:
    """An operator whose lines are all that it does; alone it stands as their closure.

    Subclasses are frozen dataclasses with at most one field, the function that their ``line`` calls; where that is
    not enough they say by `fused` what is done.
    """

    line: ClassVar[str]

    def fused(self) -> FusedStep:
        """The lines, and what they call."""
        return FusedStep(self.line, *vars(self).values())

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        step = self.fused()
        lines = ["def process(key, value, timestamp, headers):", *step.line.replace("{f}", "function").split("\n")]
        names: dict[str, Any] = {"function": step.function, "forward": forward}
        exec(compile("\n ".join([*lines, "forward(key, value, timestamp, headers)"]), "<kstreamnb>", "exec"), names)
        process: Process = names["process"]
        return process


GetRow: TypeAlias = Callable[..., tuple[Any, int] | None]
"""``get(key)`` gives ``(value, timestamp)``, or None for no row; ``get(key, as_of_ms)`` where there are versions."""


class TableView(Protocol):
    """How to look up the current row of a table in a task, materialised or not.

    ``stores`` are the names of the stores that a node must be connected to in order to bind the view.
    """

    @property
    def stores(self) -> tuple[str, ...]:
        """Stores that the view reads."""

    @property
    def versioned(self) -> bool:
        """Whether the view answers ``as of`` a time (its store is versioned)."""

    def bind(self, context: BindContext) -> GetRow:
        """How to look up a row by its key."""
