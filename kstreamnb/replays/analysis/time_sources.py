"""Reads records, bars and pairs of a timeline from a run: of a windowed aggregate, a join, a store, or the input."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from kstreamnb.core.formatting import format_interval, format_time, format_value
from kstreamnb.core.record import Windowed, unwindowed
from kstreamnb.core.time import MAX_TIME_MS, format_duration
from kstreamnb.core.traits import AggregationWindows, JoinTraits
from kstreamnb.core.windows import SessionWindows, SlidingWindows, UnlimitedWindows
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.steps import Drop
from kstreamnb.recording.store_rows import StoredRow, stored_rows
from kstreamnb.recording.trace import NOTHING
from kstreamnb.replays.analysis.node_flow import NodeArrival, arrivals, sources_above, store_owner
from kstreamnb.replays.analysis.open_windows import closes_at, windowed_nodes
from kstreamnb.replays.analysis.time_chart import ChartKind, Fate, Link, TimedRecord, TimeSpan
from kstreamnb.state.versioned import LATEST_ROW
from kstreamnb.topology.nodes import grouped


class Dot(NamedTuple):
    """A record with the task and the key of its lane."""

    task: str
    key: object
    record: TimedRecord


class TimeSource:
    """A source of a timeline; this base class reads the input, without bars."""

    kind: ChartKind = "input"
    name = about = ""
    tracks: tuple[str, ...] = ("records",)

    def __init__(self, run: RecordedRun) -> None:
        self.run = run

    def dots(self) -> Iterator[Dot]:
        """Yield all records in order of arrival."""
        drops = {drop.record[:3]: drop for drop in self.run.drops() if drop.record is not None}
        for position in self.run.index.positions_of("consumed"):
            code, record = self.run.index.code(position), self.run.consumed(position)
            if code.other[0] in self.run.fed:
                step = self.run.index.step_of(position)
                drop = drops.get(record[:3])
                yield self.dot(code.task, step, 0, record.key, record.value, record.timestamp, drop)

    def spans(self, task: str, dots: Sequence[Dot]) -> Iterator[TimeSpan]:
        """Yield the bars of a lane."""
        return iter(())

    def links(self, task: str, dots: Sequence[Dot]) -> Iterator[Link]:
        """Yield the pairs of a lane."""
        return iter(())

    def dot(self, task: str, step: int, track: int, key: object, value: object, time_ms: int, drop: Drop | None) -> Dot:
        """Return a record, with stream time of its task and its outcome."""
        now = self.run.index.stream_time(task, step)
        return Dot(task, key, TimedRecord(step, track, key, value, time_ms, now, _fate(drop), _why(drop)))

    def raw_writes(self, task: str, store: str, keys: Sequence[object]) -> Iterator[tuple[object, list[int]]]:
        """Yield the rows of some keys, in raw form, with the log positions at which each was written."""
        encode = self.run.tasks[task].stores[store].keys.encode
        wanted = {encode(key) for key in keys if key is not None}
        for raw_key, positions in self.run.index.writes(task, store).items():
            own = raw_key if raw_key in wanted else raw_key[0] if isinstance(raw_key, tuple) else None
            if raw_key is not None and own in wanted:
                yield raw_key, positions

    def rows(self, task: str, store: str, raw_key: object, positions: Sequence[int]) -> Iterator[_Written]:
        """Yield each content of a row with its step; a row that moves between cache and store is not repeated."""
        keeper, before = self.run.tasks[task].stores[store], None
        for position in positions:
            row = self.run.index.row(position)
            if row is not NOTHING and (row != before or row is None):
                step, before = self.run.index.step_of(position), row
                decoded = None if row is None else next(iter(stored_rows(task, keeper, {raw_key: row})), None)
                yield _Written(step, decoded)


class _Written(NamedTuple):
    """The content of a row after a step; None for a deletion."""

    step: int
    row: StoredRow | None


class _Windows(TimeSource):
    """The records that reach a windowed aggregate, and its windows."""

    kind = "windows"

    def __init__(self, run: RecordedRun, name: str, node: str, windows: AggregationWindows) -> None:
        super().__init__(run)
        self.name, self._node, self._windows, self.about = name, node, windows, describe_windows(windows)
        self._inclusive = isinstance(windows, SessionWindows | SlidingWindows)
        self._times: dict[str, list[tuple[int, int]]] = {}

    def dots(self) -> Iterator[Dot]:
        """Yield the records that reached the aggregate; stream time is that of its node, which drives its windows."""
        drops = grouped((each for each in self.run.drops() if each.node == self._node), attrgetter("step"))
        seen: dict[str, int] = {}
        for arrival in arrivals(self.run, self._node):
            step, whose = arrival.step, (arrival.task, arrival.timestamp, arrival.key)
            same = [each for each in drops.get(step, ()) if (each.task, each.timestamp, each.key) == whose]
            late = [each for each in same if each.reason == "late"]
            if len(late) == len(same):  # a record without a key or value does not advance the node's stream time
                seen[arrival.task] = max(seen.get(arrival.task, -1), arrival.timestamp)
                self._times.setdefault(arrival.task, []).append((step, seen[arrival.task]))
            drop, reason = next(iter(late or same), None), ""
            fate = _fate(drop)
            if late:
                fate = "partly late" if self._wrote(step) else "late"
                reason = ", ".join(_why(each, closed=self._inclusive) for each in late)
            now = seen.get(arrival.task, -1)
            key, value, time = arrival.key, arrival.value, arrival.timestamp
            record = TimedRecord(step, 0, key, value, time, now, fate, reason or _why(drop))
            yield Dot(arrival.task, key, record)

    def _wrote(self, step: int) -> bool:
        """Return whether a step changed a window."""
        index = self.run.index
        codes = ((index.code(position), position) for position in index.span(step))
        raw_keys = (index.log[at][1] for code, at in codes if (code.kind, code.node) == ("written", self.name))
        return any(raw_key is not None for raw_key in raw_keys)

    def spans(self, task: str, dots: Sequence[Dot]) -> Iterator[TimeSpan]:
        """Yield the windows of a lane's keys by start; sessions that were merged into another one are left out."""
        times = self._times.get(task, [])
        for raw_key, positions in self.raw_writes(task, self.name, [dot.key for dot in dots]):
            written = list(self.rows(task, self.name, raw_key, positions))
            key = next((each.row.key for each in written if each.row is not None), None)
            if not isinstance(key, Windowed):
                continue
            closes = closes_at(self._windows, key.end)
            at = bisect_left(times, closes, key=lambda each: each[1])
            closed = times[at][0] if at < len(times) else None
            # the rest is expiry
            kept = [each for each in written if each.row is not None or closed is None or each.step < closed]
            values = tuple((each.step, None if each.row is None else format_value(each.row.value)) for each in kept)
            until = None if closes >= MAX_TIME_MS else closes
            yield TimeSpan(key, key.start, key.end, until, closed, values, self._inclusive)


