"""Worked examples that no chapter of the course covers: consumer groups, logs, catalogs, migrations, operations.

Each test names its row of the examples (E11 … E28) and the requirements that define its expected results.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.errors import EngineError
from kstreamnb.spark.telemetry.metrics import Metric


def offsets(taken: tuple[tuple[str, int], ...], place: str) -> list[int]:
    """Return the offsets of one partition."""
    return [offset for where, offset in taken if where == place]


# --- E11: consumer groups by simulation -------------------------------------------------------------------------------
def test_members_of_a_group_share_partitions_and_another_group_gets_everything() -> None:
    """E11, S2-15, S2-16, S2-17: each group gets each record once; surplus members wait; topics may grow."""
    group = ks.simulation.ConsumerGroup("simple-logs-processing", {"logs": 2}, auto_offset_reset="earliest")
    group.join("c1")
    assert {"c1": ("logs-0", "logs-1")} == group.assignment
    group.join("c2")
    group.join("c3")
    assert {"c1": ("logs-0",), "c2": ("logs-1",), "c3": ()} == group.assignment
    assert group.title.endswith("1 waiting")
    other = ks.simulation.ConsumerGroup("audit", group.log, auto_offset_reset="earliest")
    other.join("a1")
    for place in group.log.partitions:
        group.log.append(place, 3)
    taken = [record for name in ("c1", "c2", "c3") for record in group.poll(name)]
    everything = [(place, offset) for place in ("logs-0", "logs-1") for offset in range(3)]
    assert everything == taken == list(other.poll("a1"))
    group.log.add_partitions("logs", 3)
    group.advance_wall_clock_time("1s")
    assert {"c1": ("logs-0",), "c2": ("logs-1",), "c3": ("logs-2",)} == group.assignment


def test_who_takes_over_starts_at_the_last_commit_and_reads_the_rest_again() -> None:
    """E11, S2-18, S2-19, S2-22: c1 crashes with five uncommitted records; c3 gets its partition and those five."""
    group = ks.simulation.ConsumerGroup(
        "simple-logs-processing", {"logs": 2}, auto_offset_reset="earliest", max_poll_records=5
    )
    for name in ("c1", "c2", "c3"):
        group.join(name)
    group.log.append("logs-0", 1)
    group.poll("c1")
    assert {"logs-0": 1} == group.commit("c1", metadata="first batch")  # the offset after the last record
    group.log.append("logs-0", 9)
    assert [1, 2, 3, 4, 5] == offsets(group.poll("c1"), "logs-0")
    before = group.positions[0]
    assert (1, 6, 10, 10, 9, "first batch") == (
        before.committed, before.position, before.high, before.end, before.lag, before.metadata,
    )  # fmt: skip
    group.crash("c1")
    group.advance_wall_clock_time("44999ms")
    assert ("logs-0",) == group.assignment["c1"], "nobody has noticed"
    group.advance_wall_clock_time("1ms")
    assert {"c2": ("logs-1",), "c3": ("logs-0",)} == group.assignment
    assert [1, 2, 3, 4, 5] == offsets(group.poll("c3"), "logs-0"), "delivered twice, none lost"
    assert [6, 7, 8, 9] == offsets(group.poll("c3"), "logs-0")
    with pytest.raises(EngineError, match='"c1" is not a member') as raised:
        group.commit("c1")
    assert "it timed out; others have its partitions" == raised.value.detail


@pytest.mark.parametrize("seconds", [10, 30, 45])
def test_a_crash_is_found_when_the_session_times_out(seconds: int) -> None:
    """E11, S2-24, S0-38, S0-39: detected sooner with a shorter timeout; Kafka's default is 45 s, not 30."""
    group = ks.simulation.ConsumerGroup("g", {"in": 12}, session_timeout=f"{seconds}s")
    for name in "ABC":
        group.join(name)
    group.crash("C")
    group.advance_wall_clock_time("10m")
    (found,) = group.events("timed out")
    assert seconds * 1000 == found.at_ms
    assert 4 == group.events("rebalanced")[-1].moved, "only those of the dead one"


