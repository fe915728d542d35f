"""The simulated log (worked example E10): appending, partitions and partitioners, producers, failing brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.errors import BufferExhaustedError, ConfigError, EngineError, KStreamError, SerdeError


def log_with(topic: str, partitions: int = 1, *, replicas: int = 1, **options: Any) -> ks.simulation.Log:
    """A log with one topic."""
    log = ks.simulation.Log(**options)
    log.create_topic(topic, partitions=partitions, replicas=replicas)
    return log


# --- the log ------------------------------------------------------------------------------------------------------
def test_records_are_appended_and_each_reader_has_its_own_position() -> None:
    """S2-01, E10: five records; A has read two, B all; neither moves the other, and both can go back."""
    log = log_with("logs")
    assert [0, 1, 2, 3, 4] == [log.append("logs", None, line).offset for line in "abcde"]
    one, other = log.reader("logs"), log.reader("logs")
    assert ["a", "b"] == [record.value for record in one.read(2)]
    assert list("abcde") == [record.value for record in other.read()]
    assert ({"logs-0": 2}, {"logs-0": 5}) == (one.positions, other.positions)
    assert [] == other.read()
    other.seek("logs-0", 4)
    assert (["e"], {"logs-0": 2}) == ([record.value for record in other.read()], one.positions)


def test_a_record_that_was_appended_cannot_be_changed() -> None:
    """S2-01: nothing updates or deletes; a reader gets its own copy, whatever the writer does to the value."""
    words = {
        name
        for kind in (ks.simulation.Log, type(ks.simulation.Log().reader()))
        for name in dir(kind)
        if not name.startswith("_")
    }
    assert {word for word in words if word.startswith(("update", "delete", "remove", "insert", "set", "put"))} == set()
    log, value = log_with("logs"), {"pieces": 1}
    log.append("logs", "k", value)
    value["pieces"] = 2
    log.records("logs-0")[0].value["pieces"] = 3
    assert [{"pieces": 1}] == [record.value for record in log.records("logs-0")]


def test_order_holds_within_a_partition_only() -> None:
    """S2-02, E10: offsets are dense and in order of production in each of three partitions, which differ in length."""
    log, random = log_with("logs", 3), Random(11)
    for number in range(40):
        log.append("logs", f"user-{random.randrange(9)}", number)
    found = [log.records(f"logs-{partition}") for partition in range(3)]
    for records in found:
        assert list(range(len(records))) == [record.offset for record in records]
        assert sorted(record.value for record in records) == [record.value for record in records]
    assert 40 == sum(map(len, found))
    assert len({len(records) for records in found}) > 1
    read = [record.value for record in log.reader("logs").read()]
    assert read != list(range(40)), "a reader of several partitions meets another order than that of production"


def test_the_partitions_of_a_group_are_those_of_the_log() -> None:
    """S2-01: a consumer group reads the same offsets as the log."""
    log = log_with("logs", 2)
    group = ks.simulation.ConsumerGroup("readers", log.offsets, auto_offset_reset="earliest")
    group.join("c1")
    placed = [log.append("logs", None, line) for line in range(3)]
    assert sorted((f"logs-{record.partition}", record.offset) for record in placed) == list(group.poll("c1"))


# --- partitioning -------------------------------------------------------------------------------------------------
def by_user(topic: str, key: Any, value: Any, partitions: int) -> int | None:
    """All events of a user in one partition, whatever the key."""
    return sum(map(ord, value["userId"])) % partitions


def test_all_events_of_a_user_lie_in_one_partition() -> None:
    """S2-03, E10: a partitioner that reads the value decides; each user has one partition, in order."""
    log, random = log_with("userLogins", 4), Random(3)
    events = [{"userId": f"u{random.randrange(8)}", "number": number} for number in range(60)]
    placed = [log.append("userLogins", None, event, partitioner=by_user) for event in events]
    partitions: dict[str, set[int]] = {}
    for record in placed:
        partitions.setdefault(record.value["userId"], set()).add(record.partition)
    assert {1} == {len(found) for found in partitions.values()}
    assert len({number for found in partitions.values() for number in found}) > 1


def test_records_without_a_key_go_round() -> None:
    """S2-03, E10: twelve on four partitions are three each; keys go where Kafka's hash sends them."""
    log = log_with("logs", 4)
    assert {0: 3, 1: 3, 2: 3, 3: 3} == Counter(log.append("logs", None, n).partition for n in range(12))
    assert [0, 2, 1, 3, 0, 0, 1, 1, 1, 1] == [log.append("logs", f"KEY-{n}", n).partition for n in range(10)]


