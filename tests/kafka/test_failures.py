"""Records that cannot be processed, and applications that are reset."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from confluent_kafka import Producer

import kstreamnb as ks
from kstreamnb.kafka.application_reset import reset
from kstreamnb.kafka.producer import produce
from tests.command_line import invoke
from tests.kafka.apps import PATIENCE_S, START_MS, Bench, counting, counts, final, settle

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def dividing(name: str) -> ks.Topology:
    """Fails on the value 0."""
    builder = ks.StreamsBuilder(name)
    quotients = builder.stream(f"{name}-in", value_serde="long").map_values(lambda value: 12 // value)
    quotients.to(f"{name}-out", value_serde="long")
    return builder.build()


def poisoned(bench: Bench, topic: str) -> None:
    """Good, zero, unreadable, good."""
    bench.admin.create_topic(topic)
    producer = Producer({"bootstrap.servers": bench.servers})
    for at, value in enumerate((3, 0, None, 4)):
        data = b"three bytes" if value is None else value.to_bytes(8, "big")
        producer.produce(topic, data, b"k%d" % at, 0, timestamp=START_MS + at)
    producer.flush()


def test_a_poison_record_stops_a_query_that_is_set_to_fail(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """S0-10: the error names node, coordinates and the user's line, in a few lines; the user's exception is the
    cause. The log has it once, without a traceback of Py4J, whose own problems are logged.
    """
    poisoned(bench, "poison-in")
    with pytest.raises(ks.errors.ProcessingError) as caught:
        bench.run(dividing("poison"))
    error = caught.value
    assert 'node "KSTREAM-MAPVALUES-0000000001" failed with ZeroDivisionError' == error.message
    assert ("poison-in", 0, 1, START_MS + 1) == error.coordinates
    assert "test_failures.py" in str(error.origin)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert len("\n".join([str(error), *error.__notes__]).splitlines()) < 8
    assert [] == bench.read("poison-out")
    logging.getLogger("py4j.clientserver").error("a problem of Py4J", exc_info=RuntimeError("lost"))
    errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert ["kstreamnb.query", "py4j.clientserver"] == [each.name for each in errors]
    assert errors[0].getMessage().startswith("poison: failed (error ProcessingError, message node ")
    assert "a problem of Py4J" == errors[1].getMessage()


def test_a_poison_record_never_blocks_a_query_that_is_set_to_continue(bench: Bench) -> None:
    """S0-10: records that cannot be read or processed are skipped, counted, and kept as dead letters with their
    headers.
    """
    poisoned(bench, "skip-in")
    config = {
        "deserialization_handler": "continue",
        "processing_handler": "continue",
        "dead_letter_topic": "skip-letters",
    }
    query = bench.run(dividing("skip"), config=config)
    assert [("k0", 4), ("k3", 3)] == [(key, value) for key, value, _ in bench.read("skip-out")]
    assert 2 == sum(figures.dropped for figures in query.recent())
    settle(bench.admin, "skip-letters")
    raw = {"key_serde": ks.Serdes.bytes(), "value_serde": ks.Serdes.bytes()}
    letters = ks.Sample.capture(bench.servers, "skip-letters", seconds=PATIENCE_S, **raw)
    assert [(b"k1", bytes(8)), (b"k2", b"three bytes")] == sorted((record.key, record.value) for record in letters)
    headers: list[dict[str, Any]] = [dict(record.headers) for record in letters]
    assert {b"1", b"2"} == {each["__streams.errors.offset"] for each in headers}
    assert {b"skip-in"} == {each["__streams.errors.topic"] for each in headers}


def test_a_failed_query_goes_on_when_the_code_is_mended(bench: Bench) -> None:
    """S3-16: nothing of the failed batch is visible; the fixed topology processes it again."""
    poisoned(bench, "mended-in")
    with pytest.raises(ks.errors.ProcessingError):
        bench.run(dividing("mended"), config={"deserialization_handler": "continue"})
    builder = ks.StreamsBuilder("mended")
    quotients = builder.stream("mended-in", value_serde="long").map_values(lambda value: 12 // value if value else 0)
    quotients.to("mended-out", value_serde="long")
    bench.run(builder.build(), config={"deserialization_handler": "continue"})
    assert [4, 0, 3] == [value for _, value, _ in bench.read("mended-out")]


def test_the_uncaught_handler_decides_whether_a_failed_query_starts_again(bench: Bench) -> None:
    """S0-10: "replace_thread" restarts it, but not forever on the same record; the handler sees the error."""
    poisoned(bench, "replaced-in")
    seen: list[str] = []

    def handler(error: BaseException) -> str:
        seen.append(type(error).__name__)
        return "replace_thread"

    config = {"deserialization_handler": "continue", "uncaught_handler": handler}
    query = bench.deploy(dividing("replaced"), config=config)
    end = time.monotonic() + PATIENCE_S
    while (len(seen) < 2 or query.is_active()) and time.monotonic() < end:
        time.sleep(0.1)
    assert ["ProcessingError"] * 2 == seen
    assert "failed" == query.status().state
    assert [] == bench.read("replaced-out")


def test_a_running_application_is_not_reset(bench: Bench) -> None:
    """S3-18, S2-48: refused while it runs; afterwards everything it owns is deleted; inputs and outputs remain."""
    bench.fill("kept-in", 10)
    query = bench.deploy(counting("kept"), changelogs=True)
    assert query.await_input(PATIENCE_S)
    with pytest.raises(ks.errors.ApplicationStateError, match='application "kept" is running'):
        reset(bench.servers, "kept", checkpoint=query.checkpoint, dry_run=True)
    query.stop()
    command = ["reset", "--servers", bench.servers, "--application-id", "kept", "--checkpoint", str(query.checkpoint)]
    dry = invoke([*command, "--dry-run"])
    assert 0 == dry.exit_code, dry.output
    assert "delete topic kept-counts-changelog" in dry.output
    assert query.checkpoint.exists()
    assert "done" in invoke([*command, "--yes"]).output
    assert not query.checkpoint.exists()
    there = bench.admin.topics()
    assert {"kept-in", "kept-out"} <= there.keys()
    assert not {"kept-commits", "kept-counts-changelog"} & there.keys()
    bench.run(counting("kept"))
    assert 20 == len(bench.read("kept-out"))


def test_a_reset_says_where_the_next_deployment_begins(bench: Bench) -> None:
    """S1-05, S1-41, S3-17: rewound to an offset; the plan warns about readers of the output."""
    records = bench.fill("again-in", 10)
    bench.run(counting("again"))
    plan = reset(
        bench.servers,
        "again",
        topology=counting("again"),
        checkpoint=bench.folder / "checkpoint",
        input_topics={"again-in": 3},
    )
    assert {"again-in": {0: 3}} == plan.positions
    assert "output topic again-out keeps offsets 0: 0 to 1" in str(plan)
    bench.run(counting("again"))
    assert 17 == len(bench.read("again-out"))
    assert counts(records[3:]) == final(bench.read("again-out")[10:])


def test_a_reset_takes_the_flags_of_kafkas_tool(bench: Bench) -> None:
    """S3-18: to an instant, by a duration, shifted; two options at once are refused."""
    bench.fill("flags-in", 10)
    bench.run(counting("flags"))
    checkpoint = bench.folder / "checkpoint"
    asked = {"checkpoint": checkpoint, "input_topics": ["flags-in"]}
    assert {"flags-in": {0: 10}} == reset(bench.servers, "flags", to="latest", **asked, dry_run=True).positions
    assert {"flags-in": {0: 8}} == reset(bench.servers, "flags", shift_by=-2, **asked, dry_run=True).positions
    assert {"flags-in": {0: 0}} == reset(bench.servers, "flags", by_duration="9999d", **asked, dry_run=True).positions
    command = ["reset", "--servers", bench.servers, "--application-id", "flags", "--input-topics", "flags-in"]
    command += ["--checkpoint", str(checkpoint)]
    shown = invoke([*command, "--to-datetime", "2000-01-01T00:00Z", "--dry-run"])
    assert "begin topic flags-in at offsets 0: 0" in shown.output
    assert 2 == invoke([*command, "--to-latest", "--shift-by", "1"]).exit_code


YEAR_9999_MS = 253_402_214_400_000


def retimed(name: str) -> ks.Topology:
    """Gives records a time in the year 9999 if their value is 1, and repeats those with 2 a million times."""

    class Retime(ks.Processor):
        def process(self, record: ks.Record) -> None:
            if record.value == 1:
                record = record.with_timestamp(YEAR_9999_MS)
            self.context.forward(record.with_value("x" * 1_000_000 if record.value == 2 else str(record.value)))

    builder = ks.StreamsBuilder(name)
    builder.stream(f"{name}-in", value_serde="long").process(Retime).to(f"{name}-out", value_serde="string")
    return builder.build()


@pytest.mark.parametrize("exists", [True, False], ids=["known topic", "new topic"])
def test_the_production_handler_decides_about_records_that_a_topic_refuses(bench: Bench, *, exists: bool) -> None:
    """A time in the year 9999, and more bytes than the producer sends: as in Kafka Streams, and in the driver."""
    name = f"refused-{exists}".lower()
    bench.fill(f"{name}-in", 5)
    if exists:
        bench.admin.create_topic(f"{name}-out")
    query = bench.run(retimed(name), config={"production_handler": "continue"})
    assert ["0", "3", "4"] == [value for _, value, _ in bench.read(f"{name}-out", ks.Serdes.string())]
    assert 2 == sum(figures.dropped for figures in query.recent())


def test_a_record_that_is_too_large_becomes_a_dead_letter(bench: Bench) -> None:
    """The dead letter holds the source record; one of the year 9999 would be refused again, as in Kafka Streams."""
    bench.admin.create_topic("large-in")
    record = ks.TopicRecord("large-in", 0, 0, START_MS, "k", 2)
    produce(bench.servers, [record], value_serde=ks.Serdes.long())
    bench.run(retimed("large"), config={"production_handler": "continue", "dead_letter_topic": "large-letters"})
    assert [("k", 2, START_MS)] == bench.read("large-letters", ks.Serdes.long())


@pytest.mark.parametrize(("value", "words"), [(1, "timestamp"), (2, "too large|size")])
def test_a_refused_record_ends_a_query_that_is_set_to_fail(bench: Bench, value: int, words: str) -> None:
    """The default handler is Kafka's: the error is that of the broker or the producer."""
    name = f"ending-{value}"
    bench.admin.create_topic(f"{name}-in")
    record = ks.TopicRecord(f"{name}-in", 0, 0, START_MS, "k", value)
    produce(bench.servers, [record], value_serde=ks.Serdes.long())
    with pytest.raises(ks.errors.RecordRefusedError, match=f"(?i){words}"):
        bench.run(retimed(name))
