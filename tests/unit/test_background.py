"""No thread of the package ends with an error that nobody sees."""

from __future__ import annotations

import ast
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

import kstreamnb as ks
from kstreamnb.background import background
from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError
from kstreamnb.kafka.latency_probe import LatencyProbe
from tests.unit.test_serving import ask

PACKAGE = Path(ks.__file__).parent
STARTS = {"Thread", "Timer", "ThreadPoolExecutor", "ThreadPool", "start_new_thread", "run_in_executor"}
"""Names with which Python starts threads; requests of a server have its `handle_error`."""


def named(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name of a call, of a base class and of an import, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            yield (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")), node.lineno
        elif isinstance(node, ast.ClassDef):
            yield from ((getattr(base, "attr", getattr(base, "id", "")), node.lineno) for base in node.bases)
        elif isinstance(node, ast.ImportFrom):
            yield from ((each.name, node.lineno) for each in node.names)


def starts(source: str) -> list[int]:
    """Lines that start a thread in any way."""
    return sorted({line for name, line in named(ast.parse(source)) if name in STARTS})


def test_every_thread_is_started_by_the_one_function_that_reports_its_death() -> None:
    """The rule looks at every module of the package."""
    found = {str(path.relative_to(PACKAGE)): starts(path.read_text()) for path in PACKAGE.rglob("*.py")}
    assert ["background.py"] == [name for name, lines in found.items() if lines]
    calls = sum(path.read_text().count(" background(") for path in PACKAGE.rglob("*.py"))
    assert calls >= 10  # as many as there were when the rule was made


@pytest.mark.parametrize(
    "source",
    [
        "import threading\nthreading.Thread(target=print).start()",
        "from threading import Thread as T\n",
        "class Mine(threading.Thread): ...",
        "from concurrent.futures import ThreadPoolExecutor",
        "threading.Timer(1, print).start()",
    ],
)
def test_the_rule_sees_every_way_to_start_a_thread(source: str) -> None:
    """Otherwise it could not fail."""
    assert starts(source)


@pytest.mark.parametrize("error", [ValueError("too large"), SystemExit(3), KeyboardInterrupt()])
def test_a_thread_that_dies_is_reported_with_name_kind_of_error_and_line(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """Python itself says nothing about ``SystemExit``. The text of an error may quote a record."""

    def work() -> None:
        raise error

    background(work, "worker seven").join()
    (record,) = caplog.records
    message = record.getMessage()
    assert message.startswith(f'the thread "worker seven" ended with an error: {type(error).__name__}\n')
    assert message.endswith("in work\n    raise error")
    assert record.exc_info is None
    assert "too large" not in caplog.text


def test_a_report_of_a_death_that_fails_is_reported_as_well(caplog: pytest.LogCaptureFixture) -> None:
    """Both errors are in the log."""

    def work() -> None:
        raise ValueError("first")

    def died(error: BaseException) -> None:
        raise OSError("second") from error

    background(work, "worker", died=died).join()
    assert 'the thread "worker" ended with an error: OSError\n' in caplog.text
    assert "caused by ValueError\n" in caplog.text


def test_a_report_of_errors_that_caused_each_other_ends(caplog: pytest.LogCaptureFixture) -> None:
    """``raise … from`` allows it."""

    def work() -> None:
        first, second = ValueError(), OSError()
        first.__cause__ = second
        raise second from first

    background(work, "worker").join(10)
    assert ["OSError", "ValueError"] == re.findall(r"\w+Error$", caplog.text, re.MULTILINE)


def test_a_report_reaches_the_terminal_of_a_program_without_logging(capfd: pytest.CaptureFixture[str]) -> None:
    """The logger has no handler of the package, which would hide it."""
    import subprocess

    code = "from kstreamnb.background import background; background(lambda: 1 / 0, 'divider').join()"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "ZeroDivisionError" in capfd.readouterr().err


def wait_for_a_result(probe: LatencyProbe) -> None:
    """Wait for at most 20 s."""
    end = time.monotonic() + 20
    with probe:
        while not probe.latencies_ms and time.monotonic() < end:
            probe.check()
            time.sleep(0.01)


class _OneRefusal:
    """A consumer that delivers one message with an error, then nothing."""

    def __init__(self, code: int) -> None:
        self.code: int | None = code

    def subscribe(self, topics: list[str]) -> None:
        """Take any topics."""

    def poll(self, timeout: float) -> Any:
        """Return the message once."""
        code, self.code = self.code, None
        refusal = None if code is None else KafkaError(code)
        return refusal and SimpleNamespace(error=lambda: refusal, topic=lambda: "counts", partition=lambda: 0)

    def close(self) -> None:
        """Nothing to close."""


def test_a_latency_probe_raises_an_error_that_a_message_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    """It once left such messages out, so that a refused reader looked like a topic without records."""
    refused = _OneRefusal(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    monkeypatch.setattr("kstreamnb.kafka.latency_probe.client", lambda *_: refused)
    with pytest.raises(EngineError, match='the latency probe of topic "counts" failed'):
        wait_for_a_result(LatencyProbe("127.0.0.1:1", "counts"))


def test_a_latency_probe_counts_errors_that_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that is created after the probe starts does not end the reading."""
    missing = _OneRefusal(KafkaError.UNKNOWN_TOPIC_OR_PART)
    monkeypatch.setattr("kstreamnb.kafka.latency_probe.client", lambda *_: missing)
    probe = LatencyProbe("127.0.0.1:1", "counts")
    with probe:
        end = time.monotonic() + 20
        while not probe.errors and time.monotonic() < end:
            time.sleep(0.01)
    assert {"UNKNOWN_TOPIC_OR_PART": 1} == probe.errors


def test_a_latency_probe_that_cannot_read_fails_its_block() -> None:
    """Not a run without latencies."""
    servers: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "debug": "nonsense"}
    with pytest.raises(EngineError, match='the latency probe of topic "counts" failed') as raised:
        wait_for_a_result(LatencyProbe(servers, "counts"))
    assert "nonsense" in "".join(raised.value.__notes__)


class Leaving(Serde[str]):
    """A serde of a user that ends the program when it reads in a request's thread."""

    def serialize(self, data: str | None) -> bytes | None:
        """The text."""
        return None if data is None else data.encode()

    def deserialize(self, data: bytes | None) -> str | None:
        """The text, unless a server asks."""
        if threading.current_thread() is not threading.main_thread():
            sys.exit("leaving")
        return None if data is None else data.decode()


def test_a_request_that_would_end_its_thread_is_answered() -> None:
    """Otherwise the client would see only a closed connection, and nobody else anything."""
    builder = ks.StreamsBuilder("site")
    builder.table("names", value_serde=Leaving(), store="names")
    driver = ks.TopologyTestDriver(builder.build())
    driver.create_input_topic("names", value_serde="string").pipe_input("a", "x")
    with ks.monitoring.serve(driver) as server:
        assert (500, {"error": "SystemExit: leaving"}) == ask(server, "/stores/names/a")


def test_a_request_that_fails_is_reported_unless_its_client_has_left(caplog: pytest.LogCaptureFixture) -> None:
    """A client that disconnects is not an error; anything else is one, and has no caller."""
    with ks.monitoring.serve(ks.TopologyTestDriver(ks.StreamsBuilder("site").build())) as server:
        for error in (ConnectionResetError("gone"), TimeoutError("slow"), LookupError("defect")):
            try:
                raise error
            except Exception:
                server._server.handle_error(None, None)
    (line, *_) = caplog.records[0].getMessage().splitlines()
    assert (1, "answering a request failed: LookupError: defect") == (len(caplog.records), line)
