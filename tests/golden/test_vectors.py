"""All golden vectors, in chunks: every recorded answer of Kafka Streams is reproduced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from tests.golden.run import accidents, check, load, main

Vectors = dict[str, list[dict[str, Any]]]
VECTORS = Path(__file__).with_name("vectors")
CHUNK = 64


def chunks() -> list[tuple[str, int]]:
    """File names and chunk numbers."""
    return [(name, start) for name, count in COUNTS.items() for start in range(0, count, CHUNK)]


COUNTS = {
    "behaviour.jsonl.xz": 1922,
    "caches.jsonl.xz": 10,
    "corners.jsonl.xz": 124,
    "describe.jsonl.xz": 747,
    "errors.jsonl.xz": 90,
    "fuzzed.jsonl": 39,
    "headers.jsonl.xz": 189,
    "matrices.jsonl.xz": 35,
    "processors.jsonl.xz": 20,
    "serdes.jsonl": 284,
    "unusual.jsonl.xz": 498,
}


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    """Vectors by file."""
    return {name: list(load([VECTORS / name])) for name in COUNTS}


@pytest.mark.parametrize(("name", "start"), chunks(), ids=lambda value: str(value).split(".")[0])
def test_kafka_streams_would_answer_the_same(vectors: Vectors, name: str, start: int) -> None:
    """A topology described or run here gives the same results as in Kafka Streams."""
    excused = accidents()
    outcomes = [check(vector, excused) for vector in vectors[name][start : start + CHUNK]]
    assert {} == {out.name: out.differences[:3] for out in outcomes if out.state == "failed"}


def test_every_vector_is_run(vectors: Vectors) -> None:
    """The chunks above cover every vector."""
    assert COUNTS == {name: len(found) for name, found in vectors.items()}


def test_the_command_counts_vectors_and_fails_if_one_differs(
    vectors: Vectors, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``make golden``: it prints each difference, then the figures."""
    path, serdes = tmp_path / "serdes.jsonl", [each["serde"] for each in vectors["serdes.jsonl"][:3]]
    path.write_text("\n".join(map(json.dumps, serdes)))
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == "3 passed, 0 failed, 0 skipped\n"
    path.write_text("\n".join(map(json.dumps, [*serdes[:2], {**serdes[2], "bytes": "00"}])))
    assert main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"FAILED serde.{serdes[2]['serde']}.2\n")
    assert out.endswith("\n2 passed, 1 failed, 0 skipped\n")


def test_accidents_are_few_and_each_has_a_reason() -> None:
    """Deliberate differences are rare."""
    assert len(accidents()) <= 15
    assert all(len(reason) > 40 for reason in accidents().values())


JOINS = {
    "stream_stream": ("inner", "left", "outer"),
    "stream_table": ("inner", "left"),
    "stream_global": ("inner", "left"),
    "table_table": ("inner", "left", "outer"),
    "foreign_key": ("inner", "left"),
}


def test_every_join_runs_over_the_same_23_rows(vectors: Vectors) -> None:
    """S0-17: nulls, deletions, late and unmatched rows, through every join of Kafka Streams."""
    found = {each["name"]: each["spec"]["input"] for each in vectors["matrices.jsonl.xz"]}
    for kind, ways in JOINS.items():
        for way in ways:
            assert len(found[f"matrix.join.{kind}.{way}"]) == 23


def test_every_aggregation_runs_with_every_window(vectors: Vectors) -> None:
    """S0-16: count, reduce, aggregate and cogroup; without windows, tumbling, hopping, sliding, session; and tables."""
    found = {each["name"] for each in vectors["matrices.jsonl.xz"]}
    for what in ("count", "reduce", "aggregate", "cogroup"):
        for window in ("none", "tumbling", "hopping", "sliding", "session"):
            assert f"matrix.{what}.{window}.stream" in found
        assert what == "cogroup" or f"matrix.{what}.none.table" in found


def test_the_updates_of_a_table_have_no_windows() -> None:
    """S0-16: the illegal cell of the matrix: a grouped table has no windowed_by."""
    with pytest.raises(AttributeError, match="windowed_by"):
        ks.StreamsBuilder().table("t").group_by(lambda key, value: (key, value)).windowed_by(None)


def test_what_is_rarely_combined_is_among_the_vectors(vectors: Vectors) -> None:
    """Refusals of every wording, full buffers, versions, several optimizations, queries and in-memory stores are
    covered.
    """
    specs = [each["spec"] for each in vectors["unusual.jsonl.xz"]]
    answers = [each["answer"] for each in vectors["unusual.jsonl.xz"]]
    assert sum("error" in answer for answer in answers) > 150
    assert sum("queries" in spec for spec in specs) > 10
    assert sum("config" in spec for spec in specs) > 100
    kinds = [op for spec in specs for op in spec.get("nodes", ())]
    assert any(op["op"] == "suppress" and "bytes" in op for op in kinds)
    assert any(op["op"] == "suppress" and op.get("full") == "shutdown" for op in kinds)
