"""Windowed joins of two streams, one record at a time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.time import MAX_TIME_MS
from kstreamnb.operators.stream_joins import JoinWindow, StreamSelfJoin, StreamStreamJoin
from tests.unit.operators.fake_context import FakeContext


def pair(left: Any, right: Any) -> str:
    """Both values as text, ``-`` for a missing one."""
    return f"{left or '-'}/{right or '-'}"


class Streams:
    """Two joined streams: feed ``left`` and ``right``, get the results of each record."""

    def __init__(
        self,
        how: str,
        before: int = 10,
        after: int = 10,
        grace: int = 0,
        *,
        legacy: bool = False,
        joiner: Any = pair,
        with_key: bool = False,
        persistent: bool = True,
    ) -> None:
        kept = {"window_size_ms": before + after, "retention_ms": before + after + grace, "persistent": persistent}
        windows = [StoreSpec(name, "window", retain_duplicates=True, **kept) for name in ("left", "right")]
        pending = how != "inner" and not legacy
        waiting = StoreSpec("waiting", "internal", extra={"type": "pending_joins"})
        self.context = FakeContext(*windows, *([waiting] if pending else []))
        common = {
            "before_ms": before, "after_ms": after, "grace_ms": grace, "joiner": joiner, "with_key": with_key,
            "pending_store": "waiting" if pending else None,
        }  # fmt: skip
        left = StreamStreamJoin(True, "right", outer=how != "inner", **common)
        right = StreamStreamJoin(False, "left", outer=how == "outer", **common)
        self.left = self._side(left, "left")
        self.right = self._side(right, "right")

    def _side(self, join: StreamStreamJoin, store: str) -> Any:
        bound = self.context.bind(join, node=f"join-{store}")._process
        return self.context.bind(JoinWindow(store), node=f"window-{store}", forward=bound)


def test_records_within_the_window_meet_both_bounds_included() -> None:
    """A left record matches right records from before to after, and the result has the later time."""
    s = Streams("inner", before=3, after=5, grace=100)
    for at in (6, 7, 10, 15, 16):
        assert s.right("k", f"r{at}", at) == []
    assert s.left("k", "l", 10) == [("k", "l/r7", 10), ("k", "l/r10", 10), ("k", "l/r15", 15)]
    assert s.left("other", "l", 10) == []
    assert s.right("k", "r", 13) == [("k", "l/r", 13)]


def test_bounds_may_lie_on_one_side_of_the_record() -> None:
    """With a negative bound only records that are later by at least that much match."""
    s = Streams("inner", before=-2, after=5, grace=100)
    for at in (10, 11, 12, 15, 16):
        s.right("k", f"r{at}", at)
    assert s.left("k", "l", 10) == [("k", "l/r12", 12), ("k", "l/r15", 15)]


def test_an_inner_join_has_nothing_that_expires_even_at_the_end_of_time() -> None:
    """With a negative bound the wait for a partner is negative, too, which matters at the last timestamp."""
    s = Streams("inner", before=10, after=-5)
    s.right("k", "r", MAX_TIME_MS - 7)
    assert s.left("k", "l", MAX_TIME_MS) == [("k", "l/r", MAX_TIME_MS)]


def test_records_of_one_time_meet_in_the_order_of_their_arrival() -> None:
    """Records with equal times are all kept, in order."""
    s = Streams("inner")
    for value in ("b", "a", "b"):
        s.right("k", value, 4)
    assert s.left("k", "l", 4) == [("k", "l/b", 4), ("k", "l/a", 4), ("k", "l/b", 4)]


def test_the_joiner_may_ask_for_the_key_and_the_trigger_gives_the_headers() -> None:
    """The joiner gets left before right, whichever side came last; headers are those of the last record."""
    s = Streams("inner", joiner=lambda key, left, right: f"{key}:{left}{right}", with_key=True)
    s.left("k", "l", 1, (("from", b"left"),))
    assert s.right("k", "r", 2, (("from", b"right"),)) == [("k", "k:lr", 2, (("from", b"right"),))]


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_null_keys_and_values_join_nothing(how: str) -> None:
    """A null value is dropped; a null key too, unless its side is kept unmatched."""
    s = Streams(how)
    assert s.left("k", None, 1) == []
    assert s.left(None, "l", 1) == ([] if how == "inner" else [(None, "l/-", 1)])
    assert s.right(None, "r", 1) == ([(None, "-/r", 1)] if how == "outer" else [])
    assert s.right(None, None, 1) == []
    expected = {"inner": ["null value", *["null key"] * 3], "left": ["null value", "null key", "null key"]}
    assert expected.get(how, ["null value", "null key"]) == s.context.reasons()


def test_no_result_is_given_that_a_later_partner_contradicts() -> None:
    """KAFKA-10847: the unmatched record is emitted once its window has ended, not before."""
    s = Streams("left")
    assert s.left("k", "A", 0) == []
    assert s.right("k", "B", 5) == [("k", "A/B", 5)]
    assert s.left("k", "C", 20) == []
    assert s.right("z", "Z", 30) == []
    assert s.right("z", "Z", 31) == [("k", "C/-", 20)]


def test_windows_on_one_side_end_on_time() -> None:
    """KAFKA-15417: each side waits for its own bound, not for the other's."""
    s = Streams("left", before=0, after=10)
    s.left("k1", "A", 0)
    s.left("k2", "B", 5)
    assert s.right("zz", "Z", 11) == [("k1", "A/-", 0)]
    assert s.right("zz", "Z", 16) == [("k2", "B/-", 5)]
    o = Streams("outer", before=0, after=10)
    o.right("k", "R", 3)
    assert o.right("z", "Z", 4) == [("k", "-/R", 3)]


