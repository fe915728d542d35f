"""Storage and Spark's processes on this machine: HDFS, an S3 server, and a standalone master with workers.

Jars come from Maven Central, downloaded once by the Ivy jar of pyspark; the S3 server is moto, in a separate
environment.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from kstreamnb.kafka.java import cache_folder, java

__all__ = ["Link", "Standalone", "Yarn", "bare_python", "hdfs", "may_unshare", "s3_server", "s3_settings"]

HADOOP, SDK = "3.5.0", "2.35.4"  # those of pyspark 4.3.0
PATIENCE_S = 300.0  # a busy machine
HERE = Path(__file__).parent
BUCKET = "checkpoints"
_YARN = "org.apache.hadoop.yarn.server"

_SETTINGS = """<ivysettings><settings defaultResolver="central"/><resolvers>
<ibiblio name="central" m2compatible="true" useMavenMetadata="false"/></resolvers></ivysettings>"""
_JARS = {
    "hdfs": [
        ("org.apache.hadoop", "hadoop-client-minicluster", HADOOP),
        ("org.junit.jupiter", "junit-jupiter-api", "5.8.2"),
    ],
    "yarn": [("org.bouncycastle", name, "1.78.1") for name in ("bcprov-jdk18on", "bcpkix-jdk18on", "bcutil-jdk18on")],
    "s3a": [
        ("org.apache.hadoop", "hadoop-aws", HADOOP),
        *(
            ("software.amazon.awssdk", name, SDK)
            for name in ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
        ),
    ],
}
_EXCLUDED = [  # pyspark has the first two; the bundle alone is 600 MB
    ("org.apache.hadoop", "hadoop-client-api"),
    ("org.apache.hadoop", "hadoop-client-runtime"),
    ("software.amazon.awssdk", "bundle"),
    ("org.slf4j", "slf4j-api"),
]


def jars(kind: str) -> Path:
    """Return the folder of the jars of "hdfs" or "s3a"; the first call downloads them in half a minute."""
    folder = cache_folder() / f"{kind}-{HADOOP}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    wanted = "".join(f'<dependency org="{o}" name="{n}" rev="{r}" conf="default->default"/>' for o, n, r in _JARS[kind])
    excluded = "".join(f'<exclude org="{o}" module="{m}"/>' for o, m in _EXCLUDED)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        Path(work, "settings.xml").write_text(_SETTINGS)
        info = '<info organisation="kstreamnb" module="storage"/>'
        module = f'<ivy-module version="2.0">{info}<dependencies>{wanted}{excluded}</dependencies></ivy-module>'
        Path(work, "ivy.xml").write_text(module)
        command = [java(), "-jar", str(next(spark_jars().glob("ivy-*.jar"))), "-settings", "settings.xml"]
        command += ["-ivy", "ivy.xml", "-cache", "cache", "-types", "jar", "bundle"]
        command += ["-retrieve", "lib/[artifact]-[revision].[ext]"]
        subprocess.run(command, cwd=work, check=True, capture_output=True)
        Path(work, "lib").rename(folder)
    return folder


def spark_jars() -> Path:
    """Return the folder of the jars of the installed pyspark."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0], "jars")


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def bare_python(folder: Path) -> Path:
    """Create an environment with all packages of this one except the kit; return its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "packages.pth").write_text(sysconfig.get_path("purelib"))  # .pth files in that folder do not apply
    python = folder / "bin" / "python"
    found = subprocess.run([python, "-c", "import pyarrow, kstreamnb"], cwd="/", env={}, capture_output=True, text=True)
    assert "No module named 'kstreamnb'" in found.stderr, found.stderr
    return python


@contextmanager
def hdfs(folder: Path, port: int = 0) -> Iterator[Hdfs]:
    """A NameNode and a DataNode in one process."""
    service = Hdfs(folder, port or free_port())
    service.start()
    try:
        yield service
    finally:
        service.stop()


class Hdfs:
    """HDFS in one process, which can be suspended and resumed."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.url = f"hdfs://127.0.0.1:{port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        details = self.folder / "details.json"
        command = [java(), "-Xmx256m", f"-Dhdfs.minidfs.basedir={self.folder}/dfs", f"-Dtest.build.data={self.folder}"]
        command += ["-cp", f"{jars('hdfs')}/*:{spark_jars()}/*", "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"]
        command += [
            "-nomr",
            "-format",
            "-nnport",
            str(self.port),
            "-D",
            "dfs.replication=1",
            "-writeDetails",
            str(details),
        ]
        self.process = _started(command, self.folder)
        _await(lambda: details.exists() and bool(json.loads(details.read_text() or "{}")), self.process, self.folder)

    @contextmanager
    def away(self) -> Iterator[None]:
        """It is suspended meanwhile: calls are neither answered nor refused."""
        assert self.process is not None
        with suspended(self.process):
            yield

    def stop(self) -> None:
        """End it."""
        _ended(self.process)


