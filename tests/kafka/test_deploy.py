"""Deployments from Kafka to Kafka: start, stop, continue; refusals before any change; two at once."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from threading import Event
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.background import background
from kstreamnb.errors import BrokerError, CheckpointError, FencedError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.producer import produce
from kstreamnb.kafka.storage.checkpoint_lock import in_use
from kstreamnb.kafka.storage.claims import TopicClaim
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from kstreamnb.spark.jvm.versions import MOVES_STATE
from kstreamnb.spark.operations import rescale as rescaling
from kstreamnb.spark.operations import topic_discovery
from kstreamnb.spark.query.control import QueryControl
from kstreamnb.spark.query.lifecycle import Actor
from kstreamnb.spark.state.checkpoint_manifest import read_manifest
from tests.kafka.apps import PATIENCE_S, Bench, counting, counts, final

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
MOVES = pytest.mark.skipif(not MOVES_STATE, reason="this version of Spark cannot move state")


@pytest.mark.parametrize("kind", ["commits", "out", "changelog"])
def test_every_topic_is_created_with_the_replication_factor(bench: Bench, kind: str) -> None:
    """A lone broker refuses two replicas, whatever the topic is for."""
    name = f"copies-{kind}"
    bench.fill(f"{name}-in", 1)
    topics = {"commits": f"{name}-commits", "out": f"{name}-out"}
    topic = topics.get(kind, f"{name}-counts-changelog")
    for other in {*topics.values(), f"{name}-counts-changelog"} - {topic}:
        bench.admin.create_topic(other, partitions=2 if other.endswith("-commits") else 1)
    with pytest.raises(BrokerError, match=f'creating topic "{topic}"'):
        bench.deploy(counting(name), config={"replication.factor": 2}, changelogs=True)


def test_a_query_goes_on_without_end_and_after_a_stop(bench: Bench) -> None:
    """S0-01, S0-37, S2-47, S3-11: output grows with the input; a stopped query continues from its position, with its
    state.

    S0-09: the workers' memory is compared with the committed state before each batch.
    """
    records = bench.fill("goes-on-in", 40, 2)
    query = bench.deploy(counting("goes-on"), verify=True)
    assert query.await_input(PATIENCE_S)
    assert 40 == len(bench.read("goes-on-out"))
    records += bench.fill("goes-on-in", 10, 2, begin=40)
    assert query.await_input(PATIENCE_S)
    assert 50 == len(bench.read("goes-on-out"))
    assert in_use(query.checkpoint)
    query.stop()
    assert ("stopped", None) == (query.status().state, query.exception())
    assert not in_use(query.checkpoint)
    records += bench.fill("goes-on-in", 20, 2, begin=50)
    query.restart()
    assert query.await_input(PATIENCE_S)
    query.stop()
    assert counts(records) == final(bench.read("goes-on-out"))
    assert 70 == len(bench.read("goes-on-out"))
    assert 70 == sum(bench.group("goes-on")["goes-on-in"].values())


def test_a_stop_takes_less_than_five_seconds(bench: Bench) -> None:
    """S2-23: a busy query stops in time, and nothing is lost."""
    bench.fill("stops-in", 2000, 2)
    query = bench.deploy(counting("stops"), max_records=100)
    while query.status(lag=False).batch < 1:
        assert query.is_active(), query.exception()
        time.sleep(0.01)
    began = time.monotonic()
    query.stop()
    assert time.monotonic() - began <= 5
    query = bench.run(counting("stops"))
    assert 2000 == len(bench.read("stops-out"))


def test_another_topology_is_refused_before_anything_is_touched(bench: Bench) -> None:
    """S4-56: the error says what differs; topics and checkpoint are unchanged."""
    bench.fill("refused-in", 10)
    bench.run(counting("refused"))
    page = (bench.folder / "checkpoint" / "kstreamnb.json").read_text()
    builder = ks.StreamsBuilder("refused")
    windows = ks.TimeWindows.of_size_with_no_grace("1h")
    grouped = builder.stream("refused-in", value_serde="long").group_by_key().windowed_by(windows)
    grouped.count(store="counts").to_stream(lambda key, count: key.key).to("refused-new", value_serde="long")
    with pytest.raises(ks.errors.CheckpointError, match="does not fit this topology") as caught:
        bench.run(builder.build())
    assert 'store "counts"' in (caught.value.detail or "")
    assert "refused-new" not in bench.admin.topics()
    assert page == (bench.folder / "checkpoint" / "kstreamnb.json").read_text()


def test_compatible_changes_go_on_with_the_state(bench: Bench) -> None:
    """S1-06: a new function or output keeps the same state; the new code runs, in the same session, too."""
    records = bench.fill("evolves-in", 20)
    bench.run(counting("evolves"))
    records += bench.fill("evolves-in", 20, begin=20)
    builder = ks.StreamsBuilder("evolves")
    table = builder.stream("evolves-in", value_serde="long").group_by_key().count(store="counts")
    table.to_stream().map_values(lambda count: -count).to("evolves-out", value_serde="long")
    bench.run(builder.build())
    values = [value for _, value, _ in bench.read("evolves-out")]
    assert all(value > 0 for value in values[:20])
    assert all(value < 0 for value in values[20:])
    assert {key: -count for key, count in counts(records).items()} == {
        key: value for key, value in final(bench.read("evolves-out")).items() if value < 0
    } | {key: -count for key, count in counts(records).items() if key not in counts(records[20:])}


def test_a_new_store_starts_empty_and_the_others_keep_their_rows(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """S1-06: in a sub-topology that had another store, and in one that reads another topic; the log names both."""
    caplog.set_level(logging.INFO, logger="kstreamnb.query")
    records = bench.fill("gains-in", 20)
    bench.run(counting("gains"))
    builder = ks.StreamsBuilder("gains")
    grouped = builder.stream("gains-in", value_serde="long").group_by_key()
    grouped.count(store="counts").to_stream().to("gains-out", value_serde="long")
    grouped.reduce(lambda one, other: one + other, store="sums")
    builder.stream("gains-more", value_serde="long").group_by_key().count(store="more")
    later = bench.fill("gains-in", 20, begin=20)
    more = bench.fill("gains-more", 10)
    sums: Counter[str] = Counter()
    for each in later:
        sums[each.key] += each.value
    query = bench.run(builder.build())
    for _ in range(2):
        assert counts(records + later) == dict(query.store("counts").all())
        assert dict(sums) == dict(query.store("sums").all())
        assert counts(more) == dict(query.store("more").all())
        query = bench.run(builder.build(), verify=True)  # rebuilt from the log
    assert 'gains: has new state (empty store "sums", store "more")' in [each.getMessage() for each in caplog.records]


def test_a_new_topic_is_read_from_the_first_record_that_it_has(bench: Bench) -> None:
    """Retention has removed those before it: they are not lost records of this query. Before the start its stores are
    empty.
    """
    from confluent_kafka import TopicPartition

    records = bench.fill("trimmed-in", 10)
    bench.run(counting("trimmed"))
    more = bench.fill("trimmed-more", 10)
    place = TopicPartition("trimmed-more", 0, 4)
    bench.admin.client.delete_records([place])[place].result(10)
    builder = ks.StreamsBuilder("trimmed")
    builder.stream("trimmed-in", value_serde="long").group_by_key().count(store="counts").to_stream().to("trimmed-out")
    builder.stream("trimmed-more", value_serde="long").group_by_key().count(store="more")
    folder, read = bench.folder / "checkpoint", ks.spark.read_store
    early = {name: dict(read(builder.build(), name, folder, spark=bench.spark).all()) for name in ("counts", "more")}
    assert {"counts": counts(records), "more": {}} == early
    for _ in range(2):
        query = bench.run(builder.build(), starting="latest")
        assert counts(more[4:]) == dict(query.store("more").all())
        assert counts(records) == dict(query.store("counts").all())


def test_a_start_asks_only_for_its_own_topics(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster may have ten thousand others."""
    asked: list[object] = []
    topics = Admin.topics

    def noted(admin: Admin, names: Iterable[str] | None = None) -> dict[str, int]:
        names = names if names is None else [*names]
        asked.append(names)
        return topics(admin, names)

    records = bench.fill("asks-in", 10)
    bench.admin.create_topic("asks-out")
    monkeypatch.setattr(Admin, "topics", noted)
    for _ in range(2):
        bench.run(counting("asks"), changelogs=True)
    assert None not in asked
    assert counts(records) == final(bench.read("asks-out"))


