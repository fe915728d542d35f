"""What a check found: how bad it is, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, overload

from kstreamnb.core.formatting import pluralize
from kstreamnb.core.source_location import SourceLocation
from kstreamnb.core.tables import Tabular

__all__ = ["Issue", "Issues", "Severity"]

Severity = Literal["error", "warning", "hint"]
_ORDER = ("error", "warning", "hint")


@dataclass(frozen=True)
class Issue:
    """One thing that a check found.

    An "error" keeps the application from starting or makes results wrong, a "warning" may do so, a "hint" costs only
    time or space.
    """

    severity: Severity
    subject: str
    fact: str
    remedy: str = ""
    origin: SourceLocation | None = None

    def __str__(self) -> str:
        lines = [
            f"{self.severity}: {self.subject}: {self.fact}",
            self.remedy,
            f"At: {self.origin}" if self.origin else "",
        ]
        return "\n  ".join(line for line in lines if line)


class Issues(Sequence[Issue], Tabular):
    """All that was found, the worst first; false when there is nothing."""

    header = ("", "where", "what", "remedy", "declared at")

    def __init__(self, issues: Iterable[Issue]) -> None:
        self._items = tuple(sorted(dict.fromkeys(issues), key=lambda each: _ORDER.index(each.severity)))

    @overload
    def __getitem__(self, index: int) -> Issue: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Issue]: ...
    def __getitem__(self, index: int | slice) -> Issue | Sequence[Issue]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return str(self)

    @property
    def errors(self) -> tuple[Issue, ...]:
        """What has to be dealt with before the application can run."""
        return tuple(each for each in self if each.severity == "error")

    @property
    def title(self) -> str:
        """How much of what was found."""
        counts = [(sum(each.severity == word for each in self), word) for word in _ORDER]
        return ", ".join(pluralize(number, word) for number, word in counts if number) or "nothing was found"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Each finding."""
        for each in self:
            yield each.severity, each.subject, each.fact, each.remedy, "" if each.origin is None else str(each.origin)
