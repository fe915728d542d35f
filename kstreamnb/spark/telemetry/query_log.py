"""The log of queries: records with fields in ``logging.getLogger("kstreamnb.query")``.

Each record has a sentence for people and, as ``record.fields``, a dict for machines, which `JsonLines` writes. Fields
never hold keys, values or settings, so they contain no secrets.
"""

from __future__ import annotations

import json
import logging
from logging.handlers import WatchedFileHandler
from pathlib import Path

from kstreamnb.core.arguments import check_arguments
from kstreamnb.errors import KStreamError, ProcessingError
from kstreamnb.hints import reason_of
from kstreamnb.spark.telemetry.metrics import BatchFigures

_LOG = logging.getLogger("kstreamnb.query")
_LOG.addHandler(logging.NullHandler())


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
        _LOG.log(level, "%s: %s%s", self.application, event, f" ({text})" if text else "", extra={"fields": everything})


class JsonLines(logging.Formatter):
    """Log records as one JSON object a line: time (ms), level, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        fields = getattr(record, "fields", {"event": record.getMessage()})
        return json.dumps({"at_ms": int(record.created * 1000), "level": record.levelname, **fields}, default=str)


def log_to(path: Path | str) -> logging.Handler:
    """Append the log of all queries of this process to a file, one JSON object per line.

    Args:
        path: the file; a new one is created if it was moved away, as logrotate does.

    Returns:
        The handler; ``logging.getLogger("kstreamnb.query").removeHandler(handler)`` ends the logging.

    Example:
        >>> handler = log_to("queries.jsonl")
        >>> logging.getLogger("kstreamnb.query").removeHandler(handler)
    """
    check_arguments(log_to, locals())
    handler = WatchedFileHandler(path, encoding="utf-8", delay=True)  # logrotate may move the file
    handler.setFormatter(JsonLines())
    _LOG.addHandler(handler)
    if not _LOG.isEnabledFor(logging.INFO):
        _LOG.setLevel(logging.INFO)
    return handler
