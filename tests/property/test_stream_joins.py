"""Stream joins equal a short specification over the whole set of records, in any order of arrival."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.serdes import Serdes
from kstreamnb.core.windows import JoinWindows
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver

EARLIEST_MS, LATEST_MS, GRACE_MS, END_MS = 20, 60, 50, 1_000

Sided = tuple[str, str, int]
"""Side, key and timestamp of a record, which is named by its place in the input."""

records = st.lists(
    st.tuples(st.sampled_from(["left", "right"]), st.sampled_from("ab"), st.integers(EARLIEST_MS, LATEST_MS)),
    max_size=16,
)
spans = st.tuples(st.integers(-10, 15), st.integers(-10, 15)).filter(lambda span: -span[0] <= span[1])


def expected(fed: list[Sided], before: int, after: int, how: str) -> Counter[Any]:
    """Return pairs of one key whose right record is within the bounds; and unmatched records, if kept."""
    sides = {
        side: [(n, key, at) for n, (where, key, at) in enumerate(fed) if where == side] for side in ("left", "right")
    }
    found: Counter[Any] = Counter()
    with_partner = set()
    for n, key, at in sides["left"]:
        for m, other, then in sides["right"]:
            if key == other and at - before <= then <= at + after:
                found[key, f"{n}/{m}", max(at, then)] += 1
                with_partner |= {n, m}
    for side, text in (("left", "{}/None"), ("right", "None/{}")):
        if how == "outer" or (how == "left" and side == "left"):
            found.update((key, text.format(n), at) for n, key, at in sides[side] if n not in with_partner)
    return found


@pytest.mark.parametrize("in_time", [True, False])
@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@given(records, spans, st.randoms(use_true_random=False))
def test_any_order_within_the_grace_gives_every_pair_once(
    how: str, in_time: bool, fed: list[Sided], span: tuple[int, int], chance: Any
) -> None:
    """S0-29: one-sided and negative bounds too; in time order, each unmatched record also appears once.

    Out of order, Kafka may emit an unmatched record before its partner arrives, and so does this join.
    """
    before, after = span
    builder = StreamsBuilder("pairs")
    left, right = (builder.stream(topic, value_serde=Serdes.string()) for topic in ("left", "right"))
    windows = JoinWindows.of(before=f"{before}ms", after=f"{after}ms", grace=f"{GRACE_MS}ms")
    join = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[how]
    join(right, lambda a, b: f"{a}/{b}", windows).to("out", value_serde=Serdes.string())
    order = list(enumerate(fed))
    chance.shuffle(order)
    if in_time:
        order.sort(key=lambda named: named[1][2])
    with TopologyTestDriver(builder.build()) as driver:
        topics = {side: driver.create_input_topic(side) for side in ("left", "right")}
        for name, (side, key, at) in order:
            topics[side].pipe_input(key, f"{name}", at=at)
        for topic in topics.values():
            topic.pipe_input("the end", "x", at=END_MS)
        out = driver.create_output_topic("out").read_records()
    found = Counter((record.key, record.value, record.timestamp) for record in out if record.key != "the end")
    wanted = expected(fed, before, after, how)
    alone = {result for result in found | wanted if "None" in result[1]}
    assert all(found[result] >= wanted[result] for result in alone)
    if in_time or how == "inner":
        assert wanted == found
    else:
        assert {result for result in wanted if result not in alone} == {
            result for result in found if result not in alone
        }
