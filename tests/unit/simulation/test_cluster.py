"""The loop of an application: what waits, what is committed and visible when, and what survives a crash."""

from __future__ import annotations

from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.core.codec import murmur2
from kstreamnb.errors import EngineError, KStreamError, ProcessingError, StateError
from tests.unit.simulation.crashes import Interrupted

EXACTLY = {"processing_guarantee": "exactly_once_v2", "commit_interval": "100ms"}
AT_LEAST = {"processing_guarantee": "at_least_once", "commit_interval": "30s"}


@pytest.fixture(autouse=True)
def _verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """S0-09: in all these tests stores, changelogs and input are compared after every commit."""
    monkeypatch.setattr(ks.simulation.ClusterDriver, "verify_by_default", True)


def merged() -> ks.Topology:
    """Two topics into one task."""
    builder = ks.StreamsBuilder("merge")
    builder.stream("a").merge(builder.stream("b")).to("out")
    return builder.build()


def counted(name: str = "count") -> ks.Topology:
    """A count by key."""
    builder = ks.StreamsBuilder(name)
    builder.stream("in").group_by_key().count(store="n").to_stream().to("out")
    return builder.build()


def taken(driver: ks.simulation.ClusterDriver) -> list[tuple[str, int]]:
    """Places and times of processed records, in order."""
    return [(event.subject, event.numbers["timestamp"]) for event in driver.events("processed")]


# --- waiting ----------------------------------------------------------------------------------------------------------
def test_a_task_holds_back_while_records_are_on_their_way() -> None:
    """S0-25: with a known lag of 1 nothing is processed; when the record arrives, the older one goes first."""
    driver = ks.simulation.ClusterDriver(merged(), AT_LEAST)
    driver.delay("b")
    driver.create_input_topic("a").pipe_input("k", 1, at=10)
    driver.create_input_topic("b").pipe_input("k", 2, at=5)
    assert 0 == driver.run_ready()
    (idling,) = driver.events("idling")
    assert ("b-0", {"lag": 1}) == (idling.subject, idling.numbers)
    driver.deliver("b")
    assert 2 == driver.run_ready()
    assert [("b-0", 5), ("a-0", 10)] == taken(driver)


def test_a_task_that_must_not_idle_goes_on_at_once() -> None:
    """S0-25: with max.task.idle.ms = -1 the available record is processed in any case."""
    driver = ks.simulation.ClusterDriver(merged(), {**AT_LEAST, "max.task.idle.ms": -1})
    driver.delay("b")
    driver.create_input_topic("b").pipe_input("k", 2, at=5)
    driver.create_input_topic("a").pipe_input("k", 1, at=10)
    assert 1 == driver.run_ready()
    assert [("a-0", 10)] == taken(driver)


def test_no_lag_lets_a_task_go_on_and_an_idle_time_lets_it_wait() -> None:
    """S0-26: lag 0 and no idle time: at once; 100 ms: after the clock has advanced that far, counted as enforced."""
    at_once = ks.simulation.ClusterDriver(merged(), AT_LEAST)
    at_once.create_input_topic("a").pipe_input("k", 1, at=10)
    assert 1 == at_once.run_ready()
    patient = ks.simulation.ClusterDriver(merged(), {**AT_LEAST, "max_task_idle": "100ms"})
    patient.create_input_topic("a").pipe_input("k", 1, at=10)
    assert 0 == patient.run_ready()
    patient.advance_wall_clock_time("99ms")
    assert 0 == patient.run_ready()
    patient.advance_wall_clock_time("1ms")
    assert 1 == patient.run_ready()
    assert {"0_0": 1} == patient.application.metrics()["enforced-processing-total"]
    (enforced,) = patient.events("enforced")
    assert (100, "b-0") == (enforced.at_ms, enforced.subject)


