"""Files of a checkpoint, wherever Spark keeps it: one interface, and its implementation for folders of this machine.

Checkpoints on HDFS or in object stores are read and written through Spark's JVM (`kstreamnb.spark.state.hadoop_files`).
"""

from __future__ import annotations

import os
import re
import shutil
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import get_ident
from typing import Protocol, TypeAlias
from urllib.parse import quote

from kstreamnb.errors import CheckpointError, ConfigError
from kstreamnb.kafka.storage.checkpoint_lock import SharedLock, in_use, unwritable
from kstreamnb.kafka.storage.temp_dirs import temp_dir

MANIFEST = "kstreamnb.json"
CLAIM_FILE = ".kstreamnb.owner"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)  # one letter and a colon are a drive of Windows


class Presence(Protocol):
    """Marks a checkpoint as in use by a running query."""

    def intact(self) -> bool:
        """Return whether the checkpoint still exists, unmoved and not replaced."""

    def release(self) -> None:
        """End the use."""


class CheckpointFiles(ABC):
    """The files of one checkpoint, by names relative to it with "/" between their parts; usable from any thread.

    Attributes:
        address: the checkpoint as Spark is given it.
        name: the last part of the address.
        local: it is a folder of this machine, whose lock shows if it is in use.
    """

    address: str
    name: str
    local: bool = True

    @property
    def plain_address(self) -> str:
        """The address for Spark's reader of state, which does not unescape it."""
        return self.address

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none.

        Args:
            name: the file.
        """

    @abstractmethod
    def write(self, name: str, content: bytes, *, new: bool = False) -> None:
        """Write a file completely or not at all; replaces an older one.

        Args:
            name: the file.
            content: all of its bytes.
            new: the file must not exist; of several processes that write it at the same moment, one can, except on
                object stores, which look for the file and then write it. Default: False.

        Raises:
            StorageError: nothing can be written there, or the file exists.
        """

    @abstractmethod
    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder in alphabetical order; none if the folder does not exist.

        Args:
            folder: the folder. Default: the checkpoint.
        """

    @abstractmethod
    def exists(self, name: str = "") -> bool:
        """Return whether there is a file or folder; by default, the checkpoint itself.

        Args:
            name: the file or folder. Default: the checkpoint.
        """

    @abstractmethod
    def delete(self, name: str = "") -> None:
        """Delete a file, or a folder with its content; by default, the checkpoint. What does not exist is ignored.

        Args:
            name: the file or folder. Default: the checkpoint.
        """

    @abstractmethod
    def move(self, name: str, to: str) -> None:
        """Give a file another name, in a folder that is created if it is missing.

        Args:
            name: the file.
            to: its new name, relative to the checkpoint, too.
        """

    @abstractmethod
    def hold(self) -> Presence:
        """Mark the checkpoint as in use."""

    @abstractmethod
    def in_use(self) -> bool:
        """Return whether a running query uses the checkpoint; False if it is not `local`."""

    def last_line(self, name: str) -> str:
        """Return the last line of a text file, which has the content in Spark's logs.

        Args:
            name: the file.

        Raises:
            FileNotFoundError: the file does not exist.
        """
        content = self.read(name)
        if content is None:
            raise FileNotFoundError(f"{self.address}/{name}")
        return content.decode().splitlines()[-1]

    def numbers(self, folder: str) -> list[int]:
        """Return the numbers among the names in a folder, in ascending order.

        Args:
            folder: the folder.
        """
        return sorted(int(name) for name in self.names(folder) if name.isdigit())

    def __str__(self) -> str:
        return self.address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CheckpointFiles) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)


Checkpoint: TypeAlias = str | Path | CheckpointFiles
"""A checkpoint as users name it."""