def by_level(topic: str, key: Any, value: Any, partitions: int) -> int | None:
    """Sends errors to the last partition, everything else to the others."""
    if value["level"] == "ERROR":
        return partitions - 1
    return value["line"] % (partitions - 1)


def test_a_strategy_decides_from_the_value_and_the_number_of_partitions() -> None:
    """S2-14, E10: the same function partitions a producer's and a topology's records: the distribution is the same."""
    lines = [{"line": n, "level": "ERROR" if n % 4 == 0 else "INFO"} for n in range(20)]
    log = log_with("logs", 3)
    sent = [log.append("logs", None, line, partitioner=by_level).partition for line in lines]
    assert {2: 5, 0: 5, 1: 10} == Counter(sent)

    builder = ks.StreamsBuilder("logs")
    builder.stream("in").to("logs", partitioner=by_level)
    driver = ks.TopologyTestDriver(builder.build(), partitions={"in": 1, "logs": 3})
    driver.create_input_topic("in").pipe_value_list(lines)
    assert sent == [record.partition for record in driver.create_output_topic("logs").read_records()]


@pytest.mark.parametrize("chosen", [-1, 3, [0, 1]])
def test_a_partition_that_is_not_there_is_an_error(chosen: Any) -> None:
    """S2-14: in the log and in a producer the error names the partition, the topic and the partition count."""
    log = log_with("logs", 3)
    with pytest.raises(EngineError, match='chose partition .* of topic "logs"') as raised:  # noqa: RUF043
        log.append("logs", None, 1, partitioner=lambda *_: chosen)
    assert "it has 3 partitions, from 0 to 2" == raised.value.detail
    with pytest.raises(EngineError, match='chose partition .* of topic "logs"'):  # noqa: RUF043
        log.producer(partitioner=lambda *_: chosen).send("logs", None, 1)


# --- several producers --------------------------------------------------------------------------------------------
def test_producers_interleave_and_each_keeps_its_order() -> None:
    """S2-04, E10: one partition, no lock: order of arrival; the same seed repeats it, another one differs."""
    pairs = {name: [(None, f"{name}{n}") for n in range(20)] for name in ("a", "b")}

    def arrived(seed: int) -> list[Any]:
        log = log_with("logs")
        found = log.interleave("logs", pairs, seed=seed)
        assert [record for _, record in found] == log.records("logs-0")
        assert list(range(40)) == [record.offset for _, record in found]
        return [record.value for _, record in found]

    once = arrived(7)
    for name in pairs:
        assert [value for _, value in pairs[name]] == [value for value in once if value[0] == name]
    assert once == arrived(7)
    assert once != arrived(8)
    assert once != sorted(once), "one did not wait for the other"


# --- creating topics ----------------------------------------------------------------------------------------------
def test_a_topic_is_created_once_and_says_what_it_is() -> None:
    """S2-07, E10: four partitions and two replicas; a second call finds it existing; three brokers cannot hold four."""
    log = ks.simulation.Log(brokers=3)
    made = ks.simulation.create_topic("userLogins", on=log, partitions=4, replication_factor=2)
    assert ("userLogins", 4, 2) == (made.name, made.partitions, made.replicas)
    assert 'topic "userLogins": 4 partitions, 2 replicas' == str(made).splitlines()[0]
    assert made == log.describe("userLogins")
    with pytest.raises(EngineError, match='topic "userLogins" already exists'):
        ks.simulation.create_topic("userLogins", on=log)
    with pytest.raises(EngineError, match='topic "other" cannot have 4 replicas on 3 brokers'):
        ks.simulation.create_topic("other", on=log, replication_factor=4)
    with pytest.raises(EngineError, match='topic "other" does not exist'):
        log.append("other", None, 1)
    for wrong in ({"partitions": 0}, {"config": {"cleanup.policy": "compact"}}):
        with pytest.raises(ConfigError, match='topic "third"'):
            ks.simulation.create_topic("third", on=log, **wrong)


