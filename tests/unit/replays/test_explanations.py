"""Explanations: answers with the numbers they are based on."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.core.formatting import format_value
from kstreamnb.display.mime import data_of
from kstreamnb.errors import EngineError
from kstreamnb.replays.explain.predicates import unmet
from kstreamnb.replays.replay import Replay
from kstreamnb.replays.replay_sample import replay


def sample(*rows: tuple[str, Any, Any, int]) -> list[ks.TopicRecord]:
    """Records of (topic, key, value, time), in the partitions of their keys."""
    return [ks.TopicRecord(topic, -1, -1, time, key, value) for topic, key, value, time in rows]


def windowed(windows: Any, *times: int) -> Replay:
    """Count one key in windows, for records at these times."""
    builder = ks.StreamsBuilder("w")
    builder.stream("in").group_by_key().windowed_by(windows).count(store="n").to_stream().to("out")
    return replay(builder.build(), sample(*(("in", "k", 1, time) for time in times)))


@pytest.mark.parametrize(
    ("windows", "times", "rule", "needed"),
    [
        (ks.TimeWindows.of(size="10ms", grace="5ms"), (0, 15, 3), "stream time 15 − grace 5ms = 10 ≥ end 10", "6ms"),
        (ks.SlidingWindows.of(difference="10ms"), (10, 40, 11), "stream time 40 − grace 0ms = 40 > end 11", "29ms"),
        (ks.SessionWindows.of(gap="5ms"), (0, 40, 10), "stream time 40 − gap 5ms − grace 0ms = 35 > end 10", "25ms"),
    ],
    ids=["tumbling", "sliding", "session"],
)
def test_a_late_record_is_explained_by_its_window(windows: Any, times: tuple[int, ...], rule: str, needed: str) -> None:
    """The answer has window, stream time and grace, and the grace that would have kept the record."""
    run = windowed(windows, *times)
    found = run.why_dropped()[0]
    assert rule in found.answer
    assert found.remedy is not None
    assert found.remedy.startswith(f"a grace of {needed} instead of")
    assert [2, 3] == list(found.steps)
    late = times[-1]
    wider = type(windows)(**{**vars(windows), "grace_ms": windows.grace_ms})
    kept = vars(wider) | {"grace_ms": int(needed.removesuffix("ms"))}
    assert not [drop for drop in windowed(type(windows)(**kept), *times).drops if drop.timestamp == late]


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize(("left", "right"), [(1.0, 1), ("1", 1)])
def test_keys_that_read_alike_and_have_other_bytes_are_named(*, table: bool, left: Any, right: Any) -> None:
    """A column of ids with gaps is one of floats: its keys find no partner; the check of a sample says so, too."""
    builder, json = ks.StreamsBuilder("keys"), ks.Serdes.json()
    orders: Any = builder.stream("orders", key_serde=json)
    if table:
        joined = orders.join(builder.table("people", key_serde=json), lambda order, person: person)
    else:
        windows = ks.JoinWindows.of(difference="1s")
        joined = orders.join(builder.stream("people", key_serde=json), lambda order, person: person, windows)
    joined.to("out", key_serde=json)
    records = sample(("people", right, "ann", 0), ("orders", left, "hat", 1))
    run = replay(builder.build(), records)
    assert not run.output("out")
    differ = f"keys {format_value(left)} and {format_value(right)} differ"
    (found,) = (each for each in run.why_no_match() if differ in each.answer)
    assert "Int64" in str(found.remedy)
    (issue,) = ks.testing.check(builder.build(), sample=records)
    assert issue.fact.startswith(differ)
    assert (found.remedy, 'topic "orders"') == (issue.remedy, issue.subject)
    alike = sample(("people", right, "ann", 0), ("orders", right, "hat", 1))
    assert ["ann"] == [record.value for record in replay(builder.build(), alike).output("out")]
    assert not ks.testing.check(builder.build(), sample=alike)


class Place:
    """A key that is known by its name and has no `__repr__`."""

    def __init__(self, data: bytes) -> None:
        self.name = data.decode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def test_keys_without_a_repr_are_partners_if_they_are_equal() -> None:
    """The text that Python gives an object names its address."""
    builder = ks.StreamsBuilder("places")
    serde: Any = ks.Serdes.serde_from(lambda place: place.name.encode(), Place)
    left, right = (builder.stream(topic, key_serde=serde) for topic in ("left", "right"))
    left.join(right, lambda one, other: other, ks.JoinWindows.of(difference="1s")).to("out", key_serde=serde)
    run = replay(builder.build(), sample(("left", Place(b"rome"), "a", 0), ("right", Place(b"rome"), "b", 1)))
    assert ["b"] == [record.value for record in run.output("out")]
    assert not run.why_no_match()


def test_each_late_record_names_the_first_step_that_closed_its_window() -> None:
    """Compared with a scan of the records, on two partitions with separate clocks."""
    builder = ks.StreamsBuilder("late")
    builder.stream("in").group_by_key().windowed_by(ks.TimeWindows.of("10ms")).count().to_stream().to("out")
    times = [(37 * number) % 101 + 2 * number for number in range(300)]
    records = [ks.TopicRecord("in", number % 2, number // 2, time, "k", 1) for number, time in enumerate(times)]
    run = replay(builder.build(), records)
    late = run.why_dropped()
    assert len(late) > 50
    for drop, why in zip(run.drops, late, strict=True):
        clock = drop.details["stream_time_ms"]
        steps = [step for step in run.steps if step.task == drop.task and step.record is not None]
        assert why.steps == (next(step.number for step in steps if step.record.timestamp >= clock), drop.step)


def test_of_many_answers_the_first_are_displayed_with_the_numbers_of_all_reasons() -> None:
    """In text and in HTML, ten answers and a line that counts the rest by reason."""
    builder = ks.StreamsBuilder("late")
    builder.stream("in").group_by_key().windowed_by(ks.TimeWindows.of("10ms")).count(store="counts")
    late = [ks.TopicRecord("in", 0, at, 0, "k", 1) for at in range(1, 2001)]
    run = replay(
        builder.build(), [ks.TopicRecord("in", 0, 0, 50, "k", 1), *late, ks.TopicRecord("in", 0, 2001, 50, None, 1)]
    )
    answers = run.why_dropped()
    last = "10 of 2,001 (late 2,000, null key 1); iterate over the result for all of them"
    assert 2001 == len(answers)
    assert [*(line for why in answers[:10] for line in str(why).splitlines()), last] == str(answers).splitlines()
    page = data_of(answers)["text/html"]
    assert 11 == page.count("<p>")
    assert f"<p>{last}</p></div>" in page


def test_drops_can_be_asked_for_by_record_and_node() -> None:
    """Only the requested drops are explained; an empty answer says so."""
    run = windowed(ks.TimeWindows.of(size="10ms"), 0, 30, 3)
    assert 1 == len(run.why_dropped("in", 0, 2))
    assert "no record in-0@0 was dropped" == str(run.why_dropped("in", 0, 0))
    with pytest.raises(EngineError, match='node "nowhere" does not exist'):
        run.why_dropped(node="nowhere")


@pytest.mark.parametrize(
    ("windows", "times", "closing"),
    [
        (ks.TimeWindows.of(size="10ms", grace="5ms"), (0, 3), 15),
        (ks.SlidingWindows.of(difference="10ms", grace="2ms"), (10,), 13),
        (ks.SessionWindows.of(gap="5ms", grace="1ms"), (0, 4), 11),
    ],
    ids=["tumbling", "sliding", "session"],
)
def test_an_open_window_says_what_would_close_it(windows: Any, times: tuple[int, ...], closing: int) -> None:
    """The window closes at the stated time, not a millisecond earlier."""
    (found,) = windowed(windows, *times).why_open(at=len(times))[-1:]
    assert closing == found.numbers["closes_at_ms"]
    assert closing - times[-1] == found.numbers["missing_ms"]
    late = times[-1]
    assert [] == [drop for drop in windowed(windows, *times, closing - 1, late).drops if drop.reason == "late"]
    assert "late" in [drop.reason for drop in windowed(windows, *times, closing, late).drops]


@pytest.mark.parametrize(("options", "counts"), [({}, []), ({"retention": "1s"}, [2])], ids=["default", "kept longer"])
def test_a_final_result_is_lost_if_its_rows_expire_before_its_window_closes(
    options: dict[str, Any], counts: list[int]
) -> None:
    """As in Kafka Streams, whose stores return no expired rows to the search for windows that have closed."""
    builder = ks.StreamsBuilder("w")
    windowed = builder.stream("in").group_by_key().windowed_by(ks.TimeWindows.of(size="10ms"))
    final = windowed.emit_strategy(ks.EmitStrategy.on_window_close()).count(**options)
    final.to_stream(lambda window, count: window.key).to("out")
    run = replay(builder.build(), sample(("in", "k", 1, 1), ("in", "k", 1, 2), ("in", "k", 1, 30)))
    assert [record.value for record in run.output("out")] == counts
    assert "and is lost if its rows expire first" in run.why_no_output("out").answer


def test_suppression_is_named_where_a_window_holds_results_back() -> None:
    """A result that waits for its window says so."""
    builder = ks.StreamsBuilder("w")
    counts = builder.stream("in").group_by_key().windowed_by(ks.TimeWindows.of(size="10ms")).count(store="n")
    counts.suppress(ks.Suppressed.until_window_closes()).to_stream().to("out")
    run = replay(builder.build(), sample(("in", "k", 1, 0)))
    assert "holds its result back until then" in str(run.why_open())
    assert "1 record is held back at suppress" in run.why_no_output("out").answer
    assert "is due at stream time 10 (end 10 + grace 0ms); stream time there is 0" in run.why_no_output("out").answer


def fraud(*rows: tuple[str, Any, Any, int]) -> Replay:
    """Three risky transactions within a minute raise an alert."""
    builder = ks.StreamsBuilder("fraud")
    risk = builder.table("risk-scores")
    scored = builder.stream("transactions").left_join(
        risk, lambda amount, score: {"amount": amount, "riskScore": score or 0}
    )
    risky = scored.filter(lambda _, transaction: transaction["riskScore"] > 70)
    counts = risky.group_by_key().windowed_by(ks.TimeWindows.of(size="1m")).count(store="risky")
    counts.to_stream().filter(lambda _, count: count >= 3).to("fraud-alerts")
    return replay(builder.build(), sample(*rows))


TRANSACTIONS = tuple(
    ("transactions", "userA", amount, at) for amount, at in ((1500, 162000), (2000, 162010), (1800, 162020))
)


def test_no_output_is_explained_by_the_condition_that_was_not_met() -> None:
    """S4-46: three records stop at the filter; the risk score was 0, the condition is > 70; no score was piped."""
    found = fraud(*TRANSACTIONS).why_no_output("fraud-alerts")
    assert "3 records stopped at filter" in found.answer
    assert "riskScore was 0, the condition is > 70" in found.answer
    assert "3 of 3 records found no row of table" in found.because[0]
    assert 'topic "risk-scores" got no record' == found.because[1]
    assert "transaction[" in str(found.origin)


def test_with_a_risk_score_the_alert_comes_and_names_its_four_records() -> None:
    """S4-46: the alert comes from the valid score and the three transactions, not from the older score."""
    run = fraud(("risk-scores", "userA", 60, 0), ("risk-scores", "userA", 85, 1), *TRANSACTIONS)
    (alert,) = run.output("fraud-alerts")
    assert [85, 1500, 2000, 1800] == [record.value for record in run.provenance(alert)]
    assert "1 record went to" in run.why_no_output("fraud-alerts").answer


class Asked(ks.Processor[str, Any, str, Any]):
    """Keeps a session, and asks for it with another kind of time."""

    at: Any = int

    def process(self, record: ks.Record[str, Any]) -> None:
        """Put the session, or forward it."""
        store: Any = self.context.get_state_store("sessions")
        if record.value == "put":
            store.put(ks.Windowed("a", 1000, 2000), 5)
        else:
            self.context.forward(record.with_value(store.fetch_session("a", self.at(1000), self.at(2000))))


@pytest.mark.parametrize("at", [int, lambda ms: f"1970-01-01T00:00:0{ms // 1000}Z"])
def test_a_session_that_was_asked_for_in_text_has_its_record_as_its_provenance(at: Any) -> None:
    """A processor may pass times in any form; what it read is the same."""
    builder = ks.StreamsBuilder("asked")
    builder.add_state_store(ks.Stores.in_memory_session_store("sessions", retention="1h"))
    builder.stream("in").process(type("At", (Asked,), {"at": staticmethod(at)}), "sessions").to("out")
    run = ks.replay(builder.build(), {"in": [("a", "put", 0), ("a", "ask", 1)]})
    assert ["put", "ask"] == [record.value for record in run.provenance(("out", 0, 0))]


class Versions(ks.Processor[str, Any, str, Any]):
    """Puts versions at times that records name, and forwards the answers to questions."""

    def process(self, record: ks.Record[str, Any]) -> None:
        """Put a version, or ask."""
        store: Any = self.context.get_state_store("prices")
        what, *times = record.value
        if what == "put":
            store.put(record.key, f"v{record.timestamp}", *times)
        else:
            answer = getattr(store, what)(record.key, *times)
            self.context.forward(record.with_value(None if answer is None else str(answer)))
            if what == "history":
                self.context.forward(record.with_value([each.value for each in answer]))


@pytest.mark.parametrize(
    ("question", "times"),
    [
        (("get",), [3]),
        (("get", 7), [1]),
        (("get", 25), [2]),
        (("get", "1970-01-01T00:00:00.012Z"), [4]),
        (("get", 2), []),
        (("history",), [1, 2, 3, 4]),
        (("history", 0, 25), [1, 4]),
        (("history", 26, 90), [2, 3]),
    ],
)
def test_versions_that_a_processor_reads_are_of_the_records_that_put_them(question: Any, times: list[int]) -> None:
    """The latest version, older ones that have moved to their segment, and one that was put between two others."""
    builder = ks.StreamsBuilder("versions")
    builder.add_state_store(ks.Stores.persistent_versioned_key_value_store("prices", "1s", segment_interval="10ms"))
    builder.stream("in").process(Versions, "prices").to("out")
    puts = [("a", ["put", 5], 1), ("a", ["put", 20], 2), ("a", ["put", 30], 3), ("a", ["put", 11], 4)]
    other = [("b", ["put", 5], 5), ("b", ["put", 30], 6)]
    run = ks.replay(builder.build(), {"in": [*puts, *other, ("a", list(question), 9)]})
    last = len(run.output("out")) - 1
    assert [*times, 9] == [record.timestamp for record in run.provenance(("out", 0, last))]


BUSY = (("alice", "Oslo", True), ("bob", "Rome", True), ("carl", "Rome", True), ("alice", "Rome", False))
FILTERED = "1 record stopped at filter"


@pytest.mark.parametrize(
    ("key", "answer", "because"),
    [
        ("alice", f'nothing of key "alice" was written to "busy": {FILTERED}', ["paid was false"]),
        ("bob", f'nothing of key "bob" was written to "busy": {FILTERED}', []),
        ("carl", '1 record of key "carl" went to "busy": every record on the way was forwarded', []),
        ("Rome", f'1 record of key "Rome" went to "busy": {FILTERED}', []),
        ("dora", 'nothing of key "dora" was written to "busy": topic "orders" got no record of key "dora"', []),
    ],
    ids=["two filters", "behind a repartition", "forwarded", "key of the result", "unknown"],
)
def test_missing_output_is_explained_for_one_key(key: str, answer: str, because: list[str]) -> None:
    """A record counts under each key that it has on its way, also before ``select_key`` and an internal topic."""
    builder = ks.StreamsBuilder("shop")
    paid = builder.stream("orders").filter(lambda _, order: order["paid"])
    counts = paid.select_key(lambda _, order: order["city"]).group_by_key().count()
    counts.to_stream().filter(lambda _, count: count >= 2).to("busy")
    rows = (("orders", key, {"city": city, "paid": paid}, at) for at, (key, city, paid) in enumerate(BUSY))
    found = replay(builder.build(), sample(*rows)).why_no_output("busy", key=key)
    assert found.answer.startswith(answer)
    assert all(wanted in fact for wanted, fact in zip(because, found.because, strict=True))
    assert answer in found._repr_mimebundle_()["text/plain"]


def test_missing_output_of_a_key_counts_what_is_held_back_and_names_a_key_of_another_type() -> None:
    """A released change belongs to its own key, and not to that of the record that releases it."""
    builder, json = ks.StreamsBuilder("w"), ks.Serdes.json()
    counts = builder.stream("in", key_serde=json).group_by_key().windowed_by(ks.TimeWindows.of("10ms")).count()
    counts.suppress(ks.Suppressed.until_window_closes()).to_stream().to("out")
    run = replay(builder.build(), sample(("in", 1, "x", 0), ("in", 2, "x", 12)))
    assert "1 record of key 1 went to" in run.why_no_output("out", key=1).answer
    assert "nothing of key 2 was written" in (held := run.why_no_output("out", key=2).answer)
    assert "1 record is held back at suppress" in held
    unlike = 'got no record of key "2"; keys "2" and 2 differ: str and int are serialized differently'
    assert run.why_no_output("out", key="2").answer.endswith(unlike)


def test_of_many_records_the_first_thousand_give_the_reason() -> None:
    """Explaining a predicate costs time; the number of records is counted in any case."""
    builder = ks.StreamsBuilder("many")
    builder.stream("in").filter(lambda _, value: value > 5).to("out")
    found = replay(builder.build(), sample(*(("in", "k", 1, at) for at in range(1_200)))).why_no_output("out")
    assert "1,000 records stopped at filter" in found.answer
    assert "value was 1, the condition is > 5" in found.answer
    assert "200 records stopped at filter" in found.because[0]
    assert "only the first 1,000" in found.because[0]


def test_the_file_of_a_predicate_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all records: a search of a long module takes milliseconds."""
    searched = []

    def walk(node: ast.AST, walk: Any = ast.walk) -> Any:
        searched.append(node)
        return walk(node)

    monkeypatch.setattr(ast, "walk", walk)
    builder = ks.StreamsBuilder("searched")
    builder.stream("in").filter(lambda _, value: value > 55).to("out")
    found = replay(builder.build(), sample(*(("in", "k", 1, at) for at in range(100)))).why_no_output("out")
    assert "value was 1, the condition is > 55" in found.answer
    assert 0 < sum(isinstance(node, ast.Module) for node in searched) <= 3