class LocalFiles(CheckpointFiles):
    """A checkpoint in a folder of this machine, or of a file system that is mounted on all machines.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     files = LocalFiles(Path(folder) / "shop")
        ...     files.write("offsets/3", b"v1")
        ...     files.numbers("offsets"), files.read("offsets/3"), files.read("offsets/4")
        ([3], b'v1', None)
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, folder.name
        self.address = f"file:{folder.absolute()}"

    @property
    def plain_address(self) -> str:
        """The address; that of a link to the folder if its path has characters that URIs escape, such as spaces."""
        folder = self.folder.absolute()
        return self.address if quote(str(folder)) == str(folder) else f"file:{_link_to(folder)}"

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return (self.folder / name).read_bytes()
        return None

    def write(self, name: str, content: bytes, *, new: bool = False) -> None:
        """Write a draft beside the file, and rename it; other processes may do the same."""
        path = self.folder / name
        draft = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.draft")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(content)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's checksums of the older content
            (_put_new if new else Path.replace)(draft, path)
        except OSError as error:
            raise unwritable(self.folder, error, "checkpoint") from error
        finally:
            with suppress(OSError):  # it was renamed, or its folder cannot be written
                draft.unlink()

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, hidden ones among them."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return sorted(path.name for path in (self.folder / folder).iterdir())
        return []

    def exists(self, name: str = "") -> bool:
        """Return whether there is a file or folder."""
        return (self.folder / name).exists()

    def delete(self, name: str = "") -> None:
        """Delete a file or folder."""
        path = self.folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def move(self, name: str, to: str) -> None:
        """Rename a file."""
        path = self.folder / to
        path.parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).rename(path)

    def hold(self) -> SharedLock:
        """Lock the folder."""
        return SharedLock(self.folder)

    def in_use(self) -> bool:
        """Return whether a process has locked the folder."""
        return in_use(self.folder)

    def __str__(self) -> str:
        return str(self.folder)


class Claim(ABC):
    """The claim of one start.

    Args:
        before: the claim of the start before.

    Attributes:
        token: the claim; no other start has the same.
    """

    def __init__(self, before: bytes) -> None:
        self._before, self.token = before, new_token()
        self._write(self.token)

    def holds(self) -> bool:
        """Return whether no other start came since; what was deleted counts as none."""
        return self._read() in (self.token, b"")

    def withdraw(self) -> None:
        """Restore the claim before this one, after a start that failed."""
        if self._read() == self.token:
            self._write(self._before)

    @abstractmethod
    def _read(self) -> bytes:
        """Return the last claim, empty for none."""

    @abstractmethod
    def _write(self, token: bytes) -> None:
        """Write a claim."""


class FileClaim(Claim):
    """A claim in a file of the checkpoint.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     files = LocalFiles(Path(folder))
        ...     first, second = FileClaim(files), FileClaim(files)
        ...     overtaken = first.holds(), second.holds()
        ...     second.withdraw()
        ...     overtaken, (first.holds(), second.holds())
        ((False, True), (True, False))
    """

    def __init__(self, files: CheckpointFiles) -> None:
        self._files = files
        super().__init__(self._read())

    def _read(self) -> bytes:
        return self._files.read(CLAIM_FILE) or b""

    def _write(self, token: bytes) -> None:
        self._files.write(CLAIM_FILE, token)


def new_token() -> bytes:
    """Return bytes that no other start has."""
    return os.urandom(8).hex().encode()


def local_folder(checkpoint: object) -> Path | None:
    """Return the folder that a checkpoint is; None for an address such as ``s3a://bucket/shop``.

    Example:
        >>> local_folder("file:/data/shop").as_posix(), local_folder("checkpoints/shop").name, local_folder("s3a://b/c")
        ('/data/shop', 'shop', None)
    """
    if not isinstance(checkpoint, str | Path) or not str(checkpoint):
        hint = "pass a folder or an address, as text or as a Path"
        raise ConfigError(f"checkpoint cannot be {checkpoint!r}", hint=hint)
    scheme = None if isinstance(checkpoint, Path) else _SCHEME.fullmatch(checkpoint)
    if scheme is None:
        return Path(checkpoint).absolute()  # Spark's processes may have another working directory
    if scheme[1].lower() != "file":
        return None
    path = re.sub(r"^//(localhost)?(?=/)", "", scheme[2])
    if not path.startswith("/") or path.startswith("//"):
        fact = f'checkpoint "{checkpoint}" is not an absolute path of this machine'
        raise ConfigError(fact, hint='write it as "file:/folder"')
    return Path(path)


def _put_new(draft: Path, path: Path) -> None:
    """Give a draft the name of a file that must not exist."""
    try:
        path.hardlink_to(draft)
    except OSError:  # it exists, or the file system has no links
        path.touch(exist_ok=False)
        try:
            draft.replace(path)
        except BaseException:  # an empty file would count as damaged
            path.unlink()
            raise


@cache
def _link_to(folder: Path) -> Path:
    """Make one link to a folder, which is removed when this process ends."""
    link = temp_dir("checkpoint") / "link"
    link.symlink_to(folder)
    return link


def to_files(checkpoint: Checkpoint) -> CheckpointFiles:
    """Return the files of a checkpoint that this process can reach without Spark.

    Raises:
        CheckpointError: it is an address that needs Spark's JVM.
    """
    if isinstance(checkpoint, CheckpointFiles):
        return checkpoint
    folder = local_folder(checkpoint)
    if folder is None:
        fact = f'checkpoint "{checkpoint}" is not a folder of this machine'
        detail = "its files are reached through a Spark session"
        raise CheckpointError(fact, detail=detail, hint=f'pass checkpoint=ks.spark.checkpoint_files("{checkpoint}")')
    return LocalFiles(folder)
