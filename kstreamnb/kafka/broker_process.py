"""Runs a real single-node Kafka broker on this machine, for tests and notebooks.

It runs in KRaft mode on free ports of the loopback interface, keeps its data in a temporary folder, and ends when
its standard input closes: with `stop`, and with the process that started it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kstreamnb.closing import Closing
from kstreamnb.core.progress import under_way
from kstreamnb.data_files import text_of
from kstreamnb.errors import BrokerError, ConfigError, expect_known
from kstreamnb.kafka.java import KAFKA_VERSION, java, kafka_jars, old_java_error, refuse_windows, run_tool
from kstreamnb.kafka.storage.temp_dirs import temp_dir

_JVM = text_of(__package__, "broker.jvm_options").split()
_LISTENER = re.compile(r"^listeners=PLAINTEXT://127\.0\.0\.1:(\d+)", re.MULTILINE)
_LOG_LINES, _LOG_BYTES = 20, 3000
_ANSWER_S = 5.0
_WATCH = 'exec 3<&0; "$@" 3<&- & p=$!; (cat <&3 >/dev/null; kill $p 2>/dev/null) & wait $p'


class LocalBroker(Closing):
    """One broker process; starts with `start` or a ``with`` block.

    A broker that is started again keeps its addresses, and one over the data of an earlier one takes its port
    if that is free.

    Args:
        heap: heap size of its JVM. Default: "256m".
        data: a folder that survives the broker; by default a temporary folder, which `close` removes.
        config: further settings of the broker. Default: none.
        users: password by name. They authenticate at a second listener and may do only what access control lists
            allow; clients of the first, `bootstrap_servers`, may do everything. Default: none, clients need not
            sign in.
        port: the port of `bootstrap_servers`. Default: None, that of the data's last broker, or a free one.
        version: the version of Kafka. Default: ``KAFKA_VERSION``, the one that the tests use.
        timeout_s: how many seconds it may take to answer after a start; default 60. Its folder is formatted within the
            same time.

    Example:
        >>> broker = LocalBroker(heap="200m").start()
        >>> broker.bootstrap_servers.startswith("127.0.0.1:")
        True
        >>> broker.stop()
    """

    def __init__(
        self,
        *,
        heap: str = "256m",
        data: Path | str | None = None,
        config: Mapping[str, object] | None = None,
        users: Mapping[str, str] | None = None,
        port: int | None = None,
        version: str = KAFKA_VERSION,
        timeout_s: float = 60.0,
    ) -> None:
        refuse_windows("a local broker")  # which has neither process groups nor sh
        self.version, self.heap, self.timeout_s = version, heap, timeout_s
        self.config, self.users, self.port = dict(config or {}), dict(users or {}), port
        self.bootstrap_servers = self._guarded = ""
        self._answered = False
        self._temporary = data is None
        self.data = temp_dir("broker") if data is None else Path(data).absolute()  # its processes run there
        self._process: subprocess.Popen[bytes] | None = None
        self._archive: Path | None = None

    @property
    def running(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        """Return the path of the broker's log file."""
        return self.data / "broker.log"

    def connection(self, user: str) -> dict[str, str]:
        """Return librdkafka's settings for a client that signs in as this user.

        Args:
            user: one of the names in ``users``.

        Raises: ConfigError for a user that the broker was not started with.
        """
        expect_known("user", [user], self.users, error=ConfigError)
        return {
            "bootstrap.servers": self._guarded,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": self.users[user],
        }

    def start(self, *, attempts: int = 3) -> Self:
        """Start the broker and wait until it answers.

        A process that exits is started again: most likely another one took its port. A broker that has run before keeps
        its ports. A process that runs without answering in time is stopped: another start would take as long.

        Args:
            attempts: how often to start the process before giving up. Default: 3.

        Raises: BrokerError if it did not answer; the detail has the last lines of its log.
        """
        if self.running:
            return self
        try:
            return self._started(attempts)
        except KeyboardInterrupt:  # maybe nobody has the broker
            self.kill()
            if not self._answered:
                self.close()
            raise

    def _started(self, attempts: int) -> Self:
        self.data.mkdir(parents=True, exist_ok=True)
        command = [java(), f"-Xmx{self.heap}", *_JVM, "-cp"]  # first: without Java, no jars are fetched
        command.append(os.pathsep.join(sorted(map(str, kafka_jars(self.version).glob("*.jar")))))
        for attempt in range(attempts):
            self.bootstrap_servers, self._guarded, controller = self._addresses()
            self._configure(command, controller)
            arguments = ["sh", "-c", _WATCH, "sh", *command, *self._class_archive()]
            with self.log.open("ab") as log:
                begin = log.tell()
                self._process = subprocess.Popen(
                    [*arguments, "kafka.Kafka", str(self.data / "server.properties")],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            if self._answers():
                self._answered = True
                return self
            code = self._process.poll()
            self.stop(grace_s=0.0)
            if code is None or attempt == attempts - 1:
                raise self._failure(code, begin)
            if not self._answered:
                self.bootstrap_servers = self._guarded = ""
        raise ConfigError(f"attempts must be at least 1, got {attempts}")

    def await_failure(self) -> BrokerError:
        """Wait until the process ends other than by `stop`, and return the error with the last lines of its log."""
        return self._failure(None if self._process is None else self._process.wait(), 0)

    def _failure(self, code: int | None, begin: int) -> BrokerError:
        """Make the error of a process that ended with a code, or that runs; its log starts at an offset of the file."""
        with self.log.open("rb") as log:
            log.seek(begin)
            lines = deque(log, _LOG_LINES)
        tail = b"".join(lines)[-_LOG_BYTES:].decode(errors="replace").strip()
        what = f"did not answer within {self.timeout_s:g} s" if code is None else f"ended with code {code}"
        detail = f"the last lines of {self.log}:\n{tail}" if tail else f"{self.log} has no line of this start"
        hint = "free processors or memory, or give it more time: LocalBroker(timeout_s=180)" if code is None else None
        return BrokerError(f"the local broker {what}", detail=detail, hint=hint)

    def stop(self, *, grace_s: float = 10.0) -> None:
        """End the broker cleanly; its data stays until `close`.

        Args:
            grace_s: how many seconds the process has to end before it is killed. Default: 10.
        """
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._archive = None  # not all of it may have been written
        if self._archive is not None and self._archive.exists():
            self._archive.replace(self._archive.with_name("broker.jsa"))

    def kill(self) -> None:
        """End the broker at once, as a crash does."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._archive = None  # the JVM may have been writing it
        self.stop()

    def close(self) -> None:
        """End the broker and remove its temporary data."""
        self.stop()
        if self._temporary:
            shutil.rmtree(self.data, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __repr__(self) -> str:
        state = f'at "{self.bootstrap_servers}"' if self.running else "stopped"
        return f"LocalBroker(Kafka {self.version}, {state})"

    def _class_archive(self) -> list[str]:
        """Return the JVM's option for the archive of loaded classes; the first clean stop writes it."""
        home = kafka_jars(self.version)
        archive, self._archive = home / "broker.jsa", None
        if archive.exists():
            return [f"-XX:SharedArchiveFile={archive}"]
        if not os.access(home, os.W_OK):
            return []
        self._archive = home / f"broker.jsa.{secrets.token_hex(8)}"
        return [f"-XX:ArchiveClassesAtExit={self._archive}"]

    def _addresses(self) -> tuple[str, str, str]:
        """Return three addresses, the old or free ones: unrestricted, for `users`, for the controller."""
        sockets = [socket.socket() for _ in range(3)]
        try:
            for each in sockets:
                each.bind(("127.0.0.1", 0))
            free, guarded, controller = (f"127.0.0.1:{each.getsockname()[1]}" for each in sockets)
        finally:
            for each in sockets:
                each.close()
        return self.bootstrap_servers or self._own_address() or free, self._guarded or guarded, controller

    def _own_address(self) -> str:
        """Return the address with the chosen port, else with that of the data's last broker if it is free, else ""."""
        known = None
        with suppress(FileNotFoundError):
            known = _LISTENER.search((self.data / "server.properties").read_text(encoding="utf-8"))
        port = self.port or (int(known[1]) if known else 0)
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of the last broker may linger
            try:
                taken.bind(("127.0.0.1", port))
            except OSError as error:
                if self.port:
                    raise BrokerError(f"port {port} of this machine is in use", hint="choose another one") from error
                return ""
        return f"127.0.0.1:{port}" if port else ""

    def _configure(self, command: list[str], controller: str) -> None:
        logs, path = self.data / "logs", self.data / "server.properties"
        lines = {
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": logs,
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},CONTROLLER://{controller}",
            **(self._access(controller) if self.users else {}),
            **self.config,
        }
        # Java reads Latin-1 and the escapes of JSON strings.
        own = "".join(f"{name}={json.dumps(str(value))[1:-1]}\n" for name, value in lines.items())
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)  # an older one may be readable by others, and it holds passwords
            file.write(text_of(__package__, "broker.properties") + own)
        if (logs / "meta.properties").exists():
            return
        cluster = "A" + base64.urlsafe_b64encode(secrets.token_bytes(16)).decode()[1:22]  # never a leading dash
        tool = [*command, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(path)]
        if (failure := run_tool(tool, self.data, self.timeout_s)) is not None:
            fact = "the local broker's data could not be formatted"
            raise old_java_error() or BrokerError(fact, detail=failure)

    def _access(self, controller: str) -> dict[str, str]:
        """Return the settings of the listener for `users`, and of access control."""
        quoted = {name: json.dumps(password, ensure_ascii=False) for name, password in self.users.items()}
        known = "".join(f" user_{name}={text}" for name, text in quoted.items())
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        plain, guarded, inside = self.bootstrap_servers, self._guarded, controller
        return {
            "listeners": f"PLAINTEXT://{plain},SASL_PLAINTEXT://{guarded},CONTROLLER://{inside}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{login}{known};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",  # clients of the first listener, and the broker itself
        }

    def _answers(self) -> bool:
        """Return whether the broker answers before the timeout; one that is starting may answer without any broker."""
        end, (host, port) = time.monotonic() + self.timeout_s, self.bootstrap_servers.split(":")
        while self.running and time.monotonic() < end:
            with suppress(OSError, KafkaException), socket.create_connection((host, int(port)), 0.2):
                client = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
                if client.list_topics(timeout=max(0.1, min(_ANSWER_S, end - time.monotonic()))).brokers:
                    return True
            time.sleep(0.02)
        return False


def local_broker(
    *,
    heap: str = "256m",
    data: Path | str | None = None,
    config: Mapping[str, object] | None = None,
    users: Mapping[str, str] | None = None,
    port: int | None = None,
) -> LocalBroker:
    """Start a real Kafka broker on this machine; needs Java 17 and, the first time, access to Maven Central.

    Clients take ``servers=broker.bootstrap_servers``; ``broker.close()`` or a ``with`` block ends it.

    Args:
        heap: heap size of its JVM. Default: "256m".
        data: a folder that survives the broker; by default a temporary one.
        config: further settings of the broker. Default: none.
        users: password by name. ``servers=broker.connection("shop")`` signs in as that user, which may do what access
            control lists allow, and nothing else. Default: none, clients need not sign in.
        port: its port. Default: None, the port last used with ``data`` if it is free, else any free port.

    Example:
        >>> from kstreamnb.kafka import Admin
        >>> with local_broker() as broker:
        ...     admin = Admin(broker.bootstrap_servers)
        ...     admin.create_topic("orders", partitions=4)
        ...     admin.topics()
        {'orders': 4}
    """
    with under_way("starting a Kafka broker on this machine"):
        return LocalBroker(heap=heap, data=data, config=config, users=users, port=port).start()
