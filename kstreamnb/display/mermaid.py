"""Draws a topology as a Mermaid flowchart, which GitHub, GitLab, JupyterLab and many editors render."""

from __future__ import annotations

import re

from kstreamnb.core.formatting import clean
from kstreamnb.display.graph import Box, GraphView, Item

_BOX, _STADIUM = ('["', '"]'), ('(["', '"])')
_SHAPES = {"topic": _STADIUM, "internal topic": _STADIUM, "store": ('[("', '")]')}
_SPECIAL = re.compile(r"[^\w .,:+/=-]", re.ASCII)


def to_mermaid(view: GraphView) -> str:
    """Return a flowchart: stadiums are topics, cylinders are stores, subgraphs are sub-topologies."""
    ids = _short_ids(view)
    lines = ["flowchart TD", f"  accTitle: {_plain(view.title)}", f"  accDescr: {_plain(view.summary())}"]
    for box in view.boxes:
        lines += _box(box, ids)
    lines += [f"  {_item(item, ids)}" for item in view.topics]
    for edge in view.edges:
        count = "" if edge.count is None else f"|{edge.count}|"
        arrow = "-.-" if edge.kind == "store" else "-->"
        lines.append(f"  {ids[edge.tail]} {arrow}{count} {ids[edge.head]}")
    lines += [f"  %% {_plain(sentence)}" for sentence in view.sentences()]
    dashed = [ids[item.id] for item in view.topics if item.kind == "internal topic"]
    if dashed:
        lines += ["  classDef internal stroke-dasharray: 4 3", f"  class {','.join(dashed)} internal"]
    failed = [ids[item.id] for item in view.items() if item.mark == "failed"]
    if failed:
        lines += ["  classDef failed stroke:#d1242f,stroke-width:3px", f"  class {','.join(failed)} failed"]
    return "\n".join(lines)


def _short_ids(view: GraphView) -> dict[str, str]:
    """Return Mermaid ids: a letter for the kind and a number, in the order of the picture."""
    ids = {box.id: f"box{number}" for number, box in enumerate(view.boxes)}
    for item in view.items():
        letter = item.kind.split()[-1][0] if item.kind != "sink" else "k"
        ids[item.id] = f"{letter}{len(ids)}"
    return ids


def _box(box: Box, ids: dict[str, str]) -> list[str]:
    if box.folded:
        return [f'  {ids[box.id]}[["{_escaped(box.title)}"]]']
    inside = (f"    {_item(item, ids)}" for item in box.items)
    return [f'  subgraph {ids[box.id]}["{_escaped(box.title)}"]', *inside, "  end"]


def _item(item: Item, ids: dict[str, str]) -> str:
    left, right = _SHAPES.get(item.kind, _BOX)
    shown = (item.label, item.word, item.note, item.mark)
    return f"{ids[item.id]}{left}{'<br/>'.join(_escaped(line) for line in shown if line)}{right}"


def _escaped(text: str) -> str:
    """Replace every character that Mermaid might interpret by its entity."""
    return _SPECIAL.sub(lambda match: f"#{ord(match[0])};", clean(text))


def _plain(text: str) -> str:
    """Remove characters that Mermaid interprets even in comments and titles."""
    return re.sub(r"[{};%#<>]", " ", clean(text))
