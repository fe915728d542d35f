"""Compares outputs of notebook cells as rows of text, for people who read why ``pytest --nbval`` failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from html import unescape
from typing import Any

_BETWEEN_CELLS = re.compile(r"</t[dh]>\s*(?=<t[dh])")
_LINE_ENDS = re.compile(r"</(?:tr|p|li|caption|div|pre)>|<br\s*/?>")
_NO_TEXT = re.compile(r"<style.*?</style>|<svg.*?</svg>|<[^>]*>", re.DOTALL)


def output_diff(reference: Iterable[Mapping[str, Any]], outputs: Iterable[Mapping[str, Any]]) -> str:
    """Return a unified diff of two cells' outputs; tables are compared row by row.

    Example:
        >>> old, new = ({"data": {"text/html": f"<tr><td>ann</td><td>{count}</td></tr>"}} for count in (1, 2))
        >>> print(output_diff([old], [new]))
        --- reference
        +++ this run
        @@ -1 +1 @@
        -ann | 1
        +ann | 2
    """
    old, new = ([line for output in each for line in _lines(output)] for each in (reference, outputs))
    return "\n".join(unified_diff(old, new, "reference", "this run", n=1, lineterm=""))


def _lines(output: Mapping[str, Any]) -> list[str]:
    """Return an output as lines of text, of HTML its visible text."""
    data = output.get("data", {})
    text = data.get("text/plain", output.get("text", output.get("evalue", "")))
    if "text/html" in data:
        rows = _LINE_ENDS.sub("\n", _BETWEEN_CELLS.sub(" | ", data["text/html"]))
        text = unescape(_NO_TEXT.sub("", rows))
    return [line.strip() for line in text.splitlines() if line.strip()]
