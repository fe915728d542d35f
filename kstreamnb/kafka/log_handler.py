"""A handler for Python's ``logging`` that sends log records to a topic as JSON."""

from __future__ import annotations

import inspect
import logging
import time
from concurrent.futures import Future
from datetime import timedelta
from typing import Literal, Protocol, runtime_checkable

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.time import duration_ms
from kstreamnb.topology.java_order import java_hash


@runtime_checkable
class Sender(Protocol):
    """The method of a `RecordProducer` that the handler calls; one without ``max_block`` is accepted too."""

    def send(
        self, topic: str, key: bytes | None, value: dict[str, object], *, timestamp: int | None = None
    ) -> Future[object] | None:
        """Send a record; return a future, or None."""


class KafkaLogHandler(logging.Handler):
    """Sends each log call as one JSON object to a topic; errors of the broker never reach the program that logs.

    Fields are those of common appenders: ``appName``, ``appVersion``, ``logger_name``, ``level``, ``thread_name``,
    ``message`` and ``timestamp`` (ms), and ``exception`` if there was one. What cannot be sent in time is reported on
    stderr, as logging does.

    Args:
        producer: a `RecordProducer`, with ``key_serde=Serdes.bytes()``.
        topic: the topic; default "logs".
        app_name: name of the program.
        app_version: version of the program.
        key: "none" (default) spreads records over partitions; "thread" keeps those of a thread in one, in order.
        delivery: "sync" waits for the broker at each call; default "async".
        max_block: how long a log call may wait, for room in the buffer and, if "sync", for the broker; by default
            100 ms, and 10 s if "sync".
        level: the lowest level that is sent; by default every level.

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
        max_block: timedelta | str | None = None,
        level: int = logging.NOTSET,
    ) -> None:
        check_arguments(KafkaLogHandler.__init__, locals())
        super().__init__(level)
        self.producer, self.topic = producer, topic
        self.app_name, self.app_version = app_name, app_version
        self._by_thread, self._waits = key == "thread", delivery == "sync"
        self._block_ms = duration_ms(max_block or ("10s" if self._waits else "100ms"), "longest wait of a log call")
        blocks = "max_block" in inspect.signature(producer.send).parameters
        self._limit = {"max_block": f"{self._block_ms}ms"} if blocks else {}

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record.

        Args:
            record: the record, from the logging package.
        """
        try:
            at_ms, end = int(record.created * 1000), time.monotonic() + self._block_ms / 1000
            thread = record.threadName or ""
            value: dict[str, object] = {
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
            sent = self.producer.send(self.topic, key, value, timestamp=at_ms, **self._limit)
            if self._waits and sent is not None:
                sent.result(max(0.0, end - time.monotonic()))
        except Exception:  # logging's own way: reported on stderr, and the program continues
            self.handleError(record)
