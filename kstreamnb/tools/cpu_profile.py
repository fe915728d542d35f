"""Measures CPU time by node: a replay's input runs once more, with a clock around every operator."""

from __future__ import annotations

from collections import defaultdict
from copy import copy
from dataclasses import dataclass, replace
from time import thread_time

from kstreamnb.core.operator import BindContext, Forward, Operator, Process
from kstreamnb.core.record import Headers
from kstreamnb.core.traits import OperatorTraits
from kstreamnb.replays.replay import Replay
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver


@dataclass(frozen=True)
class _Timed(Operator):
    """Another operator, with a clock around its work; it is never fused with others.

    ``seconds`` maps each node to its own time, without the nodes that it forwards to; ``nested`` is a stack with, for
    each running node, the time of the nodes that it has forwarded to.
    """

    node: str
    inner: Operator
    seconds: defaultdict[str, float]
    nested: list[float]

    @property
    def traits(self) -> OperatorTraits:
        """The traits of the wrapped operator."""
        return self.inner.traits

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        process, seconds, nested, name = self.inner.bind(context, forward), self.seconds, self.nested, self.node

        def timed(key: object, value: object, timestamp: int, headers: Headers) -> None:
            nested.append(0.0)
            began = thread_time()
            try:
                process(key, value, timestamp, headers)
            finally:
                took = thread_time() - began
                seconds[name] += took - nested.pop()
                if nested:
                    nested[-1] += took

        return timed


def node_seconds(replay: Replay) -> dict[str, float]:
    """Run the input of a replay once more, without recording, and return the CPU seconds of every processor.

    The topology's functions run again. Serialization belongs to the node that forwards to the sink.
    """
    run, seconds, nested = replay.run, defaultdict[str, float](float), list[float]()
    timed = copy(replay.topology)
    operators = ((node, _Timed(node.name, node.operator, seconds, nested)) for node in replay.topology.processors())
    timed.nodes = timed.nodes | {node.name: replace(node, operator=operator) for node, operator in operators}
    records = [run.consumed(position) for position in run.index.positions_of("consumed")]
    counts = {topic: count for topic, count in run.partitions.items() if topic not in timed.internal_topics}
    with TopologyTestDriver(timed, run.config, partitions=counts) as driver:
        driver.pipe([record for record in records if record.topic in run.fed])
    return seconds
