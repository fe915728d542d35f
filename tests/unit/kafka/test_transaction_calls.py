"""Calls of the transaction protocol that fail because no broker answers."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from kstreamnb.kafka.transaction_end import repeat_call


def test_a_call_that_fails_at_once_is_repeated_with_pauses() -> None:
    """Some calls return immediately while the broker is away: repeating them must not occupy a core."""
    attempts = []

    def send_offsets() -> None:
        attempts.append(1)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "no coordinator", retriable=True))

    with pytest.raises(KafkaException):
        repeat_call(send_offsets, patience_s=0.3)
    assert 2 <= len(attempts) <= 8


def test_a_call_that_is_final_is_not_repeated() -> None:
    attempts = []

    def commit() -> None:
        attempts.append(1)
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))

    with pytest.raises(KafkaException):
        repeat_call(commit, patience_s=5)
    assert 1 == len(attempts)
