"""Names for metrics, alerts, logs and the store server of running queries."""

from kstreamnb.spark.operations.alerts import Alert as Alert
from kstreamnb.spark.operations.alerts import alert_rules as alert_rules
from kstreamnb.spark.operations.alerts import alerts as alerts
from kstreamnb.spark.operations.alerts import prometheus_rules as prometheus_rules
from kstreamnb.spark.operations.autoscaling import ScalingDecision as ScalingDecision
from kstreamnb.spark.operations.autoscaling import scaling_decision as scaling_decision
from kstreamnb.spark.telemetry.kafka_metrics import kafka_metrics as kafka_metrics
from kstreamnb.spark.telemetry.query_log import log_to as log_to
from kstreamnb.tools.metrics_server import serve_metrics as serve_metrics
from kstreamnb.tools.store_app import StoreApp as StoreApp
from kstreamnb.tools.store_server import StoreServer as StoreServer
from kstreamnb.tools.store_server import serve as serve
