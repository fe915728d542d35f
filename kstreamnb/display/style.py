"""The style sheet and legend of pictures: one look in light and dark, in JupyterLab, VS Code and elsewhere.

Background and text colours come from the page's variables (JupyterLab's, then VS Code's), otherwise from the reader's
light or dark preference. Kinds differ by shape, label and translucent tint, so text keeps the contrast of the page.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

PAGE_CSS = """
.ks-graph{--ks-light:#ffffff;--ks-dark:#1f2328;
--ks-ground:var(--jp-layout-color0,var(--vscode-editor-background,var(--ks-light)));
--ks-ink:var(--jp-content-font-color0,var(--vscode-editor-foreground,var(--ks-dark)));color:var(--ks-ink)}
@media (prefers-color-scheme:dark){.ks-graph{--ks-light:#0d1117;--ks-dark:#e6edf3}}
.ks-graph .ks-ground{fill:var(--ks-ground);stroke:none}
.ks-graph text{fill:var(--ks-ink);font-family:Helvetica,Arial,sans-serif}
""".strip()
"""Background and text of every picture."""

CSS = (
    PAGE_CSS
    + """
.ks-graph .ks-title text{paint-order:stroke;stroke:var(--ks-ground);stroke-width:4px;stroke-linejoin:round}
.ks-graph .ks-flow path{stroke:var(--ks-ink);stroke-opacity:.75}
.ks-graph .ks-use path{stroke:#a87000}
.ks-graph .ks-flow polygon{fill:var(--ks-ink);stroke:var(--ks-ink)}
.ks-graph .ks-box>path,.ks-graph .ks-box>polygon{fill:#808080;fill-opacity:.07;stroke:#808080}
.ks-graph .ks-global>path{stroke-dasharray:6 3}
.ks-graph .ks-source>polygon,.ks-graph .ks-processor>polygon,.ks-graph .ks-sink>polygon
{fill:#2f81f7;fill-opacity:.13;stroke:#2f81f7}
.ks-graph .ks-topic>path{fill:#1a7f37;fill-opacity:.13;stroke:#2c974b}
.ks-graph .ks-internal>path{stroke-dasharray:5 3}
.ks-graph .ks-store>path{fill:#a87000;fill-opacity:.13;stroke:#a87000}
.ks-graph .ks-failed>polygon{fill:#d1242f;fill-opacity:.2;stroke:#d1242f;stroke-width:3}
.ks-graph .ks-new>polygon,.ks-graph .ks-changed>polygon{stroke-width:3}
.ks-graph .ks-stale>polygon{stroke-dasharray:2 3;fill-opacity:0}
""".rstrip()
)

HEAT_CSS = "".join(
    f"\n.ks-graph .ks-heat-{level}>:is(polygon,path){{fill:#d1242f;fill-opacity:{opacity};stroke:#d1242f}}"
    for level, opacity in enumerate((0.08, 0.16, 0.26, 0.38, 0.5), start=1)
)
HEAT_CSS += "\n.ks-graph [class*=ks-heat]>:is(polygon~polygon,path~path){fill-opacity:0}"  # outlines of one shape
"""Depths of colour by cost; only in pictures that have some."""

_PILL = '<path d="M5,1H13A5,5 0 0 1 18,6V8A5,5 0 0 1 13,13H5A5,5 0 0 1 0,8V6A5,5 0 0 1 5,1Z"/>'
_BOX = '<polygon points="0,1 18,1 18,13 0,13"/>'
_CYLINDER = '<path d="M0,3V11C0,14 18,14 18,11V3"/><path d="M0,3C0,0 18,0 18,3C18,6 0,6 0,3Z"/>'
_SHAPES = {
    "operator": f'<g class="ks-processor">{_BOX}</g>',
    "topic": f'<g class="ks-topic">{_PILL}</g>',
    "internal topic": f'<g class="ks-topic ks-internal">{_PILL}</g>',
    "store": f'<g class="ks-store">{_CYLINDER}</g>',
    "sub-topology": f'<g class="ks-box">{_BOX}</g>',
    "the darker, the greater its share": f'<g class="ks-heat-4">{_BOX}</g>',
}
_LETTER, _GAP, _SHAPE = 4.9, 16, 24


def legend(kinds: Sequence[str]) -> tuple[str, float]:
    """Return one line of shapes and labels as SVG elements starting at 0, and its width in pixels."""
    parts, x = [], 0.0
    for kind in kinds:
        text = f'<text x="{_SHAPE}" y="11" font-size="10">{html.escape(kind)}</text>'
        parts.append(f'<g transform="translate({x:g} 0)">{_SHAPES[kind]}{text}</g>')
        x += round(_SHAPE + _LETTER * len(kind) + _GAP, 1)
    return "".join(parts), x
