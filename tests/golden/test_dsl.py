"""DSL methods that the vectors leave out, and those that run on Spark's levels as well as in the driver."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.golden.evaluate import build
from tests.golden.run import load
from tests.golden.spark_engine import check_on_spark
from tests.unit.test_completeness import JAVA, counterpart

VECTORS = Path(__file__).with_name("vectors")
DSL = ("StreamsBuilder", *(of for of in JAVA if of.endswith(("KStream", "KTable", "Stream"))), "KGroupedTable")

# These write to no topic or store: tests/semantics/test_side_effects.py runs them on every engine.
ASIDE = {("KStream", "foreach"), ("KStream", "print")}
WORDS = {("KTable", "queryable_store_name"), ("GlobalKTable", "queryable_store_name")}


def test_every_method_of_the_dsl_runs_in_the_driver_and_on_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """S0-03: each method is used by a vector that both run, by a scenario, or has a documented reason for its
    refusal.
    """
    promised = {
        (of, ours) for of in DSL for ours in JAVA[of].values() if not ours.startswith("refused: ")
    }  # completeness.json holds every method of Java's; test_completeness checks the refusals
    used: set[tuple[str, str]] = set()

    def noted(of: str, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **options: Any) -> Any:
            used.add((of, name))
            return method(*args, **options)

        return call

    for of, name in promised:
        method = inspect.getattr_static(counterpart(of), name)
        monkeypatch.setattr(counterpart(of), name, noted(of, name, method))
    for vector in load([VECTORS / "matrices.jsonl.xz", VECTORS / "behaviour.jsonl.xz"]):
        build(vector["spec"])
        if promised - used == ASIDE | WORDS:
            break
    assert promised - used == ASIDE | WORDS
    assert len(promised) > 60


def test_every_aggregation_and_every_join_runs_on_the_levels() -> None:
    """S0-16, S0-17: both complete matrices, with the results of Kafka Streams; Spark refuses no cell."""
    vectors = list(load([VECTORS / "matrices.jsonl.xz"]))
    verdicts = list(check_on_spark(vectors, in_process=True))
    assert {} == {name: found[:3] for name, state, found, _ in verdicts if state != "passed"}
    assert {vector["name"] for vector in vectors} == {name for name, *_ in verdicts}
