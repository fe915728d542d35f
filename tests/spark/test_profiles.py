"""Session profiles: memory, garbage collector, and what a session reports about itself."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

import kstreamnb as ks
from kstreamnb.background import wait_until
from kstreamnb.spark.jvm.profiles import profile_settings
from kstreamnb.spark.jvm.session import _local_settings, close_stores, query_session, streaming_session
from tests import howto

STATES = "org.apache.spark.sql.execution.streaming.state"


def test_production_pins_the_heap_and_takes_the_g1_collector() -> None:
    """S4-54: 2 GB from start to end, for driver and executors; a notebook's session is smaller."""
    found = profile_settings("production")
    assert "2g" == found["spark.driver.memory"] == found["spark.executor.memory"]
    for options in (found["spark.driver.extraJavaOptions"], found["spark.executor.extraJavaOptions"]):
        assert {"-Xms2g", "-XX:+UseG1GC"} <= set(options.split())
    assert ("2", "3g") == (found["spark.executor.cores"], found["spark.executor.memoryOverhead"])
    assert "768m" == profile_settings("notebook")["spark.driver.memory"]


def test_small_batches_have_both_compilers_and_one_partition_a_level() -> None:
    """S0-06: the other profiles keep settings that suit their lifetimes; a deployment uses the session's
    parallelism.
    """
    found = profile_settings("latency")
    assert "1" == found["spark.default.parallelism"]
    assert "TieredStopAtLevel" not in found["spark.driver.extraJavaOptions"]
    assert "-Xmn160m" in found["spark.driver.extraJavaOptions"].split()  # short pauses
    for profile in ("local", "notebook"):
        others = profile_settings(profile)
        options = others["spark.driver.extraJavaOptions"].split()
        assert {"-XX:TieredStopAtLevel=1", "-XX:MetaspaceSize=160m"} <= {*options}
        assert "spark.default.parallelism" not in others


def test_an_unknown_profile_is_refused_with_those_there_are() -> None:
    """S4-54: the profile is refused before anything is started."""
    with pytest.raises(ks.errors.ConfigError, match='session profile "produktion" does not exist') as raised:
        profile_settings("produktion")
    assert 'did you mean "production"?' == raised.value.hint


def test_a_session_of_spark_connect_is_refused_by_name() -> None:
    """The report lists it with the reason and the alternative; its class differs from that of the other sessions."""
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    topology = ks.StreamsBuilder("connected").build()
    with pytest.raises(ks.errors.ConfigError, match="Spark Connect sessions are supported by") as raised:
        ks.deploy(topology, spark=session, bootstrap_servers="nowhere:9092", checkpoint="unused")
    assert "where the driver runs" in str(raised.value.hint)


@pytest.mark.spark
def test_hadoop_notes_no_origins_and_keeps_its_settings(spark: SparkSession) -> None:
    """S0-06: the configuration sent with each batch of a stateful level has the same settings, without their
    origins.
    """
    session = query_session(spark)
    settings = session._jsparkSession.sessionState().newHadoopConf()
    before = session.sparkContext._jsc.hadoopConfiguration()
    assert settings.size() >= before.size() > 100
    assert settings.getPropertySources("hadoop.security.authentication") is None
    assert "simple" == settings.get("hadoop.security.authentication")


@pytest.mark.spark
def test_spark_binds_equal_encoders_of_plain_types_once(spark: SparkSession) -> None:
    """The cache keeps their results, because every batch asks for them again; those of other types are made again."""
    assert wait_until(lambda: "warm-up" not in {thread.name for thread in threading.enumerate()}, 60)  # it asks, too
    java = spark._jvm
    assert java is not None
    cache = java.kstreamnb.BatchCache

    def bind(schema: str) -> tuple[int, str]:
        before = cache.hits
        struct = java.org.apache.spark.sql.types.StructType.fromDDL(schema)
        encoder = java.org.apache.spark.sql.catalyst.encoders.ExpressionEncoder.apply(struct)
        bound = encoder.resolveAndBind(
            getattr(encoder, "resolveAndBind$default$1")(), getattr(encoder, "resolveAndBind$default$2")()
        )
        return cache.hits - before, bound.objDeserializer().toString()

    plain = "seq long, entry binary, inner struct<name string>"
    (_, first), (reused, again) = bind(plain), bind(plain)
    assert (1, first) == (reused, again)
    assert [0, 0] == [bind("parts array<int>")[0] for _ in range(2)]
    assert bind("other int")[1] != bind("other string")[1]