def test_a_topic_that_nobody_writes_is_said_so() -> None:
    """The answer names the existing sinks."""
    assert 'no sink writes to it; the sinks write to "fraud-alerts"' in fraud().why_no_output("frauds").answer


def joined(*rows: tuple[str, Any, Any, int]) -> Replay:
    """Records of two streams that are at most 10 ms apart."""
    builder = ks.StreamsBuilder("j")
    left, right = builder.stream("l"), builder.stream("r")
    left.join(right, lambda a, b: a + b, ks.JoinWindows.of(difference="10ms")).to("out")
    return replay(builder.build(), sample(*rows), 2)


def test_a_record_without_a_partner_names_the_nearest() -> None:
    """The window's reach, the nearest candidate and its distance."""
    found = joined(("l", "k", "A", 0), ("r", "k", "B", 31)).why_no_match("KSTREAM-JOINTHIS-0000000004")[0]
    assert {
        "earliest_ms": -10,
        "latest_ms": 10,
        "nearest_ms": 31,
        "distance_ms": 21,
        "timestamp_ms": 0,
    } == found.numbers
    assert "21ms too late" in found.answer


def test_a_key_that_never_came_is_said_so() -> None:
    """If no candidate has the key, the answer names the other side's keys."""
    found = joined(("l", "k", "A", 0), ("r", "z", "B", 0)).why_no_match(key="k")[0]
    assert 'no record of its key arrived on the other side; its keys are "z"' in found.answer
    assert "every record that reached a join found a partner" == str(
        joined(("l", "k", "A", 0), ("r", "k", "B", 0)).why_no_match()
    )


