"""What queries do, as log records with fields: ``logging.getLogger("kstreamnb.query")``.

Each record has a sentence for people and, as ``record.fields``, a dict for machines. `JsonLines` writes the latter.
Fields never hold keys, values or settings, so there is nothing secret in them.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from kstreamnb.errors import KStreamError, ProcessingError
from kstreamnb.spark.telemetry.metrics import BatchFigures

__all__ = ["JsonLines", "QueryLog", "log_to"]

_LOG = logging.getLogger("kstreamnb.query")
_LOG.addHandler(logging.NullHandler())


class QueryLog:
    """The log of one query."""

    def __init__(self, application: str, query: str) -> None:
        self.application, self.query = application, query

    def note(self, event: str, **fields: Any) -> None:
        """Something happened as it should."""
        self._write(logging.INFO, event, fields)

    def warn(self, event: str, **fields: Any) -> None:
        """Something happened that a person should know of."""
        self._write(logging.WARNING, event, fields)

    def batch(self, figures: BatchFigures) -> None:
        """A batch is done."""
        fields = figures._asdict()
        fields["seconds"] = round(figures.seconds, 6)
        fields["commit_seconds"] = round(figures.commit_seconds, 6)
        self._write(logging.INFO, "batch", fields)

    def failure(self, error: KStreamError) -> None:
        """The query ends with an error."""
        fields: dict[str, Any] = {"error": type(error).__name__, "message": error.message, "detail": error.detail}
        if isinstance(error, ProcessingError):
            fields |= {"node": error.node, "coordinates": error.coordinates}
        self._write(logging.ERROR, "failed", fields)

    def _write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        everything = {"event": event, "application": self.application, "query": self.query, **fields}
        text = ", ".join(f"{name} {value}" for name, value in fields.items() if value is not None)
        _LOG.log(level, "%s: %s%s", self.application, event, f" ({text})" if text else "", extra={"fields": everything})


class JsonLines(logging.Formatter):
    """Log records as one JSON object a line: time (ms), level, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields = getattr(record, "fields", {"event": record.getMessage()})
        return json.dumps({"at_ms": int(record.created * 1000), "level": record.levelname, **fields}, default=str)


def log_to(path: Path | str) -> logging.Handler:
    """Append what all queries of this process do to a file, one JSON object a line.

    The answer is the handler: ``logging.getLogger("kstreamnb.query").removeHandler(handler)`` ends it.

    Example:
        >>> handler = log_to("queries.jsonl")
        >>> logging.getLogger("kstreamnb.query").removeHandler(handler)
    """
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.setFormatter(JsonLines())
    _LOG.addHandler(handler)
    if not _LOG.isEnabledFor(logging.INFO):
        _LOG.setLevel(logging.INFO)
    return handler
