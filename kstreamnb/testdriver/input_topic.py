"""`InputTopic`: pipes the records of a test into one topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from kstreamnb.core.arguments import expect
from kstreamnb.core.record import AnyHeaders, Record, TopicRecord, headers_of
from kstreamnb.core.time import Duration, Instant, duration_ms, format_duration, instant_ms
from kstreamnb.errors import ConfigError
from kstreamnb.suggesting import Suggesting

Write: TypeAlias = Callable[[list[TopicRecord]], None]

_NEGATIVE = "advance must be positive"


class InputTopic(Suggesting):
    """Pipes records into one topic; each call runs the application until all records are processed.

    The topic has a clock. A record without a time gets the clock's time, and the clock then advances by
    ``auto_advance``; a record with a time does not advance it. Create input topics with ``create_input_topic``.
    """

    def __init__(
        self, topic: str, write: Write, now_ms: int, start: Instant | None, auto_advance: Duration | None
    ) -> None:
        self.topic, self._write = topic, write
        self._now_ms = now_ms if start is None else instant_ms(start, "start")
        self._advance_ms = 0 if auto_advance is None else duration_ms(auto_advance, "advance between records")
        if self._advance_ms < 0:
            java = "autoAdvance must be positive"
            raise ConfigError(f"auto_advance must not be negative, got {self._advance_ms} ms", java=java)

    def __repr__(self) -> str:
        return f'<InputTopic "{self.topic}">'

    def pipe_input(
        self,
        key: object,
        value: object = ...,
        at: Instant | None = None,
        *,
        headers: AnyHeaders = (),
        partition: int | None = None,
    ) -> None:
        """Pipe one record.

        Args:
            key: the key; if it is the only argument, the value of a record without a key, or a `Record` or
                `TopicRecord`.
            value: the value. Default: the record has no key, and ``key`` is its value.
            at: the time of the record: epoch milliseconds, ISO text or an aware datetime. Default: the topic's clock.
            headers: pairs of a name and bytes, or a mapping. Default: none.
            partition: the partition. Default: the one that the key chooses.

        Raises:
            ConfigError: an argument is not valid, or a `Record` is piped together with a time, headers or a partition.

        Example:
            >>> from kstreamnb import StreamsBuilder, TopologyTestDriver
            >>> builder = StreamsBuilder("shop")
            >>> builder.stream("orders").to("copies")
            >>> driver = TopologyTestDriver(builder.build())
            >>> driver.create_input_topic("orders").pipe_input("shoe", {"quantity": 1}, at="2026-01-01T09:00Z")
            >>> driver.create_output_topic("copies").read_value()
            {'quantity': 1}
        """
        if not (partition is None or type(partition) is int):
            raise ConfigError(f'partition must be an integer, got "{partition}"')
        if value is ... and isinstance(key, (Record, TopicRecord)):
            arguments = {"at": at, "partition": partition, "headers": headers or None}
            ignored = [name for name, argument in arguments.items() if argument is not None]
            if ignored:
                fact = f"{' and '.join(ignored)} would be ignored: a record is piped unchanged"
                raise ConfigError(fact, hint="change the record, or pass key and value instead")
            self._write([self._record(key)])
            return
        if value is ...:
            key, value = None, key
        timestamp = self._tick() if at is None else _instant(at)
        position = self.topic, -1 if partition is None else partition, -1
        self._write([TopicRecord(*position, timestamp, key, value, headers_of(headers))])

    def pipe_record_list(self, records: Iterable[Record[Any, Any] | TopicRecord | Sequence[Any]]) -> None:
        """Pipe records: `Record`, `TopicRecord`, or tuples ``(key, value)`` and ``(key, value, time)``.

        Args:
            records: the records; those without a time get the topic's clock.
        """
        expect(records, Iterable, "records")
        self._write([self._record(record) for record in records])

    def pipe_key_value_list(
        self, pairs: Iterable[tuple[object, object]], start: Instant | None = None, advance: Duration | None = None
    ) -> None:
        """Pipe ``(key, value)`` pairs.

        Args:
            pairs: the keys and values.
            start: the time of the first record: epoch milliseconds, ISO text or an aware datetime. Default: the
                topic's clock gives the times.
            advance: the duration between two records. Default: none.

        Raises:
            ConfigError: ``advance`` is given without ``start``: the topic's clock advances by ``auto_advance``.
        """
        expect(pairs, Iterable, "pairs", hint='write for example [("key", "value")]')
        pairs = [_pair(pair) for pair in pairs]
        if start is None:
            if advance is not None:
                hint = "pass start= as well, or create the topic with auto_advance="
                raise ConfigError(f'advance "{advance}" needs a start', hint=hint)
            for key, value in pairs:
                self.pipe_input(key, value)
            return
        at, step = _instant(start), 0 if advance is None else duration_ms(advance, "advance between records")
        for number, (key, value) in enumerate(pairs):
            self.pipe_input(key, value, at=at + number * step)

    def pipe_value_list(
        self, values: Iterable[object], start: Instant | None = None, advance: Duration | None = None
    ) -> None:
        """Pipe values without keys.

        Args:
            values: the values, each a record.
            start: the time of the first record. Default: the topic's clock.
            advance: the time between two records. Default: the topic's ``auto_advance``.
        """
        expect(values, Iterable, "values")
        self.pipe_key_value_list([(None, value) for value in values], start=start, advance=advance)

    def advance_time(self, by: Duration) -> None:
        """Advance the topic's clock by a duration.

        Args:
            by: a duration such as "5m".
        """
        step = duration_ms(by, "advance of the topic's clock")
        if step < 0:
            fact = f"expected a duration that is not negative, got -{format_duration(-step)}"
            raise ConfigError(fact, java=_NEGATIVE)
        self._now_ms += step

    def _tick(self) -> int:
        now = self._now_ms
        self._now_ms = now + self._advance_ms
        return now

    def _record(self, record: Any) -> TopicRecord:
        if isinstance(record, TopicRecord):
            return record._replace(topic=self.topic, headers=headers_of(record.headers))
        expect(record, tuple | list, "each record")
        if not 2 <= len(record) <= 4:
            raise ConfigError(f"a record has {len(record)} fields", hint="give (key, value[, time[, headers]])")
        key, value, *rest = record
        timestamp = _instant(rest[0]) if rest and rest[0] is not None else self._tick()
        headers = headers_of(rest[1]) if len(rest) > 1 else ()
        return TopicRecord(self.topic, -1, -1, timestamp, key, value, headers)


def _pair(pair: object) -> tuple[Any, Any]:
    """Return a key and a value; raise ConfigError for anything else."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ConfigError(f"expected a pair (key, value), got {pair!r:.80}")
    return pair[0], pair[1]


def _instant(at: Instant) -> int:
    return instant_ms(at, "time of a record")
