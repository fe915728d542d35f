"""The log of queries in a file."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kstreamnb.errors import ProcessingError
from kstreamnb.spark.execution.failures import spark_failure
from kstreamnb.spark.query.query_status import failure_line
from kstreamnb.spark.telemetry.query_log import QueryLog, log_to

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