# --- brokers ------------------------------------------------------------------------------------------------------
def test_partitions_are_spread_over_brokers() -> None:
    """S3-01: twelve partitions on three brokers: each leads four, and a record's key chooses its partition."""
    log = log_with("logs", 12, replicas=2, brokers=3)
    layout = log.describe("logs").layout
    assert {1: 4, 2: 4, 3: 4} == Counter(each.leader for each in layout)
    assert all(len(set(each.brokers)) == 2 for each in layout)
    assert log.append("logs", "KEY-1", 1).partition == log.append("logs", "KEY-1", 2).partition


def test_a_replica_in_sync_leads_when_the_leader_fails() -> None:
    """S2-05, S3-07: committed records remain readable, writing continues; clients talk to leaders only."""
    log = log_with("logs", 3, replicas=2, brokers=3)
    reader = log.reader("logs")
    for number in range(9):
        log.append("logs", None, number)
    first = reader.read(4)
    before = {each.partition: each.leader for each in log.describe("logs").layout}
    log.fail(1)
    after = {each.partition: each.leader for each in log.describe("logs").layout}
    assert (1, 2) == (before["logs-0"], after["logs-0"])
    assert {place: leader for place, leader in before.items() if leader != 1} == {
        place: leader for place, leader in after.items() if place != "logs-0"
    }
    assert list(range(9)) == sorted(record.value for record in [*first, *reader.read()]), "the reader goes on"
    assert 3 == log.append("logs", None, 9, partition=0).offset
    log.recover(1)
    assert [(2, (1, 2))] == [(each.leader, each.in_sync) for each in log.describe("logs").layout[:1]]


def test_without_a_replica_in_sync_a_partition_is_offline() -> None:
    """S2-05: both brokers of a partition are down: reading and writing fail with that reason, until the last one is
    back.
    """
    log = log_with("logs", 3, replicas=2, brokers=3)
    log.append("logs", None, "kept", partition=0)
    log.fail(2)
    log.fail(1)
    for attempt in (lambda: log.append("logs", None, "x", partition=0), lambda: log.records("logs-0")):
        with pytest.raises(EngineError, match='partition "logs-0" is offline') as raised:
            attempt()
        assert "brokers 2 and 1 are down" in str(raised.value.detail)
        assert "recover(1)" in str(raised.value.hint)
    assert "none" in str(log.describe("logs"))
    log.append("logs", None, "elsewhere", partition=1)  # broker 3 leads it
    log.recover(2)  # out of sync: it may lack records
    with pytest.raises(EngineError, match="offline"):
        log.records("logs-0")
    log.recover(1)
    assert ["kept"] == [record.value for record in log.records("logs-0")]
    assert "2 brokers down" not in log.title


def test_what_only_the_leader_had_is_lost_with_it() -> None:
    """S3-08, S2-06: acknowledged by the leader alone it was never committed; by all in-sync replicas, it remains."""
    log = log_with("logs", replicas=2, brokers=2)
    log.append("logs", None, "all")
    log.append("logs", None, "leader", acks="leader")
    layout = log.describe("logs").layout[0]
    assert (1, 2) == (layout.high, layout.end)
    assert ["all"] == [record.value for record in log.reader("logs").read()]
    log.fail(1)
    assert ["all"] == [record.value for record in log.records("logs-0")]
    assert 1 == log.append("logs", None, "next").offset, "its offset is given again"
    log.recover(1)
    log.append("logs", None, "late", acks="leader")
    log.replicate()
    log.fail(2)
    assert ["all", "next", "late"] == [record.value for record in log.records("logs-0")]


def test_too_few_replicas_in_sync_refuse_a_write_to_all() -> None:
    """S3-08: if two are required, one is not enough; a write to the leader alone is not checked."""
    log = log_with("logs", replicas=2, brokers=2, min_insync_replicas=2)
    log.fail(2)
    with pytest.raises(EngineError, match='"logs-0" has too few replicas in sync'):
        log.append("logs", None, 1)
    assert 0 == log.append("logs", None, 1, acks="leader").offset


def test_a_topic_with_fewer_replicas_than_required_accepts_what_all_of_them_have() -> None:
    """S3-08: Kafka caps min.insync.replicas at the topic's number of replicas: one copy satisfies two."""
    log = log_with("logs", replicas=1, brokers=2, min_insync_replicas=2)
    assert 0 == log.append("logs", None, 1).offset


