"""A sample as an HTML table: the same facts as its text, self-contained, without a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstreamnb.core.tables import html_table

if TYPE_CHECKING:  # its class lists this function
    from kstreamnb.samples.sample import Sample


def to_html(self: Sample) -> str:
    """Return the first records as a table under the sample's hash and notes."""
    title, *lines = repr(self).splitlines()
    notes = [line.strip() for line in lines if line.startswith("  ")]
    closing = lines[-1] if lines and " of " in lines[-1] and "|" not in lines[-1] else ""
    names, rows = self.shown_cells()
    return html_table(names, rows, [line for line in (title, *notes, closing) if line])