def test_a_second_deployment_takes_over_and_the_first_is_fenced(bench: Bench) -> None:
    """S0-50: the older one stops at its next transaction and names its successor; it writes nothing more."""
    bench.fill("twice-in", 10)
    first = bench.deploy(counting("twice"))
    assert first.await_input(PATIENCE_S)
    builder = counting("twice")
    writer = type(first.control.action.sink.writer)(bench.servers, "twice", first.control.action.sink.writer.query)
    writer.open()
    bench.fill("twice-in", 10, begin=10)
    with pytest.raises(FencedError, match=r'a newer deployment of "twice" has taken over'):
        first.await_termination(PATIENCE_S)
    assert "failed" == first.status().state
    assert 10 == len(bench.read("twice-out"))
    writer.close()
    first.stop()
    bench.run(builder)
    assert 20 == len(bench.read("twice-out"))


def test_a_refused_deployment_leaves_its_folder_to_others(bench: Bench) -> None:
    """The application belongs to another checkpoint: the new folder is nobody's, and serves another application."""
    for name in ("elsewhere", "other"):
        bench.fill(f"{name}-in", 5)
    bench.run(counting("elsewhere"))
    with pytest.raises(CheckpointError, match="belongs to another checkpoint"):
        bench.deploy(counting("elsewhere"), checkpoint="second")
    assert [] == [path.name for path in (bench.folder / "second").iterdir() if path.is_file()]
    bench.run(counting("other"), checkpoint="second")
    assert 5 == len(bench.read("other-out"))