class _Rows(TimeSource):
    """The writes to a store, and how long each row was valid; windows of a store that a processor fills."""

    kind = "rows"

    def __init__(self, run: RecordedRun, name: str) -> None:
        super().__init__(run)
        self.name = name

    def dots(self) -> Iterator[Dot]:
        """Yield a record for each row that a consumed record wrote or deleted, at the record's time."""
        dots = [dot for task in self.run.tasks for dot in self._of_task(task)]
        return iter(sorted(dots, key=lambda dot: dot.record.step))

    def _of_task(self, task: str) -> Iterator[Dot]:
        for raw_key, positions in self.run.index.writes(task, self.name).items():
            key: object = None
            for each in self.rows(task, self.name, raw_key, positions) if raw_key is not None else ():
                time, value = self.time_of(each.step), None if each.row is None else each.row.value
                if each.row is not None:
                    key = unwindowed(each.row.key)
                if time is not None:
                    yield self.dot(task, each.step, 0, key, value, time, None)

    def time_of(self, step: int) -> int | None:
        """Return the time of the record that a step consumed; None for a punctuation or commit."""
        start = self.run.index.starts[step - 1] if step else 0
        return self.run.index.log[start][2] if step and self.run.index.code(start).kind == "consumed" else None

    def spans(self, task: str, dots: Sequence[Dot]) -> Iterator[TimeSpan]:
        """Yield how long each row of the lane's keys was valid, or the window of a windowed row."""
        for raw_key, positions in self.raw_writes(task, self.name, [dot.key for dot in dots]):
            written, begun = list(self.rows(task, self.name, raw_key, positions)), 0
            starts: list[int] = []
            for each in written:
                own = None if each.row is None else each.row.timestamp
                begun = max(begun, own if own is not None else self.time_of(each.step) or 0)
                starts.append(begun)
            for each, start, end in zip(written, starts, [*starts[1:], MAX_TIME_MS], strict=True):
                if each.row is not None and start < end:  # a row that was replaced at the same time has no length
                    key = each.row.key
                    bounds = (key.start, key.end) if isinstance(key, Windowed) else (start, end)
                    yield TimeSpan(key, *bounds, None, None, ((each.step, format_value(each.row.value)),))


