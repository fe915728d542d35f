"""How input records are processed: the choice of a strategy as a table, and the order of event times."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from operator import itemgetter
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.core.record import TopicRecord
from kstreamnb.recording.trace import Recording
from kstreamnb.testdriver.execution import batched, interleaved, sequential
from kstreamnb.testdriver.execution.input_batch import InputBatch
from kstreamnb.testdriver.execution.strategy import Strategy, choose_strategy

Options = dict[str, Any]


def alone() -> ks.Topology:
    """No topic that is written is read again."""
    builder = ks.StreamsBuilder("alone")
    builder.stream("in").map_values(lambda value: value + 1).to("out")
    return builder.build()


def repartitioned() -> ks.Topology:
    """Two sub-topologies, one after the other."""
    builder = ks.StreamsBuilder("two")
    builder.stream("in").group_by(lambda key, value: str(value)).count().to_stream().to("out")
    return builder.build()


def circular() -> ks.Topology:
    """A sub-topology that reads what it writes."""
    builder = ks.StreamsBuilder("circle")
    stream = builder.stream("in").merge(builder.stream("again"))
    stream.filter(lambda key, value: value > 0).map_values(lambda value: value - 1).to("again")
    return builder.build()


def with_global_table() -> ks.Topology:
    """A stream whose topic also fills a global table."""
    builder = ks.StreamsBuilder("global")
    names = builder.global_table("in", store="names")
    builder.stream("other").join(names, lambda key, value: key, lambda value, name: name).to("out")
    return builder.build()


def extracting() -> ks.Topology:
    """A source whose records carry their event time in the value."""
    builder = ks.StreamsBuilder("times")
    builder.stream("in", timestamp_extractor=lambda record, _: record.value).to("out")
    return builder.build()


def extracting_again() -> ks.Topology:
    """A task that merges two topics of the application by the times in their values."""
    builder = ks.StreamsBuilder("again")
    for topic in ("one", "two"):
        builder.stream("in").flat_map_values(itemgetter(topic)).to(topic)
    one, two = (builder.stream(topic, timestamp_extractor=lambda record, _: record.value) for topic in ("one", "two"))
    one.merge(two).to("out")
    return builder.build()


CASES: list[tuple[str, Callable[[], ks.Topology], Options, Options, int, Strategy]] = [
    ("nothing that is written is read", alone, {}, {}, 10, batched.run),
    ("a function observes every event", alone, {}, {"observe": print}, 10, interleaved.run),
    ("times of extractors merge what is written", extracting_again, {}, {}, 10, sequential.run),
    ("a handler may drop records", alone, {"deserialization_handler": "continue"}, {}, 10, batched.run),
    ("caches are flushed after every record", repartitioned, {}, {"cache": True}, 10, batched.run),
    ("one task feeds another", repartitioned, {}, {}, 10, batched.run),
    ("few records", repartitioned, {}, {}, 3, sequential.run),
    ("a task feeds itself", circular, {}, {}, 10, interleaved.run),
    ("records change global stores", with_global_table, {}, {}, 10, sequential.run),
    ("event times merge partitions", extracting, {}, {}, 10, sequential.run),
    ("one task as in Kafka's driver", alone, {}, {"task_layout": "single"}, 10, sequential.run),
]


@pytest.mark.parametrize(
    ("topology", "config", "options", "number", "strategy"),
    [pytest.param(*case[1:], id=case[0]) for case in CASES],
)
def test_strategy_follows_from_topology_config_and_records(
    topology: Callable[[], ks.Topology],
    config: Options,
    options: Options,
    number: int,
    strategy: Strategy,
) -> None:
    """The choice for each kind of topology, after the tasks know which changelogs they write."""
    driver = ks.TopologyTestDriver(topology(), config, partitions=2, verify=False, **options)
    records = [TopicRecord("in", -1, -1, at, f"k{at}", at) for at in range(number)]
    batch = InputBatch.unserialized(driver.router, ["in"], records)
    assert choose_strategy(driver.router, driver.tasks, batch) is strategy


@pytest.mark.parametrize("cases", [["a", "b"], ["b", "a"]])
def test_partitions_are_merged_by_extracted_timestamps(cases: list[str]) -> None:
    """A click is joined with the account of its event time, whatever the broker's timestamps are."""
    builder = ks.StreamsBuilder("clicks")
    accounts = builder.table("accounts", timestamp_extractor=lambda record, _: record.value["at"])
    clicks = builder.stream("clicks", timestamp_extractor=lambda record, _: record.value["at"])
    clicks.left_join(accounts, lambda click, account: account and account["plan"]).to("out")
    driver = ks.TopologyTestDriver(builder.build())
    click = TopicRecord("clicks", 0, -1, 5, "c", {"at": 200})
    account = TopicRecord("accounts", 0, -1, 9, "c", {"at": 100, "plan": "pro"})
    driver.pipe([click, account] if cases == ["a", "b"] else [account, click])
    assert driver.create_output_topic("out").read_key_values_to_list() == [("c", "pro")]


