"""A Spark session with the settings that the kit needs, started quietly.

The JVM writes to a log file from its first line on; `spark_logs` says where. Nothing else of the machine is touched.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j import java_gateway  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession

import kstreamnb
from kstreamnb.errors import JvmGoneError, MissingJavaError, SparkError
from kstreamnb.kafka.temp_dirs import temp_dir
from kstreamnb.spark.jvm.constants import LARGEST_FUNCTION, NO_JVM
from kstreamnb.spark.jvm.local_filesystem import QUIET_FILES, quiet_files_jar
from kstreamnb.spark.jvm.profiles import Profile, profile_settings

__all__ = [
    "QUERY_SETTINGS",
    "find_java",
    "move_frame",
    "spark_logs",
    "spark_session",
    "query_session",
    "require_session",
]

_STATE = "spark.sql.streaming.stateStore"

QUERY_SETTINGS = {
    # Settings of a session that a streaming query copies when it starts.
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE}.checkpointFormatVersion": "2",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE}.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.transformWithStateInPySpark.maxStateRecordsPerBatch": "32",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
_START_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.python.authenticate.socketTimeout": "120s",  # a busy machine is slow to start processes, no failure
    LARGEST_FUNCTION: "1g",
    "spark.speculation": "false",
    "spark.driver.maxResultSize": "0",
    "spark.task.maxFailures": "4",
}
_NOISY = (  # these warn once a call about states that are simply not there yet, or about sockets of finished tasks
    "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer",
    "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkPythonPreInitRunner",
)
_ORIGINS = "updatingResource"
_LOG = logging.getLogger(__name__)
_logs: list[Path] = []
# Of a JVM that is gone Py4J tells the root logger, which then prints whatever anybody says; its own one is quiet.
java_gateway.logging = logging.getLogger("py4j.java_gateway")


def spark_session(
    app: str = "kstreamnb", *, cores: int = 2, profile: Profile = "local", settings: dict[str, Any] | None = None
) -> SparkSession:
    """A session for `run` and `deploy`: the active one, or a new local one with ``cores`` task slots.

    A new session writes no line to the terminal or notebook; its log is the file that `spark_logs` names, which is
    there as long as this process.

    Args:
        app: the application's name in Spark's own lists.
        cores: task slots of the local session; one Python worker runs in each.
        profile: "local" for sessions of minutes; "latency" for small batches, quick after a minute or two; "production"
            for sessions of weeks, with 2 GB pinned and the G1 collector; "notebook" for small machines. `spark_report`
            says what became of it.
        settings: Spark settings that win over the kit's, such as ``{"spark.driver.memory": "4g"}``.

    Raises:
        MissingJavaError: there is no Java 17 or later.

    Example:
        >>> spark = spark_session("examples")
        >>> spark.range(3).count()
        3
    """
    active = _active()
    if active is not None:
        return active
    find_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    root = str(Path(kstreamnb.__file__).parents[1])  # workers import the kit from where this process has it
    known = os.environ.get("PYTHONPATH", "")
    if root not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, known]))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf().setMaster(f"local[{cores},{_START_SETTINGS['spark.task.maxFailures']}]").setAppName(app)
    folder = temp_dir("spark")
    files = {
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        **_quiet_files(folder),
        "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager",
    }
    chosen = {
        **_START_SETTINGS,
        **profile_settings(profile),
        **QUERY_SETTINGS,
        "spark.sql.shuffle.partitions": str(cores),
        **files,
    }
    for name, value in {**chosen, **(settings or {})}.items():
        conf.set(name, str(value))
    log = folder / "spark.log"
    _logs.append(log)
    with log.open("ab") as out, _home_of_workers(folder):
        gateway = launch_gateway(conf, {"stdout": out, "stderr": out})
    context = SparkContext(conf=conf, gateway=gateway)
    context._accumulatorServer.handle_error = _note_lost_connection  # noqa: SLF001
    configurator = context._jvm.org.apache.logging.log4j.core.config.Configurator  # noqa: SLF001
    for name in _NOISY:
        configurator.setLevel(name, "ERROR")
    return SparkSession(context)


def require_session(spark: SparkSession) -> SparkSession:
    """Return the session; raise SparkError if it was stopped, JvmGoneError if its JVM is gone."""
    try:
        stopped = bool(spark.sparkContext._jsc.sc().isStopped())  # noqa: SLF001
    except AttributeError:  # stopped in this process
        stopped = True
    except (Py4JError, OSError) as error:
        raise JvmGoneError(
            "the JVM of the Spark session is gone",
            detail=NO_JVM,
            hint="see spark_logs(); spark_session() starts another one",
        ) from error
    if stopped:
        raise SparkError("the Spark session was stopped", hint="spark_session() starts another one")
    return spark


def _active() -> SparkSession | None:
    """The session that there is; one whose JVM is gone is forgotten, for pyspark would give it for ever."""
    try:
        return SparkSession.getActiveSession()
    except (Py4JError, OSError):
        SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
        return None


def _note_lost_connection(*_: object) -> None:
    """Instead of a traceback on the terminal when the JVM ends before this process."""
    _LOG.debug("the JVM has let go of its accumulators", exc_info=True)


@contextmanager
def _home_of_workers(folder: Path) -> Iterator[None]:
    """Start the JVM with a Spark home that has no zip file of pyspark in it: workers then find the installed package.

    Spark puts the zip before everything else on the path of its Python processes, and what is imported from a zip file
    is compiled anew by each of them: most of a second, twice in a row at the start of every query.
    """
    installed = Path(pyspark.__file__).parent
    known = os.environ.get("SPARK_HOME")
    if os.name != "posix" or (known is not None and Path(known) != installed):
        yield
        return
    home = folder / "spark-home"
    home.mkdir()
    for entry in installed.iterdir():
        if entry.name != "python" and entry.suffix != ".py":
            (home / entry.name).symlink_to(entry)
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        if known is None:
            del os.environ["SPARK_HOME"]
        else:
            os.environ["SPARK_HOME"] = known


def _quiet_files(folder: Path) -> dict[str, str]:
    """Settings for the kit's file system; none under ``spark-submit``, whose JVM runs already, with its own classes.

    It keeps Hadoop's checksums beside its files, so that Spark need not keep others.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return {}
    return {
        "spark.driver.extraClassPath": str(quiet_files_jar(folder)),
        "spark.hadoop.fs.file.impl": QUIET_FILES,
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    }