class _Side(NamedTuple):
    """One side of a join: where its records arrive, and the node that joins them on arrival, if one does."""

    arrives: str
    joins: str | None
    traits: JoinTraits | None

    def key_of(self, arrival: NodeArrival) -> object:
        """Return the key under which a record is joined."""
        return arrival.joined_by(None if self.traits is None else self.traits.key_selector)


class _Join(TimeSource):
    """The records of both sides of a join, the time in which each looks for partners, and the pairs."""

    kind = "join"

    def __init__(self, run: RecordedRun, name: str, sides: tuple[_Side, _Side]) -> None:
        super().__init__(run)
        self.name, self._sides = name, sides
        traits = sides[0].traits
        if traits is not None and traits.kind == "streams":
            before, after = format_duration(traits.before_ms), format_duration(traits.after_ms)
            self.about = f"partners from {before} before to {after} after"
        names = tuple(", ".join(_topics(run, side.arrives)) for side in sides)
        self.tracks = names if len(set(names)) == 2 and all(names) else ("left", "right")

    def dots(self) -> Iterator[Dot]:
        """Yield the records of both sides in order of arrival, by the key under which they are joined."""
        dots = []
        for track, side in enumerate(self._sides):
            drops = {each.step: each for each in self.run.drops() if each.node in (side.arrives, side.joins)}
            for arrival in arrivals(self.run, side.arrives):
                key, drop = side.key_of(arrival), drops.get(arrival.step)
                dot = self.dot(arrival.task, arrival.step, track, key, arrival.value, arrival.timestamp, drop)
                dots.append((arrival.position, dot))
        return (dot for _, dot in sorted(dots, key=lambda each: each[0]))

    def spans(self, task: str, dots: Sequence[Dot]) -> Iterator[TimeSpan]:
        """Yield the time in which each record of the first side looks for partners, for a join of streams."""
        traits = self._sides[0].traits
        if traits is not None and traits.kind == "streams":
            for _, key, record in dots:
                if record.track == 0 and record.fate == "kept":
                    start, end = record.time_ms - traits.before_ms, record.time_ms + traits.after_ms
                    yield TimeSpan(key, start, end, None, None, ((record.step, ""),), inclusive=True)

    def links(self, task: str, dots: Sequence[Dot]) -> Iterator[Link]:
        """Yield each record with the records whose rows it found."""
        at = {(dot.record.track, dot.record.step, format_value(dot.key)): number for number, dot in enumerate(dots)}
        for track, side in enumerate(self._sides):
            if side.joins is None or side.traits is None:
                continue
            for arrival in arrivals(self.run, side.joins):
                step, key = arrival.step, side.key_of(arrival)
                number = at.get((track, step, format_value(key)))
                if arrival.task != task or number is None:
                    continue
                for matched in dict.fromkeys(self._matches(side.traits, arrival, key)):
                    partner = at.get((1 - track, matched, format_value(key)))
                    if partner is not None and matched <= step:
                        yield Link(number, partner, step)

    def _matches(self, traits: JoinTraits, arrival: NodeArrival, key: object) -> Iterator[int]:
        """Yield the steps that wrote the rows which a record found."""
        index = self.run.index
        owner = store_owner(self.run, arrival.task, traits.store)
        writes = index.writes(owner, traits.store)
        if traits.kind == "streams":
            for position in range(arrival.position, index.end(arrival.step)):
                code = index.code(position)
                if code.kind == "read" and code.node == traits.store:
                    yield from self._written(writes.get(index.log[position][1], []), position)
        elif key is not None:
            raw_key = self.run.tasks[owner].stores[traits.store].keys.encode(key)
            yield from self._written(writes.get(raw_key) or writes.get((raw_key, LATEST_ROW), []), arrival.position)

    def _written(self, writes: list[int], position: int) -> Iterator[int]:
        """Yield the step of the last write before a position; nothing for a row that was deleted."""
        for at in reversed(writes[: bisect_left(writes, position)]):
            step = self.run.index.step_of(at)
            if step and self.run.index.code(self.run.index.starts[step - 1]).kind == "consumed":
                if self.run.index.log[at][3] is not None:
                    yield step
                return


