"""Starts Spark sessions with the settings that the kit needs, in the running JVM or a new one.

The JVM of a new session writes all its output to a log file; `spark_logs` returns its path.
"""

from __future__ import annotations

import argparse
import atexit
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from traceback import walk_tb

from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.streaming.query import StreamingQuery

import kstreamnb
from kstreamnb.background import background
from kstreamnb.core.arguments import at_least, check_arguments, expect
from kstreamnb.core.progress import under_way
from kstreamnb.errors import ConfigError, JvmGoneError, SparkError
from kstreamnb.kafka.java import java, old_java_error, refuse_windows
from kstreamnb.kafka.storage.temp_dirs import temp_dir
from kstreamnb.masking import is_secret
from kstreamnb.spark.jvm.constants import LOCAL_MASTER, NO_JVM, WORKER_SETTINGS
from kstreamnb.spark.jvm.launch_patches import JVM_PATCHES, LAUNCH_PATCHES, OPTIONS, Launch, check_archive
from kstreamnb.spark.jvm.patches import DISABLED_SETTING, apply_patches, disabled_patches
from kstreamnb.spark.jvm.profiles import SETTINGS, Profile, profile_settings
from kstreamnb.spark.jvm.session_patches import (
    END_PATCHES,
    QUERY_PATCHES,
    SESSION_PATCHES,
    SOURCE_PATCHES,
    STREAM_PATCHES,
    STREAMING_PATCHES,
    KnownSource,
    RunningStream,
    keep_handler,
)
from kstreamnb.spark.jvm.warm_up import end_warm_up, end_warm_ups

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
_ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_MASTER, _NAME, _PYTHON = "spark.master", "spark.app.name", "spark.pyspark.python"
_JVM_SETTINGS = {"spark.driver.memory", "spark.driver.extraJavaOptions", "spark.driver.extraClassPath"}
_PATIENCE_S = 5.0
_LOG_LINES = 5
_LONGEST_FOLDER = 60  # of a socket: systems allow paths of 103 bytes, and Spark's names have 43

QUERY_SETTINGS: dict[str, str] = SETTINGS["query"]
"""Settings of a session that a streaming query copies when it starts."""

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
"""Spark's setting of the class that writes checkpoints."""

_STREAM_PATCHES = (*STREAMING_PATCHES, *SOURCE_PATCHES, *STREAM_PATCHES, *END_PATCHES)
START_PATCHES = (*LAUNCH_PATCHES, *JVM_PATCHES, *SESSION_PATCHES)
"""The patches that `spark_session` applies when it starts a session."""

PATCHES = tuple({patch.name: patch.benefit for patch in (*START_PATCHES, *QUERY_PATCHES, *_STREAM_PATCHES)}.items())
"""Name and benefit of every patch."""
_logs: list[Path] = []  # of each session whose JVM was started here
_starting = threading.RLock()  # held during a start: pyspark has one JVM and one session in a process


def spark_session(
    app: str | None = None,
    *,
    master: str | None = None,
    cores: int = 2,
    profile: Profile = "local",
    settings: Mapping[str, str | float | bool] | None = None,
) -> SparkSession:
    """Return a session for `run` and `deploy`: the active one, else a new one, by default on this machine.

    All threads of a process share it.
    Under ``spark-submit``, its ``--master``, ``--name``, ``--conf`` and other options override kstreamnb's defaults, as
    do ``PYSPARK_SUBMIT_ARGS`` and ``spark-defaults.conf``; the arguments of this function override all of them.
    A new session on this machine prints nothing; its log is the file that `spark_logs` returns, which exists as long as
    this process. A small job in the background, job 0, makes the first batch start sooner.

    Args:
        app: the application's name in Spark's own lists; by default that of ``spark-submit``, else "kstreamnb".
        master: Spark's master URL, such as ``"local[3]"`` or ``"spark://host:7077"``; by default that of
            ``spark-submit``, else this machine with ``cores`` task slots.
        cores: number of task slots if no master is given; one Python worker runs in each. Default: 2.
        profile: "local" for sessions of minutes; "latency" for small batches, quick after a minute or two; "production"
            for sessions of weeks, with 2 GB pinned and the G1 collector, and on a cluster executors with two cores;
            "notebook" for small machines. `spark_report` shows the settings in force. Default: "local".
        settings: Spark settings that win over all others, such as ``{"spark.driver.memory": "4g"}``. Default: none.

    Raises:
        MissingJavaError: there is no Java 17 or later.
        SparkError: the JVM ended before it answered; the detail has the last lines of its log.
        ConfigError: the profile, or the name of a patch to disable, does not exist.

    Example:
        >>> spark = spark_session("examples")
        >>> spark.range(3).count()
        3
    """
    check_arguments(spark_session, locals())
    at_least(1, cores, "cores")
    refuse_windows("Spark")
    with _starting:
        if (active := active_session()) is not None:
            return active
        java()  # the start script would fail in the log only
        with under_way("starting Spark"):
            try:
                return _new_session(app, master, cores, profile, settings)
            except BaseException:  # an interrupt, too: nobody has a session with which to stop the JVM
                if not is_submitted():
                    _forget_session()
                raise


