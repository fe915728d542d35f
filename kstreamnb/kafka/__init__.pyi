"""Names for working with a broker: clients, capture, administration, Schema Registry."""

from kstreamnb.kafka.admin import Admin as Admin
from kstreamnb.kafka.application_reset import reset as reset
from kstreamnb.kafka.broker_process import LocalBroker as LocalBroker
from kstreamnb.kafka.broker_process import local_broker as local_broker
from kstreamnb.kafka.connect import connect_config as connect_config
from kstreamnb.kafka.log_handler import KafkaLogHandler as KafkaLogHandler
from kstreamnb.kafka.partitioners import RoundRobin as RoundRobin
from kstreamnb.kafka.producer import RecordProducer as RecordProducer
from kstreamnb.kafka.producer import produce as produce
from kstreamnb.kafka.registry import SchemaRegistry as SchemaRegistry
from kstreamnb.spark.operations.changelog_stores import read_changelogs as read_changelogs
