"""Locks the checkpoint of a running query.

The lock ends with its process, however that ends. Several processes may hold it at once, because a newer deployment
takes over from an older one by fencing it, not by waiting. On a file system without locks nothing counts as in use.
"""

from __future__ import annotations

import os
from pathlib import Path

from kstreamnb.errors import StorageError

LOCK_FILE = ".kstreamnb.lock"
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
        if try_lock(file, exclusive=False):
            self._file = file
        else:
            os.close(file)

    def intact(self) -> bool:
        """Return whether the folder was neither deleted, moved nor replaced by a copy."""
        try:
            return _identity(self._path.stat()) == self._identity
        except _NOT_THERE:
            return False

    def release(self) -> None:
        """Release the lock."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def unwritable(folder: Path, error: OSError, kind: str = "folder", hint: str = "") -> StorageError:
    """Make the error of a folder that cannot be written: full, read-only, or not permitted."""
    fact = f'{kind} "{folder}" cannot be written'
    detail = f"the system says: {error.strerror or error}"
    is_file = isinstance(error, FileExistsError | NotADirectoryError)
    usual = "choose a folder: a file has this name" if is_file else "free disk space, or choose a writable directory"
    return StorageError(fact, detail=detail, hint=hint or usual)


def _opened(path: Path, access: int) -> int:
    """Open a file to be locked; create it with its folder if it is missing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, access | os.O_CREAT, 0o644)
    except OSError as error:
        raise unwritable(path.parent, error) from error


def in_use(folder: Path) -> bool:
    """Return whether any process has locked the folder."""
    path = folder / LOCK_FILE
    if not path.exists():
        return False
    file = os.open(path, os.O_RDWR)
    try:
        return not try_lock(file, exclusive=True)
    finally:
        os.close(file)


def _identity(file: os.stat_result) -> tuple[int, int]:
    return file.st_dev, file.st_ino


def try_lock(file: int, *, exclusive: bool) -> bool:
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
