"""Interfaces of a query's source, sink and companions, and the values that they exchange with the query."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

from pyspark.sql import SparkSession

from kstreamnb.errors import ApplicationStateError
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.kafka.output_batch import OutputBatch
from kstreamnb.kafka.storage.checkpoint_files import CheckpointFiles, Claim, FileClaim
from kstreamnb.spark.execution.batch_output import BatchOutput
from kstreamnb.spark.execution.rows import RowFunction
from kstreamnb.spark.planning.deployment import Deployment

Companion: TypeAlias = Callable[[Callable[[], bool]], object]
"""Runs beside a query in its own thread from each start; its argument tells whether that start is still the last."""

PREPARED = "kstreamnb.prepared"
"""The local property of Spark with what executors need to know of a batch."""

Chunk: TypeAlias = tuple[str, int, Sequence[tuple[Any, ...]], Sequence[int] | None]
"""Topic, partition, records ``(offset, timestamp, key, value, headers)``, and their order if it is not event time."""


class OffsetSource(Protocol):
    """A source of records with offsets. Topics of a second application are called ``1/topic``, and so on.

    ``raw``: keys and values are Kafka's bytes instead of wire form. ``removed``: of the pieces that were read last, the
    parts that no longer existed.
    """

    raw: bool
    removed: Sequence[tuple[str, int, int, int]] = ()

    def beginning(self) -> Offsets:
        """Return the offsets at which a new query starts."""

    def end(self) -> Offsets:
        """Return the offsets after the last records that exist now."""

    def follow(self, begin: Offsets) -> None:
        """Start to receive the records after these offsets as they arrive; by default nothing is received."""
        return

    def arrived(self, begin: Offsets, seconds: float) -> Offsets | None:
        """Return the offsets after the records that have arrived, at the latest after that time.

        Returns None if `end` has to be looked up, because no records are received from there.
        """
        return None

    def close(self) -> None:
        """Receive no more records; by default there is nothing to end."""
        return

    def glance(self) -> Offsets | None:
        """Return `end` for displays: None if the broker does not answer soon; by default always."""
        return None

    def batch_end(self, start: Offsets, end: Offsets, limit: int) -> Offsets:
        """Return the end offsets of a batch of at most ``limit`` records."""

    def check(self, start: Offsets, end: Offsets) -> None:
        """Raise EngineError if records before ``end`` are lost; by default none ever are."""
        return

    def skipped(self, start: Offsets, end: Offsets) -> dict[str, dict[str, list[int]]]:
        """Return the first offset of each partition's gap, and the one after it; empty by default."""
        return {}

    def now_ms(self) -> int:
        """Return the wall clock for the next batch, in ms."""

    def read(self, pieces: Sequence[tuple[str, int, int, int]]) -> Iterator[Chunk]:
        """Read pieces ``(topic, partition, from, to)``; yields the chunks of one partition in order."""


@dataclass(frozen=True)
class QueryBatch:
    """The result of one micro-batch: number, entry in the log of input offsets, end positions, wall clock, output.

    ``seconds`` is how long its tasks took.
    """

    number: int
    source: str
    positions: Offsets
    clock_ms: int
    output: BatchOutput
    seconds: float = 0.0

    @classmethod
    def of(cls, number: int, source: str, output: BatchOutput, seconds: float = 0.0) -> QueryBatch:
        """Return a batch with the positions and the clock of its entry in Spark's log of offsets."""
        end = json.loads(source)
        return cls(number, source, from_json(end["offsets"]), int(end["clock"]), output, seconds)


class QuerySink:
    """Base class of the destinations of a query's output; after a failure it may get the same batch again.

    ``kafka``: it takes keys and values as Kafka's bytes instead of wire form. ``again``: by number, the entries in the
    log of offsets of batches that run again after a repair. ``owner``: the claim of the query's start.
    ``finished``: the last batch that the checkpoint calls finished, -1 before the first.
    ``without_output``: the batches that never had input. ``repeats``: what it repeats when a batch comes again; empty
    if it recognizes the batch. ``deployment`` is what the query runs, in the session ``spark``; both are None before
    `deploy`.
    """

    repeats: ClassVar[str] = ""
    kafka: bool = False
    again: Mapping[int, str] = {}
    without_output: Container[int] = ()
    finished: int = -1
    owner: Claim | None = None
    deployment: Deployment | None = None
    spark: SparkSession | None = None

    @property
    def pipelined(self) -> bool:
        """True if another thread may publish a batch while Spark computes the next one."""
        return False

    def attach(self, deployment: Deployment, spark: SparkSession) -> None:
        """Bind the sink to a query, whose identity is the deployment's name; called before anything else.

        Args:
            deployment: what `deploy` starts.
            spark: the session that it runs in.
        """
        self.deployment, self.spark = deployment, spark

    @property
    def bound(self) -> Deployment:
        """The query's deployment; raises ApplicationStateError before there is one."""
        if self.deployment is None:
            raise ApplicationStateError("the sink has no query yet", hint="pass it to deploy(…, sink=…)")
        return self.deployment

    def claim(self, files: CheckpointFiles) -> Claim:
        """Write the claim of a new start; called before `open`.

        Args:
            files: the files of the query's checkpoint.
        """
        return FileClaim(files)

    def open(self) -> None:
        """Prepare for batches; called before the query starts and before each restart."""

    def on_executors(self) -> RowFunction | None:
        """Return the last stage of each batch, which publishes on executors; None if the driver gets the output."""

    def prepare(self, batch: int, source: str) -> str:
        """Return what that stage needs to know of a batch; called before the tasks of a batch run.

        Args:
            batch: its number.
            source: its entry in the log of input offsets.
        """
        return ""

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Write one batch; returns what was written."""
        raise NotImplementedError

    def close(self) -> None:
        """Close connections; a publication in progress is aborted if possible."""


@dataclass(frozen=True)
class StreamSettings:
    """How a query runs, over the files of its checkpoint.

    Units: ``trigger_ms`` is ms between batches, 0 for none, None for a single run over the records that exist;
    ``tick_ms`` is ms between wall-clock ticks while no records arrive, 0 for none; ``max_records`` is records a batch,
    0 for no limit.
    """

    files: CheckpointFiles
    trigger_ms: int | None = 0
    max_records: int = 0
    tick_ms: int = 0
    readers: int = 2


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Convert offsets to JSON's form, in which keys are text."""
    return {topic: {str(part): offset for part, offset in parts.items()} for topic, parts in offsets.items()}


def from_json(offsets: dict[str, dict[str, int]]) -> Offsets:
    """Convert offsets back from `to_json`."""
    return {topic: {int(part): offset for part, offset in parts.items()} for topic, parts in offsets.items()}
