"""Calls as they are written in Java run here, or the error names the call to write instead."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.errors import ConfigError, ProcessingError, UnknownNameError
from kstreamnb.hints import explaining, for_python
from kstreamnb.suggesting import Suggesting
from kstreamnb.tools.python_notes import python_notes
from tests.cases import for_every
from tests.unit.test_completeness import METHODS

SPELT = [
    (kind, java, name)
    for of, java, ours in METHODS
    if issubclass(kind := getattr(ks, of, object), Suggesting)
    and callable(getattr(kind, name := ours.rpartition(".")[2], None))
    and not hasattr(kind, java)
]
"""Our class, Java's name of a method, and ours; for every class that suggests names."""


@for_every(SPELT)
def test_a_name_in_javas_spelling_is_answered_with_ours(case: tuple[type, str, str]) -> None:
    """The list of all of Java's names is that of the completeness test."""
    kind, java, ours = case
    with pytest.raises(UnknownNameError, match=f'has no "{java}"') as caught:
        getattr(kind, java)
    assert caught.value.__notes__[:-1] == [f'Hint: did you mean "{ours}"?']


def test_a_field_of_a_stream_is_answered_with_the_function_that_gets_its_values() -> None:
    """As pandas users write it; anything else is answered as before."""
    error, of_replay = (TypeError(f"'{kind}' object is not subscriptable") for kind in ("KStream", "Replay"))
    call = 'functions get one after another: map_values(lambda value: value["price"])'
    assert str(for_python(error, 'prices = stream["price"]')).endswith(call)
    assert "map_values" not in f"{for_python(error, 'stream[3]')} {for_python(of_replay, 'replay[0]')}"


def test_classes_that_users_call_suggest_names() -> None:
    """Handles, factories, options and the driver are among them."""
    names = {kind.__name__ for kind, _, _ in SPELT}
    assert names >= {"KStream", "KTable", "StreamsBuilder", "Stores", "Serdes", "TimeWindows", "JoinWindows", "Joined"}
    assert names >= {"Materialized", "Suppressed", "Topology", "TopologyTestDriver", "Record"}


def topic() -> Any:
    """The input topic of a driver."""
    builder = ks.StreamsBuilder("app")
    builder.stream("in", key_serde="string", value_serde="string").to("out")
    return ks.TopologyTestDriver(builder.build()).create_input_topic("in", "string", "string")


def query_view() -> Any:
    """Return a store of a driver."""
    builder = ks.StreamsBuilder("app")
    builder.table("in", store="s")
    return ks.TopologyTestDriver(builder.build()).store("s")


STRING = ks.Serdes.string()
SERDE = 'a serde is both: pass "string" or ks.Serdes.long(), or call its serialize(…) and deserialize(…)'
HINTS: dict[str, tuple[Callable[[], object], str]] = {
    "pipeInput": (lambda: topic().pipeInput("k", "v", 5), 'did you mean "pipe_input"?'),
    "persistentKeyValueStore": (
        lambda: ks.Stores.persistentKeyValueStore("s"),  # type: ignore[attr-defined]
        'did you mean "persistent_key_value_store"?',
    ),
    "ofSizeWithNoGrace": (
        lambda: ks.TimeWindows.ofSizeWithNoGrace("5s"),  # type: ignore[attr-defined]
        'did you mean "of_size_with_no_grace"?',
    ),
    "String": (lambda: ks.Serdes.String(), 'did you mean "string"?'),  # type: ignore[attr-defined]
    "window": (
        lambda: ks.Windowed("k", 0, 5).window(),  # type: ignore[attr-defined]
        "a windowed key has .key, .start and .end (ms)",
    ),
    "withValue": (
        lambda: ks.Record("k", "v", 0).withValue("w"),  # type: ignore[attr-defined]
        'did you mean "with_value"?',
    ),
    "StreamsConfig": (
        lambda: ks.StreamsConfig.APPLICATION_ID_CONFIG,  # type: ignore[attr-defined]
        'write settings as a dict: {"application.id": "shop", "statestore.cache.max.bytes": 0}',
    ),
    "KafkaStreams": (
        lambda: ks.KafkaStreams(),  # type: ignore[attr-defined]
        "ks.deploy(topology, …) runs it on Spark, ks.TopologyTestDriver(topology) in this process",
    ),
    "KeyValue": (
        lambda: ks.KeyValue.pair("k", "v"),  # type: ignore[attr-defined]
        "write a pair as a tuple: (key, value)",
    ),
    "WindowedSerdes": (
        lambda: ks.WindowedSerdes.timeWindowedSerdeFrom(STRING),  # type: ignore[attr-defined]
        "ks.Serdes.time_windowed(…) and ks.Serdes.session_windowed(…) make them",
    ),
    "QueryableStoreTypes": (
        lambda: ks.QueryableStoreTypes.keyValueStore(),  # type: ignore[attr-defined]
        'ask by name: query.store("counts"), driver.store("counts")',
    ),
    "Duration": (
        lambda: ks.Duration.ofSeconds(5),  # type: ignore[attr-defined]
        'write a duration as a string such as "5s", or as a timedelta',
    ),
}


