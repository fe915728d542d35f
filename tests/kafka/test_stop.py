"""A query that was stopped leaves a checkpoint that nothing writes to any more."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from kstreamnb.spark.query import control as query_module
from tests.kafka.apps import PATIENCE_S, Bench, counting, counts, final
from tests.kafka.broker_cluster import java_of
from tests.kafka.old_brokers import broker_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def written(folder: Path) -> dict[Path, int]:
    """Every file and folder, and when it was changed."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def maintain_stores(spark: Any) -> None:
    """Have Spark maintain the state stores that it has loaded, as it does once a minute."""
    kind = spark._jvm.java.lang.Class.forName("org.apache.spark.sql.execution.streaming.state.StateStore$")
    method = kind.getDeclaredMethod("doMaintenance", None)
    method.setAccessible(True)
    method.invoke(kind.getField("MODULE$").get(None), None)


def test_spark_writes_no_snapshot_of_a_query_that_was_stopped(bench: Bench) -> None:
    """It is due after ten batches, and would be written with the next maintenance."""
    bench.fill("snapshot-in", 100)
    query = bench.deploy(counting("snapshot"), max_records=4)
    assert query.await_input(PATIENCE_S)
    query.stop()
    before = written(bench.folder)
    maintain_stores(bench.spark)
    time.sleep(3)
    assert before == written(bench.folder)
    assert query.restart().await_input(PATIENCE_S)


def test_a_stop_within_a_batch_waits_for_its_tasks(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark cancels them, and lets their workers compute.

    On a busy machine they may take longer than a stop waits, which is longer here.
    """
    monkeypatch.setattr("kstreamnb.spark.query.control._STOP_S", PATIENCE_S)
    monkeypatch.setattr("kstreamnb.spark.query.streaming_query._STOP_MS", int(PATIENCE_S * 1000))

    def slow(value: int) -> int:
        time.sleep(0.05)
        return value

    bench.fill("slow-in", 100)
    builder = ks.StreamsBuilder("slow")
    grouped = builder.stream("slow-in", value_serde="long").map_values(slow).group_by_key(value_serde="long")
    grouped.count(store="counts").to_stream().to("slow-out", value_serde="long")
    query = bench.deploy(builder.build(), max_records=40)
    end = time.monotonic() + PATIENCE_S
    while not any((bench.folder / "checkpoint" / "workers").glob("*")) and time.monotonic() < end:
        time.sleep(0.01)
    query.stop()
    before = written(bench.folder)
    time.sleep(4)
    assert before == written(bench.folder)


def test_a_stop_does_not_wait_for_a_broker_that_pauses(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a publication, whose calls last up to 15 s then; a restart waits for its end and publishes the batch once.

    The awaited time is shorter here, so that a busy machine does not matter.
    """
    for name in ("_STOP_S", "_PUBLISH_S"):
        monkeypatch.setattr(query_module, name, 0.5)
    pauses, publish = threading.Event(), TransactionalWriter.publish
    with broker_of(data=tmp_path / "kafka", timeout_s=120.0) as broker:
        bench = Bench(spark, broker.bootstrap_servers, tmp_path)
        process, records = java_of(broker), bench.fill("pauses-in", 10)
        query = bench.deploy(counting("pauses"))
        assert query.await_input(PATIENCE_S)

        def pause(step: str) -> None:
            if step == "produced" and not pauses.is_set():
                os.kill(process, signal.SIGSTOP)
                pauses.set()

        monkeypatch.setattr(TransactionalWriter, "publish", partialmethod(publish, between=pause))
        records += bench.fill("pauses-in", 10, begin=10)
        assert pauses.wait(PATIENCE_S)
        began = time.monotonic()
        query.stop()
        took = time.monotonic() - began
        os.kill(process, signal.SIGCONT)
        assert took <= 5
        assert query.restart().await_input(PATIENCE_S)
        query.stop()
        assert 20 == len(bench.read("pauses-out"))
        assert counts(records) == final(bench.read("pauses-out"))


def test_a_stop_that_cuts_a_batch_short_is_clean_and_the_batch_is_published_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A stop waits two seconds for the publication of a batch, which takes longer with a backlog of many records."""
    monkeypatch.setattr("kstreamnb.spark.query.control._PUBLISH_S", 0.0)
    records = bench.fill("cut-short-in", 150_000, 2)
    query = bench.deploy(counting("cut-short"), max_records=0)
    end = time.monotonic() + PATIENCE_S
    while not query.control.action.busy.locked():
        assert time.monotonic() < end
        time.sleep(0.001)
    query.stop()
    assert query.await_termination(PATIENCE_S)
    assert ("stopped", None) == (query.status(lag=False).state, query.exception())
    assert [] == [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    bench.run(counting("cut-short"), max_records=0)
    output = bench.read("cut-short-out")
    assert len(records) == len(output)
    assert counts(records) == final(output)
