"""Every description in the vectors is parsed, printed again, stored as JSON and drawn."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

from kstreamnb.display.graph import graph_view
from kstreamnb.display.mermaid import to_mermaid
from kstreamnb.display.parser import parse_description
from kstreamnb.display.text import to_text
from kstreamnb.topology.document import to_json
from tests.documents import from_json

VECTORS = Path(__file__).parent / "vectors" / "describe.jsonl.xz"


def test_every_description_survives_text_json_and_pictures() -> None:
    """Parsing and printing reproduces the text; JSON restores an equal value; every node's name is in the picture."""
    lines = [json.loads(line) for line in lzma.decompress(VECTORS.read_bytes()).decode().splitlines()]
    texts = [line["answer"]["describe"] for line in lines if "describe" in line["answer"]]
    assert len(texts) > 700
    for text in texts:
        description = parse_description(text)
        assert str(description) == text
        assert from_json(to_json(description)) == description
        view = graph_view(description)
        shown = to_text(view)
        assert [name for name in description.nodes() if name not in shown] == []
        assert to_mermaid(view).startswith("flowchart TD\n")
