"""What the guarantees cost: measured on one small topic; ``python -m tests.bench.kafka`` does it at length."""

from __future__ import annotations

import pytest

from tests.bench.kafka import costs, fill
from tests.kafka.apps import Bench

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_the_price_of_exactly_once_is_measured(bench: Bench) -> None:
    """S3-20, S4-14: records a second under both guarantees, and their ratio."""
    fill(bench.servers, 20_000, 500)
    found = costs(bench.spark, bench.servers, 5_000)
    assert {"exactly_once", "at_least_once", "ratio"} == found.keys()
    assert found["ratio"] == pytest.approx(found["exactly_once"] / found["at_least_once"])
    assert 0.1 < found["ratio"] < 10
