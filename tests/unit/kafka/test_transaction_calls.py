"""Calls of the transaction protocol that fail because no broker answers."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import suppress

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from kstreamnb.kafka import transaction_end
from kstreamnb.kafka.client import LOG
from kstreamnb.kafka.transaction_end import call_within, repeat_call


def test_a_call_that_fails_at_once_is_repeated_with_pauses() -> None:
    """Some calls return immediately while the broker is away: repeating them must not occupy a core."""
    attempts = []

    def send_offsets() -> None:
        attempts.append(1)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "no coordinator", retriable=True))

    with pytest.raises(KafkaException):
        repeat_call(send_offsets, patience_s=0.3)
    assert 2 <= len(attempts) <= 8


def test_calls_of_a_producer_that_is_cut_off_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer never connects again, so that waiting for its answers is of no use."""
    monkeypatch.setattr(transaction_end, "_LOOK_S", 0.0)
    answer, looks = threading.Event(), [False, True, False, True]

    def commit() -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "timed out", retriable=True))

    with pytest.raises(KafkaException, match="timed out"):
        repeat_call(commit, cut_off=lambda: looks.pop(0))
    assert [False, True] == looks
    with pytest.raises(KafkaException, match="no answer"):
        call_within(600, answer.wait, closing=threading.Event(), cut_off=lambda: looks.pop(0))
    assert [] == looks
    answer.set()


def test_a_call_that_is_final_is_not_repeated() -> None:
    attempts = []

    def commit() -> None:
        attempts.append(1)
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))

    with pytest.raises(KafkaException):
        repeat_call(commit, patience_s=5)
    assert 1 == len(attempts)


def test_a_call_that_never_ends_is_given_up() -> None:
    """After its time, or at once if the writer is closed; its thread stays until the call ends."""
    answer, closing = threading.Event(), threading.Event()
    with pytest.raises(KafkaException, match=r"no answer within 0\.1 s"):
        call_within(0.1, answer.wait, closing=closing)
    closing.set()
    with pytest.raises(KafkaException, match="no answer within 600 s"):
        call_within(600, answer.wait, closing=closing)
    answer.set()


def test_a_call_behind_records_has_time_from_the_last_acknowledgement() -> None:
    """A broker that limits the rate of a client answers after them."""
    answer, waiting = threading.Event(), [5, 4, 3, 2, 1, 0]

    def left() -> int:
        if not waiting:
            answer.set()
        return waiting.pop(0) if waiting else 0

    call_within(0.5, answer.wait, closing=threading.Event(), waiting=left)
    assert answer.is_set()


def test_a_failure_does_not_keep_what_its_call_referred_to() -> None:
    """An error of librdkafka's client within the handler of another one would keep that one, and the producer."""
    producer = Producer({"bootstrap.servers": "127.0.0.1:9", "transactional.id": "t", "logger": LOG})
    kept = []

    def cut_off() -> bool:
        with suppress(KafkaException):
            producer.list_topics("t", timeout=0.1)
        return True

    def failed() -> None:
        try:
            repeat_call(producer.init_transactions, 0.1, cut_off=cut_off)
        except KafkaException as error:
            kept.append(weakref.ref(error))

    failed()
    gc.collect()
    assert [None] == [each() for each in kept]


def test_a_call_that_ends_in_time_has_its_own_error() -> None:
    def fenced() -> None:
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))

    call_within(60, lambda: None, closing=threading.Event())
    with pytest.raises(KafkaException, match="fenced"):
        call_within(60, fenced, closing=threading.Event())
