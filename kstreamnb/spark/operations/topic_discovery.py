"""Which topics of the cluster an application reads, and what happens when new ones match its patterns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kstreamnb.errors import EngineError, KStreamError, UnknownTopicError, unknown
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.spark.io.offset_source import KafkaOffsetSource
from kstreamnb.spark.planning.deployment import Application
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from kstreamnb.spark.query.query import Query
from kstreamnb.spark.state.checkpoint_manifest import Manifest, check_compatible, manifest_of, write_manifest
from kstreamnb.topology.topology import Topology

if TYPE_CHECKING:  # Kafka's client is loaded by who connects
    from kstreamnb.kafka.admin import Admin

__all__ = ["TopicDiscovery", "placed_on"]


class TopicDiscovery:
    """Looks for new topics that match a query's patterns, and has the query go on with them.

    The query stops between two batches and starts again from its checkpoint; new topics are read from their beginning.
    Topics that would give a sub-topology other tasks than its state has end the query, with the reason.
    Units: ``every_ms`` is ms between two looks.
    """

    def __init__(
        self,
        query: Query,
        settings: Config,
        admin: Admin,
        every_ms: int,
        *,
        old: Manifest,
        source: KafkaOffsetSource,
    ) -> None:
        self._query, self._settings, self._admin, self._every_s = query, settings, admin, every_ms / 1000
        self._manifest, self._source = old, source

    def __call__(self, lasts: Callable[[], bool]) -> None:
        """Look as long as one start of the query lasts."""
        pause = threading.Event()
        while not pause.wait(self._every_s) and lasts() and self._query.is_active():
            try:
                there = self._admin.topics()
            except EngineError:
                continue  # a broker that is away tells nothing; the query itself is patient for so long
            try:
                self.look(there)
            except KStreamError as error:
                self._query.fail(error)
                return

    def look(self, there: Mapping[str, int]) -> bool:
        """Go on with the topics that are there now; says whether there were new ones."""
        application = placed_on(self._query.topology, self._settings, there)
        if set(application.external) <= set(self._source.topics):
            return False
        deployment = plan_deployment(
            self._manifest.query,
            [application],
            self._manifest.spark_partitions,
            options=self._query.deployment.options,
            known_keys=self._manifest.groups,
        )
        manifest = manifest_of(deployment)
        check_compatible(self._manifest, manifest)
        self._manifest = replace(manifest, topic_ids=self._manifest.topic_ids)
        self._source = replace(self._source, topics=application.external, _reader=None)
        write_manifest(self._query.checkpoint, self._manifest)
        self._query.restart(deployment=deployment, source=self._source, takes_over=False)
        return True


def placed_on(topology: Topology, settings: Config, there: Mapping[str, int]) -> Application:
    """The application over the topics of the cluster; refuses input topics that do not exist."""
    name = TaskPlan(topology, (), config=settings).application_id
    own = {f"{name}-{internal}" for internal in topology.internal_topics} | {f"{name}-commits"}
    for source in topology.sources():
        for topic in source.topics:
            if topic not in there and topic not in topology.internal_topics:
                others = sorted(set(there) - own - {name for name in there if name.startswith("__")})
                raise unknown(
                    "input topic",
                    topic,
                    others,
                    error=UnknownTopicError,
                    detail=f"source {source.name}; the cluster has {', '.join(others) or 'no topics'}",
                    hint="create it with enough partitions; topics that this user cannot READ are not listed",
                    origin=source.origin,
                )
    return plan_application(
        topology, settings, {topic: n for topic, n in there.items() if topic not in own}, direct=False
    )
