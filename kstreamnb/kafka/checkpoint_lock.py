"""Whether a deployment runs over a folder, and which was started last: a lock on a file in it, and what the file says.

The lock ends with its process however that ends. Several may hold it at once, for a newer deployment takes over from an
older one by fencing it, not by waiting. Where the file system knows no locks, nothing is ever in use.
"""

from __future__ import annotations

import os
from pathlib import Path

from kstreamnb.errors import StorageError

__all__ = ["LOCK_FILE", "STARTED_SINCE", "OwnerToken", "SharedLock", "in_use", "unwritable"]

LOCK_FILE = ".kstreamnb.lock"
STARTED_SINCE = "it was started over the same checkpoint since"
_SIZE = 16
_NOT_THERE = FileNotFoundError, NotADirectoryError


class SharedLock:
    """Says that a folder is in use, until `leave` or the end of the process.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as parent:
        ...     folder = Path(parent) / "checkpoint"
        ...     lock = SharedLock(folder)
        ...     before = lock.intact()
        ...     moved = folder.rename(Path(parent) / "elsewhere")
        ...     lock.release()
        ...     before, lock.intact()
        (True, False)
    """

    def __init__(self, folder: Path) -> None:
        self._file: int | None = None
        self._path = folder / LOCK_FILE
        file = _opened(self._path, os.O_RDONLY)  # who only reads does not keep a disk from being made read-only
        self._identity = _identity(os.fstat(file))
        if _lock(file, exclusive=False):
            self._file = file
        else:
            os.close(file)

    def intact(self) -> bool:
        """Whether the folder is still the one that it was: neither deleted nor moved, nor replaced by a copy."""
        try:
            return _identity(self._path.stat()) == self._identity
        except _NOT_THERE:
            return False

    def release(self) -> None:
        """Not in use by this one any more."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class OwnerToken:
    """The claim of the start that was last over a folder; who started earlier must not come back by itself.

    Kafka fences whoever opened its transactions earlier, so an older deployment that opens them once more, after a
    broker was away, would end the newer one.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     first, second = OwnerToken(Path(folder)), OwnerToken(Path(folder))
        ...     overtaken = first.holds(), second.holds()
        ...     second.withdraw()
        ...     overtaken, (first.holds(), second.holds())
        ((False, True), (True, False))
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_FILE
        self._before, self._own = self._read(), os.urandom(_SIZE // 2).hex().encode()
        self._write(self._own)

    def holds(self) -> bool:
        """Whether no other start has come since; a folder that is gone says nothing of one."""
        return self._read() in (self._own, b"")

    def withdraw(self) -> None:
        """The start failed: the one before it is the last again."""
        if self._read() == self._own:
            self._write(self._before.ljust(_SIZE))

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes()
        except _NOT_THERE:
            return b""

    def _write(self, said: bytes) -> None:
        """Of one size always and in place: who reads meanwhile finds the old or the new, and the lock is the file's."""
        file = _opened(self._path)
        try:
            os.write(file, said)
        except OSError as error:
            raise unwritable(self._path.parent, error) from error
        finally:
            os.close(file)


def unwritable(folder: Path, error: OSError, kind: str = "folder") -> StorageError:
    """The error of a folder that takes no files: its disk is full or read-only, or a permission is missing."""
    return StorageError(
        f'{kind} "{folder}" cannot be written',
        detail=f"the system says: {error.strerror or error}",
        hint="make room there, or give a folder with room, which this user may write to",
    )


def _opened(path: Path, access: int = os.O_RDWR) -> int:
    """A file to be locked or written, which is made with its folder where it is not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, access | os.O_CREAT, 0o644)
    except OSError as error:
        raise unwritable(path.parent, error) from error


def in_use(folder: Path) -> bool:
    """Whether any process says that it uses the folder."""
    path = folder / LOCK_FILE
    if not path.exists():
        return False
    file = os.open(path, os.O_RDWR)
    try:
        return not _lock(file, exclusive=True)
    finally:
        os.close(file)


def _identity(file: os.stat_result) -> tuple[int, int]:
    return file.st_dev, file.st_ino


def _lock(file: int, *, exclusive: bool) -> bool:
    """Take the lock until the file is closed; without locks on this system everybody has it."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
