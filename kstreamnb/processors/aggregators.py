"""What folds a stream: counting, and reductions seen as aggregations.

The functions of a count are values that compare, so that equal topologies are equal; operators know them and take
short cuts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Initializer: TypeAlias = Callable[[], Any]
Adder: TypeAlias = Callable[..., Any]
"""``(key, value, aggregate)``, or ``(aggregate, value)`` where there is no initializer."""


def zero() -> int:
    """What a count starts from."""
    return 0


def count_up(key: Any, value: Any, count: int) -> int:
    """Adder of a count."""
    return count + 1


def count_down(key: Any, value: Any, count: int) -> int:
    """Subtractor of a count."""
    return count - 1


def add_counts(key: Any, left: int, right: int) -> int:
    """Session merger of a count."""
    return left + right


def _nothing() -> None:
    return


def folding(initializer: Initializer | None, aggregator: Adder) -> tuple[Initializer, Callable[[Any, Any, Any], Any]]:
    """Initializer and aggregator; a reducer, which has no initializer, takes its first value as it is."""
    if initializer is not None:
        return initializer, aggregator

    def reduce(key: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else aggregator(aggregate, value)

    return _nothing, reduce


def merging(merger: Callable[[Any, Any, Any], Any] | None, reducer: Adder) -> Callable[[Any, Any, Any], Any]:
    """The merger of two sessions' aggregates; a reducer merges them as it adds values."""
    if merger is not None:
        return merger

    def merge(key: Any, left: Any, right: Any) -> Any:
        return right if left is None else reducer(left, right)

    return merge
