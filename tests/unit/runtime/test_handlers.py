"""Records that cannot be read, processed or written."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import pytest

from kstreamnb.core.processor import Processor, ProcessorContext, PunctuationType
from kstreamnb.core.record import Record, TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import Serdes
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.options import Suppressed
from kstreamnb.errors import ConfigError, EngineError, ProcessingError, RecordRefusedError, SerdeError, TopologyError
from kstreamnb.runtime.codegen.record_limits import record_size
from kstreamnb.runtime.context.handlers import DeadLetter, ErrorContext, ErrorResponse, letter_row
from kstreamnb.simulation.cluster import ClusterDriver
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology


def driver(**config: Any) -> TopologyTestDriver:
    """Divides by the value: zero fails in the mapper, text fails when read, a float fails when written."""
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


@pytest.mark.parametrize("handler", ["continue", lambda context, error: "continue"])
@pytest.mark.parametrize("stage", ["deserialization", "processing", "punctuation"])
def test_a_lack_of_memory_skips_no_record(stage: str, handler: Any) -> None:
    """The record could be processed with more memory, so the task ends; Kafka Streams asks no handler either."""

    def exhausted(*_: object) -> Any:
        raise MemoryError

    class Punctual(Processor[Any, Any, Any, Any]):
        def init(self, context: ProcessorContext[Any, Any]) -> None:
            context.schedule("1ms", PunctuationType.STREAM_TIME, exhausted)

        def process(self, record: Record[Any, Any]) -> None:
            """Advance the stream time."""

    class Unreadable(Serde):
        def serialize(self, value: Any) -> bytes:
            return b"bytes"

        def deserialize(self, data: bytes | None) -> Any:
            return exhausted(data)

    builder = StreamsBuilder("exhausted")
    stream = builder.stream("in", value_serde=Unreadable() if stage == "deserialization" else Serdes.long())
    (stream.process(Punctual) if stage == "punctuation" else stream.map_values(exhausted)).to("out")
    driver = TopologyTestDriver(builder.build(), {"deserialization_handler": handler, "processing_handler": handler})
    topic = driver.create_input_topic("in", value_serde=Serdes.long())
    with pytest.raises(ProcessingError) as error:
        topic.pipe_value_list([1, 2], start=1, advance="1ms")
    assert isinstance(error.value.__cause__, MemoryError)


def test_the_error_shows_the_line_of_the_failing_function() -> None:
    """The location is the lambda's line, not the kit's."""
    with pytest.raises(ProcessingError) as error:
        run(driver(), 0)
    assert error.value.origin is not None
    assert "12 // value" in error.value.origin.code
    assert "test_handlers.py" == error.value.origin.place


def test_the_error_of_a_sink_names_the_field_and_what_its_serde_writes() -> None:
    """Field and reason are in the message, the types that the serde writes in the detail."""
    builder = StreamsBuilder("fields")
    stream = builder.stream("in", value_serde=Serdes.long())
    stream.map_values(lambda _: {"trip": {"km": float("nan")}}).to("out")
    with pytest.raises(ProcessingError, match=r'serde "json" cannot write NaN in field "trip\.km"'):
        run(TopologyTestDriver(builder.build()), 1)
    with pytest.raises(ProcessingError) as error:
        run(driver(), 100)
    assert "it writes int from -2**63" in str(error.value.detail)


def test_a_function_without_a_file_is_located_by_the_line_of_its_declaration() -> None:
    """A function that was unpickled may have lost its file: the declaration of its node is shown."""

    def divide(value: int) -> int:
        return value // 0

    halve = FunctionType(divide.__code__.replace(co_filename="<dynamic-code>"), globals())
    builder = StreamsBuilder("unpickled")
    builder.stream("in", value_serde=Serdes.long()).map_values(halve).to("out")
    with pytest.raises(ProcessingError) as error:
        run(TopologyTestDriver(builder.build()), 1)
    assert "map_values(halve)" in str(error.value.origin)


@pytest.mark.parametrize(
    ("setting", "bad", "reason"),
    [
        ("processing_handler", 0, "processing error"),
        ("deserialization_handler", "text", "deserialization"),
        ("production_handler", 100, "production error"),
    ],
)
def test_a_handler_may_let_the_task_go_on(setting: str, bad: Any, reason: str) -> None:
    """The record is counted as dropped and the next one is processed."""
    found = driver(**{setting: "continue"})
    assert [4, 6] == run(found, 3, bad, 2)
    (counted,) = found.tasks.by_id["0_0"].counters()["dropped"].items()
    assert reason == counted[0][1]


def test_failed_records_go_to_the_dead_letter_topic_as_they_came() -> None:
    """Raw key and value, the record's time and headers, and the error in six more headers."""
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
    reason = b'serde "long" cannot read 4 bytes: expected 8 bytes; it reads int from -2**63 to 2**63 - 1'
    assert reason == dict(dead[1].headers)["__streams.errors.message"]
    assert "dead" in found.produced_topic_names()


