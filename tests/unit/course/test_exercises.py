"""Exercises of the course: every solution and its correct variants are accepted; wrong answers get a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.course.content import chapters, exercises
from tests.unit.course.answers import ANSWERS, NAMES

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"
EXERCISES = {name: exercise for chapter in chapters() for name, exercise in exercises(chapter).items()}


def answer_in(code: str) -> object:
    """Run the code of a solution, and return what it assigns or defines last."""
    variables: dict[str, object] = dict(NAMES)
    exec(code, variables)
    return list(variables.values())[-1]


def test_every_exercise_has_answers_here() -> None:
    """At least three correct variants and five wrong answers."""
    assert ANSWERS.keys() == EXERCISES.keys()
    assert [name for name, answers in ANSWERS.items() if len(answers.right) < 3 or len(answers.wrong) < 5] == []


@pytest.mark.parametrize("name", EXERCISES)
def test_the_solution_of_an_exercise_is_right(name: str) -> None:
    """The code folded below the hints runs as it is."""
    verdict = ks.course.check(name, answer_in(ks.course.solution(name)))
    assert verdict, verdict.sentence
    assert verdict.sentence.startswith("Right: ")


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name in EXERCISES for number in range(len(ANSWERS[name].right))]
)
def test_a_right_variant_is_accepted(name: str, number: int) -> None:
    """Another spelling of the same answer."""
    verdict = ks.course.check(name, ANSWERS[name].right[number])
    assert verdict, verdict.sentence


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name in EXERCISES for number in range(len(ANSWERS[name].wrong))]
)
def test_a_wrong_answer_is_refused_with_a_reason(name: str, number: int) -> None:
    """Each is a complete sentence that does not reveal the solution."""
    verdict = ks.course.check(name, ANSWERS[name].wrong[number])
    assert not verdict
    assert len(verdict.reason.split()) > 4
    assert verdict.reason.endswith((".", "?", "…"))
    assert verdict.exercise.solution not in verdict.reason


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_without_an_answer_says_what_to_do(name: str) -> None:
    """The dots of a new notebook are not rejected for an unrelated reason."""
    assert "replace the three dots by your answer" in ks.course.check(name, ...).reason


def test_a_verdict_folds_hints_in_steps_and_then_the_solution() -> None:
    """Each hint is nested in the previous one; the solution is innermost."""
    html = ks.course.check("count.1", ...)._repr_mimebundle_()["text/html"]
    places = [html.index(text) for text in ("Hint 1 of 2", "Hint 2 of 2", "Solution")]
    assert places == sorted(places)
    assert html.count("<details>") == html.count("</details>") == 3
    assert html.index("</details>") > places[-1]
    assert (
        "<details>"
        not in ks.course.check("count.1", answer_in(ks.course.solution("count.1")))._repr_mimebundle_()["text/html"]
    )


def test_hints_come_in_steps_and_the_last_is_repeated() -> None:
    """Plain text for consoles, which cannot fold."""
    first, second, third = (ks.course.hint("count.2", step) for step in (1, 2, 3))
    assert first != second == third


def test_an_unknown_name_is_an_error_with_a_suggestion() -> None:
    """The name contains the chapter and the number within it."""
    with pytest.raises(ks.KStreamError, match='there is no chapter "cuont"') as raised:
        ks.course.check("cuont.1", 1)
    assert 'did you mean "count"' in str(raised.value.hint)
    with pytest.raises(ks.KStreamError, match=r'there is no exercise "count\.12"'):
        ks.course.check("count.12", 1)


def test_the_teachers_guide_has_every_chapter_and_every_answer() -> None:
    """Duration and goals for each notebook of the course, and the solution of each exercise verbatim."""
    guide = (Path(__file__).parents[3] / "notebooks" / "guide" / "teaching.md").read_text(encoding="utf-8")
    missing = [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb")) if f"tutorial/{path.name}) | " not in guide]
    assert missing == []
    assert [name for name, exercise in EXERCISES.items() if exercise.solution not in guide] == []


def test_a_function_without_a_return_or_a_last_step_is_told_what_is_missing() -> None:
    """The two most frequent slips of a first hour."""

    def forgotten(events: Any) -> None:
        events.group_by(lambda person, color: color).count()

    assert "returns nothing: is there a return?" in ks.course.check("count.2", forgotten).reason
    grouped = ks.course.check("count.2", lambda events: events.group_by(lambda person, color: color))
    assert "returns a KGroupedStream: is the last step missing?" in grouped.reason


def test_pairs_may_be_lists() -> None:
    """As JSON has them."""
    assert ks.course.check("count.1", [["x", 1], ["y", 1], ["x", 2], ["y", 2]])


def test_seasons_without_data_are_refused() -> None:
    """An empty sample would look like a quiet year."""
    for first, last in ((1999, 2020), (2001, 2021), (2010, 2005)):
        with pytest.raises(ks.KStreamError, match="seasons must be within 2001 to 2020"):
            ks.course.atlantic_storms(first, last)
