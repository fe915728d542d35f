"""Exercises of the course: every solution and its correct variants are accepted; wrong answers get a reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.course.content import chapters, exercises
from kstreamnb.course.exercises import Verdict
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
def test_the_solution_of_an_exercise_and_its_variants_are_right(name: str) -> None:
    """The code folded below the hints runs as it is; a variant is another spelling of the same answer."""
    answers = [answer_in(ks.course.solution(name)), *ANSWERS[name].right]
    sentences = {number: ks.course.check(name, answer).sentence for number, answer in enumerate(answers)}
    assert {number: each for number, each in sentences.items() if not each.startswith("Right: ")} == {}


@pytest.mark.parametrize("name", EXERCISES)
def test_wrong_answers_are_refused_with_a_reason(name: str) -> None:
    """Each is a complete sentence that does not reveal the solution."""
    verdicts = {number: ks.course.check(name, answer) for number, answer in enumerate(ANSWERS[name].wrong)}
    assert {number: verdict.sentence for number, verdict in verdicts.items() if not is_refused(verdict)} == {}


def is_refused(verdict: Verdict) -> bool:
    """Return whether an answer is refused with a complete sentence that does not reveal the solution."""
    is_sentence = len(verdict.reason.split()) > 4 and verdict.reason.endswith((".", "?", "…"))
    return not verdict and is_sentence and verdict.exercise.solution not in verdict.reason


def test_an_exercise_without_an_answer_says_what_to_do() -> None:
    """The dots of a new notebook are not rejected for an unrelated reason."""
    reasons = {name: ks.course.check(name, ...).reason for name in EXERCISES}
    assert {name: each for name, each in reasons.items() if "replace the three dots by your answer" not in each} == {}


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
    with pytest.raises(ks.KStreamError, match='chapter "cuont" does not exist') as raised:
        ks.course.check("cuont.1", 1)
    assert 'did you mean "count"' in str(raised.value.hint)
    with pytest.raises(ks.KStreamError, match=r'exercise "count\.12" does not exist'):
        ks.course.check("count.12", 1)


def test_the_teachers_guide_has_every_chapter_and_every_answer() -> None:
    """Duration and goals for each notebook of the course, their sum, and each exercise's solution and reason."""
    guide = (Path(__file__).parents[3] / "notebooks" / "guide" / "teaching.md").read_text(encoding="utf-8")
    missing = [path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb")) if f"tutorial/{path.name}) | " not in guide]
    assert missing == []
    assert [name for name, exercise in EXERCISES.items() if exercise.solution not in guide] == []
    assert [name for name, exercise in EXERCISES.items() if f": {exercise.right}\n" not in guide] == []
    minutes = sum(map(int, re.findall(r"^\| \[\d\d_.*?\| (\d+) \|", guide, re.MULTILINE)))
    assert f"In total {minutes // 60} hours and {minutes % 60} minutes, " in guide


def test_a_function_without_a_return_or_a_last_step_is_told_what_is_missing() -> None:
    """The two most frequent slips of a first hour."""

    def forgotten(events: Any) -> None:
        events.group_by(lambda person, color: color).count()

    assert "returns nothing: is there a return?" in ks.course.check("count.2", forgotten).reason
    grouped = ks.course.check("count.2", lambda events: events.group_by(lambda person, color: color))
    assert "returns type KGroupedStream: is the last step missing?" in grouped.reason


def test_the_hint_of_an_error_is_part_of_the_verdict() -> None:
    """As the error has it outside an exercise."""
    for answer, hint in (
        (lambda events: events.groupBy(lambda person, color: color).count(), 'did you mean "group_by"?'),
        (lambda events: events.group_by(lambda color: color).count(), "write it as lambda key, value: …"),
    ):
        assert ks.course.check("count.2", answer).reason.endswith(f" Hint: {hint}")
    assert 'Hint: answer "fail", "continue" or an Error' in ks.course.check("bad.1", lambda context, error: None).reason


@pytest.mark.parametrize("name", ["count.2", "stateless.1", "joins.1", "storms.2"])
def test_a_stream_of_the_notebook_is_refused_and_left_as_it_is(name: str) -> None:
    """A function that ignores its argument would add a sink to the learner's own topology."""
    builder = ks.StreamsBuilder("exercise")
    events = builder.stream("input")
    assert "uses a stream of your notebook" in ks.course.check(name, lambda *given: events.filter(print)).reason
    assert "Sink" not in str(builder.build().describe())


