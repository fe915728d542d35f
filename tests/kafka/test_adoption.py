"""Tests what `adopt` reports about the state that Kafka Streams left in Kafka, and when it refuses it.

``tests/java`` moves whole applications; here the topics hold what Java would have written, so that no Java runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import kstreamnb as ks
from kstreamnb.background import wait_until
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.application_reset import group_offsets, metadata_of
from kstreamnb.kafka.offset_metadata import OffsetMetadata, commit_offsets, decode_metadata
from kstreamnb.kafka.producer import produce
from kstreamnb.spark.state.checkpoint_reader import last_batch
from tests.kafka.apps import PATIENCE_S, START_MS, Bench, counts, rows

pytestmark = pytest.mark.kafka

BYTES = ks.Serdes.bytes()
PARTITIONS, COUNT = 2, 40
SIZE = ks.TimeWindows.of_size_and_grace("10s", "4s")


class Left:
    """An application that has stopped: its topics, with committed offsets and stream times."""

    def __init__(self, servers: str, name: str, folder: Path) -> None:
        self.servers, self.name, self.folder, self.admin = servers, name, folder, Admin(servers)

    def build(self, declare: Callable[[Any, str], Any]) -> ks.Topology:
        """A topology over topic ``name-in``."""
        builder = ks.StreamsBuilder(self.name)
        declare(builder.stream(f"{self.name}-in", value_serde="long"), self.name)
        return builder.build()

    def stop_after(self, declare: Callable[[Any, str], Any], *, committed: Iterable[int] = range(PARTITIONS)) -> None:
        """Write what an application leaves that has processed the input, and committed its offsets of partitions."""
        topology, topic = self.build(declare), f"{self.name}-in"
        self.admin.create_topic(topic, partitions=PARTITIONS)
        records = rows(topic, COUNT, PARTITIONS)
        produce(self.servers, records, value_serde=ks.Serdes.long(), keep_partitions=True)
        driver = ks.TopologyTestDriver(topology, partitions=PARTITIONS, changelogs=True)
        driver.pipe(records)
        for owned in topology.owned_topics(self.name, {topic: PARTITIONS}):
            self.admin.create_topic(owned.name, partitions=owned.partitions or 1, config=dict(owned.config))
            written = driver.create_output_topic(owned.name, "bytes", "bytes").read_records()
            produce(self.servers, written, key_serde=BYTES, value_serde=BYTES, keep_partitions=True)
        self.commit(topic, dict.fromkeys(committed, COUNT // PARTITIONS))

    def commit(self, topic: str, offsets: dict[int, int]) -> None:
        """Commit offsets of a topic, with a stream time."""
        time = OffsetMetadata(START_MS + COUNT)
        if offsets:
            commit_offsets(
                Admin(self.servers), self.name, [(topic, part, offset, time) for part, offset in offsets.items()]
            )

    def look(self, declare: Callable[[Any, str], Any], **config: Any) -> Any:
        """Ask what would be adopted by a topology."""
        checkpoint = self.folder / "adopted"
        servers, topology = self.servers, self.build(declare)
        return ks.adopt(topology, bootstrap_servers=servers, checkpoint=checkpoint, config=config, dry_run=True)


@pytest.fixture
def left(servers: str, name: str, tmp_path: Path) -> Left:
    """An application of the test's own."""
    return Left(servers, name, tmp_path)


def count(stream: Any, name: str) -> None:
    """Count by key."""
    stream.group_by_key().count(store="counts").to_stream().to(f"{name}-out", value_serde="long")


def windows(stream: Any, name: str) -> None:
    """Count by window, under the same name of the store."""
    stream.group_by_key().windowed_by(SIZE).count(store="counts")


def sessions(stream: Any, name: str) -> None:
    """Count by session, under the same name of the store."""
    stream.group_by_key().windowed_by(ks.SessionWindows.of_inactivity_gap_and_grace("10s", "4s")).count(store="counts")


