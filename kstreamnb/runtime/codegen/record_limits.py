"""Records that Kafka would refuse: larger than ``max.request.size``, or with a time that the topic does not accept."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kstreamnb.core.formatting import format_time
from kstreamnb.core.record import Headers
from kstreamnb.core.time import Clock
from kstreamnb.errors import RecordRefusedError
from kstreamnb.runtime.context.config import Config, whole
from kstreamnb.state.codec import varint_size

TIME_LIMITS = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
_BATCH_OVERHEAD, _RECORD_OVERHEAD, _NULL_SIZE = 61, 21, 1


class RecordLimits(NamedTuple):
    """Limits of the records that an application writes to a topic; None if nothing is configured.

    Attributes:
        max_request_bytes: ``max.request.size`` of the producer.
        before_ms: how far a timestamp may be before the wall clock: ``topic.message.timestamp.before.max.ms``, or
            ``topic.NAME.message.timestamp.before.max.ms`` for one topic, which a deployment asks of its cluster.
        after_ms: how far it may be after it: ``….message.timestamp.after.max.ms``.
    """

    max_request_bytes: int | None
    before_ms: int | None
    after_ms: int | None

    @classmethod
    def of(cls, config: Config, topic: str) -> RecordLimits:
        """Return the limits that a config sets for a topic."""
        settings = {"max.request.size": config.client_settings("producer").get("max.request.size")}
        for name in TIME_LIMITS:
            settings[name] = config.others.get(f"topic.{topic}.{name}", config.others.get(f"topic.{name}"))
        return cls(*(None if value is None else whole(name, value) for name, value in settings.items()))

    @staticmethod
    def configured(config: Config) -> bool:
        """Return whether a config limits the records of any topic."""
        limited = any(name.startswith("topic.") and name.endswith(TIME_LIMITS) for name in config.others)
        return limited or "max.request.size" in config.client_settings("producer")

    def checker(self, clock: Clock) -> Callable[[str, int, bytes | None, bytes | None, Headers], None]:
        """Return ``check(topic, timestamp, key, value, headers)``, which raises RecordRefusedError."""
        most, before_ms, after_ms = self

        def check(topic: str, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers) -> None:
            if most is not None and (size := record_size(key, value, headers)) > most:
                fact = f'a record for topic "{topic}" has {size:,} bytes, max.request.size is {most:,}'
                hint = "write less into one record, or raise max.request.size and the topic's max.message.bytes"
                java = f"The message is {size} bytes when serialized which is larger than {most}"
                java = f"{java}, which is the value of the max.request.size configuration."
                raise RecordRefusedError(fact, hint=hint, java=java)
            ahead_ms = timestamp - clock.now_ms
            if (after_ms is not None and ahead_ms > after_ms) or (before_ms is not None and -ahead_ms > before_ms):
                fact = f'topic "{topic}" takes no record with the time {format_time(timestamp)}'
                hint = 'set "topic.message.timestamp.before.max.ms" and "…after.max.ms" to fit the data'
                raise RecordRefusedError(fact, detail=f"the wall clock shows {format_time(clock.now_ms)}", hint=hint)

        return check


def record_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the size of a record in bytes as Kafka's producer estimates it before compression.

    Example:
        >>> record_size(b"shoe", b"1", ())
        90
    """
    size = _BATCH_OVERHEAD + _RECORD_OVERHEAD + _sized(key) + _sized(value) + varint_size(len(headers))
    return size + sum(_sized(name.encode()) + _sized(data) for name, data in headers)


def _sized(data: bytes | None) -> int:
    return _NULL_SIZE if data is None else varint_size(len(data)) + len(data)
