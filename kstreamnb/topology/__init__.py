"""The topology: frozen nodes, every check that building makes, sub-topologies, descriptions, partitions and tasks."""

from kstreamnb.topology.description import (
    DescribedNode,
    DescribedStore,
    DescribedSubtopology,
    DescribedTopic,
    TopologyDescription,
)
from kstreamnb.topology.grouping import Subtopology
from kstreamnb.topology.internal_topics import OwnedTopic, changelog_topic, repartition_topic
from kstreamnb.topology.nodes import InternalTopic, Node, ProcessorNode, Sink, Source
from kstreamnb.topology.partitions import PlannedTask, check_fixed_partitions, partition_counts, source_topics
from kstreamnb.topology.topology import Topology

__all__ = [
    "DescribedNode", "DescribedStore", "DescribedSubtopology", "DescribedTopic", "InternalTopic", "Node",
    "OwnedTopic", "PlannedTask", "ProcessorNode", "Sink", "Source", "Subtopology", "Topology",
    "TopologyDescription", "changelog_topic", "check_fixed_partitions", "partition_counts", "repartition_topic",
    "source_topics",
]  # fmt: skip