def test_waiting_for_all_replicas_takes_a_round_trip_more_than_waiting_for_the_leader() -> None:
    """S3-08: durability costs latency; a topic with one replica has nothing to wait for."""

    def latency_ms(acks: str, replicas: int) -> tuple[int, ...]:
        log = log_with("logs", replicas=replicas, brokers=3, round_trip="2ms")
        producer = log.producer(acks=acks, linger="0ms")
        future = producer.send("logs", None, "line")
        assert not future.done(), "the record is in the log, but its producer does not know yet"
        assert 0 == future.result().offset
        return producer.latencies_ms

    assert ((4,), (2,), (2,)) == (latency_ms("all", 3), latency_ms("leader", 3), latency_ms("all", 1))


def test_a_request_is_in_flight_until_its_answer_arrives() -> None:
    """S3-08: with one request in flight the second record is sent after the first is acknowledged."""
    log = log_with("logs", round_trip="10ms")
    producer = log.producer(linger="0ms", max_in_flight=1)
    futures = [producer.send("logs", None, line) for line in "ab"]
    assert (1, 1) == (producer.requests, log.describe("logs").layout[0].end)
    log.advance_wall_clock_time("10ms")
    assert ([True, False], 2) == ([future.done() for future in futures], producer.requests)
    assert (1, (10, 20)) == (futures[1].result().offset, producer.latencies_ms)
    assert 0 == producer.buffered_bytes


def test_a_topic_with_append_time_gives_its_records_the_time_of_the_broker() -> None:
    """S2-52: the producer's time is kept, or replaced by the broker's clock."""
    log = ks.simulation.Log()
    log.create_topic("events")
    log.create_topic("arrivals", timestamp_type="LogAppendTime")
    log.advance_wall_clock_time("1m")
    for topic in ("events", "arrivals"):
        log.append(topic, "k", 1, at=5_000)
    assert [5_000, 60_000] == [log.records(f"{topic}-0")[0].timestamp for topic in ("events", "arrivals")]
    with pytest.raises(ConfigError, match='"LogAppendTime"'):
        log.create_topic("other", timestamp_type="LogAppendTim")  # type: ignore[arg-type]


# --- producers ----------------------------------------------------------------------------------------------------
def test_a_hundred_records_tell_where_they_lie() -> None:
    """S2-08, S1-36, E10: each future has partition and offset; counts follow Kafka's hash."""
    log = log_with("my-topic", 4)
    producer = log.producer()
    futures = [producer.send("my-topic", f"KEY-{n}", f"VALUE-{n}") for n in range(100)]
    assert not futures[0].done()
    producer.flush()
    placed = [future.result() for future in futures]
    assert {0: 25, 1: 33, 2: 15, 3: 27} == Counter(record.partition for record in placed)
    for partition in range(4):
        mine = [record for record in placed if record.partition == partition]
        assert list(range(len(mine))) == [record.offset for record in mine]
    assert "VALUE-99" == placed[99].value


def test_a_key_that_its_serde_cannot_write_is_refused_at_once() -> None:
    """S2-08, C-05, E10: a long serde for "KEY-0": the error names key, serde and topic at the first send."""
    producer = log_with("my-topic", key_serde=ks.Serdes.long()).producer()
    with pytest.raises(SerdeError) as raised:
        producer.send("my-topic", "KEY-0", "VALUE-0")
    said = 'key of a record for topic "my-topic": serde "long" cannot write a value of type "str"'
    assert said == raised.value.message


def test_a_callback_is_told_once_where_it_lies_or_why_not() -> None:
    """S2-09, E10: either a record or an error, never both; without a leader it is the error, after the timeout."""
    log, told = log_with("logs"), []
    producer = log.producer(delivery_timeout="2s", linger="0ms")
    producer.send("logs", None, "first", delivered=lambda *outcome: told.append(outcome))
    log.fail(1)
    failed = producer.send("logs", None, "second", delivered=lambda *outcome: told.append(outcome))
    log.advance_wall_clock_time("1999ms")
    assert [("first", None)] == [(record.value, error) for record, error in told]
    log.advance_wall_clock_time("1ms")
    (_, error) = told[1]
    assert told[1][0] is None
    assert "was not delivered within 2s" in str(error)
    assert error is failed.exception()
    log.advance_wall_clock_time("1m")
    assert 2 == len(told)


