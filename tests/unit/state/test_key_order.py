"""The sorted keys of a store: what was added and removed between two scans, few keys or many."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.state.key_order import KeyOrder

CHANGES = st.lists(st.tuples(st.integers(0, 150), st.booleans()), max_size=200)


class Counted(str):
    """A key that counts how often it is hashed or compared."""

    looked_at = count()

    def __hash__(self) -> int:
        next(self.looked_at)
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        next(self.looked_at)
        return super().__eq__(other)


def _ordered(raw: dict[Any, Any]) -> KeyOrder:
    return KeyOrder(raw, lambda key: str(key).encode())


@given(st.lists(CHANGES, max_size=5))
def test_each_scan_has_the_keys_that_are_there(rounds: list[list[tuple[int, bool]]]) -> None:
    raw: dict[Any, Any] = {}
    order = _ordered(raw)
    for changes in rounds:
        for key, stays in changes:
            if stays:
                raw[str(key)] = 1
            elif raw.pop(str(key), None) is not None:
                order.forget(str(key))
        assert order.between(b"", None) == sorted(raw)
        assert order.between(b"12", b"4") == sorted(key for key in raw if "12" <= key < "4")


def test_a_removal_between_two_scans_does_not_look_at_all_keys() -> None:
    raw = dict.fromkeys(Counted(f"{number:05}") for number in range(5_000))
    order = _ordered(raw)
    order.between(b"", b"0")
    before = next(Counted.looked_at)
    for number in range(100):
        gone, new = Counted(f"{number:05}"), Counted(f"{number:05}+")
        del raw[gone]
        order.forget(gone)
        raw[new] = None
        assert order.between(str(gone).encode(), f"{number + 1:05}".encode()) == [new]
    assert next(Counted.looked_at) - before < 100 * 20
