"""The folder that Spark's JVM starts from: a Spark home of links, the kit's classes, and an archive of loaded classes.

The folder outlives the session, because Java uses an archive of classes only with the class path that it was made with.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pyspark

from kstreamnb.kafka.java import cache_folder

_CLASSES = Path(__file__).with_name("java")
JAR, HOME = "kstreamnb.jar", "home"


def jvm_folder(session: Path) -> Path:
    """Return the folder for this version of pyspark and of the kit's classes: in the cache, else the session's own.

    Args:
        session: the folder of the session, for users whose cache cannot be written.
    """
    spark, classes = Path(pyspark.__file__).parent, sorted(_CLASSES.rglob("*.class"))
    parts = [f"{spark} {pyspark.__version__}".encode(), *(path.read_bytes() for path in classes)]
    folder = cache_folder() / f"spark-{sha256(b''.join(parts)).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=folder.parent))
    except OSError:
        folder = work = session
    _fill(work, spark, classes)
    for other in cache_folder().glob("spark-*"):  # beside a session, Spark's own folders have such names
        if not (other / HOME / "jars").exists():  # that pyspark is gone
            shutil.rmtree(other, ignore_errors=True)
    with suppress(OSError):  # another process was faster: its folder is as good
        work.rename(folder)
    return folder


def _fill(folder: Path, spark: Path, classes: list[Path]) -> None:
    with zipfile.ZipFile(folder / JAR, "w") as jar:
        for path in classes:
            jar.write(path, path.relative_to(_CLASSES))
    (folder / HOME).mkdir()
    if os.name == "posix" and spark.is_dir():  # elsewhere links need rights; spark-submit's pyspark is in a zip file
        for entry in spark.iterdir():
            if entry.name != "python" and entry.suffix != ".py":
                (folder / HOME / entry.name).symlink_to(entry)