HINTS |= {
    name: (lambda name=name: getattr(ks, name), hint)  # type: ignore[misc]
    for name, hint in {
        "StringSerializer": SERDE,
        "TimeUnit": 'write a duration as a string such as "5s", or as a timedelta',
        "Collections": 'write a list: ["orders", "returns"]',
        "TestRecord": 'pipe_input("key", "value", at=5, headers={"name": b"value"}) takes its parts',
        "AutoOffsetReset": 'name it: builder.stream("orders", offset_reset="earliest")',
        "LogAndContinueExceptionHandler": 'write config={"deserialization.exception.handler": "continue"}',
        "ProcessingExceptionHandler": (
            'pass a function: config={"processing.exception.handler": lambda context, error: "continue"}'
        ),
        "MockProcessorContext": "ks.testing.MockProcessorContext has it",
        "ReadOnlyKeyValueStore": (
            'stores need no types: context.get_state_store("counts") and driver.store("counts") return them'
        ),
        "ValueJoiner": "pass a function or a lambda, such as lambda key, value: value",
        "TopicNameExtractor": 'pass a function: stream.to(lambda key, value, context: value["topic"])',
        "TestInputTopic": 'driver.create_input_topic("orders"), driver.create_output_topic("totals")',
        "JsonSerde": SERDE,
        "SpecificAvroSerde": "ks.kafka.SchemaRegistry(url).avro(topic, schema) makes a serde of dicts",
    }.items()
}

HINTS["TopologyTestDriver"] = (lambda: ks.testing.TopologyTestDriver, "write ks.TopologyTestDriver(topology, config)")  # type: ignore[attr-defined]
HINTS["approximateNumEntries"] = (
    lambda: query_view().approximateNumEntries(),
    'did you mean "approximate_num_entries"?',
)


GLOBAL = ks.StreamsBuilder("app").global_table("rates")

HINTS |= {
    "flat_transform": (
        lambda: ks.StreamsBuilder("app").stream("in").flat_transform(max),  # type: ignore[attr-defined]
        "process(…) runs a ks.Processor, which may forward any number of records",
    ),
    "errors.StreamsException": (
        lambda: ks.errors.StreamsException,  # type: ignore[attr-defined]
        "ks.errors.KStreamError is the base of all errors",
    ),
    "errors.SerializationException": (
        lambda: ks.errors.SerializationException,  # type: ignore[attr-defined]
        "ks.errors.SerdeError is the error of serdes",
    ),
    "Windows": (
        lambda: ks.Windows,  # type: ignore[attr-defined]
        "custom windows are not supported: for days of a time zone, let a timestamp extractor return local times",
    ),
    "MockProcessorContext.register": (
        lambda: ks.testing.MockProcessorContext().register,  # type: ignore[attr-defined]
        "context.add_state_store(spec) creates the store and registers it",
    ),
    "GlobalKTable.join": (
        lambda: GLOBAL.join(max),  # type: ignore[attr-defined]
        'did you mean "stream.join(global_table, …)"?',
    ),
    "GlobalKTable.to_stream": (
        lambda: GLOBAL.to_stream(),  # type: ignore[attr-defined]
        'did you mean "builder.table(topic).to_stream"?',
    ),
    "Produced.keySerde": (lambda: ks.Produced.keySerde(STRING), 'did you mean "with_key_serde"?'),  # type: ignore[attr-defined]
    "KStream.cogroup": (
        lambda: ks.StreamsBuilder("app").stream("in").cogroup(max),  # type: ignore[attr-defined]
        "group_by_key().cogroup(aggregator): grouped streams have it",
    ),
    "TimeWindows.grace": (
        lambda: ks.TimeWindows.of("5m").grace("1m"),  # type: ignore[attr-defined]
        'name it with the size: ks.TimeWindows.of(size="5m", grace="1m")',
    ),
}


