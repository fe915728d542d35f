"""All queries of a process are stopped together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstreamnb as ks
from kstreamnb.errors import BrokerError, SparkError
from kstreamnb.spark.query.active_queries import add_active, remove_active
from kstreamnb.spark.query.lifecycle import Actor
from kstreamnb.spark.query.query import Query
from tests.unit.spark.query.streams import UnreachableSink, launch, query_without_spark


class Closing(UnreachableSink):
    """A sink that does this when it is closed."""

    def __init__(self, error: BaseException | None = None, wait: threading.Event | None = None) -> None:
        super().__init__()
        self.error, self.wait = error, wait

    def close(self) -> None:
        """Wait and raise."""
        if self.wait is not None:
            self.wait.wait(60)
        if self.error is not None:
            raise self.error


@pytest.fixture(autouse=True)
def _none_is_left() -> Iterator[None]:
    yield
    for query in ks.spark.active():
        remove_active(query)


def running(folder: Path, number: int, sink: Closing | None = None) -> Query:
    """A query that was started."""
    (folder / str(number)).mkdir()
    query = query_without_spark(folder / str(number), sink or Closing())
    launch(query, None)
    add_active(query)
    return query


def test_those_that_were_stopped_are_returned_oldest_first_and_counted_once(tmp_path: Path) -> None:
    """Failed ones count: they hold resources until they are stopped. One that the user stopped does not."""
    queries = [running(tmp_path, number) for number in range(4)]
    queries[1].control.action.note_failure(BrokerError("gone"), Actor.QUERY)
    queries[2].stop()
    assert (queries[0], queries[1], queries[3]) == ks.spark.stop_all()
    assert () == ks.spark.active()
    assert not any(query.is_active() for query in queries)
    assert () == ks.spark.stop_all()


@pytest.mark.parametrize("error", [OSError("disk full"), SystemExit("disk full")])
def test_one_that_fails_to_stop_is_named_and_the_others_are_stopped(error: BaseException, tmp_path: Path) -> None:
    """It is still active, also if its sink ends the thread; queries of one application are distinguished."""
    good, bad, worse = running(tmp_path, 0), running(tmp_path, 1, Closing(error)), running(tmp_path, 2, Closing(error))
    with pytest.raises(SparkError, match="queries failed to stop: again, again") as raised:
        ks.spark.stop_all()
    assert "disk full; disk full" == raised.value.detail
    assert not good.is_active()
    assert (bad, worse) == ks.spark.active()


def test_one_that_does_not_stop_in_time_is_named(tmp_path: Path) -> None:
    """The call returns after its time."""
    gate = threading.Event()
    running(tmp_path, 0), running(tmp_path, 1, Closing(wait=gate))
    try:
        with pytest.raises(SparkError, match=r"(?m)queries did not stop within 0.5 s: again$"):
            ks.spark.stop_all(timeout_s=0.5)
    finally:
        gate.set()
