"""The fraud pipeline: three large payments of a risky user within one session raise an alert."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pytest

import kstreamnb as ks
from tests.semantics.scenario import Engine, Row, Scenario


@dataclass(frozen=True)
class Transaction:
    """The records of the source topic, as JSON."""

    user_id: str
    amount: float
    ts: int


class Transactions(ks.Serde):
    """JSON of a `Transaction`, typed in both directions."""

    name = "transaction"
    _json = ks.Serdes.json()

    def _write(self, value: Transaction) -> bytes:
        return self._json.serialize(asdict(value)) or b""

    def _read(self, data: bytes) -> Transaction:
        return Transaction(**self._json.deserialize(data))


def by_user(_id: str, transaction: dict[str, Any]) -> str:
    """The user of a transaction."""
    return str(transaction["userId"])


def suspicious(_id: str, transaction: dict[str, Any]) -> bool:
    """Both limits are strict."""
    return transaction["amount"] > 1000 and transaction["risk"] > 70


def with_risk(transaction: dict[str, Any], score: int | None) -> dict[str, Any]:
    """Return the transaction with its user's risk, 0 if unknown."""
    return {**transaction, "risk": score or 0}


def three_or_more(_session: ks.Windowed, count: int | None) -> bool:
    """Return whether there are enough transactions; merged sessions are None."""
    return count is not None and count >= 3


def alert(session: ks.Windowed, count: int) -> tuple[str, dict[str, Any]]:
    """The alert, keyed by user."""
    return session.key, {"user": session.key, "count": count, "start": session.start}


def fraud(once: bool = False) -> ks.Topology:
    """All stages; ``once``: one alert per session, when it has closed."""
    builder = ks.StreamsBuilder()
    transactions = builder.stream("transactions")
    scores = builder.global_table("risk-scores", store="global-risk-store", value_serde="long")
    enriched = transactions.left_join(scores, by_user, with_risk)
    enriched.to("enriched")
    windows = ks.SessionWindows.of(gap="5m", grace="30s")
    sessions = enriched.filter(suspicious).group_by(by_user).windowed_by(windows).count(store="session-count-store")
    if once:
        sessions = sessions.suppress(ks.Suppressed.until_window_closes())
    sessions.to_stream().filter(three_or_more).map(alert).to("fraud-alerts")
    return builder.build()


RISKY = Row("risk-scores", "userA", 85, 0)


def transaction(number: int, user: str, amount: float, at: int) -> Row:
    """One transaction."""
    return Row("transactions", f"tx{number}", {"userId": user, "amount": amount}, at)


BURST = (transaction(1, "userA", 1500, 162_000), transaction(2, "userA", 2000, 162_010))
THIRD = transaction(3, "userA", 1800, 162_020)
ALERT = ("userA", {"user": "userA", "count": 3, "start": 162_000}, 162_020)


def test_three_transactions_of_one_session_raise_one_alert(engine: Engine) -> None:
    """S4-30: the alert comes with the third transaction, at its time."""
    engine.check(Scenario(fraud, (RISKY, *BURST, THIRD), {"fraud-alerts": [ALERT]}))


@pytest.mark.parametrize(("once", "counts"), [(False, [3, 4, 5]), (True, [5])])
def test_five_transactions_raise_an_alert_an_update_unless_one_a_session_is_asked_for(
    engine: Engine, once: bool, counts: list[int]
) -> None:
    """S4-30: the pipeline raises an alert at the third update and each later one; the variant waits for the end."""
    rows = (RISKY, *(transaction(n, "userA", 1500, 162_000 + 10 * n) for n in range(5)))
    rows += (transaction(9, "userA", 1500, 162_040 + 5 * 60_000 + 30_001),)
    outcome = engine.run(Scenario(lambda: fraud(once=once), rows, {"fraud-alerts": []}))
    assert counts == [value["count"] for _, value, _ in outcome.topic("fraud-alerts")]


def test_a_user_without_score_has_none(engine: Engine) -> None:
    """S4-25: a left join with the global table; no score is a risk of 0."""
    outcome = engine.run(Scenario(fraud, (RISKY, BURST[0], transaction(9, "userC", 20, 162_001)), {"enriched": []}))
    assert [85, 0] == [value["risk"] for _, value, _ in outcome.topic("enriched")]


