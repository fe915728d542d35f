"""Explains why a record found no join partner: the window it searched, and the nearest candidates."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property, partial
from operator import attrgetter
from typing import NamedTuple

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.formatting import format_interval, format_time, format_value, join_list, pluralize
from kstreamnb.core.time import format_duration
from kstreamnb.core.traits import JoinTraits
from kstreamnb.errors import EngineError
from kstreamnb.hints import expect_known
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.store_rows import stored_rows
from kstreamnb.replays.analysis.node_flow import NodeArrival, arrivals, is_about, row_at, store_owner
from kstreamnb.replays.explain.explanation import Explanation, Explanations, described
from kstreamnb.replays.navigation import Navigation
from kstreamnb.state.store import Store
from kstreamnb.topology.nodes import grouped

_NEAREST = 3
KEY_REMEDY = 'give both one type, such as frame["id"] = frame["id"].astype("Int64") for whole numbers with gaps'


class Unmatched(NamedTuple):
    """A record that found no partner: the step in which it reached the join, its key, and what explains it."""

    step: int
    key: object
    explain: Callable[[], Explanation]


def why_no_match(self: Navigation, node: str | None = None, key: object = None) -> Explanations:
    """Explain why records found no partner in joins: the window they searched, and the nearest candidates.

    Args:
        node: name of the join. Default: all joins.
        key: key of the record. Default: any.

    Raises: EngineError if the topology has no such join.
    """
    check_arguments(why_no_match, locals())
    run = self.run
    joins = [name for name, each in run.topology.nodes.items() if each.traits.join is not None]
    if node is not None:
        expect_known("join", [node], joins, error=EngineError, hint=f'write why_no_match(key="{node}") for a key')
    chosen = [name for name in joins if node in (None, name)]
    result = [each for name in chosen for each in unmatched(run, name) if is_about(each.key, key)]
    reached = any(run.index.positions_of("forwarded", other=name) for name in chosen)
    nothing = "every record that reached a join found a partner" if reached else "no record reached a join"
    return Explanations([each.explain for each in sorted(result, key=attrgetter("step"))], nothing)


def unmatched(run: RecordedRun, node: str) -> Iterator[Unmatched]:
    """Yield every record that found no partner at a join."""
    traits = run.topology.nodes[node].traits
    if traits.join is not None:
        buffer = None if traits.buffer is None else traits.buffer.store
        yield from _UNMATCHED[traits.join.kind](run, node, traits.join, buffer)


# --- stream and stream ------------------------------------------------------------------------------------------------
class _OtherSide:
    """The records that were put into the other side's window store, by key and task."""

    def __init__(self, run: RecordedRun, store: str) -> None:
        keepers = [name for name, node in run.topology.nodes.items() if node.traits.store == store]
        came = [arrival for name in keepers for arrival in arrivals(run, name)]
        same_key = grouped(came, _identity)
        self._of = {key: grouped(sorted(each, key=_TIME), attrgetter("task")) for key, each in same_key.items()}
        self._keys = grouped((each[0].key for each in same_key.values()), type)

    def nearest(self, arrival: NodeArrival, reach: tuple[int, int]) -> list[NodeArrival]:
        """Return at most three records of a record's key in its task, those nearest to an interval first."""
        same_key = self._of.get(_identity(arrival), {}).get(arrival.task, [])
        at = bisect_left(same_key, reach[0], key=_TIME)
        around = same_key[max(at - _NEAREST, 0) : at + _NEAREST]
        return sorted(around, key=lambda other: _distance(other.timestamp, reach))[:_NEAREST]

    def tasks(self, arrival: NodeArrival) -> list[str]:
        """Return the tasks that have a record's key."""
        return list(self._of.get(_identity(arrival), ()))

    @cached_property
    def content(self) -> str:
        """The keys in words."""
        keys = dict.fromkeys(format_value(key) for keys in self._keys.values() for key in keys)
        return f"its keys are {join_list(keys)}" if keys else "it received no record"

    def clash(self, key: object) -> str:
        """Say which key reads like this one and has a different type."""
        return key_clash(key, (other for kind, keys in self._keys.items() if kind is not type(key) for other in keys))


_TIME = attrgetter("timestamp")


def _identity(arrival: NodeArrival) -> tuple[type, Hashable]:
    """Return a value that only equal keys share: 1 and 1.0 have different bytes, and a list has no hash."""
    key = arrival.key
    try:
        return type(key), next(iter({key}))  # a set refuses a key without a hash
    except TypeError:
        return type(key), repr(key)


