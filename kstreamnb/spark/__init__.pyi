"""Names for sessions, queries and state on Spark, and for inputs and sinks."""

from kstreamnb.spark.io.dataframe_input import FrameInput as FrameInput
from kstreamnb.spark.io.idempotent_sinks import DatabaseSink as DatabaseSink
from kstreamnb.spark.io.idempotent_sinks import ParquetSink as ParquetSink
from kstreamnb.spark.io.sinks import FrameSink as FrameSink
from kstreamnb.spark.io.sinks import FunctionSink as FunctionSink
from kstreamnb.spark.jvm.report import spark_report as spark_report
from kstreamnb.spark.jvm.session import spark_logs as spark_logs
from kstreamnb.spark.jvm.session import spark_session as spark_session
from kstreamnb.spark.jvm.shipping import ship as ship
from kstreamnb.spark.operations.rescale import rescale as rescale
from kstreamnb.spark.planning.deployment_plan import DeploymentPlan as DeploymentPlan
from kstreamnb.spark.query.active_queries import active as active
from kstreamnb.spark.query.active_queries import stop_all as stop_all
from kstreamnb.spark.state.hadoop_files import checkpoint_files as checkpoint_files
from kstreamnb.spark.state.read_store import read_store as read_store
