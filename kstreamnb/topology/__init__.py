"""The topology: frozen nodes, every check that building makes, sub-topologies, descriptions, partitions and tasks."""

from kstreamnb.topology.grouping import Subtopology
from kstreamnb.topology.nodes import InternalTopic, Node, ProcessorNode, Sink, Source
from kstreamnb.topology.topology import Topology

__all__ = ["InternalTopic", "Node", "ProcessorNode", "Sink", "Source", "Subtopology", "Topology"]
