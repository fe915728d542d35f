"""Progress of long actions: one bar, where somebody watches, and none for what is over at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

__all__ = ["capture_bar"]

_SHORT_S = 0.5
_Progress: TypeAlias = "Callable[[int, int, float], None]"


@contextmanager
def capture_bar(total: int | None, *, live: bool) -> Iterator[_Progress | None]:
    """What a capture tells its progress to; the bar appears after half a second and leaves nothing behind.

    Args:
        total: how many records there may be at most.
        live: whether somebody watches; without, there is no bar, so that saved outputs do not depend on time.
    """
    bars: list[Any] = []

    def show(records: int, size: int, seconds: float) -> None:
        if seconds < _SHORT_S:
            return
        if not bars:
            from tqdm import tqdm

            bars.append(tqdm(total=total, unit=" records", leave=False, file=sys.stderr))
        bars[0].set_postfix_str(f"{size / 1e6:,.1f} MB", refresh=False)
        bars[0].update(records - bars[0].n)

    try:
        yield show if live else None
    finally:
        for bar in bars:
            bar.close()
