"""Checks of the exercises on joins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import kstreamnb as ks

_EVENTS = ks.Sample.from_text("""
topic    | key | value | time
orders   | o1  | shoe  | 0
payments | o1  | 30    | 60000
orders   | o2  | boot  | 120000
payments | o9  | 99    | 180000
orders   | o3  | hat   | 300000
payments | o3  | 12    | 900001
orders   | o4  | sock  | 4000000
""")
_PAID = {"o1": ["shoe", 30], "o2": ["boot", None], "o3": ["hat", None]}
_Stream: TypeAlias = "ks.KStream[object, object]"


def _joined(answer: object) -> str:
    builder = ks.StreamsBuilder("answer")
    orders, payments = builder.stream("orders"), builder.stream("payments")
    made = cast("Callable[[_Stream, _Stream], _Stream | None]", answer)(orders, payments)
    if made is None:
        return "the function returns nothing: return the joined stream."
    made.to("paid")
    rows = ks.replay(builder.build(), _EVENTS).output("paid")
    joined = {record.key: list(record.value) for record in rows if isinstance(record.value, list | tuple)}
    if len(joined) < len(rows):
        return "each value is a pair of an order and its payment, such as (order, payment)."
    if "o9" in joined:
        return "the payment o9 has no order, and comes out all the same: which kind of join keeps the left side only?"
    if "o2" not in joined:
        return "the order o2 was never paid, and it does not come out: an inner join drops it."
    if joined.get("o3") != _PAID["o3"]:
        return "the payment of o3 came ten minutes and a millisecond after its order, and was joined."
    return "" if joined == _PAID else f"the results are {joined}, and not {_PAID}."


JUDGES = {"joins.1": _joined}
