"""E19 with the real runtime: what a count restores after each ending, and what a standby spares.

The kit's side is the simulated cluster of chapter 15, with the same records, commits and endings.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

import kstreamnb as ks
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.broker_process import LocalBroker
from kstreamnb.kafka.producer import produce
from tests.java.feeds import PARTITIONS, new_topics
from tests.java.lab import SETTINGS
from tests.java.runner import JARS, JavaStreams
from tests.java.topologies import build

pytestmark = [pytest.mark.java, pytest.mark.slow]


class Ending(NamedTuple):
    """How an application ends that has 200 visits on its disk, from a clean stop, and then counts more."""

    guarantee: str
    more: int
    restored: int
    flushes: bool = False
    loses_disk: bool = False


ENDINGS = {
    "crash": Ending("at_least_once", 20, 20),
    "crash, new disk": Ending("at_least_once", 20, 220, loses_disk=True),
    "exactly once, crash": Ending("exactly_once_v2", 20, 20),
    "exactly once, flushed, crash": Ending("exactly_once_v2", 20_000, 20_200, flushes=True),
}
"""Chapter 15 says why: the tail since the last flush, everything, the tail, and everything."""

_QUICK = ("session.timeout.ms=6000", "heartbeat.interval.ms=1000")  # the broker's minimum
_FEW_S = 120.0


def visits(prefix: str, count: int) -> list[ks.TopicRecord]:
    """Visits of twenty pages."""
    return [ks.TopicRecord(f"{prefix}-left", -1, n, n, f"page{n % 20}", "seen") for n in range(count)]


def until(settled: Callable[[], bool]) -> float:
    """Wait; return how long that took, in seconds."""
    began = time.monotonic()
    while not settled():
        assert time.monotonic() - began < _FEW_S, "not settled in time"
        time.sleep(0.05)
    return time.monotonic() - began


@pytest.fixture
def servers(broker: LocalBroker) -> str:
    if not (JARS / "classes").exists():
        pytest.skip("make test-java builds the application in Java")
    return broker.bootstrap_servers


@pytest.mark.parametrize("name", ENDINGS)
def test_a_restart_restores_what_java_restores(servers: str, tmp_path: Path, name: str) -> None:
    """A kill, and a start: the same number of records of the changelog is read, and the rows are those from before."""
    ending, prefix = ENDINGS[name], f"failover-{list(ENDINGS).index(name)}"
    new_topics(Admin(servers), "count", prefix)
    options = (f"processing.guarantee={ending.guarantee}", *_QUICK)
    little = ("rocksdb.config.setter=kstreamnb.Runner$LittleMemory",) * ending.flushes
    with JavaStreams(servers, tmp_path) as java:
        for count, settings in ((200, options), (ending.more, (*options, *little))):
            java.start(prefix, "count", prefix, *settings)
            produce(servers, visits(prefix, count), key_serde=ks.Serdes.string(), value_serde=ks.Serdes.string())
            java.await_input(prefix, [f"{prefix}-left"])
            if count == 200:
                java.close(prefix)
        before = java.rows(prefix, "counts")
        java.kill()
    if ending.loses_disk:
        shutil.rmtree(tmp_path / prefix)
    with JavaStreams(servers, tmp_path) as java:
        java.start(prefix, "count", prefix, *options)
        until(lambda: java.restored(prefix)[0] == "RUNNING" and java.rows(prefix, "counts") == before)
        restored = java.restored(prefix)[1]
        java.stop(prefix)
    kit, rows = simulated(ending)
    print(f"\n{name:30} Java restored {restored:,}, the kit {kit:,}")
    assert restored == kit == ending.restored
    assert before == rows


def simulated(ending: Ending) -> tuple[int, dict[str, str]]:
    """Restored records and rows of the simulated cluster."""
    settings = {**SETTINGS, "processing_guarantee": ending.guarantee}
    cluster = ks.simulation.ClusterDriver(build("count", "p"), settings, partitions={"p-left": PARTITIONS})
    application = cluster.application
    for count in (200, ending.more):
        cluster.create_input_topic("p-left").pipe_key_value_list(
            [(each.key, each.value) for each in visits("p", count)]
        )
        cluster.run_ready()
        application.commit()
        if count == 200:
            application.close()
            application.restart()
    if ending.flushes:
        application.flush_stores()
    application.crash()
    if ending.loses_disk:
        application.clean_up()
    restored = sum(event.numbers["records"] for event in application.restart())
    return restored, {key: str(count) for key, count in application.store("counts").all()}


@pytest.mark.parametrize("standbys", [0, 1])
def test_a_standby_spares_the_survivor_the_restore(servers: str, tmp_path: Path, standbys: int) -> None:
    """Two instances, one is killed: the other restores the partitions it takes over, or nothing with a standby."""
    prefix = f"survivor-{standbys}"
    new_topics(Admin(servers), "count", prefix)
    options = ("processing.guarantee=at_least_once", f"num.standby.replicas={standbys}", *_QUICK)
    with ExitStack() as stack:
        first, second = (stack.enter_context(JavaStreams(servers, folder)) for folder in folders(tmp_path))
        for java in (first, second):
            java.start(prefix, "count", prefix, *options)
        until(lambda: all(java.restored(prefix)[0] == "RUNNING" for java in (first, second)))
        produce(servers, visits(prefix, 220), key_serde=ks.Serdes.string(), value_serde=ks.Serdes.string())
        second.await_input(prefix, [f"{prefix}-left"])
        until(lambda: all(java.restored(prefix)[2] == 0 for java in (first, second)))
        dying, kept, known = first.rows(prefix, "counts"), second.rows(prefix, "counts"), second.restored(prefix)[1]
        assert dying
        assert kept
        first.kill()
        pause = until(lambda: second.restored(prefix)[0] == "RUNNING" and len(second.rows(prefix, "counts")) == 20)
        restored = second.restored(prefix)[1] - known
        assert second.rows(prefix, "counts") == {**dying, **kept}
        second.stop(prefix)
    print(f"\n{standbys} standbys: Java restored {restored} records, {pause:.1f} s after the kill all rows are back")
    assert restored == (0 if standbys else sum(map(int, dying.values())))


def folders(parent: Path) -> Iterator[Path]:
    """A folder for each instance: two machines with a disk each."""
    for name in ("first", "second"):
        (parent / name).mkdir()
        yield parent / name