def _new_session(
    app: str | None, master: str | None, cores: int, profile: Profile, settings: Mapping[str, str | float | bool] | None
) -> SparkSession:
    arguments = {_MASTER: master, _NAME: app, **(settings or {})}
    explicit = {name: str(value) for name, value in arguments.items() if value is not None}
    submitted = is_submitted()
    # The JVM that spark-submit has started; pyspark keeps its only connection after a session was stopped.
    gateway = (SparkContext._gateway or launch_gateway()) if submitted else None  # noqa: SLF001
    outside = dict(SparkConf(_jvm=gateway.jvm).getAll()) if gateway is not None else _outside_settings()
    start = SETTINGS["start"]
    chosen = {_MASTER: f"local[{cores},{start['spark.task.maxFailures']}]", _NAME: "kstreamnb", **outside, **explicit}
    slots = LOCAL_MASTER.fullmatch(chosen[_MASTER])
    launch = Launch(local=slots is not None, submitted=submitted, folder=temp_dir("spark", removed=not submitted))
    disabled = _disabled(chosen)
    if gateway is not None:  # this JVM ends after Python, and until then starts processes that use the folder
        folder = gateway.jvm.java.io.File(str(launch.folder))
        gateway.jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(folder)
    apply_patches(LAUNCH_PATCHES, launch, disabled)
    defaults = {**start, **profile_settings(profile), **QUERY_SETTINGS, **launch.settings}
    if slots is not None:
        _prepare_local_workers()
        defaults |= _local_settings(launch.folder, os.cpu_count() or 1 if slots[2] == "*" else int(slots[2] or 1))
    elif _PYTHON in chosen:
        chosen = _with_executors_python(chosen)
    if submitted:  # its JVM already has its memory, options and classes: setting them now would have no effect
        defaults = {name: value for name, value in defaults.items() if name not in _JVM_SETTINGS}
    chosen = {**defaults, **chosen}
    launch.gateway = gateway = gateway or _start_jvm(chosen, launch)
    apply_patches(JVM_PATCHES, launch, disabled)
    if not submitted:
        check_archive(launch)
    conf = SparkConf(_jvm=gateway.jvm)  # has the JVM's start options: spark-submit merges its own into it
    conf.setAll([(name, value) for name, value in chosen.items() if name in explicit or not conf.contains(name)])
    handler = signal.getsignal(signal.SIGINT)  # pyspark replaces it
    session = SparkSession(SparkContext(conf=conf, gateway=gateway))
    if slots is None:
        session.sparkContext.environment.pop("PATH", None)  # it is that of executors
    apply_patches(SESSION_PATCHES, session, disabled)
    keep_handler(handler)
    return session


def _with_executors_python(chosen: dict[str, str]) -> dict[str, str]:
    """Name the Python of the executors where pyspark looks for it: without spark-submit it ignores the setting.

    The driver starts the processes that plan batches by the same name, so a path within an archive, which only
    executors have, becomes a name that both find.
    """
    folder, _, name = chosen[_PYTHON].rpartition("/")
    packed = folder and not folder.startswith("/")
    os.environ["PYSPARK_PYTHON"] = name if packed else chosen[_PYTHON]
    if not packed:
        return chosen
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {"spark.executorEnv.PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin", **chosen}


