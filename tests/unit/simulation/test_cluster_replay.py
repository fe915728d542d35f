"""Time travel over applications that poll, commit, crash and restart, alone and in a chain."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.errors import EngineError
from tests.unit.simulation.crashes import orders

EXACTLY = {"processing_guarantee": "exactly_once_v2", "commit_interval": "100ms"}
AT_LEAST = {"processing_guarantee": "at_least_once", "commit_interval": "30s"}
LONG = ks.Serdes.long()


def summed() -> ks.Topology:
    """Sums by group, across a repartition topic; values are powers of two, so a sum identifies its parts."""
    builder = ks.StreamsBuilder("sums")
    groups = builder.stream("in", value_serde=LONG).group_by(lambda key, _: key[0], value_serde=LONG)
    groups.reduce(lambda total, value: total + value, store="sums").to_stream().to("out", value_serde=LONG)
    return builder.build()


def named() -> ks.Topology:
    """A second application: the sums of the first, with a name from a global table."""
    builder = ks.StreamsBuilder("named")
    names = builder.global_table("names", store="names", value_serde="string")
    stream = builder.stream("out", value_serde=LONG)
    stream.left_join(names, lambda key, _: key, lambda total, name: [total, name]).to("named")
    return builder.build()


def pair(config: dict[str, Any], *, partitions: int = 2) -> tuple[ks.simulation.ClusterDriver, Any]:
    """Two applications in a chain."""
    driver = ks.simulation.ClusterDriver(summed(), config, partitions=partitions)
    return driver, driver.add_application(named(), config)


def committed(driver: ks.simulation.ClusterDriver) -> None:
    """Process and commit everything."""
    for _ in range(4):
        driver.run_ready()
        for application in driver.applications.values():
            if application.status == "running":
                application.commit()


def test_a_moment_shows_what_was_visible_and_what_a_crash_undid() -> None:
    """S0-33, S0-24: processed, not yet visible; lost in the crash; restored; processed again, committed and visible."""
    builder = ks.StreamsBuilder("count")
    builder.stream("in").group_by_key().count(store="n").to_stream().to("out")
    driver = ks.simulation.ClusterDriver(builder.build(), EXACTLY)
    piped = driver.create_input_topic("in")
    piped.pipe_input("k", 1, at=7)
    driver.run_ready()
    driver.application.commit()
    piped.pipe_input("k", 1, at=9)
    driver.run_ready()
    driver.application.crash()
    driver.application.restart()
    driver.run_ready()
    driver.application.commit()
    run = driver.replay()
    assert ["record", "commit", "record", "crash", "restart", "record", "commit"] == [step.kind for step in run.steps]
    counts = [run.at(step).store("n").get("k", 0) for step in range(8)]
    assert [0, 1, 1, 2, 2, 1, 2, 2] == counts
    seen = [[record.value for record in run.at(step).output("out")] for step in range(8)]
    assert [[], [], [1], [1], [1], [1], [1], [1, 2]] == seen
    assert [1, 0, 1, 0, 0, 1, 0, 0] == [len(run.at(step).waiting()) for step in range(8)]
    assert [-1, 7, 7, 9, 9, 7, 9, 9] == [run.at(step).stream_time["0_0"] for step in range(8)]
    assert (0, [0, 2]) == (run.output("out")[0].offset, [record.offset for record in run.output("out")])
    assert "1 record more in transactions that were aborted" in str(run.why_no_output("out"))
    restart = run.steps[4]
    assert "1 instead of 2" in str(restart)
    assert [(0, 1), (1, 2)] == [
        (change.old or 0, change.new) for change in (*run.diff(0, 1).changes, *run.diff(5, 6).changes)
    ]


def test_at_least_once_keeps_in_its_stores_what_a_crash_has_written_twice() -> None:
    """S0-24: the changelog has the uncommitted write, so the repeated record is counted again."""
    builder = ks.StreamsBuilder("count")
    builder.stream("in").group_by_key().count(store="n").to_stream().to("out")
    driver = ks.simulation.ClusterDriver(builder.build(), AT_LEAST)
    driver.create_input_topic("in").pipe_input("k", 1, at=0)
    driver.run_ready()
    driver.application.crash("before_commit")
    driver.advance_wall_clock_time("30s")
    driver.application.restart()
    driver.run_ready()
    run = driver.replay()
    assert 2 == run.now.store("n")["k"]
    assert [1, 2] == [record.value for record in run.output("out")]
    assert 2 == len([step for step in run.record("in", 0, 0).trace() if step.kind == "record"])


def test_a_trace_continues_in_the_next_application() -> None:
    """Everything that one record caused, across a repartition topic and the topic between two applications."""
    driver, second = pair(EXACTLY)
    driver.create_input_topic("names").pipe_input("a", "Ann", at=0)
    driver.create_input_topic("in").pipe_input("a1", 1, at=1)
    committed(driver)
    run = driver.replay()
    place = run.output("out")[0]
    (taken,) = [step.record for step in run.steps if step.record is not None and step.record.topic == "in"]
    trace = run.record(*taken[:3]).trace()
    assert ["in", "sums-sums-repartition", "out"] == [step.record.topic for step in trace]  # type: ignore[union-attr]
    assert ["named/" in step.task for step in trace] == [False, False, True]
    assert [("named", [1, "Ann"])] == [(record.topic, record.value) for record in trace.outputs]
    (last,) = second.replay().output("named")
    assert {"in", "names"} == {record.topic for record in second.replay().provenance(last)}
    assert [1] == [record.value for record in run.provenance(place)]
    assert "2 records in, 1 out" in str(second.replay())


def test_replays_of_all_applications_count_alike() -> None:
    """The same step is the same moment in each of them."""
    driver, second = pair(EXACTLY)
    for at in range(6):
        driver.create_input_topic("in").pipe_input(f"{'ab'[at % 2]}{at}", 1 << at, at=at)
        committed(driver)
    one, two = driver.replay(), second.replay()
    assert [step.title.replace("sums/", "") for step in two.steps if "sums/" in step.task] == [
        step.title for step in one.steps if "named/" not in step.task
    ]
    for step in range(len(one.steps) + 1):
        assert len(two.at(step).output("named")) <= len(one.at(step).output("out"))


def test_nodes_of_other_applications_are_not_taken_for_ones_own() -> None:
    """Both have a node of this name: a breakpoint and the stepper's picture use the replay's own application."""
    driver, second = pair(EXACTLY)
    driver.create_input_topic("in").pipe_input("a1", 1, at=1)
    committed(driver)
    run, node = second.replay(), "KSTREAM-SOURCE-0000000000"
    assert node in run.topology.nodes
    assert node in driver.replay().topology.nodes
    stepper = ks.widgets.stepper(run)
    flights = {}
    for step in run.steps:
        run.seek(step.number)
        flights[step.elsewhere] = flights.get(step.elsewhere, False) or bool(stepper.make_facts()["flight"])
    assert {True: False, False: True} == flights
    run.seek(0)
    run.breakpoint(node="KSTREAM-SINK-0000000004")
    found = run.run_until()
    assert found is not None
    assert not found.elsewhere


class Looked:
    """Two applications that are crashed at times drawn from a seed, and the contents of their stores at many steps."""

    stores = (("sums", "sums"), ("named", "names"))

    def __init__(self, seed: int, config: dict[str, Any]) -> None:
        self.driver, _ = pair(config)
        self.held: list[tuple[str, str, int, dict[Any, Any]]] = []
        random = Random(seed)
        for at in range(14):
            topic, key, value = ("names", "", f"n{at}") if random.random() < 0.3 else ("in", str(at), 1 << at)
            self.driver.create_input_topic(topic).pipe_input(f"{'abc'[random.randrange(3)]}{key}", value, at=at)
            self.driver.run_ready(random.randrange(5))
            application = self.driver.applications[random.choice(["sums", "named"])]
            if random.random() < 0.4:
                application.crash(random.choice(["now", "before_commit", "after_commit"]))
            if application.status == "running" and random.random() < 0.6:
                application.commit()
            self._look()
            self._revive()
            self._look()
        for _ in range(4):
            self._revive()
            committed(self.driver)
        self._look()

    def _revive(self) -> None:
        for application in self.driver.applications.values():
            if application.status == "crashed":
                application.restart()

    def _look(self) -> None:
        for name, store in self.stores:
            application = self.driver.applications[name]
            if application.status == "running":
                rows = _rows(application.store(store))
                self.held.append((name, store, len(application.replay().steps), rows))


@pytest.mark.parametrize("cache", [0, 10_000])
@pytest.mark.parametrize("config", [EXACTLY, AT_LEAST], ids=["exactly once", "at least once"])
@pytest.mark.parametrize("seed", range(4))
def test_every_moment_is_what_the_stores_held_then(seed: int, config: dict[str, Any], cache: int) -> None:
    """Crashes at any time: each moment of the last replay equals what was seen live; outputs equal what was read."""
    looked = Looked(seed, {**config, "cache_max_bytes": cache})
    runs = {name: application.replay() for name, application in looked.driver.applications.items()}
    assert "restart" in [step.kind for step in runs["sums"].steps]
    for name, store, step, rows in reversed(looked.held):
        assert rows == runs[name].at(step).store(store).to_dict()
    for name, topic in (("sums", "out"), ("named", "named")):
        read = looked.driver.create_output_topic(topic).read_records()
        assert sorted(read, key=_place) == sorted(runs[name].output(topic), key=_place)
    if config is EXACTLY:  # at least once adds repeated records again
        for output in runs["sums"].output("out"):
            assert output.value == sum(record.value for record in runs["sums"].provenance(output))


@pytest.mark.parametrize("cache", [0, 200])
@pytest.mark.parametrize("seed", range(3))
def test_windows_sessions_and_tables_are_shown_as_they_were_held(seed: int, cache: int) -> None:
    """Every kind of store, through crashes at any time and caches that are too small."""
    names = ("by-window", "names", "sums", "groups", "sessions")
    config = {**EXACTLY, "cache_max_bytes": cache}
    random, driver = Random(seed), ks.simulation.ClusterDriver(orders(), config, partitions=2)
    application, held = driver.application, list[tuple[int, str, dict[Any, Any]]]()
    for at in range(25):
        topic, value = ("names", f"n{at}") if random.random() < 0.3 else ("orders", at)
        time = max(0, at * 2 - random.randrange(12))
        driver.create_input_topic(topic).pipe_input(f"k{random.randrange(4)}", value, at=time)
        driver.run_ready(random.randrange(6))
        if random.random() < 0.3:
            application.crash()
            application.restart()
        if random.random() < 0.5:
            application.commit()
        steps = len(application.replay().steps)
        held += [(steps, name, _rows(application.store(name))) for name in names]
    run = application.replay()
    for step, name, rows in reversed(held):
        shown = run.at(step).store(name)
        assert rows == {row.key: row.value for row in shown if not row.note.startswith("expired")}
    assert {"record", "commit", "crash", "restart"} == {step.kind for step in run.steps}


def _rows(view: Any) -> dict[Any, Any]:
    """Values by key, without their timestamps."""
    return {key: getattr(value, "value", value) for key, value in view.all()}


def _place(record: ks.TopicRecord) -> tuple[int, int]:
    return record.partition, record.offset


def test_without_a_trace_there_is_no_replay() -> None:
    """The error names the next action."""
    driver = ks.simulation.ClusterDriver(summed(), EXACTLY, trace=False)
    with pytest.raises(EngineError, match="nothing was recorded"):
        driver.replay()
