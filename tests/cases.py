"""Tests of many cases, each of which takes less time than pytest itself needs for a test."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import TypeVar

__all__ = ["for_every"]

Case = TypeVar("Case")


def for_every(
    cases: Collection[Case], title: Callable[[Case], object] = str
) -> Callable[[Callable[[Case], None]], Callable[[], None]]:
    """Run a test for all cases, and raise the failures of all of them, each with the title of its case."""

    def decorate(test: Callable[[Case], None]) -> Callable[[], None]:
        def run() -> None:
            failures = []
            for case in cases:
                try:
                    test(case)
                except Exception as failure:
                    failure.add_note(f"Case: {title(case)}")
                    failures.append(failure)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(cases)} cases fail", failures)

        functools.update_wrapper(run, test)
        del run.__wrapped__  # type: ignore[attr-defined]  # else pytest looks for a fixture of the argument's name
        return run

    return decorate