def _without_partner(run: RecordedRun, node: str, join: JoinTraits, buffer: str | None) -> Iterator[Unmatched]:
    others = _OtherSide(run, join.store)
    for arrival in arrivals(run, node):
        if arrival.key is None or arrival.value is None:
            continue
        reach = arrival.timestamp - join.before_ms, arrival.timestamp + join.after_ms
        nearest = others.nearest(arrival, reach)
        if not nearest or _distance(nearest[0].timestamp, reach):
            yield Unmatched(arrival.step, arrival.key, partial(_far, run, node, arrival, reach, others))


def _subject(arrival: NodeArrival, noun: str = "record") -> str:
    return f"the {noun} of key {format_value(arrival.key)} at {format_time(arrival.timestamp)}"


def _far(run: RecordedRun, node: str, arrival: NodeArrival, reach: tuple[int, int], others: _OtherSide) -> Explanation:
    nearest = others.nearest(arrival, reach)
    what = f"{_subject(arrival)} found no partner at {described(run, node)}"
    window = f"it looked for one in {format_interval(*reach, closed=True)}"
    numbers = {"timestamp_ms": arrival.timestamp, "earliest_ms": reach[0], "latest_ms": reach[1]}
    if nearest:
        facts = [_near(other, reach) for other in nearest]
        numbers |= {"nearest_ms": nearest[0].timestamp, "distance_ms": _distance(nearest[0].timestamp, reach)}
        answer = f"{what}: {window}, and the nearest of its key is at {format_time(nearest[0].timestamp)}, {facts[0]}"
        more = zip(nearest[1:], facts[1:], strict=True)
        because = tuple(f"another is at {format_time(other.timestamp)}, {fact}" for other, fact in more)
        remedy = f"a window wider by {format_duration(numbers['distance_ms'])} would have found it"
    else:
        clash = others.clash(arrival.key)
        fact = f"no record of its key arrived on the other side; {others.content}{clash and f'; {clash}'}"
        answer, because = f"{what}: {window}, and {fact}", _elsewhere(arrival, others)
        remedy = KEY_REMEDY if clash else ""
    steps = tuple(each.step for each in (arrival, *nearest))
    origin = run.topology.nodes[node].origin
    return Explanation(answer, because, numbers, node, arrival.task, steps, origin, remedy or None)


def key_clash(key: object, others: Iterable[object]) -> str:
    """Say which of the other keys reads like a key and has a different type, such as 1 and 1.0; empty without one."""
    for other in others:
        if type(other) is not type(key) and (other == key or str(other) == str(key)):
            kinds = f"{type(key).__name__} and {type(other).__name__}"
            return f"keys {format_value(key)} and {format_value(other)} differ: {kinds} are serialized differently"
    return ""


def _distance(time: int, reach: tuple[int, int]) -> int:
    low, high = reach
    return low - time if time < low else max(time - high, 0)


def _near(other: NodeArrival, reach: tuple[int, int]) -> str:
    side = "early" if other.timestamp < reach[0] else "late"
    return f"{format_duration(_distance(other.timestamp, reach))} too {side}"


def _elsewhere(arrival: NodeArrival, others: _OtherSide) -> tuple[str, ...]:
    """Report the same key in another task: the two topics are partitioned differently."""
    tasks = others.tasks(arrival)
    if not tasks:
        return ()
    where = f"records of key {format_value(arrival.key)} are in task {join_list(tasks)}"
    return (f"{where}, but this one is in task {arrival.task}: the topics are partitioned differently",)


# --- rows of tables ---------------------------------------------------------------------------------------------------
class _Look(NamedTuple):
    """A lookup of a row: for which record, as text and as it arrived; in which store; its key and log position."""

    who: str
    arrival: NodeArrival
    store: str
    key: object
    position: int


def _without_row(run: RecordedRun, node: str, join: JoinTraits, buffer: str | None) -> Iterator[Unmatched]:
    """Yield a stream's records, or a table's rows, without a row in the table; buffered ones have not looked yet."""
    store, came, is_row = join.store, list(arrivals(run, node)), join.kind == "tables"
    looked = {} if buffer is None else _looks_from_buffer(run, came, buffer)
    for arrival in came:
        key, value = arrival.joined_by(join.key_selector), arrival.value.new if is_row else arrival.value
        position = looked.get(arrival.position, arrival.position)
        if value is None or key is None or position is None:
            continue
        row = row_at(run, arrival.task, store, key, position, None if is_row else arrival.timestamp)
        if row is None or not (join.keeps_unmatched or buffer is not None or arrival.went_on):
            who = _subject(arrival, "row" if is_row else "record")
            look = _Look(who, arrival, store, key, position)
            yield Unmatched(arrival.step, arrival.key, partial(_absence, run, node, look))