@pytest.mark.spark
def test_batches_for_python_keep_their_limit_of_bytes(spark: SparkSession) -> None:
    """Their size is asked for every sixteenth row only, so a batch has at most fifteen rows too many."""
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", "100000")

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]}, pa.schema([("rows", pa.int32())]))

    rows = session.range(1000, numPartitions=1).selectExpr("repeat('x', 1000) text")
    counts = [row["rows"] for row in rows.mapInArrow(count, "rows int").collect()]
    assert sum(counts) == 1000
    assert 80 < max(counts) < 116


class Provider:
    """A state store of a stream, as Spark's JVM sees it; it closes, unless it has a reason not to."""

    class Java:
        """Names its interface to Py4J."""

        implements: ClassVar = [f"{STATES}.StateStoreProvider"]

    def __init__(self, lock: Any, failure: str) -> None:
        self._lock, self._failure, self.closes = lock, failure, 0
        self._unloaded = False

    def maintenanceLock(self) -> Any:
        """Return a lock that nobody holds."""
        return self._lock

    def unloaded(self) -> bool:
        """Return whether Spark has closed it."""
        return self._unloaded

    def setUnloaded(self) -> None:
        """Note that Spark closes it."""
        self._unloaded = True

    def close(self) -> None:
        """Close, or fail."""
        self.closes += 1
        if self._failure:
            raise OSError(self._failure)


@pytest.mark.spark
def test_all_stores_of_a_stream_are_closed_and_those_that_fail_are_reported(spark: SparkSession) -> None:
    """The next ones, too; `spark_report` names those that fail."""
    from pyspark.java_gateway import ensure_callback_server_started

    jvm: Any = spark._jvm
    ensure_callback_server_started(spark.sparkContext._gateway)
    run, states = jvm.java.util.UUID.randomUUID(), jvm.org.apache.spark.sql.execution.streaming.state
    loaded = jvm.java.lang.Class.forName(f"{STATES}.StateStore$").getDeclaredField("loadedProviders")
    loaded.setAccessible(True)
    lock = jvm.java.util.concurrent.locks.ReentrantReadWriteLock
    providers = [Provider(lock(), failure) for failure in ("no disk", "", "no disk", "")]
    for number, provider in enumerate(providers):
        store = states.StateStoreId("file:/checkpoint", 0, number, "default")
        loaded.get(None).put(states.StateStoreProviderId(store, run), provider)
    close_stores(spark, SimpleNamespace(runId=run.toString()))  # type: ignore[arg-type]
    assert all(provider.closes for provider in providers)
    [line] = [line for line in ks.spark.spark_report(spark).splitlines() if "closed-stores" in line]
    assert [True, False, True, False] == [f"partitionId={number}, " in line for number in range(4)]


@pytest.mark.spark
def test_a_session_of_the_user_says_what_it_leaves_to_spark(spark: SparkSession) -> None:
    """Spark refuses a text as the default of a setting that is a number."""
    session = spark.newSession()
    session.conf.unset("spark.sql.shuffle.partitions")
    assert "spark.sql.shuffle.partitions = default of Spark" in ks.spark.spark_report(session).splitlines()