def test_every_record_is_extracted_once_and_refused_ones_are_passed_over() -> None:
    """Reading ahead calls an extractor once for each record, and a negative time drops the record in its turn."""
    calls: list[int] = []

    def event_time(record: TopicRecord, _partition_time_ms: int) -> int:
        calls.append(record.value)
        return int(record.value)

    builder = ks.StreamsBuilder("times")
    left = builder.stream("left", timestamp_extractor=event_time)
    left.merge(builder.stream("right", timestamp_extractor=event_time)).to("out")
    driver = ks.TopologyTestDriver(builder.build())
    times = {"left": [7, -1, 3, 20], "right": [5, 6, 30]}
    driver.pipe([TopicRecord(topic, 0, -1, n, "k", at) for topic in times for n, at in enumerate(times[topic])])
    assert driver.create_output_topic("out").read_values_to_list() == [5, 6, 7, 3, 20, 30]
    assert sorted(calls) == [-1, 3, 5, 6, 7, 20, 30]
    assert driver.metrics()["dropped-records-total"] == {"0_0": 1}


@pytest.mark.parametrize("layout", ["split", "single"])
@pytest.mark.parametrize("copies", [1, 20])
def test_records_that_one_record_causes_are_merged_by_the_times_of_extractors(layout: str, copies: int) -> None:
    """Kafka's tasks do not take them by their timestamps, which are equal here, however many records come at once."""
    driver = ks.TopologyTestDriver(extracting_again(), task_layout=layout)  # type: ignore[arg-type]
    driver.pipe([TopicRecord("in", 0, at, at, "a", {"one": [30, 5], "two": [10, 40]}) for at in range(copies)])
    values = [record.value for record in driver.create_output_topic("out").read_records_to_list()]
    assert values == [10, 30, 5, 40] * copies


def test_only_tasks_that_merge_by_extractors_process_one_record_at_a_time() -> None:
    """An extractor for topics that nobody else writes, or for the only topic of a task, changes no order."""
    builder = ks.StreamsBuilder("alone")
    builder.stream("in").to("again")
    builder.stream("again", timestamp_extractor=lambda record, _: record.value).to("out")
    topologies = [builder.build(), extracting(), repartitioned(), extracting_again()]
    assert [False, False, False, True] == [ks.TopologyTestDriver(each).router.merges_written for each in topologies]


