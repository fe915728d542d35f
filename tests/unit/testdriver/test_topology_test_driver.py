"""The test driver as a user sees it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kstreamnb.core.processor import Processor
from kstreamnb.core.record import Record, TopicRecord, ValueAndTimestamp
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.windows import TimeWindows
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.errors import ConfigError, EngineError, KStreamError, SerdeError, StateError, TopologyError
from kstreamnb.replays.replay import Replay
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology


def counting(**options: Any) -> TopologyTestDriver:
    """Counts records per key, in a store and in windows."""
    builder = StreamsBuilder("counting")
    grouped = builder.stream("in", value_serde=Serdes.json()).group_by_key()
    grouped.count(store="counts").to_stream().to("out", value_serde=Serdes.long())
    grouped.windowed_by(TimeWindows.of(size="10ms", grace="1m")).count(store="windows")
    return TopologyTestDriver(builder.build(), **options)


def test_records_go_in_and_come_out() -> None:
    """Key, value, time, headers and offset of an output record."""
    with counting() as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("shoe", {"quantity": 1}, at="2026-01-01T09:00Z", headers=(("trace", b"1"),))
        out = driver.create_output_topic("out")
        at = int(datetime(2026, 1, 1, 9, tzinfo=UTC).timestamp() * 1000)
        assert TopicRecord("out", 0, 0, at, "shoe", 1, (("trace", b"1"),)) == out.read_record()
        assert out.is_empty()


def test_the_topics_clock_gives_times() -> None:
    """It starts at the given time, advances automatically, and ignores records with their own time."""
    driver = counting()
    topic = driver.create_input_topic("in", start=100, auto_advance="10ms")
    topic.pipe_input("a", 1)
    topic.pipe_input("a", 1, at=7)
    topic.pipe_input("a", 1)
    topic.advance_time("1s")
    topic.pipe_key_value_list([("a", 1), ("a", 1)])
    topic.pipe_key_value_list([("a", 1), ("a", 1)], start=5000, advance=timedelta(milliseconds=3))
    topic.pipe_record_list([Record("a", 1, 6000), ("a", 1, 6001)])
    times = [record.timestamp for record in driver.create_output_topic("out").read_records()]
    assert [100, 100, 110, 1120, 1130, 5000, 5003, 6000, 6001] == times
    with pytest.raises(ConfigError):
        topic.advance_time("-1s")
    with pytest.raises(ConfigError, match="auto_advance must not be negative, got -1 ms"):
        driver.create_input_topic("in", auto_advance="-1ms")


def test_reading_an_output_topic() -> None:
    """Every read method consumes records."""
    driver = counting()
    driver.create_input_topic("in").pipe_key_value_list([(key, 1) for key in "abcabca"])
    out = driver.create_output_topic("out")
    assert 7 == out.queue_size()
    assert 1 == out.read_value()
    assert ("b", 1) == out.read_key_value()
    assert "c" == out.read_record().key
    assert {"a": 3, "b": 2, "c": 2} == out.read_key_values_to_map()
    driver.create_input_topic("in").pipe_value_list([1])
    assert [] == out.read_values_to_list() == out.read_key_values_to_list() == out.read_records_to_list()


def test_all_records_of_an_output_are_a_table_and_a_frame() -> None:
    """As the output of a replay is; still a list of records."""
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    driver = TopologyTestDriver(builder.build())
    output = driver.create_output_topic("out")
    assert [] == output.read_records()
    driver.create_input_topic("in").pipe_input("a", 1, at=5)
    records = output.read_records()
    assert [TopicRecord("out", 0, 0, 5, "a", 1)] == records
    assert [("a", 1)] == list(records.to_pandas()[["key", "value"]].itertuples(index=False, name=None))
    assert "key | value" in str(records)
    assert [] == output.read_records_to_list()


def test_errors_have_kafkas_texts() -> None:
    """Unknown and empty topics, and null keys in a map."""
    driver = counting()
    for call, java in (
        (lambda: driver.create_input_topic("nope").pipe_input("a", 1), "Unknown topic: nope"),
        (lambda: driver.create_output_topic("out").read_value(), "Uninitialized topic: out"),
    ):
        with pytest.raises(EngineError) as error:
            call()
        assert java == error.value.java
    driver.create_input_topic("in").pipe_input("a", 1)
    out = driver.create_output_topic("out")
    out.read_value()
    with pytest.raises(EngineError) as error:
        out.read_value()
    assert "Empty topic: out" == error.value.java
    copy = TopologyTestDriver(Topology("t").add_source("s", "in").add_sink("k", "out", "s"))
    copy.create_input_topic("in").pipe_value_list([1])
    with pytest.raises(EngineError, match="has no key"):
        copy.create_output_topic("out").read_key_values_to_map()


def test_an_output_that_its_serde_cannot_read_is_named_with_the_call_that_reads_it() -> None:
    """Dead letters are bytes that no serde could read."""
    builder = StreamsBuilder("dead")
    builder.stream("in").to("out")
    names = ("deserialization.exception.handler", "errors.dead.letter.queue.topic.name")
    driver = TopologyTestDriver(builder.build(), dict(zip(names, ("continue", "dead"), strict=True)))
    driver.create_input_topic("in", value_serde="bytes").pipe_input("a", b"junk", at=0)
    with pytest.raises(SerdeError, match='serde "json" cannot read 4 bytes') as caught:
        driver.create_output_topic("dead").read_record()
    notes = "\n".join(caught.value.__notes__)
    assert "Detail: it is the value of record dead-0@0" in notes
    assert 'Hint: create_output_topic("dead", value_serde="bytes") reads any value' in notes
    assert b"junk" == driver.create_output_topic("dead", value_serde="bytes").read_value()


@pytest.mark.parametrize(("partitions", "number"), [(1, 1), (2, 1), (2, 100)])
def test_a_record_that_its_serde_cannot_write_is_named(partitions: int, number: int) -> None:
    """A key of the wrong type is reported with its topic, for single records and for many at once."""
    builder = StreamsBuilder("kinds")
    orders = builder.stream("orders")
    orders.to("out") if partitions > 1 else orders.group_by(lambda _, value: str(value)).count(store="n")
    records = [TopicRecord("orders", -1, -1, time, "a", time) for time in range(number - 1)]
    with pytest.raises(SerdeError, match='serde "string" cannot write a value of type "int"') as caught:
        TopologyTestDriver(builder.build(), partitions=partitions).pipe(
            [*records, TopicRecord("orders", -1, -1, 500, 5, 1)]
        )
    assert any('of a record for topic "orders"' in note and "key 5" in note for note in caught.value.__notes__)
    assert 'key_serde="long"' in str(caught.value.hint)
    assert 'builder.stream("orders")' in str(caught.value.origin)


def test_records_go_to_the_partition_of_their_key() -> None:
    """Murmur2 of the key's bytes; each partition has its own task, store and stream time."""
    driver = counting(partitions={"in": 4, "out": 2})
    topic = driver.create_input_topic("in")
    for number in range(8):
        topic.pipe_input(f"KEY-{number}", 1, at=number)
    topic.pipe_input("anything", 1, at=9, partition=3)
    assert ["0_0", "0_1", "0_2", "0_3"] == list(driver.tasks.by_id)
    assert {"0_0": 3, "0_1": 3, "0_2": 1, "0_3": 2} == driver.metrics()["process-total"]
    out = driver.create_output_topic("out").read_records()
    assert {0, 1} == {record.partition for record in out}
    counts = driver.get_key_value_store("counts")
    assert counts is not None
    assert 9 == len(counts)
    assert sorted(key for key, _ in counts) == [key for key, _ in counts]
    assert "KEY-2" in counts
    with pytest.raises(EngineError, match="has no partition 4"):
        topic.pipe_input("a", 1, at=1, partition=4)