@pytest.mark.parametrize(("batch_bytes", "requests"), [(16_384, 1), (0, 100), (250, 4)])
def test_batches_save_requests(batch_bytes: int, requests: int) -> None:
    """S2-10, E10: a hundred small records with a linger of 5 ms are one request; without batching a hundred."""
    log = log_with("logs")
    producer = log.producer(batch_bytes=batch_bytes, linger="5ms")
    futures = [producer.send("logs", None, f"line-{n:03d}") for n in range(100)]  # ten bytes of JSON each
    log.advance_wall_clock_time("4ms")
    assert (batch_bytes == 16_384) == (not futures[0].done())
    log.advance_wall_clock_time("1ms")
    assert list(range(100)) == [future.result().offset for future in futures]
    assert requests == producer.requests


def test_partitions_of_one_broker_share_a_request() -> None:
    """S2-10: batches that are ready for one broker share a request."""
    log = log_with("logs", 4, brokers=2)
    producer = log.producer()
    for number in range(40):
        producer.send("logs", None, number)
    producer.flush()
    assert 2 == producer.requests
    assert "2 requests made, 0 records waiting" in repr(producer)


@pytest.mark.parametrize(
    ("idempotent", "max_in_flight", "order", "requests"),
    [(False, 5, "BA", 3), (False, 1, "AB", 2), (True, 5, "AB", 3), (True, 1, "AB", 2)],
)
def test_a_lost_request_may_be_overtaken(idempotent: bool, max_in_flight: int, order: str, requests: int) -> None:
    """S3-27, E22: A is lost and resent; B overtakes it if it is in flight too and neither has a sequence number."""
    log = log_with("o")
    producer = log.producer(linger="0ms", idempotent=idempotent, max_in_flight=max_in_flight)
    producer.lose()
    sent = [producer.send("o", None, value) for value in "AB"]
    log.advance_wall_clock_time("99ms")
    assert ["B"] * ((idempotent, max_in_flight) == (False, 5)) == [each.value for each in log.records("o-0")]
    log.advance_wall_clock_time("1ms")
    assert order == "".join(each.value for each in log.records("o-0"))
    assert [order.index(value) for value in "AB"] == [each.result().offset for each in sent]
    assert requests == producer.requests


def test_order_outlives_several_losses() -> None:
    """S3-27: five numbered requests in flight: whatever is lost, the log has them in the order of sending."""
    log = log_with("o")
    producer = log.producer(linger="0ms", retry_backoff="10ms")
    for number in range(20):
        producer.lose(number % 3)
        producer.send("o", None, number)
        log.advance_wall_clock_time("1ms")
    log.advance_wall_clock_time("1s")
    assert list(range(20)) == [each.value for each in log.records("o-0")]


def test_a_partition_is_not_held_up_by_what_another_one_lost() -> None:
    """S3-27: sequence numbers are per partition."""
    log = log_with("o", 2)
    producer = log.producer(linger="0ms")
    producer.lose()
    producer.send("o", None, "A", partition=0)
    producer.send("o", None, "B", partition=1)
    assert [0, 1] == [len(log.records(f"o-{number}")) for number in range(2)]


def test_a_record_is_given_up_when_every_request_is_lost() -> None:
    """S3-27: after the delivery timeout, however often it was sent."""
    log = log_with("o")
    producer = log.producer(linger="0ms", delivery_timeout="1s")
    producer.lose(100)
    failed = producer.send("o", None, "A")
    log.advance_wall_clock_time("1s")
    assert "was not delivered within 1s" in str(failed.exception())
    assert 0 == producer.buffered_bytes


def test_an_idempotent_producer_has_five_requests_in_flight_at_most() -> None:
    """S3-27: more are refused, with Kafka's message; without sequence numbers there is no limit."""
    with pytest.raises(
        ConfigError, match="max_in_flight must be at most 5 for an idempotent producer, got 6"
    ) as raised:
        log_with("o").producer(max_in_flight=6)
    assert "at most 5" in str(raised.value.java)
    assert 0 == log_with("o").producer(max_in_flight=6, idempotent=False).requests


