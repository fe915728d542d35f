"""What a program logs, as JSON records in a topic: a handler for Python's ``logging``."""

from __future__ import annotations

import logging
from typing import Any, Literal, Protocol

from kstreamnb.topology.java_order import java_hash

__all__ = ["KafkaLogHandler"]


class Sender(Protocol):
    """What the handler needs of a `RecordProducer`."""

    def send(self, topic: str, key: Any, value: Any, *, timestamp: int | None = None) -> Any:
        """Send a record; gives a future, or None."""


class KafkaLogHandler(logging.Handler):
    """Sends each log call as one JSON object to a topic; an error of the broker never reaches who logs.

    Fields are those of common appenders: ``appName``, ``appVersion``, ``logger_name``, ``level``, ``thread_name``,
    ``message`` and ``timestamp`` (ms), with ``exception`` where there was one.

    Args:
        producer: a `RecordProducer`, with ``key_serde=Serdes.bytes()``.
        topic: where to.
        app_name: who logs.
        app_version: which of its versions.
        key: "none" spreads records over partitions; "thread" keeps those of a thread in one, in order.
        delivery: "sync" waits for the broker at each call.

    Example:
        >>> class Printer:
        ...     def send(self, topic, key, value, *, timestamp=None):
        ...         print(topic, key, value["logger_name"], value["message"])
        >>> log = logging.getLogger("shop.basket")
        >>> handler = KafkaLogHandler(Printer(), app_name="shop", app_version="1.0")
        >>> log.addHandler(handler)
        >>> log.warning("%s items", 3)
        logs None shop.basket 3 items
        >>> log.removeHandler(handler)
    """

    def __init__(
        self,
        producer: Sender,
        topic: str = "logs",
        *,
        app_name: str,
        app_version: str,
        key: Literal["none", "thread"] = "none",
        delivery: Literal["async", "sync"] = "async",
        level: int = logging.NOTSET,
    ) -> None:
        super().__init__(level)
        self.producer, self.topic = producer, topic
        self.app_name, self.app_version = app_name, app_version
        self._by_thread, self._waits = key == "thread", delivery == "sync"

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record."""
        try:
            at_ms = int(record.created * 1000)
            thread = record.threadName or ""
            value = {
                "appName": self.app_name,
                "appVersion": self.app_version,
                "logger_name": record.name,
                "level": record.levelname,
                "thread_name": thread,
                "message": record.getMessage(),
                "timestamp": at_ms,
            }
            if record.exc_info:
                value["exception"] = logging.Formatter().formatException(record.exc_info)
            key = java_hash(thread).to_bytes(4, "big") if self._by_thread else None
            sent = self.producer.send(self.topic, key, value, timestamp=at_ms)
            if self._waits and sent is not None:
                sent.result()
        except Exception:  # logging's own way: it is told on stderr, and the program goes on
            self.handleError(record)
