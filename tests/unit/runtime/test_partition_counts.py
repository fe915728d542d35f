"""Numbers of partitions that users pass to drivers, plans and runs."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import kstreamnb as ks
from kstreamnb.errors import ConfigError
from kstreamnb.simulation.cluster import ClusterDriver

MEANINGLESS = {
    'partitions are given for topic "odrers", which is neither read nor written\nHint: did you mean "orders"?': 4,
    'the number of partitions of topic "odrers" must be at least 1, got 0': 0,
}
ENGINES: dict[str, Callable[..., object]] = {
    "driver": ks.TopologyTestDriver,
    "cluster": ClusterDriver,
    "plan": ks.plan,
    "run": lambda topology, partitions: ks.run(topology, inputs={}, partitions=partitions),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("message", MEANINGLESS)
def test_a_mistyped_topic_with_partitions_is_refused(message: str, engine: str) -> None:
    """It would silently have one partition; Spark is not started for that."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("orders").group_by_key().count().to_stream().to("out")
    with pytest.raises(ConfigError, match=re.escape(message)):
        ENGINES[engine](builder.build(), partitions={"odrers": MEANINGLESS[message]})
