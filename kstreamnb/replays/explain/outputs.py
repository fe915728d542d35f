"""Explains missing output: where records stopped on their way to a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.formatting import format_time, format_value, join_list, pluralize
from kstreamnb.core.progress import under_way
from kstreamnb.core.record import Change
from kstreamnb.core.traits import OperatorTraits
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.steps import Drop
from kstreamnb.replays.analysis.buffered_records import BufferedRecord, buffered_records
from kstreamnb.replays.analysis.node_flow import (
    NodeArrival,
    above,
    arrivals,
    descent,
    is_about,
    row_at,
    sinks_of,
    sources_above,
)
from kstreamnb.replays.explain.explanation import Explanation, described
from kstreamnb.replays.explain.joins import key_clash, unmatched
from kstreamnb.replays.explain.predicates import unmet
from kstreamnb.replays.navigation import Navigation
from kstreamnb.topology.nodes import Node, Sink, Source, grouped

_LOOKED_AT = 1_000
_NOT_LOOKED_AT = f"only the first {_LOOKED_AT:,} of its records were examined"


class _Question(NamedTuple):
    """A question with what its answer looks up for each node: its drops, and the records that it holds back."""

    run: RecordedRun
    path: list[str]
    key: object
    descends: Callable[[int], bool]
    dropped: dict[str, list[Drop]]
    waiting: dict[str, list[BufferedRecord]]


def why_no_output(self: Navigation, topic: str, key: object = None) -> Explanation:
    """Explain where records stopped on their way to a topic: all of them, or those of one key.

    Args:
        topic: name of the output topic.
        key: key of the record, at the node where it stopped or at one before it. Default: any.
    """
    check_arguments(why_no_output, locals())
    run = self.run
    whose = "" if key is None else f" of key {format_value(key)}"
    descends = descent(run, key)
    written = sum(map(descends, run.output_positions(topic)))
    outcome = f"{pluralize(written, 'record')}{whose} went" if written else f"nothing{whose} was written"
    outcome += f' to "{topic}"'
    sinks = sinks_of(run, topic)
    if not sinks:
        return _nobody_writes(run, outcome, written)
    path = above(run, sinks)
    waiting = grouped(buffered_records(run, len(run.steps)), attrgetter("node"))
    about = _Question(run, path, key, descends, grouped(run.drops(), attrgetter("node")), waiting)
    stops: list[Explanation] = []
    with under_way("nodes", len(path)) as done:
        for name in path:
            stops += _stops(about, name)
            done(1)
    came = [] if key is not None and (written or stops) else [fact for name in path for fact in _silent(about, name)]
    silent = list(dict.fromkeys(came))
    last = stops[-1] if stops else None
    facts = [*_lonely(about), *silent]
    unseen = run.unseen(topic) if key is None else 0
    if unseen:
        facts.append(f"{pluralize(unseen, 'record')} more in transactions that were aborted or are not committed yet")
    if last is not None:
        answer = f"{outcome}: {last.answer}"
        facts += [stop.answer for stop in stops[:-1]]
    elif silent:
        answer, facts = f"{outcome}: {join_list(silent)}", [fact for fact in facts if fact not in silent]
    else:
        answer = f"{outcome}: every record on the way was forwarded"
    numbers = {"written": written, "stopped": {stop.node: stop.numbers["stopped"] for stop in stops}}
    if last is None:
        return Explanation(answer, because=tuple(facts), numbers=numbers)
    return replace(last, answer=answer, because=tuple(facts), numbers=numbers, task=None)


def _nobody_writes(run: RecordedRun, outcome: str, written: int) -> Explanation:
    sinks = run.topology.sinks()
    named = [f'"{sink.topic}"' for sink in sinks if isinstance(sink.topic, str)]
    chosen = [described(run, sink.name) for sink in sinks if not isinstance(sink.topic, str)]
    why = f"no sink writes to it; the sinks write to {join_list(named) or 'no topic'}"
    if chosen:
        why = f"{join_list(chosen)} chooses the topic of each record"
    return Explanation(f"{outcome}: {why}", numbers={"written": written})


def _stops(about: _Question, name: str) -> Iterator[Explanation]:
    """Yield explanations of what a node did not forward, by reason."""
    run, node = about.run, about.run.topology.nodes[name]
    if isinstance(node, Sink):
        return
    place: dict[str, Any] = {"node": name, "origin": node.origin}
    for refusal, drops in _refused(about, name).items():
        records = pluralize(len(drops), "record")
        answer = f"{records} did not get past {described(run, name)}: {refusal} (see why_dropped)"
        yield Explanation(answer, numbers={"stopped": len(drops)}, **place)
    children = [child for child in run.topology.children(name) if child in about.path]
    came = [arrival for arrival in arrivals(run, name, children) if about.descends(arrival.position)]
    stopped = [arrival for arrival in came if not arrival.went_on]
    for reason, result in _by_reason(about, node, children, stopped).items():
        steps = tuple(dict.fromkeys(arrival.step for arrival in result[:5]))
        answer = f"{pluralize(len(result), 'record')} stopped at {described(run, name)}: {reason}"
        yield Explanation(answer, numbers={"stopped": len(result)}, steps=steps, **place)
    waiting = about.waiting.get(name, [])
    if about.key is not None:
        keys = [arrival.key for arrival in came]
        waiting = [buffered for buffered in waiting if buffered.key in keys]
    if waiting:
        first = min(waiting, key=lambda buffered: buffered.due_ms)
        answer = (
            f"{pluralize(len(waiting), 'record')} {'is' if len(waiting) == 1 else 'are'} held back at "
            f"{described(run, name)}: the first is due at stream time {format_time(first.due_ms)} ({first.rule}); "
            f"stream time there is {format_time(first.stream_time_ms)} (see why_open)"
        )
        yield Explanation(answer, numbers={"stopped": len(waiting)}, **place)


def _refused(about: _Question, name: str) -> dict[str, list[Drop]]:
    """Return records that a source dropped before a task consumed them, by reason."""
    refused = (drop for drop in about.dropped.get(name, ()) if "topic" in drop.details)
    return grouped((drop for drop in refused if is_about(drop.key, about.key)), attrgetter("reason"))


def _by_reason(
    about: _Question, node: Node, children: list[str], stopped: list[NodeArrival]
) -> dict[str, list[NodeArrival]]:
    run, traits = about.run, node.traits
    drops = {drop.step: drop.reason for drop in about.dropped.get(node.name, ())}
    holds = traits.buffer is not None  # what it keeps is counted separately
    alone = set() if traits.join is None else {each.step for each in unmatched(run, node.name)}
    result: dict[str, list[NodeArrival]] = {}
    for number, arrival in enumerate(stopped):
        dropped = drops.get(arrival.step)
        if dropped is not None:
            reason = f"{dropped} (see why_dropped)"
        elif holds:
            continue
        elif traits.join is not None and traits.join.kind == "streams" and arrival.step not in alone:
            reason = "its partner came after it, and made the result"
        elif number < _LOOKED_AT or traits.join is not None:
            reason = _reason(traits, children, arrival)
        else:
            reason = _NOT_LOOKED_AT
        result.setdefault(reason, []).append(arrival)
    if traits.buffer is not None and traits.buffer.kind == "row":
        for arrival in stopped:
            if arrival.step in alone:
                result.setdefault(_NO_ROW, []).append(arrival)
    rest = result.pop(_NOT_LOOKED_AT, None)
    return result if rest is None else {_NOT_LOOKED_AT: rest, **result}


_NO_ROW = "there was no row for it in the table (see why_no_match)"


def _reason(traits: OperatorTraits, children: list[str], arrival: NodeArrival) -> str:
    new = arrival.value.new if isinstance(arrival.value, Change) else arrival.value
    if (test := traits.condition) is not None:
        return unmet(test.predicate, arrival.key, new, negate=test.negate) or "its predicate did not hold"
    if traits.branches:
        wanted = [branch.predicate for branch in traits.branches if branch.child in children]
        facts = [unmet(predicate, arrival.key, new) for predicate in wanted]
        return join_list([fact for fact in facts if fact]) or "it took another branch"
    if traits.emit_on_close:
        return "its result is held back until the window closes (see why_open), and is lost if its rows expire first"
    if traits.join is not None:
        return _JOINS[traits.join.kind]
    if traits.user_code and not traits.sends_old:
        return "its processor forwarded nothing; records reach others by self.context.forward(record), not by return"
    return "its key is null" if arrival.key is None else "it had no result there"


_JOINS = {
    "streams": "no partner was found (see why_no_match)",
    "lookup": _NO_ROW,
    "tables": "there was no row of its key in the other table (see why_no_match)",
    "answer": "no row of the other table had this foreign key (see why_no_match)",
    "notify": "no row had its key as a foreign key (see why_no_match)",
}


def _silent(about: _Question, name: str) -> Iterator[str]:
    """Yield topics without records, or any of a key, on the path: of sources, and of tables that a join looks up."""
    run, key = about.run, about.key
    node = run.topology.nodes[name]
    join = node.traits.join
    sources = [node] if isinstance(node, Source) else []
    if join is not None and join.kind == "lookup" and (key is None or join.key_selector is None):
        keepers = [each for each, keeper in run.topology.nodes.items() if keeper.traits.store == join.store]
        sources = sources_above(run, keepers)
    for source in sources:
        keys = [arrival.key for arrival in arrivals(run, source.name)]
        if not any(is_about(have, key) for have in keys) and not _refused(about, source.name):
            fact = "got no record" if key is None else f"got no record of key {format_value(key)}"
            clash = key_clash(key, keys)
            for topic in source.topics or (str(source.pattern),):
                if topic not in run.topology.internal_topics:
                    yield f'topic "{topic}" {fact}{clash and f"; {clash}"}'


def _lonely(about: _Question) -> Iterator[str]:
    """Yield joins on the path that forwarded records without a row of their table."""
    run = about.run
    for name in about.path:
        join = run.topology.nodes[name].traits.join
        if join is None or join.kind != "lookup" or not join.keeps_unmatched:
            continue
        came = list(islice((each for each in arrivals(run, name) if about.descends(each.position)), _LOOKED_AT))
        keyed = [(each, each.joined_by(join.key_selector)) for each in came]
        alone = sum(row_at(run, each.task, join.store, key, each.position) is None for each, key in keyed)
        if alone:
            records = pluralize(len(came), "record")
            yield f"{alone:,} of {records} found no row of table {join.store} at {described(run, name)}"