def sources_of(run: RecordedRun) -> Iterator[TimeSource]:
    """Yield what a timeline can show: windowed aggregates, joins, all other stores, and the input."""
    for node, (windows, store) in windowed_nodes(run).items():
        yield _Windows(run, store, node, windows)
    yield from _joins(run)
    for store in run.stores:
        yield _Rows(run, store)
    yield TimeSource(run)


def _joins(run: RecordedRun) -> Iterator[_Join]:
    """Yield the joins by the store of either side."""
    nodes = run.topology.nodes
    keepers = {str(node.traits.store): name for name, node in nodes.items() if node.traits.store is not None}
    joins = {name: node.traits.join for name, node in nodes.items() if node.traits.join is not None}
    for name, traits in joins.items():
        keeper = keepers.get(traits.store)
        if keeper is None:
            continue
        if traits.kind == "lookup":
            yield _Join(run, traits.store, (_Side(name, name, traits), _Side(keeper, None, None)))
        elif traits.kind in ("streams", "tables"):
            other = next((each for each in joins if keeper in nodes[each].parents and each != name), None)
            own = None if other is None else keepers.get(joins[other].store)
            if other is not None and own is not None:
                first, second = _Side(own, name, traits), _Side(keeper, other, joins[other])
                sides = (first, second) if list(nodes).index(own) < list(nodes).index(keeper) else (second, first)
                yield _Join(run, traits.store, sides)


def describe_windows(windows: AggregationWindows) -> str:
    """Return windows in words."""
    if isinstance(windows, UnlimitedWindows):
        return "one window without end"
    if isinstance(windows, SessionWindows):
        size = f"sessions with a gap of {format_duration(windows.gap_ms)}"
    elif isinstance(windows, SlidingWindows):
        size = f"sliding windows of {format_duration(windows.difference_ms)}"
    else:
        size = f"windows of {format_duration(windows.size_ms)}"
        if windows.advance_ms != windows.size_ms:
            size += f" every {format_duration(windows.advance_ms)}"
    return f"{size}, grace {format_duration(windows.grace_ms)}" if windows.grace_ms else f"{size}, no grace"


def _topics(run: RecordedRun, node: str) -> list[str]:
    """Return the topics from which records reach a node, without internal ones."""
    topics = [topic for source in sources_above(run, [node]) for topic in source.topics]
    return [topic for topic in topics if topic not in run.topology.internal_topics]


def _fate(drop: Drop | None) -> Fate:
    """Return the outcome of a record."""
    return "kept" if drop is None else "late" if drop.reason in ("late", "expired") else "dropped"


def _why(drop: Drop | None, *, closed: bool = False) -> str:
    """Return the reason of a drop in words."""
    if drop is None or drop.reason != "late":
        return "" if drop is None else drop.reason
    start, end, time = (drop.details[name] for name in ("window_start", "window_end", "stream_time_ms"))
    return f"its window {format_interval(start, end, closed=closed)} had closed at stream time {format_time(time)}"
