"""Simulates a consumer group on its own clock: assignments, rebalances, takeovers, offsets.

In production, brokers and clients do this work; on Spark there are no consumer groups. The simulation knows offsets but
no records, and advances only when its clock is advanced.
"""

from kstreamnb.simulation.consumer_group.assignors import Assignor, sticky
from kstreamnb.simulation.consumer_group.consumer_group import ConsumerGroup
from kstreamnb.simulation.consumer_group.offset_log import OffsetLog
from kstreamnb.simulation.consumer_group.views import GroupEvent, GroupEvents, GroupPositions

__all__ = ["Assignor", "ConsumerGroup", "GroupEvent", "GroupEvents", "GroupPositions", "OffsetLog", "sticky"]