def spark_logs() -> Path:
    """The file that the session's JVM and Python workers write to.

    Example:
        >>> spark = spark_session("examples")
        >>> spark_logs().name
        'spark.log'
    """
    if not _logs:
        raise SparkError("no Spark session was started here", hint="spark_session() starts one and keeps its log")
    return _logs[-1]


def find_java() -> str:
    """Return the path of the `java` program; raise MissingJavaError if there is none."""
    import shutil

    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else None
    java = java or shutil.which("java")
    if java is None:
        raise MissingJavaError(
            "Spark needs Java 17 or later, and there is none on this machine",
            detail="neither JAVA_HOME nor PATH leads to a program named java",
            hint="install a Java runtime (OpenJDK 17 or 21), or use TopologyTestDriver, which needs none",
        )
    return java


def query_session(spark: SparkSession) -> SparkSession:
    """A session beside the given one, sharing its engine, with the settings that the kit's queries need."""
    session = spark.newSession()
    for name, value in QUERY_SETTINGS.items():
        session.conf.set(name, value)
    _forget_origins(session)
    return session


def _forget_origins(session: SparkSession) -> None:
    """Drop Hadoop's notes on which file each of its thousand settings is from; the settings stay.

    Spark packs all of them for every level with state of every batch, and each note is compressed for itself, which
    takes most of the time. A session that has begun its work has loaded all of Hadoop's files.
    """
    java = session._jvm  # noqa: SLF001 - the way to classes of the JVM
    if java is None:
        return
    try:
        notes = java.java.lang.Class.forName("org.apache.hadoop.conf.Configuration").getDeclaredField(_ORIGINS)
        notes.setAccessible(True)
        of_settings = notes.get(session.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001
        if of_settings is not None:
            of_settings.clear()
    except Py4JError as error:
        _LOG.debug("Hadoop keeps the origins of its settings: %s", error)


def move_frame(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """The same frame in another session of the same engine: its views are found by the SQL of that session."""
    dataset = spark._jvm.org.apache.spark.sql.classic.Dataset  # noqa: SLF001 - has no public name
    return DataFrame(dataset.ofRows(spark._jsparkSession, frame._jdf.logicalPlan()), spark)  # noqa: SLF001