def test_what_restarts_by_itself_leaves_a_newer_deployment_alone(bench: Bench) -> None:
    """S0-50: an overtaken query that ended on a busy machine or a lost broker fences nobody; a restart by its user
    does.
    """
    bench.fill("older-in", 10)
    older = bench.deploy(counting("older"))
    assert older.await_input(PATIENCE_S)
    sink, owner = older.control.action.sink, TopicClaim(bench.servers, "older")
    newer = TransactionalWriter(bench.servers, "older", sink.writer.query)
    newer.open()
    taken_over = r'a newer deployment of "older" has taken over'
    with pytest.raises(FencedError, match=taken_over):
        sink.open_again(time.monotonic() + PATIENCE_S)
    with pytest.raises(FencedError, match=taken_over):
        older.control.start(Actor.QUERY)
    assert owner.holds()
    newer._producer.begin_transaction()
    newer._producer.produce("older-out", b"aborted", b"k")
    newer._producer.abort_transaction()

    older.restart()
    assert not owner.holds()
    with pytest.raises(FencedError, match=taken_over):
        newer.publish(1, "later", [])
    bench.fill("older-in", 10, begin=10)
    assert older.await_input(PATIENCE_S)
    assert 20 == len(bench.read("older-out"))


def test_a_start_that_fails_leaves_the_older_deployment_its_claim(bench: Bench) -> None:
    """S0-50: a deployment that failed to start has not taken over."""
    bench.fill("claimed-in", 10)
    older = bench.deploy(counting("claimed"))
    assert older.await_input(PATIENCE_S)
    sink = older.control.action.sink
    owner, writer = sink.owner, sink.writer
    sink.writer = TransactionalWriter({"bootstrap.servers": bench.servers, "acks": "seven"}, "claimed", writer.query)
    with pytest.raises(ks.errors.ConfigError):
        older.restart()
    assert sink.owner is owner
    assert owner.holds()
    sink.writer = writer
    older.control.start(Actor.COMPANION)
    bench.fill("claimed-in", 10, begin=10)
    assert older.await_input(PATIENCE_S)
    assert 20 == len(bench.read("claimed-out"))


