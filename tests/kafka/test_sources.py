"""The input of a deployment: where it begins, batch sizes, what is committed, lost records, new topics."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer, TopicPartition

import kstreamnb as ks
from tests.kafka.apps import PATIENCE_S, START_MS, Bench, counting, counts, final, settle

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def copying(name: str, topic: object = None) -> ks.Topology:
    """Every record of the input to ``name-out``."""
    builder = ks.StreamsBuilder(name)
    builder.stream(topic or f"{name}-in", value_serde="long").to(f"{name}-out", value_serde="long")
    return builder.build()


@pytest.mark.parametrize(
    ("starting", "values"),
    [
        ("earliest", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("latest", []),
        (START_MS + 7, [7, 8, 9]),
        ({"IN": {0: 4, 1: 3}}, [7, 8, 9]),
    ],
    ids=["earliest", "latest", "time", "offsets"],
)
def test_a_new_query_begins_where_it_is_told(bench: Bench, name: str, starting: object, values: list[int]) -> None:
    """Earliest, latest as of `deploy`, a time, or offsets; offsets that are not given are the earliest."""
    bench.fill(f"{name}-in", 10, 2)
    if isinstance(starting, dict):
        starting = {f"{name}-in": starting["IN"]}
    query = bench.deploy(copying(name), starting=starting)
    bench.fill(f"{name}-in", 1, 2, begin=10)
    assert query.await_input(PATIENCE_S)
    found = sorted(value for _, value, _ in bench.read(f"{name}-out"))
    assert [*values, 10] == found


def test_uncommitted_and_aborted_records_are_not_read(bench: Bench) -> None:
    """Only committed records are read; headers and tombstones are unchanged."""
    bench.admin.create_topic("committed-in")
    producer = Producer({"bootstrap.servers": bench.servers, "transactional.id": "committed-test"})
    producer.init_transactions(30)
    for value, commit in ((1, True), (2, False), (3, True)):
        producer.begin_transaction()
        producer.produce("committed-in", value.to_bytes(8, "big"), b"k", headers=[("h", b"%d" % value)])
        producer.produce("committed-in", None, b"gone")
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    settle(bench.admin, "committed-in")
    bench.run(copying("committed"))
    settle(bench.admin, "committed-out")
    sample = ks.Sample.capture(bench.servers, "committed-out", value_serde=ks.Serdes.long(), seconds=PATIENCE_S)
    assert [("k", 1), ("gone", None), ("k", 3), ("gone", None)] == [(r.key, r.value) for r in sample]
    assert [(("h", b"1"),), (), (("h", b"3"),), ()] == [tuple(r.headers) for r in sample]


def test_batches_keep_to_their_limit(bench: Bench) -> None:
    """No batch exceeds the limit, and all records are processed."""
    bench.fill("limited-in", 100, 4)
    query = bench.run(copying("limited"), max_records=15)
    sizes = [figures.consumed for figures in query.recent()]
    assert 100 == sum(sizes)
    assert max(sizes) <= 15


def test_a_new_query_begins_at_given_offsets(bench: Bench) -> None:
    """S2-25: offset 3 in one partition; the other partition is read from its start."""
    bench.fill("placed-in", 10, 2)
    bench.run(copying("placed"), starting={"placed-in": {0: 3}})
    assert sorted([*range(1, 10, 2), 6, 8]) == sorted(value for _, value, _ in bench.read("placed-out"))


def test_lost_records_end_a_query_unless_that_is_allowed(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Records that were removed before they were read are reported; with fail_on_loss=False the rest is read, and the
    gap is logged and counted.
    """
    bench.fill("lost-in", 10)
    bench.run(copying("lost"), max_records=3)
    bench.fill("lost-in", 10, begin=10)
    place = TopicPartition("lost-in", 0, 15)
    bench.admin.client.delete_records([place])[place].result(10)
    with pytest.raises(
        ks.errors.EngineError, match=r'topic "lost-in" begins at offset 15 in partition 0, after offset 10'
    ):
        bench.run(copying("lost"))
    query = bench.run(copying("lost"), fail_on_loss=False)
    assert "lost: offsets skipped (topic lost-in, partition 0, first 10, after 15)" in caplog.messages
    assert [5] == [each.value for each in query.metrics() if each.name == "offsets-skipped-total"]
    assert [*range(10), *range(15, 20)] == [value for _, value, _ in bench.read("lost-out")]


