"""Files of a checkpoint on any file system of Hadoop (``hdfs:``, ``s3a:``, ``abfss:``, ``gs:``, ``dbfs:``).

They are reached through the JVM of the session, with the classes, settings and credentials that Spark itself uses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from py4j.java_gateway import JavaObject, JVMView
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from kstreamnb.core.arguments import check_arguments
from kstreamnb.errors import EngineError, JvmGoneError, StorageError
from kstreamnb.kafka.storage.checkpoint_files import MANIFEST, Checkpoint, CheckpointFiles, LocalFiles, local_folder
from kstreamnb.spark.jvm.constants import NO_JVM
from kstreamnb.spark.jvm.session import FILE_MANAGER, require_session, spark_session

_ELSEWHERE = ("PYSPARK_GATEWAY_PORT", "HADOOP_CONF_DIR", "SPARK_CONF_DIR")  # these may name another default file system


def checkpoint_files(checkpoint: Checkpoint, spark: SparkSession | None = None) -> CheckpointFiles:
    """Return the files of a checkpoint: a folder, or an address of any file system that the session knows.

    A path without a scheme is one of the session's default file system, as for Spark: of this machine, unless Hadoop's
    ``fs.defaultFS`` names another one.

    Args:
        checkpoint: a folder such as ``"checkpoints/shop"`` or ``"file:/mnt/shop"``, or an address such as
            ``"hdfs://host:8020/shop"`` or ``"s3a://bucket/shop"``.
        spark: the session that reaches an address; without one, `spark_session` starts one if it is needed. Default:
            None.

    Raises:
        ConfigError: it is neither a folder nor an address.
        StorageError: the file system cannot be reached, or its classes are missing.

    Example:
        >>> checkpoint_files("checkpoints/shop").name
        'shop'
    """
    check_arguments(checkpoint_files, locals())
    if isinstance(checkpoint, CheckpointFiles):
        return checkpoint
    folder = local_folder(checkpoint)
    if folder is not None and (str(checkpoint).startswith("file:") or not _may_be_elsewhere(spark)):
        return LocalFiles(folder)
    files = HadoopFiles(require_session(spark or spark_session()), str(checkpoint))
    return LocalFiles(folder) if folder is not None and files.on_disk else files


def _may_be_elsewhere(spark: SparkSession | None) -> bool:
    """Return whether a path without a scheme may belong to another file system than that of this machine."""
    if spark is None and SparkSession.getActiveSession() is None:
        return any(name in os.environ for name in _ELSEWHERE)
    return spark is None or isinstance(spark, SparkSession)


class HadoopFiles(CheckpointFiles):
    """A checkpoint behind Hadoop's interface, written by Spark's own checkpoint file manager.

    Attributes:
        on_disk: it is on a disk of the machine that runs the JVM.
    """

    local = False

    def __init__(self, spark: SparkSession, address: str) -> None:
        self._jvm: JVMView = spark._jvm  # noqa: SLF001 - has no public name
        self.address, self.name = address, address.rstrip("/").rpartition("/")[2]
        with self._reached():
            conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
            conf.unset(FILE_MANAGER)  # sessions on one machine choose a manager that cannot replace files elsewhere
            given = self._jvm.org.apache.hadoop.fs.Path(address)
            self._system = given.getFileSystem(conf)
            self._root = self._system.makeQualified(given)
            self.address = str(self._root.toString())
            streaming = self._jvm.org.apache.spark.sql.execution.streaming
            self._manager = streaming.checkpointing.CheckpointFileManager.create(self._root, conf)
            self.on_disk = bool(self._manager.isLocal())

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        with self._reached():
            stream = self._if_exists(self._manager.open, name)
            if stream is None:
                return None
            with closing(stream):
                return bytes(stream.readAllBytes())

    def write(self, name: str, content: bytes, *, new: bool = False) -> None:
        """Write a file by Spark's manager: a temporary file and a rename, or what the file system has instead."""
        path = self._path(name)
        with self._reached():
            self._manager.mkdirs(path.getParent())  # some managers do not create folders
            stream = self._manager.createAtomic(path, not new)
            try:
                stream.write(bytearray(content))
            except BaseException:
                stream.cancel()
                raise
            stream.close()  # here it becomes visible
            self._manager.delete(self._path(f"{name}.crc"))  # Spark's checksum of the older content

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder."""
        with self._reached():
            entries = self._if_exists(self._manager.list, folder)
            return sorted(entry.getPath().getName() for entry in entries or ())

    def exists(self, name: str = "") -> bool:
        """Return whether there is a file or folder."""
        with self._reached():
            return bool(self._manager.exists(self._path(name)))

    def delete(self, name: str = "") -> None:
        """Delete a file, or a folder with its content."""
        with self._reached():
            self._manager.delete(self._path(name))

    def move(self, name: str, to: str) -> None:
        """Rename a file; object stores copy it."""
        path = self._path(to)
        with self._reached():
            self._manager.mkdirs(path.getParent())
            self._system.rename(self._path(name), path)

    def hold(self) -> ManifestPresence:
        """Record whose checkpoint it is."""
        return ManifestPresence(self)

    def in_use(self) -> bool:
        """Return False: there are no locks that all machines see."""
        return False

    def _path(self, name: str) -> JavaObject:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root

    def _if_exists(self, access: Callable[[JavaObject], JavaObject], name: str) -> JavaObject | None:
        """Access a file or folder; return None if it does not exist."""
        try:
            return access(self._path(name))
        except Py4JJavaError as error:
            if _is(error, "FileNotFoundException"):
                return None
            raise

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Turn errors of the JVM into those of a storage that cannot be reached."""
        try:
            yield
        except Py4JJavaError as error:
            *_, cause = _causes(error)
            detail = f"{cause.getClass().getSimpleName()}: {str(cause.getMessage()).partition(chr(10))[0]}"
            hint = "check the address, the settings spark.hadoop.* of the session, and the rights of its user"
            if _is(error, "UnsupportedFileSystemException", "ClassNotFoundException"):
                package = f"org.apache.hadoop:hadoop-aws:{self._jvm.org.apache.hadoop.util.VersionInfo.getVersion()}"
                settings = f'settings={{"spark.jars.packages": "{package}"}}'
                hint = f"add the classes of its file system, for s3a: {settings}"
            raise StorageError(f'checkpoint "{self.address}" cannot be reached', detail=detail, hint=hint) from error
        except (Py4JError, OSError) as error:
            fact = f'the JVM that accesses checkpoint "{self.address}" has ended'
            raise JvmGoneError(fact, detail=NO_JVM, hint="spark_session() starts another one") from error


class ManifestPresence:
    """The use of a checkpoint that has no locks: intact as long as its manifest is the same query's."""

    def __init__(self, files: CheckpointFiles) -> None:
        self._files = files
        self._query = self._read()

    def intact(self) -> bool:
        """Return whether the manifest is there; a storage that cannot be reached at the moment is not missing."""
        try:
            return self._read() == self._query
        except EngineError:
            return True

    def release(self) -> None:
        """Do nothing: nothing is held."""

    def _read(self) -> str | None:
        content = self._files.read(MANIFEST)
        return None if content is None else str(json.loads(content).get("query"))


def _causes(error: Py4JJavaError) -> Iterator[JavaObject]:
    """Yield Java's error, and what caused it."""
    cause = error.java_exception
    while cause is not None:
        yield cause
        cause = cause.getCause()


def _is(error: Py4JJavaError, *names: str) -> bool:
    """Return whether the error or one of its causes is an instance of these classes."""
    return any(cause.getClass().getSimpleName() in names for cause in _causes(error))
