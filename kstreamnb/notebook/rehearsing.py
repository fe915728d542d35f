"""Before a deployment from a notebook: driver and Spark side by side on the builder's sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from IPython.display import display

from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.errors import EngineError, KStreamError
from kstreamnb.runtime.context.config import Config
from kstreamnb.topology.topology import Topology

__all__ = ["NotebookRehearsal"]

_ANYWAY = "deploy(…, parity=False) starts it all the same"


class NotebookRehearsal:
    """Shows parity on the sample of the builder that a topology comes from; a difference keeps it from starting.

    Without a builder in a variable, or without its sample, there is nothing to compare.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def __call__(self, topology: Topology, session: Any, config: Config, partitions: Mapping[str, int]) -> None:
        """Compare, show, and raise EngineError when the engines disagree."""
        from kstreamnb.tools.parity import parity

        sample = self._sample(topology)
        if sample is None:
            return
        found = parity(topology, sample, session, partitions=partitions, config=config)
        display(found)
        if not found.is_equal:
            raise EngineError("driver and Spark differ on the sample", detail=found.title, hint=_ANYWAY)

    def _sample(self, topology: Topology) -> Any:
        """The sample of a builder in a variable that builds this topology."""
        fingerprint = topology.fingerprint()
        for thing in list(self._shell.user_ns.values()):
            if isinstance(thing, StreamsBuilder) and thing.sample is not None and _builds(thing, fingerprint):
                return thing.sample
        return None


def _builds(builder: StreamsBuilder, fingerprint: str) -> bool:
    for optimize in (False, True):
        try:
            if builder.build(optimize=optimize).fingerprint() == fingerprint:
                return True
        except KStreamError:  # a builder that cannot build is not the one that did
            return False
    return False