def _looks_from_buffer(run: RecordedRun, came: list[NodeArrival], store: str) -> dict[int, int | None]:
    """Map buffered records to where they left the buffer for their lookup; None: not yet."""
    result: dict[int, int | None] = {}
    for task in dict.fromkeys(arrival.task for arrival in came):
        encode = run.tasks[task].stores[store].keys.encode
        own = (each for each in came if each.task == task and each.key is not None)
        same_key = {(each.timestamp, encode(each.key), each.step): each.position for each in own}
        for raw_key, positions in run.index.writes(task, store).items():
            put = None if raw_key is None else same_key.get((*raw_key[:2], run.index.step_of(positions[0])))
            if put is not None:
                result[put] = positions[1] if len(positions) > 1 else None
    return result


def _without_foreign_row(run: RecordedRun, node: str, join: JoinTraits, buffer: str | None) -> Iterator[Unmatched]:
    """Yield a table's rows whose foreign key matches no row."""
    store = join.store
    for arrival in arrivals(run, node):
        foreign, primary = arrival.key
        asks = arrival.value.instruction.name.startswith("PROPAGATE")
        if asks and foreign is not None and row_at(run, arrival.task, store, foreign, arrival.position) is None:
            keys = f"key {format_value(primary)} with foreign key {format_value(foreign)}"
            who = f"the row of {keys} at {format_time(arrival.timestamp)}"
            look = _Look(who, arrival, store, foreign, arrival.position)
            yield Unmatched(arrival.step, primary, partial(_absence, run, node, look))


def _without_subscriber(run: RecordedRun, node: str, join: JoinTraits, buffer: str | None) -> Iterator[Unmatched]:
    """Yield rows of the other table that no foreign key refers to."""
    for arrival in arrivals(run, node):
        if arrival.key is not None and not arrival.went_on:
            yield Unmatched(arrival.step, arrival.key, partial(_unwanted, run, node, arrival))


def _unwanted(run: RecordedRun, node: str, arrival: NodeArrival) -> Explanation:
    row = _subject(arrival, "row")
    answer = f"no row had the foreign key {format_value(arrival.key)} when {row} reached {described(run, node)}"
    origin = run.topology.nodes[node].origin
    return Explanation(answer, (), {"timestamp_ms": arrival.timestamp}, node, arrival.task, (arrival.step,), origin)


_UNMATCHED = {
    "streams": _without_partner,
    "lookup": _without_row,
    "tables": _without_row,
    "answer": _without_foreign_row,
    "notify": _without_subscriber,
}


def _absence(run: RecordedRun, node: str, look: _Look) -> Explanation:
    task = look.arrival.task
    owner = store_owner(run, task, look.store)
    table, at = run.tasks[owner].stores[look.store], run.index.step_of(look.position)
    raw_key, writes = table.keys.encode(look.key), run.index.writes(owner, look.store)
    same_key = writes.get(raw_key) or writes.get((raw_key, -1)) or []
    later = next((position for position in same_key if position > look.position), None)
    keys = [row.key for row in stored_rows(owner, table, run.index.rows(owner, look.store, at))]
    buffered, clash = dict.fromkeys(map(format_value, keys)), ""
    steps, named = [look.arrival.step], f"its row for key {format_value(look.key)}"
    if row_at(run, task, look.store, look.key, look.position) is not None:
        why = _out_of_reach(run, look, table)
    elif later is not None:
        steps.append(run.index.step_of(later))
        why = f"{named} arrived only in step {steps[-1]}"
    elif same_key:
        steps.insert(0, run.index.step_of(same_key[-1]))
        why = f"{named} had been deleted in step {steps[0]}"
    else:
        content = f"{'the key' if len(buffered) == 1 else 'the keys'} {join_list(buffered)}" if buffered else "nothing"
        clash = key_clash(look.key, keys)
        why = f"no row for key {format_value(look.key)} ever arrived; the table held {content}{clash and f'; {clash}'}"
    answer = f"{look.who} found no row in table {look.store} at {described(run, node)}: {why}"
    origin = run.topology.nodes[node].origin
    part = "" if owner == "global" else f" in task {owner}"
    because = (f"the table held {pluralize(len(buffered), 'key')}{part} then",)
    numbers = {"timestamp_ms": look.arrival.timestamp, "rows": len(buffered)}
    return Explanation(answer, because, numbers, node, task, tuple(steps), origin, KEY_REMEDY if clash else None)


def _out_of_reach(run: RecordedRun, look: _Look, table: Store) -> str:
    """Explain why an existing row is not the one that was looked up."""
    if table.spec.kind != "versioned":
        return f"its row for key {format_value(look.key)} is left out on the way from the store to the join"
    wanted, latest = look.arrival.timestamp, row_at(run, look.arrival.task, look.store, look.key, look.position)
    return (
        f"it looks for the version that was valid at {format_time(wanted)}; the one of {format_time(latest[1])} came "
        f"{format_duration(latest[1] - wanted)} later, and the store has no older one"
    )
