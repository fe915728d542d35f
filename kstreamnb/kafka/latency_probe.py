"""How old records are when a consumer with isolation level read_committed receives them: measures the latency
benchmark.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer

from kstreamnb.kafka.client import Servers, client, connection


class LatencyProbe:
    """Reads a topic in the background; ``latencies_ms`` has the time from each record's timestamp to its arrival."""

    def __init__(self, servers: Servers, topic: str) -> None:
        self.latencies_ms: list[float] = []
        self._settings = connection(
            servers, group_id=f"{topic}-listener", isolation_level="read_committed", auto_offset_reset="earliest"
        )
        self._settings["fetch.wait.max.ms"] = 5
        self._topic, self._closing = topic, threading.Event()
        self._thread = threading.Thread(target=self._listen, name=f"latency probe of {topic}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join()

    def _listen(self) -> None:
        consumer = client(Consumer, self._settings)
        consumer.subscribe([self._topic])
        while not self._closing.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.latencies_ms.append(time.time() * 1000 - message.timestamp()[1])  # noqa: TID251 - ages are measured
        consumer.close()