@pytest.mark.spark
def test_a_session_says_what_it_runs_with() -> None:
    """S4-54: in a separate process, because an existing session keeps its settings; also checked in the JVM."""
    program = """
import kstreamnb as ks
spark = ks.spark.spark_session("mine", profile="production")
print(ks.spark.spark_report())
runtime = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
print("jvm:", *[each for each in runtime.getInputArguments() if each.startswith(("-Xm", "-XX:+UseG1"))])
spark.stop()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    lines = done.stdout.splitlines()
    assert "spark.driver.memory = 2g" in lines
    (options,) = [line for line in lines if line.startswith("spark.driver.extraJavaOptions = ")]
    assert options.endswith("-Xms2g -XX:+UseG1GC")  # Spark prepends its own
    (jvm,) = [line for line in lines if line.startswith("jvm:")]
    assert {"-Xms2g", "-Xmx2g", "-XX:+UseG1GC"} <= set(jvm.split())
    assert "patch local-files = on (saves a chmod process for each file that Spark writes)" in lines


ARCHIVED = """
import kstreamnb as ks
spark = ks.spark.spark_session()
print("rows:", spark.range(3).count())
management = spark._jvm.java.lang.management.ManagementFactory
print(*management.getRuntimeMXBean().getInputArguments(), sep="\\n")
print(ks.spark.spark_report())
"""


@pytest.mark.spark
def test_sessions_start_from_the_classes_that_were_archived(tmp_path: Path) -> None:
    """Once the command has run; before that, and if Java ignores the archive, a session says which command it is."""

    def output(*command: str) -> str:
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, env=environment)
        assert 0 == done.returncode, done.stderr
        return done.stdout

    before = output("-c", ARCHIVED)
    assert "patch class-archive = off, kstreamnb archive-classes writes it" in before
    archive = Path(output("-m", "kstreamnb", "archive-classes").removesuffix(": written\n"))
    assert archive.stat().st_size > 100_000_000
    assert [archive] == list((tmp_path / "kstreamnb").glob("spark-*/classes-*"))
    after = output("-c", ARCHIVED)
    assert f"-XX:SharedArchiveFile={archive}" in after
    assert "patch class-archive = on" in after
    assert "patch batch-classes = on" in after
    assert "rows: 3" in after
    archive.unlink()  # a JVM that still ends would crash if the file it has mapped became shorter
    archive.write_bytes(b"of another Java")
    refused = output("-c", ARCHIVED)
    assert "patch class-archive = off, Java does not accept it; kstreamnb archive-classes writes a new one" in refused
    assert "rows: 3" in refused


@pytest.mark.spark
@pytest.mark.parametrize("option", ["--driver-class-path ", "--conf spark.driver.extraClassPath="])
def test_a_class_path_of_the_user_leaves_the_classes_of_the_kit_there(tmp_path: Path, option: str) -> None:
    """Spark would not find the class that writes its files."""
    code = (
        "import kstreamnb as ks; spark = ks.spark.spark_session();"
        f"spark.range(3).write.parquet({str(tmp_path / 'rows')!r});"
        "print(spark.conf.get('spark.driver.extraClassPath')); print(ks.spark.spark_report())"
    )
    given = f"{option}{tmp_path} pyspark-shell"
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": given}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert 0 == done.returncode, done.stderr
    assert str(tmp_path) == done.stdout.splitlines()[0]
    assert "patch batch-classes = on" in done.stdout


@pytest.mark.parametrize(
    ("folder", "enabled"), [("/tmp/short", "true"), ("/tmp/für", "false"), (f"/tmp/{'l' * 60}", "false")]
)
def test_sockets_have_paths_that_spark_can_pass_on(folder: str, enabled: str) -> None:
    """Spark's state server garbles non-ASCII paths, and systems limit the length of a socket's path."""
    assert enabled == _local_settings(Path(folder), 2)["spark.python.unix.domain.socket.enabled"]


@pytest.mark.spark
@pytest.mark.parametrize("name", ["short", "a-name-that-is-too-long-for-the-address-of-a-socket"])
def test_a_session_leaves_no_files_behind(name: str) -> None:
    """Spark never removes the files of its sockets; a path that is too long for one gets sockets of the network."""
    code = (
        "import kstreamnb as ks; from pyspark.sql.functions import udf; spark = ks.spark.spark_session();"
        "print(spark.range(3).select(udf(str)('id').alias('n')).collect()); print(ks.spark.spark_report())"
    )
    with tempfile.TemporaryDirectory(suffix=name) as folder:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "TMPDIR": folder}
        )
        assert "Row(n='2')" in done.stdout, done.stderr
        assert [] == list(Path(folder).iterdir())


INTERRUPTED = """
import _thread, os, subprocess, sys, threading, time
import kstreamnb as ks

def processes():
    command = ["ps", "--ppid", str(os.getpid()), "-ww", "-o", "stat=,args="]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if "java" in line and not line.startswith("Z")]

def interrupt():
    while not processes():
        time.sleep(0.02)
    time.sleep(float(sys.argv[1]))
    _thread.interrupt_main()

threading.Thread(target=interrupt).start()
try:
    ks.spark.spark_session()
except KeyboardInterrupt as error:
    kept = error  # a notebook keeps the error, and with it whatever pyspark's frames hold
end = time.monotonic() + 20
while processes() and time.monotonic() < end:
    time.sleep(0.1)