def test_a_table_row_that_came_too_late_is_pointed_at() -> None:
    """The answer names the step in which the row arrived."""
    builder = ks.StreamsBuilder("t")
    builder.stream("s").join(builder.table("t", store="rows"), lambda a, b: a + b).to("out")
    run = replay(builder.build(), sample(("s", "k", "x", 0), ("t", "k", "row", 5)))
    found = run.why_no_match()[0]
    assert 'its row for key "k" arrived only in step 2' in found.answer
    assert (1, 2) == found.steps


def test_a_key_is_placed_step_by_step() -> None:
    """The bytes, their murmur2 and the partition, as in Kafka's producers."""
    (found,) = joined().why_partition("KEY-1", "l")
    assert 0 == found.numbers["partition"]
    assert "4b45592d31" in found.because[0]


def test_cuts_are_explained_by_the_change_of_the_key() -> None:
    """The answer names the node that changed the key; a topology without repartitioning says so."""
    builder = ks.StreamsBuilder("c")
    builder.stream("in").select_key(lambda _, value: value).group_by_key().count(store="n").to_stream().to("out")
    (found,) = replay(builder.build(), []).why_cut()
    assert "key changed at select_key" in found.answer
    single = ks.StreamsBuilder("one")
    single.stream("in").to("out")
    assert "it has no cuts" == str(replay(single.build(), []).why_cut())


