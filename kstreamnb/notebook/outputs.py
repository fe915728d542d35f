"""Shows data and pictures of a value as separate outputs of a cell, data first.

A saved notebook keeps the picture as ``image/svg+xml`` without HTML beside it: viewers that remove or escape SVG inside
HTML, such as GitHub's, show it then. Outside a kernel all are one output.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kstreamnb.core.displayed import MimeTypes
from kstreamnb.display.mime import data_of, drawing_of, joined, pictures_of, wanted
from kstreamnb.display.picture import GraphPicture, picture_forms

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kstreamnb.notebook.cells import Cells

Parts: TypeAlias = "tuple[dict[str, str] | None, Sequence[GraphPicture]]"
"""The data of a value by MIME type, and its pictures."""


def parts_of(model: object) -> Parts:
    """Return the data and the pictures of a model."""
    return data_of(model), pictures_of(model)


def formatter(shell: InteractiveShell, parts: Callable[[Any], Parts]) -> Callable[..., dict[str, str]]:
    """Return a function for IPython's formatter of MIME bundles."""

    def show(thing: object, include: MimeTypes = None, exclude: MimeTypes = None) -> dict[str, str]:
        (data, pictures), drawing = parts(thing), drawing_of(thing)
        if data is None or not (pictures or drawing) or not hasattr(shell, "kernel"):
            return wanted(joined(data, pictures, drawing), include, exclude)
        drawn = [picture_forms(each) for each in pictures] or [{"text/plain": repr(thing), "image/svg+xml": drawing}]
        *before, last = (wanted(forms, include, exclude) for forms in (data, *drawn))
        for forms in before:
            shell.display_pub.publish(forms)
        return last

    return show


def only_in_outputs(cells: Cells) -> bool:
    """Return True for front ends that show widgets in outputs alone: VS Code and Colab."""
    in_vscode = any(str(cell).startswith("vscode-notebook-cell") for cell in cells.sources)
    return in_vscode or "google.colab" in sys.modules


def in_jupyterlab(cells: Cells) -> bool:
    """Return True for JupyterLab and Notebook 7."""
    return cells.ids_are_sent and not only_in_outputs(cells)
