"""Checks before running: severity, place and remedy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.core.codec import partition_for
from kstreamnb.errors import KStreamError
from kstreamnb.simulation import ClusterDriver
from kstreamnb.spark.planning.deployment_plan import plan, warn_of_uneven_stores
from kstreamnb.validation.preflight import check, check_partitions


def join(**right: Any) -> ks.Topology:
    """Two streams joined within 10 ms, and a global table."""
    builder = ks.StreamsBuilder("j")
    left, other = builder.stream("a"), builder.stream("b", **right)
    joined = left.join(other, lambda a, b: a + b, ks.JoinWindows.of(difference="10ms"))
    joined.left_join(builder.global_table("names", store="names"), lambda key, _: key, lambda a, b: a).to("out")
    return builder.build()


def record(topic: str, key: Any, value: Any, time: int = 0, partition: int = -1) -> ks.TopicRecord:
    """One record."""
    return ks.TopicRecord(topic, partition, 0, time, key, value)


def test_joined_topics_need_the_same_number_of_partitions() -> None:
    """S4-42: both topics and their counts are named; a global table may have any count; equal counts pass."""
    (found,) = check_partitions(join(), {"a": 4, "b": 6, "names": 3})
    assert "error" == found.severity
    assert '"a" has 4, "b" has 6' in found.fact
    assert "builder.stream(" in str(found.origin)
    with pytest.raises(KStreamError, match="must have the same number of partitions"):
        ks.replay(join(), [], {"a": 4, "b": 6, "names": 3})
    assert not check_partitions(join(), {"a": 4, "b": 4, "names": 3})
    assert "unknown number of partitions of topic" in check_partitions(join(), {"a": 4, "names": 1})[0].fact


def test_one_number_of_partitions_holds_for_the_topics_of_a_pattern() -> None:
    """Those of the sample that match it."""
    builder = ks.StreamsBuilder()
    builder.stream(re.compile("orders-.*")).to("out")
    assert not check(builder.build(), [record("orders-eu", "k", 1)], partitions=2)


def test_keys_in_the_wrong_partition_are_named() -> None:
    """S4-43: a topic written with another partitioner is detected by the keys of a sample, three of which are named."""
    keys = [f"user{n}" for n in range(12)]
    right = [record("a", key, "x", partition=partition_for(key.encode(), 4)) for key in keys]
    wrong = [record("b", key, "y", partition=(partition_for(key.encode(), 4) + 1) % 4) for key in keys]
    found = check(join(), partitions={"a": 4, "b": 4, "names": 1}, sample=right + wrong).errors
    assert ['topic "b"'] == [each.subject for each in found]
    assert found[0].fact.startswith("12 of 12 keys are not in the partition of their key: ")
    assert 3 == found[0].fact.count("belongs to")
    assert "repartition()" in found[0].remedy
    counts = {"a": 4, "b": 4, "names": 1}
    aligned = [record("b", key, "y", partition=partition_for(key.encode(), 4)) for key in keys]
    assert 12 == len(ks.replay(join(), right + aligned, counts).output("out")), "on aligned data the join is complete"
    assert 0 == len(ks.replay(join(), right + wrong, counts).output("out"))


def test_other_key_serdes_on_joined_topics_are_an_error() -> None:
    """S4-43: a string key never matches a long key: their bytes differ, and so do their partitions."""
    found = check(join(key_serde=ks.Serdes.long()), partitions=2).errors
    assert "different key serdes" in found[0].fact


def test_a_repartition_without_a_new_key_is_a_hint() -> None:
    """S4-44: it costs a hop without benefit; with its own partition count, or after a new key, it is intended."""
    builder = ks.StreamsBuilder("r")
    builder.stream("in").repartition(name="same").to("out")
    (found,) = check(builder.build(), partitions=2)
    assert ("hint", 'topic "same-repartition"') == (found.severity, found.subject)
    changed = ks.StreamsBuilder("r")
    changed.stream("in").select_key(lambda _, value: value).repartition(name="new").to("out")
    assert not check(changed.build(), partitions=2)


def test_a_predicate_that_fails_on_the_null_of_a_session_merge_is_told_why() -> None:
    """S4-31: `count >= 3` fails on the null that a merge sends; the hint shows the safe form, which passes."""

    def sessions(predicate: Any) -> ks.Topology:
        builder = ks.StreamsBuilder("s")
        sessions = builder.stream("in").group_by_key().windowed_by(ks.SessionWindows.of(gap="5m"))
        sessions.count(store="n").to_stream().filter(predicate).to("out")
        return builder.build()

    rows = [record("in", "k", 1, at) for at in (0, 60_000)]
    (found,) = check(sessions(lambda _, count: count >= 3), sample=rows)
    assert "error" == found.severity
    assert "TypeError" in found.fact
    assert "a session merge emits null" in found.remedy
    assert "value is not None" in found.remedy
    assert not check(sessions(lambda _, count: count is not None and count >= 3), sample=rows)


def test_a_sink_that_cannot_write_its_values_is_found_with_a_sample() -> None:
    """The value and the remedy are named."""
    builder = ks.StreamsBuilder("w")
    builder.stream("in").map_values(lambda value: {value}).to("out")
    (found,) = check(builder.build(), sample=[record("in", "k", 1)])
    assert "1 record cannot be written, the first with value {1}" == found.fact


def test_buffers_and_windows_without_an_end_are_warned_of() -> None:
    """A suppression by time without a limit, and an unlimited window."""
    builder = ks.StreamsBuilder("u")
    counts = builder.stream("in").group_by_key().count(store="n")
    counts.suppress(ks.Suppressed.until_time_limit("1m", ks.BufferConfig.unbounded())).to_stream().to("out")
    builder.stream("other").group_by_key().windowed_by(ks.UnlimitedWindows.of()).count(store="all")
    assert ["warning", "warning"] == [each.severity for each in check(builder.build(), partitions=1)]


def test_two_writers_of_one_topic_are_warned_of() -> None:
    """S3-24: each writer's order is kept, the order between them is not."""
    builder = ks.StreamsBuilder("two")
    builder.stream("a").to("out")
    builder.stream("b").to("out")
    (found,) = check(builder.build(), partitions=1)
    assert "sub-topologies 0 and 1 write to it" in found.fact


