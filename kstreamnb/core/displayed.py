"""Base class of models with a rich notebook display and a picture in text, Mermaid, DOT or SVG.

A model only calls the hooks; how it looks is decided in `kstreamnb.display`, above every model.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from kstreamnb import hooks
from kstreamnb.masking import clean

MimeTypes: TypeAlias = Collection[str] | None
"""MIME types that a front end includes or excludes; None includes all, and excludes none."""


class Displayed:
    """A model with a rich display and a picture; displaying it never changes it and never runs user code."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the first line of its text: a plain prompt and an f-string show it instead of every field."""
        first, _, more = str(self).partition("\n")
        return f"<{clean(first)}{' …' if more else ''}>"

    def _repr_mimebundle_(self, include: MimeTypes = None, exclude: MimeTypes = None) -> dict[str, str]:
        return hooks.current().mimebundle(self, include, exclude)

    def to_text(self) -> str:
        """Return the picture as plain text."""
        return hooks.current().draw(self, "to_text")

    def to_mermaid(self) -> str:
        """Return the picture as a Mermaid flowchart."""
        return hooks.current().draw(self, "to_mermaid")

    def to_dot(self) -> str:
        """Return the picture in Graphviz's DOT language."""
        return hooks.current().draw(self, "to_dot")

    def to_svg(self) -> str:
        """Return the picture as a self-contained SVG element.

        Raises: EngineError when no Graphviz is available for the layout.
        """
        return hooks.current().draw(self, "to_svg")