def test_an_unknown_lag_is_waited_for() -> None:
    """S0-26: while a partition's lag is unknown, its task waits, however much time passes."""
    driver = ks.simulation.ClusterDriver(merged(), {**AT_LEAST, "max_task_idle": "100ms"})
    driver.delay("b", lag="unknown")
    driver.create_input_topic("a").pipe_input("k", 1, at=10)
    for _ in range(5):
        assert 0 == driver.run_ready()
        driver.advance_wall_clock_time("1s")
    assert {"lag": "unknown"} == driver.events("idling")[0].numbers
    driver.deliver("b")
    driver.run_ready()
    driver.advance_wall_clock_time("100ms")
    assert 1 == driver.run_ready()


def test_a_join_sees_the_table_as_it_was_although_the_click_came_first() -> None:
    """S0-27: a row of time 5 and a click of time 10 in one poll, the click first: the click finds the row."""
    builder = ks.StreamsBuilder("join")
    builder.stream("click").left_join(builder.table("acct"), lambda click, tier: f"{click}/{tier}").to("out")
    driver = ks.simulation.ClusterDriver(builder.build(), AT_LEAST)
    driver.create_input_topic("click").pipe_input("u", "c", at=10)
    driver.create_input_topic("acct").pipe_input("u", "pro", at=5)
    driver.run_ready()
    assert ["c/pro"] == driver.create_output_topic("out").read_values_to_list()


def test_the_least_head_goes_first_in_the_loop_too() -> None:
    """S0-28: between partitions by time, within a partition by offset even when times go back."""
    driver = ks.simulation.ClusterDriver(merged(), AT_LEAST)
    for topic, times in (("a", (1, 5, 9)), ("b", (2, 3, 10))):
        for at in times:
            driver.create_input_topic(topic).pipe_input("k", "x", at=at)
    driver.run_ready()
    assert [("a-0", 1), ("b-0", 2), ("b-0", 3), ("a-0", 5), ("a-0", 9), ("b-0", 10)] == taken(driver)
    other = ks.simulation.ClusterDriver(merged(), AT_LEAST)
    for at in (7, 4):
        other.create_input_topic("a").pipe_input("k", "x", at=at)
    other.run_ready()
    assert [("a-0", 7), ("a-0", 4)] == taken(other)


def test_tasks_take_turns_and_one_that_is_not_ready_is_left_for_later() -> None:
    """S0-30: two of three tasks finish 1,000 records each, at most one record apart; the third runs when it can."""
    driver = ks.simulation.ClusterDriver(merged(), {**AT_LEAST, "max_poll_records": 10_000}, partitions=3)
    for partition in range(3):
        records = [ks.TopicRecord("a", partition, -1, at, f"k{partition}", at) for at in range(1_000)]
        driver.create_input_topic("a").pipe_record_list(records)
    driver.delay("b", 2, lag="unknown")
    for _ in range(20):
        driver.run_ready(37)
        done = driver.application.metrics()["process-total"]
        assert abs(done["0_0"] - done["0_1"]) <= 1
    assert 1_260 == driver.run_ready()
    assert {"0_0": 1_000, "0_1": 1_000, "0_2": 0} == driver.application.metrics()["process-total"]
    driver.deliver("b", 2)
    assert 3 == driver.run_ready(3)
    assert 3 == driver.application.metrics()["process-total"]["0_2"]


def test_a_full_buffer_pauses_its_partition() -> None:
    """S0-40: above the limit nothing more is fetched; once it is drained to the limit, the rest is."""
    driver = ks.simulation.ClusterDriver(
        merged(), {**AT_LEAST, "buffered_records_per_partition": 10, "max_poll_records": 25}
    )
    for at in range(60):
        driver.create_input_topic("a").pipe_input("k", at, at=at)
    assert 1 == driver.run_ready(1)
    (paused,) = driver.events("paused")
    assert ("a-0", {"buffered": 25, "limit": 10}) == (paused.subject, paused.numbers)
    for _ in range(5):
        driver.run_ready(1)
        driver.advance_wall_clock_time("2m")
    assert 1 == len(driver.events("polled")), "ten minutes of slow work, and nothing more was fetched"
    assert 54 == driver.run_ready()
    assert [10, 10] == [event.numbers["buffered"] for event in driver.events("resumed")]
    assert [25, 25, 10] == [event.numbers["records"] for event in driver.events("polled")]


