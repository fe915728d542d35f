"""Values that show themselves as a title, a table and a few more lines: in text here, in HTML by the view."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kstreamnb.core.displayed import Displayed
from kstreamnb.core.formatting import aligned

__all__ = ["Tabular"]


class Tabular(Displayed):
    """A value with a title and rows of cells; every display shows the same of it."""

    __slots__ = ()
    header: Sequence[str] = ()

    @property
    def title(self) -> str:
        """One line that says what this is, with its numbers."""
        raise NotImplementedError

    def table(self) -> Iterable[Sequence[str]]:
        """Rows of the table."""
        return ()

    def more(self) -> Iterable[str]:
        """Lines below the table."""
        return ()

    def __str__(self) -> str:
        rows = list(self.table())
        return "\n".join([self.title, *([aligned(self.header, rows)] if rows else []), *self.more()])

    def __repr__(self) -> str:
        return f"<{self.title}>"

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(str(self))  # type: ignore[attr-defined]
