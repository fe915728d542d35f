"""A line of text in a corner of the page, shown while an operation runs; not part of any cell's output."""

from __future__ import annotations

import anywidget
import traitlets

from kstreamnb.notebook.widgets.base import esm, static_text


class StatusLine(anywidget.AnyWidget):
    """Text that the page shows while the widget is open; it need not be displayed.

    Attributes:
        text: the line's content.
    """

    _esm = esm("line")
    _css = static_text("common.css")
    text = traitlets.Unicode("").tag(sync=True)

    def show(self, text: str) -> None:
        """Replace the text."""
        self.text = text

    def close(self) -> None:
        """Remove the line from the page, with the layout that every widget has."""
        self.layout.close()
        super().close()

    def __repr__(self) -> str:
        return f"<Line: {self.text}>"
