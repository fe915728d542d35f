"""A consumer group on a clock of its own: who owns which partition, who takes over, and what is read again.

Kafka's brokers and clients do this work in production, and on Spark nothing of it is left. Here it can be watched:
only offsets are known, no records, and nothing moves unless it is told to.
"""

from kstreamnb.simulation.consumer_group.assignors import Assignor, sticky
from kstreamnb.simulation.consumer_group.consumer_group import ConsumerGroup
from kstreamnb.simulation.consumer_group.offset_log import OffsetLog
from kstreamnb.simulation.consumer_group.views import GroupEvent, GroupEvents, GroupPositions

__all__ = ["Assignor", "ConsumerGroup", "GroupEvent", "GroupEvents", "GroupPositions", "OffsetLog", "sticky"]
