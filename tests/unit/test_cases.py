"""The helper for tests of many cases."""

from __future__ import annotations

import pytest

from tests.cases import for_every


def test_every_case_that_fails_is_named() -> None:
    """The others run all the same."""
    seen = []

    @for_every([1, 2, 3, 4], lambda number: f"number {number}")
    def is_even(number: int) -> None:
        seen.append(number)
        assert number % 2 == 0

    with pytest.raises(ExceptionGroup, match="2 of 4 cases fail") as caught:
        is_even()
    assert seen == [1, 2, 3, 4]
    assert [failure.__notes__ for failure in caught.value.exceptions] == [["Case: number 1"], ["Case: number 3"]]
