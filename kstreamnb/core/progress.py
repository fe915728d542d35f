"""Progress reporting for long operations; free when no watcher is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from kstreamnb import hooks
from kstreamnb.hooks import Advance, Poll

_Some = TypeVar("_Some", list[Any], range)
_PIECE = 1000


def under_way(unit: str, total: int | None = None, look: Poll | None = None) -> AbstractContextManager[Advance]:
    """Report progress while the block runs; call what the block receives with the number of further parts done.

    ``unit`` names the parts, or, without parts to count, what is waited for. If others do the work, such as Spark,
    ``look`` returns their progress.

    Example:
        >>> with under_way("stores", 2) as done:
        ...     done(1)
    """
    watcher = hooks.current().progress
    return nullcontext(lambda more: None) if watcher is None else watcher(unit, total, look)


def pieces(items: _Some, unit: str) -> Iterator[_Some]:
    """Yield all items in one chunk if nobody watches, otherwise in chunks of a thousand, reporting each when it is
    done.

    Example:
        >>> list(pieces(["a", "b"], "records"))
        [['a', 'b']]
    """
    if hooks.current().progress is None or len(items) <= _PIECE:
        yield items
        return
    with under_way(unit, len(items)) as done:
        for start in range(0, len(items), _PIECE):
            piece = items[start : start + _PIECE]
            yield piece
            done(len(piece))