def test_at_least_once_is_the_same_topology_without_transactions(bench: Bench) -> None:
    """S1-44, S4-16: only the setting differs; positions are committed, and there is no marker."""
    bench.fill("plain-in", 30)
    query = bench.run(counting("plain"), config={"processing.guarantee": "at_least_once"})
    assert "AtLeastOnceWriter" in repr(query.control.action.sink)
    assert 30 == len(bench.read("plain-out"))
    assert "plain-commits" not in bench.admin.topics()
    assert {"plain-in": {0: 30}} == bench.group("plain")


def test_the_commit_interval_is_the_time_between_batches(bench: Bench) -> None:
    """S0-33: if the config sets an interval, no two batches begin within it, however many records arrive."""
    bench.fill("paced-in", 5)
    query = bench.deploy(counting("paced"), config={"commit.interval.ms": 500}, max_records=5)
    assert query.await_input(PATIENCE_S)
    assert 500 == query.control.settings.trigger_ms
    before, began = len(query.recent()), time.monotonic()
    bench.fill("paced-in", 50, begin=5)
    assert query.await_input(PATIENCE_S)
    assert 10 <= len(query.recent()) - before <= 2 + (time.monotonic() - began) / 0.5


def test_input_that_leads_to_no_output_is_committed(bench: Bench) -> None:
    """S0-36: a filter that drops every record advances the position; a restart processes nothing again."""
    bench.fill("nothing-in", 100)
    builder = ks.StreamsBuilder("nothing")
    builder.stream("nothing-in", value_serde="long").filter(lambda key, value: False).to("nothing-out")
    query = bench.run(builder.build())
    assert {"nothing-in": {0: 100}} == bench.group("nothing")
    assert 100 == sum(figures.consumed for figures in query.recent())
    assert 0 == sum(figures.consumed for figures in bench.run(builder.build()).recent())


def test_more_partitions_are_refused_with_the_way_out(bench: Bench) -> None:
    """S4-45: added partitions would separate keys from their state; a running query ends, a new one is refused.

    The remedy that the error names works: counts over the copy are correct.
    """
    from confluent_kafka.admin import NewPartitions

    records = bench.fill("grown-in", 10, 1)
    query = bench.deploy(counting("grown"))
    assert query.await_input(PATIENCE_S)
    bench.admin.client.create_partitions([NewPartitions("grown-in", 2)])["grown-in"].result(10)
    with pytest.raises(ks.errors.PartitionError, match=r'topic "grown-in" has grown from 1 to 2 partitions'):
        query.await_termination(PATIENCE_S)
    query.stop()
    with pytest.raises(ks.errors.CheckpointError, match="does not fit this topology") as caught:
        bench.run(counting("grown"))
    assert 'topic "grown-in" had 1 partition and has 2 now' in (caught.value.detail or "")
    assert "copy it into a new topic, with a new checkpoint" in (caught.value.detail or "")
    records += bench.fill("grown-in", 10, 2, begin=10)
    bench.admin.create_topic("copied", partitions=2)
    builder = ks.StreamsBuilder("copying")
    builder.stream("grown-in", value_serde="long").to("copied", value_serde="long")
    bench.run(builder.build(), "copying")
    moved = bench.run(counting("grown-2", "copied"), "moved")
    assert counts(records) == final(bench.read("grown-2-out")) == dict(moved.store("counts").all())