def test_join_partners_must_be_partitioned_alike() -> None:
    """The check that Kafka makes when the application starts."""
    builder = StreamsBuilder("join")
    builder.stream("left").join(builder.table("right"), lambda a, b: a).to("out")
    with pytest.raises(TopologyError) as error:
        TopologyTestDriver(builder.build(), partitions={"left": 2, "right": 3})
    assert "Topics not co-partitioned: [{left=2, right=3}]" in str(error.value.java)


def test_a_changed_key_goes_through_a_real_repartition_topic() -> None:
    """It carries the application's id and is among the produced topics."""
    builder = StreamsBuilder("moving")
    stream = builder.stream("in", value_serde=Serdes.string())
    stream.group_by(lambda key, value: value, name="by-value").count(store="n")
    driver = TopologyTestDriver(builder.build(), partitions={"in": 3})
    driver.create_input_topic("in").pipe_key_value_list([("a", "x"), ("b", "x"), ("c", "y")])
    assert {"moving-by-value-repartition", "moving-n-changelog"} == driver.produced_topic_names()
    assert 3 == driver.create_output_topic("moving-by-value-repartition").queue_size()
    store = driver.get_key_value_store("n")
    assert store is not None
    assert 2 == store["x"]


def test_stores_are_seen_by_kind() -> None:
    """Values alone, or with their times, by one rule for every getter."""
    driver = counting(partitions=2)
    driver.create_input_topic("in").pipe_key_value_list([("a", 1), ("b", 1), ("a", 1)], start=5, advance="4ms")
    counts, timed = driver.get_key_value_store("counts"), driver.get_timestamped_key_value_store("counts")
    windows = driver.get_window_store("windows")
    assert counts is not None
    assert timed is not None
    assert windows is not None
    assert [("a", 2), ("b", 1)] == list(counts.all())
    assert [("b", 1), ("a", 2)] == list(counts.reverse_all())
    assert ValueAndTimestamp(2, 13) == timed["a"]
    assert [(0, 1), (10, 1)] == list(windows.fetch("a", 0, 100))
    assert 1 == windows.fetch("b", 0)
    assert ["a", "a", "b"] == [window.key for window, _ in windows.all()]
    assert {"counts", "windows"} == set(driver.get_all_state_stores())
    with pytest.raises(KeyError):
        counts["nobody"]
    assert driver.store("counts")["a"] == 2
    assert driver.store("counts", timestamps=True)["a"] == timed["a"]
    assert driver.store("windows").fetch("b", 0) == 1


