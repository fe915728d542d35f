"""A producer without a broker: settings under Java's names, immediate errors, a full buffer."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

from kstreamnb.core.serdes import Serdes
from kstreamnb.errors import ApplicationStateError, BufferExhaustedError, EngineError, RecordRefusedError, SerdeError
from kstreamnb.kafka.client import connection
from kstreamnb.kafka.log_handler import KafkaLogHandler
from kstreamnb.kafka.producer import RecordProducer, flushed

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("java", "here"),
    [
        ({"batch.size": 16384}, {"batch.size": 16384}),
        ({"batch.size": 0}, {"batch.num.messages": 1}),
        ({"linger.ms": 5}, {"linger.ms": 5}),
        ({"buffer.memory": 33554432}, {"queue.buffering.max.kbytes": 32768}),
        ({"buffer.memory": "100"}, {"queue.buffering.max.kbytes": 1}),
        ({"delivery.timeout.ms": 120000}, {"delivery.timeout.ms": 120000}),
    ],
)
def test_javas_settings_of_batches_and_buffer_are_translated(java: dict[str, Any], here: dict[str, Any]) -> None:
    """S2-10: names and units of librdkafka; a producer accepts them all."""
    servers = {"bootstrap.servers": NOWHERE, **java}
    assert here == {name: value for name, value in connection(servers).items() if name in here}
    assert "<RecordProducer" in repr(RecordProducer(servers))


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("KEY-0", 1, 'key of a record for topic "my-topic": serde "long" cannot write a value of type "str"'),
        (0, "VALUE-0", 'value of a record for topic "my-topic": serde "long" cannot write a value of type "str"'),
    ],
)
def test_what_a_serde_cannot_write_is_refused_at_the_first_send(key: Any, value: Any, said: str) -> None:
    """S2-08, C-05: the error names key or value, serde and topic; nothing stays in the producer."""
    producer = RecordProducer(NOWHERE, key_serde=Serdes.long(), value_serde=Serdes.long())
    with pytest.raises(SerdeError) as raised:
        producer.send("my-topic", key, value)
    assert said == raised.value.message
    producer.flush()


def test_a_record_that_is_too_large_is_refused_with_an_error_of_the_kit() -> None:
    """Kafka's client refuses it before it asks a broker."""
    producer = RecordProducer({"bootstrap.servers": NOWHERE, "message.max.bytes": 1000})
    with pytest.raises(RecordRefusedError, match='sending to topic "my-topic" failed'):
        producer.send("my-topic", "k", "x" * 2000)


def test_without_a_broker_the_callback_is_told_within_the_delivery_timeout() -> None:
    """S2-09: called once, with an error and no record; the future raises the same."""
    told: list[Any] = []
    servers = {"bootstrap.servers": NOWHERE, "delivery.timeout.ms": 300, "linger.ms": 0}
    producer = RecordProducer(servers, patience_s=20)
    began = time.monotonic()
    future = producer.send("my-topic", "k", 1, delivered=lambda *outcome: told.append(outcome))
    producer.flush()
    assert time.monotonic() - began < 10, "far from a minute"
    ((record, error),) = told
    assert record is None
    assert isinstance(error, EngineError)
    assert error is future.exception()


def test_the_outcome_is_known_without_a_later_call() -> None:
    """A thread of the producer completes futures; it ends with the producer."""
    servers = {"bootstrap.servers": NOWHERE, "delivery.timeout.ms": 300, "linger.ms": 0}
    producer = RecordProducer(servers)
    outcomes: list[Any] = []
    future = producer.send("my-topic", "k", 1, delivered=lambda *outcome: outcomes.append(outcome))
    assert isinstance(future.exception(20), EngineError)
    poller = producer._poller
    assert poller is not None
    del producer
    poller.join(20)
    assert not poller.is_alive()
    assert 1 == len(outcomes)


