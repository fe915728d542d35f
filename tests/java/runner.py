"""Runs topologies of ``Topologies.java`` with the real runtime, and waits until they have processed their input."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.application_reset import committed_positions
from kstreamnb.kafka.bounded_reader import fetch, pieces_between
from kstreamnb.kafka.java import java

__all__ = ["JARS", "JavaStreams"]

JARS = Path(__file__).parents[2] / ".artefacts" / "java"
_PATIENCE_S = 300.0
_QUIET = 3
_SHORT = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx768m")


class JavaStreams:
    """One JVM that runs any number of applications.

    Args:
        servers: the broker's address.
        folder: where the applications keep their local state.
        options: of the JVM; by default for short runs.
        threads: stream threads of each application.
    """

    def __init__(self, servers: str, folder: Path, *, options: Sequence[str] = _SHORT, threads: int = 1) -> None:
        self.servers, self.admin = servers, Admin(servers)
        classes = f"{JARS / 'classes'}:{JARS / 'lib'}/*"
        levels = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        command = [java(), *options, f"-Dthreads={threads}", levels, "-cp", classes]
        self._log = (folder / "java.log").open("w")
        self._process = subprocess.Popen(
            [*command, "kstreamnb.Runner", servers, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    @property
    def pid(self) -> int:
        """The process of the JVM."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        with self._process:
            self._process.stdin.close()
            self._process.wait(30)
        self._log.close()

    def ask(self, *words: str) -> str:
        """Send a command; return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer or answer.startswith("failed"):
            raise RuntimeError(f"{words[0]} {words[1]}: {answer or 'no answer; see java.log'}")
        return answer

    def describe(self, name: str) -> str:
        """Java's description of a topology, over topics with the prefix "p"."""
        return self.ask("describe", name, "p").replace("\\n", "\n")

    def rows(self, application: str, store: str) -> dict[str, str]:
        """Ask a running application for all rows of a key-value store, as soon as it has restored the store."""
        end = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return dict(row.split("=", 1) for row in self.ask("rows", application, store).split())
            except RuntimeError as error:
                if "InvalidStateStoreException" not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(0.1)

    def start(self, application: str, name: str, prefix: str, *settings: str) -> None:
        """Start an application, with settings such as "group.protocol=streams"."""
        self.ask("start", application, name, prefix, *settings)

    def stop(self, application: str) -> None:
        """Stop an application and delete its local state."""
        self.ask("stop", application)

    def close(self, application: str) -> None:
        """Stop an application and keep its local state."""
        self.ask("close", application)

    def kill(self) -> None:
        """Kill the JVM: nothing is flushed or committed, and nobody leaves a group."""
        self._process.kill()
        self._process.wait()

    def restored(self, application: str) -> tuple[str, int, int]:
        """State, number of records restored since the start, and number of records that local stores lack."""
        state, records, lag = self.ask("restored", application).split()
        return state, int(records), int(lag)

    def await_running(self, application: str) -> None:
        """Wait until an application is a member of its group and has its tasks."""
        end = time.monotonic() + _PATIENCE_S
        while self.restored(application)[0] != "RUNNING":
            assert time.monotonic() < end
            time.sleep(0.1)

    def run(
        self,
        application: str,
        name: str,
        prefix: str,
        topics: list[str],
        stores: Iterable[str] = (),
        settings: Iterable[str] = (),
    ) -> list[dict[str, str]]:
        """Run an application over the records that its input topics have now; return the rows of these stores."""
        self.start(application, name, prefix, *settings)
        try:
            self.await_input(application, topics)
            return [self.rows(application, store) for store in stores]
        finally:
            self.stop(application)

    def await_input(self, application: str, topics: list[str]) -> None:
        """Wait until no input or repartition topic has records after the committed offsets."""
        end, quiet = time.monotonic() + _PATIENCE_S, 0
        while quiet < _QUIET:
            self.ask("check", application)
            quiet = 0 if self._waiting(application, topics) else quiet + 1
            if time.monotonic() > end:
                raise RuntimeError(f"{application} has not processed its input")
            time.sleep(0.1)

    def _waiting(self, application: str, topics: list[str]) -> bool:
        """Return whether records remain; positions alone cannot tell, because transactions leave markers at the end."""
        existing = self.admin.topics()
        inner = [name for name in existing if name.startswith(f"{application}-") and name.endswith("-topic")]
        inner += [name for name in existing if name.startswith(f"{application}-") and name.endswith("-repartition")]
        read = [*topics, *inner]
        ends = self.admin.offsets(read)
        committed = committed_positions(self.admin, application)
        begin = self.admin.offsets(read, "earliest")
        start = {t: {p: committed.get(t, {}).get(p, begin[t][p]) for p in parts} for t, parts in ends.items()}
        return any(records for _, _, records in fetch(self.servers, pieces_between(start, ends)))