def test_predicates_name_the_part_that_decided() -> None:
    """And, or, not, lookups and comparisons; a function without source has no explanation."""
    assert "n was 3, the condition is > 5" == unmet(lambda _, v: v["n"] > 5 and v["m"], "k", {"n": 3, "m": 1})
    assert "m was 0" == unmet(lambda _, v: v["n"] > 5 and v["m"], "k", {"n": 9, "m": 0})
    either = unmet(lambda key, v: key == "a" or v.get("n") in (1, 2), "k", {"n": 3})
    assert 'key was "k", the condition is == "a" and n was 3, the condition is in [1, 2]' == either
    assert "n was 7, the condition is > 5" == unmet(lambda _, v: v["n"] > 5, "k", {"n": 7}, negate=True)
    assert "v was null, the condition is not null" == unmet(lambda _, v: v is not None, "k", None)
    assert unmet(len, "k") is None

    def several(_key: str, value: int) -> bool:
        least = 5
        return value > least

    assert unmet(several, "k", 1) is None


def test_explaining_a_predicate_does_not_run_it_again() -> None:
    """Functions, methods and properties in a condition run once per record, however often they are queried
    afterwards.
    """
    calls: list[object] = []

    def known(value: object) -> bool:
        calls.append(value)
        return False

    builder = ks.StreamsBuilder("looked-at")
    builder.stream("in").filter(lambda key, value: known(value)).to("out")
    run = replay(builder.build(), [ks.TopicRecord("in", 0, 0, 5, "k", 7)])
    before = list(calls)
    assert "its predicate did not hold" in str(run.why_no_output("out"))
    assert before == calls == [7]