def test_a_full_buffer_blocks_for_a_while_and_raises() -> None:
    """S2-11, E10: after exactly 10 ms of the log's clock; earlier records are reported when dropped or sent."""
    log, told = log_with("logs"), []
    producer = log.producer(buffer_bytes=35, max_block="10ms", delivery_timeout="1m")
    log.fail(1)
    for n in range(3):
        producer.send("logs", None, f"line-{n:03d}", delivered=lambda *outcome: told.append(outcome))
    with pytest.raises(BufferExhaustedError, match='no room for a record of topic "logs"') as raised:
        producer.send("logs", None, "line-003")
    assert isinstance(raised.value, BufferError)
    assert 10 == log.clock.now_ms
    assert [] == told
    log.advance_wall_clock_time("1m")
    assert [None, None, None] == [record for record, _ in told]
    assert 0 == producer.buffered_bytes


def test_a_full_buffer_is_no_error_while_the_broker_is_there() -> None:
    """S2-11: waiting records are sent to free buffer space; a broker that returns within the timeout suffices."""
    log = log_with("logs")
    producer = log.producer(buffer_bytes=35, max_block="10ms", linger="1h")
    futures = [producer.send("logs", None, f"line-{n:03d}") for n in range(10)]
    producer.flush()
    assert list(range(10)) == [future.result().offset for future in futures]
    log.fail(1)
    late = producer.send("logs", None, "late")
    log.recover(1)
    producer.flush()
    assert 10 == late.result().offset


def test_waiting_for_a_future_lets_the_clock_run() -> None:
    """It completes without a later send or flush; if no broker is online it fails after the delivery timeout."""
    log = ks.simulation.Log()
    log.create_topic("logs")
    producer = log.producer(linger="5ms", delivery_timeout="3s")
    assert producer.send("logs", None, "first").result().offset == 0
    assert log.clock.now_ms == 5
    log.fail(1)
    late = producer.send("logs", None, "second")
    with pytest.raises(TimeoutError):
        late.result(1)
    assert log.clock.now_ms == 1005
    assert isinstance(late.exception(), EngineError)
    assert log.clock.now_ms == 3005


def group(**options: Any) -> ks.simulation.ConsumerGroup:
    """A group with one member."""
    made = ks.simulation.ConsumerGroup("app", {"logs": 1}, **options)
    made.join("first")
    return made


SLIPS: dict[str, Callable[[], object]] = {
    'protocol must be "cooperative" or "eager", got "coop"': lambda: group(protocol="coop"),
    'auto_offset_reset must be "latest" or "earliest", got "earlyest"': lambda: group(auto_offset_reset="earlyest"),
    'to must be "earliest" or "latest" or int, got "earlyest"': lambda: group().reset_offsets("earlyest"),
    "capacity must be at least 1, got 0": lambda: group().join("second", capacity=0),
    "offset must be int, got 'beginning'": lambda: group().seek("first", "logs-0", "beginning"),
    "offset must be at least 0, got -1": lambda: group().seek("first", "logs-0", -1),
    "offset must be at least 0, got -2": lambda: log_with("logs").reader("logs").seek("logs-0", -2),
    'acks must be "all" or "leader", got "leaders"': lambda: log_with("logs").append("logs", None, 1, acks="leaders"),
    'acks must be "all" or "leader", got "leader "': lambda: log_with("logs").producer(acks="leader "),
    'topic name "my\u2011logs" has a character other than': lambda: ks.simulation.Log().create_topic("my\u2011logs"),
    "brokers must be at least 1, got 0": lambda: ks.simulation.Log(brokers=0),
    'partitions of topic "logs" must be at least 1, got 0': lambda: ks.simulation.Log().create_topic(
        "logs", partitions=0
    ),
}


@pytest.mark.parametrize("message", SLIPS)
def test_arguments_that_cannot_be_meant_are_refused_where_they_are_said(message: str) -> None:
    """Each error says what was expected and what came."""
    with pytest.raises(KStreamError) as error:
        SLIPS[message]()
    assert message in str(error.value)


def test_a_member_that_is_refused_has_not_joined() -> None:
    """Without stream threads it could get no partition."""
    members = group()
    with pytest.raises(ConfigError):
        members.join("second", capacity=0)
    members.join("second")
