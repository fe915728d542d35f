"""Replays: walking through a recorded run in both directions, and inspecting any moment of it."""

from __future__ import annotations

import gc
import re
import signal
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.errors import EngineError, ProcessingError, StateError, UnknownNameError
from kstreamnb.recording.trace import Code, Recording, keep, shown
from kstreamnb.recording.trace_index import TraceIndex
from kstreamnb.replays.replay import Replay
from kstreamnb.replays.replay_sample import replay


def sample(*rows: tuple[str, Any, Any, int]) -> list[ks.TopicRecord]:
    """Records of (topic, key, value, time), in the partitions of their keys."""
    return [ks.TopicRecord(topic, -1, -1, time, key, value) for topic, key, value, time in rows]


def sales_by_shop() -> ks.Topology:
    """Count sales by shop in windows of 10 ms, after a repartition."""
    builder = ks.StreamsBuilder("shops")
    sales = builder.stream("sales").filter(lambda _, sale: sale["quantity"] > 0)
    by_shop = sales.group_by(lambda _, sale: sale["shop"])
    by_shop.windowed_by(ks.TimeWindows.of(size="10ms")).count(store="counts").to_stream().to("counts-out")
    return builder.build()


SALES = sample(
    ("sales", "shoe", {"shop": "A", "quantity": 1}, 0),
    ("sales", "sock", {"shop": "B", "quantity": 2}, 5),
    ("sales", "shoe", {"shop": "A", "quantity": 0}, 6),
    ("sales", "shoe", {"shop": "A", "quantity": 1}, 30),
    ("sales", "sock", {"shop": "A", "quantity": 1}, 8),
)


@pytest.fixture
def run() -> Replay:
    """A replay on two partitions."""
    return replay(sales_by_shop(), SALES, partitions=2)


def test_a_replay_gives_what_the_driver_gives(run: Replay) -> None:
    """Recording changes nothing: outputs equal those of a driver that does not record."""
    with ks.TopologyTestDriver(sales_by_shop(), partitions=2) as driver:
        driver.pipe(SALES)
        assert driver.create_output_topic("counts-out").read_records() == run.output("counts-out")


def test_a_replay_that_nobody_looks_at_any_more_is_let_go_at_once() -> None:
    """Memory is freed with the last reference to a replay, without waiting for the garbage collector."""
    gc.disable()
    try:
        found = replay(sales_by_shop(), SALES, partitions=2)
        assert len(list(found.steps)) == len(found.steps)
        assert found.why_open()
        assert found.output("counts-out")
        run, log = weakref.ref(found.run), found.run.index.log
        del found
        assert run() is None
        assert 2 == sys.getrefcount(log)  # references here and as an argument: no task holds it
    finally:
        gc.enable()


@pytest.mark.parametrize("partitions", [None, 3])
def test_topics_of_a_pattern_are_those_of_the_sample(partitions: int | None) -> None:
    """As in Kafka's test driver, no topic must be created before; all topics have the same number of partitions."""
    builder = ks.StreamsBuilder("regions")
    by_region = builder.stream(re.compile("orders-.*")).left_join(
        builder.table("users"), lambda order, user: (order, user)
    )
    by_region.to("all")
    topics = ("users", "orders-eu", "orders-us")
    records = [ks.TopicRecord(topic, 2, 0, time, "a", topic[-2:]) for time, topic in enumerate(topics)]
    run = replay(builder.build(), records, partitions)
    assert [["eu", "rs"], ["us", "rs"]] == [list(row.value) for row in run.output("all")]
    assert {2} == {step.record.partition for step in run.steps}
    assert [("a", ["eu", None], 1), ("a", ["us", None], 2)] == ks.head(by_region, records[1:])