def test_a_store_that_no_processor_uses_is_not_among_all_stores() -> None:
    """It is never made, as in Kafka Streams."""
    builder = StreamsBuilder("unused")
    builder.add_state_store(StoreSpec("unused", "key_value"))
    builder.table("in", store="used")
    driver = TopologyTestDriver(builder.build())
    assert ["used"] == list(driver.get_all_state_stores())
    with pytest.raises(StateError, match="not exist in any task, because no processor uses it"):
        driver.get_state_store("unused")


def read_mistyped_output(driver: TopologyTestDriver) -> None:
    """Read a topic whose name nearly matches that of a written one."""
    driver.create_input_topic("in").pipe_input("a", 1)
    driver.create_output_topic("outt").read_value()


GETTERS = [
    "store", "get_state_store", "get_key_value_store", "get_timestamped_key_value_store", "get_window_store",
    "get_timestamped_window_store", "get_session_store", "get_versioned_key_value_store",
]  # fmt: skip


@pytest.mark.parametrize("getter", GETTERS)
def test_an_unknown_store_is_an_error_with_the_nearest_name(getter: str) -> None:
    """One rule and one hint for every kind of lookup."""
    with pytest.raises(StateError, match='store "cuonts" does not exist') as error:
        getattr(counting(), getter)("cuonts")
    assert error.value.hint == 'did you mean "counts"?'


