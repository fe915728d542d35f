"""Identifiers made from names."""

from __future__ import annotations

import re

_UNSAFE = re.compile(r"[^A-Za-z0-9.-]")


def identifier(kind: str, name: str) -> str:
    """Return ``kind-name`` with every unusual character replaced by its code; distinct names stay distinct."""
    return f"{kind}-" + _UNSAFE.sub(lambda match: f"_{ord(match[0]):x}_", name)
