"""In any sequence of events in a consumer group, each partition has one owner, loads are even, and moves are
minimal.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import kstreamnb as ks

PARTITIONS = 7
EVENTS = st.lists(
    st.tuples(st.sampled_from(["join", "leave", "crash", "wait", "poll", "commit"]), st.sampled_from("ABCD")),
    max_size=30,
)


def happen(group: ks.simulation.ConsumerGroup, what: str, name: str) -> tuple[tuple[str, int], ...]:
    """Apply an event if it is possible; return the records delivered."""
    crashed = {each.name for each in group._members.values() if each.silent_since_ms is not None}
    is_alive = name in group.assignment and name not in crashed
    if what == "wait":
        group.advance_wall_clock_time("1m")
    elif what == "join" and not is_alive:
        group.join(name)
    elif what in ("leave", "crash") and is_alive:
        getattr(group, what)(name)
    elif what in ("poll", "commit") and is_alive:
        group.log.append("in-0", 3)
        taken = group.poll(name, max_records=2, timeout="0s")
        if what == "commit":
            group.commit(name)
        return taken
    return ()


@given(EVENTS, st.sampled_from(["cooperative", "eager"]))
def test_each_partition_has_one_owner_and_everybody_about_as_many(events: list[tuple[str, str]], protocol: str) -> None:
    """S0-41, S0-50, S2-17: also while a member has crashed undetected."""
    group = ks.simulation.ConsumerGroup("g", {"in": PARTITIONS}, protocol=protocol, auto_offset_reset="earliest")
    for what, name in events:
        before, alive = group.assignment, set(group.assignment)
        happen(group, what, name)
        owned = [place for mine in group.assignment.values() for place in mine]
        assert sorted(owned) == (sorted(group.log.partitions) if group.assignment else [])
        sizes = [len(mine) for mine in group.assignment.values()]
        assert max(sizes, default=0) - min(sizes, default=0) <= 1
        if set(group.assignment) == alive:
            assert before == group.assignment, "nobody came or went, and nothing moved"
        elif set(group.assignment) < alive:
            assert all(set(before[each]) <= set(mine) for each, mine in group.assignment.items()), (
                "everybody kept theirs"
            )


@given(EVENTS)
def test_every_record_is_delivered_at_least_once(events: list[tuple[str, str]]) -> None:
    """S2-19, S2-22: committed records were delivered; the last member gets the rest."""
    group = ks.simulation.ConsumerGroup("g", {"in": 2}, auto_offset_reset="earliest")
    delivered: set[tuple[str, int]] = set()
    for what, name in events:
        delivered |= set(happen(group, what, name))
        committed, _ = group.committed.get("in-0", (0, ""))
        assert delivered >= {("in-0", offset) for offset in range(committed)}
    for name in group.assignment:
        happen(group, "crash", name)
    group.advance_wall_clock_time("1m")
    group.join("last")
    delivered |= set(group.poll("last", max_records=1000))
    assert delivered == {("in-0", offset) for offset in range(group.log["in-0"].high)}
