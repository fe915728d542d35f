"""What any producer does before a record leaves: its bytes, and the partition that a strategy of the user chooses."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.codec import StreamPartitioner, to_bytes
from kstreamnb.core.serde import Serde
from kstreamnb.errors import PartitionError, SerdeError

__all__ = ["RoundRobin", "checked_partition", "record_bytes"]


def record_bytes(
    topic: str, key: Any, value: Any, key_serde: Serde, value_serde: Serde
) -> tuple[bytes | None, bytes | None]:
    """Key and value in bytes; raises SerdeError that says which of them the topic's serde cannot write.

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
    found = []
    for side, serde, given in (("key", key_serde, key), ("value", value_serde, value)):
        try:
            found.append(to_bytes(serde, given))
        except SerdeError as error:
            said = f'{side} of a record for topic "{topic}": {error.message}'
            raise SerdeError(said, detail=error.detail, hint=error.hint) from error
    return found[0], found[1]


def checked_partition(partitioner: StreamPartitioner, topic: str, key: Any, value: Any, partitions: int) -> int | None:
    """Return the partition that a strategy chooses, None to let the key choose; raise PartitionError out of range."""
    chosen = partitioner(topic, key, value, partitions)
    if chosen is None:
        return None
    if not isinstance(chosen, int) or not 0 <= chosen < partitions:
        raise PartitionError(
            f'the partitioner chose partition {chosen} of topic "{topic}"',
            detail=f"it has {partitions} partitions, from 0 to {partitions - 1}",
            hint="a producer sends a record to one partition, or None lets the key choose",
        )
    return chosen


class RoundRobin:
    """Each record without a key to the next partition of its topic; keys choose theirs as always.

    Example:
        >>> spread = RoundRobin()
        >>> [spread("logs", None, line, 3) for line in range(4)], spread("logs", "k", 4, 3)
        ([0, 1, 2, 0], None)
    """

    def __init__(self) -> None:
        self._sent: dict[str, int] = {}

    def __call__(self, topic: str, key: Any, value: Any, partitions: int, /) -> int | None:
        """The next partition."""
        if key is not None:
            return None
        sent = self._sent.get(topic, 0)
        self._sent[topic] = sent + 1
        return sent % partitions
