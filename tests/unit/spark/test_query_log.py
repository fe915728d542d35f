"""The log of queries in a file."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from kstreamnb.errors import ConfigError, ProcessingError
from kstreamnb.kafka.client import LOG
from kstreamnb.spark.execution.failures import spark_failure
from kstreamnb.spark.query.query_status import failure_line
from kstreamnb.spark.telemetry.query_log import QueryLog, log_to, print_events

CARD = "4111 1111"


class CardUnknown(LookupError):
    """An error of the user's own."""


@pytest.mark.parametrize(
    "cause",
    [
        KeyError(CARD),
        ValueError(f"could not convert '{CARD}'"),
        RuntimeError(CARD),
        CardUnknown(f"no card {CARD}"),
        UnicodeEncodeError("ascii", CARD, 0, 1, CARD),
    ],
)
def test_the_log_quotes_no_record(cause: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """Only the type of an error whose text may have a key or a value."""
    error = ProcessingError("a function failed", node="map")
    error.__cause__ = cause
    QueryLog("shop", "q").failure(error)
    assert type(cause).__name__ == vars(caplog.records[0])["fields"]["cause"]
    assert CARD not in caplog.text


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"ValueError: invalid literal for int() with base 10: '{CARD}'", "ValueError"),
        (
            f"Caused by: java.sql.BatchUpdateException: Batch entry 0 INSERT INTO t VALUES ({CARD})",
            "BatchUpdateException",
        ),
        (
            f"Caused by: org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] Not a number: {CARD}",
            "SparkNumberFormatException: [CAST_INVALID_INPUT]",
        ),
        (
            "Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 0.0: "
            f"java.lang.RuntimeException: {CARD}",
            "java.lang.RuntimeException",
        ),
        ("TypeError: unsupported operand type(s) for +: 'int' and 'str'", "for +: 'int' and 'str'"),
        ("Caused by: java.io.FileNotFoundException: /data/state.delta", "FileNotFoundException: /data/state.delta"),
    ],
)
def test_the_log_of_a_failure_in_spark_quotes_no_record(
    said: str, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Texts about code, files and the network are shown, of other errors in the chain the type."""
    error = spark_failure(
        'the query of "shop"', RuntimeError(f"An error occurred while calling o1.\n{said}\n\tat a.B(C)")
    )
    QueryLog("shop", "q").failure(error)
    assert CARD not in caplog.text + failure_line(error)
    assert (error.detail or error.message).endswith(shown)


def test_a_log_that_is_rotated_loses_nothing(tmp_path: Path) -> None:
    """After logrotate has moved the file, entries go to a new one of its name."""
    path, log = tmp_path / "queries.jsonl", QueryLog("shop", "q")
    handler = log_to(path)
    try:
        log.note("first")
        path.rename(tmp_path / "queries.jsonl.1")
        log.note("second")
    finally:
        logging.getLogger("kstreamnb.query").removeHandler(handler)
        handler.close()
    assert '"first"' in (tmp_path / "queries.jsonl.1").read_text()
    assert '"second"' in path.read_text()


def test_an_error_is_logged_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    """Type and message of the user's own exception."""
    error = ProcessingError("a function failed", node="map")
    error.__cause__ = ZeroDivisionError("division by zero")
    QueryLog("shop", "q").failure(error)
    assert "ZeroDivisionError: division by zero" == vars(caplog.records[0])["fields"]["cause"]


@pytest.fixture
def query_log() -> Iterator[QueryLog]:
    """A log of a query; handlers that the test adds are removed."""
    logger = logging.getLogger("kstreamnb.query")
    before = list(logger.handlers)
    yield QueryLog("shop", "q")
    for handler in set(logger.handlers) - set(before):
        logger.removeHandler(handler)
        handler.close()


def test_a_log_that_cannot_be_written_is_reported_once_and_ends_no_query(
    query_log: QueryLog, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A full disk, a folder in its place; after each, lines are written again."""
    file = tmp_path / "log.jsonl"
    log_to(file)
    for fail, mend in ((partial(file.symlink_to, "/dev/full"), file.unlink), (file.mkdir, file.rmdir)):
        fail()
        for _ in range(3):
            query_log.note("batch")
        mend()
        query_log.note("started")
        assert '"started"' in file.read_text()
        file.unlink()
    assert [
        f'log "{file}" cannot be written: OSError: No space left on device',
        f'log "{file}" cannot be written: IsADirectoryError: Is a directory',
    ] == [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert "Traceback" not in capfd.readouterr().err


def test_a_log_in_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """At the call, and not when a query starts."""
    with pytest.raises(ConfigError, match='nowhere" does not exist'):
        log_to(tmp_path / "nowhere" / "log.jsonl")
    assert not (tmp_path / "nowhere").exists()


def test_events_are_printed_without_batches_and_final_errors(
    query_log: QueryLog,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In UTC, wherever the machine is."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        print_events()
        query_log.note("started", batch=3)
        query_log.note("batch")
        query_log.failure(ConfigError("it failed"))
        query_log.warn("records dropped", count=2)
        (stamp, started), (_, dropped) = (line.split(" ", 1) for line in capsys.readouterr().err.splitlines())
    finally:
        monkeypatch.undo()
        time.tzset()
    assert ("shop: started (batch 3)", "shop: records dropped (count 2)") == (started, dropped)
    assert int(caplog.records[0].created) == datetime.fromisoformat(stamp).timestamp()


def test_an_event_is_one_line_that_controls_no_terminal(
    query_log: QueryLog, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever it quotes: a second line would look like another event."""
    print_events()
    query_log.note("started", reason=f"no\n2026-01-01T00:00:00Z shop: stopped{chr(27)}[2J\u202e")
    (line,) = capsys.readouterr().err.splitlines()
    assert r"(reason no\n2026-01-01T00:00:00Z shop: stopped\x1b[2J\u202e)" in line


def test_messages_of_the_kafka_client_are_printed_without_secrets(
    query_log: QueryLog, capsys: pytest.CaptureFixture[str]
) -> None:
    """An address may contain a password; what is printed hides it as the fields do."""
    print_events()
    LOG.error("FAIL: %s: Failed to resolve\n%s", "SASL_SSL://me:hush@broker:9092", "again")
    (line,) = capsys.readouterr().err.splitlines()
    assert r"FAIL: SASL_SSL://***@broker:9092: Failed to resolve\nagain" in line
