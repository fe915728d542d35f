"""Predictions: a question before a run, the answer kept, and the difference explained after the run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.displayed import MimeTypes
from kstreamnb.core.formatting import format_value
from kstreamnb.core.tables import html_table, text_table
from kstreamnb.course.answers import flat, number_of
from kstreamnb.course.content import Question, entry_named, questions
from kstreamnb.course.forms import HasForms, box, listing
from kstreamnb.errors import KStreamError

_BLUE = "#2f81f7"
_given: dict[str, object] = {}
"""Answers by the name of their question: a prediction is made in one cell and compared in another."""


@dataclass(frozen=True)
class Prediction(HasForms):
    """A question to answer before the run; in a notebook it displays as a form."""

    question: Question

    @property
    def answer(self) -> object:
        """The answer given so far; None without one."""
        return _given.get(self.question.name)

    def give(self, answer: object) -> None:
        """Keep an answer; the number of an option stands for its text.

        Args:
            answer: the answer, or the number of an option.

        Raises: KStreamError if the question has options and the answer is none of them.
        """
        options = self.question.options
        named = {_folded(option): option for option in options} | {str(at): each for at, each in enumerate(options, 1)}
        if options and answer not in options:
            if _folded(answer) not in named:
                fact = f"expected one of the options 1 to {len(options)}, got {format_value(answer)}"
                raise KStreamError(fact, hint=self._call())
            answer = named[_folded(answer)]
        _given[self.question.name] = answer

    def __repr__(self) -> str:
        question = self.question
        lines = [f"Predict: {question.text}"]
        lines += [f"  {number}. {option}" for number, option in enumerate(question.options, 1)]
        lines += [f"  {row}: …" for row in question.rows]
        given = self.answer is not None
        lines.append(f"Your answer: {_shown(self.answer)}" if given else f"Answer here: {self._call()}")
        return "\n".join(lines)

    def _call(self) -> str:
        question = self.question
        example = "number"
        if question.options:
            example = f"1 to {len(question.options)}"
        elif question.rows:
            example = f'{{"{question.rows[0]}": …}}'
        return f'ks.course.predict("{question.name}", {example})'

    def forms(self) -> dict[str, str]:
        """Return the prediction as text and as HTML, for readers without a kernel."""
        question = self.question
        options = listing(question.options) if question.options else ""
        rows = html_table(["", "your answer"], [[row, "…"] for row in question.rows]) if question.rows else ""
        how = f"<p>Answer here: <code>{escape(self._call())}</code></p>"
        return {"text/plain": repr(self), "text/html": box(_BLUE, f"Predict: {question.text}", options, rows, how)}

    def _repr_mimebundle_(self, include: MimeTypes = None, exclude: MimeTypes = None) -> object:
        try:
            from kstreamnb.notebook.widgets.question import QuestionForm
        except ImportError:  # no widgets: the answer is the second argument
            return super()._repr_mimebundle_(include, exclude)

        form = QuestionForm(self.question.text, self._facts, self.give, self.forms)
        return form._repr_mimebundle_(include=include, exclude=exclude)

    def _facts(self) -> dict[str, object]:
        question = self.question
        answer = dict(self.answer) if isinstance(self.answer, Mapping) else self.answer
        choices = {"options": list(question.options), "rows": list(question.rows)}
        return {"name": question.name, "text": question.text, "answer": answer, **choices}


@dataclass(frozen=True)
class Comparison(HasForms):
    """A prediction beside the result of the run, and what the difference means."""

    question: Question
    answer: object
    actual: object

    @property
    def right(self) -> bool:
        """True if the prediction and the run agree."""
        return _same(self.answer, self.actual)

    @property
    def verdict(self) -> str:
        """The prediction beside the result, in one sentence."""
        if self.answer is None:
            given = "this" if self.question.rows else _shown(self.actual)
            return f"You made no prediction; the run gave {given}."
        if self.question.rows:
            wrong = [row for row in self.question.rows if not _same(_row(self.answer, row), _row(self.actual, row))]
            return f"You predicted otherwise: {', '.join(wrong)}." if wrong else "As you predicted."
        if self.right:
            return f"As you predicted: {_shown(self.actual)}."
        return f"You predicted {_shown(self.answer)}; the run gave {_shown(self.actual)}."

    @property
    def explanation(self) -> str:
        """The missing idea of a wrong prediction, then the reason for the result."""
        number = number_of(self.answer)
        given = _shown(self.answer) if number is None else f"{number:g}"
        overlooked = "" if self.right else self.question.overlooked.get(given, "")
        return f"{overlooked} {self.question.because}".strip()

    def _rows(self) -> list[list[str]]:
        answer, actual = self.answer, self.actual
        return [[row, _shown(_row(answer, row)), _shown(_row(actual, row))] for row in self.question.rows]

    def __repr__(self) -> str:
        table = [text_table(["", "you", "the run"], self._rows())] if self.question.rows else []
        return "\n".join([self.verdict, *table, self.explanation])

    def forms(self) -> dict[str, str]:
        """Return the comparison as text and as HTML."""
        table = html_table(["", "you", "the run"], self._rows()) if self.question.rows else ""
        html = box(_BLUE, self.verdict, table, f"<p>{escape(self.explanation)}</p>")
        return {"text/plain": repr(self), "text/html": html}


def predict(name: str, answer: object = None) -> Prediction:
    """Ask a question of the course before you run its code.

    In a notebook with widgets the question is a form; elsewhere the answer is the second argument. The answer is kept
    until the kernel stops, so that `compare` can explain the difference.

    Args:
        name: the question, such as ``"count.updates"``: its chapter and a word.
        answer: a number; the text or the number of an option; or a dict with a string for each row of a table. Default:
            None, the prediction stays open.

    Raises: KStreamError for an unknown name, and for an answer that is not among the options.

    Example:
        >>> from kstreamnb import course
        >>> course.predict("count.updates", 3).answer
        3
    """
    check_arguments(predict, locals())
    prediction = Prediction(entry_named("question", name, questions))
    if answer is not None:
        prediction.give(answer)
    return prediction


def compare(name: str, actual: object) -> Comparison:
    """Compare a prediction with the result of the run, and explain the difference.

    Args:
        name: the question, as given to `predict`.
        actual: the result of your run, computed from your records: edit them, and the comparison follows.

    Raises: KStreamError for an unknown name.

    Example:
        >>> from kstreamnb import course
        >>> _ = course.predict("count.updates", 5)
        >>> print(course.compare("count.updates", 5).verdict)
        As you predicted: 5.
    """
    check_arguments(compare, locals())
    return Comparison(entry_named("question", name, questions), _given.get(name), actual)


def _row(answer: object, row: str) -> object:
    return answer.get(row, "") if isinstance(answer, Mapping) else ""


def _shown(value: object) -> str:
    return value if isinstance(value, str) else format_value(value)


def _same(answer: object, actual: object) -> bool:
    if isinstance(answer, Mapping) and isinstance(actual, Mapping):
        return all(_same(answer.get(row), actual[row]) for row in actual)
    if answer is None or answer == actual:
        return answer == actual
    number = number_of(answer)
    return _folded(answer) == _folded(actual) or (number is not None and number == number_of(actual))


def _folded(value: object) -> str:
    """Return an answer without what does not matter: capitals, spaces, quotes, brackets, commas."""
    return "".join(re.findall(r"[\w.-]+", flat(value).lower()))