@pytest.mark.parametrize(
    ("getter", "name"),
    [(getter, "windows") for getter in GETTERS[2:] if "window" not in getter]
    + [(getter, "counts") for getter in GETTERS[4:]],
)
def test_a_store_of_another_kind_is_an_error_that_names_the_kind(getter: str, name: str) -> None:
    """The error states the store's kind and how to read it."""
    kind = "window" if name == "windows" else "key value"
    with pytest.raises(StateError, match=f'got "{name}" of kind timestamped {kind}') as error:
        getattr(counting(), getter)(name)
    assert error.value.hint == f'driver.store("{name}") returns a store of any kind'


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda driver: driver.create_input_topic("inn"), 'no source of the topology reads topic "inn"'),
        (lambda driver: driver.create_input_topic("inn"), 'did you mean "in"?'),
        (lambda driver: driver.create_input_topic("prices"), "it reads in; use sample.of_topic(…)"),
        (lambda driver: driver.create_input_topic("in", key_serde=5), "a serde must be Serde, got 5"),
        (lambda driver: driver.create_output_topic("out", value_serde=5), "a serde must be Serde, got 5"),
        (read_mistyped_output, 'did you mean "out"'),
        (lambda driver: driver.create_input_topic("in", auto_advance="-5ms"), "auto_advance must not be negative"),
        (lambda driver: counting(partitions=0), "partitions must be at least 1, got 0"),
        (lambda driver: counting(partitions={"in": 0}), 'of topic "in" must be at least 1, got 0'),
        (lambda driver: counting(partitions="2"), "partitions must be int, got '2'"),
        (lambda driver: counting(task_layout="splitt"), 'did you mean "split"'),
        (lambda driver: counting(observe=5), 'expected a Recording or a function, got type "int"'),
        (
            lambda driver: driver.create_input_topic("in").pipe_input("a", 1, partition="1"),
            'partition must be an integer, got "1"',
        ),
    ],
)
def test_mistakes_are_refused_where_they_are_made(call: Any, message: str) -> None:
    """Mistyped topics, serdes, layouts and partition counts are reported before the first record."""
    with pytest.raises(KStreamError) as error:
        call(counting())
    assert message in "\n".join([str(error.value), *getattr(error.value, "__notes__", ())])


class Minute(Processor[Any, Any, Any, Any]):
    """Ticks once a minute of the wall clock."""

    closed = 0

    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule("1m", "wall_clock_time", lambda now: context.forward(Record(context.task_id, now, now)))

    def process(self, record: Record[Any, Any]) -> None:
        pass

    def close(self) -> None:
        type(self).closed += 1


def test_the_wall_clock_moves_only_when_told() -> None:
    """Every task ticks once, however many minutes passed; closing ends every processor."""
    topology = Topology("t").add_source("s", "in").add_processor("p", Minute, "s").add_sink("k", "out", "p")
    with TopologyTestDriver(topology, partitions={"in": 2}, wall_clock="2026-01-01T00:00Z") as driver:
        driver.advance_wall_clock_time("59s")
        out = driver.create_output_topic("out")
        assert out.is_empty()
        driver.advance_wall_clock_time(timedelta(minutes=5))
        assert ["0_0", "0_1"] == [record.key for record in out.read_records()]
    assert 2 == Minute.closed


def test_many_records_of_many_topics_are_merged_by_time() -> None:
    """One call pipes records of all topics; each partition keeps its own order."""
    builder = StreamsBuilder("merge")
    builder.stream("a").merge(builder.stream("b")).to("out")
    driver = TopologyTestDriver(builder.build())
    times = {"a": [5, 1, 9], "b": [2, 7]}
    driver.pipe([TopicRecord(topic, -1, -1, at, "k", f"{topic}{at}") for topic in times for at in times[topic]])
    assert ["b2", "a5", "a1", "b7", "a9"] == driver.create_output_topic("out").read_values_to_list()


def spoil(value: dict[str, int]) -> dict[str, int]:
    """Change a value in place."""
    value["n"] += 1
    return value


def test_values_are_as_separate_as_in_kafka() -> None:
    """A function that changes its value changes it for no other function."""
    builder = StreamsBuilder("separate")
    builder.stream("in").map_values(spoil).to("middle")
    builder.stream("middle").map_values(spoil).to("out")
    driver, value = TopologyTestDriver(builder.build()), {"n": 1}
    driver.create_input_topic("in").pipe_input("k", value, at=1)
    found = [driver.create_output_topic(topic).read_value()["n"] for topic in ("middle", "out")]
    assert ([2, 3], {"n": 1}) == (found, value)