# --- commits ----------------------------------------------------------------------------------------------------------
def test_the_trace_of_a_record_goes_from_the_poll_to_the_commit() -> None:
    """S0-11: polled, processed node by node, stored, produced, committed, as events and as a table."""
    driver = ks.simulation.ClusterDriver(counted(), EXACTLY)
    driver.create_input_topic("in").pipe_input("k", 1, at=0)
    driver.run_ready()
    driver.advance_wall_clock_time("100ms")
    kinds = [event.kind for event in driver.events]
    hops = ["handed on", "stored", "handed on", "handed on"]
    assert ["started", "polled", "processed", *hops, "produced", "committed"] == kinds
    assert "committed | 0_0" in str(driver.events).replace("  ", "")


def test_exactly_once_shows_nothing_before_the_commit() -> None:
    """S0-33: a reader of committed records sees the result when the interval of 100 ms is over."""
    driver = ks.simulation.ClusterDriver(counted(), EXACTLY)
    driver.create_input_topic("in").pipe_input("k", 1, at=0)
    driver.run_ready()
    committed = driver.create_output_topic("out")
    assert 0 == committed.queue_size()
    assert 1 == driver.create_output_topic("out", isolation="read_uncommitted").queue_size()
    driver.advance_wall_clock_time("99ms")
    assert 0 == committed.queue_size()
    driver.advance_wall_clock_time("1ms")
    assert [1] == committed.read_values_to_list()


def test_intervals_that_nobody_names_are_those_of_kafka() -> None:
    """S0-33: 100 ms for exactly once, 30 s for at least once."""
    assert 100 == ks.Config.of({}).commit_interval_ms
    assert 30_000 == ks.Config.of({"processing.guarantee": "at_least_once"}).commit_interval_ms


@pytest.mark.parametrize(("cache", "expected"), [(0, 10), (1_000_000, 1)])
def test_cache_and_interval_decide_how_often_updates_go_on(cache: int, expected: int) -> None:
    """S0-34: ten updates of a key: ten results without a cache, one with a cache and one commit."""
    driver = ks.simulation.ClusterDriver(counted(), {**AT_LEAST, "cache_max_bytes": cache})
    for at in range(10):
        driver.create_input_topic("in").pipe_input("k", 1, at=at)
    driver.run_ready()
    driver.advance_wall_clock_time("30s")
    found = driver.create_output_topic("out").read_values_to_list()
    assert expected == len(found)
    assert 10 == found[-1]


def test_a_cache_that_is_too_small_gives_results_early() -> None:
    """S0-34: keys that do not fit are forwarded before the commit; the last value of each key is the same."""
    driver = ks.simulation.ClusterDriver(counted(), {**AT_LEAST, "cache_max_bytes": 300})
    for at in range(40):
        driver.create_input_topic("in").pipe_input(f"k{at % 8}", 1, at=at)
    driver.run_ready()
    out = driver.create_output_topic("out")
    early = out.queue_size()
    assert early > 0
    driver.advance_wall_clock_time("30s")
    assert out.queue_size() > early
    assert {f"k{n}": 5 for n in range(8)} == out.read_key_values_to_map()


class Beat(ks.Processor):
    """Sends a record every 50 ms of wall clock."""

    def init(self, context: Any) -> None:
        """Start the beat."""
        beat = lambda now: context.forward(ks.Record("beat", now, now))  # noqa: E731
        context.schedule("50ms", "wall_clock_time", beat)

    def process(self, record: ks.Record) -> None:
        """Records produce no output."""


class Ticks(ks.Processor):
    """Passes records on, and sends the stream time every 2 s of it."""

    def init(self, context: Any) -> None:
        """Start the punctuator."""
        super().init(context)
        context.schedule("2s", "stream_time", lambda now: context.forward(ks.Record("k", f"tick {now}", now)))

    def process(self, record: ks.Record) -> None:
        """Pass the record on."""
        self.context.forward(record)