@pytest.mark.parametrize(
    "error", [NotImplementedError("later"), AssertionError("no"), RuntimeError("stuck"), OSError("?")]
)
def test_whatever_an_answer_raises_is_part_of_the_verdict(error: Exception) -> None:
    """A notebook continues after it."""

    def broken(*arguments: object) -> object:
        raise error

    for name in ("flights.2", "bad.2", "count.2", "reprocess.1", "joins.1"):
        assert f"your answer does not run: {type(error).__name__}: {error}." in ks.course.check(name, broken).reason


def test_an_answer_that_changes_its_argument_spoils_no_later_check() -> None:
    """Checks share no data: the right answer stays right after a wrong one that empties its arguments."""

    def emptied(*arguments: Any) -> Any:
        for argument in (each for each in arguments if isinstance(each, dict)):
            for part in [*argument.values()]:
                emptied(part)
            argument.clear()

    for name in [name for name, exercise in EXERCISES.items() if exercise.entry.get("form") == "function"]:
        assert not ks.course.check(name, emptied)
        verdict = ks.course.check(name, answer_in(ks.course.solution(name)))
        assert verdict, verdict.sentence


def test_the_losses_of_flights_are_those_of_a_run() -> None:
    """The numbers in the reasons; a window of an hour with each grace, four partitions."""
    flights = ks.course.new_york_flights().with_partitions(4)
    departed = sum(flight.value["delay"] is not None for flight in flights)
    lost = {}
    for grace in ("30m", "1h", "2h", "3h", "6h"):
        builder = ks.StreamsBuilder("hourly")
        windowed = builder.stream("flights").filter(lambda _, flight: flight["delay"] is not None)
        windowed = windowed.group_by(lambda _, flight: flight["origin"])
        windowed.windowed_by(ks.TimeWindows.of(size="1h", grace=grace)).count()
        with ks.TopologyTestDriver(builder.build(), partitions={"flights": 4}) as driver:
            driver.pipe(flights)
            lost[grace] = sum(driver.metrics()["dropped-records-total"].values())
    for grace in ("30m", "1h", "2h", "3h"):
        share = f"{lost[grace]} of {departed:,}, which is {lost[grace] / departed:.2%}".replace("%", " %")
        assert f"{grace} loses {share}" in ks.course.check("flights.1", grace).reason
    assert lost["6h"] * 1000 < departed <= lost["3h"] * 1000


def test_the_grace_of_the_sales_is_the_smallest_that_keeps_the_tenth() -> None:
    """A window closes when stream time, 09:21 here, reaches its end plus the grace."""
    for grace, dropped in (("11m", 1), ("11m1ms", 0)):
        builder = ks.StreamsBuilder("sales")
        windows = ks.TimeWindows.of(size="10m", grace=grace)
        builder.stream("sales").group_by_key().windowed_by(windows).count()
        minutes = (1, 9, 11, 8, 15, 12, 21, 3)
        sales = ks.Sample.from_records([("sales", 0, n, at * 60_000, "shoe", 1) for n, at in enumerate(minutes)])
        assert len(ks.replay(builder.build(), sales).drops) == dropped
        assert bool(ks.course.check("sales.1", grace)) is not bool(dropped)


def test_the_session_timeout_is_the_smallest_that_survives_the_pause() -> None:
    """In the simulated group; a member that is silent for twelve seconds."""
    for timeout in ("12s", "13s"):
        group = ks.simulation.ConsumerGroup("flights", {"flights": 1}, session_timeout=timeout)
        group.join("Anna")
        group.crash("Anna")
        group.advance_wall_clock_time("12s")
        assert bool(ks.course.check("groups.2", timeout)) is not bool(group.events("timed out"))


def test_pairs_may_be_lists() -> None:
    """As JSON has them."""
    assert ks.course.check("count.1", [["x", 1], ["y", 1], ["x", 2], ["y", 2]])


def test_seasons_without_data_are_refused() -> None:
    """An empty sample would look like a quiet year."""
    for first, last in ((1999, 2020), (2001, 2021), (2010, 2005)):
        with pytest.raises(ks.KStreamError, match="seasons must be within 2001 to 2020"):
            ks.course.atlantic_storms(first, last)
