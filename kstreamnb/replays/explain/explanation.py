"""Defines the answer to a question: text, the numbers behind it, and the steps to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kstreamnb.core.displayed import Displayed
from kstreamnb.core.tables import FrozenSequence
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.source_location import SourceLocation
from kstreamnb.topology.nodes import ProcessorNode


@dataclass(frozen=True)
class Explanation(Displayed):
    """One answer.

    Attributes:
        answer: the answer, in one or two sentences.
        because: further facts, a sentence each.
        numbers: the numbers behind the answer; times in ms.
        node: the node in question.
        task: the task in question.
        steps: steps of the run to look at.
        origin: the user's line that declared the node.
        remedy: a change that would help.
    """

    answer: str
    because: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    node: str | None = None
    task: str | None = None
    steps: tuple[int, ...] = ()
    origin: SourceLocation | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        steps = f"Steps: {', '.join(map(str, self.steps))}" if self.steps else None
        lines = [self.answer, *(f"  {fact}" for fact in self.because)]
        lines += [f"  {line}" for line in (self.remedy, steps, f"At: {self.origin}" if self.origin else None) if line]
        return "\n".join(lines)


class Explanations(FrozenSequence[Explanation], Displayed):
    """Answers in the order of the run; ``nothing`` is the text shown if there are none."""

    def __init__(self, result: Iterable[Explanation], nothing: str) -> None:
        self._items, self.nothing = tuple(result), nothing

    def __str__(self) -> str:
        return "\n".join(map(str, self._items)) or self.nothing

    def __repr__(self) -> str:
        return str(self)


def described(run: RecordedRun, node: str) -> str:
    """Return a node as text: the DSL's verb before its name."""
    result = run.topology.nodes.get(node)
    if result is None:
        return f'store "{node}"'
    word = result.dsl if isinstance(result, ProcessorNode) else None
    return f'{word or type(result).__name__.removesuffix("Node").lower()} "{node}"'
