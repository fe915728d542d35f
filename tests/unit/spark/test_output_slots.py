"""Slots of the output: which records belong to which, and what happens to them if a task fails."""

from __future__ import annotations

import numpy as np
import pytest

import kstreamnb as ks
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.execution.record_batch import OrderKey, RecordBatch
from kstreamnb.spark.execution.rows import FAILURE, OUT, REPORT
from kstreamnb.spark.execution.stateful_operator import by_slot, run_group
from kstreamnb.spark.planning.deployment import FIRST_SLOT, WorkerOptions
from kstreamnb.spark.planning.key_routing import spark_hash
from kstreamnb.spark.planning.placement import plan_application, plan_deployment


def _batch(partitions: list[int] | int, count: int) -> RecordBatch:
    partition = partitions if isinstance(partitions, int) else np.asarray(partitions, np.int64)
    stamps = np.arange(count, dtype=np.int64)
    keys = [str(at).encode() for at in range(count)]
    return RecordBatch("out", partition, OrderKey.of_root(0, count), stamps, keys, list(keys), None, kafka=True)


@pytest.mark.parametrize("slots", [1, 2, 3, 7])
def test_each_partition_of_a_topic_is_in_one_slot_and_keeps_its_order(slots: int) -> None:
    """Records are in one slot each; a batch of one partition is not copied."""
    partitions = [at * 5 % 6 for at in range(60)]
    found: dict[int, int] = {}
    keys: dict[int, list[bytes]] = {}
    for target, part in by_slot(_batch(partitions, 60), slots):
        assert FIRST_SLOT - slots < target <= FIRST_SLOT
        for partition, key in zip(np.asarray(part.partition).tolist(), part.keys, strict=True):
            assert found.setdefault(partition, target) == target
            keys.setdefault(partition, []).append(key)
    assert keys == {each: [str(at).encode() for at in range(60) if partitions[at] == each] for each in range(6)}
    assert min(slots, 6) == len(set(found.values()))
    whole = _batch(3, 10)
    [(target, same)] = by_slot(whole, slots)
    assert same is whole
    assert target == found[3]
    assert [(OUT, whole)] == list(by_slot(whole, 0))


@pytest.mark.parametrize("slots", [0, 5])
def test_a_failure_reaches_every_place_that_publishes(slots: int) -> None:
    """Only then is nothing of the batch published; without executors that publish, one row is enough."""
    builder = ks.StreamsBuilder("fails")
    builder.stream("in").to("out")
    application = plan_application(builder.build(), Config(), {"in": 1}, direct=False)
    deployment = plan_deployment("fails", [application], 4, options=WorkerOptions(slots=slots))
    rows = [(0, FAILURE, 2, 0, b"why"), (0, REPORT, 2, 0, b"figures")]
    sent = list(run_group(deployment, 0, -99, rows, None))
    failures = [row for row in sent if row[1] == FAILURE]
    assert {b"why"} == {row[4] for row in failures}
    assert (list(range(4)) if slots else [2]) == sorted({spark_hash(row[0]) % 4 for row in failures})
    assert 1 == sum(row[1] == REPORT for row in sent)


def test_slots_are_spread_over_the_partitions_of_spark() -> None:
    """Also if a rescaling has left fewer or more partitions than slots."""
    builder = ks.StreamsBuilder("spread")
    builder.stream("in").to("out")
    application = plan_application(builder.build(), Config(), {"in": 1}, direct=False)
    for count in (2, 4, 8):
        deployment = plan_deployment("spread", [application], count)
        groups = [deployment.routing_key_at(1, FIRST_SLOT - slot) for slot in range(4)]
        assert [slot % count for slot in range(4)] == [spark_hash(group) % count for group in groups]