def test_late_records_of_a_sample_are_told_with_the_grace_that_keeps_them() -> None:
    """The most severe issue determines the result."""
    builder = ks.StreamsBuilder("late")
    builder.stream("in").group_by_key().windowed_by(ks.TimeWindows.of(size="10ms")).count(store="n")
    (found,) = check(builder.build(), sample=[record("in", "k", 1, at) for at in (0, 50, 2)])
    assert "a grace of 41ms instead of 0ms would have kept it" == found.remedy
    (found,) = check(builder.build(), sample=[record("in", "k", 1, at) for at in (0, 50, 22, 2)])
    assert "2 records of the sample arrived too late" == found.fact
    assert "a grace of 41ms instead of 0ms would have kept them all" == found.remedy


@pytest.mark.parametrize(
    ("windowed", "log_config", "fact"),
    [
        (False, {}, None),
        (False, {"retention.ms": "60000"}, "retention.ms=60000 has no effect while its cleanup.policy is compact"),
        (False, {"cleanup.policy": "delete"}, "cleanup.policy=delete removes rows that have not changed recently"),
        (False, {"cleanup.policy": "compact,delete", "retention.ms": "60000"}, "it keeps 1m: a failure that lasts"),
        (False, {"cleanup.policy": "compact, delete", "retention.ms": "604800000"}, None),
        (True, {}, None),
        (True, {"retention.ms": "60000"}, "it keeps 1m, the store 2h"),
        (True, {"retention.ms": "7200000"}, "it keeps 2h: a failure that lasts longer loses rows"),
        (True, {"retention.ms": "-1"}, None),
    ],
)
def test_a_changelog_that_forgets_too_early_is_found(
    windowed: bool, log_config: dict[str, str], fact: str | None
) -> None:
    """S4-48: a store that is rebuilt from scratch has only what its changelog kept."""
    builder = ks.StreamsBuilder("kept")
    groups = builder.stream("in").group_by_key()
    stored = ks.Materialized("counts", log_config=log_config)
    if windowed:
        groups.windowed_by(ks.TimeWindows.of(size="1h", grace="1h")).count(materialized=stored)
    else:
        groups.count(materialized=stored)
    found = [each for each in check(builder.build()) if each.subject.startswith("changelog")]
    assert (0 if fact is None else 1) == len(found)
    if fact is not None:
        assert 'changelog of store "counts"' == found[0].subject
        assert fact in found[0].fact
        assert found[0].remedy


