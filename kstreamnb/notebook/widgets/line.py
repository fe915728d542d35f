"""A line in a corner of the page that is no output of a cell: it is there while something runs, and then gone."""

from __future__ import annotations

import anywidget
import traitlets

from kstreamnb.notebook.widgets.base import esm, static_text

__all__ = ["Line"]


class Line(anywidget.AnyWidget):
    """Text that the page shows as long as the widget is open; nobody needs to display it.

    Attributes:
        text: what is seen.
    """

    _esm = esm("line")
    _css = static_text("common.css")
    text = traitlets.Unicode("").tag(sync=True)

    def show(self, text: str) -> None:
        """Replace what is seen."""
        self.text = text

    def close(self) -> None:
        """Take it off the page, with the layout that every widget has."""
        self.layout.close()
        super().close()

    def __repr__(self) -> str:
        return f"<Line: {self.text}>"
