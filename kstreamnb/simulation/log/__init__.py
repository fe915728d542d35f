"""Simulates a log without a topology: append-only partitions on brokers, producers and readers."""

from kstreamnb.simulation.log.create import create_topic
from kstreamnb.simulation.log.layout import PartitionLayout, TopicLayout
from kstreamnb.simulation.log.log import Log
from kstreamnb.simulation.log.producer import LogProducer
from kstreamnb.simulation.log.reader import LogReader

__all__ = ["Log", "LogProducer", "LogReader", "PartitionLayout", "TopicLayout", "create_topic"]
