"""Chapters of a teacher: files beside the notebook, as the page for teachers prints them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

import kstreamnb as ks
from kstreamnb.notebook.recorder import NotebookRecorder

GUIDE = (Path(__file__).parents[3] / "notebooks" / "guide" / "teaching.md").read_text(encoding="utf-8")
TEXTS = Path(ks.course.__file__).parent / "chapters"


def block(language: str, containing: str) -> str:
    """Return the code block of the page that contains a text."""
    blocks = re.findall(rf"(?ms)^```{language}\n(.*?)^```$", GUIDE)
    return next(str(each) for each in blocks if containing in each)


@pytest.fixture
def chapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the page, beside the notebook that is being run."""
    folder = tmp_path / "chapters"
    folder.mkdir()
    (folder / "coffee.toml").write_text(block("toml", "[exercise.1]"), encoding="utf-8")
    (folder / "coffee.py").write_text(block("python", "JUDGES"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return folder


def test_the_exercises_of_the_page_for_teachers_work(chapters: Path) -> None:
    """A number, letters, and a function that is checked in Python."""
    assert ks.course.check("coffee.1", 6).sentence == "Right: each cup is a record, and each record is an update."
    assert ks.course.check("coffee.1", "3 updates").reason == "3 updates are too few: each cup is a record."
    assert ks.course.check("coffee.2", ["a", "c"]).sentence == "Right: yes."
    assert ks.course.check("coffee.2", "abc").reason == "b is a table: a record replaces the one before."
    assert ks.course.check("coffee.3", lambda beans: max(beans, key=beans.get))
    assert not ks.course.check("coffee.3", lambda beans: max(beans))
    assert "does not run: KeyError" in ks.course.check("coffee.3", lambda beans: beans["tea"]).reason
    assert ks.course.check("coffee.3", "mocha").reason.startswith("give the function or class itself")
    ks.course.predict("coffee.cups", 3)
    assert ks.course.compare("coffee.cups", 6).explanation.startswith("That is the number of rows in the end. ")


def test_an_exercise_without_hints_and_solution_names_neither(chapters: Path) -> None:
    """A teacher keeps them."""
    verdict = ks.course.check("coffee.2", "b")
    assert "Help" not in repr(verdict)
    assert "<details>" not in verdict.forms()["text/html"]
    assert ks.course.hint("coffee.2") == 'exercise "coffee.2" has no hints'
    assert ks.course.solution("coffee.2") == 'exercise "coffee.2" has no solution here'


def test_a_wrong_answer_without_a_reason_is_wrong(chapters: Path) -> None:
    """Numbers, words and lists alike."""
    for number, (form, answer) in enumerate((("number", "6"), ("word", "'table'"), ("list", "[1, 2]")), 1):
        (chapters / "bare.toml").write_text(f"[exercise.{number}]\nform = '{form}'\nanswer = {answer}\n")
        assert not ks.course.check(f"bare.{number}", [3, 4] if form == "list" else 5)


def test_a_reason_may_show_code_with_braces(chapters: Path) -> None:
    """Only the place of the answer is replaced."""
    reason = """reasons.less = 'write {"a": 1}, not {answer}'"""
    (chapters / "braces.toml").write_text(f"[exercise.1]\nform = 'number'\nanswer = 6\n{reason}\n")
    assert ks.course.check("braces.1", 5).reason == 'write {"a": 1}, not 5'


def test_a_right_letter_needs_no_reason(chapters: Path) -> None:
    """It is a letter, and its absence is a wrong answer."""
    (chapters / "bare.toml").write_text("[exercise.1]\nform = 'letters'\nanswer = 'ac'\nreasons.b = 'b is a table.'\n")
    assert ks.course.check("bare.1", "ca")
    assert ks.course.check("bare.1", "a").reason == "a is not the answer."
    assert ks.course.check("bare.1", "d").reason == 'letter "d" does not exist: the letters are a to c.'


def test_only_the_check_of_the_asked_exercise_is_run(chapters: Path) -> None:
    """The module of a teacher runs once, and a mistake in another exercise is not in the way."""
    count = "with open('runs.txt', 'a') as runs:\n    runs.write('.')\n"
    (chapters / "mine.py").write_text(f"{count}JUDGES = {{'mine.1': lambda answer: ''}}\n")
    functions = "".join(f"[exercise.{number}]\nform = 'function'\nhints = ['?']\n" for number in (1, 2, 3))
    (chapters / "mine.toml").write_text(functions)
    assert ks.course.hint("mine.1") == "?"
    assert not Path("runs.txt").exists()
    assert ks.course.check("mine.1", len)
    assert Path("runs.txt").read_text() == "."


def test_a_translated_chapter_replaces_the_texts_and_keeps_the_checks(chapters: Path) -> None:
    """Also those in Python."""
    text = (TEXTS / "streams_and_tables" / "count.toml").read_text(encoding="utf-8")
    translated = text.replace("every record produces an update", "jeder Satz ergibt eine Änderung")
    (chapters / "count.toml").write_text(translated, encoding="utf-8")
    verdict = ks.course.check("count.1", [("x", 1), ("y", 1), ("x", 2), ("y", 2)])
    assert verdict.sentence.startswith("Right: jeder Satz ergibt eine Änderung")
    assert not ks.course.check("count.2", lambda events: events.group_by_key().count())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[exercise.1]\nform = 'number'\n", 'exercise "mine.1" has no check'),
        ("[exercise.1]\nform = 'numbr'\nanswer = 3\n", 'form of exercise "mine.1" "numbr" does not exist'),
        ("[exercise.1]\nform = 'number'\nanswer = '3'\n", 'answer of exercise "mine.1" must be'),
        ("[exercise.1]\nform = 'number'\nanswer = 3\nunit = 'min'\n", 'unit of exercise "mine.1" "min" does not exist'),
        (
            "[exercise.1]\nform = 'number'\nanswer = 3\nreason.less = 'x'\n",
            'field of exercise "mine.1" "reason" does not',
        ),
        (
            "[exercise.1]\nform = 'word'\nanswer = 'three'\nunit = 'ms'\n",
            'field of exercise "mine.1" with form "word" "unit" does not exist',
        ),
        (
            "[exercise.1]\nform = 'list'\nanswer = [3]\nalso = ['4']\n",
            'field of exercise "mine.1" with form "list" "also" does not exist',
        ),
        ("[exercise.1]\nform = 'number'\nanswer = 3\nreasons = 'x'\n", 'reasons of exercise "mine.1" must be'),
        ("[exercise.1]\nform = 'number'\nanswer = 3\nhints = 'x'\n", 'hints of exercise "mine.1" must be'),
        ("[exercise.1]\nform = 'function'\n", 'exercise "mine.1" has no check'),
        ("[exercise.1\n", "mine.toml is not TOML in UTF-8"),
        ("[exercise.2]\nform = 'number'\nanswer = 3\n", 'exercise "mine.1" does not exist'),
    ],
)
def test_a_mistake_of_the_teacher_is_named(chapters: Path, text: str, message: str) -> None:
    """An error of the file, and not a verdict on the answer."""
    (chapters / "mine.toml").write_text(text)
    with pytest.raises(ks.KStreamError, match=re.escape(message)):
        ks.course.check("mine.1", 3)


def test_an_edit_of_a_chapter_is_seen_at_once(chapters: Path) -> None:
    """A teacher writes and tries in turn."""
    assert not ks.course.check("coffee.1", 7)
    text = (chapters / "coffee.toml").read_text(encoding="utf-8")
    (chapters / "coffee.toml").write_text(text.replace("answer = 6\nreasons", "answer = 7\nreasons"), encoding="utf-8")
    assert ks.course.check("coffee.1", 7)


def test_a_teachers_chapters_are_found_after_a_change_of_the_folder(
    chapters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook reads its data from elsewhere; its files are looked for where its kernel has started."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    cells = "import os, kstreamnb as ks", "os.chdir('/')", "print(ks.course.check('coffee.1', 6).sentence)"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    NotebookRecorder(notebook, tmp_path).execute()
    assert notebook.cells[-1].outputs[0].text.startswith("Right: each cup is a record")
