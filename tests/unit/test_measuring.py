"""Figures of this machine: printed with machine and method, beside earlier ones."""

from __future__ import annotations

import pytest

import kstreamnb as ks
from kstreamnb.tools.benchmark import quantiles, word_count


def test_a_figure_says_of_which_machine_and_by_which_method() -> None:
    """S3-10: seconds to restore a million records of a changelog, scaled from the number read."""
    found = ks.testing.benchmark("restore", records=2000)
    assert ("s", ["restore of 1,000,000 records"]) == (found.unit, list(found.figures))
    assert found.figures["restore of 1,000,000 records"] > 0
    first, machine, method = str(found).splitlines()
    assert first.startswith("restore: restore of 1,000,000 records ")
    assert "cores" in machine
    assert "Python 3." in machine
    assert "changelog of 2,000 updates" in method


def test_latency_is_told_by_three_quantiles() -> None:
    """S4-57: the least age that half, 99 of 100 and 999 of 1000 do not exceed."""
    assert {"p50": 500.5, "p99": 990.0, "p999": 999.0} == quantiles([float(age) for age in range(1, 1001)])
    assert {"p50": 7.0, "p99": 7.0, "p999": 7.0} == quantiles([7.0])


def test_what_has_become_slow_is_named() -> None:
    """S4-57: more than twice the published figure."""
    found = ks.testing.Benchmark("latency", {"p50": 201.0, "p99": 580.0}, "ms", "", "")
    assert {"p50": 201.0} == found.worse_than({"p50": 100, "p99": 290}, factor=2)
    assert {} == found.worse_than({"p50": 101, "p99": 290}, factor=2)


def test_the_word_count_has_two_sub_topologies() -> None:
    """S0-06: the measured topology contains a repartition."""
    assert 2 == len(word_count("latency").subtopologies())


def test_an_unknown_benchmark_is_refused() -> None:
    """With the nearest suggestion."""
    with pytest.raises(ks.errors.ConfigError, match='benchmark "latenzy" does not exist') as raised:
        ks.testing.benchmark("latenzy")
    assert 'did you mean "latency"?' == raised.value.hint
    with pytest.raises(ks.errors.ConfigError, match='"exactly_twice"'):
        ks.testing.benchmark("latency", guarantee="exactly_twice")  # type: ignore[arg-type]