def test_a_record_that_its_source_refuses_is_counted_and_named() -> None:
    """A negative timestamp: the record is part of the input, and the drop refers to it and to no other."""
    config = {"default_timestamp_extractor": ks.LogAndSkipOnInvalidTimestamp()}
    builder = ks.StreamsBuilder()
    builder.stream("in").to("out")
    run = replay(builder.build(), sample(("in", "k", 1, 5), ("in", "k", 2, -1), ("in", "k", 3, 7)), config=config)
    assert "3 records in, 2 out, 1 dropped" in str(run)
    (drop,) = run.drops
    assert drop.record is not None
    assert ("in", 0, 1, 2) == (*drop.record[:3], drop.record.value)
    (why,) = run.why_dropped("in", 0, 1)
    assert "its timestamp is negative" in why.answer
    assert "1 record did not get past" in str(run.why_no_output("out"))
    alone = replay(builder.build(), sample(("in", "k", 2, -1)), config=config)
    assert "got no record" not in str(alone.why_no_output("out"))


def test_a_key_asked_for_is_not_taken_for_the_start_of_another() -> None:
    """Records of key "k" are not those of "kx", and keys need not be text."""
    run = joined(("l", "kx", "A", 0), ("r", "z", "B", 0))
    assert list(run.why_no_match(key="k")) == []
    assert len(list(run.why_no_match(key="kx"))) == 1