def test_a_batch_that_takes_too_long_costs_the_membership() -> None:
    """E11, S0-39, S0-40: heartbeats continue in the background; 301 s between two polls end the membership."""
    group = ks.simulation.ConsumerGroup("g", {"logs": 1}, auto_offset_reset="earliest")
    group.log.append("logs-0", 3)
    group.join("c1")
    group.join("c2")
    group.poll("c1")
    group.advance_wall_clock_time("300s")
    assert ("logs-0",) == group.assignment["c1"]
    group.advance_wall_clock_time("1s")
    assert {"c2": ("logs-0",)} == group.assignment
    with pytest.raises(EngineError, match="not a member"):
        group.poll("c1")
    assert [0, 1, 2] == offsets(group.poll("c2"), "logs-0")


def test_a_poll_takes_so_many_records_or_waits() -> None:
    """E11, S2-20: twelve records arrive as 5, 5 and 2; an empty poll returns after its timeout."""
    group = ks.simulation.ConsumerGroup("g", {"logs": 1, "more": 1}, auto_offset_reset="earliest", max_poll_records=5)
    group.join("c1")
    group.log.append("logs-0", 8)
    group.log.append("more-0", 4)
    assert [5, 5, 2] == [len(group.poll("c1")) for _ in range(3)]
    assert () == group.poll("c1", timeout="1s")
    assert 1000 == group.now_ms


def test_where_a_group_begins_is_asked_only_without_a_commit() -> None:
    """E11, S2-21, S2-26, S2-27: earliest or latest for a new group; a commit takes precedence; retention may delete
    records.
    """
    first = ks.simulation.ConsumerGroup("first", {"logs": 1}, auto_offset_reset="earliest")
    first.log.append("logs-0", 200)
    latest = ks.simulation.ConsumerGroup("latest", first.log, auto_offset_reset="latest")
    first.join("c1")
    latest.join("c1")
    assert [0, 1] == offsets(first.poll("c1", max_records=2), "logs-0")
    assert () == latest.poll("c1")
    with pytest.raises(EngineError, match='group "first" is active'):
        first.reset_offsets("earliest")
    first.leave("c1")
    assert {"logs-0": (None, 50)} == first.reset_offsets(50, dry_run=True)
    first.reset_offsets(50)
    first.join("c2")
    assert [50] == offsets(first.poll("c2", max_records=1), "logs-0")
    first.leave("c2")
    first.log.expire("logs-0", before=100)
    first.join("c3")
    assert [100] == offsets(first.poll("c3", max_records=1), "logs-0"), "the beginning is not offset 0"
    assert "50 is gone; earliest is 100" == first.events("out of range")[0].words


def test_a_listener_may_choose_where_to_begin() -> None:
    """E11, S2-25: revocations are reported before assignments; after a seek to 3, offset 3 is the first record."""
    group = ks.simulation.ConsumerGroup("g", {"logs": 1}, auto_offset_reset="earliest", protocol="eager")
    group.log.append("logs-0", 5)
    told = []

    def listener(what: str, places: tuple[str, ...]) -> None:
        told.append((what, places))
        if what == "assigned":
            group.seek("c1", "logs-0", 3)

    group.join("c1", listener=listener)
    assert [3, 4] == offsets(group.poll("c1"), "logs-0")
    group.join("c2")
    assert [(what, ("logs-0",)) for what in ("assigned", "revoked", "assigned")] == told


def test_readers_see_what_is_replicated() -> None:
    """E11, S2-06, S2-18: the leader has 9, the follower 6: only offsets 0 to 5 are visible until it has caught up."""
    group = ks.simulation.ConsumerGroup("g", {"logs": 1}, auto_offset_reset="earliest")
    group.join("c1")
    group.log.append("logs-0", 6)
    group.log.append("logs-0", 3, replicated=False)
    assert [0, 1, 2, 3, 4, 5] == offsets(group.poll("c1"), "logs-0")
    assert (6, 9) == (group.positions[0].high, group.positions[0].end)
    group.log.replicate("logs-0")
    assert [6, 7, 8] == offsets(group.poll("c1"), "logs-0")


# --- E12: application logs in Kafka -----------------------------------------------------------------------------------
class Topic:
    """The producer of the log handler, over a topic of the driver."""

    def __init__(self, driver: ks.TopologyTestDriver) -> None:
        self.driver = driver
        self.is_down = False

    def send(self, topic: str, key: Any, value: Any, *, timestamp: int | None = None) -> None:
        """Pipe it."""
        if self.is_down:
            raise EngineError("no broker answers")
        self.driver.create_input_topic(topic, ks.Serdes.bytes()).pipe_input(key, value, at=timestamp)


