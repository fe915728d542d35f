"""Names of simulators: cluster, consumer group, log."""

from kstreamnb.simulation.cluster import Application as Application
from kstreamnb.simulation.cluster import ClusterDriver as ClusterDriver
from kstreamnb.simulation.consumer_group import ConsumerGroup as ConsumerGroup
from kstreamnb.simulation.log import Log as Log
from kstreamnb.simulation.log import create_topic as create_topic
