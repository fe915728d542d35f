"""Raises an alert for a payment above the card's limit, for bursts of payments, and for two countries at once."""

from __future__ import annotations

from typing import Any

import kstreamnb as ks

__all__ = ["TOPICS", "build"]

TOPICS = {"card-payments": 4, "cards": 4, "fraud-alerts": 4}
"""Topics with their partitions; payments and cards are joined, so they have as many."""

BURST, TRAVEL_MS = 4, 600_000
Payment = dict[str, Any]


def with_limit(payment: Payment, card: dict[str, Any] | None) -> Payment:
    """Return the payment with the limit of its card; a card that is unknown has none left."""
    return {**payment, "limit": card["limit"] if card else 0}


def above_limit(_card: str, payment: Payment) -> bool:
    """Return whether the payment exceeds the limit."""
    return payment["amount"] > payment["limit"]


def limit_alert(payment: Payment) -> dict[str, Any]:
    """Return the alert for a single payment."""
    return {"rule": "limit", "detail": f"{payment['amount']} of at most {payment['limit']}"}


def is_burst(_session: ks.Windowed[str], count: int | None) -> bool:
    """Return whether the session has just become a burst; one that was merged into another has no count."""
    return count == BURST


def burst_alert(session: ks.Windowed[str], count: int) -> tuple[str, dict[str, Any]]:
    """Return the alert for payments in a row, under the card."""
    return session.key, {"rule": "burst", "detail": f"{count} in {(session.end - session.start) // 1000} s"}


class Travel(ks.FixedKeyProcessor[str, Payment, dict[str, Any]]):
    """Forwards an alert if a card pays in another country less than ten minutes after its last payment."""

    def init(self, context: ks.ProcessorContext) -> None:
        """Get the store: country and time of each card's last payment."""
        super().init(context)
        self.last = context.get_state_store("last-payment")

    def process(self, record: ks.Record[str, Payment]) -> None:
        """Compare with the last payment, and remember this one."""
        country, last = record.value["country"], self.last.get(record.key)
        self.last.put(record.key, {"country": country, "at": record.timestamp})
        if last and last["country"] != country and abs(record.timestamp - last["at"]) < TRAVEL_MS:
            self.context.forward(record.with_value({"rule": "travel", "detail": f"{last['country']}, then {country}"}))


def rule_of(_card: str, alert: dict[str, Any]) -> str:
    """Return the rule that an alert is from."""
    return str(alert["rule"])


def build() -> ks.Topology:
    """Payments and cards to alerts; the stores "alerts-per-minute" and "latest-alert" are the dashboard's."""
    builder = ks.StreamsBuilder("fraud")
    builder.add_state_store(ks.Stores.persistent_key_value_store("last-payment"))
    payments, cards = builder.stream("card-payments"), builder.table("cards", store="cards")
    limit = payments.left_join(cards, with_limit).filter(above_limit).map_values(limit_alert)
    sessions = payments.group_by_key().windowed_by(ks.SessionWindows.of(gap="5s", grace="10s"))
    counts = sessions.count(store="bursts", cached=False)  # a cache would skip counts between two commits
    burst = counts.to_stream().filter(is_burst).map(burst_alert)
    alerts = limit.merge(burst).merge(payments.process_values(Travel, "last-payment"))
    alerts.to("fraud-alerts")
    minutes = alerts.group_by(rule_of, name="by-rule").windowed_by(ks.TimeWindows.of(size="1m", grace="1h"))
    minutes.count(store="alerts-per-minute")
    alerts.group_by_key(name="by-card").reduce(lambda _earlier, latest: latest, store="latest-alert")
    return builder.build()
