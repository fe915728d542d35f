"""`read_store`: a store from a checkpoint, without a query and without a broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from kstreamnb.core.arguments import check_arguments
from kstreamnb.kafka.storage.checkpoint_files import Checkpoint
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.jvm.session import spark_session
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from kstreamnb.spark.state.checkpoint_manifest import check_compatible, manifest_of, require_manifest
from kstreamnb.spark.state.hadoop_files import checkpoint_files
from kstreamnb.spark.state.live_stores import LiveStores
from kstreamnb.spark.state.store_view import StoreView
from kstreamnb.state.query_views import detail
from kstreamnb.topology.topology import Topology


def read_store(
    topology: Topology,
    name: str,
    checkpoint: Checkpoint,
    *,
    spark: SparkSession | None = None,
    config: Config | Mapping[str, Any] | None = None,
    timestamps: bool = False,
    headers: bool = False,
    trust: bool = False,
) -> StoreView:
    """Read a store as of the last committed batch of a checkpoint, whether or not its query is running.

    Args:
        topology: the topology that wrote the checkpoint; it knows the serdes.
        name: the store.
        checkpoint: the query's folder, or its address.
        spark: the session that reads; without one, `spark_session` starts one. Default: None.
        config: the settings that the query was deployed with. Default: `Config()`.
        timestamps: return rows of timestamped stores as `ValueAndTimestamp` instead of plain values. Default: False.
        headers: return rows of stores with headers as `ValueTimestampHeaders` or `AggregationWithHeaders`.
            Default: False.
        trust: allow unpickling objects of users' classes, which some serdes keep in stores unserialized. That runs
            whatever code a checkpoint contains; everything else in a checkpoint is read without pickle. Default: False.

    Raises:
        CheckpointError: the folder is not a checkpoint, or another topology's.
        StateError: the store does not exist; the error names those that do.

    Example:
        >>> from kstreamnb.errors import CheckpointError
        >>> try:
        ...     read_store(Topology(), "counts", "/no-such-folder")
        ... except CheckpointError as error:
        ...     print(error)
        folder "/no-such-folder" is not a checkpoint
    """
    check_arguments(read_store, locals())
    folder = checkpoint_files(checkpoint, spark)
    old = require_manifest(folder)
    settings = Config.of(config)
    if settings.application_id is None:
        settings = replace(settings, application_id=old.application)
    # Topics that the checkpoint does not know have tasks without state.
    application = plan_application(topology, settings, old.inputs, direct=False, default_partitions=1, split=old.split)
    deployment = plan_deployment(old.query, [application], old.spark_partitions, known_keys=old.groups)
    check_compatible(old, manifest_of(deployment))
    batch, parts = LiveStores(spark or spark_session(), deployment, folder, trust=trust).ask(name, list)
    return StoreView(name, parts, batch=batch, show=detail(timestamps=timestamps, headers=headers))