def test_stream_time_punctuates_between_loops_as_in_kafka_streams() -> None:
    """S0-35: a loop is one record longer than the last, half as long after a punctuation; nothing else is in between.

    `StreamThread.runOnce` of Kafka Streams counts so; the test driver of Kafka, and ours, look after each record.
    """
    builder = ks.StreamsBuilder("ticks")
    builder.stream("in").process(Ticks).to("out")
    records = [("k", str(at), at) for at in range(0, 10_000, 1000)]

    def ticks(driver: Any) -> list[str]:
        topic = driver.create_input_topic("in")
        for key, value, at in records:
            topic.pipe_input(key, value, at=at)
        return [value for value in outputs(driver) if value.startswith("tick")]

    def outputs(driver: Any) -> list[str]:
        if isinstance(driver, ks.simulation.ClusterDriver):
            driver.run_ready()
            driver.application.commit()
        return [str(value) for value in driver.create_output_topic("out").read_values_to_list()]

    assert [f"tick {at}" for at in (0, 2000, 4000, 6000, 8000)] == ticks(ks.TopologyTestDriver(builder.build()))
    assert [f"tick {at}" for at in (0, 3000, 4000, 7000, 8000)] == ticks(
        ks.simulation.ClusterDriver(builder.build(), AT_LEAST)
    )


def test_a_punctuator_that_is_due_is_not_lost_by_a_crash_or_a_limit() -> None:
    """S0-35: a loop that a limit interrupts continues with the next call; a crash repeats it from the last commit.

    The loops are 0 | 1 | 2 3 | 4 | 5 | 6 7, and after the crash, which undoes the last one, 6 | 7 | 8 9.
    """
    builder = ks.StreamsBuilder("ticks")
    builder.stream("in").process(Ticks).to("out")
    driver = ks.simulation.ClusterDriver(builder.build(), EXACTLY)
    topic = driver.create_input_topic("in")
    for at in range(0, 10_000, 1000):
        topic.pipe_input("k", str(at), at=at)
    assert [driver.run_ready(limit=3) for _ in range(2)] == [3, 3]
    driver.application.commit()
    driver.run_ready(limit=2)
    driver.application.crash()
    driver.application.restart()
    driver.run_ready()
    driver.application.commit()
    values = driver.create_output_topic("out").read_values_to_list()
    assert [value for value in values if not str(value).startswith("tick")] == [str(n) for n in range(0, 10_000, 1000)]
    assert [value for value in values if str(value).startswith("tick")] == [
        f"tick {at}" for at in (0, 3000, 4000, 6000, 9000)
    ]


def test_a_punctuation_alone_is_committed() -> None:
    """S0-35: no input at all; what a wall-clock punctuator sent is visible after the next interval."""
    topology = (
        ks.Topology("beat").add_source("in", "in").add_processor("beat", Beat, "in").add_sink("out", "out", "beat")
    )
    driver = ks.simulation.ClusterDriver(topology, EXACTLY)
    driver.advance_wall_clock_time("60ms")
    out = driver.create_output_topic("out")
    assert 0 == out.queue_size()
    driver.advance_wall_clock_time("30ms")
    assert 0 == out.queue_size()
    driver.advance_wall_clock_time("10ms")
    assert [60, 100] == out.read_values_to_list()
    assert {"in-0": 0} == driver.application.committed


