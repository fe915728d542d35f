"""Before a deployment from a notebook: compares driver and Spark on the builder's sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from IPython.display import display

from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.errors import EngineError, KStreamError
from kstreamnb.runtime.context.config import Config
from kstreamnb.topology.topology import Topology

_ANYWAY = "deploy(…, parity=False) deploys anyway"


class ParityCheck:
    """Displays parity on the sample of the topology's builder; a difference prevents the deployment.

    Without a builder in a variable, or without a sample, nothing is compared.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def __call__(self, topology: Topology, session: Any, config: Config, partitions: Mapping[str, int]) -> None:
        """Compare and display; raises EngineError when the engines disagree."""
        from kstreamnb.tools.parity import parity

        sample = self._sample(topology)
        if sample is None:
            return
        result = parity(topology, sample, session, partitions=partitions, config=config)
        display(result)
        if not result.is_equal:
            raise EngineError("driver and Spark differ on the sample", detail=result.title, hint=_ANYWAY)

    def _sample(self, topology: Topology) -> Any:
        """Return the sample of the builder that builds this topology."""
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
        except KStreamError:  # not the builder of a topology that was built
            return False
    return False