def test_records_that_one_node_writes_twice_to_a_topic_are_pointed_out() -> None:
    """S4-19: a dual write to one topic; to two topics, or from two branches to one, it is meant."""
    builder = ks.StreamsBuilder("twice")
    payments = builder.stream("payments", name="read")
    payments.to("legacy")
    payments.to("legacy")
    payments.to("realtime")
    payments.filter(lambda key, value: value > 9, name="large").to("realtime")
    (found,) = check(builder.build(), partitions=1)
    assert ("warning", 'topic "legacy"', "write to each topic once") == (found.severity, found.subject, found.remedy)
    assert found.fact == '2 sinks write the records of node "read" to it: each record is there 2 times'


def test_a_sound_topology_has_no_findings() -> None:
    """An empty result says so."""
    builder = ks.StreamsBuilder("ok")
    builder.stream("in").to("out")
    assert "nothing was found" == str(check(builder.build(), sample=[record("in", "k", 1)]))


def test_state_and_logs_on_one_disk_or_in_tmp_are_pointed_out() -> None:
    """S4-53: files in /tmp are temporary; folders on one device slow each other down; separate devices pass."""
    (found,) = check(join(), folders={"checkpoint": "/tmp/kafka-streams/shop"})
    assert ("warning", "checkpoint") == (found.severity, found.subject)
    assert "which is emptied when the system starts" in found.fact
    here, elsewhere = Path("/usr"), Path("/dev")  # the second is a separate device on every supported system
    (found,) = check(join(), folders={"checkpoint": here / "not" / "there", "broker log": here})
    assert ("warning", "checkpoint and broker log") == (found.severity, found.subject)
    assert "they share a device" in found.fact
    assert not check(join(), folders={"checkpoint": here, "broker log": elsewhere})


class Rekey(ks.Processor[Any, Any, Any, Any]):
    """Forwards each record under its user."""

    def process(self, record: ks.Record[Any, Any]) -> None:
        self.context.forward(record.with_key(record.value["user"]))


class Count(ks.Processor[Any, Any, Any, Any]):
    """Counts records by key."""

    def process(self, record: ks.Record[Any, Any]) -> None:
        store = self.context.get_state_store("counts")
        store.put(record.key, (store.get(record.key) or 0) + 1)
        self.context.forward(record.with_value(store.get(record.key)))


def rekeyed(*, repartition: bool = False) -> ks.Topology:
    """Orders counted by user, with processors of the DSL."""
    builder = ks.StreamsBuilder("rekeyed")
    builder.add_state_store(ks.Stores.persistent_key_value_store("counts"))
    by_user = builder.stream("orders").process(Rekey, name="rekey")
    by_user = by_user.repartition(name="by-user") if repartition else by_user
    by_user.process(Count, "counts", name="count").to("out")
    return builder.build()


def orders(number: int = 40) -> list[ks.TopicRecord]:
    """Orders of five users, each with a different key."""
    return [record("orders", f"o{n}", {"user": f"u{n % 5}"}, n) for n in range(number)]


def test_a_key_changed_before_a_store_is_found_with_a_sample() -> None:
    """Four partitions count wrong; the finding names both nodes, the keys and the missing call."""
    counted = {row.key: row.value for row in ks.replay(rekeyed(), orders(), 4).now.store("counts")}
    assert counted != {f"u{n}": 8 for n in range(5)}, "without repartition() the counts are wrong"
    (found,) = check(rekeyed(), partitions=4, sample=orders())
    assert ("error", '"count"') == (found.severity, found.subject)
    assert found.fact.startswith('"rekey" changed 5 keys of the sample ("o0" to "u0"')
    assert 'are in store "counts" of a partition that is not theirs' in found.fact
    assert 'call .repartition() between "rekey" and "count"' == found.remedy
    assert "process(Rekey" in str(found.origin)
    assert not check(rekeyed(repartition=True), partitions=4, sample=orders())