@pytest.mark.parametrize("name", HINTS)
def test_a_call_in_javas_shape_gets_a_hint(name: str) -> None:
    """The hint is the call to write."""
    call, hint = HINTS[name]
    with pytest.raises(UnknownNameError, match=f'has no "{name.rpartition(".")[2]}"') as caught:
        call()
    assert caught.value.__notes__[:-1] == [f"Hint: {hint}"]


class Counting:
    """A supplier as in Java: it makes processors and has their stores."""

    def stores(self) -> list[Any]:
        return [ks.Stores.in_memory_key_value_store("seen", value_serde="long")]

    def get(self) -> ks.Processor[Any, Any, Any, Any]:
        class Count(ks.Processor[Any, Any, Any, Any]):
            def process(self, record: Any) -> None:
                seen = self.context.get_state_store("seen")
                seen.put(record.key, (seen.get(record.key) or 0) + 1)
                self.context.forward(record.with_value(seen.get(record.key)))

        return Count()


def test_the_method_get_of_a_supplier_brings_the_stores_of_the_supplier() -> None:
    """In Java the supplier itself is passed; the error about it names the method to pass."""
    builder = ks.StreamsBuilder("app")
    with pytest.raises(ks.errors.TopologyError, match="needs a supplier") as caught:
        builder.stream("other").process(Counting())  # type: ignore[arg-type]
    assert caught.value.hint == "pass its method: Counting(…).get"
    builder.stream("in").process(Counting().get).to("out")
    of_nodes = ks.Topology().add_source("source", "in").add_processor("count", Counting().get, "source")
    for topology in (builder.build(), of_nodes.add_sink("sink", "out", "count")):
        driver = ks.TopologyTestDriver(topology)
        driver.create_input_topic("in").pipe_key_value_list([("k", 1), ("k", 1)])
        assert driver.create_output_topic("out").read_values_to_list() == [1, 2]


def test_the_arguments_of_javas_overloads_are_taken_in_its_order() -> None:
    """A driver's start time, times of piped lists, an extractor, a partitioner and duplicates of a window store."""
    builder = ks.StreamsBuilder("app")
    read = ks.Consumed.with_("string", "long", lambda record, last_ms: record.timestamp + 1, "earliest")
    builder.stream("in", read).to("out", ks.Produced.with_("string", "long", lambda topic, key, value, count: value))
    driver = ks.TopologyTestDriver(builder.build(), {}, 5, partitions={"out": 2})
    assert driver.clock.now_ms == 5
    driver.create_input_topic("in").pipe_key_value_list([("a", 1), ("a", 0)], 10, "1s")
    driver.create_input_topic("in", "string", "long", 20, "1s").pipe_value_list([1])
    driver.create_input_topic("in").pipe_value_list([1], 30, "1s")
    sent = driver.create_output_topic("out").read_records()
    assert sorted((each.partition, each.timestamp) for each in sent) == [(0, 1011), (1, 11), (1, 21), (1, 31)]
    assert ks.Stores.in_memory_window_store("w", "1h", "5m", True).retain_duplicates


