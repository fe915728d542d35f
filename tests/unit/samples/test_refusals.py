"""What samples and topics of tests refuse because it would change nothing, or could not be meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    """S0-15: advance without start would be ignored: the topic's clock has an advance of its own."""
    topic = driver().create_input_topic("in")
    with pytest.raises(ConfigError, match='advance "1m" between records has no start') as caught:
        topic.pipe_key_value_list([("a", 1)], advance="1m")
    assert "auto_advance=" in "".join(caught.value.__notes__)
    with pytest.raises(ConfigError, match="has no start"):
        topic.pipe_value_list([1], advance="1m")


@pytest.mark.parametrize("option", [{"at": 5}, {"partition": 1}, {"headers": (("h", b"1"),)}])
def test_a_record_is_piped_as_it_is(option: Any) -> None:
    """Time, partition and headers beside a whole record would be ignored."""
    with pytest.raises(ConfigError, match=f"so {next(iter(option))} would change nothing"):
        driver().create_input_topic("in").pipe_input(TopicRecord("in", 0, 0, 7, "a", 1), **option)


def test_options_that_choose_partitions_need_partitions_to_choose() -> None:
    """A key serde of typed records serves for nothing else."""
    with pytest.raises(ConfigError, match="key_serde chooses partitions"):
        ks.Sample.from_text("key\na", topic="t", key_serde=ks.Serdes.long())


def test_a_samples_own_file_keeps_its_partitions(tmp_path: Path) -> None:
    """Options for columns are refused where no columns are named."""
    path = tmp_path / "records.jsonl"
    ks.Sample.from_text("key\na", topic="t").to_json_lines(path)
    with pytest.raises(ConfigError, match='option "partitions" is for files whose columns are named'):
        ks.Sample.from_json_lines(path, partitions=4)


@pytest.mark.parametrize(
    ("topics", "options", "fact"),
    [
        ((), {}, "a capture names no topic"),
        ((["orders", "payments"],), {}, "is named by text, not by a list"),
        (("",), {}, "is named by text, not by an empty one"),
        (("orders",), {"records": 0}, "a capture cannot end after 0 records"),
        (("orders",), {"seconds": -1.0}, "a capture cannot end after -1.0 seconds"),
        (("orders",), {"bytes": "1k"}, "the limit of bytes of a capture is a number, not a str"),
        (("orders",), {"follow": True, "records": None, "seconds": None}, "follows its topics has no limit"),
        (("orders",), {"redact": "card"}, 'redact="card" is one text'),
    ],
)
def test_a_capture_that_cannot_be_meant_is_refused_before_it_looks_for_a_broker(
    topics: Any, options: dict[str, Any], fact: str
) -> None:
    """Each with the argument and its value in the words."""
    with pytest.raises(ConfigError, match=fact.replace("(", r"\(")):
        ks.Sample.capture("localhost:1", *topics, **options)
