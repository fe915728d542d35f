"""A topic as a test writes to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from kstreamnb.core.record import Headers, Record, TopicRecord
from kstreamnb.core.time import duration_ms, format_duration, instant_ms
from kstreamnb.errors import ConfigError

__all__ = ["InputTopic"]

Instant: TypeAlias = "datetime | str | int"
Write = Callable[[list[TopicRecord]], None]

_MISSING: Any = object()


class InputTopic:
    """Pipes records into one topic; each call runs the application until nothing is left to do.

    The topic has a clock of its own: a record without a time gets its present time, and then the clock moves on by
    ``auto_advance``. A record with a time of its own does not move it.
    """

    def __init__(self, topic: str, write: Write, now_ms: int, advance_ms: int) -> None:
        if advance_ms < 0:
            java = "autoAdvance must be positive"
            raise ConfigError(f"records cannot follow each other by {advance_ms} ms", java=java)
        self.topic = topic
        self._write, self._now_ms, self._advance_ms = write, now_ms, advance_ms

    def pipe_input(
        self,
        key: Any,
        value: Any = _MISSING,
        *,
        at: Instant | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Pipe one record: ``(key, value)``, only a value, or a `Record` or `TopicRecord`.

        Example:
            >>> topic.pipe_input("shoe", {"quantity": 1}, at="2026-01-01T09:00Z")  # doctest: +SKIP
        """
        if value is _MISSING and isinstance(key, (Record, TopicRecord)):
            said = [
                name
                for name, given in (("at", at), ("partition", partition), ("headers", headers or None))
                if given is not None
            ]
            if said:
                hint = "a record has them itself: change the record, or give key and value"
                raise ConfigError(
                    f"a record is piped as it is, so {' and '.join(said)} would change nothing", hint=hint
                )
            self._write([self._record(key)])
            return
        if value is _MISSING:
            key, value = None, key
        timestamp = self._tick() if at is None else _instant(at)
        self._write([TopicRecord(self.topic, _place(partition), -1, timestamp, key, value, tuple(headers))])

    def pipe_record_list(self, records: Iterable[Any]) -> None:
        """Pipe records: `Record`, `TopicRecord`, or tuples ``(key, value)`` and ``(key, value, time)``."""
        self._write([self._record(record) for record in records])

    def pipe_key_value_list(
        self,
        pairs: Iterable[tuple[Any, Any]],
        *,
        start: Instant | None = None,
        advance: timedelta | str | None = None,
    ) -> None:
        """Pipe ``(key, value)`` pairs, from ``start`` on ``advance`` apart, or by the topic's clock.

        Raises: ConfigError for ``advance`` without ``start``: the topic's clock has an advance of its own.
        """
        if start is None:
            if advance is not None:
                hint = "say start= as well, or auto_advance= when the topic is created"
                raise ConfigError(f'advance "{advance}" between records has no start', hint=hint)
            for key, value in pairs:
                self.pipe_input(key, value)
            return
        at, step = _instant(start), 0 if advance is None else duration_ms(advance, "advance between records")
        for number, (key, value) in enumerate(pairs):
            self.pipe_input(key, value, at=at + number * step)

    def pipe_value_list(
        self, values: Iterable[Any], *, start: Instant | None = None, advance: timedelta | str | None = None
    ) -> None:
        """Pipe values without keys, from ``start`` on ``advance`` apart, or by the topic's clock."""
        self.pipe_key_value_list([(None, value) for value in values], start=start, advance=advance)

    def advance_time(self, by: timedelta | str) -> None:
        """Move the topic's clock on."""
        step = duration_ms(by, "advance of the topic's clock")
        if step < 0:
            raise ConfigError(f"the topic's clock cannot go back by {format_duration(-step)}", java=_NEGATIVE)
        self._now_ms += step

    def _tick(self) -> int:
        now = self._now_ms
        self._now_ms = now + self._advance_ms
        return now

    def _record(self, record: Any) -> TopicRecord:
        if isinstance(record, TopicRecord):
            return record._replace(topic=self.topic)
        key, value, *rest = record
        timestamp = _instant(rest[0]) if rest else self._tick()
        headers = tuple(rest[1]) if len(rest) > 1 else ()
        return TopicRecord(self.topic, -1, -1, timestamp, key, value, headers)


_NEGATIVE = "advance must be positive"


def _place(partition: int | None) -> int:
    return -1 if partition is None else partition


def _instant(at: Instant) -> int:
    return at if type(at) is int else instant_ms(at, "time of a record")
