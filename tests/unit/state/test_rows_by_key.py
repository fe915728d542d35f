"""Rows of join and session stores in memory: a mapping like a dict, with lists for each key."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kstreamnb.state.rows_by_key import RowsByKey, position_of


@pytest.mark.parametrize("sessions", [False, True])
def test_rows_by_key_are_the_mapping_that_a_dict_would_be(sessions: bool) -> None:
    """Rows come, are replaced and leave in any order; the clock is under None."""
    rows, expected, random = RowsByKey(sessions=sessions), dict[Any, Any](), Random(7)
    for number in range(1, 400):
        time, key = random.randrange(-3, 9), random.choice("abc")
        raw_key = key, (time, random.randrange(3)) if sessions else position_of(time, number if number % 3 else 1)
        rows[raw_key] = expected[raw_key] = {"number": number}
        rows[None] = expected[None] = (number, number)
        if number % 2:
            gone = random.choice(list(expected))
            assert rows.pop(gone) == expected.pop(gone)
        assert len(rows) == len(expected) == len(list(rows))
        assert dict(rows) == expected
    for raw_key in list(rows):
        del rows[raw_key]
    assert (dict(rows), len(rows), dict(rows.entries)) == ({}, 0, {})


def test_rows_by_key_are_iterated_in_the_order_of_their_numbers() -> None:
    """So a changelog that is rewritten has them as they arrived, whatever their keys and times."""
    rows = RowsByKey()
    for raw_key in [("b", position_of(9, 1)), ("a", position_of(5, 2)), None, ("b", position_of(-1, 3))]:
        rows[raw_key] = "row"
    assert [None, ("b", position_of(9, 1)), ("a", position_of(5, 2)), ("b", position_of(-1, 3))] == list(rows)


def test_sessions_are_iterated_by_their_ends() -> None:
    """Then by their starts, whatever the order in which they came."""
    rows = RowsByKey(sessions=True)
    for raw_key in [("b", (9, 1)), ("a", (5, 2)), None, ("b", (-1, -3)), ("a", (9, 0))]:
        rows[raw_key] = "row"
    assert [None, ("b", (-1, -3)), ("a", (5, 2)), ("a", (9, 0)), ("b", (9, 1))] == list(rows)
    assert [("a", (5, 2)), ("a", (9, 0)), ("b", (9, 1))] == rows.keys_between(5, 9)
    assert ([(5, 2), (9, 0)], [(9, 1)]) == (rows.positions("a", b"", 5), rows.positions("b", b"", 0))


@pytest.mark.parametrize("raw_key", [None, ("a", position_of(5, 3)), ("b", position_of(5, 2))])
def test_a_row_that_is_missing_is_a_key_error(raw_key: Any) -> None:
    """Neither another row of the key nor one of its number stands for it."""
    rows = RowsByKey()
    rows["a", position_of(5, 2)] = "row"
    with pytest.raises(KeyError):
        rows[raw_key]
    assert rows.get(raw_key) is None
    assert len(rows) == 1


def test_rows_before_a_time_leave_with_the_keys_that_have_no_others() -> None:
    """Those that left are returned, and those that stay are found by key and by time."""
    rows = RowsByKey()
    for number, (key, start) in enumerate([("a", 1), ("b", 2), ("a", 5), ("a", 3)]):
        rows[key, position_of(start, number)] = f"{key}{start}"
    assert [("a", 1), ("a", 3), ("b", 2)] == sorted((key, at >> 31) for (key, at), _ in rows.take_before(5))
    assert ({("a", position_of(5, 2)): "a5"}, 1) == (dict(rows), len(rows))
    assert [("a", position_of(5, 2))] == rows.keys_between(5, 5)
    assert ([], [position_of(5, 2)]) == (rows.positions("b", b"", 0), rows.positions("a", b"", 5))
