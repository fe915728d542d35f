"""Replays a completely recorded run: navigation in both directions, and queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kstreamnb import hooks
from kstreamnb.core.arguments import expect
from kstreamnb.core.displayed import Displayed
from kstreamnb.core.formatting import pluralize
from kstreamnb.core.heap import collector_paused
from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import EngineError, KStreamError
from kstreamnb.frames import Drops, Records
from kstreamnb.hints import did_you_mean, unknown
from kstreamnb.recording.read_tracking import stores_to_watch
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.steps import Drop, Steps
from kstreamnb.recording.trace import Recording
from kstreamnb.replays.analysis.run_profile import RunProfile, run_profile
from kstreamnb.replays.explain.dropped import stream_times
from kstreamnb.replays.explain.schedules import CLOCK_REMEDY, never_fired
from kstreamnb.replays.queries import Queries
from kstreamnb.runtime.task.task import Task
from kstreamnb.suggesting import Suggesting
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology


class Replay(Queries, Suggesting, Displayed):
    r"""A recorded run, which can be inspected at every step without being run again.

    A position moves over the steps: after `seek(n)`, ``position`` is n and ``now`` the state after n steps. Position
    0 is before the first step; a new replay starts at its end. All other methods query the whole run.

    Args:
        run: the recorded run.
        error: the error that ended the run. Default: None.

    Example:
        >>> from kstreamnb import Sample, StreamsBuilder, replay
        >>> builder = StreamsBuilder("shop")
        >>> builder.stream("orders").group_by_key().count(store="counts").to_stream().to("totals")
        >>> sample = Sample.from_text("topic | key | value | time\norders | a | 1 | 0\norders | a | 3 | 5")
        >>> run = replay(builder.build(), sample)
        >>> run.at(1).store("counts")["a"], run.at(2).store("counts")["a"]
        (1, 2)
    """

    def __init__(self, run: RecordedRun, error: KStreamError | KeyboardInterrupt | None = None) -> None:
        super().__init__(run)
        self.error = error

    @classmethod
    def of(cls, driver: TopologyTestDriver, more: Iterable[TopicRecord] = ()) -> Replay:
        """Repeat a driver's work in a new, recording driver, then pipe ``more`` records into the new one.

        The topology's functions run again; ``driver`` itself does not change.

        Args:
            driver: the driver whose work is repeated.
            more: records that are piped afterwards. Default: none.
        """
        expect(driver, TopologyTestDriver, "driver")
        recording = Recording(stores_to_watch(driver.topology))
        again = driver.empty_copy(recording)
        records = list(more)

        def work() -> None:
            driver.repeat_in(again)
            if records:
                again.pipe(records)

        return recorded(again, recording, work, (*driver.fed_topics, *(record.topic for record in records)))

    # --- contents of the run ---
    @property
    def topology(self) -> Topology:
        """The topology that ran."""
        return self.run.topology

    @property
    def steps(self) -> Steps:
        """All steps; ``steps[0]`` is step 1."""
        return self.run.steps

    @property
    def topics(self) -> list[str]:
        """Output topics, without those that the application reads itself."""
        read = {code.other[0] for code, _ in self.run.index.of_kind("consumed")}
        return [topic for topic in self.run.topics() if topic not in read]

    @property
    def drops(self) -> Drops[Drop]:
        """All dropped records with their reasons: a tuple with `to_pandas` and `to_spark`."""
        return Drops(self.run.drops())

    def output(self, topic: str) -> Records:
        """Return the records written to a topic, as a list with `to_pandas` and `to_spark`.

        Args:
            topic: name of the topic.

        Raises: EngineError for a name that looks like a misspelled output topic.

        Example:
            >>> from kstreamnb import Sample, StreamsBuilder, replay
            >>> builder = StreamsBuilder("shop")
            >>> builder.stream("orders").filter(lambda key, pieces: pieces > 1).to("large")
            >>> sample = Sample.from_records([("orders", 0, 0, 5, "a", 1), ("orders", 0, 1, 6, "b", 3)])
            >>> replay(builder.build(), sample).output("large")[0].value
            3
        """
        known = {*(sink.topic for sink in self.topology.sinks()), *self.run.topics(), self.run.config.dead_letter_topic}
        internal = tuple(self.topology.internal_topics)
        names = sorted(name for name in known if isinstance(name, str) and not name.endswith(internal))
        positions = self.run.output_positions(topic)
        if topic not in names and did_you_mean(topic, names) and not positions:
            raise unknown("output topic", topic, names, error=EngineError)
        return Records(map(self.run.produced, positions))

    def counts(self) -> dict[tuple[str, str], int]:
        """Count records per edge of the graph: (topic, source), (parent, child) and (sink, topic)."""
        return self.at(len(self.steps)).counts()

    def profile(self, *, cpu: bool = False) -> RunProfile:
        """Return the cost of the run by node and store: records, bytes and state; ``ks.widgets.explorer`` draws it.

        Args:
            cpu: measure shares of CPU time as well. The input runs once more, so the topology's functions run again,
                and the figures differ from run to run. Default: False.

        Example:
            >>> from kstreamnb import Sample, StreamsBuilder, replay
            >>> builder = StreamsBuilder("shop")
            >>> counts = builder.stream("orders").group_by_key().count(store="counts")
            >>> sample = Sample.from_records([("orders", 0, at, at, "ann", "hat") for at in range(3)])
            >>> print(replay(builder.build(), sample).profile())
            profile of "shop": 2 nodes, 1 store; most at source
            node or store  | records  | bytes | state
            ---------------+----------+-------+---------------
            source         | 3        | 30    |
            counts · count | 3        | 30    |
            store counts   | 3 writes |       | 1 row, 6 bytes
        """
        return run_profile(self.run, hooks.current().node_seconds(self) if cpu else None)

    def __str__(self) -> str:
        consumed = self.run.index.of_kind("consumed")
        records = sum(len(positions) for code, positions in consumed if code.other[0] in self.run.fed)
        out = sum(len(self.run.output_positions(topic)) for topic in self.topics)
        parts = [f"{pluralize(records + self.run.refused, 'record')} in", f"{out:,} out", self._dropped()]
        name = f' of "{self.topology.name}"' if self.topology.name else ""
        progress = f"step {self.position:,} of {len(self.steps):,}"
        stale = f"stale: {self.topology.stale}" if self.topology.stale else None
        ended = "interrupted" if isinstance(self.error, KeyboardInterrupt) else None
        waiting = never_fired(self.run)
        idle = f"{pluralize(len(waiting), 'wall-clock schedule')} never fired: {CLOCK_REMEDY}" if waiting else None
        notes = "".join(f"; {note}" for note in (ended, self.topology.unwritten, idle, stale) if note)
        return f"replay{name}: {', '.join(parts)}; {pluralize(len(self.run.tasks), 'task')}, {progress}{notes}"

    def _dropped(self) -> str:
        """Return the number of drops, and the call that explains it and why a preview may drop others."""
        explain = " (see why_dropped())" if self.drops or stream_times(self.run) > 1 else ""
        return f"{len(self.drops):,} dropped{explain}"

    def __repr__(self) -> str:
        return f"<{self}>"


def recorded(driver: TopologyTestDriver, recording: Recording, work: Callable[[], None], fed: Iterable[str]) -> Replay:
    """Run *work* and return its replay; an error or Ctrl-C carries the replay up to it as attribute ``replay``."""
    tasks: dict[str, Task] = dict(driver.tasks.by_id)
    if driver.tasks.global_task is not None:
        tasks[driver.tasks.global_task.plan.task_id] = driver.tasks.global_task

    def made(error: KStreamError | KeyboardInterrupt | None) -> Replay:
        finished, partitions = recording.handed_over(), driver.router.counts
        return Replay(RecordedRun(driver.topology, driver.config, finished, tasks, partitions, fed), error)

    try:
        with collector_paused():
            work()
            driver.close()
    except (KStreamError, KeyboardInterrupt) as error:
        error.replay = made(error)  # type: ignore[union-attr]
        where = "sys.last_value.replay" if isinstance(error, KeyboardInterrupt) else "the attribute replay of the error"
        error.add_note(f"Hint: the run until then is in {where}")
        raise
    return made(None)