@pytest.mark.parametrize("delivery", ["async", "sync"])
def test_a_log_call_takes_no_longer_than_it_may(delivery: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The buffer is full, or no broker answers: unsent records are reported on stderr."""
    servers = {"bootstrap.servers": NOWHERE, "buffer.memory": 1024, "delivery.timeout.ms": 60_000}
    producer = RecordProducer(servers, key_serde=Serdes.bytes())
    handler = KafkaLogHandler(producer, app_name="a", app_version="1", delivery=delivery, max_block="50ms")
    log = logging.Logger("away")
    log.addHandler(handler)
    began = time.monotonic()
    for _ in range(20):
        log.warning("x" * 200)
    assert time.monotonic() - began < 10, "20 calls of 50 ms, on a busy machine"
    assert ("BufferExhaustedError" in capsys.readouterr().err) or delivery == "sync"
    producer._producer.purge()


def test_a_full_buffer_blocks_as_long_as_it_may_and_raises() -> None:
    """S2-11: after 10 ms, plus or minus 20; earlier records are not lost silently: callbacks report each."""
    told: list[Any] = []
    servers = {"bootstrap.servers": NOWHERE, "buffer.memory": 1024, "delivery.timeout.ms": 1000, "linger.ms": 0}
    producer = RecordProducer(servers, max_block="10ms", patience_s=20)
    value, sent, waits = "x" * 400, 0, []
    while len(waits) < 8 or (min(waits) > 0.030 and len(waits) < 200):
        began = time.monotonic()
        try:
            producer.send("my-topic", None, value, delivered=lambda *outcome: told.append(outcome))
            sent += 1
        except BufferExhaustedError as error:
            waits.append(time.monotonic() - began)
            assert "wait, after 10ms" in str(error.detail)  # noqa: PT017
    assert 0.010 <= min(waits) <= 0.030, "a busy machine may take longer now and then, never always"
    assert sent >= 1
    producer.flush()
    assert sent == len(told)
    assert all(record is None and isinstance(error, EngineError) for record, error in told)


def test_a_callback_that_fails_keeps_no_other_future_waiting(caplog: pytest.LogCaptureFixture) -> None:
    """Its error is logged with its line, without a text that may quote the record; later futures are completed."""

    def fail(record: object, error: object) -> None:
        raise ValueError(f"cannot book {card}")

    card = "4111 1111"

    producer = RecordProducer({"bootstrap.servers": NOWHERE, "delivery.timeout.ms": 300, "linger.ms": 0})
    first = producer.send("my-topic", "k", 1, delivered=fail)
    assert isinstance(first.exception(20), EngineError)
    second = producer.send("my-topic", "k", 2)
    assert isinstance(second.exception(20), EngineError)
    assert [True] == [each.startswith("a delivery callback failed: ValueError\n") for each in caplog.messages]
    assert "4111" not in caplog.text
    assert 'raise ValueError(f"cannot book {card}")' in caplog.text


def test_a_callback_waits_for_nothing() -> None:
    """Its record counts as delivered only after it: flush, and a full buffer, are refused at once."""
    errors, done = list[Any](), threading.Event()
    servers = {"bootstrap.servers": NOWHERE, "buffer.memory": 1024, "delivery.timeout.ms": 300, "linger.ms": 0}
    producer = RecordProducer(servers)

    def delivered(record: object, error: object) -> None:
        began = time.monotonic()
        for call in (producer.flush, producer.__exit__, lambda: fill(producer)):
            try:
                call(*[None] * (call == producer.__exit__))
            except EngineError as refused:
                errors.append(refused)
        errors.append(time.monotonic() - began)
        done.set()

    producer.send("my-topic", "k", 1, delivered=delivered)
    assert done.wait(300)
    flush, leave, send, seconds = errors
    assert isinstance(flush, ApplicationStateError)
    assert "a delivery callback cannot flush" in flush.message
    assert str(leave) == str(flush)
    assert isinstance(send, BufferExhaustedError)
    assert str(send.detail).endswith("records wait, and a delivery callback cannot wait")
    assert seconds < 10, "not the minute that send and flush wait elsewhere"


def fill(producer: RecordProducer) -> None:
    """Send more than the buffer can hold."""
    for _ in range(20):
        producer.send("my-topic", None, "x" * 400)


class Waiting:
    """Records of librdkafka's producer whose outcomes come one by one, and then no more."""

    def __init__(self, outcomes: int, left: int) -> None:
        self._outcomes, self._left = outcomes, left

    def __len__(self) -> int:
        return self._outcomes + self._left

    def flush(self, timeout: float) -> int:
        """Wait for the next outcome, which takes a bit less time than the patience."""
        time.sleep(timeout * 0.6)
        self._outcomes = max(0, self._outcomes - 1)
        return len(self)


@pytest.mark.parametrize("left", [0, 1])
def test_a_flush_waits_for_records_that_a_quota_delays(left: int) -> None:
    """All of them take three times as long as the patience for the next one."""
    waiting: Any = Waiting(5, left)
    assert left == flushed(waiting, 0.1)
