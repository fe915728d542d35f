"""Whether a deployment runs over a folder: a lock on a file in it, which ends with its process however that ends.

Several may hold it at once, for a newer deployment takes over from an older one by fencing it, not by waiting. Where
the file system knows no locks, nothing is ever in use.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["LOCK_FILE", "Presence", "in_use"]

LOCK_FILE = ".kstreamnb.lock"


class Presence:
    """Says that a folder is in use, until `leave` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        self._file: int | None = None
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        if _lock(file, exclusive=False):
            self._file = file
        else:
            os.close(file)

    def leave(self) -> None:
        """Not in use by this one any more."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


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
