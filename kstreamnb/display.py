"""The hook by which frozen models show themselves in notebooks, and give their picture to scripts.

A model knows only this; how it looks is decided in `kstreamnb.view`, which stands above every model and is therefore
looked up by name when something is shown, never before.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Any


class Displayed:
    """Gives a model its rich display and its picture; showing it never changes it and never runs anything."""

    __slots__ = ()

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        bundle: dict[str, Any] = import_module("kstreamnb.view").mimebundle(self, include, exclude)
        return bundle

    def to_text(self) -> str:
        """The picture in characters."""
        return self._drawn("to_text")

    def to_mermaid(self) -> str:
        """The picture as a Mermaid flowchart."""
        return self._drawn("to_mermaid")

    def to_dot(self) -> str:
        """The picture in Graphviz's language."""
        return self._drawn("to_dot")

    def to_svg(self) -> str:
        """The picture as a self-contained SVG element.

        Raises: EngineError when there is no Graphviz to lay it out.
        """
        return self._drawn("to_svg")

    def _drawn(self, form: str) -> str:
        view = import_module("kstreamnb.view")
        return str(getattr(view, form)(view.view_of(self)))
