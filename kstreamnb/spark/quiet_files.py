"""A local file system for Spark that does not start a `chmod` process for every file it creates.

Without Hadoop's native library each created file costs a process, about forty a micro-batch. The class is a subclass
of Hadoop's `LocalFileSystem` whose `setPermission` does nothing; it is small enough to be written here byte by byte,
so that no compiler and no download is needed. Only sessions on the local machine use it.
"""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

__all__ = ["QUIET_FILES", "quiet_files_jar"]

QUIET_FILES = "kstreamnb.QuietFiles"
_PARENT = "org/apache/hadoop/fs/LocalFileSystem"
_SIGNATURE = "(Lorg/apache/hadoop/fs/Path;Lorg/apache/hadoop/fs/permission/FsPermission;)V"
_PUBLIC, _SUPER = 0x0001, 0x0020
_JAVA_8 = 52


def quiet_files_jar(folder: Path) -> Path:
    """Write the class as a jar into a folder."""
    jar = folder / "quiet-files.jar"
    with zipfile.ZipFile(jar, "w") as out:
        out.writestr(QUIET_FILES.replace(".", "/") + ".class", _class_file())
    return jar


def _class_file() -> bytes:
    """The class in the Java class file format: a constructor that calls its parent's, and one empty method."""
    texts = [QUIET_FILES.replace(".", "/"), _PARENT, "<init>", "()V", "Code", "setPermission", _SIGNATURE]
    pool = [b"\x01" + struct.pack(">H", len(text)) + text.encode() for text in texts]  # entries 1 to 7
    pool.append(struct.pack(">BH", 7, 1))  # 8: this class
    pool.append(struct.pack(">BH", 7, 2))  # 9: its parent
    pool.append(struct.pack(">BHH", 12, 3, 4))  # 10: name and type of the constructor
    pool.append(struct.pack(">BHH", 10, 9, 10))  # 11: the parent's constructor
    constructor = _method(3, 4, locals_=1, code=b"\x2a\xb7\x00\x0b\xb1")  # aload_0, invokespecial 11, return
    permission = _method(6, 7, locals_=3, code=b"\xb1")  # return
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, _JAVA_8, len(pool) + 1) + b"".join(pool)
    return (
        head
        + struct.pack(">HHHHH", _PUBLIC | _SUPER, 8, 9, 0, 0)  # no interfaces, no fields
        + struct.pack(">H", 2)
        + constructor
        + permission
        + struct.pack(">H", 0)
    )


def _method(name: int, signature: int, *, locals_: int, code: bytes) -> bytes:
    body = struct.pack(">HHI", 1, locals_, len(code)) + code + struct.pack(">HH", 0, 0)
    return struct.pack(">HHHHHI", _PUBLIC, name, signature, 1, 5, len(body)) + body