def test_serdes_between_the_names_of_a_topology_are_named_in_the_hint() -> None:
    """Java has them between the name of a node and its topics or parents."""
    serde = ks.Serdes.string()
    for call in (
        lambda: ks.Topology().add_source("a", serde, serde, "in"),  # type: ignore[arg-type]
        lambda: ks.Topology().add_source("a", "in").add_sink("b", "out", serde, serde, "a"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError, match="must be str, got type") as caught:
            call()
        assert "name serdes and other options: key_serde=" in (caught.value.hint or "")


def test_a_serde_of_a_schema_registry_in_the_settings_is_answered_with_the_registry() -> None:
    """Java's applications name it as the default serde."""
    with pytest.raises(ConfigError, match="no built-in serde") as caught:
        ks.Config.of({"default.value.serde": "io.confluent.kafka.streams.serdes.avro.GenericAvroSerde"})
    assert 'ks.kafka.SchemaRegistry("http://…").avro("orders")' in (caught.value.hint or "")


def test_sum_does_not_reduce() -> None:
    """Its second argument is a start, so it would fail at the second record of a key."""
    grouped = ks.StreamsBuilder("app").stream("in").group_by_key()
    with pytest.raises(ConfigError, match=r"taking \(aggregate, value\)") as caught:
        grouped.reduce(sum)  # type: ignore[arg-type]
    assert caught.value.hint == "write it as lambda aggregate, value: …"


def test_an_option_that_is_called_on_its_class_names_the_argument() -> None:
    """Java has ``Produced.keySerde(serde)``; here the class takes it, and the method belongs to its objects."""
    with pytest.raises(ConfigError, match=r"with_key_serde\(\) needs an instance") as caught:
        ks.Produced.with_key_serde("long")  # type: ignore[operator]
    assert caught.value.hint == "pass it to the class: key_serde=…"
    assert ks.Produced(key_serde="long") == ks.Produced().with_key_serde("long")


SCRIPTS = {
    "store builder": (
        'ks.Stores.in_memory_key_value_store("s").build()',
        "pass the spec itself to builder.add_state_store(…)",
    ),
    "Grouped.with": (
        'ks.Grouped.with_("by-user", "string", "json")',
        "pass the serdes by position and other options by name",
    ),
    "deserializer()": ("ks.Serdes.string().deserializer()", "a serde is both: pass"),
    "headers.add": ('ks.Record("k", "v", 0).headers.add("trace", b"1")', "headers are pairs of a name and bytes"),
    "headers().add": ('ks.Record("k", "v", 0).headers().add("trace", b"1")', "headers is an attribute"),
    "record.key()": ('ks.Record("k", "v", 0).key()', "key is an attribute: write it without ()"),
    "import KafkaStreams": ("from kstreamnb import KafkaStreams", "ks.deploy(topology, …) runs it on Spark"),
    "import StreamBuilder": ("from kstreamnb import StreamBuilder", 'did you mean "StreamsBuilder"?'),
    "all().next()": (
        'b = ks.StreamsBuilder("a"); b.table("t", store="s"); ks.TopologyTestDriver(b.build()).store("s").all().next()',
        "iterate: for key, value in store.all(): …",
    ),
    "recordMetadata().get()": (
        'ks.RecordMetadata("t", 0, 5).get()',
        "the metadata are not optional: context.record_metadata().topic",
    ),
    "context.application_id()": (
        "ks.testing.MockProcessorContext().application_id()",
        "application_id is an attribute: write it without ()",
    ),
    "KeyValue.pair": ("pair = KeyValue.pair(1, 2)", "write a pair as a tuple: (key, value)"),
    "Duration.ofMinutes": ("ks.TimeWindows.of(Duration.ofMinutes(5))", 'write a duration as a string such as "5s"'),
    "ValueAndTimestamp.make": ("ks.ValueAndTimestamp.make(1, 2)", "call the class: ks.ValueAndTimestamp("),
    "SessionWindows": ('ks.SessionWindows(gap="30m")', "write ks.SessionWindows.of(…)"),
    "an address by position": ('ks.deploy(topology, "broker:9092")', "pass 'broker:9092' by name: "),
    "a missing argument": ('ks.Sample.from_dataframe([], topic="clicks")', "add timestamp=…"),
    "new KafkaStreams": ("import porting", "ks.deploy(topology, …) runs it on Spark"),
}


PRINTED = {"new KafkaStreams": sys.version_info >= (3, 11, 3)}
"""Python 3.11.2, which Debian 12 has, prints no notes of a syntax error."""


@pytest.mark.parametrize("name", [name for name in SCRIPTS if PRINTED.get(name, True)])
def test_a_script_gets_the_hint_after_its_own_line(name: str, tmp_path: Path) -> None:
    """Python's own errors about Java's calls get the hint in every program that imports the kit."""
    line, hint = SCRIPTS[name]
    (tmp_path / "porting.py").write_text("streams = new KafkaStreams(topology, props)\n")
    (tmp_path / "script.py").write_text(f"import kstreamnb as ks\ntopology = ks.Topology()\n{line}\n")
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    shown = done.stderr.splitlines()
    assert done.returncode == 1
    assert f"    {line}" in shown
    assert [each for each in shown[-2:] if each.startswith(f"Hint: {hint}")]
    assert done.stderr.count("Hint: ") == 1


@pytest.mark.parametrize("line", ['"text".add(1)', "(1, 2).add(3)", "nowhere", "import nowhere", "None()", "x = (1"])
def test_an_ordinary_mistake_in_a_script_stays_as_it_is(line: str) -> None:
    """The hook calls the one that was there before, which gets the error without a note."""
    shown: list[BaseException] = []
    hook = explaining(lambda kind, error, trace: shown.append(error), python_notes)
    with pytest.raises((AttributeError, NameError, ImportError, TypeError, SyntaxError)) as caught:
        exec(line, {"ks": ks})
    hook(caught.type, caught.value, caught.tb)
    assert shown == [caught.value]
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("replay(topology)", 'write ks.replay, after "import kstreamnb as ks"'),
        ("ks.replay(topology)", 'run "import kstreamnb as ks" first'),
        ("replay.now", None),
        ("topology.describe()", None),
        ("hooks.run()", None),
    ],
)
def test_a_name_without_its_import_is_answered_with_what_to_write(code: str, hint: str | None) -> None:
    """A public name without ks., and the kit itself, as after a restart of the kernel."""
    with pytest.raises(NameError) as caught:
        exec(code, {})
    assert for_python(caught.value, code, dir(ks)) == hint