@pytest.fixture
def shop_log(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """A logger used by this test only, in a thread named as in Java."""
    monkeypatch.setattr(threading.current_thread(), "name", "main")
    found = logging.getLogger("shop")
    found.setLevel(logging.INFO)
    found.propagate = False
    return found


def test_each_log_call_is_one_record_and_loggers_are_counted(
    shop_log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E12, S2-12, S2-13: JSON with the appender's fields, keyed by thread; counts by logger; no logging call blocks."""
    builder = ks.StreamsBuilder("log-counts")
    logs = builder.stream("logs", key_serde=ks.Serdes.bytes())
    logs.peek(lambda key, value: seen.append((key, value)))
    logs.group_by(lambda key, value: value["logger_name"]).count(store="by-logger").to_stream().to("counts")
    seen: list[tuple[bytes | None, dict[str, Any]]] = []
    topic = Topic(ks.TopologyTestDriver(builder.build(), partitions=2))
    handler = ks.kafka.KafkaLogHandler(topic, app_name="testdata", app_version="1.0", key="thread")
    shop_log.addHandler(handler)
    try:
        logging.getLogger("shop.basket").info("%s in the basket", "a shoe")
        logging.getLogger("shop.till").warning("paid")
        logging.getLogger("shop.basket").info("empty")
        topic.is_down = True
        monkeypatch.setattr(logging, "raiseExceptions", False)
        shop_log.error("nobody hears this, and nobody is stopped by it")
    finally:
        shop_log.removeHandler(handler)
    assert {"shop.basket": 2, "shop.till": 1} == dict(topic.driver.get_key_value_store("by-logger").all())
    assert {key for key, _ in seen} == {bytes.fromhex("003305b9")}, "the hash of the name in Java"
    first = seen[0][1]
    assert ("testdata", "1.0", "shop.basket", "INFO", "main", "a shoe in the basket") == tuple(
        first[name] for name in ("appName", "appVersion", "logger_name", "level", "thread_name", "message")
    )


def test_logs_without_a_key_are_spread(shop_log: logging.Logger) -> None:
    """E12, S2-12: the round-robin strategy sends a null key; the record is still JSON, with its traceback."""
    builder = ks.StreamsBuilder("plain")
    builder.stream("logs", key_serde=ks.Serdes.bytes()).to("copy", key_serde=ks.Serdes.bytes())
    driver = ks.TopologyTestDriver(builder.build())
    handler = ks.kafka.KafkaLogHandler(Topic(driver), app_name="testdata", app_version="1.0")
    shop_log.addHandler(handler)
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        shop_log.exception("oh")
    finally:
        shop_log.removeHandler(handler)
    (record,) = driver.create_output_topic("copy").read_records()
    assert (None, "oh") == (record.key, record.value["message"])
    assert record.value["exception"].endswith("ZeroDivisionError: division by zero")
    assert record.value["timestamp"] == record.timestamp


# --- E20: a bug in production -----------------------------------------------------------------------------------------
def inventory(version: str, *coming_in: str) -> ks.Topology:
    """Compute the stock; movements that are not listed as incoming reduce it."""

    def moved(sku: str, movement: dict[str, Any], pieces: int) -> int:
        return pieces + movement["qty"] * (1 if movement["type"] in coming_in else -1)

    builder = ks.StreamsBuilder(version)
    movements = builder.stream("movements").group_by_key()
    movements.aggregate(int, moved, store="on-hand").to_stream().to("inventory")
    return builder.build()


def test_mended_code_reads_its_input_again() -> None:
    """E20, S3-16, S1-05: a return counted as sold gives -1; correct values follow the wrong ones, which readers saw."""
    cluster = ks.simulation.ClusterDriver(inventory("v1", "in"))
    for kind, pieces in (("in", 2), ("out", 1), ("return", 2)):
        cluster.create_input_topic("movements").pipe_input("sku1", {"type": kind, "qty": pieces}, at=0)
    cluster.run_ready()
    cluster.application.close()
    written = cluster.create_output_topic("inventory")
    assert [2, 1, -1] == written.read_values_to_list()
    mended = cluster.add_application(inventory("v2", "in", "return"))
    cluster.run_ready()
    mended.commit()
    assert [2, 1, 3] == written.read_values_to_list()
    assert [2, 1, -1, 2, 1, 3] == cluster.create_output_topic("inventory").read_values_to_list()
    assert {"sku1": 3} == dict(mended.store("on-hand").all())


# --- E24: reference data ----------------------------------------------------------------------------------------------
def test_a_catalog_enriches_orders_on_all_partitions_without_a_repartition() -> None:
    """E24, S4-21, S4-22: any order key, any partition; later orders see a change of the catalog on every instance."""
    builder = ks.StreamsBuilder("enrich")
    catalog = builder.global_table("product-catalog", store="global-product-store")

    def priced(order: dict[str, Any], product: dict[str, Any] | None) -> dict[str, Any]:
        return {**order, **(product or {"name": "unknown"})}

    orders = builder.stream("orders")
    orders.left_join(catalog, priced, key_selector=lambda key, order: order["productId"]).to("enriched")
    topology = builder.build()
    assert not topology.internal_topics
    assert "for global store (will not generate tasks)" in str(topology.describe())
    with ks.TopologyTestDriver(topology, partitions={"orders": 4, "product-catalog": 3, "enriched": 4}) as driver:
        products, placed = driver.create_input_topic("product-catalog"), driver.create_input_topic("orders")
        for price in (100, 120):
            products.pipe_input("p1", {"name": "shoe", "price": price}, at=price)
            for number in range(8):
                order = {"productId": "p1" if number < 6 else "p9", "qty": number}
                placed.pipe_input(f"order-{price}-{number}", order, at=price + 1)
        found = driver.create_output_topic("enriched").read_records()
        assert {"name": "shoe", "price": 120} == driver.get_key_value_store("global-product-store").get("p1")
    assert {0, 1, 2, 3} == {record.partition for record in found}
    prices = {record.key: record.value.get("price") for record in found}
    assert prices == {f"order-{p}-{n}": p if n < 6 else None for p in (100, 120) for n in range(8)}


# --- E25: migration by dual write -------------------------------------------------------------------------------------
def totals(topic: str) -> ks.Topology:
    """The job to migrate: sums by key."""
    builder = ks.StreamsBuilder("totals")
    builder.stream(topic).group_by_key().reduce(lambda total, more: total + more, store="totals").to_stream().to("out")
    return builder.build()


def rows_of(topic: str, records: list[Any]) -> dict[str, int]:
    """The job's table over the records of a topic."""
    with ks.TopologyTestDriver(totals(topic)) as driver:
        for record in records:
            driver.create_input_topic(topic).pipe_input(record.key, record.value, at=record.timestamp)
        return dict(driver.get_key_value_store("totals").all())


def dual_write() -> ks.Topology:
    """Write everything to the old topic and to the new one."""
    builder = ks.StreamsBuilder("dual-write")
    payments = builder.stream("payments")
    payments.to("legacy-topic")
    payments.to("realtime-topic")
    return builder.build()


def test_old_and_new_topic_give_equal_tables_and_a_lost_record_is_found() -> None:
    """E25, S4-19, S4-20: the batch over the old topic equals the stream over the new one; a loss is named by its
    key.
    """
    with ks.TopologyTestDriver(dual_write()) as driver:
        for number in range(100):
            driver.create_input_topic("payments").pipe_input(f"k{number % 7}", number, at=number)
        legacy, live = (
            driver.create_output_topic(topic).read_records() for topic in ("legacy-topic", "realtime-topic")
        )
    old, new = rows_of("legacy-topic", legacy), rows_of("realtime-topic", live)
    assert old == new
    lossy = rows_of("realtime-topic", [record for record in live if record.value != 40])
    assert ["k5"] == [key for key in old if old[key] != lossy[key]]
    renamed = [record._replace(topic="copy") for record in legacy]
    missing = ks.testing.diff(renamed, [record._replace(topic="copy") for record in live if record.value != 40])
    assert "k5" in str(missing)
    assert not ks.testing.diff(renamed, [record._replace(topic="copy") for record in live])


@pytest.mark.parametrize(
    ("guarantee", "seen", "after"), [("exactly_once_v2", (0, 0), (1, 1)), ("at_least_once", (1, 1), (2, 2))]
)
def test_two_sends_are_seen_once_only_in_a_transaction(
    guarantee: str, seen: tuple[int, int], after: tuple[int, int]
) -> None:
    """E25, S4-19, C-15: after a crash both topics have a record once; without a transaction it is duplicated."""
    driver = ks.simulation.ClusterDriver(dual_write(), {"processing_guarantee": guarantee, "commit_interval": "100ms"})

    def found() -> tuple[int, ...]:
        return tuple(driver.create_output_topic(topic).queue_size() for topic in ("legacy-topic", "realtime-topic"))

    driver.create_input_topic("payments").pipe_input("k", 1, at=0)
    driver.application.crash("before_commit")
    driver.run_ready()
    driver.application.commit()
    assert seen == found()
    driver.application.restart()
    driver.run_ready()
    driver.application.commit()
    assert after == found()


# --- E27: operating it ------------------------------------------------------------------------------------------------
THREAD, TASK = "stream-thread-metrics", "stream-task-metrics"
CALM = {
    (THREAD, "commit-total"): 10.0,
    ("consumer-fetch-manager-metrics", "records-lag-max"): 0.0,
    ("stream-metrics", "failed-stream-threads"): 0.0,
    ("stream-metrics", "broker-reachable"): 1.0,
    (TASK, "dropped-records-total"): 0.0,
    ("consumer-fetch-manager-metrics", "offsets-skipped-total"): 0.0,
    ("stream-metrics", "restarts-total"): 0.0,
    (TASK, "restores-total"): 0.0,
    (TASK, "process-latency-avg"): 50.0,
    ("stream-state-metrics", "state-bytes"): 1000.0,
}


def reading(**changes: float) -> list[Metric]:
    """Metrics of a query at one moment."""
    return [
        Metric(group, name, (), changes.get(name.replace("-", "_"), value)) for (group, name), value in CALM.items()
    ]


@pytest.mark.parametrize(
    ("rule", "trouble"),
    [
        ("stalled", {"commit_total": 10, "records_lag_max": 70}),
        ("lag grows", {"commit_total": 11, "records_lag_max": 7000}),
        ("failed", {"commit_total": 11, "failed_stream_threads": 1}),
        ("broker away", {"commit_total": 11, "broker_reachable": 0}),
        ("records dropped", {"commit_total": 11, "dropped_records_total": 1}),
        ("records lost", {"commit_total": 11, "offsets_skipped_total": 3}),
        ("restarted", {"commit_total": 11, "restarts_total": 1}),
        ("restoring", {"commit_total": 11, "restores_total": 4}),
        ("processing is slow", {"commit_total": 11, "process_latency_avg": 50.1}),
        ("state too large", {"commit_total": 11, "state_bytes": 2e9}),
    ],
)
def test_each_alert_fires_and_clears(rule: str, trouble: Mapping[str, float]) -> None:
    """E27, S0-58, S3-15, S4-35…S4-39: no alerts in normal operation, alerts on problems, and they end with the
    problem.
    """
    later = {**trouble, "commit_total": 12, "records_lag_max": 0, "failed_stream_threads": 0, "state_bytes": 1000}
    later |= {"process_latency_avg": 50.0, "broker_reachable": 1}
    assert () == ks.monitoring.alerts(reading(), reading(commit_total=11), elapsed="5m")
    first = reading(records_lag_max=trouble["records_lag_max"]) if rule == "stalled" else reading()
    assert rule in [alert.name for alert in ks.monitoring.alerts(first, reading(**trouble), elapsed="5m")]
    assert () == ks.monitoring.alerts(reading(**trouble), reading(**later), elapsed="5m")
    assert f"alert: {rule.title().replace(' ', '')}".lower() in ks.monitoring.prometheus_rules().lower()


@pytest.mark.parametrize(("most", "after"), [(100, [400, 300, 200, 100]), (300, [200, 0, 0, 0])])
def test_induced_lag_is_seen_and_worked_off_sooner_by_larger_polls(most: int, after: list[int]) -> None:
    """E27, S4-49: the backlog grows while more arrives than a poll takes; a higher max.poll.records ends it sooner."""
    group = ks.simulation.ConsumerGroup("app", {"in": 4}, auto_offset_reset="earliest")
    group.join("one")
    lags = []
    for minute in range(9):
        for place in group.log.partitions:
            group.log.append(place, 50 if minute < 5 else 0)
        group.poll("one", max_records=100 if minute < 5 else most, timeout="1s")
        group.commit("one")
        lags.append(sum(each.end - (each.committed or 0) for each in group.positions))
    assert [100, 200, 300, 400, 500, *after] == lags


def test_a_damaged_store_is_found_and_made_anew() -> None:
    """E27, S4-47, S4-48: a lost disk is restored from the changelog; a row that differs is found and repaired."""
    builder = ks.StreamsBuilder("counting")
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    driver = ks.simulation.ClusterDriver(builder.build(), {"processing_guarantee": "exactly_once_v2"}, partitions=2)
    driver.create_input_topic("in").pipe_key_value_list([(f"k{n % 5}", n) for n in range(100)])
    driver.run_ready()
    app = driver.application
    app.commit()
    for task in app._thread.tasks.values():
        store = task.task.stores["counts"]
        if store.get("k1") is not None:
            store.put("k1", (7, 0))
    damage = app.verify_state()
    assert 1 == len(damage)
    assert "k1" in str(damage)
    app.rebuild("counts")
    assert not app.verify_state()
    app.close()
    app.lose_store("counts")
    assert 100 == sum(event.numbers["records"] for event in app.restart())
    assert {f"k{n}": 20 for n in range(5)} == dict(app.store("counts").all())


def test_sessions_that_merge_fill_the_changelog_with_tombstones() -> None:
    """E27, S4-50: a merge deletes the old session and writes the new one: half of a busy changelog is null."""
    builder = ks.StreamsBuilder("sessions")
    sessions = builder.stream("in").group_by_key().windowed_by(ks.SessionWindows.of(gap="5m"))
    sessions.count(store="sessions").to_stream().to("out")
    driver = ks.simulation.ClusterDriver(builder.build(), {"processing_guarantee": "exactly_once_v2"})
    driver.create_input_topic("in").pipe_record_list([("user", n, n) for n in range(10_001)])
    driver.run_ready()
    driver.application.commit()
    raw = ks.Serdes.bytes()
    changes = driver.create_output_topic("sessions-sessions-changelog", raw, raw).read_values_to_list()
    assert (20_001, 10_000) == (len(changes), changes.count(None)), "10,000 merges"


def test_a_rolling_upgrade_never_has_two_versions_on_one_task() -> None:
    """E27, S4-56: one instance after another leaves and returns; every task always has one owner."""
    group = ks.simulation.ConsumerGroup(
        "app", {"in": 12}, auto_offset_reset="earliest", state=1_000, standby_replicas=1
    )
    for name in "ABC":
        group.join(name)
    for name in "ABC":
        group.leave(name)
        assert sorted(group.log.partitions) == sorted(place for mine in group.assignment.values() for place in mine)
        group.advance_wall_clock_time("30s")
        group.join(name)
        group.advance_wall_clock_time("30s")
        assert sorted(group.log.partitions) == sorted(place for mine in group.assignment.values() for place in mine)
    assert [4, 4, 4] == [len(mine) for mine in group.assignment.values()]
    assert not [event for event in group.events("assigned") if "restores" in event.words and event.at_ms], "warm"


# --- E28: a rebalance step by step ------------------------------------------------------------------------------------
def instances(count: int, **options: Any) -> ks.simulation.ConsumerGroup:
    """Twelve tasks on A, B, C and D; each task's state is on its instance."""
    group = ks.simulation.ConsumerGroup("app", {"in": 12}, **options)
    for name in "ABCD"[:count]:
        group.join(name)
        group.advance_wall_clock_time("2h")
    return group


def sizes(group: ks.simulation.ConsumerGroup) -> list[int]:
    """Return the number of tasks by instance."""
    return [len(mine) for mine in group.assignment.values()]


def test_load_is_divided_over_whoever_is_there() -> None:
    """E28, S1-09: one, two, three instances over six partitions: 6; 3 and 3; 2, 2 and 2."""
    group = ks.simulation.ConsumerGroup("app", {"in": 6})
    found = []
    for name in "ABC":
        group.join(name)
        found.append(sizes(group))
    assert [[6], [3, 3], [2, 2, 2]] == found


def test_tasks_stay_where_they_are_and_come_back_to_whom_they_belonged() -> None:
    """E28, S0-41: 4, 4, 4; C crashes: A and B keep theirs and get two each; C returns: only its four move."""
    group = instances(3)
    whole = group.assignment
    group.crash("C")
    group.advance_wall_clock_time("45s")
    assert [6, 6] == sizes(group)
    assert all(set(whole[name]) < set(group.assignment[name]) for name in "AB")
    assert 4 == group.events("rebalanced")[-1].moved
    group.join("C")
    assert whole == group.assignment
    assert 4 == group.events("rebalanced")[-1].moved
    group.crash("A")
    group.join("A")
    assert whole == group.assignment
    assert 0 == group.events("rebalanced")[-1].moved, "back before anyone noticed"


@pytest.mark.parametrize(("protocol", "paused"), [("cooperative", 3), ("eager", 12)])
def test_only_what_moves_is_paused_when_members_cooperate(protocol: Any, paused: int) -> None:
    """E28, S0-43: a fourth instance gets three tasks; nine others keep working, unless the protocol is eager."""
    group = instances(3, protocol=protocol)
    group.join("D")
    last = group.events("rebalanced")[-1]
    assert ([3, 3, 3, 3], 3, paused) == (sizes(group), last.moved, last.paused)


def test_a_task_moves_when_its_new_owner_is_warm() -> None:
    """E28, S0-44, S0-45: 50,000 records behind: two warm up at a time, the old owner keeps working; probes move
    them.
    """
    group = instances(3, state=50_000)
    start, before = group.now_ms, len(group.events)
    group.join("D")
    assert [4, 4, 4, 0] == sizes(group)
    assert ["D", "D"] == list(group.warmups.values())
    group.advance_wall_clock_time("39s")
    assert not group.events[before:]("warmed up")
    group.advance_wall_clock_time("1s")
    assert 2 == len(group.events[before:]("warmed up")), "10,000 behind is near enough"
    assert [4, 4, 4, 0] == sizes(group), "nothing moves before the probe"
    group.advance_wall_clock_time("560s")
    assert [600_000] == [event.at_ms - start for event in group.events[before:]("probed")]
    assert 2 == sizes(group)[3]
    group.advance_wall_clock_time("10m")
    assert [3, 3, 3, 3] == sizes(group)
    assert {} == group.warmups
    assert [2, 1] == [event.moved for event in group.events[before:]("probed")]


def test_a_standby_takes_over_without_restoring() -> None:
    """E28, S2-37: two partitions, three processes: the third has a standby replica and takes over."""
    group = ks.simulation.ConsumerGroup("app", {"in": 2}, standby_replicas=1, state=50_000)
    for name in "ABC":
        group.join(name)
        group.advance_wall_clock_time("20m")
    assert [1, 1, 0] == sizes(group)
    assert "in-0" in group.standbys["C"]
    group.crash("A")
    group.advance_wall_clock_time("45s")
    assert ("in-0",) == group.assignment["C"]
    assert "" == group.events("assigned")[-1].words, "nothing to restore"


def test_an_assignor_of_ones_own_sees_load_and_capacity() -> None:
    """E28, S0-42: capacities 2, 1 and 1 get 6, 3 and 3; a hot task gets an instance alone; nonsense is refused."""
    group = ks.simulation.ConsumerGroup("app", {"in": 12})
    for name, capacity in {"A": 2, "B": 1, "C": 1}.items():
        group.join(name, capacity=capacity)
    assert [6, 3, 3] == sizes(group)

    def by_load(
        loads: Mapping[str, int], capacities: Mapping[str, int], before: Mapping[str, tuple[str, ...]]
    ) -> dict[str, list[str]]:
        given: dict[str, list[str]] = {name: [] for name in capacities}
        for task in sorted(loads, key=lambda task: -loads[task]):
            least = min(given, key=lambda name: sum(loads[each] for each in given[name]) / capacities[name])
            given[least].append(task)
        return given

    hot = ks.simulation.ConsumerGroup("app", {"in": 12}, assignor=by_load, loads={"in-7": 100})
    for name in "ABC":
        hot.join(name)
    assert [("in-7",)] == [mine for mine in hot.assignment.values() if "in-7" in mine]
    twice = ks.simulation.ConsumerGroup(
        "app", {"in": 2}, assignor=lambda loads, members, before: dict.fromkeys(members, loads)
    )
    twice.join("A")
    with pytest.raises(EngineError, match="the assignor returned an invalid assignment") as raised:
        twice.join("B")
    assert "assigned twice: in-0, in-1" == raised.value.detail