@contextmanager
def suspended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """A process does nothing meanwhile."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


class Link:
    """The line from a node to the broker, which can be cut.

    The broker goes by this machine's name. The node's table of hosts has another loopback address under that name,
    where a process passes everything on.
    """

    _NODE = "127.0.0.3"

    def __init__(self, folder: Path, port: int) -> None:
        folder.mkdir()
        name = socket.gethostname()
        self.address = f"{name}:{port}"
        """Where the broker has to listen."""
        others = [line for line in Path("/etc/hosts").read_text().splitlines() if name not in line.split()]
        (folder / "hosts").write_text("\n".join([f"{self._NODE} {name}", *others, ""]))
        hide = f'mount --bind "{folder}/hosts" /etc/hosts && exec "$@"'
        self.command = ("unshare", "-m", "sh", "-c", hide, "sh")
        """The words before the command of a worker that is to use the line."""
        self._process = _started([sys.executable, str(HERE / "link.py"), self._NODE, name, str(port)], folder)
        _await(lambda: "ready" in (folder / "log").read_text(), self._process, folder)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Nothing passes meanwhile, and no connection ends."""
        with suspended(self._process):
            yield

    def stop(self) -> None:
        """End it."""
        _ended(self._process)


def may_unshare() -> bool:
    """Tell whether this process may hide files from another one."""
    if shutil.which("unshare") is None:
        return False
    return not subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode


class Yarn:
    """A ResourceManager and a NodeManager, each in its own process; ``configuration`` is for HADOOP_CONF_DIR."""

    _ADDRESSES = (
        *(f"resourcemanager.{name}" for name in ("", "scheduler.", "resource-tracker.", "admin.", "webapp.")),
        *(f"nodemanager.{name}" for name in ("", "localizer.", "webapp.", "collector-service.")),
    )

    def __init__(self, folder: Path) -> None:
        self.folder, self.configuration = folder, folder / "conf"
        self.configuration.mkdir(parents=True)
        ports = {f"yarn.{name}address": f"127.0.0.1:{free_port()}" for name in self._ADDRESSES}
        settings = {
            **ports,
            "yarn.nodemanager.local-dirs": str(folder / "local"),
            "yarn.nodemanager.log-dirs": str(folder / "logs"),
            "yarn.nodemanager.resource.memory-mb": "4096",
            "yarn.nodemanager.resource.cpu-vcores": "4",
            "yarn.nodemanager.env-whitelist": "JAVA_HOME",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.resourcemanager.scheduler.class": f"{_YARN}.resourcemanager.scheduler.fifo.FifoScheduler",
        }
        entries = (
            f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
        )
        (self.configuration / "yarn-site.xml").write_text(f"<configuration>{''.join(entries)}</configuration>")
        self._url = f"http://{ports['yarn.resourcemanager.webapp.address']}/ws/v1/cluster/metrics"
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start both, and wait until they know each other."""
        for kind in ("resourcemanager.ResourceManager", "nodemanager.NodeManager"):
            self._processes.append(self._process(kind))
        _await(self._has_node, self._processes[0], self.folder / "resourcemanager.ResourceManager")

    def _process(self, kind: str) -> subprocess.Popen[bytes]:
        (self.folder / kind).mkdir()
        classes = f"{self.configuration}:{jars('hdfs')}/*:{jars('yarn')}/*:{spark_jars()}/*"
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return _started([java(), *options, "-cp", classes, f"{_YARN}.{kind}"], self.folder / kind)

    def _has_node(self) -> bool:
        try:
            with urllib.request.urlopen(self._url) as answer:
                return bool(json.load(answer)["clusterMetrics"]["activeNodes"])
        except OSError:
            return False

    def kill_executor(self) -> None:
        """Kill one executor; YARN starts another one."""
        listed = subprocess.run(
            ["pgrep", "-f", f"CoarseGrainedExecutor.*{self.folder}"], capture_output=True, text=True
        )
        found = [int(pid) for pid in listed.stdout.split()]
        assert found, "there is no executor to kill"
        os.kill(found[-1], signal.SIGKILL)

    def stop(self) -> None:
        """End everything, containers included: the NodeManager ends them when it is asked to."""
        for process in reversed(self._processes):
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            _ended(process)


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """An S3 endpoint with an empty bucket; yields its address."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    process = _started([str(_moto()), str(HERE / "s3_server.py"), str(port)], folder)
    try:
        _await(lambda: "ready" in (folder / "log").read_text(), process, folder)
        endpoint = f"http://127.0.0.1:{port}"
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")).close()
        yield endpoint
    finally:
        _ended(process)