print("left:", processes(), kept.args)
print("rows:", ks.spark.spark_session().range(3).count(), "in", len(processes()))
"""


@pytest.mark.spark
@pytest.mark.parametrize("after_s", ["0", "0.7", "1.4"])
def test_an_interrupted_start_leaves_no_jvm_behind(after_s: str) -> None:
    """While the JVM starts, and while Spark starts in it; the next start is like the first."""
    command = [sys.executable, "-c", INTERRUPTED, after_s]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ["left: [] ()", "rows: 3 in 1"] == done.stdout.splitlines(), done.stderr


THREADS = """
from concurrent.futures import ThreadPoolExecutor
import kstreamnb as ks

def start(number):
    return ks.spark.spark_session()

with ThreadPoolExecutor() as threads:  # each has its own Spark connection
    sessions = [*threads.map(start, range(3)), ks.spark.spark_session()]
print(len({*map(id, sessions)}), "session counts", sessions[0].range(3).count())
print(ks.spark.spark_report().splitlines()[0])
"""


@pytest.mark.spark
def test_threads_share_one_session() -> None:
    """Spark's active session belongs to a thread; a second start in another one would end the JVM of the first."""
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=False)
    assert ["1 session counts 3", "spark.master = local[2,4]"] == done.stdout.splitlines(), done.stderr


@pytest.mark.spark
def test_a_start_that_fails_leaves_no_jvm_behind() -> None:
    """Spark refuses a setting when its JVM runs already."""
    code = INTERRUPTED.replace("_thread.interrupt_main()", "pass").replace("KeyboardInterrupt", "Exception")
    code = code.replace("spark_session()\nexcept", "spark_session(settings={'spark.task.cpus': 'two'})\nexcept")
    done = subprocess.run([sys.executable, "-c", code, "0"], capture_output=True, text=True, check=False)
    assert "left: []" in done.stdout, done.stderr
    assert "rows: 3 in 1" in done.stdout


@pytest.mark.spark
@pytest.mark.parametrize(
    ("java", "arguments", "error"),
    [
        ("11.0.13", "", "MissingJavaError: Java 11 is too old"),
        (None, 'settings={"spark.driver.memory": "lots"}', "Detail: Invalid maximum heap size: -Xmxlots"),
    ],
)
def test_a_jvm_that_does_not_start_says_why(tmp_path: Path, java: str | None, arguments: str, error: str) -> None:
    """The error has what Java wrote: the log is removed when the process ends, and pyspark's error has no reason."""
    variables = {}
    if java is not None:
        variables["JAVA_HOME"] = str(tmp_path)
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{java}\"' >&2; exit 1\n")
        (tmp_path / "bin" / "java").chmod(0o755)
    code = f"import kstreamnb as ks; ks.spark.spark_session({arguments})"
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert 1 == done.returncode
    assert error in done.stderr
    assert "JAVA_GATEWAY_EXITED" not in done.stderr


PROGRAM = """
import os
import re
import kstreamnb as ks
from tests.spark.streams import batched, outputs, placed, query_over
spark = ks.spark.spark_session({arguments})
conf = spark.sparkContext.getConf()
print("session:", spark.sparkContext.master, spark.sparkContext.appName, conf.get("spark.driver.memory"))
names = ["spark.hadoop.fs.file.impl", "spark.local.dir"]
print("executors:", *map(conf.get, names), os.environ.get("SPARK_LOCAL_IP"))
builder = ks.StreamsBuilder("totals")
builder.stream("sales", value_serde="long").group_by_key().reduce(int.__add__).to_stream().to("totals")
topology = builder.build()
deployment = placed(topology, 1)
rows = [("sales", "a", 1, 5), ("sales", "b", 2, 6), ("sales", "a", 4, 7)]
from pathlib import Path
query, sink = query_over(spark, Path({folder!r}), deployment, batched(deployment, rows, 2))
query.await_termination(300)
print("output:", outputs(deployment, sink, ["totals"]))
print(*[line for line in ks.spark.spark_report().splitlines() if line.startswith("patch")], sep="\\n")
spark.stop()
"""
SUBMIT = f"{Path(pyspark.__file__).parent}/bin/spark-submit"
OUTPUT = "output: {'totals': {0: [('a', 1, 5), ('b', 2, 6), ('a', 5, 7)]}}"


def printed(folder: Path, command: list[str], arguments: str = "", **variables: str) -> list[str]:
    """Return the lines that the program prints in a separate process, with some arguments for the session."""
    done = executed(folder, command, PROGRAM.format(arguments=arguments, folder=str(folder)), **variables)
    assert 0 == done.returncode, done.stderr
    return done.stdout.splitlines()


