"""The time that a record, a query and a lookup take in the driver, in CPU time, so that a busy machine changes
little; and not under a tracer, whose time is not the driver's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import kstreamnb as ks


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process; a tracer, as that of coverage, rests meanwhile."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        start = time.process_time()
        work()
        return time.process_time() - start
    finally:
        sys.settrace(tracer)


def test_one_record_through_five_nodes_with_state_takes_less_than_a_millisecond() -> None:
    """S1-01: records are processed one by one; p99 of 2,000, in the best of three rounds."""
    builder = ks.StreamsBuilder("prompt")
    words = builder.stream("in").filter(lambda key, value: value > 0).map_values(lambda value: value * 2)
    words.group_by_key().count(store="counts").to_stream().to("out", value_serde="long")
    topic = ks.TopologyTestDriver(builder.build()).create_input_topic("in")
    rounds = [
        sorted(seconds(partial(topic.pipe_input, "k", 1, at=number)) for number in range(start, start + 2_000))
        for start in (0, 2_000, 4_000)
    ]
    assert min(times[int(len(times) * 0.99)] for times in rounds) < 0.001


def test_ten_thousand_gets_for_one_request_take_less_than_100_ms() -> None:
    """S1-33: the state is local to the query, so a request may read much of it."""
    builder = ks.StreamsBuilder("much")
    builder.table("prices", store="prices", value_serde="integer")
    driver = ks.TopologyTestDriver(builder.build())
    driver.pipe(ks.TopicRecord("prices", -1, -1, 0, f"k{number}", number) for number in range(10_000))
    store = driver.get_key_value_store("prices")
    assert store is not None
    assert min(seconds(lambda: [store.get(f"k{number}") for number in range(10_000)]) for _ in range(3)) < 0.1


def test_looking_up_a_row_of_a_global_table_does_not_depend_on_how_many_there_are() -> None:
    """S4-33: a transaction looks up one row; 100 or 100,000 rows take the same time, within a factor of 1.5."""
    look_ups = [_look_ups(rows) for rows in (100, 10_000, 100_000)]
    rounds = [[seconds(look_up) for look_up in look_ups] for _ in range(20)]  # in turns: a machine's speed varies
    small, medium, large = (min(times) for times in zip(*rounds, strict=True))
    assert max(medium, large) < 1.5 * small


def _look_ups(rows: int) -> Callable[[], object]:
    """5,000 lookups in a table of that many rows."""
    builder = ks.StreamsBuilder("look-up")
    accounts = builder.global_table("accounts", value_serde="integer")
    transactions = builder.stream("transactions", value_serde="integer")
    transactions.join(accounts, lambda key, value: key, lambda amount, limit: amount > limit).to(
        "out", value_serde="boolean"
    )
    driver = ks.TopologyTestDriver(builder.build())
    driver.pipe(ks.TopicRecord("accounts", -1, -1, 0, f"a{number}", 10) for number in range(rows))
    asked = [ks.TopicRecord("transactions", -1, -1, number, f"a{number % 100}", number) for number in range(5_000)]
    return lambda: driver.pipe(asked)