def test_a_key_changed_before_a_store_is_a_warning_on_one_partition() -> None:
    """With one partition the counts are right, and wrong as soon as there is a second one."""
    (found,) = check(rekeyed(), sample=orders())
    assert "warning" == found.severity
    assert 'on several partitions store "counts" of each task sees only part' in found.fact


def test_a_key_changed_in_the_processor_api_is_found_with_a_sample() -> None:
    """The same nodes, built with add_processor: also through a node in between, and not through a topic."""

    def chained(*, topic: bool) -> ks.Topology:
        topology = ks.Topology().add_source("in", "orders").add_processor("rekey", Rekey, "in")
        topology.add_processor("same", Pass, "rekey")
        if topic:
            topology.add_sink("out", "by-user", "same").add_source("again", "by-user")
        topology.add_processor("count", Count, "again" if topic else "same")
        return topology.add_state_store(ks.Stores.persistent_key_value_store("counts"), "count")

    (found,) = check(chained(topic=False), partitions=4, sample=orders())
    assert ("error", '"count"') == (found.severity, found.subject)
    assert found.fact.startswith('"rekey" changed 5 keys')
    assert "add_sink()" in found.remedy
    assert not check(chained(topic=True), partitions={"orders": 4, "by-user": 4}, sample=orders())


class Pass(ks.Processor[Any, Any, Any, Any]):
    """Forwards each record unchanged."""

    def process(self, record: ks.Record[Any, Any]) -> None:
        self.context.forward(record)


class Last(ks.Processor[Any, Any, Any, Any]):
    """Forwards the previous record of the same task."""

    before: ks.Record[Any, Any] | None = None

    def process(self, record: ks.Record[Any, Any]) -> None:
        if self.before is not None:
            self.context.forward(self.before)
        self.before = record


@pytest.mark.parametrize("partitions", [1, 4])
def test_keys_that_stay_or_come_late_are_no_finding(partitions: int) -> None:
    """A processor that forwards another record's key, which belongs to its task, needs no repartition."""
    builder = ks.StreamsBuilder("late-keys")
    builder.add_state_store(ks.Stores.persistent_key_value_store("counts"))
    builder.stream("orders").process(Pass).process(Last).process(Count, "counts").to("out")
    assert not check(builder.build(), partitions=partitions, sample=orders())


class Stock(ks.Processor):
    """Forwards how often it has seen a key, from a store."""

    def process(self, record: ks.Record[Any, Any]) -> None:
        """Count the key."""
        stock = self.context.get_state_store("stock")
        count = (stock.get(record.key) or 0) + 1
        stock.put(record.key, count)
        self.context.forward(record.with_value(count))


def _merged(*, mended: bool = False) -> ks.Topology:
    """Orders merged with returns through a repartition topic of 3 partitions, before one store."""
    builder = ks.StreamsBuilder("shop")
    builder.add_state_store(ks.Stores.persistent_key_value_store("stock"))
    orders = builder.stream("orders")
    if mended:
        orders = orders.repartition(ks.Repartitioned(name="all", partitions=3))
    regrouped = builder.stream("returns").select_key(lambda key, value: value)
    returns = regrouped.repartition(ks.Repartitioned(name="by-item", partitions=3))
    orders.merge(returns).process(Stock, "stock").to("out")
    return builder.build()


def _seen_of_one_key(driver: Any) -> list[int]:
    for number in range(40):
        driver.create_input_topic("orders").pipe_input(f"k{number}", f"k{number}", at=number)
        driver.create_input_topic("returns").pipe_input("x", f"k{number}", at=number)
    if hasattr(driver, "run_ready"):
        driver.run_ready()
        driver.advance_wall_clock_time("1m")
        driver.run_ready()
        driver.advance_wall_clock_time("1m")
    return [pair[1] for pair in driver.create_output_topic("out").read_key_values_to_list()]


@pytest.mark.parametrize("engine", [ks.TopologyTestDriver, ClusterDriver])
def test_merged_topics_of_other_partition_counts_split_a_store_as_in_kafka_streams(engine: Any) -> None:
    """Kafka compares counts only for joins: the tasks are by the maximum, and a key may be in two of them."""
    counts = {"orders": 4, "returns": 4}
    split = _seen_of_one_key(engine(_merged(), partitions=counts))
    whole = _seen_of_one_key(engine(_merged(mended=True), partitions=counts))
    assert 40 < split.count(1)
    assert (40, 40) == (whole.count(1), whole.count(2))
    assert 4 == len([task for task in _merged().tasks(counts) if "stock" in task.stores])


