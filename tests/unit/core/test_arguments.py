"""Arguments are checked against the annotations of a public function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pytest

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.time import Duration
from kstreamnb.errors import ConfigError

if TYPE_CHECKING:
    from decimal import Decimal


class Sized(Protocol):
    """A protocol that cannot be asked for at run time."""

    size: int


def call(
    text: str = "",
    count: int | None = None,
    ratio: float = 0.0,
    topics: Iterable[str] = (),
    partitions: Mapping[str, int] | int = 1,
    side: Literal["left", "right"] | None = None,
    between: tuple[int, int] | None = None,
    every: Duration = "1s",
    function: Callable[[int], int] | None = None,
    sized: Sized | None = None,
    imported_for_checkers_only: Decimal | None = None,
    anything: Any = None,
) -> None:
    """Check all arguments."""
    check_arguments(call, locals())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"text": 5}, "text must be str, got 5"),
        ({"text": None}, "text must be str, got None"),
        ({"count": True}, "count must be int or None, got True"),
        ({"count": 1.5}, "count must be int or None, got 1.5"),
        ({"ratio": "1"}, "ratio must be float, got '1'"),
        ({"topics": "orders"}, "topics must be Iterable of str, got 'orders'"),
        ({"topics": ["orders", 5]}, "topics must be Iterable of str, got a list of str and int"),
        ({"topics": range(3)}, 'topics must be Iterable of str, got type "range"'),
        ({"partitions": {"orders": "2"}}, 'partitions must be Mapping or int, got type "dict"'),
        ({"partitions": {5: 2}}, 'partitions must be Mapping or int, got type "dict"'),
        ({"side": "lefft"}, 'side must be "left" or "right" or None, got "lefft"'),
        ({"side": 5}, 'side must be "left" or "right" or None, got 5'),
        ({"between": (1, 2, 3)}, "between must be tuple or None, got a tuple of int"),
        ({"every": 5}, "every must be timedelta or str, got 5"),
        ({"function": 5}, "function must be Callable or None, got 5"),
    ],
)
def test_an_argument_of_another_type_is_refused(arguments: dict[str, Any], words: str) -> None:
    """The error says what was expected and what came."""
    with pytest.raises(ConfigError) as refused:
        call(**arguments)
    assert str(refused.value) == words


def test_the_nearest_choice_is_named() -> None:
    """One of several texts was meant."""
    with pytest.raises(ConfigError) as refused:
        call(side="lefft")  # type: ignore[arg-type]
    assert refused.value.hint == 'did you mean "left"?'


def test_good_arguments_pass_and_iterators_are_not_consumed() -> None:
    """Arguments whose types cannot be checked pass as well."""
    once = iter(["orders", 5])
    call("a", 2, 1, once, {"orders": 2}, "left", (1, 2), "5s", abs, object(), object(), object())  # type: ignore[arg-type]
    assert list(once) == ["orders", 5]
