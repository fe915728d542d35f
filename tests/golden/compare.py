"""Compares an answer with the golden one, and reports the differences briefly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.golden.evaluate import Failed

__all__ = ["compare", "compare_error"]

_CLASS_ONLY = ("NullPointerException", "ConfigException")


def compare(expected: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    """Return the differences of two answers; empty if they agree."""
    if "error" in expected:
        return [f"no error, expected {expected['error']}"]
    return [line for part, wanted in expected.items() for line in _differences(part, wanted, actual.get(part))]


def _differences(part: str, expected: Any, actual: Any) -> Iterator[str]:
    if part == "describe":
        yield from _text(str(expected), str(actual))
    elif part == "steps":
        for step, (wanted, got) in enumerate(zip(expected, actual or [], strict=False)):
            for topic in [*wanted, *(topic for topic in got if topic not in wanted)]:
                if wanted.get(topic) != got.get(topic):
                    yield f"step {step} {topic}: expected {_short(wanted.get(topic))} got {_short(got.get(topic))}"
    elif part == "stores":
        yield from _stores(expected, actual or {})
    elif part == "topics":
        missing, extra = (sorted({*left} - {*right}) for left, right in ((expected, actual), (actual, expected)))
        if missing or extra:
            yield f"topics: missing {_short(missing)}, extra {_short(extra)}"
    elif part == "changelogs":
        yield from _changelogs(expected, actual or {})
    elif expected != actual:
        yield f"{part}: expected {_short(expected)} got {_short(actual)}"


def _stores(expected: dict[str, Any], actual: dict[str, Any]) -> Iterator[str]:
    for name in [*expected, *(name for name in actual if name not in expected)]:
        wanted, got = expected.get(name), actual.get(name)
        same = wanted is not None and got is not None and all(got.get(key) == wanted[key] for key in wanted)
        if not same:
            yield f"store {name}: expected {_short(wanted)} got {_short(got)}"


def _changelogs(expected: dict[str, Any], actual: dict[str, Any]) -> Iterator[str]:
    for topic in [*expected, *(topic for topic in actual if topic not in expected)]:
        wanted, got = expected.get(topic), actual.get(topic)
        if _comparable(wanted, wanted) != _comparable(got, wanted):
            yield f"{topic}: expected {_short(wanted)} got {_short(got)}"


def _comparable(rows: list[Any] | None, wanted: list[Any] | None) -> list[Any] | None:
    """Rows of a changelog; those of buffers have no order of keys and no time before a producer sends them."""
    if rows is None or wanted is None or all(row[2] is not None for row in wanted):
        return rows
    return sorted([[key, value, headers] for key, value, _, headers in rows], key=lambda row: str(row[0]))


def _text(expected: str, actual: str) -> Iterator[str]:
    if expected == actual:
        return
    wanted, got = expected.split("\n"), actual.split("\n")
    for number in range(max(len(wanted), len(got))):
        left = wanted[number] if number < len(wanted) else "(end)"
        right = got[number] if number < len(got) else "(end)"
        if left != right:
            yield f"line {number}: expected {left!r} got {right!r}"


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def compare_error(expected: dict[str, Any], actual: Failed) -> list[str]:
    """Return the differences of an error: its text contains Java's, it occurs at the same step, and the earlier output
    is equal.
    """
    said = " | ".join(_texts(actual.error))
    if "error" not in expected:
        return [f"unexpected error at step {actual.step}: {said[:600]}"]
    lines = []
    if expected.get("failed_step") != actual.step:
        lines.append(f"failed at step {actual.step}, expected {expected.get('failed_step')}: {said[:300]}")
    for part in ("error", "cause"):
        if part in expected and not _says(said, expected[part]):
            lines.append(f"{part}: expected {expected[part]!r} got {said!r}")
    for part in ("describe", "steps", "dropped"):
        if part in expected:
            lines += _differences(part, expected[part], actual.answer.get(part))
    return lines


def _says(said: str, java: str) -> bool:
    """Return whether the error contains Java's text; some of Java's texts name Java's own classes."""
    kind, _, text = java.partition(": ")
    if kind in _CLASS_ONLY:
        return True
    if "ConsumerRecord(" in text:
        said_last = r"(has invalid \(negative\) timestamp\.|because partition time is unknown\.)"
        text = re.sub(rf".*ConsumerRecord\(.*\) {said_last}.*", r"\1", text, flags=re.DOTALL)
    return text in said


def _texts(error: BaseException | None) -> Iterator[str]:
    """Return messages and notes of an error and of its causes."""
    while error is not None:
        yield f"{type(error).__name__}: {error}"
        yield from getattr(error, "__notes__", ())
        error = error.__cause__ or error.__context__
