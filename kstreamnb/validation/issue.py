"""Defines the findings of a check: severity, subject and remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from kstreamnb.core.formatting import pluralize
from kstreamnb.core.tables import FrozenSequence, Tabular
from kstreamnb.source_location import SourceLocation

Severity = Literal["error", "warning", "hint"]
_ORDER = ("error", "warning", "hint")


@dataclass(frozen=True)
class Issue:
    """One finding of a check.

    An "error" prevents the start or makes results wrong, a "warning" may do so, a "hint" is about wasted time or space.
    """

    severity: Severity
    subject: str
    fact: str
    remedy: str = ""
    origin: SourceLocation | None = None

    def __str__(self) -> str:
        at = f"At: {self.origin}" if self.origin else ""
        return "\n  ".join(filter(None, [f"{self.severity}: {self.subject}: {self.fact}", self.remedy, at]))


class Issues(FrozenSequence[Issue], Tabular):
    """All findings, the most severe first; false if there are none."""

    header = ("", "where", "what", "remedy", "declared at")

    def __init__(self, issues: Iterable[Issue]) -> None:
        self._items = tuple(sorted(dict.fromkeys(issues), key=lambda each: _ORDER.index(each.severity)))

    def __repr__(self) -> str:
        return str(self)

    @property
    def errors(self) -> tuple[Issue, ...]:
        """Findings to fix before the application can run."""
        return tuple(each for each in self if each.severity == "error")

    @property
    def title(self) -> str:
        """Count the findings by severity."""
        counts = [(sum(each.severity == word for each in self), word) for word in _ORDER]
        return ", ".join(pluralize(number, word) for number, word in counts if number) or "nothing was found"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield each finding."""
        for each in self:
            yield each.severity, each.subject, each.fact, each.remedy, "" if each.origin is None else str(each.origin)
