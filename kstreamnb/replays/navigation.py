"""Navigates through a run: a position that moves over the steps in both directions, and breakpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Never, Protocol
from weakref import WeakSet

from kstreamnb.core.arguments import expect, expect_number
from kstreamnb.core.progress import pieces
from kstreamnb.core.signatures import taking
from kstreamnb.errors import EngineError
from kstreamnb.hints import unknown
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.steps import Step
from kstreamnb.replays.analysis.node_flow import is_about
from kstreamnb.replays.analysis.snapshot import Snapshot
from kstreamnb.replays.analysis.state_diff import StateDiff, state_diff

StepCondition = Callable[[Step], object]


@dataclass(frozen=True)
class Breakpoint:
    """Stops `Replay.run_until` at steps that touch a node or key and satisfy a condition."""

    node: str | None = None
    key: object = None
    when: StepCondition | None = None

    def hits(self, step: Step) -> bool:
        """Return whether the breakpoint stops at a step.

        Args:
            step: a step of the same run.
        """
        if self.node is not None and step.elsewhere:
            return False
        if self.node is not None and not any(self.node in (hop.node, hop.child) for hop in step.forwarded):
            return False
        if self.key is not None and not any(is_about(hop.key, self.key) for hop in step.forwarded):
            return False
        return self.when is None or bool(self.when(step))


class Follower(Protocol):
    """A widget that shows the position of a replay."""

    def follow(self) -> None:
        """Show the position again."""


class Navigation:
    """A position in a run. After `seek(n)`, ``position`` is n and ``now`` is the state after n steps."""

    def __init__(self, run: RecordedRun) -> None:
        self.run = run
        self.followers: WeakSet[Follower] = WeakSet()
        self.position = len(run.steps)
        self.breakpoints: tuple[Breakpoint, ...] = ()

    @property
    def position(self) -> int:
        """The number of steps up to the present state; setting it calls the followers."""
        return self._position

    @position.setter
    def position(self, step: int) -> None:
        self._position = step
        for follower in tuple(self.followers):
            follower.follow()

    @property
    def now(self) -> Snapshot:
        """The state at the current position."""
        return self.at(self.position)

    @property
    def current(self) -> Step | None:
        """The latest step; None before the first."""
        return self.run.steps[self.position - 1] if self.position else None

    def at(self, step: int) -> Snapshot:
        """Return the state after ``step`` steps without moving the position.

        Args:
            step: number of steps, from 0 to the length of the run.

        Raises: EngineError for a step that the replay does not have.
        """
        return Snapshot(self.run, self._checked(step))

    def seek(self, step: int) -> Snapshot:
        """Move to the state after ``step`` steps.

        Args:
            step: number of steps, from 0 to the length of the run.

        Raises: EngineError for a step that the replay does not have.
        """
        self.position = self._checked(step)
        return self.now

    def step(self, *count: Never) -> Step | None:
        """Advance by one step and return it; None at the end.

        Args:
            count: refused: `step` and `back` move by one, `seek` to any position.

        Raises: EngineError for a number of steps.
        """
        if count:
            raise self._one_at_a_time("step()", count[0], 1)
        if self.position == len(self.run.steps):
            return None
        self.position += 1
        return self.current

    def back(self, *count: Never) -> Step | None:
        """Go back by one step and return the step undone; None at the beginning.

        Args:
            count: refused: `step` and `back` move by one, `seek` to any position.

        Raises: EngineError for a number of steps.
        """
        if count:
            raise self._one_at_a_time("back()", count[0], -1)
        undone = self.current
        self.position -= undone is not None
        return undone

    def breakpoint(
        self, *, node: str | None = None, key: object = None, when: StepCondition | None = None
    ) -> Breakpoint:
        """Make `run_until` stop at steps that touch a node or key (also windowed) and satisfy ``when(step)``.

        Args:
            node: name of the node. Default: any node.
            key: key of the record, also within a window. Default: any key.
            when: function ``(step) -> bool``. Default: None, every such step.

        Raises: EngineError if the topology has no such node.
        """
        expect(node, str | None, "node")
        if node is not None and node not in self.run.topology.nodes:
            nodes = self.run.topology.nodes
            raise unknown("node", node, [name for name in nodes if node in name] or nodes, error=EngineError)
        self.breakpoints = (*self.breakpoints, Breakpoint(node, key, when))
        return self.breakpoints[-1]

    def run_until(self, predicate: StepCondition | None = None) -> Step | None:
        """Advance until ``predicate(step)`` holds or a breakpoint is hit, and return the step; None at the end.

        Args:
            predicate: function ``(step) -> bool``. Default: None, only breakpoints stop.
        """
        if predicate is not None:
            taking(predicate, "step")
        start = self.position
        try:
            for numbers in pieces(range(start, len(self.run.steps)), "steps"):
                for number in numbers:
                    step = self.run.steps[number]
                    self._position = number + 1
                    if (predicate is not None and predicate(step)) or any(stop.hits(step) for stop in self.breakpoints):
                        return step
        except BaseException:
            self._position = start  # as if it had not been called: the corrected predicate meets the same steps
            raise
        finally:
            self.position = self._position
        return None

    def diff(self, before: int, after: int) -> StateDiff:
        """Compare stores and stream times after two steps.

        Args:
            before: number of steps before the first state.
            after: number of steps before the second state.

        Raises: EngineError for a step that the replay does not have.
        """
        return state_diff(self.run, self._checked(before), self._checked(after))

    def _one_at_a_time(self, call: str, count: object, sign: int) -> EngineError:
        wanted = self.position + sign * (count if isinstance(count, int) else 1)
        target = max(0, min(len(self.run.steps), wanted))
        return EngineError(f"{call} moves by one step, got {count!r}", hint=f"write seek({target}) to go there at once")

    def _checked(self, step: int) -> int:
        expect_number(step, "step")
        if not 0 <= step <= len(self.run.steps):
            raise EngineError(f"step must be from 0, the beginning, to {len(self.run.steps)}, got {step}")
        return step
