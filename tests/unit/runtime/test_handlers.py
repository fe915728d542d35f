"""Records that cannot be read, processed or written."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serdes import Serdes
from kstreamnb.driver import TopologyTestDriver
from kstreamnb.dsl import StreamsBuilder
from kstreamnb.errors import ProcessingError
from kstreamnb.runtime.handlers import ErrorContext, ErrorResponse, dead_letter


def driver(**config: Any) -> TopologyTestDriver:
    """Divides by the value: a zero fails in the mapper, a text cannot be read, a float cannot be written."""
    builder = StreamsBuilder("handlers")
    stream = builder.stream("in", value_serde=Serdes.long())
    stream.map_values(lambda value: 12 // value if value < 100 else 0.5).to("out", value_serde=Serdes.long())
    return TopologyTestDriver(builder.build(), config)


def run(driver: TopologyTestDriver, *values: Any) -> list[Any]:
    """Pipe values, texts as bytes of another serde, and read the output."""
    for value in values:
        serde = Serdes.string() if isinstance(value, str) else Serdes.long()
        topic = driver.create_input_topic("in", value_serde=serde)
        topic.pipe_input("k", value, at=7, headers=(("h", b"1"),))
    return driver.create_output_topic("out").read_values_to_list()


@pytest.mark.parametrize(
    ("value", "node"), [(0, "KSTREAM-MAPVALUES-0000000001"), ("text", "KSTREAM-SOURCE-0000000000")]
)
def test_by_default_a_failure_ends_the_task(value: Any, node: str) -> None:
    """The error names node, record and the user's line; the original is its cause."""
    with pytest.raises(ProcessingError) as error:
        run(driver(), 3, value)
    assert node == error.value.node
    assert ("in", 0, 1, 7) == error.value.coordinates
    assert error.value.__cause__ is not None
    assert "text" not in "".join([str(error.value), *error.value.__notes__])


def test_the_error_shows_the_line_of_the_failing_function() -> None:
    """The place is the lambda's line, not the kit's."""
    with pytest.raises(ProcessingError) as error:
        run(driver(), 0)
    assert error.value.origin is not None
    assert "12 // value" in error.value.origin.code
    assert "test_handlers.py" == error.value.origin.place


@pytest.mark.parametrize(
    ("setting", "bad", "reason"),
    [
        ("processing_handler", 0, "processing error"),
        ("deserialization_handler", "text", "deserialization"),
        ("production_handler", 100, "production error"),
    ],
)
def test_a_handler_may_let_the_task_go_on(setting: str, bad: Any, reason: str) -> None:
    """The record is counted as dropped and the next one goes through."""
    found = driver(**{setting: "continue"})
    assert [4, 6] == run(found, 3, bad, 2)
    (counted,) = found.engine.tasks["0_0"].counters()["dropped"].items()
    assert reason == counted[0][1]


def test_failed_records_go_to_the_dead_letter_topic_as_they_came() -> None:
    """Raw key and value, the record's time and headers, and what went wrong in six more headers."""
    found = driver(processing_handler="continue", deserialization_handler="continue", dead_letter_topic="dead")
    assert [4] == run(found, 0, "text", 3)
    dead = found.create_output_topic("dead", value_serde=Serdes.bytes()).read_records()
    assert [("k", bytes(8), 7), ("k", b"text", 7)] == [(r.key, r.value, r.timestamp) for r in dead]
    headers = dict(dead[0].headers)
    assert [b"1", b"ZeroDivisionError", b"in", b"0", b"0"] == [
        headers[name]
        for name in ("h", *(f"__streams.errors.{n}" for n in ("exception", "topic", "partition", "offset")))
    ]
    assert "__streams.errors.stacktrace" in headers
    assert "dead" in found.produced_topic_names()


def test_a_function_decides_case_by_case() -> None:
    """It gets the context and the error, and may send records of its own."""
    seen: list[ErrorContext] = []

    def decide(context: ErrorContext, error: BaseException) -> ErrorResponse | str:
        seen.append(context)
        return ErrorResponse("continue", (dead_letter("own", context, error),)) if len(seen) == 1 else "fail"

    found = driver(processing_handler=decide)
    with pytest.raises(ProcessingError):
        run(found, 0, 0)
    assert ["processing", "processing"] == [context.stage for context in seen]
    assert [0, 1] == [context.offset for context in seen]
    assert {"own"} == found.produced_topic_names()


def test_a_handler_skips_only_the_failing_branch() -> None:
    """Nodes beside the failing one still get the record."""
    builder = StreamsBuilder("branches")
    stream = builder.stream("in", value_serde=Serdes.long())
    stream.map_values(lambda value: 1 // value).to("out", value_serde=Serdes.long())
    stream.to("copy", value_serde=Serdes.long())
    found = TopologyTestDriver(builder.build(), {"processing_handler": "continue"})
    found.pipe([TopicRecord("in", -1, -1, 1, "k", 0)])
    assert {"copy"} == found.produced_topic_names()
