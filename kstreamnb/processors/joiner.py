"""Users' joiners brought to one form. Called by the join operators when they are bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Combine: TypeAlias = Callable[[Any, Any, Any], Any]
"""``combine(key, this, other)``: the joined value, whichever side the node stands on."""


def combiner(joiner: Callable[..., Any], *, with_key: bool = False, is_left: bool = True) -> Combine:
    """Make a joiner of ``(left, right)`` or ``(key, left, right)`` one of this and the other side's value."""
    if with_key:
        return joiner if is_left else lambda key, this, other: joiner(key, other, this)
    if is_left:
        return lambda key, this, other: joiner(this, other)
    return lambda key, this, other: joiner(other, this)