def joined_over(count: int) -> Replay:
    """Join streams of a few keys, of which every other record has a partner, with a table that has none of its keys."""
    builder = ks.StreamsBuilder("many")
    left, right = builder.stream("l"), builder.stream("r")
    left.join(right, lambda a, b: a + b, ks.JoinWindows.of(difference="2ms")).to("pairs")
    left.join(builder.table("t"), lambda a, b: a + b).to("out")
    rows = [("l", f"k{at % 7}", 1, 20 * at) for at in range(count)]
    rows += [("r", f"k{at % 7}", 1, 20 * at + at % 4) for at in range(count)]
    return replay(builder.build(), sample(*rows, ("t", "other", 1, 0)))


@pytest.mark.parametrize(
    "ask",
    [
        lambda run: list(run.why_no_match("KSTREAM-JOINTHIS-0000000004")),
        lambda run: str(run.why_no_match()),
        lambda run: run.why_no_match(key="k3"),
        lambda run: run.why_no_output("pairs"),
        lambda run: run.why_no_output("out", key="k3"),
    ],
)
def test_an_answer_takes_work_in_proportion_to_the_records(ask: Callable[[Replay], object]) -> None:
    """Four times the records take four times as many calls of functions, and not sixteen times."""

    def calls(count: int) -> int:
        run, events = joined_over(count), []
        sys.setprofile(lambda frame, event, _: events.append(event))
        try:
            ask(run)
        finally:
            sys.setprofile(None)
        return len(events)

    assert calls(1_200) < 5 * calls(300)


