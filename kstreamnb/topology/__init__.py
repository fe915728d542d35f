"""The topology: frozen nodes, every check that building makes, sub-topologies, descriptions, partitions and tasks."""

from kstreamnb.topology.description import (
    DescribedNode,
    DescribedStore,
    DescribedSubtopology,
    DescribedTopic,
    TopologyDescription,
)
from kstreamnb.topology.diff import TopologyDiff, diff
from kstreamnb.topology.document import from_json, to_json
from kstreamnb.topology.grouping import Subtopology
from kstreamnb.topology.internal_topics import OwnedTopic, changelog_topic, repartition_topic
from kstreamnb.topology.nodes import InternalTopic, Node, ProcessorNode, Sink, Source
from kstreamnb.topology.parser import parse_description
from kstreamnb.topology.partitions import PlannedTask, check_fixed_partitions, partition_counts, source_topics
from kstreamnb.topology.topology import Topology

__all__ = [
    "DescribedNode", "DescribedStore", "DescribedSubtopology", "DescribedTopic", "InternalTopic", "Node",
    "OwnedTopic", "PlannedTask", "ProcessorNode", "Sink", "Source", "Subtopology", "Topology",
    "TopologyDescription", "TopologyDiff", "changelog_topic", "check_fixed_partitions", "diff", "from_json",
    "parse_description", "partition_counts", "repartition_topic", "source_topics", "to_json",
]  # fmt: skip
