"""The cost of the guarantees, measured on one small topic; ``python -m tests.bench.kafka`` measures it at length."""

from __future__ import annotations

import pytest

import kstreamnb as ks
from tests.bench.kafka import costs, fill
from tests.kafka.apps import Bench

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_the_price_of_exactly_once_is_measured(bench: Bench) -> None:
    """S3-20, S4-14: records per second under both guarantees, and their ratio."""
    fill(bench.servers, 20_000, 500)
    found = costs(bench.spark, bench.servers, 5_000)
    assert {"exactly_once", "at_least_once", "ratio"} == found.keys()
    assert found["ratio"] == pytest.approx(found["exactly_once"] / found["at_least_once"])
    assert 0.1 < found["ratio"] < 10


def test_latency_is_measured_under_both_guarantees(bench: Bench) -> None:
    """S3-20, S4-14: the figures of each, and by how much exactly once is slower, beside published figures."""
    found = ks.testing.benchmark(
        "latency", spark=bench.spark, bootstrap_servers=bench.servers, seconds=2, guarantee="both"
    )
    names = [
        f"{guarantee} {name}" for guarantee in ("exactly once", "at least once") for name in ("p50", "p99", "p999")
    ]
    assert names == list(found.figures)
    assert all(ms > 0 for ms in found.figures.values())
    assert "% at p50 (textbooks say 5 to 10 %)" in found.method


def test_the_time_of_a_failover_is_measured(bench: Bench) -> None:
    """S1-04: from the death of all Python workers to the next commit."""
    found = ks.testing.benchmark("failover", spark=bench.spark, bootstrap_servers=bench.servers, kills=2)
    assert ("s", ["median", "longest"]) == (found.unit, list(found.figures))
    assert 0 < found.figures["median"] <= found.figures["longest"]