def test_rows_of_a_run_suggest_what_they_have(run: Replay) -> None:
    """Names of data frames and of dictionaries are answered, too."""
    (topic,), (name,) = run.topics, run.now.stores
    rows, table = run.output(topic), run.now.store(name)
    for value, slip, known in (
        (rows, "to_dataframe", "to_pandas"),
        (rows, "plot", "to_pandas().plot"),
        (table, "all", "to_dict().items"),
        (table, "to_panda", "to_pandas"),
    ):
        with pytest.raises(UnknownNameError) as caught:
            getattr(value, slip)
        assert caught.value.hint == f'did you mean "{known}"?'


def test_a_step_holds_everything_that_happened_in_it(run: Replay) -> None:
    """S0-11: a record is taken, forwarded, stored, produced and committed, in this order."""
    kinds = [type(event).__name__ for event in run.steps[1].events]
    kinds = [kind for kind in kinds if kind not in ("Forwarded", "StateVarChanged", "StoreRead")]
    assert ["RecordConsumed", "StoreWritten", "StoreWritten", "RecordProduced", "Committed"] == kinds
    assert ("shops-counts-repartition", "A") == (run.steps[1].record[0], run.steps[1].record.key)  # type: ignore[index,union-attr]


def test_stores_are_shown_as_they_were_after_any_step(run: Replay) -> None:
    """A store is empty before the first step and grows with its writes."""
    sizes = [len(run.at(step).store("counts")) for step in range(len(run.steps) + 1)]
    assert [0, 0, 1, 1, 2, 2, 2, 3, 3, 3] == sizes
    assert run.at(2).store("counts")[ks.Windowed("A", 0, 10)] == 1


def test_moments_can_be_looked_at_in_any_order(run: Replay) -> None:
    """Going back undoes what going forward did."""
    forward = [run.at(step).store("counts") for step in range(len(run.steps) + 1)]
    back = [run.at(step).store("counts") for step in reversed(range(len(run.steps) + 1))]
    assert forward == back[::-1]


def test_a_difference_names_what_changed(run: Replay) -> None:
    """Added rows are +I forwards and -D backwards; stream time is reported by task."""
    (change,) = run.diff(1, 2)
    assert ("+I", "counts", None, 1) == (change.kind, change.store, change.old, change.new)
    assert ["-D"] == [change.kind for change in run.diff(2, 1)]
    assert {"1_0": (-1, 0)} == run.diff(1, 2).stream_time
    assert "stream time of task 1_0: not begun to 0" in str(run.diff(1, 2))


def test_the_position_moves_forward_back_and_to_a_condition(run: Replay) -> None:
    """step, back, seek and run_until move; at() does not."""
    assert len(run.steps) == run.position
    run.seek(0)
    assert run.step() == run.steps[0]
    assert run.back() == run.steps[0]
    assert (None, 0) == (run.back(), run.position)
    found = run.run_until(lambda step: bool(step.dropped))
    assert found is not None
    assert "late" == found.dropped[0].reason
    run.at(1)
    assert found.number == run.position


def test_breakpoints_stop_at_nodes_keys_and_conditions(run: Replay) -> None:
    """A breakpoint stops run_until; all its conditions have to hold."""
    run.seek(0)
    run.breakpoint(key="B", node="KSTREAM-AGGREGATE-0000000003")
    step = run.run_until()
    assert step is not None
    assert "B" == step.record.key  # type: ignore[union-attr]
    assert run.run_until() is None
    with pytest.raises(EngineError, match='node "counts" does not exist'):
        run.breakpoint(node="counts")


def test_a_breakpoint_at_a_key_does_not_stop_at_a_pair_that_begins_with_it() -> None:
    """A key within its window is that key; the first part of a user's own pair is not."""
    builder = ks.StreamsBuilder("pairs")
    paired = builder.stream("in").select_key(lambda key, value: ("B", value))
    paired.filter(lambda key, value: False).to("out")
    run = ks.replay(builder.build(), {"in": [("A", 1)]})
    run.seek(0)
    run.breakpoint(key="B")
    assert run.run_until() is None
    run.seek(0)
    run.breakpoint(key=("B", 1))
    assert run.run_until() is not None