def test_of_many_candidates_the_nearest_are_named_with_their_steps() -> None:
    """Three of five, the nearest first; the steps to look at are those of the record and of the candidates."""
    candidates = [("r", "k", "B", time) for time in (10, 40, 90, 130, 300)]
    run = joined(*candidates[:3], ("l", "k", "A", 110), *candidates[3:])
    found = run.why_no_match("KSTREAM-JOINTHIS-0000000004")[0]
    named = [run.steps[step - 1].record for step in found.steps]
    assert [110, 90, 130, 40] == [record.timestamp for record in named if record is not None]


def test_a_list_is_a_key_like_any_other() -> None:
    """Lists cannot be looked up in a dict, but their records find partners and are found."""
    builder, json = ks.StreamsBuilder("lists"), ks.Serdes.json()
    left, right = builder.stream("l", key_serde=json), builder.stream("r", key_serde=json)
    windows = ks.JoinWindows.of(difference="10ms")
    left.join(right, lambda a, b: a + b, windows).to("out", key_serde=json)
    run = replay(builder.build(), sample(("l", ["k"], "A", 0), ("l", ["k"], "C", 50), ("r", ["k"], "B", 5)))
    (found,) = run.why_no_match()
    assert {"timestamp_ms": 50, "nearest_ms": 5, "distance_ms": 35} == {
        name: found.numbers[name] for name in ("timestamp_ms", "nearest_ms", "distance_ms")
    }
