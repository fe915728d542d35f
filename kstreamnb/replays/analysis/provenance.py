"""Traces an output record back to all input records that contributed to it.

The trace follows the hops of the step to the consumed record and to the rows that were read; a row to the record that
wrote it and the rows it was made of; and a record of a repartition topic to the step that wrote it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from kstreamnb.core.formatting import format_time, format_value, pluralize
from kstreamnb.core.record import Change, TopicRecord, Windowed
from kstreamnb.core.tables import Listing
from kstreamnb.core.traits import OperatorTraits
from kstreamnb.recording.record_text import record_id
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.trace import Code, shown
from kstreamnb.recording.trace_index import last_in_step, row_before, row_key
from kstreamnb.replays.analysis.node_flow import came_to, hop_before
from kstreamnb.state.cache import InCache
from kstreamnb.state.versioned import LATEST_ROW
from kstreamnb.state.window import WindowRows
from kstreamnb.topology.nodes import ProcessorNode, Source, walk


@dataclass(frozen=True, repr=False)
class Provenance(Listing[TopicRecord]):
    """The input records that contributed to an output record, in the order in which they were consumed."""

    output: TopicRecord
    inputs: tuple[TopicRecord, ...]
    steps: tuple[int, ...]

    _listed = "inputs"
    header = ("step", "record", "key", "value", "time")

    @property
    def title(self) -> str:
        """Name the output record and the number of its inputs."""
        out = self.output
        result = f"{record_id(out)} (key {format_value(out.key)}, value {format_value(out.value)})"
        return f"{result} comes from {pluralize(len(self), 'record')}"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield the input records as text."""
        for step, each in zip(self.steps, self.inputs, strict=True):
            time = format_time(each.timestamp)
            yield str(step), record_id(each), format_value(each.key), format_value(each.value), time


def provenance_of(run: RecordedRun, topic: str, partition: int, offset: int) -> Provenance:
    """Return all input records that contributed to a record; raise EngineError if no such record was written."""
    position = run.find_output(topic, partition, offset)
    result = sorted(_Trace(run).inputs_of(position))
    steps = tuple(run.index.step_of(each) for each in result)
    inputs = tuple(run.owner(each).consumed(each) for each in result)
    return Provenance(run.owner(position).produced(position), inputs, steps)


class _Parts(NamedTuple):
    """Log positions of the inputs and writes that something was made of; ``old`` is for a change's old value."""

    new: frozenset[int] = frozenset()
    old: frozenset[int] = frozenset()


_NO_PARTS = _Parts()