@pytest.mark.parametrize("config", [EXACTLY, AT_LEAST], ids=["exactly once", "at least once"])
def test_an_application_reads_again_from_where_it_is_told(config: dict[str, str]) -> None:
    """S1-41, S1-05: after a reset nothing of the first run remains: no store, no changelog, no repartition topic."""
    builder = ks.StreamsBuilder("again")
    totals = builder.stream("in", value_serde="long").group_by(lambda key, value: "all").reduce(lambda a, b: a + b)
    totals.to_stream().to("out", value_serde="long")
    driver = ks.simulation.ClusterDriver(builder.build(), config)
    app = driver.application
    for number in range(5):
        driver.create_input_topic("in").pipe_input("k", number, at=number)
    while driver.run_ready():  # the second task sees what the first one has committed
        app.commit()
    with pytest.raises(EngineError, match='application "again" is running'):
        app.reset(["in"])
    app.close()
    with pytest.raises(EngineError, match='does not read topic "inn"'):
        app.reset({"inn": 3})
    results = [0, 1, 3, 6, 10]
    for topics, more in (({"in": 3}, [3, 7]), (["in"], [0, 1, 3, 6, 10]), ({"in": 99}, [])):
        app.reset(topics)
        assert 0 == sum(event.numbers["records"] for event in app.restart())
        while driver.run_ready():
            app.commit()
        app.close()
        results += more
        assert results == driver.create_output_topic("out").read_values_to_list()


def test_input_that_leads_to_nothing_is_committed() -> None:
    """S0-36: a filter that passes nothing: offset 100 is committed, and a restart processes nothing again."""
    builder = ks.StreamsBuilder("none")
    builder.stream("in").filter(lambda key, value: False).to("out")
    driver = ks.simulation.ClusterDriver(builder.build(), EXACTLY)
    for at in range(100):
        driver.create_input_topic("in").pipe_input("k", at, at=at)
    assert 100 == driver.run_ready()
    driver.advance_wall_clock_time("100ms")
    assert {"in-0": 100} == driver.application.committed
    driver.application.crash()
    driver.application.restart()
    assert 0 == driver.run_ready()


# --- crashes ----------------------------------------------------------------------------------------------------------
def test_only_the_tail_of_the_changelog_is_replayed() -> None:
    """S0-24: 1,000 updates, flushed at 900, then a crash after the commit: 100 records are restored from 900."""
    driver = ks.simulation.ClusterDriver(counted(), AT_LEAST, trace=False)
    piped = driver.create_input_topic("in")
    for at in range(1_000):
        if at == 900:
            driver.run_ready()
            driver.application.commit()
            driver.application.flush_stores()
        piped.pipe_input(f"k{at % 7}", 1, at=at)
    driver.run_ready()
    driver.application.crash("after_commit")
    driver.application.commit()
    assert "crashed" == driver.application.status
    (restored,) = driver.application.restart()
    assert {"records": 100, "from_offset": 900, "to_offset": 1_000} == restored.numbers
    assert {f"k{n}": len(range(n, 1_000, 7)) for n in range(7)} == dict(driver.application.store("n").all())
    assert 0 == driver.run_ready()


def test_a_lost_store_is_made_anew_from_its_changelog() -> None:
    """S0-24: without the disk everything is restored from the beginning."""
    driver = ks.simulation.ClusterDriver(counted(), AT_LEAST)
    for at in range(20):
        driver.create_input_topic("in").pipe_input(f"k{at % 3}", 1, at=at)
    driver.run_ready()
    driver.application.commit()
    driver.application.flush_stores()
    driver.application.crash()
    driver.application.lose_store("n")
    (restored,) = driver.application.restart()
    assert (20, 0) == (restored.numbers["records"], restored.numbers["from_offset"])
    assert 7 == driver.application.store("n")["k0"]


def test_a_crash_before_the_commit_repeats_at_least_once_and_undoes_exactly_once() -> None:
    """S0-24, S0-33: uncommitted output is duplicated at least once, and never visible exactly once."""
    seen = {}
    for config in (AT_LEAST, EXACTLY):
        driver = ks.simulation.ClusterDriver(counted(), config)
        driver.create_input_topic("in").pipe_input("k", 1, at=0)
        driver.run_ready()
        driver.application.crash("before_commit")
        driver.advance_wall_clock_time("30s")
        assert "crashed" == driver.application.status
        assert 0 == driver.run_ready()
        driver.application.restart()
        assert 1 == driver.run_ready()
        driver.advance_wall_clock_time("30s")
        out = driver.create_output_topic("out").read_values_to_list()
        seen[config["processing_guarantee"]] = out, driver.application.store("n")["k"]
    assert {"at_least_once": ([1, 2], 2), "exactly_once_v2": ([1], 1)} == seen


