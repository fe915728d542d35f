"""Runs the driver's workload in the least Python that gives its results: ``peer_python.py CASE REPEATS``, as a module.

Each loop is written for its case alone, without stores, nodes, late records, headers, changelogs, expiry by segment and
hashes. It isolates values as the driver does, with copies instead of JSON. So its rate is an upper bound of what an
engine in Python can reach.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from kstreamnb.core.codec import ByText, partition_for
from tests.bench.driver import FEWER, PARTITIONED, RECORDS, REGROUPED, input_of, with_other

_JSON = frozenset({str, int, float, bool, type(None)})


def _isolated(value: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a flat dict; refuse what is not JSON."""
    for name, item in value.items():
        if type(name) is not str or type(item) not in _JSON:
            raise TypeError(name)
    return value.copy()


def filter_and_map(records: Iterable[Any], out: list[Any]) -> None:
    """Keep even values and double them."""
    for _, _, _, at, key, value, headers in records:
        if value["value"] % 2 == 0:
            out.append(("out", 0, at, key, {**value, "v2": value["value"] * 2}, headers))


def partitioned_filter_and_map(records: Iterable[Any], out: list[Any]) -> None:
    """Do the same in the task of the key's partition, whose stream time advances, and find the result's partition."""
    partition_of = ByText(lambda key: partition_for(key.encode(), 4))
    tasks = [-1] * 4
    for _, _, _, at, key, value, headers in records:
        task = partition_of[key]
        if at > tasks[task]:
            tasks[task] = at
        if value["value"] % 2 == 0:
            out.append(("out", partition_of[key], at, key, {**value, "v2": value["value"] * 2}, headers))


def keyed_count(records: Iterable[Any], out: list[Any]) -> None:
    """Count by key."""
    counts: dict[str, tuple[int, int]] = {}
    for _, _, _, at, key, _, headers in records:
        row = counts.get(key)
        counts[key] = count, _ = 1 if row is None else row[0] + 1, at
        out.append(("out", 0, at, key, count, headers))


def regrouped_count(records: Iterable[Any], out: list[Any]) -> None:
    """Count by the last letter of the key, after a topic that keeps the values as copies."""
    counts: dict[str, tuple[int, int]] = {}
    repartition: list[Any] = []
    for _, _, _, at, key, value, headers in records:
        repartition.append(("repartition", 0, at, key[-1], _isolated(value), headers))
    for _, _, at, key, _, headers in repartition:
        row = counts.get(key)
        counts[key] = count, _ = 1 if row is None else row[0] + 1, at
        out.append(("out", 0, at, key, count, headers))


def session_count(records: Iterable[Any], out: list[Any]) -> None:
    """Extend the newest session of the key, or begin one."""
    sessions: dict[str, tuple[int, int, int]] = {}
    for _, _, _, at, key, value, headers in records:
        _isolated(value)
        start, end, count = sessions.get(key, (at, -1000, 0))
        if at - end > 150:
            start, count = at, 0
        else:
            out.append(("out", 0, end, (key, start, end), None, headers))
        sessions[key] = start, at, count + 1
        out.append(("out", 0, at, (key, start, at), count + 1, headers))


def sliding_count(records: Iterable[Any], out: list[Any]) -> None:
    """Count the window that ends with the record, and those that begin right after earlier ones of the key."""
    seen: dict[str, deque[int]] = defaultdict(deque)
    for _, _, _, at, key, value, headers in records:
        _isolated(value)
        times = seen[key]
        while times and times[0] < at - 200:
            times.popleft()
        for number, begin in enumerate(times):
            count = len(times) - number
            out.append(("out", 0, at, (key, begin + 1, begin + 201), count, headers))
        times.append(at)
        out.append(("out", 0, at, (key, at - 200, at), len(times), headers))


def suppressed_count(records: Iterable[Any], out: list[Any]) -> None:
    """Count in windows of a second; emit a window's counts by key when it ends."""
    windows: dict[int, dict[str, tuple[int, int, tuple[Any, ...], int]]] = {}
    for offset, (_, _, _, at, key, value, headers) in enumerate(records):
        _isolated(value)
        start = at - at % 1000
        counts = windows.get(start)
        if counts is None:
            for closed in sorted(windows):
                for name, (count, last, own, _) in sorted(windows.pop(closed).items()):
                    out.append(("out", 0, last, (name, closed, closed + 1000), count, own))
            counts = windows[start] = {}
        row = counts.get(key)
        counts[key] = (1 if row is None else row[0] + 1), at, headers, offset


def stream_stream_join(records: Iterable[Any], out: list[Any]) -> None:
    """Join a record with those of the other side and key of the last 100 ms."""
    sides: dict[str, dict[str, deque[tuple[int, Any]]]] = {"in": defaultdict(deque), "other": defaultdict(deque)}
    for topic, _, _, at, key, value, headers in records:
        value = _isolated(value)
        waiting = sides["other" if topic == "in" else "in"][key]
        while waiting and waiting[0][0] < at - 100:
            waiting.popleft()
        for _, other in waiting:
            pair = (value, other.copy()) if topic == "in" else (other.copy(), value)
            out.append(("out", 0, at, key, _isolated(with_other(*pair)), headers))
        sides[topic][key].append((at, value.copy()))


def foreign_key_join(records: Iterable[Any], out: list[Any]) -> None:
    """Join a left row with its right one, and a right row with the left ones that refer to it, by key."""
    left: dict[str, dict[str, Any]] = {}
    right: dict[str, dict[str, Any]] = {}
    subscribers: dict[str, set[str]] = defaultdict(set)
    for topic, _, _, at, key, value, headers in records:
        value = _isolated(value)
        if topic == "other":
            right[key] = value
            for name in sorted(subscribers[key]):
                out.append(("out", 0, at, name, _isolated(with_other(left[name].copy(), value.copy())), headers))
            continue
        old, foreign = left.get(key), f"f{value['value'] % 10}"
        if old is not None and (before := f"f{old['value'] % 10}") != foreign:
            subscribers[before].discard(key)
        subscribers[foreign].add(key)
        left[key] = value.copy()
        if (row := right.get(foreign)) is not None:
            out.append(("out", 0, at, key, _isolated(with_other(value, row.copy())), headers))


LOOPS: dict[str, Callable[[Iterable[Any], list[Any]], None]] = {
    "filter and map": filter_and_map,
    PARTITIONED: partitioned_filter_and_map,
    "keyed count": keyed_count,
    REGROUPED: regrouped_count,
    "session count": session_count,
    "sliding count": sliding_count,
    "suppressed count": suppressed_count,
    "stream-stream join": stream_stream_join,
    "foreign-key join": foreign_key_join,
}


def main(case: str, repeats: int) -> None:
    """Print the best rate of a case, and the number of records written, as JSON."""
    records, rates, out = input_of(case), list[float](), list[Any]()
    for _ in range(repeats):
        out = []
        start = time.process_time()
        LOOPS[case](records, out)
        rates.append(FEWER.get(case, RECORDS) / (time.process_time() - start))
    print(json.dumps({"rate": max(rates), "published": len(out)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
