"""Draws the moving picture of the README: ``python .site/stepper_picture.py`` writes ``notebooks/guide/stepper.svg``.

The README's example is replayed, and each step is a frame: a dot follows the record through the graph, the text says
what the step did, the table shows the store after it. Readers who prefer no motion see the last frame.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kstreamnb as ks
from kstreamnb.core.formatting import format_time, format_value
from kstreamnb.display.logical import logical_view
from kstreamnb.display.svg import to_svg
from kstreamnb.widgets import stepper

__all__ = ["PICTURE", "drawn", "example", "readme_code"]

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "notebooks" / "guide" / "stepper.svg"
SECONDS_PER_STEP = 2.4
LINE, ZOOM = 19, 1.25

CSS = """
.frame{opacity:0;animation:%(total)gs linear infinite}
.frame text{font-size:13px} .frame .head{font-weight:bold} .frame .late{fill:#d1242f}
.frame circle{fill:#2f81f7;stroke:var(--ks-ground);stroke-width:2}
.frame .changed{fill:#2f81f7;fill-opacity:.13}
@media (prefers-color-scheme:dark){.frame .late{fill:#ff7b72}}
@media (prefers-reduced-motion){
.frame{animation:none!important} .frame circle{display:none} .frame:last-of-type{opacity:1}
}
"""


def readme_code() -> str:
    """Return the README's example without its prompts, on the lines where it stands there."""
    text = (ROOT / "README.md").read_text()
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert block is not None
    above = text[: block.start(1)].count("\n")
    lines = (line[4:] if line.startswith((">>> ", "... ")) else "" for line in block[1].splitlines())
    return "\n" * above + "\n".join(lines)


def example() -> ks.Replay:
    """Replay the README's example."""
    names: dict[str, object] = {}
    exec(compile(readme_code(), "README.md", "exec"), names)
    topology, sample = names["topology"], names["sample"]
    assert isinstance(topology, ks.Topology)
    assert isinstance(sample, ks.Sample)
    return ks.replay(topology, sample)


def drawn(replay: ks.Replay) -> str:
    """Return the moving picture of a replay."""
    graph = to_svg(logical_view(replay.topology.description()))  # as the stepper opens
    inner_width, inner_height = (float(each) for each in re.findall(r'viewBox="0 0 (\S+) (\S+)"', graph)[0])
    frames = [frame(replay, graph, number, inner_height) for number in range(1, len(replay.steps) + 1)]
    height = inner_height + 9 * LINE
    total = SECONDS_PER_STEP * len(frames)
    style = CSS % {"total": total} + "".join(timing(number, len(frames)) for number in range(len(frames)))
    graph = re.sub(
        r'width="[^"]*" height="[^"]*" viewBox="[^"]*"', f'viewBox="0 0 {inner_width:g} {height:g}"', graph, count=1
    )
    graph = graph.replace("<svg ", f'<svg width="{inner_width * 1.25:.0f}" height="{height * 1.25:.0f}" ', 1)
    return graph.replace("</style>", f"{style.strip()}</style>").replace("</svg>", f"{''.join(frames)}</svg>") + "\n"


def timing(number: int, count: int) -> str:
    """Return the rules that show one frame in its turn."""
    begin, end = 100 * number / count, 100 * (number + 1) / count
    shown = f"{begin:.2f}%,{end - 0.01:.2f}%{{opacity:1}}{end:.2f}%,100%{{opacity:0}}"
    before = f"0%,{begin - 0.01:.2f}%{{opacity:0}}" if number else ""
    return f"@keyframes f{number + 1}{{{before}{shown}}}\n"


def frame(replay: ks.Replay, graph: str, number: int, top: float) -> str:
    """Return one step: the moving dot, what happened, and the rows of the store."""
    replay.seek(number)
    facts, step, count = stepper(replay).make_facts(), replay.steps[number - 1], len(replay.steps)
    assert step.record is not None
    record = f"{step.record.topic}, {format_value(step.record.key)} at {clock(step.record.timestamp)}"
    lines = [("head", f"step {number} of {count}: {record}")]
    for out in step.produced:
        lines.append(("", f"→ {out.topic}: {format_value(out.key)} = {format_value(out.value)}"))
    lines += [("late", f"dropped: {drop.reason}") for drop in step.dropped]
    parts = [text(8, top + LINE * (1 + index), line, kind) for index, (kind, line) in enumerate(lines)]
    parts += store_rows(facts, top + 3.4 * LINE)
    moving = dot(graph, facts, number, count)
    return f'<g class="frame" style="animation-name:f{number}">{moving}{"".join(parts)}</g>'


def clock(timestamp: int) -> str:
    """Return the time of day."""
    return format_time(timestamp).partition("T")[2][:5]


def text(x: float, y: float, line: str, kind: str = "") -> str:
    """Return a line of text."""
    marked = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{marked}>{html.escape(line)}</text>'


def store_rows(facts: Mapping[str, Any], y: float) -> Iterator[str]:
    """Yield the rows of every store after the step; changed ones are marked."""
    for store in facts["stores"]:
        yield text(8, y, f"store {store['name']} after the step: {store['number']}", "head")
        for row, mark in zip(store["rows"], store["marks"], strict=True):
            y += LINE
            if mark:
                yield f'<rect class="changed" x="4" y="{y - 14:g}" width="330" height="{LINE}"/>'
            key = re.sub(r"\d{4}-\d\d-\d\dT(\d\d:\d\d):00Z", r"\1", row[1])
            yield text(8, y, f"{key}: {row[3]}")


def dot(graph: str, facts: Mapping[str, Any], number: int, count: int) -> str:
    """Return a dot that follows the record over the edges of the step."""
    paths = [re.search(rf'id="{re.escape(hop["edge"])}".*? d="([^"]+)"', graph) for hop in facts["flight"]]
    path = " L".join(found[1].removeprefix("M") for found in paths if found)
    assert path, "no edge of the step is in the picture"
    begin, end = (number - 1 + 0.1) / count, (number - 1 + 0.7) / count
    offset = re.search(r'id="graph0"[^>]*transform="([^"]+)"', graph)
    assert offset is not None
    times, points = f"0;{begin:.4f};{end:.4f};1", "0;0;1;1"
    motion = f'<animateMotion dur="{SECONDS_PER_STEP * count:g}s" repeatCount="indefinite" calcMode="linear"'
    motion += f' keyTimes="{times}" keyPoints="{points}" path="M{path}"/>'
    return f'<g transform="{offset[1]}"><circle r="6">{motion}</circle></g>'


if __name__ == "__main__":
    PICTURE.write_text(drawn(example()))
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size:,} bytes")
