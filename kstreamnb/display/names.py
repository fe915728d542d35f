"""Identifiers made from names, and text without invisible characters."""

from __future__ import annotations

import re

_UNSAFE = re.compile(r"[^A-Za-z0-9.-]")
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


def clean(text: str) -> str:
    """Escape control characters, so that the text is one visible line and legal in XML."""
    return _INVISIBLE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def identifier(kind: str, name: str) -> str:
    """Return ``kind-name`` with every unusual character replaced by its code; distinct names stay distinct."""
    return f"{kind}-" + _UNSAFE.sub(lambda match: f"_{ord(match[0]):x}_", name)