class Later(Processor[Any, Any, Any, Any]):
    """Forwards each record 5 ms later, with another header."""

    def process(self, record: Record[Any, Any]) -> None:
        """Change time and headers."""
        self.context.forward(record.with_timestamp(record.timestamp + 5).with_headers((("h", b"2"),)))


def test_a_dead_letter_has_time_and_headers_of_the_record_at_the_node_that_failed() -> None:
    """Key and value are the source record's bytes; time and headers are those at the failing node."""
    builder = StreamsBuilder("later")
    later = builder.stream("in", value_serde=Serdes.long()).process(Later)
    later.map_values(lambda value: 1 // value).to("out", value_serde=Serdes.long())
    found = TopologyTestDriver(builder.build(), {"processing_handler": "continue", "dead_letter_topic": "dead"})
    found.create_input_topic("in").pipe_input("k", 0, at=7, headers=(("h", b"1"),))
    (dead,) = found.create_output_topic("dead", value_serde=Serdes.bytes()).read_records()
    assert ("k", bytes(8), 12, ("h", b"2")) == (dead.key, dead.value, dead.timestamp, dead.headers[0])


def test_a_record_that_fails_after_it_waited_has_its_own_place_and_no_other_ones_bytes() -> None:
    """A buffer keeps a record's origin, not its bytes; the current bytes belong to another record."""
    builder = StreamsBuilder("waiting")
    table = builder.table("in", value_serde=Serdes.long()).suppress(Suppressed.until_time_limit("10ms"))
    table.to_stream().map_values(lambda value: 1 // value).to("out", value_serde=Serdes.long())
    found = TopologyTestDriver(builder.build(), {"processing_handler": "continue", "dead_letter_topic": "dead"})
    found.create_input_topic("in").pipe_input("k", 0, at=1)
    found.create_input_topic("in").pipe_input("other", 1, at=20)
    (dead,) = found.create_output_topic("dead", value_serde=Serdes.bytes()).read_records()
    assert (None, None, 1) == (dead.key, dead.value, dead.timestamp)
    assert b"0" == dict(dead.headers)["__streams.errors.offset"]


def test_a_function_decides_case_by_case() -> None:
    """It gets the context and the error, and may send other records."""
    seen: list[ErrorContext] = []

    def decide(context: ErrorContext, error: BaseException) -> ErrorResponse | str:
        seen.append(context)
        return ErrorResponse("continue", [context.dead_letter("own", error)]) if len(seen) == 1 else "fail"

    found = driver(processing_handler=decide)
    with pytest.raises(ProcessingError):
        run(found, 0, 0)
    assert ["processing", "processing"] == [context.stage for context in seen]
    assert [0, 1] == [context.offset for context in seen]
    assert {"own"} == found.produced_topic_names()


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (lambda context, error: "continue", {"dead"}),
        (lambda context, error: ErrorResponse("continue"), set()),
        (lambda context, error: ErrorResponse("continue", [DeadLetter("own", b"k", None, 5)]), {"own"}),
    ],
)
def test_a_word_keeps_the_record_whoever_says_it_and_a_response_keeps_its_own_records(
    answer: Any, kept: set[str]
) -> None:
    """A function that returns a word does what the word alone does, for each of the three handlers."""
    handlers = {f"{name}_handler": answer for name in ("processing", "deserialization", "production")}
    for bad in (0, "text", 200):
        found = driver(**handlers, dead_letter_topic="dead")
        run(found, bad)
        assert kept == found.produced_topic_names()


