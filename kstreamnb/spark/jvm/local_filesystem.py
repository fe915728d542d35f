"""A local file system for Spark that does not start a `chmod` process for every file it creates.

Without Hadoop's native library each created file costs two processes, dozens of them a micro-batch. The classes here
are Hadoop's local file systems, except that `setPermission` does nothing: files have what the process's umask says.
They are small enough to be written byte by byte, so that no compiler and no download is needed. Only sessions on the
local machine use them.
"""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

__all__ = ["QUIET_FILES", "quiet_files_jar"]

QUIET_FILES = "kstreamnb.QuietFiles"
_RAW = "kstreamnb/QuietRawFiles"
_HADOOP = "org/apache/hadoop/fs"
_SET_PERMISSION = f"(L{_HADOOP}/Path;L{_HADOOP}/permission/FsPermission;)V"
_PUBLIC, _SUPER = 0x0001, 0x0020
_JAVA_8 = 52


def quiet_files_jar(folder: Path) -> Path:
    """Write the classes as a jar into a folder."""
    jar = folder / "quiet-files.jar"
    with zipfile.ZipFile(jar, "w") as out:
        out.writestr(f"{_RAW}.class", _raw_class())
        out.writestr(QUIET_FILES.replace(".", "/") + ".class", _checked_class())
    return jar


def _raw_class() -> bytes:
    """What writes the files: a `RawLocalFileSystem` whose `setPermission` does nothing."""
    pool = _Pool()
    parent = pool.type(f"{_HADOOP}/RawLocalFileSystem")
    made = pool.method(parent, "<init>", "()V")
    constructor = b"\x2a" + _call(0xB7, made) + b"\xb1"  # aload_0, invokespecial, return
    methods = [
        pool.declared("<init>", "()V", constructor, stack=1, locals_=1),
        pool.declared("setPermission", _SET_PERMISSION, b"\xb1", stack=0, locals_=3),
    ]
    return pool.class_file(_RAW, parent, methods)


def _checked_class() -> bytes:
    """What Spark is told to use: Hadoop's `LocalFileSystem`, which keeps checksums, over the quiet one."""
    pool = _Pool()
    parent, raw = pool.type(f"{_HADOOP}/LocalFileSystem"), pool.type(_RAW)
    inner = pool.method(raw, "<init>", "()V")
    made = pool.method(parent, "<init>", f"(L{_HADOOP}/FileSystem;)V")
    code = b"\x2a" + _call(0xBB, raw) + b"\x59" + _call(0xB7, inner) + _call(0xB7, made) + b"\xb1"  # aload_0, new, dup
    return pool.class_file(
        QUIET_FILES.replace(".", "/"), parent, [pool.declared("<init>", "()V", code, stack=3, locals_=1)]
    )


def _call(operation: int, what: int) -> bytes:
    return struct.pack(">BH", operation, what)


class _Pool:
    """The constants of a class file in the making, each named by its number."""

    def __init__(self) -> None:
        self._entries: list[bytes] = []

    def text(self, value: str) -> int:
        return self._add(b"\x01" + struct.pack(">H", len(value)) + value.encode())

    def type(self, name: str) -> int:
        return self._add(struct.pack(">BH", 7, self.text(name)))

    def method(self, owner: int, name: str, signature: str) -> int:
        named = self._add(struct.pack(">BHH", 12, self.text(name), self.text(signature)))
        return self._add(struct.pack(">BHH", 10, owner, named))

    def declared(self, name: str, signature: str, code: bytes, *, stack: int, locals_: int) -> bytes:
        body = struct.pack(">HHI", stack, locals_, len(code)) + code + struct.pack(">HH", 0, 0)
        head = struct.pack(">HHHH", _PUBLIC, self.text(name), self.text(signature), 1)
        return head + struct.pack(">HI", self.text("Code"), len(body)) + body

    def class_file(self, name: str, parent: int, methods: list[bytes]) -> bytes:
        """The class; it has no interfaces, fields or attributes."""
        this = self.type(name)
        head = struct.pack(">IHHH", 0xCAFEBABE, 0, _JAVA_8, len(self._entries) + 1) + b"".join(self._entries)
        head += struct.pack(">HHHHHH", _PUBLIC | _SUPER, this, parent, 0, 0, len(methods))
        return head + b"".join(methods) + struct.pack(">H", 0)

    def _add(self, entry: bytes) -> int:
        if entry not in self._entries:
            self._entries.append(entry)
        return self._entries.index(entry) + 1
