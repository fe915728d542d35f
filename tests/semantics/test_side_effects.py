"""Side effects of a topology: ``foreach`` and ``print``, which write to no topic or store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import kstreamnb as ks
from kstreamnb.dsl.options import Printed
from tests.semantics.scenario import Engine, Row, Scenario


def write(path: Path, line: str) -> None:
    """Append a line to a file, which every process of an engine can reach."""
    with path.open("a") as file:
        file.write(f"{line.strip()}\n")


def by_foreach(path: Path) -> ks.Topology:
    """A function for each record."""
    builder = ks.StreamsBuilder()
    builder.stream("in").foreach(lambda key, value: write(path, f"[in]: {key}, {value}"))
    return builder.build()


def by_print(path: Path) -> ks.Topology:
    """A line for each record, as Kafka prints it."""
    builder = ks.StreamsBuilder()
    builder.stream("in").print(Printed(label="in", write=partial(write, path)))
    return builder.build()


@pytest.mark.parametrize("build", [by_foreach, by_print])
def test_a_function_is_called_once_for_each_record(
    engine: Engine, tmp_path: Path, build: Callable[[Path], ks.Topology]
) -> None:
    """S0-03: in order, on every engine."""
    path, lines = tmp_path / "told", [f"[in]: k, {value}" for value in range(3)]
    engine.run(Scenario(lambda: build(path), tuple(Row("in", "k", value, value) for value in range(3))))
    told = path.read_text().splitlines()
    assert dict.fromkeys(lines, engine.copies) == Counter(told)
    if engine.copies == 1:
        assert lines == told
