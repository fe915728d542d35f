"""Makes the input: ten payments a second of 60 cards, with a few that are too high, too many or too far apart."""

from __future__ import annotations

import kstreamnb as ks

CARDS = 60
START_MS = 1_790_000_000_000
LOOK = """Look at
  {url}/                          the dashboard
  {url}/stores/latest-alert       the latest alert of each card"""


def cards(start_ms: int = START_MS) -> list[tuple[object, ...]]:
    """Return the limit of each card, known a minute before the first payment."""
    return [("cards", -1, 0, start_ms - 60_000, f"card{n}", {"limit": 200 + 50 * (n % 7)}) for n in range(CARDS)]


def records(first: int, count: int, start_ms: int = START_MS) -> ks.Sample:
    """Return payments by number, 100 ms apart; the first ones come with the cards.

    Args:
        first: number of the first payment.
        count: how many payments.
        start_ms: time of payment 0, in milliseconds since the epoch.
    """
    rows = cards(start_ms) if first == 0 else []
    for n in range(first, first + count):
        card, amount, country = 7 * n % CARDS, 10 + 37 * n % 180, "DE"
        if n % 97 == 11:
            amount = 900  # above every limit
        if n % 131 < 5:
            card = n // 131 % CARDS  # five payments of one card within half a second
        if n % 173 == 60:
            country = "BR"
        rows.append(("card-payments", -1, 0, start_ms + 100 * n, f"card{card}", {"amount": amount, "country": country}))
    return ks.Sample.from_records(rows)