@pytest.mark.parametrize("code", ["list(stream)", "len(stream)", 'stream["n"]', "stream > 5", "stream + stream"])
def test_a_stream_is_not_a_list(code: str) -> None:
    """A loop over a stream and other uses as a list or a column are answered with head()."""
    with pytest.raises(TypeError) as caught:
        eval(code, {"stream": ks.StreamsBuilder("shop").stream("orders")})
    assert ".head()" in str(for_python(caught.value, code))


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ('ks.KStream("orders")', "a builder makes it"),
        ("order.total", 'write ["total"]'),
        ("order.getTotal()", 'write ["total"]'),
        ("order is not null", "write None"),
        ("System.out.println(order)", "write print(…)"),
        ("list(ks.replay(topology, []))", 'replay.output("topic")'),
        ("pair.key", "write for key, value in …"),
        ('record.headers["id"]', 'read dict(record.headers).get("name")'),
        ("import org.apache.kafka.streams.StreamsBuilder", "import kstreamnb as ks"),
        ("from kstreamnb.streams import StreamsBuilder", "import kstreamnb as ks"),
        ("new ks.TopologyTestDriver(topology, props)", "write ks.TopologyTestDriver(topology, config)"),
        ("int n = 5;", "leave out the type: n = …"),
        ("// a comment", "a comment begins with #"),
        ("public class Dedup implements Processor<String, String> {}", "write class Name(ks.Processor)"),
        ("x = a && b", "write and, or, not"),
        ("serde(Order.class)", "without .class"),
        ('Materialized.<String, Long>as_("x")', "leave out the types"),
    ],
)
def test_a_habit_from_java_or_pandas_is_answered_with_what_to_write(code: str, hint: str) -> None:
    """Java's syntax and names, fields of a dict as attributes, and classes that only a builder makes."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("orders").to("out")
    names = {"ks": ks, "order": {"total": 5}, "pair": ("a", 1), "record": ks.Record("a", 1, 0)}
    with pytest.raises((TypeError, AttributeError, NameError, ImportError, SyntaxError)) as caught:
        exec(code, {**names, "topology": builder.build()})
    assert hint in str(for_python(caught.value, code, dir(ks)))


def test_a_failure_to_start_a_processor_has_the_hint() -> None:
    """The hint is the one that a failure in `process` has."""

    class Watch(ks.Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            context.schedule(Duration.ofMinutes(1), "stream_time", self.close)  # type: ignore[name-defined]  # noqa: F821

    builder = ks.StreamsBuilder("shop")
    builder.stream("orders").process(Watch).to("out")
    with pytest.raises(ks.errors.ProcessingError) as caught:
        ks.TopologyTestDriver(builder.build())
    assert caught.value.hint == 'write a duration as a string such as "5s", or as a timedelta'


def test_a_sample_does_not_grow() -> None:
    """Adding to a sample is answered with the method that merges."""
    sample: Any = ks.Sample.from_records([])
    for name in ("add", "append"):
        with pytest.raises(UnknownNameError) as unknown:
            getattr(sample, name)
        assert unknown.value.hint == 'did you mean "merge"?'


@pytest.mark.parametrize("names", [{}, {"ks": ks}, {"Record": ks.Record}], ids=["no name", "the kit", "a class"])
def test_only_a_module_that_uses_the_kit_gets_hints_about_java(names: dict[str, object]) -> None:
    """Another library's program that lacks a `Duration` gets Python's error alone."""
    hook = explaining(lambda kind, error, trace: None, python_notes)
    with pytest.raises(NameError) as caught:
        exec("Duration.ofMinutes(5)", dict(names))
    hook(caught.type, caught.value, caught.tb)
    assert hasattr(caught.value, "__notes__") is bool(names)


@pytest.mark.parametrize(
    ("props", "call"),
    [
        ({"topology.optimization": "all"}, 'build(optimize="all")'),
        ({"application.id": "app"}, "build(optimize=False)"),
        (True, "build(optimize=True)"),
    ],
    ids=["optimization", "other settings", "bool"],
)
def test_build_with_javas_settings_names_the_call_to_write(props: Any, call: str) -> None:
    """In Java, `build(props)` reads the optimizations; the call in the hint runs here."""
    builder = ks.StreamsBuilder("app")
    builder.stream("in").to("out")
    with pytest.raises(ConfigError, match="takes no settings") as caught:
        builder.build(props)
    assert (caught.value.hint or "").startswith(f"write {call}, and pass settings")
    assert eval(f"builder.{call}", {"builder": builder}).sources()


HEADERS = 'add with record.with_headers((*record.headers, ("name", b"value")))'
IN_FUNCTIONS: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "headers.add": (lambda own, record: record.headers.add("trace", b"1"), HEADERS),
    "headers().lastHeader": (lambda own, record: record.headers().lastHeader("trace"), "headers is an attribute"),
    "value": (lambda own, record: record.value().strip(), "value is an attribute: write it without ()"),
    "key": (lambda own, record: own.context.forward(record.with_value(record.key())), "key is an attribute"),
    "timestamp": (lambda own, record: own.context.timestamp(), "record.timestamp is the time of a record"),
    "KeyValue": (lambda own, record: KeyValue.pair(1, 2), "write a pair as a tuple"),  # type: ignore[name-defined]  # noqa: F821
    "Duration": (
        lambda own, record: own.context.schedule(Duration.ofMinutes(5), "stream_time", print),  # type: ignore[name-defined]  # noqa: F821
        "write a duration as a string",
    ),
    "putIfAbsent": (
        lambda own, record: own.context.get_state_store("s").putIfAbsent("k", "v"),
        'did you mean "put_if_absent"?',
    ),
    "hasNext": (lambda own, record: own.context.get_state_store("s").all().hasNext(), 'did you mean "has_next"?'),
}


@pytest.mark.parametrize("name", IN_FUNCTIONS)
def test_a_call_in_javas_shape_within_a_processor_gets_a_hint(name: str) -> None:
    """Records are tuples, so Python's own errors about them say nothing of the call to write."""
    call, hint = IN_FUNCTIONS[name]

    class Calls(ks.Processor):
        """Makes the call."""

        def process(self, record: Any) -> None:
            """Fail."""
            call(self, record)

    builder = ks.StreamsBuilder("app")
    builder.add_state_store(ks.Stores.persistent_key_value_store("s"))
    builder.stream("in").process(Calls, "s").to("out")
    with pytest.raises(ProcessingError) as caught:
        ks.TopologyTestDriver(builder.build()).create_input_topic("in").pipe_input("k", "v")
    assert hint in (caught.value.hint or "")