def _prepare_local_workers() -> None:
    """Have Python workers on this machine run this interpreter, and import the kit from the same directory."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    root = str(Path(kstreamnb.__file__).parents[1])
    known = os.environ.get("PYTHONPATH", "")
    if root not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, known]))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _local_settings(folder: Path, slots: int) -> dict[str, str]:
    """Return the settings of a session on this machine; elsewhere these directories may not exist."""
    is_short = len(str(folder)) <= _LONGEST_FOLDER
    return {
        # Elsewhere sockets would be in the containers' directories, whose paths are too long on YARN. Spark leaves the
        # files of its sockets behind; this directory is removed. Spark garbles paths outside ASCII.
        "spark.python.unix.domain.socket.enabled": "true" if is_short and str(folder).isascii() else "false",
        "spark.python.unix.domain.socket.dir": str(folder),
        "spark.sql.shuffle.partitions": str(slots),
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        FILE_MANAGER: f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
    }


def _outside_settings() -> dict[str, str]:
    """Return the settings in ``spark-defaults.conf`` and those in ``PYSPARK_SUBMIT_ARGS`` that are known by name."""
    settings: dict[str, str] = {}
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    with suppress(OSError):
        for line in (Path(folder or "") / "spark-defaults.conf").read_text(encoding="utf-8").splitlines():
            settings |= re.findall(r"^\s*(spark\.[\w.-]+)[\s=:]+(.*\S)", line)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--conf", "-c", action="append", default=[])
    parser.add_argument("--master", dest=_MASTER)
    parser.add_argument("--name", dest=_NAME)
    options = vars(parser.parse_known_args(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))[0])
    settings |= dict(entry.split("=", 1) for entry in options.pop("conf") if "=" in entry)
    return {**settings, **{name: value for name, value in options.items() if value is not None}}


def _start_jvm(settings: Mapping[str, str], launch: Launch) -> ClientServer:
    """Start a JVM with its output in the log of the session, and return the connection to it."""
    end_jvm()  # pyspark would start the context in the JVM of a stopped session, with that session's heap
    # pyspark writes them into the JVM's command line, which every user of the machine can read.
    conf = SparkConf(loadDefaults=False).setAll([each for each in settings.items() if not is_secret(each[0])])
    log = launch.folder / "spark.log"
    _logs.append(log)
    options = " ".join([os.environ.get(OPTIONS, ""), *map('"{}"'.format, launch.options)]).strip()
    # pyspark's first call needs it; that call reports an error.
    imports = background(partial(import_module, "pyspark.testing.utils"), "imports", died=lambda error: None)
    try:
        with log.open("ab") as out, _environment({**launch.environment, OPTIONS: options}):
            gateway = launch_gateway(conf, {"stdout": out, "stderr": out})
        SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm  # noqa: SLF001 - as pyspark sets them later
        atexit.register(_await_end, gateway.proc)
        return gateway
    except BaseException as error:
        for frame, _ in walk_tb(error.__traceback__):  # pyspark leaves behind a process that it still waits for
            if isinstance(process := frame.f_locals.get("proc"), Popen):
                process.kill()
                process.wait()
        if isinstance(error, PySparkRuntimeError):
            raise old_java_error() or _not_started(log) from None
        raise
    finally:
        imports.join()


def _not_started(log: Path) -> SparkError:
    """Return the error for a JVM that ended before it answered; pyspark's error gives no reason."""
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.splitlines() if line and not line.startswith("\tat ")]
    said = "\n".join(lines[-_LOG_LINES:])
    return SparkError("Spark's JVM did not start", detail=said, hint="spark_logs() returns the path of the whole log")


def _await_end(jvm: Popen[bytes]) -> None:
    """End the JVM before the folder of its session is removed: it would leave files there."""
    end_warm_ups()
    if jvm.stdin is not None:
        jvm.stdin.close()
    with suppress(TimeoutExpired):
        jvm.wait(_PATIENCE_S)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if value is not None})


def is_connect(spark: object) -> bool:
    """Return whether a session is one of Spark Connect, whose JVM is that of a server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def refuse_unsupported(spark: object) -> None:
    """Raise ConfigError for a session of Spark Connect, and EngineError on Windows."""
    refuse_windows("Spark")
    if is_connect(spark):
        raise ConfigError(
            "Spark Connect sessions are supported by ks.run alone",
            detail="a query publishes from the process of its driver, and reads state through its JVM; a Connect "
            "session offers access to neither",
            hint="run the program where the driver runs, with ks.spark.spark_session() or spark-submit",
        )


def require_session(spark: SparkSession) -> SparkSession:
    """Return the session; raise SparkError if it was stopped, JvmGoneError if its JVM is gone."""
    refuse_unsupported(spark)
    expect(spark, SparkSession, "spark", hint="pass what spark_session() returns")
    try:
        stopped = is_stopped(spark)
    except (Py4JError, OSError) as error:
        fact = "the JVM of the Spark session is gone"
        raise JvmGoneError(fact, detail=NO_JVM, hint="see spark_logs(); spark_session() starts another one") from error
    if stopped:
        raise SparkError("the Spark session was stopped", hint="spark_session() starts another one")
    return spark


def is_submitted() -> bool:
    """Return whether ``spark-submit`` runs this program: it starts the JVM before Python, and ends it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_stopped(spark: SparkSession) -> bool:
    """Return whether a session was stopped, if its JVM answers."""
    context = spark.sparkContext._jsc  # noqa: SLF001 - None after a stop in this process
    return context is None or bool(context.sc().isStopped())


