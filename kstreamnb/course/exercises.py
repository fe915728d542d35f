"""Exercises that check themselves: a wrong answer gets its reason, hints in steps, and a folded solution."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from kstreamnb.core.arguments import check_arguments
from kstreamnb.course.answers import Refused, failure
from kstreamnb.course.content import Exercise, entry_named, exercises
from kstreamnb.course.forms import HasForms, box, folded

_GREEN, _AMBER = "#2c974b", "#a87000"
_NO_ANSWER = "replace the three dots by your answer, then run this cell again."


@dataclass(frozen=True)
class Verdict(HasForms):
    """The result of a check; true if the answer is right.

    Attributes:
        exercise: what was asked.
        reason: why the answer is wrong; empty for a right one.
    """

    exercise: Exercise
    reason: str

    def __bool__(self) -> bool:
        return not self.reason

    @property
    def sentence(self) -> str:
        """The verdict in one line."""
        return f"Not yet: {self.reason}" if self.reason else f"Right: {self.exercise.right}"

    def __repr__(self) -> str:
        have = {"hint": self.exercise.hints, "solution": self.exercise.solution}
        calls = [f'ks.course.{call}("{self.exercise.name}")' for call, texts in have.items() if texts and self.reason]
        return self.sentence + (f"\nHelp: {', '.join(calls)}" if calls else "")

    def forms(self) -> dict[str, str]:
        """Return the verdict as text, and as HTML with the hints and the solution folded."""
        return {"text/plain": repr(self), "text/html": self._html()}

    def _html(self) -> str:
        if not self.reason:
            return box(_GREEN, f"✔ {self.sentence}")
        solution = self.exercise.solution
        help_text = folded("Solution", f"<pre>{escape(solution)}</pre>") if solution else ""
        for number, text in reversed(list(enumerate(self.exercise.hints, 1))):
            help_text = folded(f"Hint {number} of {len(self.exercise.hints)}", f"<p>{escape(text)}</p>", help_text)
        return box(_AMBER, f"✎ {self.sentence}", help_text)


def check(name: str, answer: object) -> Verdict:
    """Check the answer to an exercise of the course.

    Args:
        name: the exercise, such as ``"count.1"``: its chapter and number.
        answer: the answer; its kind depends on the exercise: a number, a string, a list, a function.

    Returns: a verdict, which is true for a right answer. For a wrong one it says why, and in a notebook it holds the
    hints and the solution, folded.

    Raises: KStreamError for an unknown name. An error inside an answer that is a function is part of the verdict.

    Example:
        >>> from kstreamnb import course
        >>> course.check("count.1", [("x", 1), ("y", 1), ("x", 2)])
        Not yet: four records go in, and each changes a count; a list of 3 is not right.
        Help: ks.course.hint("count.1"), ks.course.solution("count.1")
        >>> bool(course.check("count.1", [("x", 1), ("y", 1), ("x", 2), ("y", 2)]))
        True
    """
    check_arguments(check, locals())
    exercise = entry_named("exercise", name, exercises)
    if answer is ...:
        return Verdict(exercise, _NO_ANSWER)
    judge = exercise.judge()
    try:
        return Verdict(exercise, judge(answer))
    except Refused as refused:
        return Verdict(exercise, str(refused))
    except Exception as error:  # whatever the code of an answer raises
        return Verdict(exercise, f"your answer does not run: {failure(error)}")


def hint(name: str, step: int = 1) -> str:
    """Return a hint for an exercise.

    Args:
        name: the exercise, such as ``"count.1"``.
        step: 1 for the smallest hint; after the last one, the last is repeated. Default: 1.

    Raises: KStreamError for an unknown name.

    Example:
        >>> from kstreamnb import course
        >>> course.hint("count.1")
        'A count reports every change; how many records change one?'
    """
    check_arguments(hint, locals())
    hints = entry_named("exercise", name, exercises).hints or (f'exercise "{name}" has no hints',)
    return hints[min(max(step, 1), len(hints)) - 1]


def solution(name: str) -> str:
    """Return the code of a right answer to an exercise.

    Args:
        name: the exercise, such as ``"count.1"``.

    Raises: KStreamError for an unknown name.

    Example:
        >>> from kstreamnb import course
        >>> print(course.solution("count.1"))
        answer = [("x", 1), ("y", 1), ("x", 2), ("y", 2)]
    """
    check_arguments(solution, locals())
    return entry_named("exercise", name, exercises).solution or f'exercise "{name}" has no solution here'
