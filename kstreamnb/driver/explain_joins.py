"""Why a record found no partner in a join: how far it looked, and what came nearest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kstreamnb.driver.explanation import Explanation, Explanations, described
from kstreamnb.driver.flows import Arrival, arrivals, row_at
from kstreamnb.driver.run import Run
from kstreamnb.driver.wording import counted, duration, interval, listed, said, when
from kstreamnb.topology.nodes import ProcessorNode

__all__ = ["is_table_lookup", "why_no_match"]

_NEAREST = 3


def why_no_match(run: Run, node: str | None = None, key: Any = None) -> Explanations:
    """Every record that reached a join and found no partner there, or those of one join or key."""
    found: list[Explanation] = []
    for name, each in run.topology.nodes.items():
        if isinstance(each, ProcessorNode) and node in (None, name):
            found += (answer for answer, arrival in _unmatched(run, name, each.operator) if key in (None, arrival.key))
    return Explanations(sorted(found, key=lambda each: each.steps), "every record that reached a join found a partner")


def is_table_lookup(operator: Any) -> bool:
    """Whether an operator joins records of a stream with rows of a table."""
    return hasattr(operator, "view") and hasattr(operator, "joiner") and hasattr(operator, "left")


def _unmatched(run: Run, node: str, operator: Any) -> Iterator[tuple[Explanation, Arrival]]:
    if hasattr(operator, "other_store") and hasattr(operator, "before_ms"):
        yield from _without_partner(run, node, operator)
    elif is_table_lookup(operator) and not hasattr(operator, "value_serde"):
        yield from _without_row(run, node, operator)


# --- stream and stream ------------------------------------------------------------------------------------------------
def _without_partner(run: Run, node: str, operator: Any) -> Iterator[tuple[Explanation, Arrival]]:
    back, ahead = operator.before_ms, operator.after_ms
    if not operator.is_left:
        back, ahead = ahead, back
    others = _other_side(run, operator.other_store)
    for arrival in arrivals(run, node):
        if arrival.key is None or arrival.value is None:
            continue
        mine = [other for other in others if other.task == arrival.task and other.key == arrival.key]
        low, high = arrival.timestamp - back, arrival.timestamp + ahead
        if not any(low <= other.timestamp <= high for other in mine):
            yield _far(run, node, arrival, (low, high), mine, others), arrival


def _other_side(run: Run, store: str) -> list[Arrival]:
    """Records that were put into the window store of the other side."""
    keepers = [name for name, node in run.topology.nodes.items() if _keeps(node, store)]
    return [arrival for name in keepers for arrival in arrivals(run, name)]


def _keeps(node: Any, store: str) -> bool:
    """Whether a node is the one that keeps a side's records: it has a store and nothing else."""
    operator = getattr(node, "operator", None)
    return operator is not None and getattr(operator, "__dict__", None) == {"store": store}


def _far(
    run: Run, node: str, arrival: Arrival, reach: tuple[int, int], mine: list[Arrival], others: list[Arrival]
) -> Explanation:
    low, high = reach
    step = run.history.step_of(arrival.place)
    what = (
        f"the record of key {said(arrival.key)} at {when(arrival.timestamp)} found no partner at {described(run, node)}"
    )
    window = f"it looked for one in {interval(low, high, closed=True)}"
    numbers = {"timestamp_ms": arrival.timestamp, "earliest_ms": low, "latest_ms": high}
    if mine:
        nearest = sorted(mine, key=lambda other: _distance(other.timestamp, reach))[:_NEAREST]
        facts = [_near(other, reach) for other in nearest]
        numbers |= {"nearest_ms": nearest[0].timestamp, "distance_ms": _distance(nearest[0].timestamp, reach)}
        answer = f"{what}: {window}, and the nearest of its key is at {when(nearest[0].timestamp)}, {facts[0]}"
        because = tuple(
            f"another is at {when(o.timestamp)}, {fact}" for o, fact in zip(nearest[1:], facts[1:], strict=True)
        )
        remedy = f"a window wider by {duration(numbers['distance_ms'])} would have found it"
    else:
        keys = dict.fromkeys(said(other.key) for other in others)
        there = f"its keys are {listed(keys)}" if keys else "it got no record at all"
        answer, because = (
            f"{what}: {window}, and no record of its key came on the other side; {there}",
            _elsewhere(arrival, others),
        )
        remedy = None
    steps = (step, *(run.history.step_of(other.place) for other in mine[:_NEAREST]))
    origin = getattr(run.topology.nodes[node], "origin", None)
    return Explanation(answer, because, numbers, node, arrival.task, steps, origin, remedy)


def _distance(time: int, reach: tuple[int, int]) -> int:
    low, high = reach
    return low - time if time < low else max(time - high, 0)


def _near(other: Arrival, reach: tuple[int, int]) -> str:
    return f"{duration(_distance(other.timestamp, reach))} too {'early' if other.timestamp < reach[0] else 'late'}"


def _elsewhere(arrival: Arrival, others: list[Arrival]) -> tuple[str, ...]:
    """The same key in another task: the two topics are not partitioned alike."""
    found = dict.fromkeys(other.task for other in others if other.key == arrival.key and other.task != arrival.task)
    if not found:
        return ()
    return (
        f"records of key {said(arrival.key)} are in task {listed(found)}, but this one is in task {arrival.task}: "
        "the topics are not partitioned alike",
    )


# --- stream and table -------------------------------------------------------------------------------------------------
def _without_row(run: Run, node: str, operator: Any) -> Iterator[tuple[Explanation, Arrival]]:
    store = operator.view.stores[-1]
    selector = getattr(operator, "key_selector", None)
    for arrival in arrivals(run, node):
        key = arrival.key if selector is None else selector(arrival.key, arrival.value)
        if arrival.value is None or key is None or row_at(run, arrival.task, store, key, arrival.place) is not None:
            continue
        yield _absent(run, node, arrival, store, key), arrival


def _absent(run: Run, node: str, arrival: Arrival, store: str, key: Any) -> Explanation:
    step = run.history.step_of(arrival.place)
    owner = arrival.task if store in run.tasks[arrival.task].stores else "global"
    table = run.tasks[owner].stores[store]
    raw_key = table.keys.encode(key)
    keys = (raw_key, (raw_key, -1))
    writes = [
        place for place in run.history.places_of("written", task=owner, node=store) if run.history.log[place][1] in keys
    ]
    later = next((place for place in writes if place > arrival.place), None)
    who = f"the record of key {said(arrival.key)} at {when(arrival.timestamp)}"
    what = f"{who} found no row in table {store} at {described(run, node)}"
    steps = [step]
    if later is not None:
        steps.append(run.history.step_of(later))
        why = f"its row for key {said(key)} came only in step {steps[-1]}"
    elif writes:
        steps.insert(0, run.history.step_of(writes[-1]))
        why = f"its row for key {said(key)} had been deleted in step {steps[0]}"
    else:
        rows = run.history.rows(owner, store, step)
        there = listed(
            said(table.keys.decode(raw[0] if isinstance(raw, tuple) else raw)) for raw in rows if raw is not None
        )
        why = f"no row for key {said(key)} ever came; it held {f'the keys {there}' if there else 'nothing'}"
    numbers = {"timestamp_ms": arrival.timestamp, "rows": len(run.history.rows(owner, store, step))}
    origin = getattr(run.topology.nodes[node], "origin", None)
    because = (f"the table held {counted(numbers['rows'], 'row')} then",)
    return Explanation(f"{what}: {why}", because, numbers, node, arrival.task, tuple(steps), origin)
