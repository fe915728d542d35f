"""The log of queries in a file."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kstreamnb.errors import ProcessingError
from kstreamnb.spark.telemetry.query_log import QueryLog, log_to


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
