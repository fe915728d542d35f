"""What a rewrite did to a graph, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """One application of one rule: names of the nodes it concerns before and after, and why it is right."""

    rule: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"{self.rule}: {', '.join(self.before)} → {', '.join(self.after) or 'nothing'}; {self.why}"
