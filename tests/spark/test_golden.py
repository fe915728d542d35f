"""Golden vectors on Spark itself; ``python -m tests.golden.run --engine spark`` runs all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tests.golden
from tests.golden.run import accidents, load
from tests.golden.spark_engine import check_on_spark

pytestmark = pytest.mark.spark

VECTORS = Path(tests.golden.__file__).with_name("vectors") / "behaviour.jsonl.xz"


def test_a_tenth_of_the_vectors_passes_on_spark(spark: Any) -> None:
    """S0-29: in a few queries of many applications each, outputs, drops and stores equal those of Kafka Streams."""
    vectors = [vector for vector in load([VECTORS]) if vector["name"] not in accidents() and not _by_row(vector)]
    verdicts = list(check_on_spark(vectors[5::10]))
    assert {} == {name: differences[:3] for name, state, differences, _ in verdicts if state != "passed"}
    assert len(verdicts) > 150


def test_stores_with_headers_pass_on_spark(spark: Any) -> None:
    """Rows with headers, of processors and of the DSL with `dsl.store.format`, are those of Kafka Streams."""
    vectors = list(load([VECTORS.with_name("headers.jsonl.xz")]))[1::6]
    verdicts = list(check_on_spark(vectors))
    assert {} == {name: differences[:3] for name, state, differences, _ in verdicts if state != "passed"}
    assert len(verdicts) == len(vectors)


def _by_row(vector: dict[str, Any]) -> bool:
    """Return whether a vector with a global table needs one batch per row: the full run has them."""
    ops = vector["spec"].get("papi") or vector["spec"].get("nodes", [])
    return any(op["op"] == "global" for op in ops)
