"""Measures how old records are when a consumer with isolation level read_committed receives them, for the latency
benchmark.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import closing
from typing import Literal, Self

from confluent_kafka import Consumer

from kstreamnb.background import background
from kstreamnb.errors import EngineError
from kstreamnb.hints import message_of
from kstreamnb.kafka.bounded_reader import at_end
from kstreamnb.kafka.client import Servers, client, codes, connection

_RETRIED = codes("retried")


class LatencyProbe:
    """Reads a topic in the background; ``latencies_ms`` has the time from each record's timestamp to its arrival.

    ``errors`` counts by name the errors that librdkafka retries; every other error of the consumer ends the reading.
    `check` and the end of the block raise an EngineError if reading failed.
    """

    def __init__(self, servers: Servers, topic: str, *, begin: Literal["earliest", "latest"] = "earliest") -> None:
        self.latencies_ms: list[float] = []
        self.errors: Counter[str] = Counter()
        self._settings = connection(
            servers, group_id=f"{topic}-listener", isolation_level="read_committed", auto_offset_reset=begin
        )
        self._servers = servers
        self._settings["fetch.wait.max.ms"] = 5
        self._topic, self._closing = topic, threading.Event()
        self._thread: threading.Thread | None = None
        self._failures: list[BaseException] = []

    def __enter__(self) -> Self:
        self._thread = background(self._listen, f"latency probe of {self._topic}", died=self._failures.append)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise the error that ended the reading, if there is one."""
        for error in self._failures:
            fact = f'the latency probe of topic "{self._topic}" failed'
            raise EngineError(fact, detail=message_of(error)) from error

    def _listen(self) -> None:
        with closing(client(Consumer, self._settings)) as consumer:
            consumer.subscribe([self._topic])
            while not self._closing.is_set():
                message = consumer.poll(0.05)
                if message is None:
                    continue
                error = message.error()
                if error is not None and error.code() in _RETRIED:
                    self.errors[error.name()] += 1
                elif not at_end(message, self._servers):
                    self.latencies_ms.append(time.time() * 1000 - message.timestamp()[1])  # noqa: TID251 - ages are measured
