"""Arguments of samples and test topics that would have no effect, or cannot be meant, are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pytest

import kstreamnb as ks
from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import ConfigError


def driver() -> ks.TopologyTestDriver:
    """Copies of a topic."""
    builder = ks.StreamsBuilder("copies")
    builder.stream("in").to("out")
    return ks.TopologyTestDriver(builder.build(), partitions=2)


def test_records_that_are_so_far_apart_have_a_start() -> None:
    """S0-15: advance without start is refused: the topic's clock has its own advance."""
    topic = driver().create_input_topic("in")
    with pytest.raises(ConfigError, match='advance "1m" needs a start') as caught:
        topic.pipe_key_value_list([("a", 1)], advance="1m")
    assert "auto_advance=" in "".join(caught.value.__notes__)
    with pytest.raises(ConfigError, match="needs a start"):
        topic.pipe_value_list([1], advance="1m")


@pytest.mark.parametrize("option", [{"at": 5}, {"partition": 1}, {"headers": (("h", b"1"),)}])
def test_a_record_is_piped_as_it_is(option: Any) -> None:
    """Time, partition and headers beside a whole record are refused."""
    with pytest.raises(ConfigError, match=f"{next(iter(option))} would be ignored"):
        driver().create_input_topic("in").pipe_input(TopicRecord("in", 0, 0, 7, "a", 1), **option)


def test_options_that_choose_partitions_need_partitions_to_choose() -> None:
    """A key serde of typed records has no other use."""
    with pytest.raises(ConfigError, match="key_serde= has no effect without partitions="):
        ks.Sample.from_text("key\na", topic="t", key_serde=ks.Serdes.long())


def test_a_samples_own_file_keeps_its_partitions(tmp_path: Path) -> None:
    """Options for columns are refused without columns."""
    path = tmp_path / "records.jsonl"
    ks.Sample.from_text("key\na", topic="t").to_json_lines(path)
    with pytest.raises(ConfigError, match='option "partitions" applies only to files with named columns'):
        ks.Sample.from_json_lines(path, partitions=4)


@pytest.mark.parametrize(
    ("topics", "options", "fact"),
    [
        ((), {}, "a capture needs at least one topic, got none"),
        ((["orders", "payments"],), {}, "expected the name of a topic, got list"),
        (("",), {}, "expected the name of a topic, got an empty text"),
        (("orders",), {"records": 0}, "records must be greater than 0, got 0"),
        (("orders",), {"seconds": -1.0}, "seconds must be greater than 0, got -1.0"),
        (("orders",), {"bytes": "1k"}, "bytes must be int or None, got '1k'"),
        (("orders",), {"follow": True, "records": None, "seconds": None}, "follows its topics needs a limit"),
        (("orders",), {"redact": "card"}, "redact= must be a list, got 'card'"),
        (("orders",), {"value_serde": {"order": "long"}}, 'value_serde= names topic "order", which is not captured'),
        (("orders",), {"key_serde": {"orders": "lng"}}, 'no built-in serde is called "lng"'),
    ],
)
def test_a_capture_that_cannot_be_meant_is_refused_before_it_looks_for_a_broker(
    topics: Any, options: dict[str, Any], fact: str
) -> None:
    """Each error names the argument and its value."""
    with pytest.raises(ConfigError, match=fact.replace("(", r"\(")):
        ks.Sample.capture("localhost:1", *topics, **options)


ORDERS = """
    topic  | key  | value         | time
    orders | shoe | {"buyer": "a"} | 0
"""


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (lambda sample: sample.hash_keys("bujer", salt="s"), 'no record has the field "bujer"'),
        (lambda sample: sample.redact("buyer", "bujer"), 'no record has the field "bujer"'),
        (lambda sample: sample.with_partitions({"order": 4}), 'the sample has no topic "order"'),
        (lambda sample: sample.disorder(seed=1, by="-5s"), "by must not be negative, got -5000 ms"),
    ],
)
def test_a_slip_of_the_pen_changes_no_sample_in_silence(change: Callable[[ks.Sample], ks.Sample], fact: str) -> None:
    """A mistyped field would remain unhidden, a mistyped topic unmoved."""
    with pytest.raises(ConfigError, match=fact):
        change(ks.Sample.from_text(ORDERS))


def test_a_frame_is_ordered_by_columns_that_it_has() -> None:
    """The error lists the existing ones."""
    frame = pandas.DataFrame({"time": [1], "key": ["a"]})
    with pytest.raises(ConfigError, match='column "tyme" does not exist'):
        ks.Sample.from_dataframe(frame, topic="t", timestamp="time", order_by="tyme")


@pytest.mark.parametrize("cells", [[{"a": 1}, {"a": 0}], [1, "a"], [pandas.Timestamp("2026-01-01", tz="UTC"), 5]])
def test_values_that_cannot_be_compared_order_no_rows(cells: list[Any]) -> None:
    """Dicts, and columns of several types: the error names the column and the types."""
    frame = pandas.DataFrame({"time": [1, 2], "rank": pandas.Series(cells, dtype=object)})
    frames: list[Any] = (
        [frame, pyarrow.table({"time": [1, 2], "rank": cells})] if cells == [{"a": 1}, {"a": 0}] else [frame]
    )
    for each in frames:
        with pytest.raises(ConfigError, match='rows cannot be sorted by "rank"') as caught:
            ks.Sample.from_dataframe(each, topic="t", timestamp="time", order_by="rank")
        assert "not supported between instances of" in (caught.value.detail or "")
