"""The fraud pipeline as a module: what a repository would hold, and a regression notebook would import."""

from __future__ import annotations

from typing import Any

import kstreamnb as ks

__all__ = ["build"]


def add_risk(transaction: dict[str, Any], score: int | None) -> dict[str, Any]:
    """The transaction with its user's risk, 0 where none is known."""
    return {**transaction, "risk": score or 0}


def by_user(_id: str, transaction: dict[str, Any]) -> str:
    """The user of a transaction."""
    return str(transaction["user"])


def suspicious(_id: str, transaction: dict[str, Any]) -> bool:
    """A high amount by a risky user."""
    return bool(transaction["amount"] > 1000 and transaction["risk"] > 70)


def three_or_more(_session: ks.Windowed, count: int | None) -> bool:
    """Enough transactions; a session that was merged into a longer one has none."""
    return count is not None and count >= 3


def alert(session: ks.Windowed, count: int) -> tuple[str, dict[str, Any]]:
    """The alert, keyed by user."""
    return session.key, {"user": session.key, "count": count, "start": session.start}


def build() -> ks.Topology:
    """Three suspicious transactions of a user, with gaps of at most five minutes, are an alert."""
    builder = ks.StreamsBuilder("fraud")
    scores = builder.global_table("risk-scores", store="global-risk-store")
    risky = builder.stream("transactions").left_join(scores, add_risk, key_selector=by_user).filter(suspicious)
    sessions = risky.group_by(by_user).windowed_by(ks.SessionWindows.of(gap="5m", grace="30s"))
    counts = sessions.count(store="session-count-store").to_stream()
    counts.filter(three_or_more).map(alert).to("fraud-alerts")
    return builder.build()
