"""Applications that reprocess their input with fixed code, and those that have only their checkpoint left."""

from __future__ import annotations

import operator
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.kafka.application_reset import reset
from kstreamnb.kafka.producer import produce
from kstreamnb.tools.benchmark import python_workers
from tests.kafka.apps import PATIENCE_S, Bench, counting, counts, final, settle

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def inventory(*coming_in: str) -> ks.Topology:
    """Compute the stock from a topic of single steps; movements that are not listed as incoming reduce it."""

    def signed(movement: dict[str, Any]) -> int:
        return int(movement["qty"]) * (1 if movement["type"] in coming_in else -1)

    builder = ks.StreamsBuilder("inventory")
    builder.stream("movements").map_values(signed).to("steps", value_serde="long")
    on_hand = builder.stream("steps", value_serde="long").group_by_key().reduce(operator.add, store="on-hand")
    on_hand.to_stream().to("inventory", value_serde="long")
    return builder.build()


def kept(bench: Bench, topology: ks.Topology, written: int) -> dict[str, int]:
    """Run until the output has the given number of records; return the stock at that point."""
    query = bench.deploy(topology)
    end = time.monotonic() + PATIENCE_S
    while len(bench.read("inventory")) < written and time.monotonic() < end:
        time.sleep(0.05)
    assert query.await_input(PATIENCE_S)  # a batch is in Kafka slightly before its state can be read
    query.stop()
    assert query.exception() is None
    return dict(query.store("on-hand").all())


def test_mended_code_reads_its_input_again(bench: Bench) -> None:
    """S3-16, S3-17, S1-05: a return counted as sold gives -1; after a reset correct values follow the wrong ones.

    The topic of steps is skipped up to the position that the faulty code reached: nothing of that is counted again.
    """
    for topic in ("movements", "steps"):
        bench.admin.create_topic(topic)
    rows = [{"type": kind, "qty": qty} for kind, qty in (("in", 2), ("out", 1), ("return", 2))]
    produce(bench.servers, [ks.TopicRecord("movements", 0, at, 1000 + at, "sku1", row) for at, row in enumerate(rows)])
    assert {"sku1": -1} == kept(bench, inventory("in"), 3)
    settle(bench.admin, "steps")
    begin = bench.admin.offsets(["steps"])["steps"]
    plan = reset(
        bench.servers,
        "inventory",
        topology=inventory("in"),
        checkpoint=bench.folder / "checkpoint",
        input_topics=["movements"],
        intermediate_topics=["steps"],
    )
    assert {"movements": {0: 0}, "steps": begin} == plan.positions
    assert begin[0] >= 3
    assert f"  begin topic steps at offsets 0: {begin[0]}" in str(plan).splitlines()
    assert "output topic inventory keeps offsets 0: 0 to " in str(plan)
    assert {"sku1": 3} == kept(bench, inventory("in", "return"), 6)
    assert [2, 1, -1, 2, 1, 3] == [value for _, value, _ in bench.read("inventory")]


def lose_everything_local(bench: Bench) -> None:
    """Kill all workers, and delete Spark's local state files."""
    for pid in python_workers():
        with suppress(ProcessLookupError):  # it has been idle for too long
            os.kill(pid, signal.SIGKILL)
    jvm = bench.spark._jvm
    jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    local = Path(jvm.org.apache.spark.util.Utils.getLocalDir(bench.spark._jsc.sc().conf()))
    for path in local.rglob("StateStoreId*"):
        shutil.rmtree(path)


def test_the_checkpoint_alone_brings_everything_back(bench: Bench) -> None:
    """S3-13, S1-10: without workers' memory and local files, stores are identical row by row, and counts continue.

    With memory for the state of one task only, the others are rebuilt each time: slower, and equally correct.
    """
    records = bench.fill("bare-in", 80, 4)
    query = bench.run(counting("bare"), max_records=20)
    before = sorted(query.store("counts", timestamps=True).all())
    lose_everything_local(bench)
    assert before == sorted(query.store("counts", timestamps=True).all())
    records += bench.fill("bare-in", 20, 4, begin=80)
    again = bench.run(counting("bare"), verify=True)
    assert {"rebuild"} == set(again.book.states)
    assert counts(records) == dict(again.store("counts").all()) == final(bench.read("bare-out"))
    records += bench.fill("bare-in", 60, 4, begin=100)
    small = bench.run(counting("bare"), max_records=20, memory_limit=1)
    assert small.book.states["rebuild"] > 0
    assert counts(records) == dict(small.store("counts").all()) == final(bench.read("bare-out"))
    assert 160 == len(bench.read("bare-out"))
