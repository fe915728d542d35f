"""What a task hands out."""

from __future__ import annotations

from typing import Any, NamedTuple

from kstreamnb.core.record import Headers


class Produced(NamedTuple):
    """A record for a topic; key and value are in wire form."""

    topic: str
    partition: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers = ()
