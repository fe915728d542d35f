"""A source of records in a file, already divided into batches, in a module that Spark's workers can import."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kstreamnb.kafka.batch_offsets import Offsets, ranges
from kstreamnb.spark.contracts import Chunk, OffsetSource


@dataclass
class FileOffsetSource(OffsetSource):
    """Records in a file, already divided into batches.

    ``write`` makes the file; each batch is a mapping from (topic, partition) to records
    ``(timestamp, key, value, headers)`` or ``(timestamp, key, value, headers, order)``.
    """

    path: Path
    raw: bool = False
    _content: Any = field(default=None, repr=False)

    @classmethod
    def write(cls, path: Path, batches: Sequence[dict[tuple[str, int], list[tuple[Any, ...]]]]) -> FileOffsetSource:
        """Keep batches in a new file."""
        records: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
        ends: list[Offsets] = []
        for batch in batches:
            for place, rows in batch.items():
                records.setdefault(place, []).extend(rows)
            end: Offsets = {}
            for (topic, partition), rows in records.items():
                end.setdefault(topic, {})[partition] = len(rows)
            ends.append(end)
        path.write_bytes(pickle.dumps((records, ends), 5))
        return cls(path)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "raw": False, "_content": None}

    def content(self) -> tuple[dict[tuple[str, int], list[tuple[Any, ...]]], list[Offsets]]:
        """Return all records, and the end of each batch."""
        if self._content is None:
            self._content = pickle.loads(self.path.read_bytes())
        return self._content

    def beginning(self) -> Offsets:
        """Return zero for every partition."""
        return {topic: dict.fromkeys(parts, 0) for topic, parts in self.end().items()}

    def end(self) -> Offsets:
        """Return the end of the last batch."""
        return self.content()[1][-1]

    def glance(self) -> Offsets:
        """Return the end of the last batch."""
        return self.end()

    def batch_end(self, start: Offsets, end: Offsets, limit: int) -> Offsets:
        """Return the end of the first batch after ``start``."""
        for candidate in self.content()[1]:
            full = {topic: {p: candidate.get(topic, {}).get(p, 0) for p in parts} for topic, parts in end.items()}
            if any(last > first for _, _, first, last in ranges(start, full)):
                return full
        return end

    def check(self, start: Offsets, end: Offsets) -> None:
        """Check nothing: a file loses no records."""

    def now_ms(self) -> int:
        """Return zero: only ticks in the file move the clock."""
        return 0

    def read(self, pieces: Sequence[tuple[str, int, int, int]]) -> Iterator[Chunk]:
        """Yield records in the form in which they were written."""
        records, _ = self.content()
        for topic, partition, start, end in pieces:
            rows = records[topic, partition][start:end]
            order = [row[4] for row in rows] if rows and len(rows[0]) > 4 else None
            yield topic, partition, [(start + at, *row[:4]) for at, row in enumerate(rows)], order
