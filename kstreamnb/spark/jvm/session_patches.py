"""Patches of a running JVM: fewer log lines, a warm start, interpreted expressions, smaller settings for each batch."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from py4j import java_gateway
from py4j.clientserver import ClientServer, ClientServerConnection, FinalizerWorker
from py4j.java_gateway import GatewayConnection, JavaObject, JVMView
from pyspark import SparkContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType
from pyspark.sql.udf import _wrap_function

from kstreamnb.spark.jvm.constants import INTERPRETED, LOCAL_MASTER
from kstreamnb.spark.jvm.patches import Patch
from kstreamnb.spark.jvm.warm_up import warm_up

_LOG = logging.getLogger(__name__)
_PY4J_SENDS = {kind: kind.send_command for kind in (ClientServerConnection, GatewayConnection)}
"""By class of connection; the second one is used with PYSPARK_PIN_THREAD=false."""
_NOISY = (  # these warn about states that do not exist yet, sockets of finished tasks, and batches after their time
    "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer",
    "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkPythonPreInitRunner",
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor",
)


def _always(_: object) -> None:
    return None


def _has_no_free_slot(session: SparkSession) -> str | None:
    local = LOCAL_MASTER.fullmatch(session.sparkContext.master)
    if local is None:
        return "the master is not local: its workers are elsewhere"
    if not isinstance(session.sparkContext._gateway, ClientServer):  # noqa: SLF001
        return "PYSPARK_PIN_THREAD is off: its jobs would seem to be the program's"
    slots = os.cpu_count() if local[2] == "*" else int(local[2] or 1)
    return "work would wait for the only slot" if slots in (None, 1) else None


def _silence_connections(session: SparkSession) -> None:
    """Keep Py4J and the accumulator server from printing a traceback when the JVM ends before this process.

    Py4J logs lost connections to the root logger, which prints them even if the program configures no logging.
    """
    java_gateway.logging = logging.getLogger("py4j.java_gateway")
    java_gateway.logging.addFilter(_has_caller)  # has no effect the second time

    def note(*_: object) -> None:
        _LOG.debug("the JVM closed its connection for accumulators", exc_info=True)

    session.sparkContext._accumulatorServer.handle_error = note  # noqa: SLF001 - has no public name


def _has_caller(record: logging.LogRecord) -> bool:
    """Return False in the thread that frees the JVM's objects, and for an interrupt, which is raised, too.

    When the JVM ends, nothing is left to free.
    """
    interrupted = record.exc_info is not None and record.exc_info[0] is KeyboardInterrupt
    return not (interrupted or isinstance(threading.current_thread(), FinalizerWorker))


def _heed_interrupts(_: SparkSession) -> None:
    """Have SIGINT raise KeyboardInterrupt and do nothing else, and close the connection that waits for an answer.

    pyspark's handler cancels all jobs of a context, and with them the batches of running queries. It does not reach the
    jobs of an interrupted call: Py4J cannot send while it waits for an answer. Py4J itself closes the connections of
    all threads, and the next one fails; or, with PYSPARK_PIN_THREAD=false, calls a method that does not exist.
    """
    for kind in _PY4J_SENDS:
        kind.send_command = _send  # has no effect the second time
    is_pysparks = getattr(signal.getsignal(signal.SIGINT), "__module__", "") == SparkContext.__module__
    if is_pysparks and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def keep_handler(handler: Callable[[int, FrameType | None], object] | int | None) -> None:
    """Restore a program's handler of SIGINT after a start of pyspark, unless it is pyspark's for an earlier context."""
    is_programs = handler is not None and getattr(handler, "__module__", "") != SparkContext.__module__
    is_replaced = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_programs and is_replaced and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def _send(connection: ClientServerConnection | GatewayConnection, command: str) -> str:
    try:
        return _PY4J_SENDS[type(connection)](connection, command)
    except (KeyboardInterrupt, SystemExit):  # the answer would be taken for that of the next call
        connection.close()
        connection.socket = None  # Py4J has nothing left to close
        raise


def _silence_batches(session: SparkSession) -> None:
    """Log only errors of the classes that warn with each batch: the log of a session of weeks would fill the disk."""
    configurator = _jvm(session).org.apache.logging.log4j.core.config.Configurator
    for name in _NOISY:
        configurator.setLevel(name, "ERROR")


def _interpret(session: SparkSession) -> None:
    """Have expressions interpreted: compiling a class for each task of each batch takes longer than its few rows.

    Most classes are generated by the threads that serve Python's state. They belong to no session, so Spark gives them
    the settings of ``SQLConf.fallbackConf``, a private thread-local; this replaces it. In local mode these threads are
    in the JVM of this process; executors elsewhere still generate code, which is slower and changes nothing else.
    """
    java = _jvm(session)
    java.org.apache.spark.sql.internal.SQLConf.getFallbackConf()  # initializes the field that is replaced below
    settings = java.org.apache.spark.sql.internal.SQLConf()
    for name, value in INTERPRETED.items():
        session.conf.set(name, value)
        settings.setConfString(name, value)
    field = java.java.lang.Class.forName("org.apache.spark.sql.internal.SQLConf$").getDeclaredField("fallbackConf")
    field.setAccessible(True)
    field.set(None, java.java.lang.ThreadLocal.withInitial(java.com.google.common.base.Suppliers.ofInstance(settings)))


def _forget_setting_origins(session: SparkSession) -> None:
    """Drop Hadoop's notes on which file each of its thousand settings comes from; the settings stay.

    Spark serializes all of them for every stateful level of every batch, and compresses each note separately, which
    takes most of that time. A session that has started its work has loaded all of Hadoop's files.
    """
    java = _jvm(session)
    notes = java.java.lang.Class.forName("org.apache.hadoop.conf.Configuration").getDeclaredField("updatingResource")
    notes.setAccessible(True)
    # Py4J would clear the map that is there by five calls for each of its thousand entries.
    notes.set(session.sparkContext._jsc.hadoopConfiguration(), java.java.util.concurrent.ConcurrentHashMap())  # noqa: SLF001


@dataclass
class KnownSource:
    """The source of a stream that is about to start.

    Attributes:
        session: its session.
        kind: its class.
        read: the function that returns Arrow's batches of rows for a batch that holds a pickled partition.
        frame: its rows; None if Spark has to ask Python for the source.
    """

    session: SparkSession
    kind: type[DataSource]
    read: object
    frame: DataFrame | None = None

    def load(self) -> DataFrame:
        """Return its rows as Spark loads those of any source."""
        self.session.dataSource.register(self.kind)
        return self.session.readStream.format(self.kind.name()).load()


def _declare(source: KnownSource) -> None:
    """Hand Spark the source and the function that reads it, for which it would start Python processes.

    This uses `java/kstreamnb/DeclaredSource.java`.
    """
    session, made = source.session, source.kind({})
    kind, columns = _wrap_function(session.sparkContext, source.kind), str(made.schema())
    pickled = [bytearray(cloudpickle.dumps(each)) for each in (made, (source.read, StructType.fromDDL(columns)))]
    java = _jvm(session).kstreamnb.DeclaredSource
    source.frame = DataFrame(java.load(session._jsparkSession, made.name(), kind, columns, *pickled), session)  # noqa: SLF001


@dataclass
class RunningStream:
    """A stream that was just started.

    Attributes:
        session: its session.
        stream: Spark's handle of it.
        commits: the object that replaces its log of finished batches; None if there is none.
    """

    session: SparkSession
    stream: StreamingQuery
    commits: JavaObject | None = None


def _delay_commits(running: RunningStream) -> None:
    """Have Spark note a batch as finished when its output is published, so that it need not wait for that.

    This uses `java/kstreamnb/LateCommitLog.java`.
    """
    running.commits = _jvm(running.session).kstreamnb.LateCommitLog.of(running.stream._jsq)  # noqa: SLF001 - no public name


def _is_elsewhere(running: RunningStream) -> str | None:
    local = LOCAL_MASTER.fullmatch(running.session.sparkContext.master)
    return None if local else "the master is not local: executors elsewhere close stores within a minute"


def _close(running: RunningStream) -> None:
    """Close the state stores of a stream that has ended, which Spark would write to once more up to a minute later.

    This uses `java/kstreamnb/StreamStores.java`.

    Raises: OSError that names the stores that could not be closed, after the others.
    """
    failures = _jvm(running.session).kstreamnb.StreamStores.close(running.stream.runId)
    if failures:
        raise OSError(failures)


def _jvm(session: SparkSession) -> JVMView:
    """Return Py4J's view of the JVM: packages and classes are its attributes."""
    return session._jvm  # noqa: SLF001 - has no public name


_INTERRUPTS = Patch("interrupts", "an interrupt ends a call, and no batch of a query", _always, _heed_interrupts)
SESSION_PATCHES = (
    _INTERRUPTS,
    Patch("quiet-connections", "prints no traceback when the JVM ends first", _always, _silence_connections),
    Patch("warm-up", "the first batch of a session comes seconds sooner", _has_no_free_slot, warm_up),
)
QUERY_PATCHES = (
    _INTERRUPTS,
    Patch("quiet-state-servers", "keeps warnings about each batch out of the log", _always, _silence_batches),
    Patch("setting-origins", "packs Hadoop's settings for a batch in less time", _always, _forget_setting_origins),
)
STREAMING_PATCHES = (Patch("interpreted", "compiles no class for each task of each micro-batch", _always, _interpret),)
SOURCE_PATCHES = (Patch("declared-source", "starts six fewer Python processes", _always, _declare, since=(4, 3)),)
STREAM_PATCHES = (
    Patch("late-commits", "publishes a batch while Spark computes the next", _always, _delay_commits, since=(4, 2)),
)
END_PATCHES = (
    Patch("closed-stores", "a stop is the last that writes to a checkpoint", _is_elsewhere, _close, since=(4, 3)),
)