def test_an_ordinary_mistake_gets_no_hint_about_java() -> None:
    """The rule is for names of Java and for attributes of records only."""
    for broken in (lambda value: value(), lambda value: value.add(1), lambda value: [].add, lambda value: Nowhere):  # type: ignore[name-defined]  # noqa: F821
        builder = ks.StreamsBuilder("app")
        builder.stream("in").map_values(broken).to("out")
        with pytest.raises(ProcessingError) as caught:
            ks.TopologyTestDriver(builder.build()).create_input_topic("in").pipe_input("k", "v")
        assert caught.value.hint is None


class Passes(ks.Processor):
    """Passes records on."""


def test_named_is_taken_wherever_java_takes_it() -> None:
    """After the function, before the stores, and alone."""
    builder, named = ks.StreamsBuilder("app"), ks.Named.as_
    builder.add_state_store(ks.Stores.persistent_key_value_store("s"))
    stream = builder.stream("in").filter(lambda key, value: True, named("1")).filter_not(bool, named("2"))
    stream = stream.map(lambda key, value: (key, value), named("3")).map_values(str, named("4"))
    stream = stream.flat_map(lambda key, value: [(key, value)], named("5")).flat_map_values(list, named("6"))
    stream = stream.select_key(lambda key, value: key, named("7")).peek(lambda key, value: None, named("8"))
    stream = stream.merge(builder.stream("other"), named("9")).process(Passes, named("10"), "s")
    table = stream.process_values(Passes, named("11"), "s").to_table(named("12"))
    parts = table.to_stream(named("13")).split(named("14-")).default_branch(ks.Branched.as_("rest"))
    parts["14-rest"].foreach(lambda key, value: None, named("15"))
    assert {str(number) for number in range(1, 14)} | {"14-", "14-rest", "15"} <= set(builder.build().nodes)


def test_arguments_in_javas_order_are_taken() -> None:
    """The time of a record, and name and grace of a join, by position."""
    given = topic()
    given.pipe_input("k", "v", 5)
    joined = ks.Joined.with_(STRING, STRING, STRING, "priced", "5s")
    assert joined == ks.Joined(STRING, STRING, STRING, name="priced", grace="5s")
    windows = ks.Stores.persistent_window_store("s", "1h", "5m", True)
    assert windows == ks.Stores.persistent_window_store("s", retention="1h", window_size="5m", retain_duplicates=True)
    assert ks.Stores.in_memory_session_store("s", "1h") == ks.Stores.in_memory_session_store("s", retention="1h")


def test_windowed_keys_and_records_stay_plain_tuples() -> None:
    """Without a dict for each, and with Python's own answer about names with an underscore."""
    for thing in (ks.Windowed("k", 0, 5), ks.Record("k", "v", 0)):
        assert not hasattr(thing, "__dict__")
        assert not hasattr(thing, "_missing")
