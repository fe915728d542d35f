"""The content of a chapter: a TOML file with its texts, and beside it a module with those checks that need code."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import cast

from kstreamnb.course.answers import Judge, declared, function_only
from kstreamnb.errors import KStreamError
from kstreamnb.hints import unknown

_TEXTS = Path(__file__).parent / "chapters"


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
        judge: its check.
        right: the sentence for a right answer.
        hints: help in steps, the smallest first.
        solution: the code of a right answer.
    """

    name: str
    judge: Judge
    right: str
    hints: tuple[str, ...]
    solution: str


def chapters() -> list[str]:
    """Return the names of the chapters that have questions or exercises."""
    return sorted(_files())


@cache
def questions(chapter: str) -> dict[str, Question]:
    """Return the questions of a chapter by name."""
    named = {f"{chapter}.{word}": entry for word, entry in _texts(chapter).get("question", {}).items()}
    return {
        name: Question(
            name,
            str(entry["text"]),
            str(entry["because"]),
            _listed(entry.get("options")),
            _listed(entry.get("rows")),
            _words(entry.get("overlooked")),
        )
        for name, entry in named.items()
    }


@cache
def exercises(chapter: str) -> dict[str, Exercise]:
    """Return the exercises of a chapter by name."""
    named = {f"{chapter}.{number}": entry for number, entry in _texts(chapter).get("exercise", {}).items()}
    return {
        name: Exercise(
            name,
            declared(entry) or _judge(name, entry),
            str(entry["right"]),
            _listed(entry["hints"]),
            str(entry["solution"]).strip(),
        )
        for name, entry in named.items()
    }


def _judge(name: str, entry: Mapping[str, object]) -> Judge:
    """Return the check of an exercise from the module beside the texts of its chapter."""
    chapter = name.partition(".")[0]
    module = import_module(f"kstreamnb.course.chapters.{_files()[chapter].parent.name}.{chapter}")
    judge = cast("Mapping[str, Judge]", module.JUDGES)[name]
    return function_only(judge) if entry.get("form") == "function" else judge


@cache
def _files() -> dict[str, Path]:
    return {path.stem: path for path in _TEXTS.rglob("*.toml")}


def _texts(chapter: str) -> dict[str, dict[str, dict[str, object]]]:
    if chapter not in _files():
        raise unknown("chapter", chapter, chapters(), error=KStreamError)
    return tomllib.loads(_files()[chapter].read_text(encoding="utf-8"))


def _listed(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _words(value: object) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, dict) else {}
