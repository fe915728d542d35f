"""Partitions by their offsets: written, visible, read and committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kstreamnb.core.tables import Tabular


@dataclass(frozen=True)
class OffsetRow:
    """One partition: its records are ``start`` to ``end`` - 1, readers see those below ``high``.

    ``owner`` is the member of a group that reads it; ``committed`` and ``position`` are the group's, None without one.
    """

    partition: str
    start: int
    high: int
    end: int
    owner: str = ""
    committed: int | None = None
    position: int | None = None
    marks: dict[int, list[str]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        offsets = {"committed": self.committed, "position": self.position, "high watermark": self.high, "end": self.end}
        for name, offset in offsets.items():
            if offset is not None:
                self.marks.setdefault(offset, []).append(name)

    def words(self) -> str:
        """Return the row as a sentence."""
        marks = ", ".join(f"{' and '.join(names)} {offset}" for offset, names in sorted(self.marks.items()))
        return f"{self.partition}{f' read by {self.owner}' if self.owner else ''}: {marks}"


class OffsetTable(Tabular):
    """A table that is shown with a picture of its partitions."""

    __slots__ = ()

    @property
    def offset_rows(self) -> Iterable[OffsetRow]:
        """The partitions to draw."""
        raise NotImplementedError