@pytest.mark.parametrize("number", [1, 3, 200])
def test_one_value_piped_many_times_is_another_for_every_record(number: int) -> None:
    """Before and after a repartition, in user code and in a replay: a function's mutation is invisible to others."""
    builder = StreamsBuilder("separate")
    moved = builder.stream("in").map_values(spoil).select_key(lambda key, _: key[::-1]).repartition(name="moved")
    moved.map_values(spoil).to("out")
    topology, value = builder.build(), {"n": 1}
    records = [TopicRecord("in", -1, -1, at, f"k{at % 5}", value) for at in range(number)]
    driver = TopologyTestDriver(topology, partitions=2)
    driver.pipe(records)
    assert [{"n": 3}] * number == driver.create_output_topic("out").read_values_to_list()
    assert {"n": 1} == value
    run = Replay.of(driver)
    assert [{"n": 1}] * number == [step.record.value for step in run.steps if step.record.topic == "in"]
    assert [{"n": 2}] * number == [record.value for record in run.output("moved-repartition")]


def test_a_dead_letter_has_the_bytes_that_came() -> None:
    """A function that mutates its value and then fails does not change the dead letter."""

    def fail(value: dict[str, int]) -> int:
        return int(spoil(value)["n"] / 0)

    builder = StreamsBuilder("letters")
    builder.stream("in").group_by(lambda key, _: key).count().to_stream().to("counts", value_serde="long")
    builder.stream("other").map_values(fail).to("out")
    settings = {"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "letters"}
    driver = TopologyTestDriver(builder.build(), settings)
    driver.pipe([TopicRecord("other", -1, -1, at, "k", {"n": at}) for at in range(10)])
    letters = driver.create_output_topic("letters", "string", "json").read_values_to_list()
    assert [{"n": at} for at in range(10)] == letters


def test_bulk_takes_records_as_one_by_one_does() -> None:
    """Thousands of records at once produce the results of single ones, and values stay isolated."""
    rows = [TopicRecord("in", -1, -1, n, f"k{n % 7}", {"n": [n]}) for n in range(2000)]
    many, single = counting(), counting()
    many.pipe(rows)
    for row in rows:
        single.pipe([row])
    read = [driver.create_output_topic("out").read_records() for driver in (many, single)]
    assert read[0] == read[1]


def test_each_of_many_records_of_one_step_goes_to_the_topic_it_chose() -> None:
    """A dynamic sink chooses the topic of every record, however many one input record causes."""
    builder = StreamsBuilder()
    numbers = builder.stream("in").flat_map_values(lambda value: value.split())
    numbers.to(lambda key, value, metadata: "odd" if int(value) % 2 else "even")
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in").pipe_input("a", "0 1 2 3 4 5 6")
        even, odd = driver.create_output_topic("even"), driver.create_output_topic("odd")
        assert even.read_values_to_list() == ["0", "2", "4", "6"]
        assert odd.read_values_to_list() == ["1", "3", "5"]


def test_outputs_are_read_with_the_serdes_of_their_sinks_if_one_sink_chooses_its_topic() -> None:
    """Both outputs were read with the default serdes: a text as a number, and a long not at all."""
    builder = StreamsBuilder("chosen")
    orders = builder.stream("orders")
    orders.to(lambda key, value, metadata: "special", value_serde="string")
    orders.map_values(int).to("pieces", value_serde="long")
    with TopologyTestDriver(builder.build(), {"errors.dead.letter.queue.topic.name": "dead"}) as driver:
        driver.create_input_topic("orders").pipe_input("a", "5")
        assert driver.create_output_topic("special").read_value() == "5"
        assert driver.create_output_topic("pieces").read_value() == 5
        assert driver.router.output_serdes("dead") is None


def test_caches_are_flushed_after_every_record() -> None:
    """With caches, one record's updates of one key are emitted once, and old values are those of the last flush."""
    builder = StreamsBuilder("cached")
    stream = builder.stream("in", value_serde=Serdes.string())
    stream.flat_map_values(lambda value: list(value)).group_by_key().count(store="n").to_stream().to(
        "out", value_serde=Serdes.long()
    )
    topology = builder.build()
    for cache, expected in ((True, [3, 4]), (False, [1, 2, 3, 4])):
        driver = TopologyTestDriver(topology, cache=cache)
        driver.create_input_topic("in").pipe_key_value_list([("k", "abc"), ("k", "d")])
        assert expected == driver.create_output_topic("out").read_values_to_list()


def test_caches_are_flushed_in_the_order_of_their_nodes() -> None:
    """If two cached tables in one task write to one topic, the one declared first is flushed first."""
    builder = StreamsBuilder("cached")
    grouped = builder.stream("in", value_serde=Serdes.string()).group_by_key()
    grouped.count(store="z").map_values(str).to_stream().to("out", value_serde=Serdes.string())
    grouped.reduce(lambda old, new: old + new, store="a").to_stream().to("out", value_serde=Serdes.string())
    driver = TopologyTestDriver(builder.build(), cache=True)
    driver.create_input_topic("in").pipe_key_value_list([("k", "x"), ("k", "y")])
    assert ["1", "x", "2", "xy"] == driver.create_output_topic("out").read_values_to_list()


def test_changelogs_can_be_read() -> None:
    """On request their records are kept, with Kafka's bytes."""
    driver = counting(changelogs=True)
    driver.create_input_topic("in").pipe_input("k", 1, at=5)
    log = driver.create_output_topic("counting-counts-changelog", Serdes.string(), Serdes.long())
    assert [("k", 1, 5)] == [(r.key, r.value, r.timestamp) for r in log.read_records()]


def test_a_store_of_ones_own_processor_and_a_pattern() -> None:
    """Topics that match a pattern are read once they are known."""
    topology = Topology("t").add_source("s", pattern="in-.*", key_serde=Serdes.string(), value_serde=Serdes.long())
    topology.add_processor("p", Sum, "s").add_state_store(
        StoreSpec("sums", "key_value", Serdes.string(), Serdes.long()), "p"
    )
    driver = TopologyTestDriver(topology, partitions={"in-a": 2, "in-b": 2})
    driver.create_input_topic("in-a").pipe_input("k", 4, at=1)
    driver.create_input_topic("in-b").pipe_input("k", 5, at=1)
    store = driver.get_key_value_store("sums")
    assert store is not None
    assert 9 == store["k"]


class Sum(Processor[Any, Any, Any, Any]):
    """Adds values up."""

    def init(self, context: Any) -> None:
        self.store = context.get_state_store("sums")

    def process(self, record: Record[Any, Any]) -> None:
        self.store.put(record.key, (self.store.get(record.key) or 0) + record.value)


MEANINGLESS = {
    "partitions must be int, got '3'": {"partitions": "3"},
    "partitions must be int, got True": {"partitions": True},
    "the number of partitions of topic \"orders\" must be int, got '4'": {"partitions": {"orders": "4"}},
    'partitions are given for topic "odrers", which is neither read nor written': {"partitions": {"odrers": 4}},
}


@pytest.mark.parametrize("message", MEANINGLESS)
def test_partitions_that_make_no_sense_are_refused(message: str) -> None:
    """A mistyped topic would otherwise silently have one partition."""
    builder = StreamsBuilder("shop")
    builder.stream("orders").group_by(lambda key, value: value).count(store="counts").to_stream().to("out")
    with pytest.raises(ConfigError, match=re.escape(message)):
        TopologyTestDriver(builder.build(), **MEANINGLESS[message])


def test_partitions_may_be_given_for_more_topics_than_are_read() -> None:
    """Topics of sources and sinks, internal ones and those of dead letters; other topologies may share the mapping."""
    builder = StreamsBuilder("shop")
    builder.stream("orders").group_by(lambda key, value: value).count(store="counts").to_stream().to("out")
    partitions = {"orders": 2, "out": 3, "dead": 1, "shop-counts-repartition": 2, "of another": 5}
    TopologyTestDriver(builder.build(), {"dead_letter_topic": "dead"}, partitions=partitions)


def test_what_is_no_topology_and_no_record_is_refused() -> None:
    """Refused before anything runs, with the accepted values."""
    builder = StreamsBuilder("shop")
    builder.stream("orders").to("out")
    with pytest.raises(ConfigError, match='topology must be Topology, got type "StreamsBuilder"'):
        TopologyTestDriver(builder)  # type: ignore[arg-type]
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(ConfigError, match='expected records, got type "int"'):
        driver.pipe(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match='expected records of topics, got type "str"'):
        driver.pipe(["orders"])  # type: ignore[list-item]
    assert not driver.produced_topic_names()
