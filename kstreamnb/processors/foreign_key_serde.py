"""Serdes, keys and partitioners of a foreign-key join's internal topics and of its subscription store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext
from kstreamnb.core.serde import Serde, complete
from kstreamnb.errors import EngineError


def bound_key_serde(serde: Serde | None, context: BindContext) -> Serde:
    """A key serde in a task: the application's default where none was given."""
    default: Serde = context.key_serde()
    return complete(serde or default, default, context.value_serde())  # type: ignore[no-any-return]


def bound_value_serde(serde: Serde | None, context: BindContext) -> Serde:
    """A value serde in a task: the application's default where none was given."""
    default: Serde = context.value_serde()
    return complete(serde or default, context.key_serde(), default)  # type: ignore[no-any-return]


def subscription_prefix(foreign_key: bytes) -> bytes:
    """What the store keys of all subscriptions to a foreign key begin with; the primary key's bytes follow.

    Example:
        >>> subscription_prefix(b"ab").hex()
        '000000026162'
    """
    return len(foreign_key).to_bytes(4) + foreign_key


@dataclass(frozen=True)
class SubscriptionPartitioner:
    """Sends a subscription to where the right table has the key; ``partitioner`` is the right table's own."""

    partitioner: Callable[..., Any]

    def __call__(self, topic: str, key: Any, value: Any, partitions: int, /) -> Any:
        """The partition of a foreign key."""
        return _one(self.partitioner(topic, key, None, partitions))


@dataclass(frozen=True)
class ResponsePartitioner:
    """Sends an answer home: to the partition that subscribed, or by the left table's own ``partitioner``."""

    partitioner: Callable[..., Any] | None = None

    def __call__(self, topic: str, key: Any, value: Any, partitions: int, /) -> Any:
        """The partition of a primary key."""
        if self.partitioner is None:
            return value.primary_partition
        return _one(self.partitioner(topic, key, None, partitions))


def _one(chosen: Any) -> Any:
    """The partition that a user's partitioner chose; several or none make no sense for one row."""
    if chosen is None or isinstance(chosen, int):
        return chosen
    several = tuple(chosen)
    if len(several) == 1:
        return several[0]
    raise EngineError(
        f"a partitioner of a foreign-key join chose {len(several)} partitions for one key",
        hint="choose exactly one partition, or None for the default",
        java="The partitions returned by StreamPartitioner#partitions method when used for FK join should be"
        " a singleton set",
    )
