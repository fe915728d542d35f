"""The form of a prediction: a choice, a number or a table to fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from kstreamnb.notebook.widgets.base import Facts, FactsWidget, esm, named


class QuestionForm(FactsWidget):
    """A question with fields for its answer; the course keeps the answer.

    Args:
        label: the question.
        facts: returns the question and the answer so far.
        give: keeps an answer.
        show: returns the question as text and as HTML.
    """

    _esm = esm("question")

    def __init__(
        self, label: str, facts: Callable[[], Facts], give: Callable[[object], None], show: Callable[[], dict[str, str]]
    ) -> None:
        self._question, self._give, self._forms = facts, give, show
        super().__init__(label)

    def make_facts(self) -> Facts:
        """Return the question and the answer so far."""
        return self._question()

    def forms(self) -> dict[str, str]:
        """Return the question as text and as HTML."""
        return self._forms()

    def answer(self, answer: object) -> None:
        """Keep an answer."""
        self._give(answer)

    commands: ClassVar = named(answer)