def versioned(stream: Any, name: str) -> None:
    """Count by key with a history."""
    store = ks.Stores.persistent_versioned_key_value_store("counts", history="1m")
    stream.group_by_key().count(materialized=ks.Materialized(store))


def regrouped(name_of_topic: str) -> Callable[[Any, str], None]:
    """Count by another key."""

    def declare(stream: Any, name: str) -> None:
        stream.group_by(lambda key, value: key[0], name=name_of_topic, value_serde="long").count(store="counts")

    return declare


def last(value_serde: str) -> Callable[[Any, str], None]:
    """The last value of each key, written with this serde."""

    def declare(stream: Any, name: str) -> None:
        values = stream.map_values(lambda value: f"text {value:03}" if value_serde == "string" else value)
        values.group_by_key(value_serde=value_serde).reduce(
            lambda one, other: other, store="counts", value_serde=value_serde
        )

    return declare


def texts(stream: Any, name: str) -> None:
    """The last value of each key, with the default serdes."""
    stream.map_values(str).group_by_key().reduce(lambda one, other: other, store="texts")


def test_the_same_topology_fits_without_notes(left: Left) -> None:
    """S0-22: rows, offsets and stream times are found."""
    left.stop_after(count)
    found = left.look(count)
    assert (found.problems, found.notes) == ((), ())
    assert found.stores == {"counts": len({record.key for record in rows("", COUNT, PARTITIONS)})}
    assert found.offsets == {f"{left.name}-in": {0: COUNT // 2, 1: COUNT // 2}}


@pytest.mark.parametrize(
    ("java", "here", "told"),
    [
        pytest.param(windows, count, "compact,delete, expected compact", id="windows-as-counts"),
        pytest.param(count, windows, "has cleanup.policy compact, expected compact,delete", id="counts-as-windows"),
        pytest.param(windows, sessions, "expected keys of a session store", id="windows-as-sessions"),
        pytest.param(last("string"), last("json"), 'serde "json" cannot read', id="text-as-json"),
    ],
)
def test_a_store_of_another_kind_or_serde_is_a_problem(left: Left, java: Any, here: Any, told: str) -> None:
    """S0-22: with the name of the store; nothing is written."""
    left.stop_after(java)
    problems = left.look(here).problems
    assert any(problem.startswith('store "counts"') and told in problem for problem in problems), problems
    with pytest.raises(ks.errors.CheckpointError, match="does not fit this topology"):
        ks.adopt(left.build(here), bootstrap_servers=left.servers, checkpoint=left.folder / "adopted")
    assert not (left.folder / "adopted").exists()


@pytest.mark.parametrize(
    ("java", "here", "told"),
    [
        pytest.param(last("long"), last("string"), "a number that was read as text", id="integers-as-text"),
        pytest.param(
            last("long"), last("double"), "an integer that was read as a fraction", id="integers-as-fractions"
        ),
        pytest.param(versioned, count, "min.compaction.lag.ms 86460000, expected 0", id="versioned-as-counts"),
    ],
)
def test_bytes_that_another_serde_or_kind_can_read_are_doubted(left: Left, java: Any, here: Any, told: str) -> None:
    """S0-22: they may be right, so that they are notes."""
    left.stop_after(java)
    found = left.look(here)
    assert found.problems == ()
    assert any(told in note for note in found.notes), found.notes
    assert not any(told in note for note in left.look(java).notes)


def test_eight_letters_that_are_read_as_an_integer_are_doubted(left: Left) -> None:
    """S0-22: "text 012" has as many bytes as an integer."""
    left.stop_after(last("string"))
    assert any("text that was read as an integer" in note for note in left.look(last("long")).notes)


def test_records_of_a_repartition_topic_with_another_name_would_be_lost(left: Left) -> None:
    """S0-22: as long as they wait; afterwards the other name is a note."""
    left.stop_after(regrouped("letters"))
    topic = f"{left.name}-letters-repartition"
    ends = left.admin.offsets([topic])[topic]
    left.commit(topic, dict.fromkeys(ends, 0))
    assert left.look(regrouped("letters")).pending == {topic: COUNT}
    (problem,) = left.look(regrouped("others")).problems
    assert problem == (
        f'the application has read topic "{topic}", but this topology does not; {COUNT} waiting records would be lost'
    )
    left.commit(topic, ends)
    found = left.look(regrouped("others"))
    assert found.problems == ()
    assert f'the application has read topic "{topic}", but this topology does not' in found.notes


def test_a_store_under_another_name_is_a_problem_and_its_changelog_is_named(left: Left) -> None:
    """S0-22: both names."""
    left.stop_after(count)
    found = left.look(lambda stream, name: stream.group_by_key().count(store="totals"))
    assert found.problems == (f'store "totals": topic "{left.name}-totals-changelog" is missing',)
    assert found.notes == (f'topic "{left.name}-counts-changelog" belongs to no store of this topology',)


def test_input_without_offsets_is_noted(left: Left) -> None:
    """S0-22: a partition is read from its start, as Kafka Streams does, and another topic as in a new deployment."""
    left.stop_after(count, committed=[1])
    left.admin.create_topic(f"{left.name}-more", partitions=PARTITIONS)
    builder = ks.StreamsBuilder(left.name)
    topics = [f"{left.name}-in", f"{left.name}-more"]
    count(builder.stream(topics, value_serde="long"), left.name)
    found = ks.adopt(builder.build(), bootstrap_servers=left.servers, checkpoint=left.folder / "new", dry_run=True)
    assert found.problems == ()
    assert found.notes == (
        f'topic "{topics[0]}": no offset is committed for partition 0, which is read from its start',
        f'group "{left.name}" has no offsets of topic "{topics[1]}": it starts as in a new deployment',
    )


def test_stores_that_topics_of_different_partitions_reach_are_noted(left: Left) -> None:
    """S0-22: the same key may be in two tasks, also in Java."""
    left.stop_after(count)
    left.admin.create_topic(f"{left.name}-wide", partitions=PARTITIONS + 1)
    builder = ks.StreamsBuilder(left.name)
    wide = builder.stream(f"{left.name}-wide", value_serde="long")
    count(builder.stream(f"{left.name}-in", value_serde="long").merge(wide), left.name)
    found = ks.adopt(builder.build(), bootstrap_servers=left.servers, checkpoint=left.folder / "new", dry_run=True)
    topic = f'topic "{left.name}-counts-changelog"'
    assert f"{topic} has {PARTITIONS} partitions, and the topology needs {PARTITIONS + 1}" in found.problems
    assert any('meet at store "counts" with 2 and 3 partitions' in note for note in found.notes)


def test_offsets_that_kafka_streams_has_not_committed_are_noted(left: Left) -> None:
    """S0-22: a plain consumer of the same group commits no stream times."""
    left.stop_after(count)
    assert not left.look(count).notes
    consumer = Consumer({"bootstrap.servers": left.servers, "group.id": left.name})
    parts = [TopicPartition(f"{left.name}-in", part, COUNT // 2) for part in range(PARTITIONS)]
    consumer.commit(offsets=parts, asynchronous=False)
    consumer.close()
    assert left.look(count).notes == ("the offsets have no stream times: Kafka Streams has not committed them",)


def test_a_store_without_a_changelog_is_noted(left: Left) -> None:
    """S0-22: as after a restart of Java, it begins empty."""

    def unlogged(stream: Any, name: str) -> None:
        stream.group_by_key().count(materialized=ks.Materialized("counts").with_logging_disabled())

    left.stop_after(unlogged)
    assert left.look(unlogged).notes == (
        'store "counts" has no changelog: it starts empty, as it would after a restart in Java',
    )


def test_windows_of_which_the_broker_has_deleted_records_are_noted(left: Left) -> None:
    """S0-22: the records of this test are older than a day, but by stream time their windows are open."""
    left.stop_after(windows)
    topic = f"{left.name}-counts-changelog"
    assert not left.look(windows).notes
    left.admin.client.delete_records([TopicPartition(topic, 0, 3)])[TopicPartition(topic, 0, 3)].result(30)
    (note,) = left.look(windows).notes
    assert note.startswith(
        f'store "counts": rows may be missing, because the broker has deleted records of topic "{topic}"'
    )


def test_rows_that_no_query_returns_are_not_counted(left: Left) -> None:
    """S0-22: a window store keeps expired rows until their segment is dropped, and the changelog longer."""

    def short(stream: Any, name: str) -> None:
        stream.group_by_key().windowed_by(ks.TimeWindows.of_size_with_no_grace("5ms")).count(store="counts")

    left.stop_after(short)
    stores = ks.kafka.read_changelogs(left.build(short), bootstrap_servers=left.servers)
    kept = sum(raw_key is not None for of in stores.tasks.values() for raw_key in of["counts"])
    returned = len(list(stores["counts"].all()))
    assert 0 < returned < kept
    assert left.look(short).stores == stores.rows == {"counts": returned}
    assert list(stores.table()) == [("counts", str(returned))]


def test_a_running_application_is_refused(left: Left, bench: Bench) -> None:
    """S0-22: with the number of its members; also by a deployment over a state that was adopted before it started."""
    left.stop_after(count)
    ks.adopt(left.build(count), bootstrap_servers=left.servers, checkpoint=bench.folder / "checkpoint")
    consumer = Consumer({"bootstrap.servers": left.servers, "group.id": left.name})
    consumer.subscribe([f"{left.name}-in"])
    assert wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), PATIENCE_S)
    with pytest.raises(ks.errors.ApplicationStateError, match=r"has 1 active member\n"):
        left.look(count)
    with pytest.raises(ks.errors.ApplicationStateError, match=r"has 1 active member\n"):
        bench.deploy(left.build(count), available_now=True)
    consumer.close()


@pytest.mark.parametrize(
    ("committed", "told"),
    [
        pytest.param([0, 1], "has run elsewhere", id="offsets"),
        pytest.param([], "has state elsewhere", id="changelogs"),
    ],
)
def test_a_deployment_over_the_state_of_another_program_is_refused(
    left: Left, bench: Bench, committed: list[int], told: str
) -> None:
    """S0-22: a new checkpoint would count from zero; the hint names `adopt`, and nothing is written."""
    left.stop_after(count, committed=committed)
    with pytest.raises(ks.errors.CheckpointError, match=told) as caught:
        bench.deploy(left.build(count), available_now=True)
    assert "kstreamnb.adopt(topology, …" in str(caught.value.hint)
    assert f"{left.name}-out" not in left.admin.topics()


@pytest.mark.parametrize("declare", [count, texts], ids=["own serdes", "default serdes"])
def test_a_deployment_without_the_settings_of_the_adoption_is_refused(left: Left, bench: Bench, declare: Any) -> None:
    """S0-22: it would read the input with other serdes; the hint names the argument."""
    left.stop_after(declare)
    options = {"bootstrap_servers": left.servers, "checkpoint": bench.folder / "checkpoint"}
    ks.adopt(left.build(declare), **options, config={"default_value_serde": "string"})
    with pytest.raises(ks.errors.CheckpointError, match="adopted with different default serdes") as caught:
        bench.deploy(left.build(declare), available_now=True)
    assert caught.value.detail == "those of keys and values were string and string, and are string and json now"
    assert caught.value.hint == "pass the config= that adopt was given"
    bench.run(left.build(declare), config={"default_value_serde": "string"})


def test_a_deployment_without_the_id_of_the_adoption_is_refused(left: Left, bench: Bench) -> None:
    """S0-22: the hint names the argument."""
    left.stop_after(count)
    builder = ks.StreamsBuilder("another")
    count(builder.stream(f"{left.name}-in", value_serde="long"), left.name)
    topology = builder.build()
    ks.adopt(topology, left.name, bootstrap_servers=left.servers, checkpoint=bench.folder / "checkpoint")
    with pytest.raises(ks.errors.CheckpointError, match="does not fit this topology") as caught:
        bench.deploy(topology, available_now=True)
    assert caught.value.detail == f'it belongs to application "{left.name}", not "another"'
    assert "application_id=" in str(caught.value.hint)


def test_an_adopted_application_continues_until_another_program_does(left: Left, bench: Bench) -> None:
    """S0-22: counts continue; a checkpoint that Kafka Streams has passed meanwhile is refused."""
    left.stop_after(count)
    topic = f"{left.name}-in"
    ks.adopt(left.build(count), bootstrap_servers=left.servers, checkpoint=bench.folder / "checkpoint")
    more = rows(topic, COUNT, PARTITIONS, COUNT)
    produce(left.servers, more, value_serde=ks.Serdes.long(), keep_partitions=True)
    query = bench.run(left.build(count))
    assert dict(query.store("counts").all()) == counts([*rows(topic, COUNT, PARTITIONS), *more])
    assert len(bench.read(f"{left.name}-out")) == COUNT
    left.commit(topic, dict.fromkeys(range(PARTITIONS), COUNT + 5))
    with pytest.raises(ks.errors.CheckpointError, match="has continued elsewhere") as caught:
        bench.deploy(left.build(count), available_now=True)
    assert "kstreamnb.adopt(topology, …" in str(caught.value.hint)


def test_a_hand_over_says_what_java_starts_with(left: Left, bench: Bench) -> None:
    """S0-22: all input is processed, offsets carry stream times, and the changelogs are named."""
    topic, inner = f"{left.name}-in", f"{left.name}-by-letter-repartition"
    bench.fill(topic, COUNT, PARTITIONS)
    query = bench.deploy(left.build(regrouped("by-letter")), changelogs=True)
    handed = query.hand_over(PATIENCE_S)
    assert not query.is_active()
    assert handed.offsets == {topic: {0: COUNT // 2, 1: COUNT // 2}, inner: {0: 0, 1: 0}}
    assert (handed.changelogs, handed.lost) == ((f"{left.name}-counts-changelog",), ())
    assert f'start the same topology in Java with application.id "{left.name}"' in str(handed)
    committed = group_offsets(left.admin, left.name)
    assert {(each.topic, each.partition): each.offset for each in committed} == {
        (name, partition): offset for name, parts in handed.offsets.items() for partition, offset in parts.items()
    }
    times = {
        each.partition: decode_metadata(metadata_of(each)).stream_time_ms for each in committed if each.topic == inner
    }
    assert handed.stream_times == {f"1_{partition}": time_ms for partition, time_ms in times.items() if time_ms >= 0}
    assert max(times.values()) == START_MS + COUNT - 1


def slowly(stream: ks.KStream, name: str) -> None:
    """Count, longer than a stop waits for a batch."""
    count(stream.peek(lambda key, value: time.sleep(4 * (value == 0))), name)


def test_a_hand_over_waits_for_a_batch_that_is_repeated(left: Left, bench: Bench) -> None:
    """S0-22: its output was published before, so no input is left while it runs again."""
    bench.fill(f"{left.name}-in", COUNT, PARTITIONS)
    query = bench.run(left.build(slowly), changelogs=True)
    files = query.control.files
    files.delete(f"commits/{last_batch(files)}")
    handed = query.hand_over(PATIENCE_S)
    assert handed.offsets == {f"{left.name}-in": {0: COUNT // 2, 1: COUNT // 2}}
    assert len(bench.read(f"{left.name}-out")) == COUNT


def test_a_query_that_writes_no_changelogs_is_not_handed_over(left: Left, bench: Bench) -> None:
    """S0-22: Java would start with empty stores; the hint is the call to make first."""
    bench.fill(f"{left.name}-in", COUNT, PARTITIONS)
    with pytest.raises(ks.errors.ApplicationStateError, match="writes no changelogs") as caught:
        bench.deploy(left.build(count)).hand_over(PATIENCE_S)
    assert "changelogs=True" in str(caught.value.hint)


OUTPUTS = ("counts", "letters", "windows")  # of joins, outputs depend on the order of topics, which are filled in turn
STORES = ("by-key", "by-letter", "by-window", "names", "items")


def ledger(name: str) -> ks.Topology:
    """State of several kinds, also behind repartition topics, all of which is in changelogs."""
    builder, long = ks.StreamsBuilder(name), ks.Serdes.long()
    stream = builder.stream(f"{name}-in", value_serde="long")
    counts = stream.group_by_key().count(store="by-key")
    counts.to_stream().to(f"{name}-counts", value_serde="long")
    letters = counts.to_stream().group_by(lambda key, value: key[0], name="letter", value_serde="long")
    letters.count(store="by-letter").to_stream().to(f"{name}-letters", value_serde="long")
    windows = stream.group_by_key().windowed_by(ks.TimeWindows.of_size_and_grace("20ms", "50ms"))
    key_serde = ks.Serdes.time_windowed("string", "20ms")
    windows.count(store="by-window").to_stream().to(f"{name}-windows", key_serde=key_serde, value_serde=long)
    names = builder.table(f"{name}-names", value_serde="long", store="names")
    stream.left_join(names, lambda one, other: f"{one}/{other}").to(f"{name}-named", value_serde="string")
    items = builder.table(f"{name}-items", value_serde="long", store="items")
    both = items.left_join(names, lambda one, other: f"{one}/{other}", foreign_key=lambda value: f"a{value % 4}")
    both.to_stream().to(f"{name}-both")
    return builder.build()


@pytest.mark.spark
def test_an_application_that_was_handed_over_is_adopted_again(left: Left, bench: Bench) -> None:
    """S0-22: back and forth without Java, with the state redistributed meanwhile, as if it had run all the time."""
    inputs = {f"{left.name}-{each}": PARTITIONS for each in ("in", "names", "items")}
    topics = inputs | {f"{left.name}-{each}": PARTITIONS for each in (*OUTPUTS, "named", "both")}
    for topic in topics:
        left.admin.create_topic(topic, partitions=PARTITIONS)
    driver = ks.TopologyTestDriver(ledger(left.name), partitions=topics)

    def more(begin: int) -> None:
        for topic in inputs:
            driver.pipe(bench.fill(topic, COUNT, PARTITIONS, begin))

    def moved(query: Any, checkpoint: str) -> None:
        assert not query.hand_over(PATIENCE_S).lost
        options: dict[str, Any] = {"bootstrap_servers": left.servers, "checkpoint": bench.folder / checkpoint}
        found = ks.adopt(ledger(left.name), **options)
        assert ((), ()) == (found.problems, found.notes)
        assert all(count == found.stores[store] for store, count in rows_now().items() if store != "by-window")

    def rows_now() -> dict[str, int]:
        return {store: len(list(driver.store(store).all())) for store in STORES}

    options = {"changelogs": True, "spark_partitions": 2}
    more(0)
    moved(bench.deploy(ledger(left.name), "first", **options), "second")
    more(COUNT)
    bench.run(ledger(left.name), "second", changelogs=True)
    ks.spark.rescale(bench.folder / "second", 1)
    more(2 * COUNT)
    moved(bench.deploy(ledger(left.name), "second", changelogs=True), "third")
    with pytest.raises(ks.errors.CheckpointError, match=r"belongs to another checkpoint|has continued elsewhere"):
        bench.deploy(ledger(left.name), "second", changelogs=True)
    more(3 * COUNT)
    query = bench.run(ledger(left.name), "third", changelogs=True)
    assert not list(ks.testing.verify_state(query).rows)
    for store in STORES:
        assert sorted(map(repr, driver.store(store).all())) == sorted(map(repr, query.store(store).all())), store
    for output in OUTPUTS:
        written = driver.create_output_topic(f"{left.name}-{output}", BYTES, BYTES).read_records()
        expected = sorted((each.partition, each.key, each.value, each.timestamp) for each in written)
        options = {"key_serde": BYTES, "value_serde": BYTES, "records": None, "seconds": PATIENCE_S}
        found = ks.Sample.capture(left.servers, f"{left.name}-{output}", **options)
        assert expected == sorted((each.partition, each.key, each.value, each.timestamp) for each in found), output
