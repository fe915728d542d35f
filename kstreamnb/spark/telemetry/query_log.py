"""The log of queries: records with fields in ``logging.getLogger("kstreamnb.query")``.

Each record has a sentence for people and, as ``record.fields``, a dict for machines, which `JsonLines` writes. Fields
never hold keys, values or settings, so they contain no secrets.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from contextlib import suppress
from logging.handlers import WatchedFileHandler
from pathlib import Path

from kstreamnb.core.arguments import check_arguments
from kstreamnb.errors import ConfigError, KStreamError, ProcessingError
from kstreamnb.hints import reason_of
from kstreamnb.masking import clean
from kstreamnb.spark.telemetry.metrics import BatchFigures

_LOG = logging.getLogger("kstreamnb.query")
_LOG.addHandler(logging.NullHandler())
_OWN_LOG = logging.getLogger(__name__)  # without a handler, so that Python prints errors by default


class QueryLog:
    """The log of one query."""

    def __init__(self, application: str, query: str) -> None:
        self.application, self.query = application, query

    def note(self, event: str, **fields: object) -> None:
        """Log an expected event."""
        self._write(logging.INFO, event, fields)

    def warn(self, event: str, **fields: object) -> None:
        """Log an event that needs attention."""
        self._write(logging.WARNING, event, fields)

    def batch(self, figures: BatchFigures) -> None:
        """Log the end of a batch."""
        fields = figures._asdict()
        fields["seconds"] = round(figures.seconds, 6)
        fields["commit_seconds"] = round(figures.commit_seconds, 6)
        self._write(logging.INFO, "batch", fields)

    def failure(self, error: KStreamError) -> None:
        """Log the error that ends the query."""
        fields: dict[str, object] = {"error": type(error).__name__, "message": error.message}
        fields |= {"detail": error.detail, "hint": error.hint}
        if error.__cause__ is not None:
            fields["cause"] = reason_of(error.__cause__, error.origin)
        if isinstance(error, ProcessingError):
            fields |= {"node": error.node, "coordinates": error.coordinates}
        self._write(logging.ERROR, "failed", fields)

    def _write(self, level: int, event: str, fields: dict[str, object]) -> None:
        everything = {"event": event, "application": self.application, "query": self.query, **fields}
        text = ", ".join(f"{name} {value}" for name, value in fields.items() if value is not None)
        text = clean(f"{self.application}: {event}{f' ({text})' if text else ''}")
        _LOG.log(level, "%s", text, extra={"fields": everything})


class JsonLines(logging.Formatter):
    """Log records as one JSON object a line: time (ms), level, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        fields = getattr(record, "fields", {"event": record.getMessage()})
        return json.dumps({"at_ms": int(record.created * 1000), "level": record.levelname, **fields}, default=str)


class _LogFile(WatchedFileHandler):
    """A file of log lines, which logrotate may move; that it cannot be written is reported once, and ends no query."""

    _problem = ""

    def emit(self, record: logging.LogRecord) -> None:
        before, self._problem = self._problem, ""
        try:
            super().emit(record)
        except OSError:  # of a file that is opened again
            self.handleError(record)
        if self._problem and not before:
            _OWN_LOG.error('log "%s" cannot be written: %s', self.baseFilename, self._problem)

    def handleError(self, record: logging.LogRecord) -> None:
        error, stream = sys.exception(), self.stream
        self._problem = "" if error is None else reason_of(error)
        self.stream = None  # what it could not write would fail again: the next line opens it
        if stream is not None:
            with suppress(OSError):
                stream.close()


def print_events() -> logging.Handler:
    """Write the log of all queries of this process to standard error, with times in UTC.

    Batches are left out, and so are errors that end a query, because `Query.await_termination` raises them.

    Example:
        >>> logging.getLogger("kstreamnb.query").removeHandler(print_events())
    """
    handler = logging.StreamHandler()
    lines = logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    lines.converter = time.gmtime
    handler.setFormatter(lines)
    handler.addFilter(lambda record: getattr(record, "fields", {}).get("event") not in ("batch", "failed"))
    return _added(handler)


def _added(handler: logging.Handler) -> logging.Handler:
    _LOG.addHandler(handler)
    if not _LOG.isEnabledFor(logging.INFO):
        _LOG.setLevel(logging.INFO)
    return handler


def log_to(path: Path | str) -> logging.Handler:
    """Append the log of all queries of this process to a file, one JSON object per line.

    Args:
        path: the file; a new one is created if it was moved away, as logrotate does.

    Returns:
        The handler; ``logging.getLogger("kstreamnb.query").removeHandler(handler)`` ends the logging.

    Raises:
        ConfigError: its folder does not exist.

    Example:
        >>> handler = log_to("queries.jsonl")
        >>> logging.getLogger("kstreamnb.query").removeHandler(handler)
    """
    check_arguments(log_to, locals())
    if not Path(path).absolute().parent.is_dir():
        raise ConfigError(f'folder "{Path(path).parent}" does not exist', hint="create it, or choose another one")
    handler = _LogFile(path, encoding="utf-8", delay=True)
    handler.setFormatter(JsonLines())
    return _added(handler)