def test_the_key_of_a_dead_letter_chooses_its_partition_unless_the_handler_does() -> None:
    """As in Kafka's producer; the partition of the source record does not count."""
    builder = StreamsBuilder("keyed")
    builder.stream("in", value_serde=Serdes.long()).map_values(lambda value: 1 // value).to("out")
    partitions = {"in": 1, "out": 1, "dead": 4}
    config = {"processing_handler": "continue", "dead_letter_topic": "dead"}
    found = TopologyTestDriver(builder.build(), config, partitions=partitions)
    for number in range(10):
        found.create_input_topic("in").pipe_input(f"KEY-{number}", 0)
    dead = found.create_output_topic("dead", value_serde=Serdes.bytes()).read_records()
    assert [0, 2, 1, 3, 0, 0, 1, 1, 1, 1] == [record.partition for record in sorted(dead, key=lambda each: each.key)]
    letter = DeadLetter("dead", b"KEY-0", None, 5, {"why": b"zero"}, partition=3)
    config = {"processing_handler": lambda context, error: ErrorResponse("continue", [letter])}
    found = TopologyTestDriver(builder.build(), config, partitions=partitions)
    found.create_input_topic("in").pipe_input("k", 0)
    (dead,) = found.create_output_topic("dead").read_records()
    assert (3, "KEY-0", 5, (("why", b"zero"),)) == (dead.partition, dead.key, dead.timestamp, dead.headers)
    with pytest.raises(EngineError, match="chose partition 3"):
        letter_row(letter, partitions=3)


def test_letters_of_a_function_are_in_the_order_of_their_records_without_a_dead_letter_topic() -> None:
    """The topic of an own letter may be one that a sink writes too."""
    builder = StreamsBuilder("mixed")
    builder.stream("in", value_serde=Serdes.long()).map_values(lambda value: 6 // value).to("out")

    def decide(context: ErrorContext, error: BaseException) -> ErrorResponse:
        return ErrorResponse("continue", [DeadLetter("out", context.raw_key, b'"none"', context.timestamp)])

    found = TopologyTestDriver(builder.build(), {"processing_handler": decide})
    found.pipe([TopicRecord("in", -1, -1, at, "k", value) for at, value in enumerate((1, 0, 2, 0, 3))])
    assert [6, "none", 3, "none", 2] == found.create_output_topic("out").read_values_to_list()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DeadLetter("dead", "k", None, 5), "key of a dead letter must be"),
        (lambda: DeadLetter("dead", b"k", None, 0.5), "timestamp of a dead letter must be a 64-bit integer"),
        (lambda: DeadLetter(None, b"k", None, 5), "topic name must be a string"),
        (lambda: ErrorResponse("resume"), 'expected the action "fail" or "continue", got "resume"'),
        (lambda: ErrorResponse("fail", ["k"]), "a dead letter must be DeadLetter"),
    ],
)
def test_answers_of_handlers_are_checked_when_they_are_made(make: Any, message: str) -> None:
    """The handler's own line makes the mistake."""
    with pytest.raises((ConfigError, TopologyError), match=message):
        make()


def _broken(context: ErrorContext, error: BaseException) -> str:
    return context.nothing  # type: ignore[attr-defined, no-any-return]


def _silent(context: ErrorContext, error: BaseException) -> None:
    return None


@pytest.mark.parametrize(
    ("setting", "bad", "node", "asked"),
    [
        ("processing_handler", 0, "KSTREAM-MAPVALUES-0000000001", "ZeroDivisionError"),
        ("deserialization_handler", "text", "KSTREAM-SOURCE-0000000000", "SerdeError"),
        ("production_handler", 100, "KSTREAM-SINK-0000000002", "SerdeError"),
    ],
)
def test_a_handler_that_fails_is_named_with_its_line_and_the_error_it_was_asked_about(
    setting: str, bad: Any, node: str, asked: str
) -> None:
    """Its own error and the one before are kept; no other handler is asked about it."""
    others = {"processing_handler": "continue"} | {setting: _broken}
    with pytest.raises(
        ProcessingError, match=f'error handler "_broken" failed with AttributeError, asked about {asked}'
    ) as error:
        run(driver(**others), bad)
    assert node == error.value.node
    assert "context.nothing" in str(error.value.origin)
    refused = error.value.__cause__
    assert isinstance(refused, ConfigError)
    assert refused.java == f"Fatal user code error in {setting.partition('_')[0]} error callback"
    own = refused.__cause__
    assert isinstance(own, AttributeError)
    assert asked == type(own.__context__).__name__
    with pytest.raises(ProcessingError, match=f'error handler "_silent" answered NoneType about {asked}') as error:
        run(driver(**(others | {setting: _silent})), bad)
    assert node == error.value.node