def test_grace_lets_late_partners_come_but_not_late_starters() -> None:
    """With grace a waiting record waits longer, but a record that arrives after its window is emitted at once."""
    s = Streams("left", before=5, after=5, grace=10)
    s.left("k", "A", 0)
    assert s.right("z", "Z", 14) == []
    assert s.right("k", "B", 4) == [("k", "A/B", 4)]
    assert s.left("k2", "C", 8) == [("k2", "C/-", 8)]
    s.left("k3", "D", 9)
    assert s.right("z", "Z", 24) == []
    assert s.right("z", "Z", 25) == [("k3", "D/-", 9)]


def test_waiting_records_are_given_by_time_right_before_left_then_by_key() -> None:
    """The order of unmatched results does not depend on arrival; headers are the trigger's."""
    s = Streams("outer", before=5, after=5)
    for side, key, value, at in (
        (s.left, "b", "l1", 3), (s.left, "a", "l2", 3), (s.right, "c", "r1", 3), (s.left, "z", "l3", 2),
        (s.left, "b", "l4", 3),
    ):  # fmt: skip
        assert side(key, value, at) == []
    trigger = (("by", b"x"),)
    expected = [("z", "l3/-", 2), ("c", "-/r1", 3), ("a", "l2/-", 3), ("b", "l1/-", 3), ("b", "l4/-", 3)]
    assert [(*record, trigger) for record in expected] == s.left("x", "X", 20, trigger)


def test_the_search_for_expired_records_ends_where_kafka_ends_it() -> None:
    """The search stops once both sides are open; its end position decides when it is repeated."""
    s = Streams("outer", before=10, after=5)
    early = [(s.left, "x", 2), (s.right, "b", 3), (s.right, "m", 8), (s.left, "y", 13), (s.left, "y", 13)]
    for side, key, at in [*early, (s.right, "a", 16), (s.left, "q", 18)]:
        side(key, key, at)
    expected = [("m", "-/m", 8), ("y", "y/-", 13), ("y", "y/-", 13)]
    assert expected == s.left("w", "w", 20)


def test_windows_of_the_old_kind_give_a_result_at_once() -> None:
    """Deprecated windows emit the unmatched result at once, even if a partner follows."""
    s = Streams("outer", legacy=True)
    assert s.left("k", "A", 0) == [("k", "A/-", 0)]
    assert s.right("k", "B", 1) == [("k", "A/B", 1)]
    assert s.right("q", "B", 1) == [("q", "-/B", 1)]


def test_in_memory_windows_forget_records_exactly() -> None:
    """In memory, a partner older than the retention is no longer found."""
    s = Streams("inner", before=5, after=5, persistent=False)
    s.left("k", "A", 0)
    s.left("z", "Z", 11)
    assert s.right("k", "B", 1) == []


