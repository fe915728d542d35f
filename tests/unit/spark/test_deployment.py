"""Deployments as workers receive them."""

from __future__ import annotations

import pickle
import zlib
from types import CodeType

import cloudpickle  # type: ignore[import-untyped]
import pytest

import kstreamnb as ks
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.planning.placement import plan_application, plan_deployment


def _reduce_without_file(code: CodeType) -> tuple[object, tuple[object, ...]]:
    """Reduce code as cloudpickle 3.1.3 does."""
    make, arguments = cloudpickle.cloudpickle._code_reduce(code)
    return make, tuple("<dynamic-code>" if each == code.co_filename else each for each in arguments)


def test_functions_keep_their_file_on_the_way_to_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors show a function's file and line, also if cloudpickle leaves files out of what it pickles."""
    monkeypatch.setitem(cloudpickle.CloudPickler.dispatch_table.maps[0], CodeType, _reduce_without_file)

    def double(value: int) -> int:
        return next(2 * each for each in [value])

    builder = ks.StreamsBuilder("files")
    builder.stream("in").map_values(double).to("out")
    application = plan_application(builder.build(), Config(), {"in": 1}, direct=True)
    sent = zlib.decompress(plan_deployment("files", [application], 1).packed)
    assert pickle.loads(sent)
    assert __file__.encode() in sent
    assert b"<dynamic-code>" not in sent
    assert b"<dynamic-code>" in cloudpickle.dumps(double)


@pytest.mark.parametrize("count", [0, -1])
def test_a_plan_has_at_least_one_partition_of_spark(count: int) -> None:
    """The number is refused in words before anything is divided by it."""
    builder = ks.StreamsBuilder("few")
    builder.stream("in").to("out")
    with pytest.raises(ks.errors.ConfigError, match=f"spark_partitions must be at least 1, got {count}"):
        ks.plan(builder.build(), spark_partitions=count)


def test_a_session_has_at_least_one_core() -> None:
    """The number is refused before a JVM starts, which would refuse it in its log."""
    with pytest.raises(ks.errors.ConfigError, match="cores must be at least 1, got 0"):
        ks.spark.spark_session(cores=0)