def active_session() -> SparkSession | None:
    """Return the active session; one whose JVM has ended is forgotten, because pyspark would return it forever."""
    try:
        active = SparkSession.getActiveSession()  # that of this thread
        shared = SparkSession._instantiatedSession  # noqa: SLF001 - another start would end its JVM for all threads
        return active or (None if shared is None or is_stopped(shared) else shared)
    except (Py4JError, OSError):
        _forget_session()
        return None


def _forget_session() -> None:
    """Have pyspark forget its session, and end the JVM."""
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001
    SparkContext._active_spark_context = None  # noqa: SLF001
    end_jvm()


def end_jvm() -> None:
    """Close the connection to a JVM without a session, which then ends, and have pyspark start another one."""
    gateway: ClientServer | None = SparkContext._gateway  # noqa: SLF001
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    if gateway is not None:
        with suppress(Py4JError, OSError):
            gateway.shutdown()
        if gateway.proc is not None:
            gateway.proc.stdin.close()


def spark_logs() -> Path:
    """Return the file that the session's JVM and Python workers write to.

    Raises:
        SparkError: no session was started in this process, or ``spark-submit`` keeps the log.

    Example:
        >>> spark = spark_session("examples")
        >>> spark_logs().name
        'spark.log'
    """
    if not _logs:
        if is_submitted():
            raise SparkError("spark-submit started this JVM and keeps its log", hint="read what spark-submit prints")
        raise SparkError("no Spark session was started here", hint="spark_session() starts one and keeps its log")
    return _logs[-1]


def is_local(spark: SparkSession) -> bool:
    """Return whether the executors of a session are threads of the JVM on this machine."""
    return LOCAL_MASTER.fullmatch(spark.sparkContext.master) is not None


def query_session(spark: SparkSession, *, local_files: bool = True) -> SparkSession:
    """Return a new session of the same engine, with the settings that the kit's queries need.

    Args:
        spark: the session of the user.
        local_files: the checkpoint is a folder. The class that writes folders fastest cannot replace a file elsewhere.
    """
    session = spark.newSession()
    if not local_files:
        session.conf.unset(FILE_MANAGER)
    for name, value in {**QUERY_SETTINGS, **WORKER_SETTINGS}.items():
        session.conf.set(name, value)
    apply_patches(QUERY_PATCHES, session, _disabled(session.conf))
    return session


def run_session(spark: SparkSession) -> SparkSession:
    """Return a copy of the user's session for one run, which hands more rows to Python at once unless the user has said
    how many.

    The rows of a run come from frames of the user, and are read with the settings under which they were declared. A
    session of Spark Connect is used itself.
    """
    if is_connect(spark):
        return spark
    end_warm_up(spark)
    session = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001 - has no public name
    if session.conf.get(_ARROW_ROWS) == QUERY_SETTINGS[_ARROW_ROWS]:
        session.conf.set(_ARROW_ROWS, "50000")
    for name, value in WORKER_SETTINGS.items():
        session.conf.set(name, spark.sparkContext.getConf().get(name, value))
    apply_patches(QUERY_PATCHES, session, _disabled(session.conf))
    return session


def streaming_session(spark: SparkSession, *, local_files: bool = True) -> SparkSession:
    """Return a new session for one streaming query, whose batches are small."""
    session = query_session(spark, local_files=local_files)
    apply_patches(STREAMING_PATCHES, session, _disabled(session.conf))
    return session


def load_source(source: KnownSource) -> DataFrame:
    """Return the rows of the source of a query."""
    apply_patches(SOURCE_PATCHES, source, _disabled(source.session.conf))
    return source.frame or source.load()


def late_commits(spark: SparkSession, stream: StreamingQuery) -> JavaObject | None:
    """Return a running stream's log of finished batches, if a batch can be kept back in it."""
    running = RunningStream(spark, stream)
    apply_patches(STREAM_PATCHES, running, _disabled(spark.conf))
    return running.commits


def close_stores(spark: SparkSession, stream: StreamingQuery) -> None:
    """Close the state stores of a stream that has ended; those of executors elsewhere are closed by Spark, later."""
    apply_patches(END_PATCHES, RunningStream(spark, stream), _disabled(spark.conf))


def _disabled(settings: RuntimeConfig | Mapping[str, str]) -> frozenset[str]:
    return disabled_patches([name for name, _ in PATCHES], settings.get(DISABLED_SETTING, None))


def move_frame(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """Return the same frame in another session of the same engine, whose settings and views count."""
    if is_connect(spark):
        return frame
    dataset = spark._jvm.org.apache.spark.sql.classic.Dataset  # noqa: SLF001 - has no public name
    return DataFrame(dataset.ofRows(spark._jsparkSession, frame._jdf.logicalPlan()), spark)  # noqa: SLF001
