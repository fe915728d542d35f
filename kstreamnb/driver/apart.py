"""Many roots at once where tasks have nothing to do with each other: nothing that they write is read again.

Then each task takes all its records at a stroke, and what it wrote is sorted in by the roots it came from.
"""

from __future__ import annotations

from itertools import chain, repeat
from operator import sub
from typing import TYPE_CHECKING, Any

from kstreamnb.errors import EngineError, ProcessingError
from kstreamnb.runtime.loops import collector_paused

if TYPE_CHECKING:  # an engine has this way of feeding
    from kstreamnb.driver.engine import Engine, Root

__all__ = ["feed_apart"]


def feed_apart(engine: Engine, roots: list[Root]) -> None:
    """Process roots that are in order; raises the error of the first one that fails, and keeps those before it."""
    end, failure = len(roots), None
    base, written = len(engine.recorded), dict[str, tuple[list[int], list[Any]]]()
    steps: list[tuple[int, int]] = []
    with collector_paused():
        for index, numbers in sorted(_by_task(engine, roots).items()):
            marks, before, task = list[int](), len(engine.recorded), engine.order[index]
            if failure is not None:
                numbers = [number for number in numbers if number < end]
            try:
                # The first record goes alone: after it the task knows which changelogs are written, and is faster.
                for part in (numbers[:1], numbers[1:]):
                    for topic, partition, records in _stretches(engine, part, roots):
                        task.run(topic, partition, records, marks)
                    engine.log_changes(task)
            except ProcessingError as error:
                failure, end = error, numbers[len(marks)]
            if engine.recorder is not None:
                steps += zip(numbers, engine.recorder.taken_since(before), strict=False)
            _sort_in(engine, index, written, numbers, marks)
    for topic, (keys, rows) in written.items():
        order = sorted(range(len(keys)), key=keys.__getitem__)
        engine.logs[topic].rows += [rows[at] for at in order if keys[at] < end]
    _put_in_order(engine.recorded, base, steps, end)
    if failure is not None:
        raise failure


def _by_task(engine: Engine, roots: list[Root]) -> dict[int, list[int]]:
    """For each task the numbers of its roots."""
    places: dict[tuple[str, int], list[int]] = {}
    found: dict[int, list[int]] = {}
    for number, root in enumerate(roots):
        mine = places.get(root[:2])
        if mine is None:
            route = engine.route(root[0])
            index = None if route is None else route.tasks.get(root[1])
            if index is None:
                raise EngineError(f'topic "{root[0]}" has no partition {root[1]}')
            mine = places[root[:2]] = found.setdefault(index, [])
        mine.append(number)
    return found


def _stretches(engine: Engine, numbers: list[int], roots: list[Root]) -> list[tuple[str, int, list[Any]]]:
    """Records with their offsets, cut where the partition changes."""
    found: list[tuple[str, int, list[Any]]] = []
    topic, partition, records, offset = "", -1, list[Any](), 0
    for number in numbers:
        at, place, timestamp, key, value, headers = roots[number]
        if place != partition or at != topic:
            if records:
                engine.offsets[topic, partition] = offset
            topic, partition, records, offset = at, place, [], engine.offsets.get((at, place), 0)
            found.append((topic, partition, records))
        records.append((offset, timestamp, key, value, headers))
        offset += 1
    if records:
        engine.offsets[topic, partition] = offset
    return found


def _sort_in(
    engine: Engine, index: int, written: dict[str, tuple[list[int], list[Any]]], numbers: list[int], marks: list[int]
) -> None:
    """Note the rows of a task by topic, each with the number of its root."""
    rows = engine.order[index].drain()
    each = map(sub, marks, chain((0,), marks))
    keys = list(chain.from_iterable(map(repeat, numbers, each)))
    topics = [row[0] for row in rows]
    if rows and topics.count(topics[0]) == len(topics):
        outlet = engine.outlet(index, topics[0])
        if outlet.log.serdes is None:
            rows = list(map(outlet.logged, rows))
        place = written.setdefault(topics[0], ([], []))
        place[0].extend(keys)
        place[1].extend(rows[: len(keys)])
        return
    for key, row in zip(keys, rows, strict=False):
        place = written.setdefault(row[0], ([], []))
        place[0].append(key)
        place[1].append(engine.outlet(index, row[0]).logged(row))


def _put_in_order(log: list[Any], base: int, steps: list[tuple[int, int]], end: int) -> None:
    """Let a recording tell the steps in the order of their roots, not task by task."""
    if not steps:
        return
    starts = [place for _, place in steps]
    ends = [*starts[1:], len(log)]
    found = log[base : starts[0]]
    for (number, at), until in sorted(zip(steps, ends, strict=True)):
        if number <= end:
            found += log[at:until]
    log[base:] = found
