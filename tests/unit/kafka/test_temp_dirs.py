"""Temporary folders beside those of other users of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kstreamnb.kafka.storage.checkpoint_lock import LOCK_FILE
from kstreamnb.kafka.storage.temp_dirs import temp_dir

NOBODY = 65534
pytestmark = pytest.mark.skipif(os.name != "posix", reason="other systems remove no old folders")


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that everybody may write to, as /tmp is."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o1777)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


@contextmanager
def another_user() -> Iterator[None]:
    """Work as a user without permission to read the folders of root; only root can become one."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_of_another_user_stops_nobody(shared: Path) -> None:
    """Their process was killed, or planted it: it can neither be read nor removed, and that is not an error."""
    theirs = shared / "kstreamnb-broker-theirs"
    theirs.mkdir(mode=0o700)
    (theirs / LOCK_FILE).touch(mode=0o600)
    if os.geteuid() != 0:
        theirs.chmod(0)
    try:
        with another_user():
            own = temp_dir("broker")
            assert 0o700 == own.stat().st_mode & 0o777
    finally:
        theirs.chmod(0o700)
    assert (theirs / LOCK_FILE).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
def test_only_own_folders_are_removed(shared: Path) -> None:
    """A free lock in a folder of another user does not permit to remove it."""
    for name, owner in (("theirs", NOBODY), ("own", 0)):
        folder = shared / f"kstreamnb-spark-{name}"
        folder.mkdir()
        (folder / LOCK_FILE).touch()
        os.chown(folder, owner, owner)
    (shared / "kstreamnb-spark-link").symlink_to(shared / "kstreamnb-spark-theirs")
    temp_dir("spark")
    assert (shared / "kstreamnb-spark-theirs" / LOCK_FILE).exists()
    assert not (shared / "kstreamnb-spark-own").exists()


def test_a_folder_is_not_removed_before_it_is_locked(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process looks for unlocked folders at the moment when the system locks the new one."""
    import fcntl

    lock, looks = fcntl.flock, list[subprocess.CompletedProcess[bytes]]()

    def look_first(file: int, operation: int) -> None:
        if not looks:
            code = "from kstreamnb.kafka.storage.temp_dirs import temp_dir; temp_dir('spark')"
            looks.append(subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(shared)}))
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", look_first)
    assert temp_dir("spark").exists()
    assert [0] == [look.returncode for look in looks]
    assert 1 == len([*shared.iterdir()])
