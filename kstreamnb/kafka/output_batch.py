"""The output of a batch, as records or as columns, and its outcome."""

from __future__ import annotations

import zlib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, repeat
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kstreamnb.core.record import Headers
from kstreamnb.errors import CheckpointError, DataLossError

NO_MARKERS = "reset the application, or give it a new id and checkpoint"
"""The remedy if it is unknown which batches a destination has."""

OutputRecord: TypeAlias = tuple[str, int, int, object, object, Headers]
"""``(topic, partition, timestamp, key, value, headers)``; for Kafka key and value are bytes or None."""


class OutputColumns(NamedTuple):
    """Records of one topic as columns of equal length; ``headers`` is None if no record has any."""

    topic: str
    partitions: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.int64]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers] | None = None

    def records(self) -> Iterator[OutputRecord]:
        """Yield the records one by one."""
        headers = repeat(()) if self.headers is None else self.headers
        rows = self.partitions.tolist(), self.timestamps.tolist(), self.keys, self.values, headers
        return zip(repeat(self.topic), *rows, strict=False)


@dataclass(frozen=True)
class OutputBatch:
    """The outcome of a batch: published, or suppressed because it was published already.

    ``differs`` means that a replay computed other records than were published: the topology is not deterministic.
    """

    batch: int
    records: int
    suppressed: bool = False
    differs: bool = False


def columns_of(records: Iterable[OutputRecord]) -> Iterator[OutputColumns]:
    """Group consecutive records of one topic into columns.

    Example:
        >>> [each] = columns_of([("out", 0, 5, b"a", b"1", ()), ("out", 1, 6, b"b", None, ())])
        >>> each.topic, each.partitions.tolist(), each.keys, each.values, each.headers
        ('out', [0, 1], [b'a', b'b'], [b'1', None], None)
    """
    for topic, group in groupby(records, itemgetter(0)):
        _, partitions, timestamps, keys, values, headers = map(list, zip(*group, strict=True))
        numbers, times = np.asarray(partitions, np.int64), np.asarray(timestamps, np.int64)
        yield OutputColumns(topic, numbers, times, keys, values, headers if any(headers) else None)


@dataclass(frozen=True)
class Marker:
    """The last batch of a query in Kafka or another destination.

    ``source`` and ``output`` are checksums of its input offsets and of its records. ``lacking`` has the partitions
    whose records have to be published again: the cluster has lost the end of their transaction.
    """

    query: str
    batch: int
    source: str
    output: str
    lacking: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class BatchHistory:
    """The batches of a checkpoint, to compare with the last one that a destination has.

    Attributes:
        application: id of the application.
        query: identity of the checkpoint.
        again: by number, the input of older batches that may come again after their state was rolled back.
        without_output: numbers of batches that never had input, such as a rescaling.
        place: the name of the destination in errors.
        lost: why the destination may be empty, for the error's detail.
    """

    application: str
    query: str
    again: Mapping[int, str]
    without_output: Container[int]
    place: str
    lost: str

    def refuse_foreign(self, last: Marker | None, way_out: str = "reset the application") -> None:
        """Raise CheckpointError if the destination has batches of another query; ``way_out`` is the hint's last part.

        Their numbers say nothing about the batches of this query: it would skip its own, or overwrite some of the
        others.
        """
        if last is not None and last.query != self.query:
            fact = f'application "{self.application}" belongs to another checkpoint'
            detail = f"{self.place} has batch {last.batch} of query {last.query}; this one is query {self.query}"
            hint = f"use the checkpoint of that query, give the application a new id, or {way_out}"
            raise CheckpointError(fact, detail=detail, hint=hint)

    def refuse_lost(self, last: Marker | None, batch: int) -> None:
        """Raise DataLossError if the destination has no batch although there were some before ``batch``."""
        if last is None and not all(number in self.without_output for number in range(batch)):
            fact = f'batch {batch} of "{self.application}" follows no earlier batch in {self.place}'
            raise DataLossError(fact, detail=self.lost, hint=NO_MARKERS)

    def is_replay(self, last: Marker | None, batch: int, entry: str) -> bool:
        """Return whether the destination has a batch already.

        Args:
            last: the last batch that the destination has.
            batch: the number of the batch that comes now.
            entry: its entry in the query's log of input offsets.

        Raises:
            CheckpointError: the checkpoint is another one or an older copy, or the batch had other input.
            DataLossError: batches before this one are missing in the destination.
        """
        self.refuse_lost(last, batch)
        if last is None:
            return False
        self.refuse_foreign(last)
        if batch < last.batch and self.again.get(batch) == entry:
            return True
        if batch < last.batch:
            fact = f'batch {batch} of "{self.application}" came after batch {last.batch} was published to {self.place}'
            detail = "the checkpoint is an older copy"
            raise CheckpointError(fact, detail=detail, hint="use the latest checkpoint, or reset the application")
        source = checksum_of(entry)
        if batch == last.batch and source != last.source:
            fact = f'batch {batch} of "{self.application}" was published with different input'
            detail = f"its input offsets have checksum {source}, but {self.place} has {last.source}"
            hint = "use the checkpoint that wrote it, or reset the application"
            raise CheckpointError(fact, detail=detail, hint=hint)
        self._refuse_gap(last.batch - bool(last.lacking), batch)
        return batch == last.batch and not last.lacking

    def _refuse_gap(self, last: int, batch: int) -> None:
        missing = [number for number in range(last + 1, batch) if number not in self.without_output]
        if missing:
            alone, of = len(missing) == 1, f'of "{self.application}"'
            span = f"batch {missing[0]} {of} is" if alone else f"batches {missing[0]} to {missing[-1]} {of} are"
            detail = f"{self.place} has batch {last}, the checkpoint continues with batch {batch}: it was restored from"
            detail += " an older copy, is a mirror that lags, or got these batches in another way"
            hint = f"restore {self.place} up to there, or reset the application"
            raise DataLossError(f"{span} missing in {self.place}", detail=detail, hint=hint)


def commits_topic(application: str) -> str:
    """Return the topic with the markers and claims of an application that was deployed to Spark."""
    return f"{application}-commits"


def checksum_of(entry: str) -> str:
    """Return the checksum of an entry in the log of input offsets."""
    return f"{zlib.crc32(entry.encode()):08x}"