def test_a_handler_of_other_arguments_is_refused_where_it_is_set() -> None:
    """Not at the first error, when it is needed."""
    for setting in ("processing_handler", "deserialization_handler", "production_handler"):
        with pytest.raises(ConfigError, match=rf"as {setting} taking \(context, error\), but this one takes \(error\)"):
            driver(**{setting: lambda error: "continue"})
    with pytest.raises(ConfigError, match=r"as uncaught_handler taking \(error\), but this one takes \(\)"):
        driver(uncaught_handler=lambda: "replace_thread")


def test_a_handler_skips_only_the_failing_branch() -> None:
    """Sibling nodes of the failing one still get the record."""
    builder = StreamsBuilder("branches")
    stream = builder.stream("in", value_serde=Serdes.long())
    stream.map_values(lambda value: 1 // value).to("out", value_serde=Serdes.long())
    stream.to("copy", value_serde=Serdes.long())
    found = TopologyTestDriver(builder.build(), {"processing_handler": "continue"})
    found.pipe([TopicRecord("in", -1, -1, 1, "k", 0)])
    assert {"copy"} == found.produced_topic_names()


class Ticking(Processor[Any, Any, Any, Any]):
    """Fails in its first punctuation, and forwards an unserializable value in its second."""

    def init(self, context: Any) -> None:
        """Tick every 10 ms of wall clock."""
        super().init(context)
        self.ticks = 0
        context.schedule("10ms", "wall_clock_time", self.tick)

    def process(self, record: Record[Any, Any]) -> None:
        """Nothing."""

    def tick(self, now: int) -> None:
        """Fail, each time in another way, and then succeed."""
        self.ticks += 1
        if self.ticks == 1:
            raise ZeroDivisionError
        self.context.forward(Record("k", 0.5 if self.ticks == 2 else self.ticks, now))


def test_a_failing_punctuator_is_the_processing_handlers_and_what_it_cannot_write_the_production_handlers() -> None:
    """S0-10: no record is responsible: no topic, no offset, no bytes; later punctuations continue."""
    seen: list[ErrorContext] = []

    def decide(context: ErrorContext, error: BaseException) -> str:
        seen.append(context)
        return "continue"

    topology = Topology().add_source("in", "in").add_processor("ticking", Ticking, "in")
    topology.add_sink("out", "out", "ticking", value_serde=Serdes.long())
    config = {"processing_handler": decide, "production_handler": decide, "dead_letter_topic": "dead"}
    found = TopologyTestDriver(topology, config)
    for _ in range(3):
        found.advance_wall_clock_time("10ms")
    assert [3] == found.create_output_topic("out").read_values_to_list()
    assert [("punctuation", "ticking"), ("production", "out")] == [(each.stage, each.node) for each in seen]
    assert {(None, -1, -1, None)} == {(each.topic, each.partition, each.offset, each.raw_value) for each in seen}
    assert 2 == found.metrics()["dropped-records-total"]["0_0"]
    letters = found.create_output_topic("dead", "bytes", "bytes").read_records()
    assert [None, None] == [dict(each.headers)["__streams.errors.topic"] for each in letters]


class Shaky:
    """A mapper that fails on its second call, and on later ones only if ``stays`` is true."""

    def __init__(self, *, stays: bool) -> None:
        self.calls, self.stays = 0, stays

    def __call__(self, value: int) -> int:
        """The value itself."""
        self.calls += 1
        if self.calls == 2 or (self.stays and self.calls > 2):
            raise ConnectionError("the service is away")
        return value


def cluster(answer: Any, *, stays: bool) -> tuple[ClusterDriver, Any]:
    """Three records for a flaky count, under exactly once."""
    builder = StreamsBuilder("shaky")
    counts = builder.stream("in", value_serde=Serdes.long()).map_values(Shaky(stays=stays)).group_by_key().count()
    counts.to_stream().to("out", value_serde=Serdes.long())
    made = ClusterDriver(builder.build(), {"uncaught_handler": answer})
    for value in (1, 2, 3):
        made.create_input_topic("in").pipe_input("k", value, at=value)
    return made, made.create_output_topic("out")


def test_a_replaced_thread_takes_over_from_the_last_commit() -> None:
    """S0-10: nothing of the failed attempt is visible, every record counts once."""
    asked: list[BaseException] = []

    def handler(error: BaseException) -> str:
        asked.append(error)
        return "REPLACE_THREAD"

    driver, out = cluster(handler, stays=False)
    driver.run_ready()
    driver.advance_wall_clock_time("1s")
    assert [1, 2, 3] == out.read_values_to_list()
    assert [("ProcessingError", "replace_thread")] == [
        (type(error).__name__, event.numbers["answer"])
        for error, event in zip(asked, driver.events("failed"), strict=True)
    ]
    assert "running" == driver.application.status


def test_a_record_that_fails_every_thread_ends_the_application() -> None:
    """S0-10: Kafka Streams would start new threads forever; here the second failure of one record is final."""
    driver, out = cluster("replace_thread", stays=True)
    with pytest.raises(ProcessingError) as error:
        driver.run_ready()
    assert any("fails on this record" in note for note in error.value.__notes__)
    assert "crashed" == driver.application.status
    assert [] == out.read_values_to_list()


@pytest.mark.parametrize("answer", ["SHUTDOWN_CLIENT", "shutdown_application"])
def test_an_application_that_shuts_down_stays_where_it_committed(answer: str) -> None:
    """S0-10: the error is raised and the application stops; after a restart it continues from its commit."""
    driver, out = cluster(answer, stays=False)
    with pytest.raises(ProcessingError):
        driver.run_ready()
    assert ("crashed", answer.lower()) == (driver.application.status, driver.events("failed")[0].numbers["answer"])
    driver.application.restart()
    driver.run_ready()
    driver.advance_wall_clock_time("1s")
    assert [1, 2, 3] == out.read_values_to_list()


def test_an_uncaught_handler_has_three_answers() -> None:
    """Other answers are refused when the setting is given, or when the handler returns them."""
    with pytest.raises(ConfigError):
        cluster("restart", stays=False)
    driver, _ = cluster(lambda error: "restart", stays=False)
    with pytest.raises(ConfigError):
        driver.run_ready()


def sized(**config: Any) -> TopologyTestDriver:
    """Copies values, with a limit of 100 bytes per record."""
    builder = StreamsBuilder("sized")
    builder.stream("in").to("out")
    return TopologyTestDriver(builder.build(), {"max.request.size": 100, **config})


def test_a_record_larger_than_max_request_size_fails_with_its_size() -> None:
    """The estimate is that of Kafka's producer: 61 + 21 bytes, and lengths before key, value and headers."""
    driver = sized()
    source = driver.create_input_topic("in")
    source.pipe_input("k", "x" * 12)  # with quotation marks 14 bytes: exactly the limit
    assert record_size(b"k", b'"' + b"x" * 12 + b'"', ()) == 100
    with pytest.raises(ProcessingError, match=r"101 bytes, max\.request\.size is 100") as error:
        source.pipe_input("k", "x" * 13)
    assert isinstance(error.value.__cause__, RecordRefusedError)
    assert "The message is 101 bytes when serialized which is larger than 100" in str(error.value.__cause__.java)
    assert len(driver.create_output_topic("out").read_values_to_list()) == 1


@pytest.mark.parametrize("name", ["max.request.size", "producer.max.request.size"])
def test_the_production_handler_decides_about_a_record_that_is_too_large(name: str) -> None:
    """It may drop the record; a dead letter holds the source record."""
    asked: list[tuple[str, str]] = []

    def handler(context: ErrorContext, error: BaseException) -> str:
        asked.append((context.stage, type(error).__name__))
        return "continue"

    driver = sized(production_handler=handler, **{name: 100})
    source = driver.create_input_topic("in")
    source.pipe_input("k", "x" * 13)
    source.pipe_input("k", "x")
    assert asked == [("production", "RecordRefusedError")]
    assert driver.create_output_topic("out").read_values_to_list() == ["x"]
    letters = sized(production_handler="continue", dead_letter_topic="dead")
    letters.create_input_topic("in").pipe_input("k", "x" * 13)
    (letter,) = letters.create_output_topic("dead", "string", "string").read_records()
    assert letter.value == '"' + "x" * 13 + '"'


@pytest.mark.parametrize(("at", "taken"), [(0, True), (1_000, True), (1_001, False), (253_402_214_400_000, False)])
def test_the_production_handler_decides_about_a_time_that_the_topic_refuses(at: int, taken: bool) -> None:
    """A topic that accepts times up to a second ahead of the wall clock refuses those of the year 9999."""
    driver = sized(production_handler="continue", **{"topic.message.timestamp.after.max.ms": "1000"})
    driver.create_input_topic("in").pipe_input("k", "x", at=at)
    assert driver.create_output_topic("out").read_values_to_list() == ["x"] * taken
    assert driver.metrics()["dropped-records-total"] == {"0_0": 1 - taken}


def test_limits_are_whole_numbers() -> None:
    """A mistyped limit is refused before the first record."""
    with pytest.raises(ConfigError, match="must be an integer"):
        sized(**{"max.request.size": "1MB"})


class Failing(Processor):
    """A processor whose punctuator on the wall clock fails."""

    def init(self, context: ProcessorContext) -> None:
        context.schedule("10ms", PunctuationType.WALL_CLOCK_TIME, self.tick)

    def tick(self, now_ms: int) -> None:
        raise ValueError("bang")


@pytest.mark.parametrize(
    "config", [{}, {"dead_letter_topic": "dead"}, {"processing_handler": lambda context, error: "fail"}]
)
def test_a_failing_punctuator_names_its_node_whatever_is_configured(config: dict[str, Any]) -> None:
    """Also if a handler or a dead-letter topic took part in the decision."""
    builder = StreamsBuilder("ticking")
    builder.stream("in").process(Failing, name="ticker")
    driver = TopologyTestDriver(builder.build(), config)
    with pytest.raises(ProcessingError, match='node "ticker" failed with ValueError') as error:
        driver.advance_wall_clock_time("10ms")
    assert isinstance(error.value.__cause__, ValueError)


def test_the_cause_of_an_error_is_that_of_a_handler_which_fails_at_a_punctuator() -> None:
    """As at records: the error of the handler, whose own cause is what it raised."""
    builder = StreamsBuilder("ticking")
    builder.stream("in").process(Failing, name="ticker")
    driver = TopologyTestDriver(builder.build(), {"processing_handler": lambda context, error: {}["answer"]})
    with pytest.raises(ProcessingError, match="failed with KeyError, asked about ValueError") as error:
        driver.advance_wall_clock_time("10ms")
    assert isinstance(error.value.__cause__, ConfigError)
    assert isinstance(error.value.__cause__.__cause__, KeyError)


def test_a_failure_below_a_punctuator_names_the_node_and_in_javas_words_the_punctuators() -> None:
    """The error is about the node that failed; Kafka Streams names the node whose punctuator ran."""

    class Ticking(Failing):
        def init(self, context: ProcessorContext) -> None:
            self.context = context
            super().init(context)

        def tick(self, now_ms: int) -> None:
            self.context.forward(Record("k", "v", now_ms))

    builder = StreamsBuilder("ticking")
    builder.stream("in").process(Ticking, name="ticker").map_values(lambda value: int(value), name="numbers")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(ProcessingError, match='node "numbers" failed with ValueError') as error:
        driver.advance_wall_clock_time("10ms")
    java = "stream-thread [main] task [0_0] Exception caught while punctuating processor 'ticker'"
    assert error.value.java == java


def sink_that_fails(kind: str, **config: Any) -> TopologyTestDriver:
    """Passes texts on; the record "bad" fails at the sink: its topic, its partition or its bytes cannot be made."""

    def refuse(value: object, *_: object) -> Any:
        if "bad" in str(value):
            raise ValueError(value)
        return {"topic": "out", "partition": 0}.get(kind)

    builder = StreamsBuilder("sinks")
    stream = builder.stream("in", value_serde="string").map_values(lambda value: value)
    if kind == "topic":
        stream.to(lambda key, value, metadata: refuse(value), value_serde="string")
    elif kind == "partition":
        stream.to("out", value_serde="string", partitioner=lambda topic, key, value, number: refuse(value))
    else:
        stream.to("out", value_serde=Serdes.serde_from(lambda value: (refuse(value), value.encode())[1], bytes.decode))
    return TopologyTestDriver(builder.build(), config)


@pytest.mark.parametrize(
    ("kind", "handler", "continues"),
    [
        ("topic", "processing_handler", True),
        ("partition", "processing_handler", True),
        ("bytes", "processing_handler", True),
        ("topic", "production_handler", False),
        ("partition", "production_handler", False),
        ("bytes", "production_handler", True),
    ],
)
def test_the_production_handler_decides_about_bytes_and_the_processing_handler_about_the_rest(
    kind: str, handler: str, continues: bool
) -> None:
    """As in Java: the choice of a topic or partition fails in the node above; bytes go to both handlers in turn."""
    driver = sink_that_fails(kind, **{handler: "continue"})
    topic = driver.create_input_topic("in", value_serde=Serdes.string())
    topic.pipe_input("k", "x", at=1)
    if continues:
        topic.pipe_input("k", "bad", at=2)
    else:
        with pytest.raises(ProcessingError):
            topic.pipe_input("k", "bad", at=2)
    topic.pipe_input("k", "y", at=3)
    out = driver.create_output_topic("out", value_serde=Serdes.string())
    assert ["x", "y"] == out.read_values_to_list()


@pytest.mark.parametrize("kind", ["topic", "partition", "bytes"])
def test_a_failure_at_a_sink_names_it_and_kafka_streams_would_name_the_node_above(kind: str) -> None:
    """In Java, the node above calls its sink, so the failure is its own."""
    with pytest.raises(ProcessingError) as error:
        sink_that_fails(kind).create_input_topic("in", value_serde=Serdes.string()).pipe_input("k", "bad", at=2)
    assert "KSTREAM-SINK-0000000002" == error.value.node
    assert "processor=KSTREAM-MAPVALUES-0000000001, topic=in" in str(error.value.java)


def test_a_handler_gets_the_record_at_the_node_and_the_topic_of_the_sink() -> None:
    """The record as the node got it, not the source record; of a sink also the topic."""
    seen: list[ErrorContext] = []

    def note(context: ErrorContext, error: BaseException) -> str:
        seen.append(context)
        return "continue"

    run(driver(processing_handler=note, production_handler=note), 3, 0, 200)
    processing, production = seen
    assert Record("k", 0, 7, (("h", b"1"),)) == processing.record
    assert processing.target_topic is None
    assert Record("k", 0.5, 7, (("h", b"1"),)) == production.record
    assert ("production", "out") == (production.stage, production.target_topic)


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(
    ("record", "hint"),
    [
        ((7, 1), 'for the key, write .to("out", key_serde="long")'),
        (("a", "b"), 'for the value, write .to("out", value_serde="string")'),
        (({1}, 1), "for the key: name another serde where the topic or store is declared, or convert the value before"),
    ],
)
def test_a_sink_that_cannot_write_a_record_says_which_side_and_the_call(
    record: tuple[Any, Any], hint: str, partitions: int
) -> None:
    """Key and value have separate serdes."""
    builder = StreamsBuilder("sides")
    builder.stream("in").map(lambda key, value: record).to("out", key_serde="string", value_serde="long")
    topic = TopologyTestDriver(builder.build(), partitions=partitions).create_input_topic("in")
    with pytest.raises(ProcessingError, match="cannot write a value") as raised:
        topic.pipe_input("a", 1)
    assert raised.value.hint == hint


def test_a_sink_with_the_users_own_serde_gets_no_other_serde_as_a_hint() -> None:
    """The user chose the serde; without a hint in its own error there is none."""

    def refuse(value: object) -> bytes:
        raise SerdeError("too long")

    builder = StreamsBuilder("silent")
    builder.stream("in").to("out", value_serde=Serdes.serde_from(refuse, bytes))
    topic = TopologyTestDriver(builder.build()).create_input_topic("in")
    with pytest.raises(ProcessingError, match="too long") as raised:
        topic.pipe_input("a", 1)
    assert raised.value.hint is None
