"""Rehearsals: what somebody wants to try, or to show, before a new deployment starts. Loads nothing of Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kstreamnb.runtime.config import Config
from kstreamnb.topology.topology import Topology

__all__ = ["Rehearsal", "rehearse", "rehearse_with"]

Rehearsal: TypeAlias = Callable[[Topology, Any, Config, Mapping[str, int]], None]
"""``rehearsal(topology, session, config, partitions by topic)``; it raises to keep the deployment from starting."""

_rehearsals: list[Rehearsal] = []


def rehearse_with(rehearsal: Rehearsal | None) -> None:
    """Let a notebook layer try topologies before they are deployed; ``None``: nothing is tried."""
    _rehearsals[:] = [] if rehearsal is None else [rehearsal]


def rehearse(topology: Topology, session: Any, config: Config, partitions: Mapping[str, int]) -> None:
    """Try a topology as the notebook layer wants it."""
    for rehearsal in _rehearsals:
        rehearsal(topology, session, config, partitions)
