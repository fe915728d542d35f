"""Worker progress: the current task, node and record, readable while a batch runs and after a worker died.

Each worker has a small file in a folder of the checkpoint. It writes the task's name when a task begins, and a thread
adds node and record every 0.2 s while it runs, so that records themselves cost nothing. The file is locked as long as
its process lives, and empty while it does nothing. Spark ends workers that are idle for a minute, and queries of one
session share workers; so a worker removes its file when it turns to another query, and those of idle ones that ended.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from kstreamnb.background import background
from kstreamnb.hints import message_of
from kstreamnb.kafka.storage.checkpoint_files import CheckpointFiles, LocalFiles
from kstreamnb.kafka.storage.checkpoint_lock import try_lock
from kstreamnb.spark.execution.cyclic_task import AnyTask

_EVERY_S = 0.2
_ATTEMPTS, _PAUSE_S = 5, 0.01
_SIZE = 4096
_exit = os._exit


@dataclass(frozen=True)
class TaskPosition:
    """A task at work.

    Attributes:
        task: its name.
        node: the innermost node at work; empty before the first look.
        record: the record in hand, as ``topic-partition@offset``; empty if there is none.
        alive: its process lives.
        unknown: why node and record are not known; empty if they are.
        restored: how much of its state was read from the log, as a percentage; empty if it is not being rebuilt.
    """

    task: str
    node: str = ""
    record: str = ""
    alive: bool = True
    unknown: str = ""
    restored: str = ""

    def __str__(self) -> str:
        words = [f"task {self.task.rpartition('/')[2]}"]
        words += [f'node "{self.node}"'] if self.node else []
        words += [f"record {self.record}"] if self.record else []
        words += [f"rebuilding its state: {self.restored}"] if self.restored else []
        words += [f"position unknown: {self.unknown}"] if self.unknown else []
        return ", ".join(words)


@dataclass
class Restoring:
    """A task whose state is being read: how many bytes of its log were, of how many; 0 of 0 if it is current."""

    done: int = 0
    total: int = 0

    def position(self, frame: FrameType | None) -> tuple[str, str]:
        """Return that no node and no record is at work."""
        return "", ""

    def __str__(self) -> str:
        return f"{min(100, 100 * self.done // self.total)} %" if self.total else ""


class _Note:
    """The file of this process, and the thread that updates it."""

    def __init__(self) -> None:
        self.pid, self._path, self._file = os.getpid(), Path(), -1
        self._current: tuple[str, AnyTask | Restoring, int] | None = None
        self._writing, self._busy = threading.Lock(), threading.Event()
        self._unknown = ""
        background(self._watch, "kstreamnb-position", died=self._died)
        os._exit = self._end

    def begin(self, folder: str, name: str, task: AnyTask | Restoring) -> None:
        """Note in a folder that a task begins in this thread."""
        path = Path(folder, f"{socket.gethostname()}-{self.pid}")
        with self._writing:
            if path != self._path:
                self._move(path)
            self._current = name, task, threading.get_ident()
            self._write(TaskPosition(name, unknown=self._unknown))
        self._busy.set()

    def _move(self, path: Path) -> None:
        """Leave the file of the query before, and create the one of this query."""
        if self._file >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
        self._path, self._file, self._current = Path(), -1, None  # if the next one cannot be opened, nothing is written
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(PermissionError):  # of another user's worker
            forget_positions(path.parent, f"{socket.gethostname()}-*", at_work=False)
        for attempts in range(_ATTEMPTS, 0, -1):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            if (try_lock(self._file, exclusive=True) and path.exists()) or attempts == 1:
                break
            os.close(self._file)  # another worker has found it before it was locked
            time.sleep(_PAUSE_S)
        self._path = path

    def done(self) -> None:
        """Note that no task is at work."""
        self._busy.clear()
        with self._writing:
            self._current = None
            os.ftruncate(self._file, 0)

    def look(self, frame: FrameType | None = None) -> None:
        """Record the task's current position."""
        with self._writing:
            if self._current is not None:
                name, task, thread = self._current
                node, record = task.position(frame or sys._current_frames().get(thread))  # noqa: SLF001 - the one way to see other threads
                restored = str(task) if isinstance(task, Restoring) else ""
                self._write(TaskPosition(name, node, record, restored=restored))

    def _write(self, position: TaskPosition) -> None:
        data = json.dumps(asdict(position)).encode()
        os.pwrite(self._file, data.ljust(_SIZE), 0)  # one size: a reader sees the whole of it

    def _watch(self) -> None:
        while True:
            self._busy.wait()
            time.sleep(_EVERY_S)
            self.look()

    def _died(self, error: BaseException) -> None:
        """Replace the position, which no longer changes: readers would take the task for stuck."""
        with self._writing:
            self._unknown = message_of(error)
            if self._current is not None:
                self._write(TaskPosition(self._current[0], unknown=self._unknown))
        raise error

    def _end(self, status: int) -> NoReturn:
        """Note the position, and end the process: a user's function may call ``os._exit``, after which nothing runs."""
        if os.getpid() == self.pid and self._current is not None and self._writing.acquire(timeout=1):
            self._writing.release()
            with suppress(Exception):  # the process ends now, and with this status
                self.look(sys._getframe(1))  # noqa: SLF001
        _exit(status)


_notes: dict[int, _Note] = {}  # by process: a forked worker has its own


@contextmanager
def noted(folder: str | None, name: str, task: AnyTask | Restoring) -> Iterator[None]:
    """Note that a task is at work, in a folder; without one nothing is noted."""
    if folder is None:
        yield
        return
    note = _notes.get(os.getpid())
    if note is None:
        _notes.clear()
        note = _notes[os.getpid()] = _Note()
    note.begin(folder, name, task)
    try:
        yield
    finally:
        note.done()


def positions_folder(checkpoint: CheckpointFiles) -> str | None:
    """Return the folder of a checkpoint in which workers note their positions; None if it is not a folder."""
    return str(checkpoint.folder / "workers") if isinstance(checkpoint, LocalFiles) else None


def task_positions(folder: str | Path | None) -> list[TaskPosition]:
    """Return the positions of busy workers, and the last positions of those that died during a task."""
    positions = []
    for _, file in _opened(folder, os.O_RDONLY):  # also on a read-only disk
        text = os.pread(file, _SIZE, 0).decode().strip()
        if text:
            positions.append(TaskPosition(**{**json.loads(text), "alive": not try_lock(file, exclusive=True)}))
    return positions


def forget_positions(folder: str | Path | None, names: str = "*", *, at_work: bool = True) -> None:
    """Remove the files of processes that have ended; without ``at_work`` only if no task was at work."""
    for path, file in _opened(folder, os.O_RDWR, names):
        if (at_work or not os.fstat(file).st_size) and try_lock(file, exclusive=True):
            path.unlink(missing_ok=True)


def _opened(folder: str | Path | None, flags: int, names: str = "*") -> Iterator[tuple[Path, int]]:
    """Yield each file of a folder while it is open, unless another process has removed it."""
    for path in sorted(Path(folder).glob(names)) if folder is not None else ():
        try:
            file = os.open(path, flags)
        except FileNotFoundError:
            continue
        try:
            yield path, file
        finally:
            os.close(file)
