"""Converts a record to bytes, applies the user's partitioner, and reports the delivery, for all producers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeAlias

from kstreamnb.background import report
from kstreamnb.core.codec import StreamPartitioner, to_bytes
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.errors import PartitionError, SerdeError

Content: TypeAlias = tuple[bytes | None, bytes | None]
"""Bytes of a key and of a value."""

DeliveryCallback: TypeAlias = Callable[[TopicRecord | None, Exception | None], None]
"""``delivered(record, error)``: the record with its partition and offset, or the error."""


def record_bytes(topic: str, key: object, value: object, key_serde: Serde, value_serde: Serde) -> Content:
    """Convert key and value to bytes; raises SerdeError that names the side which its serde cannot write.

    Example:
        >>> from kstreamnb import Serdes
        >>> record_bytes("orders", "shoe", 2, Serdes.string(), Serdes.json())
        (b'shoe', b'2')
        >>> try:
        ...     record_bytes("orders", "shoe", 2, Serdes.long(), Serdes.json())
        ... except SerdeError as error:
        ...     print(error)
        key of a record for topic "orders": serde "long" cannot write a value of type "str"
    """
    data = []
    for side, serde, content in (("key", key_serde, key), ("value", value_serde, value)):
        try:
            data.append(to_bytes(serde, content))
        except SerdeError as error:
            message = f'{side} of a record for topic "{topic}": {error.message}'
            raise SerdeError(message, detail=error.detail, hint=error.hint) from error
    return data[0], data[1]


def checked_partition(partitioner: StreamPartitioner, topic: str, key: object, value: object, count: int) -> int | None:
    """Return the partition that a strategy chooses, None to let the key choose; raise PartitionError out of range."""
    chosen = partitioner(topic, key, value, count)
    if chosen is None:
        return None
    if not isinstance(chosen, int) or not 0 <= chosen < count:
        fact = f'the partitioner chose partition {chosen} of topic "{topic}"'
        detail = f"it has {count} partitions, from 0 to {count - 1}"
        raise PartitionError(fact, detail=detail, hint="choose exactly one partition, or None to let the key choose")
    return chosen


def complete(future: Future[TopicRecord], outcome: TopicRecord | Exception, delivered: DeliveryCallback | None) -> None:
    """Report to a future and a callback that a record was delivered, or why it was not; log the callback's error."""
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
    if delivered is not None:
        try:
            delivered(*((None, outcome) if isinstance(outcome, Exception) else (outcome, None)))
        except Exception:  # the client would keep it, and with it the producer
            report("a delivery callback failed")


class RoundRobin:
    """Sends each record without a key to the next partition of its topic; keys choose theirs as usual.

    Example:
        >>> spread = RoundRobin()
        >>> [spread("logs", None, line, 3) for line in range(4)], spread("logs", "k", 4, 3)
        ([0, 1, 2, 0], None)
    """

    def __init__(self) -> None:
        self._sent: dict[str, int] = {}

    def __call__(self, topic: str, key: object, value: object, partitions: int, /) -> int | None:
        """Return the next partition, None for a record with a key."""
        if key is not None:
            return None
        sent = self._sent.get(topic, 0)
        self._sent[topic] = sent + 1
        return sent % partitions