class _Trace:
    """Follows log positions backwards. A position stands for the input consumed, or the row written, there.

    If several applications share the log, each has its own tracer, and they pass positions on to each other.
    """

    def __init__(self, run: RecordedRun, others: dict[RecordedRun, _Trace] | None = None) -> None:
        self._run, self._index, self._log = run, run.index, run.index.log
        self._others = {} if others is None else others
        self._others[run] = self
        self._arrivals: dict[tuple[str, str], list[int]] = {}
        self._known: dict[int, _Parts] = {}

    def inputs_of(self, written: int) -> set[int]:
        """Return the positions of all inputs that contributed to an output record."""

        def consumed(position: int) -> bool:
            return self._index.code(position).kind == "consumed"

        def before(position: int) -> Iterable[int]:
            return () if consumed(position) else self._at(position).row(position)

        return set(filter(consumed, walk(self._at(written).produced(written).new, before)))

    def _at(self, position: int) -> _Trace:
        """Return the tracer of the application that wrote an entry."""
        run = self._run.owner(position)
        return self._others.get(run) or _Trace(run, self._others)

    def produced(self, position: int) -> _Parts:
        """Return the parts of an output record: those of the hop to its sink, just before it."""
        return self._parts(hop_before(self._run, position))

    def _parts(self, position: int) -> _Parts:
        """Return the parts of a record that was consumed or forwarded."""
        if position not in self._known:
            code = self._index.code(position)
            self._known[position] = self._taken(position) if code.kind == "consumed" else self._handed(position, code)
        return self._known[position]

    def _taken(self, position: int) -> _Parts:
        cause = self._run.causes.get(position)
        return _Parts(frozenset((position,))) if cause is None else self._at(cause).produced(cause)

    def _handed(self, position: int, code: Code) -> _Parts:
        """Return the parts of a forwarded record."""
        node, came = self._run.topology.nodes[code.node], self._arrival(code.task, code.node, position)
        if isinstance(node, Source):
            return _NO_PARTS if came is None else self._parts(came)
        assert isinstance(node, ProcessorNode)
        parts = self._outside_records(position) if came is None else self._parts(came)
        use, traits = node.row_use, node.traits
        if use in ("fold", "fold by time"):
            return self._of_row(code.task, str(traits.store), position, parts)
        if use == "replace":
            return self._replaced(position, code, node, parts)
        if use == "none":
            return parts
        since = self._span_start(position) if came is None else came
        buffer = traits.buffer
        if traits.join is not None and buffer is not None and buffer.kind == "partner":
            return self._joined(since, position, node.name, traits.join.store, buffer.store, parts)
        rows = self._looked_up(since, position, code.node, last=use == "match")
        if buffer is not None and buffer.kind == "change":  # a suppression: the releasing record is not part of it
            return _Parts(rows, rows)
        if use == "any":
            return _Parts(parts.new | parts.old | rows)
        return _Parts(parts.new | rows, parts.old | rows)

    def _replaced(self, position: int, code: Code, node: ProcessorNode, parts: _Parts) -> _Parts:
        """Return the parts of a table's change: the new value from the record, the old one from the previous row."""
        value, store = self._log[position][2], node.traits.store
        if type(value) is not Change or store is None:
            return parts
        row = self._of_row(code.task, store, position, parts)
        return _Parts(row.new if not parts.new else parts.new, row.old if value[1] is not None else frozenset())

    def _of_row(self, task: str, store: str, position: int, parts: _Parts) -> _Parts:
        """Return the latest row of the key of a forwarded record, and the one before it."""
        raw_key = self._raw_key(task, store, shown(self._log[position][1]))
        writes = self._index.writes(task, store).get(raw_key, [])
        at = bisect_right(writes, position)
        if not at:
            return parts
        before = self._log[writes[at - 1]][2] is not None and at > 1
        return _Parts(frozenset(writes[at - 1 : at]), frozenset(writes[at - 2 : at - 1]) if before else frozenset())

    def row(self, position: int) -> frozenset[int]:
        """Return the parts of a row that was written."""
        _, raw_key, _, new = self._log[position]
        code, plain = self._index.code(position), row_key(self._log[position])
        writes = self._index.writes(code.task, code.node).get(plain, [])
        store = self._run.tasks[code.task].stores[code.node]
        flushed = store.spec.cached and type(raw_key) is not InCache
        taken_up = type(raw_key) is InCache and not new.dirty
        if flushed or taken_up or self._index.code(self._span_start(position)).kind == "restarted":
            return self._made(self._index.row(position), writes, position)
        writer, came = self._writer(code, position)
        parts = self._outside_records(position) if came is None else self._parts(came)
        use = "any" if writer is None else writer.row_use
        if use == "replace" or store.spec.extra.get("type") == "suppress":
            return parts.new
        if use == "fold by time":
            assert writer is not None
            return self._in_time(code, writer.name, store, plain, position)
        if use == "any":
            since = self._span_start(position) if came is None else came
            return parts.new | parts.old | self._looked_up(since, position, None, last=False)
        before = row_before(self._log, writes, position)
        folded = frozenset[int]() if before is None else self._made(before, writes, position)
        if came is not None and use == "fold":
            folded |= self._merged(code, came, position)
        return parts.new | parts.old | folded

    def _made(self, row: object, writes: list[int], before: int) -> frozenset[int]:
        """Return where a row was written; it may have been flushed, cached or restored since then."""
        earlier = reversed(writes[: bisect_left(writes, before)])
        return frozenset(islice((at for at in earlier if self._index.row(at) == row), 1))

    def _merged(self, code: Code, came: int, position: int) -> frozenset[int]:
        """Return the rows that were removed for this one: merged sessions."""
        log, number = self._log, self._log[position][0]
        own = (at for at in range(came, position) if log[at][0] == number)
        return frozenset(at for at in own if log[at][3] is None and log[at][2] is not None)

    def _in_time(self, code: Code, node: str, store: WindowRows, raw_key: Any, position: int) -> frozenset[int]:
        """Return all records of a key that reached a node within a window."""
        key, start = raw_key
        end = start + store.window_size_ms
        result: frozenset[int] = frozenset()
        for came in self._arrivals_of(code.task, node):
            if came > position:
                break
            _, at_key, value, timestamp, _ = self._log[came]
            if start <= timestamp <= end and value is not None and store.keys.encode(shown(at_key)) == key:
                result |= self._parts(came).new
        return result

    def _joined(self, since: int, position: int, node: str, other: str, pending: str, parts: _Parts) -> _Parts:
        """Return the parts of a joined pair, or of a record that waited for a partner and was emitted alone."""
        reads = list(self._reads(since, position, node, last=True))
        partners = [at for code, _, written in reads for at in written if code.node == other]
        if partners:
            return _Parts(parts.new.union(partners))
        _, key, _, timestamp, _ = self._log[position]
        own = timestamp, self._raw_key(self._index.code(position).task, pending, shown(key))
        waiting = [(raw_key, written) for code, raw_key, written in reads if code.node == pending]
        waited = frozenset(at for raw_key, written in waiting if (raw_key[0], raw_key[2]) == own for at in written)
        return _Parts(waited) if waited else parts

    def _looked_up(self, since: int, position: int, node: str | None, *, last: bool) -> frozenset[int]:
        """Return the rows read between two positions; with ``last``, only those read after the node last forwarded."""
        return frozenset(at for _, _, written in self._reads(since, position, node, last=last) for at in written)

    def _reads(self, since: int, until: int, node: str | None, *, last: bool) -> Iterator[tuple[Code, Any, list[int]]]:
        """Yield the reads between two positions, with the writes of the rows they returned."""
        for at in reversed(range(since, until)):
            code = self._index.code(at)
            if last and code.kind == "forwarded" and code.node == node:
                return
            if code.kind == "read":
                raw_key = self._log[at][1]
                if self._run.tasks[code.task].stores[code.node].spec.kind == "versioned":
                    written = self._put(code, raw_key[0], raw_key[1], at)
                else:
                    writes = self._index.writes(code.task, code.node).get(raw_key, [])
                    written = writes[bisect_right(writes, at) - 1 : bisect_right(writes, at)]
                yield code, raw_key, written

    def _put(self, code: Code, key: Hashable, time_ms: int | None, read: int) -> list[int]:
        """Return where a version that was read had been put: as the latest one, or late into a segment."""
        latest, late = list[int](), list[int]()
        for raw_key, writes in self._index.writes(code.task, code.node).items():
            if raw_key is None or raw_key[0] != key:
                continue
            for at in writes:
                row = self._log[at][3] if at < read else None
                if row is not None and raw_key[1] == LATEST_ROW and row[1] == time_ms:
                    latest.append(at)
                elif row is not None and raw_key[1] != LATEST_ROW and time_ms in dict(row[1]):
                    late.append(at)
        return [max(latest)] if latest else sorted(late)[:1]

    # --- locating entries ---
    def _arrival(self, task: str, node: str, position: int) -> int | None:
        """Return where the record being processed at a position reached the node."""
        return last_in_step(self._index, self._arrivals_of(task, node), position)

    def _arrivals_of(self, task: str, node: str) -> list[int]:
        if (task, node) not in self._arrivals:
            self._arrivals[task, node] = came_to(self._run, node, task=task)
        return self._arrivals[task, node]

    def _raw_key(self, task: str, store: str, key: object) -> Hashable:
        keeper = self._run.tasks[task].stores[store]
        encode, kind = keeper.keys.encode, keeper.spec.kind
        if kind == "session" and isinstance(key, Windowed):
            return encode(key.key), (key.end, key.start)
        if kind == "versioned":
            return encode(key), -1
        return (encode(key.key), key.start) if "window" in kind and isinstance(key, Windowed) else encode(key)

    def _writer(self, code: Code, position: int) -> tuple[ProcessorNode | None, int | None]:
        """Return the node that wrote a row, and where its record reached that node."""
        using = [node for node in self._run.topology.processors() if code.node in node.stores]
        owning = [node for node in using if code.node in _own_stores(node.traits)] or using
        arrived = ((node, self._arrival(code.task, node.name, position)) for node in owning)
        came = [(node, at) for node, at in arrived if at is not None]
        alone = owning[0] if len(owning) == 1 else None
        return max(came, key=itemgetter(1), default=(alone, None))

    def _span_start(self, position: int) -> int:
        return self._index.starts[self._index.step_of(position) - 1] if self._index.step_of(position) else 0

    def _outside_records(self, position: int) -> _Parts:
        """Return the parts outside a record: for a stream-time punctuation, those of the record before it."""
        start = self._span_start(position)
        code = self._index.code(start)
        if code.kind != "punctuated" or code.other != "stream_time":
            return _NO_PARTS
        taken = self._index.positions_of("consumed", task=code.task)
        at = bisect_right(taken, start) - 1
        return self._parts(taken[at]) if at >= 0 else _NO_PARTS


def _own_stores(traits: OperatorTraits) -> tuple[str | None, ...]:
    """Return the stores that an operator writes."""
    return traits.store, None if traits.buffer is None else traits.buffer.store