def test_what_was_flushed_but_not_committed_is_not_trusted_after_a_crash() -> None:
    """S0-24: under exactly once what a running task flushed is discarded, and only committed state is restored."""
    driver = ks.simulation.ClusterDriver(counted(), EXACTLY)
    for at, committed in ((0, True), (1, False)):
        driver.create_input_topic("in").pipe_input("k", 1, at=at)
        driver.run_ready()
        if committed:
            driver.application.commit()
        driver.application.flush_stores()
    driver.application.crash()
    (restored,) = driver.application.restart()
    assert (1, 0) == (restored.numbers["records"], restored.numbers["from_offset"])
    assert 1 == driver.application.store("n")["k"]
    driver.run_ready()
    assert 2 == driver.application.store("n")["k"]


def test_a_disk_from_a_clean_stop_is_trusted_after_a_crash_that_flushed_nothing() -> None:
    """S0-24: as Kafka Streams 4.3.1, whose stores note on the disk that they are open when they are first flushed."""
    driver = ks.simulation.ClusterDriver(counted(), EXACTLY)
    for stopped, count in ((True, 100), (False, 10_100)):
        driver.create_input_topic("in").pipe_key_value_list([("k", 1)] * count)
        driver.run_ready()
        driver.application.commit()
        if stopped:
            driver.application.close()
            driver.application.restart()
    assert len(driver.events("flushed")) == 1
    driver.application.crash()
    (restored,) = driver.application.restart()
    assert (10_100, 100) == (restored.numbers["records"], restored.numbers["from_offset"])
    assert 10_200 == driver.application.store("n")["k"]


def test_an_error_ends_an_application_and_a_restart_takes_the_record_again() -> None:
    """Under exactly once a failing function leaves nothing behind; the same record is processed again."""
    broken = [True]

    def careful(value: int) -> int:
        if value == 3 and broken[0]:
            raise ValueError("not now")
        return value

    builder = ks.StreamsBuilder("fails")
    builder.stream("in").map_values(careful).to("out")
    driver = ks.simulation.ClusterDriver(builder.build(), EXACTLY)
    for at in range(5):
        driver.create_input_topic("in").pipe_input("k", at, at=at)
    with pytest.raises(ProcessingError, match="failed with ValueError"):
        driver.run_ready()
    assert "crashed" == driver.application.status
    broken[0] = False
    driver.application.restart()
    assert 5 == driver.run_ready()
    driver.advance_wall_clock_time("100ms")
    assert list(range(5)) == driver.create_output_topic("out").read_values_to_list()


# --- state ------------------------------------------------------------------------------------------------------------
def test_stores_changelogs_and_input_are_in_step_after_every_commit() -> None:
    """S0-09: the debug switch compares them after each commit; a store that was tampered with is found at once."""
    driver = ks.simulation.ClusterDriver(counted(), EXACTLY, partitions=2, verify=True)
    for at in range(30):
        driver.create_input_topic("in").pipe_input(f"k{at % 5}", 1, at=at)
        driver.run_ready()
        driver.advance_wall_clock_time("100ms")
    store = driver.application.store("n").stores[0]
    store.apply(next(iter(store.raw)), (99, 0))
    driver.create_input_topic("in").pipe_input("k0", 1, at=99)
    driver.create_input_topic("in").pipe_input("k1", 1, at=99)
    driver.run_ready()
    with pytest.raises(StateError, match="inconsistent after a commit"):
        driver.advance_wall_clock_time("100ms")


