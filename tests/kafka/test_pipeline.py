"""Batches that are published while Spark computes the next one."""

from __future__ import annotations

import time
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.kafka.producer import refuse_closing
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from kstreamnb.spark.state.checkpoint_reader import last_batch, last_begun
from tests.kafka.apps import PATIENCE_S, Bench, counting, counts, final

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


class Held:
    """Has writers stop in the transaction of one batch until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
        self.batch, self.goes_on = batch, False
        publish = TransactionalWriter.publish

        def held(writer: TransactionalWriter, number: int, *arguments: Any) -> Any:
            def between(step: str) -> None:
                while number == self.batch and step == "produced" and not self.goes_on:
                    refuse_closing(writer._closing)
                    time.sleep(0.01)

            return publish(writer, number, *arguments, between=between)

        monkeypatch.setattr(TransactionalWriter, "publish", held)


def _await_begun(query: Any, batch: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while last_begun(query.control.files) < batch and time.monotonic() < end:
        time.sleep(0.02)
    assert batch == last_begun(query.control.files)


def test_a_batch_is_computed_while_the_one_before_is_published(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark begins the next, and no other; what is not in Kafka counts as finished nowhere."""
    records = bench.fill("ahead-in", 100)
    held = Held(monkeypatch, 1)
    query = bench.deploy(counting("ahead"), max_records=25)
    _await_begun(query, 2)
    time.sleep(1.0)
    assert 2 == last_begun(query.control.files)
    status = query.status()
    assert (0, 0) == (last_batch(query.control.files), status.batch)
    end_of_transaction = 1
    assert status.positions["ahead-in"][0] + end_of_transaction == bench.admin.offsets(["ahead-out"])["ahead-out"][0]
    held.goes_on = True
    assert query.await_input(PATIENCE_S)
    query.stop()
    assert last_begun(query.control.files) == last_batch(query.control.files) == query.status().batch
    assert counts(records) == final(bench.read("ahead-out")) == dict(query.store("counts").all())


def test_a_batch_whose_publication_a_stop_cut_off_runs_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """With it the one that Spark had begun meanwhile: each record is counted and published once."""
    records = bench.fill("cut-in", 100)
    held = Held(monkeypatch, 1)
    query = bench.deploy(counting("cut"), max_records=25)
    _await_begun(query, 2)
    query.stop()
    assert (0, 2) == (last_batch(query.control.files), last_begun(query.control.files))
    held.goes_on = True
    assert query.restart().await_input(PATIENCE_S)
    query.stop()
    assert 100 == len(bench.read("cut-out"))
    assert counts(records) == final(bench.read("cut-out")) == dict(query.store("counts").all())


def test_a_failure_beside_the_stream_ends_an_idle_query(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """No further batch comes that could tell Spark."""

    def failing(*_: object, **__: object) -> None:
        raise ValueError("no such luck")

    bench.fill("unlucky-in", 10)
    query = bench.deploy(counting("unlucky"))
    assert query.await_input(PATIENCE_S)
    monkeypatch.setattr(TransactionalWriter, "publish", failing)
    records = bench.fill("unlucky-in", 10, begin=10)
    with pytest.raises(ks.errors.SinkError, match="failed with ValueError") as caught:
        query.await_termination(PATIENCE_S)
    assert "no such luck" == str(caught.value.__cause__)
    assert not query.is_active()
    monkeypatch.undo()
    assert query.restart().await_input(PATIENCE_S)
    assert 10 + len(records) == len(bench.read("unlucky-out"))


@pytest.mark.parametrize("off", [False, True])
def test_the_overlap_is_a_patch_that_can_be_switched_off(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, off: bool
) -> None:
    """Spark then waits for each batch; the results are the same."""
    name = f"switched-{off}"
    monkeypatch.setenv("KSTREAMNB_DISABLE_PATCHES", "late-commits" if off else "")
    records = bench.fill(f"{name}-in", 100)
    query = bench.run(counting(name), max_records=25)
    patches = [line for line in ks.spark.spark_report().splitlines() if line.startswith("patch late-commits")]
    assert [f"patch late-commits = {'off, switched off' if off else 'on'}"] == [p.partition(" (")[0] for p in patches]
    assert off == (query.control.action.pipeline is None)
    assert last_begun(query.control.files) == last_batch(query.control.files)
    assert counts(records) == final(bench.read(f"{name}-out"))


def test_only_what_a_newer_deployment_can_fence_is_published_beside_its_stream(bench: Bench) -> None:
    """At-least-once delivery has nothing that would stop an older process."""
    records = bench.fill("unfenced-in", 100)
    query = bench.run(counting("unfenced"), max_records=25, guarantee="at_least_once")
    assert query.control.action.pipeline is None
    assert counts(records) == final(bench.read("unfenced-out"))
