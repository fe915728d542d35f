"""Draws from a seed: the same everywhere, and nothing but the seed decides them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Draws", "draw"]

T = TypeVar("T")

_MASK = (1 << 64) - 1


def draw(seed: int, index: int) -> float:
    """A number from 0 to 1 that depends on nothing else: the mixing steps of SplitMix64."""
    mixed = (seed * 0x9E3779B97F4A7C15 + (index + 1) * 0xD1B54A32D192ED03) & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return (mixed ^ mixed >> 31) / (1 << 64)


class Draws:
    """One draw after another.

    Example:
        >>> one, other = Draws(7), Draws(7)
        >>> [one.below(10) for _ in range(5)] == [other.below(10) for _ in range(5)]
        True
    """

    def __init__(self, seed: int) -> None:
        self._seed, self._drawn = seed, 0

    def share(self) -> float:
        """A number from 0 to 1."""
        self._drawn += 1
        return draw(self._seed, self._drawn)

    def below(self, number: int) -> int:
        """A whole number from 0 on, less than ``number``."""
        return int(self.share() * number)

    def one_of(self, choices: Sequence[T]) -> T:
        """One of some things."""
        return choices[self.below(len(choices))]