def test_records_that_are_removed_between_plan_and_read_are_reported(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The batch that runs again has the offsets of its plan, which knows of no gap."""

    def mapped(mapper: Callable[[int], int]) -> ks.Topology:
        builder = ks.StreamsBuilder("removed")
        builder.stream("removed-in", value_serde="long").map_values(mapper).to("removed-out", value_serde="long")
        return builder.build()

    def fail(value: int) -> int:
        raise ZeroDivisionError

    def same(value: int) -> int:
        return value

    bench.fill("removed-in", 10)
    bench.run(mapped(same))
    bench.fill("removed-in", 10, begin=10)
    with pytest.raises(ks.errors.ProcessingError):
        bench.run(mapped(fail))
    place = TopicPartition("removed-in", 0, 14)
    bench.admin.client.delete_records([place])[place].result(10)
    with pytest.raises(ks.errors.EngineError, match="begins at offset 14 in partition 0, after offset 10"):
        bench.run(mapped(same))
    query = bench.run(mapped(same), fail_on_loss=False)
    assert "removed: offsets skipped (topic removed-in, partition 0, first 10, after 14)" in caplog.messages
    assert [4] == [each.value for each in query.metrics() if each.name == "offsets-skipped-total"]
    assert [*range(10), *range(14, 20)] == [value for _, value, _ in bench.read("removed-out")]


def test_new_topics_that_match_a_pattern_are_read(bench: Bench) -> None:
    """A topic that appears while the query runs is read from its first record, and state is kept."""
    records = bench.fill("regional-north", 5)
    builder = ks.StreamsBuilder("patterns")
    grouped = builder.stream(re.compile("regional-.*"), value_serde="long").group_by_key()
    grouped.count(store="counts").to_stream().to("patterns-out", value_serde="long")
    query = bench.deploy(builder.build(), discover="500ms")
    assert query.await_input(PATIENCE_S)
    records += bench.fill("regional-south", 5)
    end = time.monotonic() + PATIENCE_S
    while len(bench.read("patterns-out")) < 10 and time.monotonic() < end:
        time.sleep(0.3)
    assert 10 == len(bench.read("patterns-out"))
    assert counts(records) == final(bench.read("patterns-out"))
    assert {"regional-north": {0: 5}, "regional-south": {0: 5}} == bench.group("patterns")
    assert query.await_input(PATIENCE_S)  # readers of Kafka see a batch before the query has noted it
    assert "running" == query.status().state


def test_a_pattern_is_read_if_no_topic_is_named(bench: Bench) -> None:
    """A function chooses the output, so there is no name to ask the cluster for."""
    bench.fill("chosen-in", 5)
    bench.admin.create_topic("chosen-out")
    builder = ks.StreamsBuilder("chosen")
    rows = builder.stream(re.compile("chosen-i.*"), value_serde="long")
    rows.to(lambda key, value, context: "chosen-out", value_serde="long")
    bench.run(builder.build())
    assert [*range(5)] == [value for _, value, _ in bench.read("chosen-out")]


def test_secrets_are_shown_nowhere(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """SASL and SSL settings appear in no repr, display, log or error, nor in Spark's plan or the checkpoint."""
    bench.fill("secret-in", 5)
    word = "hunter2-do-not-show"
    servers = {"bootstrap.servers": bench.servers, "sasl.password": word, "ssl.key.password": word}
    caplog.set_level("DEBUG", "kstreamnb")
    query = bench.run(counting("secret"), bootstrap_servers=servers)
    with pytest.raises(ks.errors.EngineError) as caught:
        bench.run(counting("secret", "not-there"), "other", bootstrap_servers=servers, application_id="secret-2")
    config = ks.Config.of({"sasl.password": word, "producer.ssl.key.pem": word, "application.id": "x"})
    shown = [repr(query), repr(query.control.source), repr(query.status()), repr(config), str(config), caplog.text]
    shown += [repr(query.deployment), repr(query.control.action.sink), str(caught.value), *caught.value.__notes__]
    planned = ks.plan(counting("secret"), config={"sasl.password": word, "application.id": "secret"})
    shown += [
        str(thing._repr_mimebundle_()) for thing in (query, planned, config) if hasattr(thing, "_repr_mimebundle_")
    ]
    shown += [repr(planned), str(query), query.control.handle.streaming._jsq.explainInternal(True)]
    shown += [path.read_text(errors="replace") for path in bench.folder.rglob("*") if path.is_file()]
    assert [] == [text for text in shown if word in text]
    assert len(shown) > 20


def test_windows_follow_the_time_that_the_topic_gives_its_records(bench: Bench) -> None:
    """S2-52: with CreateTime that of the producer, an hour after the epoch; with LogAppendTime that of the broker."""
    builder = ks.StreamsBuilder("stamped")
    for kind in ("CreateTime", "LogAppendTime"):
        bench.admin.create_topic(f"stamped-{kind}", config={"message.timestamp.type": kind})
        windows = builder.stream(f"stamped-{kind}").group_by_key().windowed_by(ks.TimeWindows.of(size="1m"))
        windows.count(store=kind)
    before_ms = time.time_ns() // 1_000_000
    for kind in ("CreateTime", "LogAppendTime"):
        ks.kafka.produce(bench.servers, [ks.TopicRecord(f"stamped-{kind}", 0, 0, 3_600_000, "k", n) for n in range(3)])
    query = bench.run(builder.build())
    (created,), appended = (list(query.store(kind).all()) for kind in ("CreateTime", "LogAppendTime"))
    assert (3_600_000, 3) == (created[0].start, created[1])
    assert 3 == sum(count for _, count in appended)  # of two windows if a minute ended meanwhile
    assert all(before_ms - 60_000 < window.start <= time.time_ns() // 1_000_000 for window, _ in appended)