def test_a_store_that_was_tampered_with_is_found_and_made_anew() -> None:
    """S3-12: the changelog is the truth: differing keys are reported, and rebuilding from it repairs them."""
    driver = ks.simulation.ClusterDriver(counted(), AT_LEAST)
    for at in range(12):
        driver.create_input_topic("in").pipe_input(f"k{at % 3}", 1, at=at)
    driver.run_ready()
    driver.application.commit()
    assert not driver.application.verify_state()
    store = driver.application.store("n").stores[0]
    store.apply("k1", (1_000, 0))
    store.apply("k2", None)
    found = driver.application.verify_state()
    assert {("k1", 1_000, 4), ("k2", None, 4)} == {(row.key, row.found, row.expected) for row in found}
    assert "2 rows" in found.title
    driver.application.rebuild("n")
    assert not driver.application.verify_state()
    assert {"k0": 4, "k1": 4, "k2": 4} == dict(driver.application.store("n").all())


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
@pytest.mark.parametrize("cache", [0, 200])
def test_crashes_anywhere_leave_no_trace_under_exactly_once(seed: int, cache: int) -> None:
    """S0-09, S0-33, S1-14: with crashes at any time, committed output and state equal those of a run without.

    With a cache more commits mean more intermediate results; the last of each key are the same.
    """
    calm, rough = (Interrupted(seed, cache, crashes=crashes) for crashes in (False, True))
    assert rough.crashed > 0
    assert calm.state == rough.state
    assert calm.last == rough.last
    assert cache or calm.output == rough.output


# --- several applications, more partitions ----------------------------------------------------------------------------
def test_two_applications_are_connected_by_a_topic() -> None:
    """S0-33: the second application reads what the first has committed, and not before."""
    builder = ks.StreamsBuilder("double")
    builder.stream("out", value_serde=ks.Serdes.long()).map_values(lambda value: value * 2).to("twice")
    driver = ks.simulation.ClusterDriver(counted(), EXACTLY, partitions=2)
    second = driver.add_application(builder.build(), {**EXACTLY, "commit_interval": "50ms"})
    driver.create_input_topic("in").pipe_input("k", 1, at=0)
    assert 1 == driver.run_ready()
    driver.advance_wall_clock_time("100ms")
    assert 1 == driver.run_ready()
    twice = driver.create_output_topic("twice")
    assert 0 == twice.queue_size()
    driver.advance_wall_clock_time("50ms")
    assert [2] == twice.read_values_to_list()
    assert ["double", "count"] == [second.id, driver.application.id]
    with pytest.raises(EngineError, match="already"):
        driver.add_application(counted())


def test_the_order_of_two_writers_is_kept_for_each_of_them() -> None:
    """S3-24: two applications write one topic: each one's records are in order, without an order between them."""

    def copy(name: str) -> ks.Topology:
        builder = ks.StreamsBuilder(name)
        builder.stream(f"from-{name}").map_values(lambda value: [name, value]).to("out")
        return builder.build()

    driver = ks.simulation.ClusterDriver(copy("one"), AT_LEAST)
    driver.add_application(copy("two"), AT_LEAST)
    for at in range(20):
        driver.create_input_topic("from-one").pipe_input("k", at, at=at)
        driver.create_input_topic("from-two").pipe_input("k", at, at=at)
        if at % 7 == 0:
            driver.run_ready(3)
    driver.run_ready()
    found = driver.create_output_topic("out").read_values_to_list()
    for name in ("one", "two"):
        assert list(range(20)) == [value for writer, value in found if writer == name]
    assert sorted(found, key=lambda each: each[1]) != found


