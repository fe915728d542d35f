"""Batches on their way to the sink and to watchers."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

import kstreamnb as ks
from kstreamnb.spark.contracts import QueryBatch, QuerySink
from kstreamnb.spark.execution.batch_output import BatchOutput
from tests.unit.spark.query.streams import launch, query_without_spark


class Mute(BaseException):
    """Is neither an Exception nor has a message."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt, Mute])
def test_whatever_a_sink_raises_is_the_error_of_the_query(tmp_path: Path, raised: type[BaseException]) -> None:
    """Spark gets an Exception, which it can pass on; the user's own error is the cause."""

    class Raising(QuerySink):
        def publish(self, batch: QueryBatch) -> NoReturn:
            raise raised

    query = query_without_spark(tmp_path, Raising())
    launch(query, None)
    with pytest.raises(ks.errors.SinkError, match=f'the sink of "again" failed with {raised.__name__}'):
        query.control.action.publish(QueryBatch(0, "", {}, 0, BatchOutput()))
    error = query.exception()
    assert isinstance(error, ks.errors.SinkError)
    assert isinstance(error.__cause__, raised)
    assert "failed" == query.status(lag=False).state
