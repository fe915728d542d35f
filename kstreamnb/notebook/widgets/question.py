"""The form of a prediction: a choice, a number or a table to fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kstreamnb.notebook.widgets.base import Facts, FactsWidget, esm, named

if TYPE_CHECKING:
    from kstreamnb.course.predictions import Prediction


class QuestionForm(FactsWidget):
    """A question with fields for its answer; the course keeps the answer.

    Args:
        prediction: the question, and what keeps its answer.
    """

    _esm = esm("question")

    def __init__(self, prediction: Prediction) -> None:
        self._prediction = prediction
        super().__init__(prediction.question.text)

    def make_facts(self) -> Facts:
        """Return the question and the answer so far."""
        return self._prediction.facts()

    def forms(self) -> dict[str, str]:
        """Return the question as text and as HTML."""
        return self._prediction.forms()

    def answer(self, answer: object) -> None:
        """Keep an answer."""
        self._prediction.give(answer)

    commands: ClassVar = named(answer)
