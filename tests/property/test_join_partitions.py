"""Joins produce the same tables for any number of partitions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.serdes import Serdes
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology

TEXT = {"default.key.serde": Serdes.string(), "default.value.serde": Serdes.string()}

updates = st.lists(
    st.tuples(
        st.sampled_from(["left", "right"]),
        st.sampled_from("abcde"),
        st.sampled_from([None, "a", "b", "c", "ab", "bc", "de"]),
    ),
    max_size=25,
)


def pair(left: Any, right: Any) -> str:
    """Both values as text, ``-`` for a missing one."""
    return f"{left or '-'}/{right or '-'}"


def first_letter(value: str) -> str:
    """The foreign key of a value."""
    return value[0]


def foreign_key_join(how: str) -> Topology:
    """Left rows with the right row that their first letter names."""
    builder = StreamsBuilder()
    left, right = builder.table("left"), builder.table("right")
    join = left.left_join if how == "left" else left.join
    join(right, first_letter, pair).to_stream().to("out")
    return builder.build()


def primary_key_join(how: str) -> Topology:
    """Rows of both tables by key."""
    builder = StreamsBuilder()
    left, right = builder.table("left"), builder.table("right")
    {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[how](right, pair).to_stream().to("out")
    return builder.build()


def run(topology: Topology, rows: list[tuple[str, str, str | None]], partitions: dict[str, int]) -> dict[str, str]:
    """Return the final joined table: the last value of each key."""
    with TopologyTestDriver(topology, TEXT, partitions=partitions) as driver:
        topics = {name: driver.create_input_topic(name) for name in ("left", "right")}
        for time, (topic, key, value) in enumerate(rows):
            topics[topic].pipe_input(key, value, at=time)
        out = driver.create_output_topic("out")
        table = {} if out.is_empty() else out.read_key_values_to_map()
    return {key: value for key, value in table.items() if value is not None}


def tables(rows: list[tuple[str, str, str | None]]) -> tuple[dict[str, str], dict[str, str]]:
    """The final rows of both sides."""
    found: dict[str, dict[str, str]] = {"left": {}, "right": {}}
    for topic, key, value in rows:
        found[topic].pop(key, None)
        if value is not None:
            found[topic][key] = value
    return found["left"], found["right"]


@pytest.mark.parametrize("how", ["inner", "left"])
@given(updates, st.integers(1, 4), st.integers(1, 4))
def test_a_foreign_key_join_needs_no_equal_partitions(
    how: str, rows: list[tuple[str, str, str | None]], left_partitions: int, right_partitions: int
) -> None:
    """Subscriptions and answers are routed between tables with any two partition counts."""
    left, right = tables(rows)
    expected = {
        key: pair(value, right.get(value[0])) for key, value in left.items() if how == "left" or value[0] in right
    }
    assert expected == run(foreign_key_join(how), rows, {"left": left_partitions, "right": right_partitions})


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@given(updates, st.integers(1, 4))
def test_a_join_by_key_gives_the_same_table_for_any_partitions(
    how: str, rows: list[tuple[str, str, str | None]], partitions: int
) -> None:
    """Co-partitioned tables are joined partition by partition."""
    left, right = tables(rows)
    keys = {"inner": left.keys() & right.keys(), "left": left.keys(), "outer": left.keys() | right.keys()}[how]
    expected = {key: pair(left.get(key), right.get(key)) for key in keys}
    assert expected == run(primary_key_join(how), rows, {"left": partitions, "right": partitions})
