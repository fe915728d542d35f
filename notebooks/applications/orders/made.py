"""Makes the input: ten orders a second, of which some are unpaid, paid twice or beyond the stock."""

from __future__ import annotations

import kstreamnb as ks

PRODUCTS = ("shoe", "hat", "coat", "belt", "scarf")
START_MS = 1_790_000_000_000
LOOK = """Look at
  {url}/orders/o1          an order and its status
  {url}/stores/stock       what is in stock"""


def records(first: int, count: int, start_ms: int = START_MS) -> ks.Sample:
    """Return orders by number, with their payments and the deliveries between them.

    Args:
        first: number of the first order.
        count: how many orders.
        start_ms: time of order 0, in milliseconds since the epoch; orders are 100 ms apart.
    """
    rows: list[tuple[object, ...]] = []
    for n in range(first, first + count):
        at, product = start_ms + 100 * n, PRODUCTS[n % len(PRODUCTS)]
        pieces = 1 + n % 3
        if n % 50 < len(PRODUCTS):  # a delivery of each product every five seconds: a little less than is ordered
            rows.append(("stock", -1, 0, at, product, {"delivered": 18}))
        rows.append(("orders", -1, 0, at, f"o{n}", {"product": product, "pieces": pieces, "amount": 20 * pieces}))
        if n % 10 != 7:
            rows.append(("payments", -1, 0, at + 40, f"o{n}", {"amount": 20 * pieces}))
        if n % 25 == 3:
            rows.append(("payments", -1, 0, at + 60, f"o{n}", {"amount": 20 * pieces}))
    return ks.Sample.from_records(rows)
