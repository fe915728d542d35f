"""The content of a chapter: a TOML file with its texts, and beside it a module with those checks that need code.

Files of a teacher are in a folder ``chapters`` beside the notebook. They replace those of the course with their name,
so a translated chapter keeps the checks of the course.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import TypeVar

from kstreamnb.core.arguments import expect
from kstreamnb.course.answers import FORMS, Judge, check_entry, declared, function_only
from kstreamnb.errors import KStreamError
from kstreamnb.hints import expect_known

Entry = TypeVar("Entry")
_TEXTS = Path(__file__).parent / "chapters"
_TEXTUAL = dict.fromkeys(("form", "unit", "right", "solution"), str)
_FIELDS: Mapping[str, type] = {**_TEXTUAL, "answer": object, "also": list, "hints": list, "reasons": dict}
"""The fields of an exercise with their types; the type of an answer depends on its form."""


@dataclass(frozen=True)
class Question:
    """A question asked before a run; the answer is a number unless there are options or rows.

    Attributes:
        name: the chapter and a word, such as ``count.updates``.
        text: the question.
        because: why the run gives what it gives; true for any edit of the chapter's sample.
        options: the possible answers of a choice.
        rows: the labels of a table to fill; the answer has a text for each.
        overlooked: for some wrong answers, as text, the idea that is missing.
    """

    name: str
    text: str
    because: str
    options: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    overlooked: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Exercise:
    """An exercise that checks itself.

    Attributes:
        name: the chapter and a number, such as ``count.1``.
        right: the sentence for a right answer.
        hints: help in steps, the smallest first; a teacher's exercise may have none.
        solution: the code of a right answer; empty if a teacher keeps it.
        entry: its table of the file, which declares the check or leaves it to a module.
    """

    name: str
    right: str
    hints: tuple[str, ...]
    solution: str
    entry: Mapping[str, object] = field(repr=False)

    def judge(self) -> Judge:
        """Return its check; this may run a module of the teacher.

        Raises: KStreamError for a mistake in its declaration.
        """
        expect_known(f'field of exercise "{self.name}"', self.entry, _FIELDS, error=KStreamError)
        for field_name, value in self.entry.items():
            expect(value, _FIELDS[field_name], f'{field_name} of exercise "{self.name}"')
        check_entry(self.name, self.entry)
        return declared(self.entry) or _judge(self.name, self.entry)


def chapters() -> list[str]:
    """Return the names of the chapters that have questions or exercises."""
    return sorted(_files())


def questions(chapter: str) -> dict[str, Question]:
    """Return the questions of a chapter by name."""
    entries = _texts(chapter).get("question", {})
    return {f"{chapter}.{word}": _question(f"{chapter}.{word}", entry) for word, entry in entries.items()}


def _question(name: str, entry: Mapping[str, object]) -> Question:
    lists = _listed(entry.get("options")), _listed(entry.get("rows"))
    return Question(name, str(entry["text"]), str(entry["because"]), *lists, _words(entry.get("overlooked")))


def exercises(chapter: str) -> dict[str, Exercise]:
    """Return the exercises of a chapter by name."""
    entries = _texts(chapter).get("exercise", {})
    return {f"{chapter}.{number}": _exercise(f"{chapter}.{number}", entry) for number, entry in entries.items()}


def _exercise(name: str, entry: Mapping[str, object]) -> Exercise:
    right, solution = str(entry.get("right", "yes.")), str(entry.get("solution", "")).strip()
    return Exercise(name, right, _listed(entry.get("hints")), solution, entry)


def entry_named(kind: str, name: str, of_chapter: Callable[[str], Mapping[str, Entry]]) -> Entry:
    """Return a question or an exercise by its name; raise KStreamError if its chapter has none of that name."""
    known = of_chapter(name.partition(".")[0])
    expect_known(kind, [name], known, error=KStreamError)
    return known[name]


def _judge(name: str, entry: Mapping[str, object]) -> Judge:
    """Return the check of an exercise from the module beside the texts of its chapter."""
    chapter = name.partition(".")[0]
    own, courses = _own() / f"{chapter}.py", list(_TEXTS.rglob(f"{chapter}.py"))
    judges: Mapping[str, Judge] = {}
    if own.exists():
        judges = run_path(str(own)).get("JUDGES", {})
    elif courses:
        judges = import_module(f"kstreamnb.course.chapters.{courses[0].parent.name}.{chapter}").JUDGES
    if name not in judges:
        hint = f"give it a form ({', '.join(FORMS)}) and an answer in {chapter}.toml, or a check in JUDGES of {own}"
        raise KStreamError(f'exercise "{name}" has no check', hint=hint)
    return function_only(judges[name]) if entry.get("form") == "function" else judges[name]


def _own() -> Path:
    """Return the folder of the teacher's files: beside the notebook, even if a cell has changed the current folder."""
    ipython = sys.modules.get("IPython")  # the course runs without it
    started = Path(getattr(ipython and ipython.get_ipython(), "starting_dir", ""), "chapters")
    return started if started.is_dir() else Path("chapters")


def _files() -> dict[str, Path]:
    return {path.stem: path for path in (*_TEXTS.rglob("*.toml"), *_own().glob("*.toml"))}


def _texts(chapter: str) -> dict[str, dict[str, dict[str, object]]]:
    expect_known("chapter", [chapter], chapters(), error=KStreamError)
    path = _files()[chapter]
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise KStreamError(f"{path} is not TOML in UTF-8", detail=str(error)) from error


def _listed(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _words(value: object) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, dict) else {}