def test_topics_of_other_partition_counts_that_meet_at_a_store_are_found() -> None:
    """The warning names topics, store, counts and the call; the plan prints it, and equal counts pass."""
    counts = {"orders": 4, "returns": 4}
    (found,) = check_partitions(_merged(), counts)
    assert "warning" == found.severity
    assert found.fact == (
        '"by-item-repartition" and "orders" meet at store "stock" with 3 and 4 partitions; '
        "the same key may be in two tasks"
    )
    assert ".repartition(Repartitioned(partitions=4))" in found.remedy
    assert found in check(_merged(), partitions=counts)
    assert f"warning: {found.fact}" in str(plan(_merged(), counts))
    with pytest.warns(UserWarning, match='meet at store "stock" with 3 and 4 partitions'):
        warn_of_uneven_stores(plan(_merged(), counts).deployment.application)
    assert not check_partitions(_merged(mended=True), counts)
    assert "warning:" not in str(plan(_merged(mended=True), counts))


def _append(_key: object, value: object, values: list[object]) -> list[object] | None:
    """Mutate the aggregate and return nothing, as list.append does."""
    values.append(value)
    return None


@pytest.mark.parametrize("windowed", [False, True])
def test_an_aggregator_that_returns_only_none_is_a_warning(*, windowed: bool) -> None:
    """None deletes the row, so the table stays empty; an aggregator that returns its aggregate passes."""
    for aggregator, warns in ((_append, True), (lambda _, value, values: [*values, value], False)):
        builder = ks.StreamsBuilder("kms")
        trips: Any = builder.stream("trips").group_by_key()
        trips = trips.windowed_by(ks.TimeWindows.of(size="1h")) if windowed else trips
        trips.aggregate(list, aggregator, store="kms")
        found = check(builder.build(), sample=[record("trips", "a", 1), record("trips", "a", 2, 5)])
        assert warns == any("returned None for 2 records" in each.fact for each in found)
        assert not warns or any("append() and update() return None" in each.remedy for each in found)


@pytest.mark.parametrize(
    ("flow", "warns"),
    [
        (lambda trips: trips.map_values(lambda km: km + 1).to("trips"), True),
        (lambda trips: trips.group_by_key().count().to_stream().to("trips"), True),
        (lambda trips: trips.group_by(lambda _, km: str(km)).count().to_stream().to("trips"), True),
        (lambda trips: trips.filter(lambda _, km: km < 3).map_values(lambda km: km + 1).to("trips"), False),
        (lambda trips: trips.map_values(lambda km: km + 1).to("long-trips"), False),
    ],
)
def test_a_topic_that_is_written_back_to_itself_is_a_warning(flow: Any, *, warns: bool) -> None:
    """A run would never end, so the sample is not run; a filter may end it."""
    builder = ks.StreamsBuilder("loop")
    flow(builder.stream("trips"))
    found = check(builder.build(), sample=[record("trips", "a", 1)])
    assert warns == any("processing never ends" in each.fact and each.origin for each in found)


@pytest.mark.parametrize("topic", ["trips", lambda key, km, context: "trips"], ids=["named", "chosen"])
@pytest.mark.parametrize("records", [1, 50])
def test_a_loop_behind_a_filter_that_never_ends_is_stopped(records: int, topic: Any) -> None:
    """Whichever strategy runs the sample; a loop that ends is not stopped."""
    sample = [record("trips", "a", 1, at) for at in range(records)]
    for ends in (False, True):
        builder = ks.StreamsBuilder("loop")
        trips = builder.stream("trips").filter(lambda _, km, ends=ends: not ends or km < 9)
        trips.map_values(lambda km: km + 1).to(topic)
        found = check(builder.build(), sample=sample, config={"processing_handler": "continue"})
        assert ends != any("in a loop, which has not ended after" in each.fact for each in found)
        assert all("builder.stream(" in str(each.origin) and "filter" in each.remedy for each in found)