def test_waiting_records_are_the_rest_of_the_input_and_those_between_tasks(run: Replay) -> None:
    """After the first step, one record is in transit and four are not yet read."""
    assert 5 == len(run.at(0).waiting())
    assert ["between tasks", "input", "input", "input", "input"] == [each.where for each in run.at(1).waiting()]
    assert () == run.at(len(run.steps)).waiting()


def test_edges_are_counted_as_far_as_the_run_has_come(run: Replay) -> None:
    """Counts are by topic, node and sink; topics are named as in the topology."""
    counts = run.counts()
    assert 5 == counts["sales", "KSTREAM-SOURCE-0000000000"]
    assert 4 == counts["counts-repartition-sink", "counts-repartition"]
    assert 3 == counts["KSTREAM-SINK-0000000008", "counts-out"]
    assert {} == {edge: number for edge, number in run.at(0).counts().items() if number}


def test_values_are_kept_as_they_were_when_they_passed() -> None:
    """A function that changes a value in place does not change earlier steps."""

    def double(value: dict[str, int]) -> dict[str, int]:
        value["n"] *= 2
        return value

    builder = ks.StreamsBuilder()
    builder.stream("in").map_values(double).to("out")
    step = replay(builder.build(), sample(("in", "k", {"n": 1}, 0))).steps[0]
    assert [{"n": 1}, {"n": 2}] == [hop.value for hop in step.forwarded]


def test_any_value_can_be_kept() -> None:
    """Plain values are kept as they are; mutable ones are restored equal; values that cannot be copied are kept."""
    unpicklable = lambda: None  # noqa: E731 - a value that pickle refuses
    for value in (
        1,
        "a",
        None,
        [1, {"b": (2,)}],
        ks.Change([1], None),
        ks.Windowed(["k"], 0, 1),
        {"s": {1}},
        unpicklable,
    ):
        assert value == shown(keep(value))


