"""Windows in typical uses: late sales, bursts of clicks, sessions of transactions, final results."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kstreamnb as ks
from tests.semantics.scenario import Engine, Row, Scenario, records

MINUTE = 60_000


def by_window(windowed: Any, value: Any) -> str:
    """A windowed key as text."""
    return f"{windowed.key}@{windowed.start}/{windowed.end}"


# --- S1-24, S1-25 -------------------------------------------------------------------------------------------------
def sales(grace: str) -> ks.Topology:
    """Sales of each product in ten minutes."""
    builder = ks.StreamsBuilder()
    windows = ks.TimeWindows.of(size="10m", grace=grace)
    counts = builder.stream("sales").group_by_key().windowed_by(windows).count(store="sales-per-window")
    counts.to_stream(by_window).to("counts")
    return builder.build()


SALES = tuple(
    Row("sales", "shoe", "x", at) for at in (60_000, 540_000, 660_000, 480_000, 899_999, 900_000, 599_000, 720_000)
)
FIRST, SECOND = "shoe@0/600000", "shoe@600000/1200000"
COUNTS = [
    (FIRST, 1, 1 * MINUTE),
    (FIRST, 2, 9 * MINUTE),
    (SECOND, 1, 11 * MINUTE),
    (FIRST, 3, 9 * MINUTE),
    (SECOND, 2, 899_999),
    (SECOND, 3, 15 * MINUTE),
    (SECOND, 4, 15 * MINUTE),
]


def test_a_count_is_refined_until_its_window_has_closed(engine: Engine) -> None:
    """S1-24: with five minutes of grace the sale at 9:59 is too late once a sale at 15:00 was seen."""
    engine.check(Scenario(lambda: sales("5m"), SALES, {"counts": COUNTS}))


def test_with_a_longer_grace_nothing_is_late(engine: Engine) -> None:
    """S1-24: with a day of grace it is counted, at the time of the latest sale of its window."""
    counts = [*COUNTS[:6], (FIRST, 4, 599_000), COUNTS[6]]
    engine.check(Scenario(lambda: sales("24h"), SALES, {"counts": counts}))


def test_the_late_sale_is_counted_as_dropped_and_a_window_is_part_of_its_key() -> None:
    """S1-24, S1-25: one record dropped; read as a table downstream there is one row for each product and window."""
    driver = ks.TopologyTestDriver(sales("5m"))
    for row in SALES:
        driver.create_input_topic("sales").pipe_input(row.key, row.value, at=row.timestamp)
    assert 1 == sum(driver.metrics()["dropped-records-total"].values())
    builder, windowed = ks.StreamsBuilder(), ks.Serdes.time_windowed(ks.Serdes.string(), "10m")
    windows = ks.TimeWindows.of(size="10m", grace="5m")
    counts = builder.stream("sales").group_by_key().windowed_by(windows).count()
    counts.to_stream().to("refined", key_serde=windowed, value_serde="long")
    builder.table("refined", key_serde=windowed, value_serde="long", store="latest")
    second = ks.TopologyTestDriver(builder.build())
    for row in SALES:
        second.create_input_topic("sales").pipe_input(row.key, row.value, at=row.timestamp)
    latest = second.get_key_value_store("latest")
    assert latest is not None
    assert {("shoe", 0, 10 * MINUTE): 3, ("shoe", 10 * MINUTE, 20 * MINUTE): 4} == {
        (window.key, window.start, window.end): count for window, count in latest.all()
    }


@given(st.permutations(SALES))
def test_within_the_grace_the_order_of_arrival_does_not_matter(shuffled: list[Row]) -> None:
    """S1-03: every order of the same sales ends with the same counts."""
    driver = ks.TopologyTestDriver(sales("24h"))
    topic = driver.create_input_topic("sales")
    for row in shuffled:
        topic.pipe_input(row.key, row.value, at=row.timestamp)
    store = driver.get_window_store("sales-per-window")
    assert {0: 4, 600_000: 4} == {windowed.start: count for windowed, count in store.all()}


# --- S2-53 --------------------------------------------------------------------------------------------------------
def browsers() -> ks.Topology:
    """Actions of each browser in five seconds, every two seconds."""
    builder = ks.StreamsBuilder()
    windows = ks.TimeWindows.of(size="5s", advance="2s")
    counts = builder.stream("log").group_by_key().windowed_by(windows).count(store="counterStore")
    counts.to_stream(by_window).to("counts")
    return builder.build()


def seconds(of_minute: float) -> int:
    """A time at 14:11."""
    return round((14 * 3600 + 11 * 60 + of_minute) * 1000)


ACTIONS = [("Y0", 55.0), ("Y2", 55.5), ("Y3", 56.0), ("Y3", 56.2), ("Y4", 56.5)]
ACTIONS += [("Y3", at) for at in (57.0, 58.0, 58.2, 58.4)]
LAST = {
    52: {"Y0": 1, "Y2": 1, "Y3": 2, "Y4": 1},
    54: {"Y0": 1, "Y2": 1, "Y3": 6, "Y4": 1},
    56: {"Y3": 6, "Y4": 1},
    58: {"Y3": 3},
}


def test_an_action_counts_in_every_window_that_it_is_in(engine: Engine) -> None:
    """S2-53: nine actions give 24 updates and eleven rows."""
    rows = tuple(Row("log", browser, "x", seconds(at)) for browser, at in ACTIONS)
    updates = engine.run(Scenario(browsers, rows, {"counts": []})).topic("counts")
    expected = {
        f"{browser}@{seconds(start)}/{seconds(start + 5)}": count
        for start, counts in LAST.items()
        for browser, count in counts.items()
    }
    assert (24, expected) == (len(updates), {key: count for key, count, _ in updates})


# --- S4-28 to S4-30 -----------------------------------------------------------------------------------------------
def alerts() -> ks.Topology:
    """Three or more transactions of a user in one session."""
    builder = ks.StreamsBuilder()
    windows = ks.SessionWindows.of(gap="5m", grace="30s")
    counts = builder.stream("tx").group_by_key().windowed_by(windows).count(store="session-count-store")
    sessions = counts.to_stream()
    sessions.select_key(by_window).to("sessions")
    many = sessions.filter(lambda session, count: count is not None and count >= 3)
    many.map(lambda session, count: (session.key, [count, session.start])).to("fraud-alerts")
    return builder.build()


FRAUD = Scenario(
    alerts,
    records("tx: userA→x@162000, userA→x@162010, userA→x@162020"),
    {
        "sessions": [
            ("userA@162000/162000", 1, 162_000),
            ("userA@162000/162000", None, 162_000),
            ("userA@162000/162010", 2, 162_010),
            ("userA@162000/162010", None, 162_010),
            ("userA@162000/162020", 3, 162_020),
        ],
        "fraud-alerts": [("userA", [3, 162_000], 162_020)],
    },
)


def test_three_transactions_in_one_session_raise_one_alert(engine: Engine) -> None:
    """S4-29, S4-30: a growing session is deleted and written again; the third transaction is the alert."""
    engine.check(FRAUD)


def test_the_store_holds_the_session_as_it_is_now() -> None:
    """S4-29: one session of three transactions, and nothing of those that it replaced."""
    driver = ks.TopologyTestDriver(alerts())
    for row in FRAUD.input:
        driver.create_input_topic("tx").pipe_input(row.key, row.value, at=row.timestamp)
    sessions = driver.get_session_store("session-count-store")
    assert sessions is not None
    assert [(162_000, 162_020, 3)] == [(session.start, session.end, n) for session, n in sessions.fetch("userA")]


@pytest.mark.parametrize(("gap_ms", "alerts_raised"), [(300_000, 1), (300_001, 0)])
def test_the_gap_belongs_to_the_session(engine: Engine, gap_ms: int, alerts_raised: int) -> None:
    """S4-28: records five minutes apart share a session; a millisecond more starts a new one."""
    rows = tuple(Row("tx", "userA", "x", n * gap_ms) for n in range(3))
    assert alerts_raised == len(engine.run(Scenario(alerts, rows, {"fraud-alerts": []})).topic("fraud-alerts"))


def test_a_function_that_fails_on_the_null_of_a_session_merge_is_told_why() -> None:
    """S4-31: ``count >= 3`` fails at the second transaction; a plain counter's null has another cause and no hint."""
    for windows, hint in (
        (ks.SessionWindows.of(gap="5m"), "a session merge emits null for the session that it replaces"),
        (ks.TimeWindows.of(size="5m"), None),
    ):
        builder = ks.StreamsBuilder()
        counts = builder.stream("tx").group_by_key().windowed_by(windows).count().to_stream()
        counts.map_values(lambda count: None if count == 2 else count).filter(lambda _, count: count >= 3).to("many")
        with ks.TopologyTestDriver(builder.build(), partitions=1) as driver:
            topic = driver.create_input_topic("tx")
            topic.pipe_input("userA", "x", at=0)
            with pytest.raises(ks.errors.ProcessingError, match="failed with TypeError") as caught:
                topic.pipe_input("userA", "x", at=1)
        assert caught.value.node.startswith("KSTREAM-FILTER")
        assert (caught.value.hint or "").startswith(hint or "")
        assert (caught.value.hint is None) == (hint is None)