def executed(folder: Path, command: list[str], text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Return the end of a command that runs a program in a folder, without Spark's variables of this process."""
    program = folder / "program.py"
    program.write_text(text)
    root = str(Path(__file__).parents[2])
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"PYTHONPATH": root, "PYSPARK_PYTHON": sys.executable, **variables}
    command = [*command, str(program)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)


@pytest.mark.spark
def test_options_of_spark_submit_win_over_the_kits_defaults(tmp_path: Path) -> None:
    """Master, name and settings are those of the command line, which is that of the page on clusters."""
    _, command = submits()
    assert command[-1] == "application.py"
    elsewhere = {"spark://master:7077": "local[3]", "spark.executor.memory=4g": "spark.driver.memory=700m"}
    assert set(elsewhere) < set(command)
    options = [elsewhere.get(each, each) for each in command[1:-1]]
    lines = printed(tmp_path, [SUBMIT, *options])
    assert "session: local[3] shop 700m" in lines
    assert OUTPUT in lines


@pytest.mark.spark
def test_a_program_is_submitted_with_an_archive_that_the_drivers_machine_lacks(tmp_path: Path) -> None:
    """Spark-submit takes the executors' Python for the driver's, too, unless the command of the page names that."""
    command, _ = submits()
    with tarfile.open(tmp_path / "environment.tar.gz", "w:gz"):
        (tmp_path / "prices.py").touch()
    elsewhere = {"spark://master:7077": "local[2]", "spark.pyspark.driver.python=python": ""}
    assert set(elsewhere) < set(command)
    elsewhere["spark.pyspark.driver.python=python"] = f"spark.pyspark.driver.python={sys.executable}"
    lines = printed(tmp_path, [SUBMIT, *(elsewhere.get(each, each) for each in command[1:-1])])
    assert OUTPUT in lines


def submits() -> list[list[str]]:
    """Return the commands of the page on clusters that submit a program."""
    written = [each for block in howto.blocks("cluster", "sh") for each in howto.commands(block)]
    return [each for each in written if each[0] == "spark-submit"]


@pytest.mark.spark
def test_a_submitted_program_that_fails_at_once_shows_its_own_error_alone(tmp_path: Path) -> None:
    """Spark printed why it could not start Python: the program had removed the folder of its session."""
    text = "import kstreamnb as ks\nks.spark.spark_session()\nks.TopologyTestDriver('no topology')\n"
    with tempfile.TemporaryDirectory() as folder:  # its path is short enough for sockets
        done = executed(tmp_path, [SUBMIT, "--master", "local[2]"], text, TMPDIR=folder)
        assert [] == [*Path(folder).glob("kstreamnb-*")]
    assert 1 == done.returncode
    assert "kstreamnb.errors.ConfigError" in done.stdout, done.stdout
    assert "No such file or directory" not in done.stderr


@pytest.mark.spark
def test_pyspark_submit_args_and_arguments_choose_the_session(tmp_path: Path) -> None:
    """The variable overrides the kit's defaults, arguments override both; switched-off patches change no result."""
    lines = printed(
        tmp_path,
        [sys.executable],
        'master="local[3]", settings={"spark.driver.memory": "600m"}',
        PYSPARK_SUBMIT_ARGS="--master local[1] --name theirs --conf spark.driver.memory=500m pyspark-shell",
        KSTREAMNB_DISABLE_PATCHES="all",
    )
    assert "session: local[3] theirs 600m" in lines
    assert OUTPUT in lines
    patches = [line for line in lines if line.startswith("patch")]
    assert len(patches) >= 6
    of_streams = ("late-commits", "closed-stores")  # there is no stream
    waiting = tuple(f"patch {name} = not tried yet (" for name in of_streams)
    assert all("= off, switched off (" in line or line.startswith(waiting) for line in patches)


@pytest.mark.spark
def test_executors_elsewhere_need_nothing_of_this_machine(tmp_path: Path) -> None:
    """Executors in separate processes: no class of the kit, no directory of the driver, no loopback address."""
    settings = {"spark.sql.shuffle.partitions": 2}
    lines = printed(tmp_path, [sys.executable], f'"mine", master="local-cluster[1,2,1024]", settings={settings}')
    assert "session: local-cluster[1,2,1024] mine 2g" in lines
    assert "executors: None None None" in lines
    assert OUTPUT in lines


