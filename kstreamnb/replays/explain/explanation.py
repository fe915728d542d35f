"""Defines the answer to a question: text, the numbers behind it, and the steps to look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from kstreamnb.core.displayed import Displayed
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.source_location import SourceLocation
from kstreamnb.topology.nodes import ProcessorNode

_SHOWN = 10


@dataclass(frozen=True, repr=False)
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


class Explanations(Sequence[Explanation], Displayed):
    """Answers in the order of the run, of which the first are displayed; ``nothing`` is the text if there are none.

    A function among them returns an answer that is expensive to compute; it is called when the answer is looked at.
    """

    def __init__(self, result: Iterable[Explanation | Callable[[], Explanation]], nothing: str) -> None:
        self._answers = list(result)
        self.nothing = nothing

    @overload
    def __getitem__(self, index: int) -> Explanation: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Explanation, ...]: ...
    def __getitem__(self, index: int | slice) -> Explanation | tuple[Explanation, ...]:
        if isinstance(index, slice):
            return tuple(self[at] for at in range(*index.indices(len(self))))
        answer = self._answers[index]
        if not isinstance(answer, Explanation):
            answer = self._answers[index] = answer()
        return answer

    def __len__(self) -> int:
        return len(self._answers)

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.shown, *self.more()))) or self.nothing

    @property
    def shown(self) -> tuple[Explanation, ...]:
        """The answers that are displayed."""
        return self[:_SHOWN]

    def more(self) -> list[str]:
        """Return a line about the answers that are not displayed, with the numbers of all reasons."""
        if len(self) <= _SHOWN:
            return []
        known = (each.numbers for each in self._answers if isinstance(each, Explanation))
        reasons = Counter(str(numbers["reason"]) for numbers in known if "reason" in numbers)
        counts = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
        return [f"{_SHOWN} of {len(self):,}{f' ({counts})' if counts else ''}; iterate over the result for all of them"]

    def __repr__(self) -> str:
        return str(self)


def described(run: RecordedRun, node: str) -> str:
    """Return a node as text: the DSL's verb before its name."""
    result = run.topology.nodes.get(node)
    if result is None:
        return f'store "{node}"'
    word = result.dsl if isinstance(result, ProcessorNode) else None
    return f'{word or type(result).__name__.removesuffix("Node").lower()} "{node}"'
