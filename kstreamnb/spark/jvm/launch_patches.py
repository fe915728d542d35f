"""Patches for the start of a JVM: files without `chmod`, workers without pyspark's zip file, fewer repeated steps."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import pyspark
from py4j.clientserver import ClientServer

from kstreamnb.kafka.java import java
from kstreamnb.spark.jvm.home import HOME, JAR, jvm_folder
from kstreamnb.spark.jvm.patches import Patch, note_no_effect

OPTIONS = "SPARK_SUBMIT_OPTS"  # options of the JVM that Spark's start script adds to those of the settings
_MORE_CLASSES = "SPARK_DIST_CLASSPATH"  # that it adds to the class path


@dataclass
class Launch:
    """The start of a session, before its JVM runs.

    Attributes:
        local: the executors are threads of the JVM that this process starts.
        submitted: ``spark-submit`` has started the JVM already.
        folder: a directory for files of this session.
        settings: Spark settings that patches add.
        environment: variables of the JVM's process that patches set.
        options: options of the JVM that patches add.
        gateway: the connection to the JVM once it runs.
    """

    local: bool
    submitted: bool
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    options: list[str] = field(default_factory=list)
    gateway: ClientServer | None = None

    @cached_property
    def lasting(self) -> Path:
        """A directory of the same files for all sessions."""
        return jvm_folder(self.folder)

    @property
    def archive(self) -> Path:
        """The archive of classes for the Java that runs; Java ignores one that does not suit its class path."""
        return self.lasting / f"classes-{sha256(str(Path(java()).resolve()).encode()).hexdigest()[:16]}.jsa"


def _needs_own_jvm(launch: Launch) -> str | None:
    if not launch.local:
        return "the master is not local: executors elsewhere lack kstreamnb's classes"
    return "spark-submit has started the JVM" if launch.submitted else None


def _use_local_files(launch: Launch) -> None:
    """Have Hadoop use `java/kstreamnb/UmaskFileSystem.java` for files of the local machine.

    Without Hadoop's native library, `RawLocalFileSystem.setPermission` starts a `chmod` process for each file: two for
    each created file, dozens for each micro-batch. This one takes permissions away without a process, and grants none
    that the umask denies. The classes beside the sources are what `make classes` compiles.
    They keep Hadoop's checksums beside the files, so Spark's own checksums would be a second set.
    The classes are also at the end of the class path, for users whose own one replaces the setting.
    """
    jar = str(launch.lasting / JAR)
    launch.environment[_MORE_CLASSES] = os.pathsep.join(filter(None, [os.environ.get(_MORE_CLASSES), jar]))
    launch.settings |= {
        "spark.driver.extraClassPath": jar,
        "spark.hadoop.fs.file.impl": "kstreamnb.UmaskFileSystem",
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    }


def _has_other_home(launch: Launch) -> str | None:
    home = os.environ.get("SPARK_HOME")
    if home is not None and Path(home) != Path(pyspark.__file__).parent:
        return "SPARK_HOME is not the installed pyspark"
    return "needs POSIX" if os.name != "posix" else _needs_own_jvm(launch)


def _use_home_without_zip(launch: Launch) -> None:
    """Start the JVM with a Spark home of links that lacks ``python/``: workers then import the installed pyspark.

    Spark puts ``python/lib/pyspark.zip`` first on the path of its Python processes, and modules from a zip file are
    compiled again by each process: most of a second, twice in a row at the start of every query.
    """
    launch.environment["SPARK_HOME"] = str(launch.lasting / HOME)


def _lacks_archive(launch: Launch) -> str | None:
    return _needs_own_jvm(launch) or (None if launch.archive.exists() else "kstreamnb archive-classes writes it")


def _use_class_archive(launch: Launch) -> None:
    """Have the JVM map the classes of an archive, instead of loading 15,000 of them from jars."""
    # Java 24 and later log errors about options of Spark that an archive does not support, although they use it.
    launch.options += [f"-XX:SharedArchiveFile={launch.archive}", "-Xlog:cds=off"]


def check_archive(launch: Launch) -> None:
    """Note if Java, which says nothing, does not use the archive: it was written by another one, or for other jars."""
    assert launch.gateway is not None
    mapped = Path(f"/proc/{launch.gateway.proc.pid}/maps")  # of Linux
    if mapped.exists() and launch.archive.name not in mapped.read_text(encoding="utf-8"):
        note_no_effect("class-archive", "Java does not accept it; kstreamnb archive-classes writes a new one")


def _lacks_classes(launch: Launch) -> str | None:
    return _needs_own_jvm(launch) or (None if _MORE_CLASSES in launch.environment else "it needs the patch local-files")


def _use_batch_classes(launch: Launch) -> None:
    """Use `java/kstreamnb/BatchClasses.java`, which saves Spark work that it would repeat for every batch.

    It defines classes that Spark's start has not loaded yet, so this must precede the Spark context.
    """
    assert launch.gateway is not None
    launch.gateway.jvm.kstreamnb.BatchClasses.define()


LAUNCH_PATCHES = (
    Patch("local-files", "saves a chmod process for each file that Spark writes", _needs_own_jvm, _use_local_files),
    Patch("worker-home", "Python workers start up to a second sooner", _has_other_home, _use_home_without_zip),
    Patch("class-archive", "a session starts in half the time", _lacks_archive, _use_class_archive),
)
_FEWER_STEPS = "skips steps that took a fifth of the samples of a profile of small batches"
JVM_PATCHES = (Patch("batch-classes", _FEWER_STEPS, _lacks_classes, _use_batch_classes),)
