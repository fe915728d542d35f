"""Predictions of the course: the answer is kept, and the difference from the run explained."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kstreamnb as ks
from kstreamnb.course.content import Question, chapters, questions
from kstreamnb.course.predictions import Comparison, Prediction
from tests.cases import for_every

QUESTIONS = {name: question for chapter in chapters() for name, question in questions(chapter).items()}
TABLE = Question("test.table", "Which?", "Because.", rows=("a", "b"))
CHOICE = Question("test.choice", "Which?", "Because.", options=("one", "two"), overlooked={"one": "Two is more."})


def test_an_answer_is_kept_until_it_is_compared() -> None:
    """Asking again in another cell keeps the answer."""
    ks.course.predict("count.updates", 3)
    assert ks.course.predict("count.updates").answer == 3
    comparison = ks.course.compare("count.updates", 5)
    assert comparison.verdict == "You predicted 3; the run gave 5."
    assert comparison.explanation.startswith("The store ends with one row for each key")


def test_the_number_of_an_option_stands_for_its_text() -> None:
    """A choice can be answered without a form."""
    assert ks.course.predict("count.pieces", 2).answer == "two"
    assert [ks.course.predict("count.pieces", answer).answer for answer in ("2", " Two ")] == ["two", "two"]
    assert ks.course.compare("count.pieces", "two").right


def test_the_text_of_an_option_is_not_the_number_of_another() -> None:
    """The form sends texts, and options may be numbers or signs."""
    for options in (("2", "4", "8"), ("0", "1", "2"), ("<", ">")):
        prediction = Prediction(Question("test.numbers", "Which?", "Because.", options=options))
        for number, option in enumerate(options, 1):
            prediction.give(option)
            assert prediction.answer == option
            prediction.give(number)
            assert prediction.answer == option


@pytest.mark.parametrize("answer", [0, 7, "tow", True])
def test_an_answer_that_is_no_option_is_refused(answer: object) -> None:
    """A slip is not kept as a wrong prediction."""
    with pytest.raises(ks.KStreamError, match="expected one of the options 1 to 3, got"):
        ks.course.predict("count.pieces", answer)


def test_a_wrong_choice_is_answered_by_the_idea_it_overlooks() -> None:
    """A right one is answered by the reason alone."""
    assert Comparison(CHOICE, "one", "two").explanation == "Two is more. Because."
    assert Comparison(CHOICE, "two", "two").explanation == "Because."


def test_without_a_prediction_the_run_is_explained() -> None:
    """Running all cells does not wait for an answer."""
    text = repr(Comparison(CHOICE, None, "two"))
    assert text.startswith("You made no prediction; the run gave two.")


@pytest.mark.parametrize(
    ("answer", "actual"),
    [("5 updates", 5), ("1,000", 1000), (5.0, 5), ("10 15 22", "10, 15, 22"), ("[10, 15]", "10, 15"), ("B, A", "BA")],
)
def test_an_answer_is_compared_by_its_meaning(answer: object, actual: object) -> None:
    """Numbers as text and with their noun; lists with other separators."""
    assert Comparison(TABLE, {"a": answer, "b": answer}, {"a": actual, "b": actual}).right
    assert Comparison(CHOICE, answer, actual).right
    assert not Comparison(CHOICE, None, actual).right
    assert not Comparison(CHOICE, "6", actual).right


def test_no_answer_is_not_the_option_none() -> None:
    """A question may have the option "none"."""
    assert not Comparison(CHOICE, None, "none").right


def test_a_wrong_number_is_answered_by_its_idea_in_any_type() -> None:
    """The question of the first chapter knows what leads to 3."""
    for answer in (3, 3.0, "3", "3 updates"):
        ks.course.predict("count.updates", answer)
        assert ks.course.compare("count.updates", 5).explanation.startswith("The store ends with one row for each key")


def test_a_table_is_compared_row_by_row() -> None:
    """Case, spaces and quotes are ignored; a wrong row is named."""
    assert Comparison(TABLE, {"a": "Red", "b": " 2"}, {"a": "red", "b": 2}).verdict == "As you predicted."
    wrong = Comparison(TABLE, {"a": "red", "b": "3"}, {"a": "red", "b": 2})
    assert wrong.verdict == "You predicted otherwise: b."
    assert "b | 3   | 2" in repr(wrong)


@for_every(QUESTIONS.values(), lambda question: question.name)
def test_a_question_and_its_explanation_are_sentences(question: Question) -> None:
    """Every option that may be ignored exists."""
    assert question.text.endswith("?")
    assert question.because.endswith(".")
    assert all(text.endswith((".", "?")) for text in question.overlooked.values())
    if question.options:
        assert set(question.overlooked) < set(question.options)


def test_a_prediction_displays_without_widgets() -> None:
    """As text, and as HTML that says how to answer in code."""
    code = (
        "import sys\nsys.modules['anywidget'] = None\nimport kstreamnb as ks\n"
        "print(sorted(ks.course.predict('count.updates')._repr_mimebundle_()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['text/html', 'text/plain']"


def test_a_form_keeps_its_answer() -> None:
    """The page sends a command; the prediction and the widget have the answer."""
    from kstreamnb.notebook.widgets.question import QuestionForm

    prediction = ks.course.predict("count.cached")
    form = QuestionForm(prediction.question.text, prediction._facts, prediction.give, prediction.forms)
    form.tell("answer", answer=188)
    assert prediction.answer == form.facts["answer"] == 188
    assert ks.course.compare("count.cached", 188).right


def test_every_picture_describes_itself() -> None:
    """Title and description for screen readers; no request to another host, no script."""
    from kstreamnb.course.pictures import _DRAWINGS

    for path in _DRAWINGS.glob("*.svg"):
        svg = ks.course.picture(path.stem).svg
        assert 'role="img"' in svg
        assert "<title>" in svg
        assert len(repr(ks.course.picture(path.stem))) > 100
        assert "href" not in svg
        assert "<script" not in svg
        assert "url(" not in svg