@pytest.mark.parametrize("records", [1, 3])
def test_offsets_after_an_error_are_those_of_the_log(records: int) -> None:
    """Records that the failed run wrote and nobody read count as well."""

    class Located(ks.Processor[Any, Any, Any, Any]):
        def process(self, record: ks.Record[Any, Any]) -> None:
            metadata: Any = self.context.record_metadata()
            self.context.forward(record.with_value((1 // record.value, metadata.partition, metadata.offset)))

    builder = ks.StreamsBuilder("offsets")
    builder.stream("in").flat_map(lambda key, value: [(each, value) for each in "abcdef"]).to("all")
    builder.stream("all").process(Located).to("out")
    driver = ks.TopologyTestDriver(builder.build(), partitions={"in": 1, "all": 3})
    with pytest.raises(ks.errors.ProcessingError):
        driver.pipe([TopicRecord("in", 0, 0, at, "x", int(at < records - 1)) for at in range(records)])
    driver.pipe([TopicRecord("in", 0, 0, 99, "x", 1)])
    written, read = (driver.create_output_topic(topic).read_records_to_list()[-6:] for topic in ("all", "out"))
    expected = {(record.key, 1, record.partition, record.offset) for record in written}
    assert expected == {(record.key, *record.value) for record in read}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("records", [1, 3, 8, 200])
@pytest.mark.parametrize("fails", ["first", "second", "third"])
@pytest.mark.parametrize("fed", [("in",), ("in", "one")])
def test_offsets_of_topics_that_are_written_and_read_count_every_row(
    recorded: bool, partitions: int, records: int, fails: str, fed: tuple[str, ...]
) -> None:
    """However many records were piped at once, by whichever strategy, and wherever the error came from."""
    failing: list[Any] = [None]

    def step(name: str) -> Any:
        def split(key: Any, value: Any) -> list[Any]:
            if name == fails and (key, value) == failing[0]:
                raise ValueError("wrong")
            return [(f"{key}{part}"[-2:], value) for part in range(2)]

        return split

    builder = ks.StreamsBuilder("offsets")
    builder.stream("in").flat_map(step("first")).to("one")
    builder.stream("one").flat_map(step("second")).to("two")
    builder.stream("two").flat_map(step("third")).to("out")
    driver = ks.TopologyTestDriver(builder.build(), partitions=partitions, observe=Recording() if recorded else None)
    driver.pipe([TopicRecord("in", -1, -1, 0, "a", -1)])
    failing[0] = ({"first": "a", "second": "a1", "third": "11"}[fails], records // 2)
    piped = [TopicRecord(fed[at % len(fed)], -1, -1, at, "a", at) for at in range(records)]
    with pytest.raises(ks.errors.ProcessingError) if failing[0][1] % len(fed) == 0 else nullcontext():
        driver.pipe(piped)
    for topic in ("one", "two") if len(fed) == 1 else ("two",):
        rows = Counter(row[:2] for row in driver.tasks.logs[topic].rows)
        assert rows == {each: offset for each, offset in driver.tasks.offsets.items() if each[0] == topic and offset}


def test_an_extractor_that_fails_ends_the_run_after_the_records_before() -> None:
    """Records before the failing one are processed, and none of the waiting ones is processed later."""

    def event_time(record: TopicRecord, _partition_time_ms: int) -> int:
        return int(record.value)

    builder = ks.StreamsBuilder("times")
    left = builder.stream("left", timestamp_extractor=event_time)
    left.merge(builder.stream("right", timestamp_extractor=event_time)).to("out")
    driver = ks.TopologyTestDriver(builder.build())
    bad: list[TopicRecord] = [TopicRecord("left", 0, -1, 5, "k", "bad"), TopicRecord("right", 0, -1, 9, "k", 70)]
    with pytest.raises(ks.errors.ProcessingError, match="the timestamp extractor failed: ValueError"):
        driver.pipe([TopicRecord("right", 0, -1, 1, "k", 3), *bad])
    driver.create_input_topic("right").pipe_input("k", 90)
    assert driver.create_output_topic("out").read_values_to_list() == [3, 90]


def several_rows_each() -> ks.Topology:
    """Each record becomes three, which are joined with a global table and then fill it."""
    builder = ks.StreamsBuilder("several")
    latest = builder.global_table("latest")
    rows = builder.stream("in").flat_map_values(lambda value: [value, value + 1, value + 2]).repartition(name="rows")
    checked = rows.map_values(lambda value: 60 // (12 - value) and value)
    checked.left_join(latest, lambda key, value: "all", lambda value, before: [value, before]).to("out")
    checked.select_key(lambda key, value: "all").to("latest")
    return builder.build()


def pieces(first: int, step: int, at_once: int) -> Iterator[list[TopicRecord]]:
    """Yield eight records with rising values, some at once."""
    records = [TopicRecord("in", -1, -1, number, "k", first + step * number) for number in range(8)]
    yield from (records[start : start + at_once] for start in range(0, 8, at_once))


FORMS: list[Options] = [{}, {"observe": lambda event: None}, {"task_layout": "single"}]


@pytest.mark.parametrize("options", FORMS, ids=["split", "observed", "single"])
@pytest.mark.parametrize("at_once", [1, 8])
def test_each_record_sees_what_the_one_before_it_changed_in_a_global_table(options: Options, at_once: int) -> None:
    # Kafka's test driver also fills global tables after each record that a task processes.
    with ks.TopologyTestDriver(several_rows_each(), **options) as driver:
        for records in pieces(100, 3, at_once):
            driver.pipe(records)
        joined = driver.create_output_topic("out").read_values_to_list()
    assert joined == [[100, None], *([value, value - 1] for value in range(101, 124))]


@pytest.mark.parametrize("options", FORMS, ids=["split", "observed", "single"])
@pytest.mark.parametrize("at_once", [1, 8])
def test_results_before_an_error_in_a_later_sub_topology_are_there(options: Options, at_once: int) -> None:
    with ks.TopologyTestDriver(several_rows_each(), **options) as driver:
        with pytest.raises(ks.errors.ProcessingError, match="ZeroDivisionError"):
            deque(map(driver.pipe, pieces(1, 5, at_once)))
        joined = driver.create_output_topic("out").read_values_to_list()
    assert [value for value, _ in joined] == [1, 2, 3, 6, 7, 8, 11]
