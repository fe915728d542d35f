"""Output topics of an application, and the serdes with which it writes them."""

from __future__ import annotations

from kstreamnb.core.serde import Serde
from kstreamnb.runtime.codegen.sinks import topic_serdes
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.spark.planning.deployment import ApplicationPlan
from kstreamnb.topology.nodes import Sink
from kstreamnb.topology.topology import Topology


def writer_serdes(application: ApplicationPlan, topic: str) -> tuple[Serde, Serde]:
    """Return key and value serde of a topic: of the first sink that writes it, of one that chooses, or the defaults."""
    topology = application.topology
    whole = TaskPlan(topology, (), config=application.config)
    for group in topology.subtopologies():
        found = topic_serdes(whole, group.nodes).get(topic)
        if found is not None:
            return found
    sinks = [node for node in topology.nodes.values() if isinstance(node, Sink)]
    named = [sink for sink in sinks if isinstance(sink.topic, str) and whole.topic(sink.topic) == topic]
    chosen = next(iter([*named, *(sink for sink in sinks if not isinstance(sink.topic, str))]), None)
    key_serde = None if chosen is None else chosen.key_serde
    value_serde = None if chosen is None else chosen.value_serde
    return whole.key_serde(key_serde), whole.value_serde(value_serde)


def output_topics(topology: Topology) -> tuple[str, ...]:
    """Return the user's topics that sinks name; others are chosen for each record."""
    sinks = [node.topic for node in topology.nodes.values() if isinstance(node, Sink) and isinstance(node.topic, str)]
    return tuple(sorted({topic for topic in sinks if topic not in topology.internal_topics}))
