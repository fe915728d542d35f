"""A mixin for objects that a ``with`` statement closes."""

from __future__ import annotations

from typing import Self


class Closing:
    """Mixin that calls ``close`` at the end of a ``with`` block."""

    def close(self) -> None:
        """Release what the object holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
