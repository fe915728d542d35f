"""Golden vectors on the levels of a Spark query, without Spark: every worker loses its memory after each batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.golden.run import accidents, load
from tests.golden.spark_engine import RULES, check_on_spark

VECTORS = Path(__file__).with_name("vectors") / "behaviour.jsonl.xz"
HEADERS = VECTORS.with_name("headers.jsonl.xz")
SHARES = 8


@pytest.fixture(scope="module")
def vectors() -> list[dict[str, Any]]:
    """All behavior vectors except Kafka's accidents."""
    return [vector for vector in load([VECTORS]) if vector["name"] not in accidents()]


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_production_answers_as_kafka_streams_or_differs_by_a_rule(vectors: list[dict[str, Any]], share: int) -> None:
    """S0-29: outputs, drops and stores are those of Kafka, or of its production layout, and few differ."""
    verdicts = list(check_on_spark(vectors[share::SHARES], in_process=True))
    assert {} == {name: differences[:3] for name, state, differences, _ in verdicts if state != "passed"}
    by_rule = [rule for _, _, _, rule in verdicts if rule]
    assert set(by_rule) <= RULES.keys()
    assert len(by_rule) < len(verdicts) / 10


def test_a_share_of_the_vectors_passes_on_the_levels(vectors: list[dict[str, Any]]) -> None:
    """The same check for every fortieth vector."""
    verdicts = list(check_on_spark(vectors[::40], in_process=True))
    assert {} == {name: differences[:3] for name, state, differences, _ in verdicts if state != "passed"}
    assert len(verdicts) == len(vectors[::40])


def test_stores_with_headers_pass_on_the_levels() -> None:
    """Headers survive the checkpoint after every batch."""
    vectors = list(load([HEADERS]))[::4]
    verdicts = list(check_on_spark(vectors, in_process=True))
    assert {} == {name: differences[:3] for name, state, differences, _ in verdicts if state != "passed"}
    assert len(verdicts) == len(vectors)