def test_more_partitions_are_read_if_no_task_has_state(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """By a query that runs, soon after it looks for them, and by its next start; the log says why it starts again."""
    from confluent_kafka.admin import NewPartitions

    bench.fill("wider-in", 10, 1)
    builder = ks.StreamsBuilder("wider")
    builder.stream("wider-in", value_serde="long").map_values(lambda value: -value).to("wider-out", value_serde="long")
    caplog.set_level(logging.INFO, logger="kstreamnb.query")
    query = bench.deploy(builder.build(), discover="1s")
    for partitions in (2, 3):
        assert query.await_input(PATIENCE_S)
        bench.admin.client.create_partitions([NewPartitions("wider-in", partitions)])["wider-in"].result(10)
        bench.fill("wider-in", 10 * partitions, partitions, begin=10 * partitions)
        if partitions == 3:
            query.stop()
            query = bench.deploy(builder.build())
    assert query.await_input(PATIENCE_S)
    query.stop()
    assert query.exception() is None
    assert "wider: starts again (reason wider-in has 2 partitions)" in caplog.messages
    assert 60 == len(bench.read("wider-out"))
    assert {"wider-in": 3} == read_manifest(query.control.files).inputs  # type: ignore[union-attr]


def test_partitions_that_are_found_after_a_stop_change_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A slow broker answers late: by then the checkpoint may belong to another deployment."""
    from confluent_kafka.admin import NewPartitions

    asked, stopped, looked = Event(), Event(), Event()
    topics_for, look = topic_discovery.topics_for, topic_discovery.TopicDiscovery.look

    def slowly(*arguments: Any) -> dict[str, int]:
        topics = topics_for(*arguments)
        if topics["late-in"] == 2:
            asked.set()
            assert stopped.wait(PATIENCE_S)
        return topics

    def noted(discovery: topic_discovery.TopicDiscovery, topics: Mapping[str, int]) -> bool:
        try:
            return look(discovery, topics)
        finally:
            if asked.is_set():
                looked.set()

    caplog.set_level(logging.INFO, logger="kstreamnb.query")
    bench.fill("late-in", 10)
    builder = ks.StreamsBuilder("late")
    builder.stream("late-in", value_serde="long").to("late-out", value_serde="long")
    query = bench.deploy(builder.build(), discover="200ms")
    assert query.await_input(PATIENCE_S)
    before = read_manifest(query.control.files)
    with monkeypatch.context() as patch:
        patch.setattr(topic_discovery, "topics_for", slowly)
        patch.setattr(topic_discovery.TopicDiscovery, "look", noted)
        bench.admin.client.create_partitions([NewPartitions("late-in", 2)])["late-in"].result(PATIENCE_S)
        assert asked.wait(PATIENCE_S)
        query.stop()
        stopped.set()
        assert looked.wait(PATIENCE_S)
    assert before == read_manifest(query.control.files)
    assert not any("starts again" in each for each in caplog.messages)
    bench.run(builder.build())
    assert 10 == len(bench.read("late-out"))


def test_a_stop_during_a_restart_leaves_the_checkpoint_to_the_next_deployment(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A companion has just begun to start the query: Spark would end the next deployment's stream for its own."""
    prepare, begun, done = QueryControl._prepare, Event(), Event()

    def slowly(control: QueryControl, *, takes_over: bool) -> None:
        prepare(control, takes_over=takes_over)
        begun.set()
        time.sleep(1)

    def start() -> None:
        query.control.start(Actor.COMPANION)
        done.set()

    records = bench.fill("restarting-in", 10)
    query = bench.deploy(counting("restarting"))
    assert query.await_input(PATIENCE_S)
    with monkeypatch.context() as patch:
        patch.setattr(QueryControl, "_prepare", slowly)
        background(start, "start")
        assert begun.wait(PATIENCE_S)
        query.stop()
        assert ("stopped", True) == (query.status(lag=False).state, done.wait(PATIENCE_S))
    newer = bench.deploy(counting("restarting"))
    records += bench.fill("restarting-in", 10, begin=10)
    assert newer.await_input(PATIENCE_S)
    assert "running" == newer.status().state
    assert counts(records) == final(bench.read("restarting-out"))


def named(name: str) -> ks.Topology:
    """A count by key, multiplied by the key's row of a global table."""
    builder = ks.StreamsBuilder(name)
    names = builder.global_table(f"{name}-names", value_serde="long", store="names")
    counted = builder.stream(f"{name}-in", value_serde="long").group_by_key().count(store="counts")
    joined = counted.to_stream().join(names, lambda key, count: key, lambda count, number: 1000 * count + number)
    joined.to(f"{name}-out", value_serde="long")
    return builder.build()


@MOVES
def test_a_stopped_query_is_rescaled(bench: Bench) -> None:
    """S0-08: state moves to more Spark partitions; the query continues and counts correctly."""
    records = bench.fill("rescaled-in", 40, 4)
    query = bench.deploy(counting("rescaled"))
    assert query.await_input(PATIENCE_S)
    with pytest.raises(ks.errors.ApplicationStateError, match='application "rescaled" is running'):
        ks.spark.rescale(query.checkpoint, 4, spark=bench.spark)
    query.stop()
    bench.run(counting("rescaled"))  # so that the last batch is committed
    ks.spark.rescale(query.checkpoint, 4, spark=bench.spark)
    records += bench.fill("rescaled-in", 40, 4, begin=40)
    again = bench.run(counting("rescaled"))
    assert counts(records) == final(bench.read("rescaled-out"))
    assert counts(records) == dict(again.store("counts").all())


@pytest.mark.parametrize("committed", [True, False])
@MOVES
def test_an_interrupted_rescaling_is_finished_by_another_call(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, committed: bool
) -> None:
    """S0-08: killed before the manifest, or before Spark's commit: the query does not start with half of its state."""

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    name = f"halfway-{committed}"
    records = bench.fill(f"{name}-in", 40, 4)
    query = bench.run(counting(name), spark_partitions=2)
    with monkeypatch.context() as patch:
        patch.setattr(rescaling, "write_manifest", killed)
        with pytest.raises(KeyboardInterrupt):
            ks.spark.rescale(query.checkpoint, 4, spark=bench.spark)
    if not committed:
        newest = max((query.checkpoint / "commits").iterdir(), key=lambda path: path.name)
        newest.unlink()
    for call in (query.restart, lambda: bench.run(counting(name)), lambda: ks.spark.rescale(query.checkpoint, 3)):
        with pytest.raises(ks.errors.CheckpointError, match="has state for 4 Spark partitions, not 2"):
            call()
    ks.spark.rescale(query.checkpoint, 4, spark=bench.spark)
    records += bench.fill(f"{name}-in", 40, 4, begin=40)
    assert counts(records) == dict(bench.run(counting(name)).store("counts").all())
    assert counts(records) == final(bench.read(f"{name}-out"))


def test_a_stopped_query_without_state_is_rescaled(bench: Bench) -> None:
    """S0-08: there is nothing to move, and the next start uses the new number."""
    builder = ks.StreamsBuilder("stateless-scale")
    builder.stream("stateless-scale-in", value_serde="long").to("stateless-scale-out", value_serde="long")
    records = bench.fill("stateless-scale-in", 10, 2)
    query = bench.run(topology := builder.build(), spark_partitions=2)
    ks.spark.rescale(query.checkpoint, 4, spark=bench.spark)
    records += bench.fill("stateless-scale-in", 10, 2, begin=10)
    assert 4 == bench.run(topology).deployment.spark_partitions
    assert len(records) == len(bench.read("stateless-scale-out"))


@MOVES
def test_a_stopped_query_with_a_global_table_is_rescaled(bench: Bench) -> None:
    """S0-08: every new partition reads the table again before its first record; counts and joins remain correct.

    Spark's readers of state look for another folder if the path has a blank.
    """
    bench.admin.create_topic("named-names")
    keys = [f"{letter}{number}" for number in range(8) for letter in "abc"]
    names = [ks.TopicRecord("named-names", 0, at, at, key, at) for at, key in enumerate(keys)]
    produce(bench.servers, names, value_serde=ks.Serdes.long())
    records = bench.fill("named-in", 40, 4)
    query = bench.run(named("named"), "Läden 100%")
    old = read_manifest(query.control.files)
    for partitions in (5, 3):
        ks.spark.rescale(query.checkpoint, partitions, spark=bench.spark)
        records += bench.fill("named-in", 40, 4, begin=len(records))
        query = bench.run(named("named"), "Läden 100%")
    new = read_manifest(query.control.files)
    assert (2, 3) == (old and old.spark_partitions, new and new.spark_partitions)
    driver = ks.TopologyTestDriver(named("named"), partitions={"named-in": 4, "named-out": 4})
    driver.pipe([*names, *records])
    wanted = [(each.key, each.value, each.timestamp) for each in driver.create_output_topic("named-out").read_records()]
    assert sorted(wanted) == sorted(bench.read("named-out"))
    assert 60 < len(wanted) < 120
    assert counts(records) == dict(query.store("counts").all())
    table = ks.spark.read_store(named("named"), "names", query.checkpoint, spark=bench.spark)
    assert {record.key: record.value for record in names} == dict(table.all()) == dict(query.store("names").all())


def test_nonsense_is_refused_before_anything_starts(bench: Bench) -> None:
    """Each error names the invalid value, and nothing is left behind: no topic, no folder, no query."""
    bench.fill("nonsense-in", 1)
    for options, words in (
        ({"max_records": -5}, "max_records must be at least 0, got -5"),
        ({"starting": {"nonsence-in": {0: 0}}}, 'offsets are given for topic "nonsence-in", which is not read'),
        ({"trigger": "soon"}, "soon"),
        ({"discover": "often"}, "often"),
        ({"slow_batch": "soon"}, "soon"),
        ({"slow_batch": "0s"}, "slow_batch must be longer than 0 ms, got '0s'"),
        ({"guarantee": "twice"}, 'guarantee must be "exactly_once" or "at_least_once" or None, got "twice"'),
        ({"max_records": "5"}, "max_records must be int, got '5'"),
        ({"memory_limit": 0.5}, "memory_limit must be int, got 0.5"),
        ({"starting": {"nonsense-in": {7: 0}}}, 'an offset is given for partition 7 of topic "nonsense-in"'),
        ({"starting": {"nonsense-in": {0: -5}}}, 'partition 0 of topic "nonsense-in" cannot begin at offset -5'),
        ({"sink": print}, 'sink must be QuerySink or None, got type "builtin_function_or_method"'),
        ({"spark": "local"}, "spark must be SparkSession or None, got 'local'"),
        ({"config": {"producer.compression.type": "paper"}}, 'Invalid value .* "compression.codec"'),
        ({"config": {"consumer.fetch.min.bytes": "many"}}, 'Invalid value .* "fetch.min.bytes"'),
        ({"config": {"security.protocol": "SHOUTING"}}, 'Invalid value .* "security.protocol"'),
        ({"bootstrap_servers": 9092}, "address of a broker must be str or Mapping, got 9092"),
    ):
        with pytest.raises(ks.KStreamError, match=words):
            bench.deploy(counting("nonsense"), **options)
    with pytest.raises(ks.errors.ConfigError, match='topology must be Topology, got type "StreamsBuilder"'):
        bench.deploy(ks.StreamsBuilder("nonsense"))  # type: ignore[arg-type]
    for checkpoint, words in (
        ("s3://bucket/shop", "cannot be reached"),
        (None, "checkpoint must be str or Path or CheckpointFiles, got None"),
        ("", "cannot be ''"),
    ):
        with pytest.raises(ks.KStreamError, match=words):
            ks.deploy(counting("nonsense"), spark=bench.spark, bootstrap_servers=bench.servers, checkpoint=checkpoint)
    assert not {"nonsense-out", "nonsense-commits"} & bench.admin.topics().keys()
    assert not (bench.folder / "checkpoint").exists()


def test_a_checkpoint_that_spark_cannot_read_is_said_in_few_lines(bench: Bench) -> None:
    """The error does not contain Java's stack trace of a hundred lines; the folder is free again afterwards."""
    bench.fill("unread-in", 1)
    query = bench.run(counting("unread"))
    for path in (query.checkpoint / ".metadata.crc", query.checkpoint / "metadata"):
        path.unlink(missing_ok=True)
    (query.checkpoint / "metadata").write_text("no page of Spark's")
    with pytest.raises(ks.errors.EngineError, match='starting "unread" failed: ') as caught:
        bench.deploy(counting("unread"))
    *notes, link = caught.value.__notes__
    assert link.startswith("More: ")
    assert 5 > len("\n".join([str(caught.value), *notes]).splitlines())
    assert not in_use(query.checkpoint)
    assert "unread" not in {each.application for each in ks.spark.active()}