@pytest.mark.parametrize(
    ("amount", "score", "passes"), [(1000, 85, False), (1001, 85, True), (1500, 70, False), (1500, 71, True)]
)
def test_both_limits_of_the_filter_are_strict(engine: Engine, amount: float, score: int, passes: bool) -> None:
    """S4-26: amount over 1,000 and risk over 70."""
    rows = (Row("risk-scores", "userA", score, 0), *(transaction(n, "userA", amount, n) for n in range(1, 4)))
    outcome = engine.run(Scenario(fraud, rows, {"fraud-alerts": []}))
    assert passes == bool(outcome.topic("fraud-alerts"))


def test_regrouping_by_user_cuts_the_pipeline_at_a_repartition_topic() -> None:
    """S4-27: sub-topology 1 is the global store; the topic is named after the session store."""
    text = fraud().describe()
    assert "Sub-topology: 0\n" in text
    assert "Sub-topology: 1 for global store (will not generate tasks)\n" in text
    assert "Sub-topology: 2\n" in text
    assert "Sink: session-count-store-repartition-sink (topic: session-count-store-repartition)" in text
    assert "Source: session-count-store-repartition-source (topics: [session-count-store-repartition])" in text


def test_all_transactions_of_a_user_meet_on_one_partition() -> None:
    """S4-27: four partitions of transactions by id, repartitioned by user."""
    driver = ks.TopologyTestDriver(fraud(), partitions={"transactions": 4, "enriched": 4})
    driver.create_input_topic("risk-scores").pipe_input("userA", 85, at=0)
    source = driver.create_input_topic("transactions")
    for number in range(40):
        source.pipe_input(f"tx{number}", {"userId": f"user{number % 3}", "amount": 1500.0}, at=number)
        source.pipe_input(f"ty{number}", {"userId": "userA", "amount": 1500.0}, at=number)
    (moved_through,) = (name for name in driver.produced_topic_names() if name.endswith("-repartition"))
    moved = driver.create_output_topic(moved_through).read_records()
    assert {record.partition for record in source_records(driver)} == {0, 1, 2, 3}
    assert len({record.partition for record in moved}) == len({record.key for record in moved}) == 1


def source_records(driver: ks.TopologyTestDriver) -> list[ks.TopicRecord]:
    """Return the enriched records, with the partitions of the input."""
    return driver.create_output_topic("enriched").read_records()


@pytest.mark.parametrize(("at", "dropped"), [(99_999, 1), (100_000, 0)])
def test_a_transaction_is_late_when_no_session_could_still_take_it(at: int, dropped: int) -> None:
    """S4-32: sessions close at stream time - grace - gap = 430,000 - 30,000 - 300,000."""
    driver = ks.TopologyTestDriver(fraud())
    for row in (RISKY, Row("risk-scores", "userB", 90, 0), transaction(1, "userA", 1500, 430_000)):
        driver.create_input_topic(row.topic).pipe_input(row.key, row.value, at=row.timestamp)
    driver.create_input_topic("transactions").pipe_input("tx2", {"userId": "userB", "amount": 1500}, at=at)
    assert dropped == sum(driver.metrics()["dropped-records-total"].values())


def typed() -> ks.Topology:
    """Only the source: transactions as values of a user's class."""
    builder = ks.StreamsBuilder()
    amounts = builder.stream("transactions", value_serde=Transactions()).map_values(lambda each: each.amount)
    amounts.to("amounts", value_serde="double")
    return builder.build()


def test_a_typed_transaction_survives_the_round_trip_and_a_malformed_one_goes_to_the_dead_letters() -> None:
    """S4-24: good, bad, good with "continue" and a dead-letter topic: two results, one dead letter with its bytes."""
    serde = Transactions()
    one = Transaction("userA", 12.5, 162_000)
    assert one == serde.deserialize(serde.serialize(one))
    config = {"deserialization_handler": "continue", "dead_letter_topic": "dead"}
    driver = ks.TopologyTestDriver(typed(), config)
    raw = driver.create_input_topic("transactions", value_serde="bytes")
    for number, data in enumerate([serde.serialize(one), b'{"userId": ', serde.serialize(one)]):
        raw.pipe_input(f"tx{number}", data, at=number)
    assert [12.5, 12.5] == [each.value for each in driver.create_output_topic("amounts").read_records()]
    (letter,) = driver.create_output_topic("dead", value_serde="bytes").read_records()
    assert b'{"userId": ' == letter.value
    headers = dict(letter.headers)
    assert b"transactions" == headers["__streams.errors.topic"]
    assert b"1" == headers["__streams.errors.offset"]
