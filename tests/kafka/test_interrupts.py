"""Interrupts, by real signals: what was called ends, and everything else continues or is gone."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.background import background, wait_until
from kstreamnb.kafka.storage.checkpoint_lock import in_use
from tests.kafka.apps import PATIENCE_S, Bench, counting, counts, final

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    # An interrupt may come between the opening of a file and its `with` block, within Python's own modules, too.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@contextmanager
def interrupted(moment: Callable[[], object]) -> Iterator[None]:
    """Interrupt what is called within, once the moment has come; it has to raise KeyboardInterrupt.

    After another error no interrupt follows, which would end a later test.
    """
    ended = threading.Event()

    def interrupt() -> None:
        wait_until(lambda: moment() or ended.is_set(), PATIENCE_S, pause_s=0.001)
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    thread = background(interrupt, "interrupt")
    caught = False
    try:
        try:
            yield
        finally:
            ended.set()
            thread.join()
    except KeyboardInterrupt:
        caught = True
    assert caught


def slow(mark: Path, seconds: float) -> Callable[[int], int]:
    """Return a function that marks its first call, and takes its time with each."""

    def work(value: int) -> int:
        mark.touch()
        time.sleep(seconds)
        return value

    return work


def streams(spark: Any) -> list[str]:
    """Return the streams that run in the JVM, whether a query knows them or not."""
    threads = spark._jvm.java.lang.Thread.getAllStackTraces().keySet().toString()
    return re.findall(r"stream execution thread for (\S+)", threads)


def has_processes(folder: Path) -> bool:
    """Return whether the command of a process names a folder; a process that was killed may still be ending."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            if str(folder).encode() in each.read_bytes():
                return True
    return False


def test_an_interrupt_leaves_running_queries_alone(bench: Bench) -> None:
    """While another cell works, Ctrl-C is for that cell: the batch of a query in the same process is not cancelled."""
    mark = bench.folder / "mark"
    builder = ks.StreamsBuilder("untouched")
    worked = builder.stream("untouched-in", value_serde="long").map_values(slow(mark, 0.2))
    worked.to("untouched-out", value_serde="long")
    records = bench.fill("untouched-in", 20)
    query = bench.deploy(builder.build())
    with interrupted(mark.exists):
        time.sleep(PATIENCE_S)
    assert query.await_input(PATIENCE_S)
    assert query.exception() is None
    assert len(records) == len(bench.read("untouched-out"))


def test_an_interrupted_run_ends_its_job(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It would keep the cores for itself; the session answers the next call, and nothing else is logged."""
    builder = ks.StreamsBuilder("endless")
    builder.stream("in").map_values(slow(tmp_path / "mark", 600)).to("out")
    sample = ks.Sample.from_text("topic | key | value | time\nin | a | 1 | 5")
    with caplog.at_level(logging.WARNING), interrupted((tmp_path / "mark").exists):
        ks.run(builder.build(), spark=spark, inputs=sample)
    assert wait_until(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds(), 60)
    assert 3 == spark.range(3).count()
    assert [] == [each for each in caplog.records if each.name.startswith(("py4j", "root"))]


@pytest.mark.slow  # an interrupt while librdkafka frees a client becomes a SystemError
@pytest.mark.parametrize("moment", ["kstreamnb.json", ".kstreamnb.lock", "metadata"])
def test_an_interrupted_start_leaves_no_stream_behind(bench: Bench, moment: str) -> None:
    """Whenever it comes: Spark starts the stream that nobody has a query for, and it published records."""
    name = f"interrupted-{moment.strip('.').replace('.', '-')}"
    records = bench.fill(f"{name}-in", 40, 2)
    checkpoint = bench.folder / "checkpoint"
    with interrupted((checkpoint / moment).exists):
        bench.deploy(counting(name))
    assert () == ks.spark.active()
    assert wait_until(lambda: not streams(bench.spark), PATIENCE_S)
    assert wait_until(lambda: not in_use(checkpoint), PATIENCE_S)  # once the sink is closed, too
    query = bench.run(counting(name))
    assert counts(records) == final(bench.read(f"{name}-out")) == dict(query.store("counts").all())
    assert len(records) == len(bench.read(f"{name}-out"))


@pytest.mark.slow  # as above
def test_an_interrupted_restart_can_be_called_again(bench: Bench) -> None:
    """The query shows why it does not run, and its stream has ended."""
    records = bench.fill("restarted-in", 40, 2)
    query = bench.deploy(counting("restarted"))
    assert query.await_input(PATIENCE_S)
    starts = query.control.starts.total()
    with interrupted(lambda: query.control.starts.total() > starts):
        query.restart()
    assert "the start was interrupted: KeyboardInterrupt" == str(query.exception())
    assert wait_until(lambda: not streams(bench.spark), PATIENCE_S)
    records += bench.fill("restarted-in", 10, 2, begin=40)
    assert query.restart().await_input(PATIENCE_S)
    query.stop()
    assert counts(records) == final(bench.read("restarted-out"))
    assert len(records) == len(bench.read("restarted-out"))


@pytest.mark.parametrize("moment", ["server.properties", "broker.log"])
def test_an_interrupted_start_of_a_broker_leaves_neither_process_nor_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """While its folder is formatted, and while its process starts."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with interrupted(lambda: any(each.stat().st_size for each in tmp_path.glob(f"kstreamnb-broker-*/{moment}"))):
        ks.kafka.local_broker()
    assert [] == list(tmp_path.iterdir())
    assert wait_until(lambda: not has_processes(tmp_path), 20)