def s3_settings(endpoint: str) -> dict[str, str]:
    """Return the settings of a session that reaches an endpoint; it serves ``s3a://checkpoints/…``."""
    return {
        "spark.jars": ",".join(map(str, sorted(jars("s3a").glob("*.jar")))),
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "x",
        "spark.hadoop.fs.s3a.secret.key": "y",
    }


def _moto() -> Path:
    """Return the Python of an environment with moto; the first call creates it in half a minute."""
    folder = cache_folder() / "moto-5.2.5"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "-q", "-r", str(HERE / "requirements.txt")]
        subprocess.run(command, check=True, capture_output=True)
        (folder / "ready").touch()
    return python


class Standalone:
    """A standalone master and its workers, each in its own process.

    Args:
        folder: holds logs and the workers' files.
        workers: the number of workers, with one core and 1 GB each.
        recovers: the master keeps its state in a folder, and continues with it after it was killed.
    """

    def __init__(self, folder: Path, workers: int = 2, *, recovers: bool = False) -> None:
        self.folder, self.port, self.recovers = folder, free_port(), recovers
        self.url = f"spark://127.0.0.1:{self.port}"
        self._count = self._masters = 0
        self.start_master()
        self.workers = [self.add_worker() for _ in range(workers)]

    def start_master(self) -> None:
        """Start the master, and wait until it answers; also after it was killed."""
        self._masters += 1
        name, kind = f"master-{self._masters}", "org.apache.spark.deploy.master.Master"
        (state := self.folder / "state").mkdir(parents=True, exist_ok=True)
        settings = {"recoveryMode": "FILESYSTEM", "recoveryDirectory": state} if self.recovers else {}
        java_options = [f"-Dspark.deploy.{key}={value}" for key, value in settings.items()]
        self.master = self._process(name, kind, "--port", str(self.port), java_options=java_options)
        _await(lambda: _answers(self.port), self.master, self.folder / name)

    def kill_master(self) -> None:
        """Kill the master."""
        self.master.kill()
        self.master.wait()

    def add_worker(self, *before: str) -> subprocess.Popen[bytes]:
        """Start a worker; ``before`` holds the words of a command that wraps it."""
        self._count += 1
        name = f"worker-{self._count}"
        options = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / name / "work"), self.url]
        worker = self._process(name, "org.apache.spark.deploy.worker.Worker", *options, before=before)
        _await(
            lambda: "Successfully registered" in (self.folder / name / "log").read_text(), worker, self.folder / name
        )
        return worker

    def kill_worker(self) -> None:
        """Kill the first worker with its executors, as if its machine failed, and start another one."""
        self.end_worker()
        self.replace_ended_workers()

    def end_worker(self) -> None:
        """Kill the first worker with its executors."""
        worker = self.workers[0]
        for pid in [*executors(worker.pid), worker.pid]:
            os.kill(pid, signal.SIGKILL)
        worker.wait()

    def replace_ended_workers(self) -> None:
        """Start another worker for each one that has ended."""
        self.workers = [self.add_worker() if each.poll() is not None else each for each in self.workers]

    def kill_executor(self) -> None:
        """Kill one executor; its worker starts another one."""
        for worker in self.workers:
            for pid in executors(worker.pid)[:1]:
                os.kill(pid, signal.SIGKILL)
                return
        raise AssertionError("there is no executor to kill")

    def stop(self) -> None:
        """End everything."""
        for worker in self.workers:
            for pid in executors(worker.pid):
                os.kill(pid, signal.SIGKILL)
        for process in [*self.workers, self.master]:
            _ended(process)

    def _process(
        self, name: str, kind: str, *options: str, before: tuple[str, ...] = (), java_options: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        folder = self.folder / name
        folder.mkdir(parents=True)
        command = [
            *before,
            java(),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *java_options,
            "-cp",
            f"{spark_jars()}/*",
        ]
        command += [kind, "--host", "127.0.0.1", "--webui-port", "0", *options]
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "SPARK"))}
        environment = {**plain, "SPARK_HOME": str(spark_jars().parent), "SPARK_LOCAL_DIRS": str(folder / "local")}
        environment["SPARK_SCALA_VERSION"] = "2.13"  # what Spark's own scripts set
        return _started(command, folder, environment)


def executors(worker: int) -> list[int]:
    """Return the process ids of a worker's executors."""
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(worker)], capture_output=True, text=True, check=False
    )
    rows = [line.split(None, 1) for line in listed.stdout.splitlines()]
    return [int(pid) for pid, arguments in rows if "CoarseGrainedExecutorBackend" in arguments]


def _started(command: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment)


def _ended(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None and process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait(20)


def _await(reached: object, process: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    assert callable(reached)
    while not reached():
        text = (folder / "log").read_text()[-2000:]
        assert process.poll() is None, text
        assert time.monotonic() < end, text
        time.sleep(0.1)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    print(sys.executable, jars("hdfs"), jars("yarn"), jars("s3a"), _moto())
