"""Creates a topic in a simulated log or on a real cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kstreamnb.core.arguments import check_arguments
from kstreamnb.errors import ConfigError, extra
from kstreamnb.simulation.log.log import Log


@extra("kafka")
def create_topic(
    name: str,
    *,
    on: Log | str | Mapping[str, object],
    partitions: int = 1,
    replication_factor: int = 1,
    config: Mapping[str, object] | None = None,
) -> Any:
    """Create a topic and return its description.

    The example does what ``kafka-topics.sh --create --topic userLogins --partitions 4 --replication-factor 2`` does.

    Args:
        name: the topic's name.
        on: a `Log`, or a cluster: bootstrap servers as ``host:port,…``, or librdkafka's settings.
        partitions: the number of partitions; default 1.
        replication_factor: the number of replicas per partition; default 1.
        config: settings of the topic on a cluster, such as ``{"cleanup.policy": "compact"}``, as strings, numbers or
            bools; those in ms also as timedelta. Default: none.

    Raises: EngineError if the topic exists or has too few brokers; ConfigError for settings of a topic of a `Log`.

    Example:
        >>> print(create_topic("userLogins", on=Log(brokers=3), partitions=4, replication_factor=2))
        topic "userLogins": 4 partitions, 2 replicas
        partition    | leader | replicas | in sync | start | high watermark | end
        -------------+--------+----------+---------+-------+----------------+----
        userLogins-0 | 1      | 1, 2     | 1, 2    | 0     | 0              | 0
        userLogins-1 | 2      | 2, 3     | 2, 3    | 0     | 0              | 0
        userLogins-2 | 3      | 3, 1     | 3, 1    | 0     | 0              | 0
        userLogins-3 | 1      | 1, 2     | 1, 2    | 0     | 0              | 0
    """
    check_arguments(create_topic, locals())
    if isinstance(on, Log):
        if config:
            fact = f'topic "{name}" of a Log has no settings'
            raise ConfigError(fact, hint="leave config= out, or create the topic on a real cluster")
        on.create_topic(name, partitions=partitions, replicas=replication_factor)
        return on.describe(name)
    from kstreamnb.kafka.admin import Admin

    admin = Admin(on)
    admin.create_topic(name, partitions=partitions, replicas=replication_factor, config=config)
    return admin.describe(name)