def test_many_records_in_a_repartition_topic_are_no_loop() -> None:
    """Its name in Kafka has the application's id."""
    builder = ks.StreamsBuilder("words")
    words = builder.stream("lines").flat_map_values(lambda line: map(str, range(int(line))))
    words.group_by(lambda _, word: word[0]).count().to_stream().to("counts")
    found = check(builder.build(), sample=[record("lines", "a", "10100")])
    assert not any("in a loop" in each.fact for each in found)


def test_drops_of_stores_sources_and_sinks_are_counted() -> None:
    """A store drops what is older than its retention, a source negative times, a sink what no partition is for."""

    class Keep(ks.Processor[Any, Any, Any, Any]):
        def process(self, record: ks.Record[Any, Any]) -> None:
            self.context.get_state_store("seen").put(record.key, record.value, record.timestamp)

    builder = ks.StreamsBuilder("stores")
    builder.add_state_store(ks.Stores.persistent_window_store("seen", retention="10s", window_size="1s"))
    builder.stream("in").process(Keep, "seen")
    builder.stream("odd", timestamp_extractor=lambda record, time: -1).to("out")
    builder.stream("lost").to("out", partitioner=lambda *record: [])
    sample = [record("in", "a", 1, at) for at in (100_000, 10_000, 12_000)]
    found = check(builder.build(), sample=[*sample, record("odd", "a", 1), record("lost", "a", 1)])
    facts = {each.subject: (each.fact, each.remedy) for each in found if each.severity == "warning" and each.origin}
    late = "2 records of the sample arrived too late", "a retention of 1m30s instead of 10s would have kept them all"
    assert late == facts.pop('store "seen"')
    assert {
        "1 record of 5 in the sample dropped: negative timestamp",
        "1 record of 5 in the sample dropped: partitioner",
    } == {fact for fact, _ in facts.values() if "dropped" in fact}


def test_schedules_of_the_wall_clock_that_never_fire_are_named() -> None:
    """A sample does not advance the clock; a driver does, and its replay says nothing."""

    class Tick(ks.Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule("1s", ks.PunctuationType.WALL_CLOCK_TIME, lambda now: None)

        def process(self, record: ks.Record[Any, Any]) -> None:
            self.context.forward(record)

    builder = ks.StreamsBuilder("ticks")
    builder.stream("in").process(Tick).to("out")
    topology, sample = builder.build(), [record("in", "a", 1)]
    (found,) = check(topology, sample=sample)
    assert found.severity == "hint"
    assert "1 wall-clock schedule never fired" in found.fact
    assert "advance_wall_clock_time" in found.remedy
    assert "3 wall-clock schedules never fired: " in str(ks.replay(topology, sample, 3))
    driver = ks.TopologyTestDriver(topology)
    driver.pipe(sample)
    driver.advance_wall_clock_time("1m")
    assert "never fired" not in str(ks.Replay.of(driver))


def test_a_loop_through_two_topics_is_found() -> None:
    """Each of the two sinks feeds the source of the other."""
    builder = ks.StreamsBuilder("loop")
    builder.stream("there").map_values(str).to("back")
    builder.stream("back").map_values(str).to("there")
    assert 2 == sum("processing never ends" in each.fact for each in check(builder.build()))


@pytest.mark.parametrize(
    ("times", "unit", "hint"),
    [
        ([1_767_225_600, 1_767_225_660], "seconds instead of milliseconds?", "* 1000"),
        ([1_767_225_600_000_000, 1_767_225_660_000_000], "microseconds or nanoseconds instead", "// 1000"),
        ([1_767_225_600_000, 1_767_225_660_000], None, ""),
        ([0, 1_767_225_600], None, ""),
        ([], None, ""),
    ],
)
def test_times_of_another_unit_are_warned_of(times: list[int], unit: str | None, hint: str) -> None:
    """Only if all times of the topic look like it; the remedy converts them."""
    builder = ks.StreamsBuilder("units")
    builder.stream("a").to("out")
    found = check(builder.build(), sample=[record("a", "k", 1, time) for time in times])
    assert [("warning", 'topic "a"')] * (unit is not None) == [(each.severity, each.subject) for each in found]
    for each in found:
        assert (unit or "?") in each.fact
        assert hint in each.remedy
        assert "builder.stream(" in str(each.origin)
