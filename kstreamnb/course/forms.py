"""HTML of the course's displays: boxes that work in light and dark, with and without a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape

from kstreamnb.core.displayed import MimeTypes
from kstreamnb.display.mime import wanted


def box(color: str, title: str, *parts: str) -> str:
    """Return a box with a colored edge; the parts are HTML, the title is text."""
    style = f"border-left:4px solid {color};padding:2px 12px;margin:4px 0;max-width:60em"
    return f'<div class="ks-course" style="{style}"><p><strong>{escape(title)}</strong></p>{"".join(parts)}</div>'


def folded(summary: str, *parts: str) -> str:
    """Return HTML that is unfolded by a click or the keyboard, also in a saved notebook."""
    return f"<details><summary>{escape(summary)}</summary>{''.join(parts)}</details>"


def listing(items: Sequence[str]) -> str:
    """Return a numbered list of texts."""
    return f"<ol>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ol>"


class HasForms(ABC):
    """A value that displays in the forms that a front end asks for; as text always."""

    @abstractmethod
    def forms(self) -> dict[str, str]:
        """Return every form by its MIME type."""

    def _repr_mimebundle_(self, include: MimeTypes = None, exclude: MimeTypes = None) -> object:
        return wanted(self.forms(), include, exclude)
