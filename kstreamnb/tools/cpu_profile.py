"""Measures CPU time by node: a replay's input runs once more, with a clock around every operator."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from time import thread_time

from kstreamnb.core.operator import BindContext, Forward, Operator, OperatorTraits, Process
from kstreamnb.core.record import Headers
from kstreamnb.replays.replay import Replay
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.nodes import ProcessorNode


class _Stopwatch:
    """CPU seconds by node, without those of the nodes that it forwards to."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._running: list[str] = []
        self._since = 0.0

    def enter(self, node: str) -> None:
        """Stop the clock of the node that runs, and start that of another one."""
        self._note()
        self._running.append(node)

    def leave(self) -> None:
        """Stop the clock of a node, and continue that of the node that called it."""
        self._note()
        self._running.pop()

    def _note(self) -> None:
        now = thread_time()
        if self._running:
            self.seconds[self._running[-1]] = self.seconds.get(self._running[-1], 0.0) + now - self._since
        self._since = thread_time()


@dataclass(frozen=True)
class _Timed(Operator):
    """Another operator, with a clock around its work; it is never fused with others."""

    node: str
    inner: Operator
    watch: _Stopwatch

    @property
    def traits(self) -> OperatorTraits:
        """Those of the operator."""
        return self.inner.traits

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        process, enter, leave, name = self.inner.bind(context, forward), self.watch.enter, self.watch.leave, self.node

        def timed(key: object, value: object, timestamp: int, headers: Headers) -> None:
            enter(name)
            try:
                process(key, value, timestamp, headers)
            finally:
                leave()

        return timed


def node_seconds(replay: Replay) -> dict[str, float]:
    """Run the input of a replay once more, without recording, and return the CPU seconds of every processor.

    The topology's functions run again. Serialization belongs to the node that forwards to the sink.
    """
    run, watch = replay.run, _Stopwatch()
    timed = copy(replay.topology)
    timed.nodes = {
        name: replace(node, operator=_Timed(name, node.operator, watch)) if isinstance(node, ProcessorNode) else node
        for name, node in replay.topology.nodes.items()
    }
    records = [run.consumed(position) for position in run.index.positions_of("consumed")]
    counts = {topic: count for topic, count in run.partitions.items() if topic not in timed.internal_topics}
    with TopologyTestDriver(timed, run.config, partitions=counts) as driver:
        driver.pipe([record for record in records if record.topic in run.fed])
    return watch.seconds
