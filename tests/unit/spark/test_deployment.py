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
