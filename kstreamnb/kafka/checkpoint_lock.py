"""Locks the checkpoint of a running query, and records in the lock file which start came last.

The lock ends with its process, however that ends. Several processes may hold it at once, because a newer deployment
takes over from an older one by fencing it, not by waiting. On a file system without locks nothing counts as in use.
"""

from __future__ import annotations

import os
from pathlib import Path

from kstreamnb.errors import StorageError

__all__ = ["LOCK_FILE", "STARTED_SINCE", "OwnerToken", "SharedLock", "in_use", "unwritable"]

LOCK_FILE = ".kstreamnb.lock"
STARTED_SINCE = "it was started on the same checkpoint since"
_SIZE = 16
_NOT_THERE = FileNotFoundError, NotADirectoryError


class SharedLock:
    """Marks a folder as in use, until `release` or the end of the process.

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
        file = _opened(self._path, os.O_RDONLY)  # opened for reading: the disk can still be remounted read-only
        self._identity = _identity(os.fstat(file))
        if _lock(file, exclusive=False):
            self._file = file
        else:
            os.close(file)

    def intact(self) -> bool:
        """Tell whether the folder was neither deleted, moved nor replaced by a copy."""
        try:
            return _identity(self._path.stat()) == self._identity
        except _NOT_THERE:
            return False

    def release(self) -> None:
        """Release the lock."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class OwnerToken:
    """Identifies the latest start on a folder, so that an older one does not reopen its transactions automatically.

    Kafka fences the writer that opened its transactions earlier: an older deployment that opens them again, after a
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
        """Tell whether no other start came since; a missing folder counts as none."""
        return self._read() in (self._own, b"")

    def withdraw(self) -> None:
        """Restore the token before this one, after a start that failed."""
        if self._read() == self._own:
            self._write(self._before.ljust(_SIZE))

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes()
        except _NOT_THERE:
            return b""

    def _write(self, token: bytes) -> None:
        """Write in place and always with one size: a reader sees the old or the new token, and the lock stays valid."""
        file = _opened(self._path)
        try:
            os.write(file, token)
        except OSError as error:
            raise unwritable(self._path.parent, error) from error
        finally:
            os.close(file)


def unwritable(folder: Path, error: OSError, kind: str = "folder") -> StorageError:
    """Make the error of a folder that cannot be written: full, read-only, or not permitted."""
    return StorageError(
        f'{kind} "{folder}" cannot be written',
        detail=f"the system says: {error.strerror or error}",
        hint="free disk space, or choose a writable directory",
    )


def _opened(path: Path, access: int = os.O_RDWR) -> int:
    """Open a file to be locked or written; create it with its folder if it is missing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, access | os.O_CREAT, 0o644)
    except OSError as error:
        raise unwritable(path.parent, error) from error


def in_use(folder: Path) -> bool:
    """Tell whether any process has locked the folder."""
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
    """Take the lock until the file is closed; on a system without locks every process gets it."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