def test_a_stream_meets_itself_both_ways_and_each_record_itself() -> None:
    """The self join emits new with old, old with new, and new with new, by time."""
    spec = StoreSpec("w", "window", window_size_ms=8, retention_ms=10, retain_duplicates=True)
    context = FakeContext(spec)
    join = StreamSelfJoin("w", before_ms=5, after_ms=3, grace_ms=2, joiner=pair)
    feed = context.bind(JoinWindow("w"), forward=context.bind(join)._process)
    assert feed("a", "A", 10) == [("a", "A/A", 10)]
    assert feed("a", "B", 12) == [("a", "B/A", 12), ("a", "A/B", 12), ("a", "B/B", 12)]
    assert feed("a", "C", 20) == [("a", "C/C", 20)]
    assert feed("a", "D", 11) == [("a", "D/B", 12), ("a", "B/D", 12)]
    assert feed(None, "E", 50) == []
    assert feed("a", "F", 13)[-1] == ("a", "F/F", 13)
    assert context.reasons() == ["null key"]


rows = st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(0, 40)).map(tuple), min_size=1, max_size=25)


@given(rows, st.sampled_from(["inner", "left", "outer"]), st.integers(-3, 8), st.integers(3, 8))
def test_joins_agree_with_looking_at_all_records_at_once(
    records: list[tuple[bool, str, int]], how: str, before: int, after: int
) -> None:
    """Each pair within the window is emitted once; each record that never matched is emitted once, if it is kept."""
    s = Streams(how, before=before, after=after, grace=1000)
    for number, (is_left, key, at) in enumerate(records):
        (s.left if is_left else s.right)(key, str(number + 1), at)
    s.left("end", "end", 10_000)
    given_results = [f for f in s.context.forwarded if f[0] != "end"]
    assert naive_join(records, how, before, after) == sorted(given_results)


def naive_join(records: list[tuple[bool, str, int]], how: str, before: int, after: int) -> list[tuple[str, str, int]]:
    """Return all results, unordered: every record matches all earlier ones."""
    out, waiting, time = [], {}, -1
    for number, (is_left, key, at) in enumerate(records):
        time = max(time, at)
        name, partners = str(number + 1), []
        back, ahead = (before, after) if is_left else (after, before)
        for other, (other_left, other_key, other_at) in enumerate(records[:number]):
            # A bound never extends below time 0: there a record matches time 0 itself.
            in_reach = max(0, at - back) <= other_at <= max(0, at + ahead)
            if other_left != is_left and other_key == key and in_reach:
                partners.append(other)
                both = (name, str(other + 1)) if is_left else (str(other + 1), name)
                out.append((key, "/".join(both), max(at, other_at)))
        for partner in partners:
            waiting.pop(partner, None)
        if not partners and (how == "outer" or (how == "left" and is_left)):
            waiting[number] = (key, f"{name}/-" if is_left else f"-/{name}", at)
            if max(0, at + ahead) < time:
                out.append(waiting.pop(number))
    return sorted(out + list(waiting.values()))


def test_a_late_record_joins_itself_until_it_is_a_retention_old() -> None:
    """A self-join omits the pair of a record with itself from one ms before its retention, as in Kafka Streams."""
    context = FakeContext(StoreSpec("w", "window", retain_duplicates=True, retention_ms=20, window_size_ms=10))
    join = context.bind(StreamSelfJoin("w", before_ms=5, after_ms=5, grace_ms=10, joiner=pair))
    results = [join(key, "x", at) for key, at in (("new", 100), ("b", 80), ("c", 81), ("d", 82))]
    assert [[("new", "x/x", 100)], [], [], [("d", "x/x", 82)]] == results


def test_a_record_at_the_end_of_the_earliest_window_does_not_put_off_what_waits() -> None:
    """The earliest record is emitted unmatched one millisecond after its window, whichever came just before."""
    s = Streams("left")
    assert [] == s.left("a", "a", 0) + s.left("c", "c", 2) + s.left("b", "b", 10)
    assert [("a", "a/-", 0)] == s.left("d", "d", 11)
