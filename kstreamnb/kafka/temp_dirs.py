"""Temporary folders of processes that are started here: gone with this process, however it ends."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from kstreamnb.kafka.checkpoint_lock import LOCK_FILE, SharedLock, in_use

__all__ = ["temp_dir"]


def temp_dir(kind: str) -> Path:
    """A new temporary folder that is removed when this process ends.

    What processes that were killed have left behind is removed now: nobody holds its lock any more.
    """
    prefix = f"kstreamnb-{kind}-"
    if os.name == "posix":  # elsewhere there are no locks to tell by
        for old in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            if (old / LOCK_FILE).exists() and not in_use(old):
                shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    lock = SharedLock(folder)
    atexit.register(_remove, folder, lock)
    return folder


def _remove(folder: Path, lock: SharedLock) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    lock.release()
