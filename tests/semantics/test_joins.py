"""Joins in typical uses: no contradicted results, one-sided windows, streams against tables."""

from __future__ import annotations

from typing import Any

import kstreamnb as ks
from tests.semantics.scenario import Engine, Row, Scenario, records


def pair(left: Any, right: Any) -> str:
    """Both values as text."""
    return f"{left}/{right or 'null'}"


# --- S0-18: KAFKA-10847 -------------------------------------------------------------------------------------------
def left_join_of_streams() -> ks.Topology:
    """A left join within 10 ms, without grace."""
    builder = ks.StreamsBuilder()
    windows = ks.JoinWindows.of(difference="10ms")
    builder.stream("l").left_join(builder.stream("r"), pair, windows).to("out")
    return builder.build()


NO_SPURIOUS_RESULT = Scenario(
    left_join_of_streams,
    records("l: k→A@0", "r: k→B@5", "l: k→C@20", "r: z→Z@31"),
    {"out": [("k", "A/B", 5), ("k", "C/null", 20)]},
)


def test_a_left_join_gives_no_result_that_a_partner_contradicts(engine: Engine) -> None:
    """S0-18: A found its partner, so A unmatched is never emitted; C is emitted alone once its window has closed."""
    engine.check(NO_SPURIOUS_RESULT)


# --- S0-19: KAFKA-7595 --------------------------------------------------------------------------------------------
def table_joined_with_its_derivative() -> ks.Topology:
    """A table joined with its own rows in capitals."""
    builder = ks.StreamsBuilder()
    table = builder.table("in")
    joined = table.join(table.map_values(str.upper), lambda left, right: f"{left}-{right}")
    joined.to_stream().to("out")
    return builder.build()


DERIVATIVE = Scenario(
    table_joined_with_its_derivative,
    records("in: k→a@0, k→b@1"),
    {"out": [("k", "a-A", 0), ("k", "a-A", 0), ("k", "b-B", 1), ("k", "b-B", 1)]},
)


def test_a_table_joined_with_its_derivative_updates_twice(engine: Engine) -> None:
    """S0-19: one row changes both sides, and each side's change produces a result; the duplicates are correct."""
    engine.check(DERIVATIVE)


# --- S0-20: KAFKA-15417 -------------------------------------------------------------------------------------------
def one_sided_left_join() -> ks.Topology:
    """A left join whose partners come at the same time or up to 10 ms later."""
    builder = ks.StreamsBuilder()
    windows = ks.JoinWindows.of(before="0ms", after="10ms")
    builder.stream("l").left_join(builder.stream("r"), pair, windows).to("out")
    return builder.build()


ONE_SIDED = Scenario(
    one_sided_left_join,
    records("l: k1→A@0, k2→B@5", "r: zz→Z@11, zz→Z@16"),
    {"out": [("k1", "A/null", 0), ("k2", "B/null", 5)]},
)


def test_a_one_sided_window_gives_its_results_in_time(engine: Engine) -> None:
    """S0-20: each waiting record is emitted as soon as its own window has ended."""
    first = Scenario(one_sided_left_join, ONE_SIDED.input[:3], {"out": ONE_SIDED.output["out"][:1]})
    engine.check(first)
    engine.check(ONE_SIDED)


# --- S1-23: clicks, impressions, accounts -------------------------------------------------------------------------
def clicks_and_impressions() -> ks.Topology:
    """Clicks joined with the advertisements seen within ten seconds of them."""
    builder = ks.StreamsBuilder()
    windows = ks.JoinWindows.of(difference="10s")
    builder.stream("impressions").join(builder.stream("clicks"), pair, windows).to("seen")
    return builder.build()


def clicks_and_accounts() -> ks.Topology:
    """Clicks joined with their user's plan at processing time."""
    builder = ks.StreamsBuilder()
    builder.stream("clicks").left_join(builder.table("accounts"), pair).to("planned")
    return builder.build()


CLICKS_AND_IMPRESSIONS = Scenario(
    clicks_and_impressions,
    records(
        "impressions: ann→adA@0",
        "clicks: ann→c1@5000, bob→c3@8000, bob→c4@9500, ann→c5@10000, ann→c6@10001",
        "impressions: bob→adB@18000",
    ),
    {"seen": [
        ("ann", "adA/c1", 5000), ("ann", "adA/c5", 10_000), ("bob", "adB/c3", 18_000), ("bob", "adB/c4", 18_000),
    ]},
)  # fmt: skip

CLICKS_AND_ACCOUNTS = Scenario(
    clicks_and_accounts,
    records(
        "clicks: bob→c2@6000", "accounts: bob→free@7000", "clicks: bob→c3@8000", "accounts: bob→pro@9000",
        "clicks: bob→c4@9500",
    ),
    {"planned": [("bob", "c2/null", 6000), ("bob", "c3/free", 8000), ("bob", "c4/pro", 9500)]},
)  # fmt: skip


def test_two_streams_meet_within_a_window(engine: Engine) -> None:
    """S1-23: a click matches advertisements seen up to ten seconds before or after it, bounds included."""
    engine.check(CLICKS_AND_IMPRESSIONS)


def test_a_stream_meets_the_row_of_the_moment(engine: Engine) -> None:
    """S1-23: a click is joined with the plan known when it is processed; a change of plan alone produces no output."""
    engine.check(CLICKS_AND_ACCOUNTS)


# --- S4-25: enrichment by a global table --------------------------------------------------------------------------
def enriched(transaction: dict[str, Any], score: int | None) -> dict[str, Any]:
    """Return the transaction with its user's risk, 0 if unknown."""
    return {**transaction, "risk": score or 0}


def transactions_with_risk() -> ks.Topology:
    """Each transaction enriched by the risk score of its user, from a global table."""
    builder = ks.StreamsBuilder()
    scores = builder.global_table("risk-scores", store="global-risk-store", value_serde="long")
    transactions = builder.stream("transactions")
    transactions.left_join(scores, enriched, key_selector=lambda key, tx: tx["userId"]).to("enriched")
    return builder.build()


RISK = Scenario(
    transactions_with_risk,
    (
        Row("risk-scores", "userA", 85, 0),
        Row("transactions", "t1", {"userId": "userA", "amount": 10}, 1),
        Row("transactions", "t2", {"userId": "userC", "amount": 20}, 2),
    ),
    {"enriched": [
        ("t1", {"userId": "userA", "amount": 10, "risk": 85}, 1),
        ("t2", {"userId": "userC", "amount": 20, "risk": 0}, 2),
    ]},
)  # fmt: skip


def test_transactions_get_the_risk_of_their_user(engine: Engine) -> None:
    """S4-25: a known user has a score, an unknown one has 0."""
    engine.check(RISK)
