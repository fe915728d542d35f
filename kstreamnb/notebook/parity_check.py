"""Before a deployment from a notebook: compares driver and Spark on the builder's sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from IPython.display import display

from kstreamnb.errors import EngineError
from kstreamnb.runtime.context.config import Config
from kstreamnb.topology.topology import Topology

_ANYWAY = "deploy(…, parity=False) deploys anyway"


class ParityCheck:
    """Displays parity on the sample of the topology's builder; a difference prevents the deployment.

    Without a sample nothing is compared.
    """

    def __call__(self, topology: Topology, session: Any, config: Config, partitions: Mapping[str, int]) -> None:
        """Compare and display; raises EngineError when the engines disagree."""
        from kstreamnb.tools.parity import parity

        sample = topology.sample
        if sample is None:
            return
        result = parity(topology, sample, session, partitions=partitions, config=config)
        display(result)
        if not result.is_equal:
            raise EngineError("driver and Spark differ on the sample", detail=result.title, hint=_ANYWAY)
