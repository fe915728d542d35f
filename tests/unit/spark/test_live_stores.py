"""Reads of a query's stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import kstreamnb as ks
from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from kstreamnb.spark.state.live_stores import LiveStores


class _StoppedContext:
    """The context of a session that was stopped in this process."""

    _jsc = None


def test_a_read_after_the_end_of_the_session_does_not_wait_for_a_commit(tmp_path: Path) -> None:
    """The session ended between the publication of a batch and its commit, which Spark does not make any more."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("in").group_by_key().count(store="counts")
    deployment = plan_deployment("shop", [plan_application(builder.build(), Config(), {"in": 1}, direct=True)], 1)
    session: Any = SparkSession.__new__(SparkSession)
    session._sc = _StoppedContext()
    stores = LiveStores(session, deployment, LocalFiles(tmp_path / "checkpoint"))
    stores.take(3, [])
    with pytest.raises(ks.errors.SparkError, match="the Spark session was stopped"):
        stores.ask("counts", list)
