"""What all widgets share: facts go to the page, commands come back, errors and a static form are always there.

Python computes every number; a widget's module in ``static/`` lays out and paints. There is no build step: a module
is the text of ``common.js`` and that of its own file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import traitlets

from kstreamnb.errors import KStreamError

__all__ = ["FactsWidget", "esm", "static_text"]

_STATIC = Path(__file__).parent.parent / "static"
Facts = dict[str, Any]


def static_text(name: str) -> str:
    """The text of a file beside the widgets."""
    return (_STATIC / name).read_text(encoding="utf-8")


def esm(name: str) -> str:
    """The module of a widget: what all share, then its own."""
    return static_text("common.js") + "\n" + static_text(f"{name}.js")


class FactsWidget(anywidget.AnyWidget):
    """A widget over frozen facts.

    Attributes:
        label: what the widget shows, in words, for those who cannot see it.
        facts: what the page paints; replaced as a whole, never changed.
        error: what went wrong last, visible in the widget; empty when nothing did.
    """

    _css = static_text("common.css")
    label = traitlets.Unicode("").tag(sync=True)
    facts = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    commands: ClassVar[Mapping[str, Callable[..., None]]] = {}

    def __init__(self, label: str) -> None:
        super().__init__(label=label)
        self.on_msg(self._told)
        self.facts = self.make_facts()

    def make_facts(self) -> Facts:
        """What the page is to paint now."""
        raise NotImplementedError

    def forms(self) -> dict[str, str]:
        """The static forms of the same thing, for saved notebooks and places without a kernel."""
        raise NotImplementedError

    def tell(self, command: str, **given: Any) -> None:
        """Do what the page asks for; a failure is shown in the widget instead of being lost in a callback."""
        try:
            act = self.commands.get(command)
            if act is None:
                raise KStreamError(f'this widget has no command "{command}"')
            act(self, **given)
            self.facts = self.make_facts()
            self.error = ""
        except Exception as error:  # nobody stands above a callback of a widget: the page says it
            self.error = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])

    def _told(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        given = {str(name): value for name, value in content.items() if name != "do"}
        self.tell(str(content.get("do")), **given)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.label}>"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        live = super()._repr_mimebundle_(**options)
        data, metadata = live if live is not None else ({}, {})
        forms = self.forms()
        text = forms.get("text/plain", repr(self))
        return {"text/html": f"<pre>{escape(text)}</pre>", **data, **forms, "text/plain": text}, metadata
