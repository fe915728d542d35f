"""The base class of widgets: sends facts to the page, receives commands, and always includes a static form.

Python computes every figure; a widget's module in ``static/`` lays out and paints. A module needs no build step: it is
the text of ``common.js`` followed by that of the widget's file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar
from weakref import WeakSet

import anywidget
import traitlets

from kstreamnb.display.mime import picture_of
from kstreamnb.display.picture import picture_forms
from kstreamnb.errors import KStreamError
from kstreamnb.errors.base import notes_without_link
from kstreamnb.notebook.cells import loaded
from kstreamnb.notebook.outputs import in_jupyterlab

_STATIC = Path(__file__).parent.parent / "static"
_SAVED = "The widget as it was saved; its model ended with its kernel. Run this cell again to use it."
Facts: TypeAlias = dict[str, object]
T = TypeVar("T")


def static_text(name: str) -> str:
    """Return the text of a file beside the widgets."""
    return (_STATIC / name).read_text(encoding="utf-8")


def esm(name: str) -> str:
    """Return the JavaScript module of a widget: the shared part, then its own."""
    return static_text("common.js") + "\n" + static_text(f"{name}.js")


def page_of(rows: Sequence[T], page: int, size: int) -> tuple[Sequence[T], int, int]:
    """Return the rows of a page, or of the last one if there are fewer, with its number and the number of pages."""
    pages = max(1, -(-len(rows) // size))
    page = min(page, pages - 1)
    return rows[page * size : (page + 1) * size], page, pages


def named(*methods: Callable[..., None]) -> Mapping[str, Callable[..., None]]:
    """Return methods by name: the commands that the page of a widget may send."""
    return {each.__name__: each for each in methods}


class FactsWidget(anywidget.AnyWidget):
    """A widget over immutable facts.

    Attributes:
        label: a description of the widget for screen readers.
        facts: the data that the page paints; replaced as a whole, never changed.
        notice: says that what the widget shows is older than the notebook's declarations; empty if it is not.
        error: the last error, visible in the widget; empty if none.
        replaced: its cell has run again, and made another one or none.
        pictured: what is drawn into a picture beside the static form of a saved notebook; None for no picture.
        audiences: sets whose members are notified of changes, besides those of the notebook's cells.
    """

    _css = static_text("common.css")
    label = traitlets.Unicode("").tag(sync=True)
    facts = traitlets.Dict().tag(sync=True)
    notice = traitlets.Unicode("").tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)
    replaced = traitlets.Bool()
    pictured: object = None
    audiences: tuple[WeakSet[Any], ...] = ()
    commands: ClassVar[Mapping[str, Callable[..., None]]] = {}

    def __init__(self, label: str, **state: object) -> None:
        self._acts = False
        # The page may paint as soon as the model exists, so the model is made with its facts.
        super().__init__(label=label, facts=self.make_facts(), notice=self.stale() or "", _view_count=0, **state)
        self.on_msg(self._receive)
        for cells in loaded:
            before = cells.earlier("widget", self)
            if before is not None:
                before.replaced = True

    def stale(self) -> str | None:
        """Say that the notebook has changed what the widget shows; None if it has not."""
        return None

    def make_facts(self) -> Facts:
        """Return the data that the page paints now."""
        raise NotImplementedError

    def forms(self) -> dict[str, str]:
        """Return the static form of the widget, for saved notebooks and front ends without a kernel."""
        raise NotImplementedError

    def tell(self, command: str, **arguments: object) -> None:
        """Execute a command of the page; a failure is shown in the widget instead of being lost in a callback."""
        self._acts = True
        try:
            act = self.commands.get(command)
            if act is None:
                raise KStreamError(f'this widget has no command "{command}"')
            act(self, **arguments)
            self.facts = self.make_facts()
            self.notice = self.stale() or ""
            self.error = ""
        except Exception as error:  # no caller would see it: the page shows it
            self.error = "\n".join([f"{type(error).__name__}: {error}", *notes_without_link(error)])
        finally:
            self._acts = False

    def follow(self) -> None:
        """Show what was changed in code or by another widget."""
        if not self._acts:
            self.facts = self.make_facts()

    def look(self) -> None:
        """Look for changes after a cell has run, because any cell may declare something else."""
        self.notice = self.stale() or ""

    def open(self) -> None:
        """Give the page a model, and follow what the widget shows."""
        if self.layout.comm is None:  # closed with the widget
            self.layout.open()
        super().open()
        for audience in (*self.audiences, *(cells.widgets for cells in loaded)):
            audience.add(self)

    def close(self) -> None:
        """Remove the widget from the page; displaying it opens it again."""
        for audience in (*self.audiences, *(cells.widgets for cells in loaded)):
            audience.discard(self)
        super().close()
        self.layout.close()  # ipywidgets would keep this model of each widget
        self.__dict__.pop("_repr_mimebundle_", None)  # ipywidgets hides the method of a closed widget

    @traitlets.observe("replaced", "_view_count")
    def _leave(self, _change: object) -> None:
        """Close a replaced widget when no page shows it: the registry of ipywidgets would keep it."""
        if self.replaced and not self._view_count:
            self.close()

    def _receive(self, _widget: object, content: Mapping[str, object], _buffers: object) -> None:
        arguments = {str(name): value for name, value in content.items() if name != "do"}
        self.tell(str(content.get("do")), **arguments)
        self.send({"done": content.get("do")})  # facts that have not changed are not sent

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.label}>"

    def _repr_mimebundle_(self, **options: object) -> Any:
        if self.comm is None:  # closed, and shown again: the page gets the present state
            self.follow()
            self.look()
            self.open()
        live = super()._repr_mimebundle_(**options)
        data, metadata = live if live is not None else ({}, {})
        for cells in filter(in_jupyterlab, loaded):
            for form in self._saved():
                cells.shell.display_pub.publish(form)
            return {**data, "text/plain": repr(self)}, metadata
        return {**data, **self.forms()}, metadata

    def _saved(self) -> list[dict[str, str]]:
        """Return the outputs before the widget: JupyterLab shows no other form of the same output without its kernel.

        The page hides them while it shows the widget (``common.css``).
        """
        forms, drawn = self.forms(), picture_of(self.pictured)
        picture = {} if drawn is None else picture_forms(drawn)
        if "image/svg+xml" in forms:
            forms, picture = {}, forms
        kind = "ks-saved ks-drawn" if picture else "ks-saved"
        page = f'<div class="{kind}"><p>{_SAVED}</p>{forms.get("text/html", "")}</div>'
        data = {"text/plain": f"{_SAVED}\n{forms.get('text/plain', '')}".rstrip(), "text/html": page}
        return [data, picture] if picture else [data]
