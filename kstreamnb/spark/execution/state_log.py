"""The state of a task in Spark's state store: a log of deltas with a head.

The log maps numbers from 1 to (token, entry). An entry has a delta, positions, clock, attributes of users' processors
and a part of a compaction. Number 0 is the head: the numbers of the last and first entry, with the token of the
attempt that wrote the last one. Both are one state variable, because Spark sets up each variable for every task of a
batch. A task in a worker's memory has a number and a token: if both are the head's, it is current; if its token is
that of its number's entry, it lacks only the entries after it; otherwise it is rebuilt from the whole log.

Compaction is incremental: each batch writes a part of all present rows beside its delta. Once every row was written,
the entries before the first part are removed, a few with each batch, because every call to Spark costs time and all
tasks reach that point together. No batch reads or writes the whole state: rows in a file are read in pages, and of rows
in memory, which the memory limit bounds, only the keys are listed when a compaction begins.

Rows that expire are not in a delta: when the clock of their store is applied, rows that it makes too old are removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import nullcontext
from itertools import starmap, zip_longest
from operator import countOf, eq
from typing import Any, TypeAlias

from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from kstreamnb.errors import CheckpointError, StateError
from kstreamnb.runtime.task.task import StateDelta
from kstreamnb.spark.execution.cyclic_task import state_vars_of
from kstreamnb.spark.execution.processor_attributes import attributes_of, give_attributes
from kstreamnb.spark.execution.record_merge import Positions
from kstreamnb.spark.execution.state_codec import (
    Attributes,
    LogEntry,
    LogHead,
    pack,
    pack_delta,
    split_delta,
    unpack_delta,
    unpack_entry,
    unpack_head,
)
from kstreamnb.spark.execution.task_file import FileHead
from kstreamnb.spark.execution.task_files import TaskFiles, head_of
from kstreamnb.spark.execution.worker_cache import CachedTask, Compaction
from kstreamnb.spark.execution.worker_progress import Restoring
from kstreamnb.state.disk_rows import DiskRows

KEY_SCHEMA = StructType([StructField("seq", LongType())])
LOG_SCHEMA = StructType([StructField("token", StringType()), StructField("entry", BinaryType())])
STATE = "\n".join(["log", KEY_SCHEMA.json(), LOG_SCHEMA.json()])
"""The state of every group, as `jvm/java/kstreamnb/DeclaredState.java` reads it."""

HEAD = 0
"""The number of the head; its entry is (number of the last entry, of the first, bytes in all)."""

MakeTask: TypeAlias = Callable[[], CachedTask]

_EMPTY = LogHead(last=HEAD, first=HEAD + 1, size=0)
_MOST_ENTRIES = 200
_LEAST_BYTES = 1 << 20
_PART_BYTES = 1 << 13
_LEAST_ROWS = 64
_MOST_GOING = 8
_SORTED_BYTES = 64 << 20


class StateLog:
    """One task's log within the state of its group; ``load`` before the batch, ``save`` after it.

    With ``verify`` a remembered task must equal the one that the log restores: otherwise StateError.
    """

    def __init__(self, log: Any, *, verify: bool = False) -> None:
        self._log, self._verify = log, verify
        self._head, self._token = _EMPTY, ""
        self._positions: Positions = {}
        self._attributes: Attributes = {}
        self.found, self.restoring = "new", Restoring()

    def load(self, cached: CachedTask | None, create: MakeTask, files: TaskFiles | None = None) -> CachedTask:
        """Return the task as of the committed state, from the cheapest source; ``files`` may hold it, too."""
        cached = self._current(cached, create, files)
        if self._verify and self.found in ("hit", "catch-up"):
            self._ensure_committed(cached, create, files)
        self._positions, self._attributes = dict(cached.positions), attributes_of(cached.task)
        if files is not None and cached.file is None and cached.moves:
            cached = self._rebuilt(create, files)  # in a file
        cached.seq, cached.token, cached.state_bytes = self._head.last, self._token, self._head.size
        if cached.file is not None and self._head.last:
            cached.file.settle(cached.task.stores, head_of(cached))
        return cached

    def _current(self, cached: CachedTask | None, create: MakeTask, files: TaskFiles | None) -> CachedTask:
        row = self._log.getValue((HEAD,))
        if row is None:
            self._head, self.found = _EMPTY, "new"
            return create()
        self._token, self._head = row[0], unpack_head(bytes(row[1]))
        if cached is not None and not self._is_usable(cached):
            cached.close()
            cached = None
        if cached is None and files is not None:
            cached = files.open(self._has)
        if cached is not None:
            self.found = "hit" if cached.seq == self._head.last else "catch-up"
            self._catch_up(cached, self._head.last)
        else:
            self.found = "rebuild"
            cached = self._rebuilt(create, files if files is not None and files.are_better(self._head.size) else None)
        return cached

    def _has(self, number: int, token: str) -> bool:
        """Return whether an attempt that was committed wrote this entry, and all later ones are in the log."""
        row = self._log.getValue((number,)) if self._head.first <= number < self._head.last else None
        return token == self._token if number == self._head.last else row is not None and row[0] == token

    def _is_usable(self, cached: CachedTask) -> bool:
        head = None if cached.file is None else cached.file.pin()
        return self._has(cached.seq, cached.token) and (head is None or self._has(head.seq, head.token))

    def _catch_up(self, cached: CachedTask, seq: int) -> None:
        head = None if cached.file is None else cached.file.pin()
        for number in range(cached.seq + 1, seq + 1):
            _apply(cached, unpack_entry(self._entry(number)))
            if cached.file is not None and head is not None and head.seq == number:
                cached.file.recount(head)  # another worker has written the file up to here

    def save(self, cached: CachedTask) -> bytes | None:
        """Append the changes, with a part of a running compaction; return the change, None without one."""
        changes, attributes = cached.task.take_delta(), attributes_of(cached.task)
        if cached.file is not None:
            cached.file.note(changes)
        cached.changed = {name: _take_counts(cached.task.stores[name], rows) for name, rows in changes.rows.items()}
        if not self._head.last:  # all of it: initial values, such as due times, never change and count too
            changes = cached.task.delta_of(cached.task.state_keys())
        elif not changes and (cached.positions, attributes) == (self._positions, self._attributes):
            return None
        delta, head = pack_delta(changes), self._head._replace(last=self._head.last + 1)
        token = os.urandom(8).hex()
        part, first, dropped = self._compact(cached, head, len(delta))
        entry = pack(tuple(LogEntry(delta, cached.positions, cached.clock.now_ms, attributes, part)))
        self._log.updateValue((head.last,), (token, entry))
        for number in range(head.first, first):
            self._log.removeKey((number,))
        self._token, self._head = token, LogHead(head.last, first, head.size + len(entry) - dropped)
        self._log.updateValue((HEAD,), (token, pack(tuple(self._head))))
        cached.seq, cached.token, cached.state_bytes = self._head.last, token, self._head.size
        return delta

    def _entry(self, number: int) -> bytes:
        row = self._log.getValue((number,))
        if row is None:
            hint = "restore the checkpoint from a copy"
            raise CheckpointError(f"entry {number} of a state log is missing", hint=hint)
        return bytes(row[1])

    def _ensure_committed(self, cached: CachedTask, create: MakeTask, files: TaskFiles | None) -> None:
        """Compare a task with the one that the log restores, which is in a file if the task is."""
        with nullcontext() if files is None or cached.file is None else files.beside() as others:
            again = self._rebuilt(create, others)
            _ensure_equal(cached, again)
            again.close()

    def _rebuilt(self, create: MakeTask, files: TaskFiles | None) -> CachedTask:
        """Return the task that the log restores, in a file or, without files, in memory."""
        if files is not None:
            seq, last = self._head.last, unpack_entry(self._entry(self._head.last))
            head = FileHead(seq, self._token, last.positions, last.clock_ms, last.attributes, {}, {})
            deltas = (split_delta(packed) for entry in self._entries() for packed in unpack_entry(entry).deltas)
            return files.build(deltas, head)
        cached = create()
        for entry in self._entries():
            _apply(cached, unpack_entry(entry))
        return cached

    def _entries(self) -> Iterator[bytes]:
        """Yield all entries in order; a long log one by one, because Spark iterates over it in no order."""
        last, first, size = self._head
        self.restoring.done, self.restoring.total = 0, size
        if size > _SORTED_BYTES:
            contents = (self._entry(number) for number in range(first, last + 1))
        else:
            entries = sorted((key[0], value[1]) for key, value in self._log.iterator())
            contents = (entry for number, entry in entries if HEAD < number <= last)
        for entry in contents:
            yield entry
            self.restoring.done += len(entry)

    def _compact(self, cached: CachedTask, last: LogHead, delta: int) -> tuple[bytes | None, int, int]:
        """Return the part to write now, the new first entry, and the bytes that are removed with the ones before."""
        work, base = cached.compaction, last.first
        if work is not None and work.since < base:
            work = cached.compaction = None  # another copy of the task has compacted meanwhile
        part = StateDelta({}, {})
        if work is None:
            live = cached.row_bytes * sum(len(store.raw) for store in cached.task.stores.values())
            if last.last - base < _MOST_ENTRIES and last.size < max(_LEAST_BYTES, 3 * live):
                return None, base, 0
            work = cached.compaction = Compaction(last.last, last.size, list(cached.task.stores))
            part = StateDelta({}, state_vars_of(cached.task))
        room = max(_LEAST_ROWS, max(_PART_BYTES, 2 * delta) // cached.row_bytes)
        rows = _take_rows(cached, work, room)
        packed = pack_delta(StateDelta(rows, part.state_vars)) if rows or part else None
        count = sum(map(len, rows.values()))
        if packed and count >= _LEAST_ROWS:
            cached.row_bytes = max(1, len(packed) // count)
        if work.stores:
            return packed, base, 0
        if work.since - base > _MOST_GOING:
            return packed, base + _MOST_GOING, 0  # entries left behind are older than every part: harmless
        cached.compaction = None
        return packed, work.since, work.bytes_before


def _take_rows(cached: CachedTask, work: Compaction, room: int) -> dict[str, dict[Any, Any]]:
    """Return the next rows that a compaction writes, by store."""
    rows: dict[str, dict[Any, Any]] = {}
    while room > 0 and work.stores:
        raw = cached.task.stores[work.stores[-1]].raw
        if isinstance(raw, DiskRows):
            taken_rows, after = raw.page(work.after, room)
            work.after, taken = after or b"", len(taken_rows)
        else:
            keys = work.keys = list(raw) if work.keys is None else work.keys
            chosen = keys[-room:]
            del keys[-room:]  # from the end: from the front, each batch would move all keys that are left
            taken_rows = {raw_key: row for raw_key in chosen if (row := raw.get(raw_key)) is not None}
            after, taken = b"" if keys else None, len(chosen)
        if taken_rows:
            rows[work.stores[-1]] = taken_rows
        room -= taken
        if after is None:
            work.stores.pop()
            work.keys = None
    return rows


def _take_counts(store: Any, rows: dict[Any, Any]) -> tuple[int, int]:
    """Return how many rows a batch wrote or deleted, and deleted, given its delta; count expired ones from 0 again."""
    expired, store.expired = store.expired or 0, store.expired and 0
    return len(rows) - (None in rows) + expired, countOf(rows.values(), None) + expired


def _ensure_equal(cached: CachedTask, again: CachedTask) -> None:
    """Raise StateError if a task in memory differs from the one restored from its log."""
    for name, store in cached.task.stores.items():
        count = sum(1 for _ in _differing(_rows(store), _rows(again.task.stores[name])))
        if count:
            fact = f'the copy of store "{name}" in a worker differs from the committed one'
            detail = f"rows that differ: {count}; entry {cached.seq} of its log"
            raise StateError(fact, detail=detail, hint="restart the query: its workers read the committed state")
    if cached.positions != again.positions:
        raise StateError("a worker's positions differ from the committed ones")


def _differing(one: MutableMapping[Any, Any], other: MutableMapping[Any, Any]) -> Iterator[Any]:
    """Yield the raw keys of rows that differ."""
    files = isinstance(one, DiskRows) and isinstance(other, DiskRows)
    if files and all(starmap(eq, zip_longest(_items(one), _items(other)))):
        return  # both come by the bytes of their keys, so that equal ones need no lookups
    yield from (raw_key for raw_key, row in _items(one) if other.get(raw_key) != row)
    yield from (raw_key for raw_key, _ in _items(other) if one.get(raw_key) is None)


def _items(rows: MutableMapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    return rows.items_between(b"", None) if isinstance(rows, DiskRows) else rows.items()


def _rows(store: Any) -> MutableMapping[Any, Any]:
    """Return rows by raw key, without the time of the last lookup in a bounded store, which a log does not have."""
    raw: MutableMapping[Any, Any] = store.raw
    if store.spec.max_entries is None:
        return raw
    return {raw_key: row[:2] if store.timestamped else row[1] for raw_key, row in raw.items()}


def _apply(cached: CachedTask, entry: LogEntry) -> None:
    for packed in entry.deltas:
        delta = unpack_delta(packed, trust=True)  # this process runs the user's code anyway
        if delta:
            cached.task.apply_delta(delta)
            if cached.file is not None:
                cached.file.note(delta)
    cached.positions = dict(entry.positions)
    cached.clock.now_ms = entry.clock_ms
    give_attributes(cached.task, entry.attributes)