def test_more_partitions_move_keys_and_so_the_state_has_to_move() -> None:
    """S4-45: from 12 to 24 partitions: refused; restarted anyway, counts are wrong; migrated, they are right."""
    keys = [f"user{n}" for n in range(1_000)]
    moving = sum((murmur2(k.encode()) & 0x7FFFFFFF) % 12 != (murmur2(k.encode()) & 0x7FFFFFFF) % 24 for k in keys)
    assert 512 == moving

    def first_day() -> ks.simulation.ClusterDriver:
        driver = ks.simulation.ClusterDriver(counted(), AT_LEAST, partitions=12, trace=False)
        driver.create_input_topic("in").pipe_key_value_list([(key, 1) for key in keys], start=0)
        driver.run_ready()
        driver.application.close()
        driver.add_partitions("in", 24)
        return driver

    def second_day(driver: ks.simulation.ClusterDriver) -> list[int]:
        driver.create_input_topic("in").pipe_key_value_list([(key, 1) for key in keys], start=1)
        driver.run_ready()
        last = driver.create_output_topic("out").read_key_values_to_map()
        return [last[key] for key in keys]

    with pytest.raises(EngineError, match="has 12 partitions, but the application needs 24"):
        first_day().application.restart()
    wrong = first_day()
    wrong.application.restart(strict=False)
    assert 512 == second_day(wrong).count(1)
    right = first_day()
    assert 512 == right.application.repartition(24)
    right.application.restart()
    assert [2] * 1_000 == second_day(right)


def test_mistakes_are_answered_with_what_there_is() -> None:
    """The error names topics, stores and states that do not match the application."""
    driver = ks.simulation.ClusterDriver(counted(), AT_LEAST)
    with pytest.raises(KStreamError, match='no application reads topic "nothing"'):
        driver.create_input_topic("nothing")
    with pytest.raises(StateError, match='store "m" does not exist'):
        driver.application.store("m")
    with pytest.raises(EngineError, match="must be from 0 to 0, got 7"):
        driver.delay("in", 7)
    with pytest.raises(EngineError, match="is running"):
        driver.application.repartition(3)
    driver.application.crash()
    with pytest.raises(EngineError, match="is crashed"):
        driver.application.commit()
    assert '<application "count", crashed, 1 task>' == repr(driver.application)


def test_new_code_continues_with_old_state_until_it_is_reset() -> None:
    """Another function in the same topology: offsets and stores stay, so that only new records are right."""

    def summed(sign: int) -> ks.Topology:
        builder = ks.StreamsBuilder("sums")
        builder.stream("in").group_by_key().aggregate(
            int, lambda key, value, total: total + sign * value, store="sums"
        ).to_stream().to("out")
        return builder.build()

    driver = ks.simulation.ClusterDriver(summed(-1), EXACTLY)
    for round_of, expected in ((summed(-1), -5), (summed(1), 0), (None, 5)):
        driver.application.restart(topology=round_of)
        driver.create_input_topic("in").pipe_input("k", 5, at=0)
        driver.run_ready()
        driver.application.commit()
        assert driver.application.store("sums")["k"] == expected
    driver.application.close()
    driver.application.reset(["in"])
    driver.application.restart()
    driver.run_ready()
    assert driver.application.store("sums")["k"] == 15, "the new code stays, and reads everything"


def test_new_code_with_another_topology_is_refused() -> None:
    """Its stores belong to other nodes; the application continues with the code that it has."""
    driver = ks.simulation.ClusterDriver(counted(), EXACTLY)
    with pytest.raises(EngineError, match='the new code of application "count" has a different topology'):
        driver.application.restart(topology=merged())
    assert driver.application.status == "running"


def test_a_store_is_restored_from_a_changelog_that_another_application_wrote() -> None:
    """With both serdes any topic can be written, also one that no application reads."""
    builder = ks.StreamsBuilder("visits")
    builder.stream("pages").group_by_key().count(store="counts")
    driver = ks.simulation.ClusterDriver(builder.build(), verify=False)  # its input is elsewhere
    driver.application.close()
    changelog = driver.create_input_topic("visits-counts-changelog", ks.Serdes.bytes(), ks.Serdes.bytes())
    changelog.pipe_input(b"home", (41).to_bytes(8, "big"), at=0)
    driver.application.clean_up()
    driver.application.restart()
    driver.create_input_topic("pages").pipe_input("home", "seen", at=1)
    driver.run_ready()
    assert driver.application.store("counts").get("home") == 42
