"""Checks of the exercises on joins."""

from __future__ import annotations

from collections import Counter

import kstreamnb as ks
from kstreamnb.course.judging import called, run_stream
from kstreamnb.data_files import text_of

_EVENTS = ks.Sample.from_text(text_of(__package__, "joins.txt"))
_PAID = {"o1": ["shoe", 30], "o2": ["boot", None], "o3": ["hat", None], "o5": ["coat", 20], "o6": ["belt", 8]}


def _joined(answer: object) -> str:
    builder = ks.StreamsBuilder("exercise")
    rows = run_stream(builder, called(answer, builder.stream("orders"), builder.stream("payments")), _EVENTS)
    pairs = [(key, list(value)) for key, value in rows if isinstance(value, list | tuple)]
    if len(pairs) < len(rows):
        return "each value is a pair of an order and its payment, such as (order, payment)."
    order, times = Counter(key for key, _ in pairs).most_common(1)[0] if pairs else ("", 0)
    if times > 1:
        return f"the order {order} comes out {times} times: once is enough."
    joined = dict(pairs)
    if "o9" in joined:
        return "the payment o9 has no order, and comes out all the same: which kind of join keeps the left side only?"
    if "o2" not in joined:
        return "the order o2 was never paid, and it does not come out: an inner join drops it."
    if joined.get("o3") != _PAID["o3"]:
        return "the payment of o3 came ten minutes and a millisecond after its order, and was joined."
    for order, item, when in (("o5", "coat", "before"), ("o6", "belt", "after")):
        if joined.get(order) == [item, None]:
            return f"the payment of {order} came exactly ten minutes {when} its order, and is not joined."
    return "" if joined == _PAID else f"the results are {joined}, and not {_PAID}."


JUDGES = {"joins.1": _joined}
