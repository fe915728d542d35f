"""Finds, builds and opens the files that hold tasks of an executor whose state exceeds the memory limit."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from kstreamnb.runtime.context.task_context import RowsOf
from kstreamnb.spark.execution.processor_attributes import attributes_of, give_attributes
from kstreamnb.spark.execution.state_codec import PackedDelta
from kstreamnb.spark.execution.task_file import FileHead, TaskFile
from kstreamnb.spark.execution.worker_cache import CachedTask

_MOST_ROWS, _LEAST_ROWS, _ROW_BYTES = 50_000, 1_000, 4_096
_GROWTH = 6
"""How much more memory rows take than their log, which also has rows that were replaced since."""


class TaskFiles:
    """The files of one task; their names contain the token of the entry from which they were built.

    Args:
        folder: the folder of the deployment.
        number: the task's number.
        create: makes the task without state, with rows of its stores from these factories.
        members: the task is a cycle of several.
        room: bytes of memory that are left for the task.
    """

    def __init__(
        self, folder: Path, number: int, create: Callable[[RowsOf | None], CachedTask], *, members: bool, room: int
    ) -> None:
        self._folder, self._number, self._create = folder, number, create
        self._members, self._room = members, room
        self._most_rows = min(_MOST_ROWS, max(_LEAST_ROWS, room // _ROW_BYTES))

    def are_better(self, log_bytes: int) -> bool:
        """Return whether a state whose log has some bytes is likely to exceed the memory that is left."""
        return log_bytes * _GROWTH > self._room

    def open(self, in_log: Callable[[int, str], bool]) -> CachedTask | None:
        """Return the task of the newest file whose entry is in the log; remove all other files."""
        opened = [(path, self._opened(path, in_log)) for path in sorted(self._folder.glob(f"{self._number}-*.sqlite"))]
        newest = max((each for _, each in opened if each is not None), key=lambda each: each.seq, default=None)
        for path, each in opened:
            if each is None or each is not newest:
                _remove(each, path)
        return newest

    def _opened(self, path: Path, in_log: Callable[[int, str], bool]) -> CachedTask | None:
        with suppress(sqlite3.DatabaseError):  # damaged, as after a full disk: the log has everything
            file = TaskFile(path, most_rows=self._most_rows)
            head = file.pin()
            if head is not None and in_log(head.seq, head.token):
                cached = self._create(file.rows_of(members=self._members))
                file.load(cached.task, head)
                cached.file, cached.seq, cached.token = file, head.seq, head.token
                cached.positions, cached.clock.now_ms = dict(head.positions), head.clock_ms
                give_attributes(cached.task, head.attributes)
                return cached
            file.close()
        return None

    def build(self, deltas: Iterable[PackedDelta], head: FileHead) -> CachedTask:
        """Write a new file from deltas and its head; return its task."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for old in self._folder.glob(f"{self._number}.building-*"):
            old.unlink(missing_ok=True)  # of a process that was killed
        os.environ.setdefault("SQLITE_TMPDIR", str(self._folder.parent))  # it sorts there, not in the system's folder
        path = self._folder / f"{self._number}.building-{os.getpid()}"
        file = TaskFile(path, building=True)
        task = self._create(file.rows_of(members=self._members)).task
        file.build(task.stores, deltas, head)
        path.rename(self._folder / f"{self._number}-{head.token}.sqlite")
        opened = self.open(lambda seq, token: token == head.token)
        assert opened is not None
        return opened

    @contextmanager
    def beside(self) -> Iterator[TaskFiles]:
        """Return the files of the same task in another folder, which is removed in the end."""
        with TemporaryDirectory(prefix="compared-", dir=self._folder.parent) as name:
            yield TaskFiles(Path(name), self._number, self._create, members=self._members, room=self._room)


def head_of(cached: CachedTask) -> FileHead:
    """Return the head of a file with the present state of a task."""
    attributes = attributes_of(cached.task)
    return FileHead(cached.seq, cached.token, dict(cached.positions), cached.clock.now_ms, attributes, {}, {})


def _remove(cached: CachedTask | None, path: Path) -> None:
    """Remove a file; another worker that has it open keeps it until it closes it."""
    if cached is not None:
        cached.close()
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
