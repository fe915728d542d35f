"""The log that everything else rests on, to be looked at by itself: append-only, in partitions, on brokers.

The drivers run topologies over topics; here there is no topology, only what producers, brokers and readers do.
"""

from kstreamnb.simulation.log.create import create_topic
from kstreamnb.simulation.log.layout import PartitionLayout, TopicLayout
from kstreamnb.simulation.log.log import Log
from kstreamnb.simulation.log.producer import LogProducer
from kstreamnb.simulation.log.reader import LogReader

__all__ = ["Log", "LogProducer", "LogReader", "PartitionLayout", "TopicLayout", "create_topic"]
