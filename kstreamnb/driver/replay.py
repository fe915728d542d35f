"""Replay: a run that was recorded whole, to be walked through in both directions and asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kstreamnb.core.display import Displayed
from kstreamnb.core.record import TopicRecord
from kstreamnb.driver.engine import Layout
from kstreamnb.driver.moment import Moment
from kstreamnb.driver.recording import Recording
from kstreamnb.driver.run import Run
from kstreamnb.driver.state_diff import StateDiff, state_diff
from kstreamnb.driver.steps import Drop, Step, Steps
from kstreamnb.driver.test_driver import TopologyTestDriver
from kstreamnb.driver.wording import counted
from kstreamnb.errors import EngineError, KStreamError
from kstreamnb.runtime.config import Config
from kstreamnb.runtime.loops import collector_paused
from kstreamnb.runtime.task import Task
from kstreamnb.topology import Topology

__all__ = ["Breakpoint", "Replay", "replay"]

Condition = Callable[[Step], Any]


@dataclass(frozen=True)
class Breakpoint:
    """Where `Replay.run_until` stops: steps that touch a node, a key, and for which a condition holds."""

    node: str | None = None
    key: Any = None
    when: Condition | None = None

    def hits(self, step: Step) -> bool:
        """Whether a step is one to stop at."""
        if self.node is not None and not any(self.node in (hop.node, hop.child) for hop in step.forwarded):
            return False
        if self.key is not None and not any(_concerns(hop.key, self.key) for hop in step.forwarded):
            return False
        return self.when is None or bool(self.when(step))


class Replay(Displayed):
    """A recorded run. Nothing runs again while it is looked at.

    A position moves over the steps: after `seek(n)`, ``position`` is n and ``now`` the state after n steps. Position
    0 is before the first step; a new replay stands at its end. All else asks about the whole run.
    """

    def __init__(self, run: Run, error: KStreamError | None = None) -> None:
        self.run, self.error = run, error
        self.position = len(run.steps)
        self.breakpoints: tuple[Breakpoint, ...] = ()

    # --- what is there ---
    @property
    def topology(self) -> Topology:
        """What ran."""
        return self.run.topology

    @property
    def steps(self) -> Steps:
        """All steps; ``steps[0]`` is step 1."""
        return self.run.steps

    @property
    def topics(self) -> list[str]:
        """Topics that were written from which nobody in the application reads."""
        read = {code.other[0] for code, _ in self.run.history.of_kind("consumed")}
        return [topic for topic in self.run.topics() if topic not in read]

    @property
    def drops(self) -> tuple[Drop, ...]:
        """Every record that was refused, and why."""
        return tuple(self.run.drops())

    def output(self, topic: str) -> list[TopicRecord]:
        """Records that were written to a topic."""
        return self.run.output(topic)

    def counts(self) -> dict[tuple[str, str], int]:
        """Records over each edge of the graph: (topic, source), (parent, child) and (sink, topic)."""
        return self.at(len(self.steps)).counts()

    # --- moving ---
    @property
    def now(self) -> Moment:
        """The state at the present position."""
        return self.at(self.position)

    @property
    def current(self) -> Step | None:
        """The step that was made last; None before the first."""
        return self.steps[self.position - 1] if self.position else None

    def at(self, step: int) -> Moment:
        """The state after so many steps; the position stays."""
        return Moment(self.run, self._checked(step))

    def seek(self, step: int) -> Moment:
        """Move to the state after so many steps."""
        self.position = self._checked(step)
        return self.now

    def step(self) -> Step | None:
        """Make one more step, and give it; None at the end."""
        if self.position == len(self.steps):
            return None
        self.position += 1
        return self.current

    def back(self) -> Step | None:
        """Undo the last step, and give it; None at the beginning."""
        undone = self.current
        self.position -= undone is not None
        return undone

    def breakpoint(self, *, node: str | None = None, key: Any = None, when: Condition | None = None) -> Breakpoint:
        """Let `run_until` stop at steps that touch a node, a key (also windowed), and where ``when(step)`` holds."""
        if node is not None and node not in self.topology.nodes:
            near = ", ".join(name for name in self.topology.nodes if node in name) or ", ".join(self.topology.nodes)
            raise EngineError(f'there is no node "{node}"', detail=f"there are {near}")
        found = Breakpoint(node, key, when)
        self.breakpoints = (*self.breakpoints, found)
        return found

    def run_until(self, predicate: Condition | None = None) -> Step | None:
        """Go on until ``predicate(step)`` holds for the step just made, or a breakpoint is hit; None at the end."""
        while (step := self.step()) is not None:
            if (predicate is not None and predicate(step)) or any(stop.hits(step) for stop in self.breakpoints):
                return step
        return None

    def diff(self, before: int, after: int) -> StateDiff:
        """What changed in stores and stream time between two moments."""
        return state_diff(self.run, self._checked(before), self._checked(after))

    def __str__(self) -> str:
        taken = [code.other[0] in self.run.fed for code, _ in self.run.history.of_kind("consumed")]
        places = [places for _, places in self.run.history.of_kind("consumed")]
        records = sum(len(found) for found, fed in zip(places, taken, strict=True) if fed)
        out = sum(len(self.output(topic)) for topic in self.topics)
        parts = [f"{counted(records, 'record')} in", f"{out:,} out", f"{len(self.drops):,} dropped"]
        name = f' of "{self.topology.name}"' if self.topology.name else ""
        place = f"step {self.position:,} of {len(self.steps):,}"
        return f"replay{name}: {', '.join(parts)}; {counted(len(self.run.tasks), 'task')}, {place}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def _checked(self, step: int) -> int:
        if not 0 <= step <= len(self.steps):
            raise EngineError(
                f"there is no step {step}", detail=f"steps go from 0, the beginning, to {len(self.steps)}"
            )
        return step


def replay(
    topology: Topology,
    sample: Iterable[TopicRecord],
    partitions: Mapping[str, int] | int | None = None,
    *,
    config: Config | Mapping[str, Any] | None = None,
    task_layout: Layout = "split",
    wall_clock: datetime | str | int = 0,
    cache: bool | None = None,
) -> Replay:
    """Run a sample through a topology, keep everything that happens, and give it as a `Replay`.

    The records are taken as `TopologyTestDriver.pipe` takes them: in the order of a merge by time, each to its end.

    Args:
        topology: what to run.
        sample: records of any topics, such as a `Sample`.
        partitions: partitions of topics by name, or one number for all; 1 where nothing is said.
        config: settings by Python's or Kafka's names.
        task_layout: as in `TopologyTestDriver`.
        wall_clock: where the wall clock stands; it does not move.
        cache: use record caches; they are flushed after every record.

    Raises: ProcessingError and others of the run, with the replay until then as its attribute ``replay``.
    """
    recording = Recording()
    driver = TopologyTestDriver(
        topology,
        config,
        partitions=partitions,
        task_layout=task_layout,
        wall_clock=wall_clock,
        cache=cache,
        observe=recording,
    )
    records = list(sample)
    with collector_paused():
        return _recorded(driver, recording, records)


def _recorded(driver: TopologyTestDriver, recording: Recording, records: list[TopicRecord]) -> Replay:
    engine = driver.engine
    tasks: dict[str, Task] = dict(engine.tasks)
    if engine.global_task is not None:
        tasks[engine.global_task.plan.task_id] = engine.global_task

    def made(error: KStreamError | None) -> Replay:
        fed = dict.fromkeys(record.topic for record in records)
        return Replay(Run(driver.topology, driver.config, recording, tasks, engine.plan().partitions, fed), error)

    try:
        if records:
            driver.pipe(records)
        driver.close()
    except KStreamError as error:
        error.replay = made(error)  # type: ignore[attr-defined]
        error.add_note("Hint: the run until then is the error's attribute replay")
        raise
    return made(None)


def _concerns(found: Any, key: Any) -> bool:
    return bool(found == key or (isinstance(found, tuple) and found[:1] == (key,)))
