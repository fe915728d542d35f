"""Changelog topics of a deployment: the ones that Kafka Streams would keep, with the same bytes.

Tasks write them with each batch. The kit itself never reads them, for its state is in the checkpoint: Kafka Streams can
restore its stores from them, and other applications can read the tables as compacted topics.
"""

from __future__ import annotations

from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.topology.partitions import OwnedTopic, owned_topics


def changelog_topics(deployment: Deployment) -> tuple[OwnedTopic, ...]:
    """Return the changelog topics that must exist, with their settings."""
    application = deployment.application
    owned = owned_topics(application.topology, application.id, application.partitions)
    return tuple(topic for topic in owned if topic.kind == "changelog")