def test_an_error_carries_the_run_until_then() -> None:
    """The replay of a failed run is the error's attribute, with the failing node."""
    builder = ks.StreamsBuilder()
    builder.stream("in").map_values(lambda value: 1 // value).to("out")
    with pytest.raises(ProcessingError) as caught:
        replay(builder.build(), sample(("in", "a", 1, 0), ("in", "b", 0, 1)))
    found = caught.value.replay  # type: ignore[attr-defined]
    assert [1] == [record.value for record in found.output("out")]
    assert "KSTREAM-MAPVALUES-0000000001" == found.error.node


def test_a_predicate_that_fails_does_not_move_the_replay(run: Replay) -> None:
    """A step has a record, whose key it is; the corrected predicate meets the same steps."""
    run.seek(2)
    with pytest.raises(UnknownNameError, match='a Step has no "key"') as caught:
        run.run_until(lambda step: step.key == "a")  # type: ignore[attr-defined]
    assert 'did you mean "record.key"?' == caught.value.hint
    assert run.position == 2


def test_what_is_not_there_is_named(run: Replay) -> None:
    """Unknown stores, steps and records raise errors that list the known ones."""
    with pytest.raises(StateError, match='store "nope" does not exist'):
        run.now.windows("nope")
    with pytest.raises(StateError, match='task "9_9" does not exist'):
        run.now.state_vars("9_9")
    with pytest.raises(StateError, match='in task "0_0", store "nope" does not exist'):
        run.now.raw("0_0", "nope")
    with pytest.raises(StateError, match='store "nope" does not exist'):
        run.at(0).store("nope")
    with pytest.raises(EngineError, match=r"step must be from 0, the beginning, to [0-9]+, got 99"):
        run.seek(99)
    with pytest.raises(EngineError, match="no record counts-out-0@9 was written"):
        run.provenance(("counts-out", 0, 9))


def test_a_trace_follows_a_record_across_topics(run: Replay) -> None:
    """Everything that one input record caused, including its final output."""
    record = run.steps[0].record
    assert record is not None
    trace = run.record(*record[:3]).trace()
    assert [1, 2] == [step.number for step in trace]
    assert {1: 0, 2: 1} == trace.depth
    assert ["counts-out"] == [record.topic for record in trace.outputs]


def test_a_driver_can_be_replayed_after_the_fact() -> None:
    """A driver's input is piped again into one that records it, in the same order."""
    with ks.TopologyTestDriver(sales_by_shop()) as driver:
        for record in SALES[:2]:
            driver.create_input_topic("sales").pipe_input(record)
        driver.advance_wall_clock_time("1s")
        driver.pipe(SALES[2:])
        output = driver.create_output_topic("counts-out").read_records()
        assert output == Replay.of(driver).output("counts-out")


@pytest.mark.parametrize(
    ("move", "target"), [(lambda run: run.step(-1), 2), (lambda run: run.step(2), 5), (lambda run: run.back(2), 1)]
)
def test_moving_by_a_number_of_steps_names_the_position_to_seek(
    run: Replay, move: Callable[[Any], object], target: int
) -> None:
    """Steps are taken one at a time; the hint is a call that goes where the user wanted to go."""
    run.seek(3)
    with pytest.raises(EngineError, match="moves by one step") as caught:
        move(run)
    assert caught.value.hint == f"write seek({target}) to go there at once"
    assert run.position == 3


def test_punctuations_and_commits_are_steps_of_their_own() -> None:
    """A punctuation by stream time, and a commit that flushes a cache, follow the record's step."""

    class Ticker(ks.Processor[Any, Any, Any, Any]):
        """Forwards the time of each punctuation."""

        def init(self, context: Any) -> None:
            """Ask for a tick every 10 ms."""
            tick = lambda now: context.forward(ks.Record("tick", now, now))  # noqa: E731
            context.schedule("10ms", ks.PunctuationType.STREAM_TIME, tick)

        def process(self, record: Any) -> None:
            """Take no notice."""

    builder = ks.StreamsBuilder()
    builder.stream("in").process(Ticker).to("ticks")
    builder.table("rows", store="rows").to_stream().to("changes")
    records = sample(("in", "k", 1, 0), ("rows", "a", 1, 5), ("in", "k", 1, 11))
    run = replay(builder.build(), records, cache=True)
    kinds = [step.kind for step in run.steps if step.kind != "record" or step.record.topic == "in"]  # type: ignore[union-attr]
    assert ["record", "punctuation", "commit", "record", "punctuation"] == kinds
    assert ["changes"] == [record.topic for step in run.steps if step.kind == "commit" for record in step.produced]


def test_displays_hold_the_same_facts_in_text_and_html(run: Replay) -> None:
    """Every value displays as text and as HTML, with the same cells; nothing is truncated silently."""
    step = run.steps[1]
    for thing in (
        run,
        step,
        run.at(2),
        run.at(2).store("counts"),
        run.diff(0, 4),
        run.provenance(run.output("counts-out")[0]),
    ):
        bundle = thing._repr_mimebundle_()
        assert {"text/plain", "text/html"} <= bundle.keys()
        assert "object at" not in bundle["text/plain"]
    assert "<svg" in run._repr_mimebundle_()["text/html"]
    assert "1 late" in run._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("codes", [3, 300])
def test_a_log_is_read_twice_however_many_nodes_and_partitions_it_has(codes: int) -> None:
    """S0-25: once for the steps, and once for the entries of all nodes and partitions."""

    class CountedLog(list[Any]):
        passes = 0

        def __iter__(self) -> Iterator[Any]:
            self.passes += 1
            return super().__iter__()

    recording = Recording()
    recording.log = CountedLog((place % codes, "entry") for place in range(2 * codes))
    recording.codes = [Code("consumed" if n in (1, codes - 1) else "forwarded", f"0_{n}") for n in range(codes)]
    index = TraceIndex(recording)
    assert [1, codes - 1, codes + 1, 2 * codes - 1] == list(index.starts) == index.positions_of("consumed")
    assert {code.task: [n, n + codes] for n, code in enumerate(index.codes)} == {
        code.task: list(positions) for kind in ("consumed", "forwarded") for code, positions in index.of_kind(kind)
    }
    assert 2 == recording.log.passes


def test_a_preview_that_dropped_says_over_how_many_partitions_it_ran() -> None:
    """Key b makes a's second record late in one partition; a sample with partitions is previewed over its own."""
    builder = ks.StreamsBuilder("late")
    windows = ks.TimeWindows.of(size="10s", grace="0s")
    counts = builder.stream("in").group_by_key().windowed_by(windows).count()
    rows = [(0, 1000, "a"), (1, 60_000, "b"), (0, 2000, "a")]
    builder.sample = ks.Sample.from_records([("in", 0, at, time, key, 1) for at, (_, time, key) in enumerate(rows)])
    shown = str(counts.head())
    assert "1 dropped on the way" in shown
    assert "over 1 partition per topic" in shown
    assert "ks.replay(topology, sample, partitions=1).why_dropped()" in shown
    placed = ks.Sample.from_records([("in", place, at, time, key, 1) for at, (place, time, key) in enumerate(rows)])
    assert (counts.head(placed).dropped, counts.head(placed).partitions) == (0, 2)
    assert not ks.replay(builder.build(), placed, partitions=2).drops


@pytest.mark.parametrize(("partitions", "dropped"), [(1, 2), (4, 1)])
def test_previews_and_replays_of_a_sample_drop_the_same_records_or_say_why(partitions: int, dropped: int) -> None:
    """By default both run over the partitions that the sample names, where each task has its own stream time."""
    builder = ks.StreamsBuilder("late")
    windows = ks.TimeWindows.of(size="10s", grace="0s")
    counts = builder.stream("in").group_by_key().windowed_by(windows).count(store="counts")
    counts.to_stream().to("out")
    rows = [(0, 1000, "a"), (3, 60_000, "d"), (0, 2000, "a"), (0, 70_000, "a"), (0, 3000, "a")]
    rows = [(place % partitions, time, key) for place, time, key in rows]
    sample = ks.Sample.from_records([("in", place, at, time, key, 1) for at, (place, time, key) in enumerate(rows)])
    preview, run = counts.head(sample), ks.replay(builder.build(), sample)
    assert preview.dropped == len(run.drops) == dropped
    assert f"{dropped} dropped (see why_dropped())" in str(run)
    assert f"partitions={partitions}).why_dropped()" in str(preview)


def test_a_run_without_drops_says_that_other_partitions_have_other_stream_times() -> None:
    """With one task, or without windows, every number of partitions drops the same records: there is no note."""
    builder = ks.StreamsBuilder("late")
    windows = ks.TimeWindows.of(size="10s", grace="0s")
    builder.stream("in").group_by_key().windowed_by(windows).count(store="counts").to_stream().to("out")
    sample = ks.Sample.from_records([("in", 0, 0, 1000, "a", 1)])
    four = ks.replay(builder.build(), sample, partitions=4)
    assert "0 dropped (see why_dropped());" in str(four)
    assert "4 tasks each have their own stream time" in str(four.why_dropped())
    assert "0 dropped;" in str(ks.replay(builder.build(), sample))
    plain = ks.StreamsBuilder("plain")
    plain.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    assert "0 dropped;" in str(ks.replay(plain.build(), sample, partitions=4))


def test_records_that_wait_are_counted_without_reading_them() -> None:
    """At every step the count is that of the records: input, and those between two tasks."""
    builder = ks.StreamsBuilder("waiting")
    builder.stream("in").group_by(lambda key, value: value).count(store="counts").to_stream().to("out")
    records = [("in", n % 2, n // 2, 10 * n, f"k{n}", f"v{n % 3}") for n in range(8)]
    run = ks.replay(builder.build(), ks.Sample.from_records(records))
    moments = [run.at(step) for step in range(len(run.steps) + 1)]
    assert [moment.count_waiting() for moment in moments] == [len(moment.waiting()) for moment in moments]
    assert {each.where for moment in moments for each in moment.waiting()} == {"input", "between tasks"}
    assert moments[0].first_waiting(3) == moments[0].waiting()[:3]


def test_a_preview_behind_a_repartition_shows_what_a_replay_writes() -> None:
    """Only the preview's own sink takes values as they are; topics between tasks keep their serdes."""
    builder = ks.StreamsBuilder("words")
    words = builder.stream("text").flat_map_values(str.split)
    counts = words.group_by(lambda key, word: word, value_serde="json").count(store="counts")
    sums = builder.table("n").group_by(lambda key, value: ("sum", value), value_serde="json")
    totals = sums.reduce(lambda total, value: total + value, lambda total, value: total - value)
    sample = [ks.TopicRecord("text", 0, 0, 0, None, "the duck the"), ks.TopicRecord("n", 0, 0, 1, "a", 5)]
    assert [("the", 1), ("duck", 1), ("the", 2)] == [each[4:6] for each in counts.head(sample).records]
    assert [("sum", 5)] == [each[4:6] for each in totals.head(sample).records]


def test_a_preview_says_when_the_sample_has_only_other_topics() -> None:
    """A mistyped topic of the sample is not taken for an empty result."""
    builder = ks.StreamsBuilder("other")
    elsewhere = ks.Sample.from_records([("ordres", 0, 0, 0, "a", 1)])
    notice = "No record of the sample is in a topic that this reads: orders."
    assert notice in str(builder.stream("orders").head(elsewhere))
    assert notice in str(builder.global_table("orders", store="all").head(elsewhere))
    assert "No record" not in str(builder.stream("ordres").filter(lambda key, value: False).head(elsewhere))


def test_a_preview_of_a_large_sample_ends_when_enough_is_seen() -> None:
    """The first results are those of the whole run, over partitions too; the title says what was taken."""
    builder = ks.StreamsBuilder("large")
    kept = builder.stream("in").filter(lambda key, value: value % 400 == 0)
    none = builder.stream("in").filter(lambda key, value: False)
    records = [("in", n % 3, n // 3, 10 * (n - n % 7), f"k{n}", n) for n in range(9000)]
    sample = ks.Sample.from_records(records)
    preview = kept.head(sample)
    whole = kept.head(sample, 9000)
    assert whole.total == 23
    assert preview.records == whole.records[:10]
    assert preview.title == "the first 10 records, from the first 5,250 of 9,000 input records"
    assert none.head(sample).title == "0 records, from 9,000 input records"
    assert kept.head(ks.Sample.from_records([(*each[:1], -1, *each[2:]) for each in records])).taken == 5250


def test_a_preview_of_a_large_sample_follows_the_times_that_a_source_extracts() -> None:
    """The records of one topic are later than their timestamps say, so the other topic's come first."""

    def time_of(record: Any, stream_time: int) -> int:
        return int(record.value["time"])

    builder = ks.StreamsBuilder("times")
    late = builder.stream("late", timestamp_extractor=time_of)
    early = builder.stream("early", timestamp_extractor=time_of)
    both = late.merge(early)
    records = [
        (topic, 0, n, n, "k", {"from": topic, "time": n + delay})
        for n in range(1500)
        for topic, delay in (("late", 5000), ("early", 0))
    ]
    preview = both.head(ks.Sample.from_records(records), 1400)
    assert {record.value["from"] for record in preview.records} == {"early"}


@pytest.mark.parametrize("regrouped", [False, True], ids=["one level", "two levels"])
def test_an_interrupted_replay_leaves_the_run_until_then(regrouped: bool) -> None:
    """Ctrl-C raises, with the replay so far: its steps are those of the whole run. The next run is complete."""
    stop = {-1}

    def watch(key: str, value: int) -> bool:
        if value in stop:
            signal.raise_signal(signal.SIGINT)
        return True

    builder = ks.StreamsBuilder("stopped")
    watched = builder.stream("in").filter(watch)
    grouped = watched.group_by(lambda key, value: f"g{value % 3}") if regrouped else watched.group_by_key()
    grouped.count(store="counts").to_stream().to("out")
    topology = builder.build()
    records = sample(*(("in", f"k{n % 5}", n, n) for n in range(100)))
    whole = replay(topology, records)
    stop.add(60)
    with pytest.raises(KeyboardInterrupt) as raised:
        replay(topology, records)
    run = raised.value.replay  # type: ignore[attr-defined]
    assert "interrupted" in str(run)
    assert ["Hint: the run until then is in sys.last_value.replay"] == raised.value.__notes__
    complete = len(run.steps) - 1
    assert complete == (120 if regrouped else 60)
    assert [str(step) for step in whole.steps[:complete]] == [str(step) for step in run.steps[:complete]]
    assert whole.at(complete).store("counts") == run.at(complete).store("counts")
    stop.discard(60)
    assert str(whole) == str(replay(topology, records))


class InterruptedLog(list[Any]):
    """A log that raises KeyboardInterrupt once, after some reads."""

    left = -1

    def __getitem__(self, position: Any) -> Any:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return super().__getitem__(position)


@pytest.mark.parametrize("reads", [1, 4, 9])
@pytest.mark.parametrize(("first", "then"), [(200, 3), (150, 200)])
def test_an_interrupt_leaves_no_rows_of_another_step(reads: int, first: int, then: int) -> None:
    """Ctrl-C while a state is computed, forwards or backwards: other steps and questions answer as if never asked."""
    builder = ks.StreamsBuilder("rows")
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    run = replay(builder.build(), sample(*(("in", f"k{at}", 1, at) for at in range(200)))).run
    fresh, task = TraceIndex(run.index.recording), next(iter(run.tasks))
    recording = Recording()
    recording.codes, recording.log = run.index.codes, (log := InterruptedLog(run.index.log))
    index = TraceIndex(recording)
    index.rows(task, "counts", then)
    for ask in (lambda: index.rows(task, "counts", first), lambda: index.writes(task, "counts")):
        log.left = reads
        with pytest.raises(KeyboardInterrupt):
            ask()
    for step in (then, first):
        assert fresh.rows(task, "counts", step) == index.rows(task, "counts", step)
    assert fresh.writes(task, "counts") == index.writes(task, "counts")


def test_outputs_have_values_if_a_sink_chooses_its_topic() -> None:
    """A replay and its steps showed keys and values of all outputs as bytes, those of other sinks too."""
    builder = ks.StreamsBuilder("chosen")
    orders = builder.stream("orders")
    orders.to(lambda key, value, metadata: "special", value_serde="string")
    orders.map_values(int).to("pieces", value_serde="long")
    run = replay(builder.build(), sample(("orders", "a", "5", 0)))
    assert [(record.key, record.value) for topic in ("special", "pieces") for record in run.output(topic)] == [
        ("a", "5"),
        ("a", 5),
    ]
    assert [record.value for record in run.steps[0].produced] == ["5", 5]


def test_a_dead_letter_that_the_serdes_of_sinks_cannot_read_stays_bytes() -> None:
    """A handler may send it to any topic, and so may a sink that chooses topics."""

    def set_aside(context: ks.ErrorContext, error: BaseException) -> ks.ErrorResponse:
        letter = ks.DeadLetter("aside", context.raw_key, context.raw_value, context.timestamp)
        return ks.ErrorResponse("continue", [letter])

    builder = ks.StreamsBuilder("aside")
    builder.stream("orders").map_values(int).to(lambda key, value, metadata: "pieces", value_serde="long")
    config = ks.Config(processing_handler=set_aside)
    run = replay(builder.build(), sample(("orders", "a", "five", 0), ("orders", "a", "6", 1)), config=config)
    assert [record.value for record in run.output("pieces")] == [6]
    assert [bytes(record.value) for record in run.output("aside")] == [b'"five"']