# --- final results ------------------------------------------------------------------------------------------------
def finals(how: str) -> ks.Topology:
    """Counts of ten milliseconds that are emitted once, by suppression or on window close."""
    builder = ks.StreamsBuilder()
    windowed = builder.stream("in").group_by_key().windowed_by(ks.TimeWindows.of(size="10ms", grace="2ms"))
    if how == "suppress":
        counts = windowed.count().suppress(ks.Suppressed.until_window_closes())
    else:
        windowed = windowed.emit_strategy(ks.EmitStrategy.on_window_close())
        counts = windowed.count(materialized=ks.Materialized("counts").with_retention("1s"))
    counts.to_stream(by_window).to("out")
    return builder.build()


@pytest.mark.parametrize("how", ["suppress", "emit on close"])
def test_a_final_result_comes_once_when_its_window_has_closed(engine: Engine, how: str) -> None:
    """Late records within the grace are included; the result carries the time of its latest record."""
    rows = records("in: a→x@1, b→x@4, a→x@11, a→x@3, c→x@12, a→x@2, c→x@40")
    expected = [("a@0/10", 2, 3), ("b@0/10", 1, 4), ("a@10/20", 1, 11), ("c@10/20", 1, 12)]
    engine.check(Scenario(lambda: finals(how), rows, {"out": expected}))
