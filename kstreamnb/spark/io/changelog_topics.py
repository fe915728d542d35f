"""Changelog topics of a deployment: the ones that Kafka Streams would keep, with the same bytes.

Tasks write them with each batch. The kit itself never reads them, for its state is in the checkpoint: Kafka Streams can
restore its stores from them, and other applications can read the tables as compacted topics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.topology.partitions import OwnedTopic, owned_topics

if TYPE_CHECKING:  # Kafka's client is loaded by connections alone
    from kstreamnb.kafka.admin import Admin


def changelog_topics(deployment: Deployment) -> tuple[OwnedTopic, ...]:
    """Return the changelog topics that must exist, with their settings."""
    application = deployment.application
    owned = owned_topics(application.topology, application.id, application.partitions)
    return tuple(topic for topic in owned if topic.kind == "changelog")


def create_owned(admin: Admin, topics: Iterable[OwnedTopic], replicas: int) -> None:
    """Create internal topics that do not exist yet; -1 replicas is the broker's default."""
    for topic in topics:
        count, config = topic.partitions or 1, dict(topic.config)
        admin.create_topic(topic.name, partitions=count, replicas=replicas, config=config, exists_ok=True)
