"""What a batch's output consists of, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kstreamnb.core.record import Headers

__all__ = ["OutputRecord", "Publication"]

OutputRecord: TypeAlias = tuple[str, int, int, bytes | None, bytes | None, Headers]
"""``(topic, partition, timestamp, key bytes, value bytes, headers)``."""


@dataclass(frozen=True)
class Publication:
    """What became of a batch: published, or suppressed because it was published already.

    ``differs`` says that the replay computed other records than were published: the topology is not deterministic.
    """

    batch: int
    records: int
    suppressed: bool = False
    differs: bool = False
