"""Topic discovery: the topics that an application reads, and new ones that match its patterns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kstreamnb.core.formatting import pluralize
from kstreamnb.errors import EngineError, KStreamError, UnknownTopicError, unknown
from kstreamnb.hints import nearest
from kstreamnb.kafka.output_batch import commits_topic
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.spark.io.offset_source import KafkaOffsetSource
from kstreamnb.spark.operations.application_topics import topics_for
from kstreamnb.spark.planning.deployment import ApplicationPlan
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from kstreamnb.spark.query.lifecycle import Actor, State
from kstreamnb.spark.query.query import Query
from kstreamnb.spark.state.checkpoint_manifest import Manifest, check_compatible, manifest_of, write_manifest
from kstreamnb.topology.topology import Topology

if TYPE_CHECKING:  # only `deploy` loads Kafka's client
    from kstreamnb.kafka.admin import Admin


class TopicDiscovery:
    """Restarts a query when new topics match its patterns, or its topics have new partitions and no task has state.

    They are read from their beginning. The query stops between two batches and starts from its checkpoint. Topics that
    would change the tasks of a sub-topology with state end the query. ``every_ms`` is the time between two polls, in
    ms.
    """

    def __init__(
        self, query: Query, settings: Config, admin: Admin, every_ms: int, *, old: Manifest, source: KafkaOffsetSource
    ) -> None:
        self._query, self._settings, self._admin, self._every_s = query, settings, admin, every_ms / 1000
        self._manifest, self._source = old, source

    def __call__(self, lasts: Callable[[], bool]) -> None:
        """Look for topics until the query ends or is started again."""
        pause = threading.Event()
        while not pause.wait(self._every_s) and lasts() and self._query.is_active():
            try:
                topics = topics_for(self._admin, self._query.topology, self._settings)
            except EngineError:
                continue  # the broker is away; the query itself waits for it
            try:
                self.look(topics)
            except UnknownTopicError:
                continue  # after an outage it may only be unknown yet: the topic watcher decides
            except KStreamError as error:
                self._query.control.end_with(error)
                return

    def look(self, topics: Mapping[str, int]) -> bool:
        """Restart the query if there is something new among the topics of the cluster; returns whether it did."""
        application = application_over(self._query.topology, self._settings, topics, self._manifest.split)
        known, grown = self._manifest.inputs, not self._query.deployment.stateful
        counts = ((topic, application.partitions[topic]) for topic in application.external)
        new = ((topic, count) for topic, count in counts if topic not in known or (grown and count > known[topic]))
        found = [f"{topic} has {pluralize(count, 'partition')}" for topic, count in new]
        if not found:
            return False
        before, options = self._manifest, self._query.deployment.options
        deployment = plan_deployment(
            before.query, [application], before.spark_partitions, options=options, known_keys=before.groups
        )
        manifest = manifest_of(deployment)
        check_compatible(self._manifest, manifest)
        if self._query.control.lifecycle.state not in (State.LAUNCHED, State.RUNNING):
            return False  # all this took long, and another deployment may follow the stop
        self._query.control.action.log.note("starts again", reason=", ".join(found))
        self._manifest = replace(manifest, topic_ids=self._manifest.topic_ids)
        self._source = replace(self._source, topics=application.external)
        write_manifest(self._query.control.files, self._manifest)
        return self._query.control.start(Actor.COMPANION, deployment=deployment, source=self._source)


def application_over(
    topology: Topology, settings: Config, topics: Mapping[str, int], split: Collection[str] | None = ()
) -> ApplicationPlan:
    """Return the application over the topics of a cluster, given with their numbers of partitions.

    ``split`` are the foreign-key joins to split, as for `plan_application`.

    Raises:
        UnknownTopicError: an input topic does not exist.
    """
    name = TaskPlan(topology, (), config=settings).application_id
    own = {f"{name}-{internal}" for internal in topology.internal_topics} | {commits_topic(name)}
    for source in topology.sources():
        for topic in source.topics:
            if topic not in topics and topic not in topology.internal_topics:
                planned = {sink.topic for sink in topology.sinks()}
                others = sorted(name for name in {*topics} - own - planned if not name.startswith("__"))
                detail = f"source {source.name} reads it; the cluster has {nearest(topic, others) or 'no topics'}"
                hint = "create it with ks.kafka.Admin; topics that this user cannot READ are not listed"
                kind, origin = UnknownTopicError, source.origin
                raise unknown("topic", topic, others, error=kind, detail=detail, hint=hint, origin=origin)
    known = {topic: n for topic, n in topics.items() if topic not in own}
    return plan_application(topology, settings, known, direct=False, split=split)
