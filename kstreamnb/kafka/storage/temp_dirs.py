"""Temporary folders for child processes, removed when this process ends, however it ends."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from kstreamnb.kafka.storage.checkpoint_lock import LOCK_FILE, SharedLock, in_use, unwritable

_ROOM = 1 << 20  # bytes


def temp_dir(kind: str, *, removed: bool = True) -> Path:
    """Create a temporary folder that is removed when this process ends, unless ``removed`` is False.

    Folders of this user's processes that were killed are removed now: their locks are free. Nobody else may read those
    of other users, and what they contain is not to be trusted.

    Raises: StorageError if the disk is full: pyspark would wait forever for a JVM that cannot write its files.
    """
    prefix = f"kstreamnb-{kind}-"
    if os.name == "posix":  # other systems have no locks to check
        for old in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            with suppress(OSError):  # another process may have removed it meanwhile
                if old.lstat().st_uid == os.geteuid() and (old / LOCK_FILE).exists() and not in_use(old):
                    shutil.rmtree(old, ignore_errors=True)
    try:
        with tempfile.TemporaryFile() as file:
            file.write(bytes(_ROOM))
        folder = Path(tempfile.mkdtemp(prefix=f".{prefix}"))
    except OSError as error:
        raise unwritable(Path(tempfile.gettempdir()), error, "temporary folder") from error
    lock = SharedLock(folder)
    if os.name == "posix":  # with its name before its lock, another process would remove it
        folder = folder.rename(folder.with_name(folder.name[1:]))
    atexit.register(*((_remove, folder, lock) if removed else (lock.release,)))
    return folder


def _remove(folder: Path, lock: SharedLock) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    lock.release()