@pytest.mark.spark
def test_python_processes_beside_the_driver_find_what_ship_sends(tmp_path: Path) -> None:
    """Spark sends files to executors only; the process that plans a source's batches is none."""
    (tmp_path / "prices.py").write_text("SHOE = 5\n")
    program = """
import sys
import kstreamnb as ks
spark = ks.spark.spark_session()
ks.spark.ship(spark, sys.argv[1])
print(spark.sparkContext.environment["PYTHONPATH"].split(":")[0])
"""
    command = [sys.executable, "-c", program, str(tmp_path / "prices.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    assert Path(done.stdout.strip()).name.startswith("prices-")


PRIVATE = """
import os
from pathlib import Path
import kstreamnb as ks
os.umask({umask})
settings = {{
    "spark.hadoop.fs.s3a.secret.key": "canary-1",
    "spark.ssl.keyPassword": "canary-2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Djavax.net.ssl.trustStorePassword=canary-3",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": {log!r},
}}
spark = ks.spark.spark_session("private", settings=settings)
command = Path(f"/proc/{{spark.sparkContext._gateway.proc.pid}}/cmdline").read_text()
print("command:", [name for name in ("canary-1", "canary-2", "spark.eventLog.dir") if name in command])
used = spark.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.secret.key")
print("used:", used, spark.sparkContext.getConf().get("spark.ssl.keyPassword"))
report = ks.spark.spark_report(spark)
print("report:", "canary" in report, "trustStorePassword=***" in report)
spark.range(3).count()
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_secrets_of_a_session_are_shown_to_nobody(tmp_path: Path, umask: int) -> None:
    """They are in no command line, which all users of the machine can read, nor in the report or the event log, which
    others cannot read.
    """
    (tmp_path / "log").mkdir()
    text = PRIVATE.format(umask=umask, log=f"file:{tmp_path}/log")
    done = executed(tmp_path, [sys.executable], text)
    assert 0 == done.returncode, done.stderr
    assert [
        "command: ['spark.eventLog.dir']",
        "used: canary-1 canary-2",
        "report: False True",
    ] == done.stdout.splitlines()
    logs = [path for path in (tmp_path / "log").rglob("*") if path.is_file() and not path.name.endswith(".crc")]
    assert logs
    for path in logs:
        assert b"canary" not in path.read_bytes()
        assert 0 == path.stat().st_mode & (0o007 | umask)


@pytest.mark.spark
def test_batches_after_their_time_are_not_in_the_log(spark: SparkSession, tmp_path: Path) -> None:
    """Spark warns at each one: in a session of weeks, that would be gigabytes of the same line."""
    rows = streaming_session(spark).readStream.format("rate").load()
    stream = (
        rows.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="1 milliseconds")
    )
    query = stream.start()
    try:
        assert wait_until(lambda: (query.lastProgress or {}).get("batchId", 0) >= 2, 60)
    finally:
        query.stop()
    assert "falling behind" not in ks.spark.spark_logs().read_text()


HANDLED = """
import signal, sys, threading, time
import kstreamnb as ks

def handle(number, frame):
    print("handled", flush=True)
    if raised is not None:
        raise raised

def interrupt():
    time.sleep(1)  # the call below takes five times as long
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

signal.signal(signal.SIGINT, handle)
spark = ks.spark.spark_session()
for raised in (None, KeyboardInterrupt(), SystemExit()):
    threading.Thread(target=interrupt).start()
    try:
        print("slept", spark._jvm.java.lang.Thread.sleep(5000), flush=True)
    except BaseException as error:
        print(type(error).__name__, flush=True)
    print("rows", spark.range(3).count(), flush=True)
"""


@pytest.mark.spark
@pytest.mark.parametrize("pinned", ["true", "false"])
def test_a_handler_of_interrupts_stays_that_of_the_program(pinned: str) -> None:
    """An exception of it ends the call, and the next call gets its own answer, whether Py4J pins threads or not."""
    environment = {**os.environ, "PYSPARK_PIN_THREAD": pinned}
    done = subprocess.run([sys.executable, "-c", HANDLED], capture_output=True, text=True, check=False, env=environment)
    ends = ["slept None", "KeyboardInterrupt", "SystemExit"]
    assert [line for end in ends for line in ("handled", end, "rows 3")] == done.stdout.splitlines(), done.stderr
    assert "" == done.stderr
