"""A local broker whose process starts and does not get ready: a bounded wait, and an error with its last words."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kstreamnb.errors import BrokerError, MissingJavaError, StorageError
from kstreamnb.kafka import broker_process
from kstreamnb.kafka.broker_process import LocalBroker
from kstreamnb.kafka.java import KAFKA_VERSION, kafka_jars

Start = Callable[..., LocalBroker]
_LISTEN = """exec python3 -c '
import re, socket, sys, time
port = re.search("PLAINTEXT://127.0.0.1:([0-9]+)", open(sys.argv[1]).read()).group(1)
listening = socket.create_server(("127.0.0.1", int(port)))
time.sleep(60)' "$last" """
_JAVA = """#!/bin/sh
for last; do :; done
case "$*" in
*StorageTool*) {format} ;;
*) echo $$ >> "$(dirname "$last")/pids"; for n in $(seq 50); do echo "line $n"; done; {run} ;;
esac
"""


class PatientClock:
    """A clock that starts when the process has printed its lines, however slow the machine is."""

    def __init__(self, log: Path) -> None:
        self._log, self._began, self.sleep = log, 0.0, time.sleep

    def monotonic(self) -> float:
        """Return the seconds since the last line."""
        if not self._began and "line 50" in self._log.read_text():
            self._began = time.monotonic()
        return self._began and time.monotonic() - self._began


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Makes a broker whose Java is a script that does this when it formats, and when it runs."""

    def make(run: str, format: str = ":", timeout_s: float = 60.0) -> LocalBroker:
        java = tmp_path / "jdk" / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(_JAVA.format(run=run, format=format))
        java.chmod(0o755)
        (tmp_path / "cache" / "kstreamnb" / f"kafka-{KAFKA_VERSION}").mkdir(parents=True)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        half = LocalBroker(data=tmp_path / "data", timeout_s=timeout_s)
        monkeypatch.setattr(broker_process, "time", PatientClock(half.log))
        return half

    return make


def pids(broker: LocalBroker) -> list[int]:
    """The processes that were started."""
    return [int(line) for line in (broker.data / "pids").read_text().split()]


def is_gone(pid: int) -> bool:
    """Tell whether a process ends within 10 s."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="reads the state of processes")
@pytest.mark.parametrize("run", [_LISTEN, "exec sleep 60", "trap '' TERM; while :; do sleep 1; done", "kill -STOP $$"])
def test_a_process_that_runs_and_does_not_answer_is_ended_after_the_timeout(run: str, broker: Start) -> None:
    """It may listen, do nothing, ignore SIGTERM, or be stopped; a second start would take as long."""
    half = broker(run, timeout_s=1.0)
    (half.data / "logs").mkdir(parents=True)
    (half.data / "logs" / "meta.properties").touch()  # it was formatted before
    began = time.monotonic()
    with pytest.raises(BrokerError) as raised:
        half.start()
    assert "the local broker did not answer within 1 s" == raised.value.message
    assert time.monotonic() - began < 15
    assert raised.value.detail is not None
    head, *last = raised.value.detail.splitlines()
    assert f"the last lines of {half.log}:" == head
    assert 20 == len(last)
    said = [line for line in last if line != "Terminated"]  # a shell may add that it was ended, which takes a line
    assert said == [f"line {number}" for number in range(51 - len(said), 51)]
    assert "timeout_s=" in str(raised.value.hint)
    assert not half.running
    (pid,) = pids(half)
    assert is_gone(pid)


def test_a_process_that_ends_is_started_three_times_and_its_last_lines_are_shown(broker: Start) -> None:
    """Most likely another process took its port between two looks."""
    half = broker("exit 3")
    with pytest.raises(BrokerError) as raised:
        half.start()
    assert "the local broker ended with code 3" == raised.value.message
    assert str(raised.value.detail).endswith("line 49\nline 50")
    assert 3 == len(pids(half))


def test_only_lines_of_this_start_are_shown(broker: Start) -> None:
    """The log file has all starts."""
    half = broker("exit 3")
    with pytest.raises(BrokerError):
        half.start()
    java = Path(os.environ["JAVA_HOME"], "bin", "java")
    java.write_text('#!/bin/sh\ncase "$*" in *StorageTool*) ;; *) exit 4 ;; esac\n')
    with pytest.raises(BrokerError, match="ended with code 4") as raised:
        half.start()
    assert f"{half.log} has no line of this start" == raised.value.detail


@pytest.mark.parametrize(
    ("format", "timeout_s", "said"),
    [
        ("echo formatting; exec sleep 60", 2.0, "formatting\nit did not end within 2 s"),
        ("echo no space left; exit 1", 60.0, "no space left\n"),
        ("exit 2", 60.0, "it ended with code 2"),
    ],
)
def test_a_tool_that_does_not_format_the_folder_is_an_error_in_time(
    format: str, timeout_s: float, said: str, broker: Start
) -> None:
    """It had no limit; a stalled disk would have kept the caller for ever."""
    with pytest.raises(BrokerError, match="data could not be formatted") as raised:
        broker("exit 3", format, timeout_s).start()
    assert said == raised.value.detail


def test_a_java_that_is_too_old_is_the_error_of_a_folder_that_it_cannot_format(broker: Start) -> None:
    """Java's own error is about versions of class files."""
    old = broker("exit 3", "echo UnsupportedClassVersionError; exit 1")
    java = Path(os.environ["JAVA_HOME"], "bin", "java")
    java.write_text(
        java.read_text().replace("#!/bin/sh", "#!/bin/sh\n[ $1 != -version ] || echo 'java version \"1.8.0_292\"'")
    )
    with pytest.raises(MissingJavaError, match="Java 8 is too old"):
        old.start()


def test_without_a_folder_for_kafkas_jars_the_error_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container often runs as a user whose home cannot be written."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with pytest.raises(StorageError, match='folder "/proc/nowhere/kstreamnb" cannot be written') as caught:
        kafka_jars()
    assert caught.value.hint == "set XDG_CACHE_HOME to a writable folder"


def test_without_java_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The missing Java is named, not the folder that jars would be fetched into."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingJavaError, match="no Java was found"):
        LocalBroker(data=tmp_path / "data").start()
