"""The output of a batch, as records or as columns, and its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, repeat
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kstreamnb.core.record import Headers

__all__ = ["OutputColumns", "OutputRecord", "OutputBatch", "columns_of"]

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
