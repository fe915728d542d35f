"""Slips of a Java programmer's first day: each is refused at once, with the call to write instead."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import kstreamnb as ks
from kstreamnb.errors import UnknownTopicError, unknown
from kstreamnb.hints import for_python


def _hint_of(slip: Callable[[], object]) -> str:
    with pytest.raises(ks.KStreamError) as caught:
        slip()
    return caught.value.hint or ""


def _drive(processor: type, headers: Any = ()) -> ks.Record[Any, Any]:
    builder = ks.StreamsBuilder("slips")
    builder.add_state_store(ks.Stores.persistent_key_value_store("seen"))
    builder.stream("orders").process(processor).to("out")
    driver = ks.TopologyTestDriver(builder.build())
    driver.create_input_topic("orders").pipe_input("a", 1, at=0, headers=headers)
    record: ks.Record[Any, Any] = driver.create_output_topic("out").read_record()  # type: ignore[assignment]
    return record


class Tagged(ks.Processor):
    """Puts a header on each record."""

    headers: Any = ()

    def process(self, record: ks.Record[Any, Any]) -> None:
        """Forward the record with the headers of the class."""
        self.context.forward(record.with_headers(self.headers))


@pytest.mark.parametrize("headers", [{"source": b"roof"}, [("source", b"roof")], [["source", b"roof"]]])
def test_headers_written_as_a_mapping_or_as_pairs_arrive_as_pairs(headers: Any) -> None:
    """A dictionary once lost its values without a word."""
    assert _drive(type("Tag", (Tagged,), {"headers": headers})).headers == (("source", b"roof"),)
    assert _drive(type("Same", (Tagged,), {"process": lambda self, record: self.context.forward(record)}), headers)[
        -1
    ] == (("source", b"roof"),)
    assert ks.Record("a", 1, 0, headers).headers == (("source", b"roof"),)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"source": "roof"}, 'header "source" must be bytes or None, got type "str"'),
        ([("source", 1)], 'header "source" must be bytes or None, got type "int"'),
        (("source", b"roof"), 'a header must be a pair (name, bytes), got type "str"'),
        ([("source",)], 'a header must be a pair (name, bytes), got type "tuple"'),
        ("source", 'headers must be pairs, got type "str"'),
        (None, 'headers must be pairs, got type "NoneType"'),
    ],
)
def test_what_kafka_has_no_header_for_is_refused_before_it_reaches_a_topic(headers: Any, message: str) -> None:
    """The driver accepted such headers, and only a broker refused them."""
    with pytest.raises(ks.errors.ConfigError) as piped:
        _drive(Tagged, headers)
    assert str(piped.value) == message
    with pytest.raises(ks.errors.ProcessingError) as forwarded:
        _drive(type("Tag", (Tagged,), {"headers": headers}))
    assert message in str(forwarded.value)


SLIPS: dict[str, Callable[[Any], object]] = {
    "process(…) runs a ks.Processor": lambda stream: stream.transform(Tagged),
    "process_values(…) runs a ks.FixedKeyProcessor": lambda stream: stream.transformValues(Tagged),
    'repartition(name="…") writes to a topic and reads it again': lambda stream: stream.through("orders-again"),
    "split().branch(": lambda stream: stream.branch(bool),
    "call it before to_stream()": lambda stream: stream.suppress(ks.Suppressed.until_window_closes()),
    "ks.BufferConfig has it": lambda stream: ks.Suppressed.BufferConfig,  # type: ignore[attr-defined]
    "write a ks.Processor": lambda stream: ks.Transformer,  # type: ignore[attr-defined]
    "write it as lambda: 0": lambda stream: stream.group_by_key().aggregate(0, lambda key, value, total: total),
    "write it as lambda: …": lambda stream: stream.group_by_key().aggregate([*range(30)], lambda key, value, a: a),
    "write join(table, joiner); only two streams": (
        lambda stream: stream.join(stream.to_table(), lambda left, right: left, ks.JoinWindows.of("5m"))
    ),
    "write join(stream, joiner, windows)": lambda stream: stream.join(stream, lambda left, right: left),
    "pass a handle": lambda stream: stream.join("prices", lambda left, right: left),
    "pass a stream, such as builder.stream(…)": lambda stream: stream.merge("prices"),
    'TimeWindows.of("5m"), or SessionWindows.of("5m")': lambda stream: stream.group_by_key().windowed_by("5m"),
    'give durations to of(), such as TimeWindows.of("5m")': lambda stream: ks.TimeWindows("5m"),  # type: ignore[arg-type]
    'SessionWindows.of("5m") or JoinWindows': lambda stream: ks.SessionWindows("5m"),  # type: ignore[arg-type]
    'write it as lambda key, value: value["user"]': lambda stream: stream.group_by("user"),
    "write it as lambda key, value: …": lambda stream: stream.filter("price > 10"),
    "give keywords: name, key_serde, value_serde, partitioner, partitions": lambda stream: stream.repartition(4),
    'write for example "double", or Serdes.double()': lambda stream: stream.to("copies", value_serde=float),
    "pass the names as separate arguments": lambda stream: stream.process(Tagged, ["seen", "told"]),
}


@pytest.mark.parametrize(("hint", "slip"), SLIPS.items())
def test_a_slip_of_a_java_programmer_is_answered_with_the_call_to_write(
    hint: str, slip: Callable[[Any], object]
) -> None:
    """The hint names what exists here."""
    assert hint in _hint_of(lambda: slip(ks.StreamsBuilder("slips").stream("orders")))


def test_a_wrong_join_window_is_named_as_it_was_written() -> None:
    """It was called ``before``, which a student had not written."""
    for name in ("difference", "before", "after"):
        with pytest.raises(ks.errors.ConfigError, match=f'^{name} "10" is not a duration'):
            ks.JoinWindows.of(**{name: "10"})


@pytest.mark.parametrize(
    ("option", "hint"), [("foreign_key", "joins a table with a table"), ("key_selector", "is for global tables")]
)
def test_an_option_of_another_join_is_explained(option: str, hint: str) -> None:
    builder = ks.StreamsBuilder("slips")
    joined: Any = builder.stream("orders").join
    assert hint in _hint_of(lambda: joined(builder.table("customers"), lambda left, right: left, **{option: str}))


class _Forgetful(ks.Processor):
    def init(self, context: ks.ProcessorContext) -> None:
        pass

    def process(self, record: ks.Record[Any, Any]) -> None:
        self.context.forward(record)


class _Unconnected(ks.Processor):
    def init(self, context: ks.ProcessorContext) -> None:
        context.get_state_store("seen")


class _Camel(ks.Processor):
    def init(self, context: ks.ProcessorContext) -> None:
        context.getStateStore("seen")  # type: ignore[attr-defined]


class _Headers(ks.Processor):
    def process(self, record: ks.Record[Any, Any]) -> None:
        record.headers.last_header("source")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("processor", "message", "hint"),
    [
        (_Forgetful, "failed with AttributeError", "call super().init(context)"),
        (_Unconnected, 'uses store "seen", which is not connected to it', 'process(…, "seen")'),
        (_Camel, 'a ProcessorContext has no "getStateStore"', 'did you mean "get_state_store"?'),
        (_Headers, "failed with AttributeError", 'dict(record.headers).get("name")'),
    ],
)
def test_a_slip_in_a_processor_is_answered_in_the_error_of_its_node(processor: type, message: str, hint: str) -> None:
    """Also one in init: its reason stood only in the cause."""
    with pytest.raises(ks.errors.ProcessingError) as caught:
        _drive(processor)
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_a_processor_of_the_old_api_is_refused_where_it_is_declared() -> None:
    """process(key, value) is from before Kafka Streams 2.7."""

    class Old(ks.Processor):
        def process(self, key: Any, value: Any) -> None:  # type: ignore[override]
            """Never called."""

    builder = ks.StreamsBuilder("slips")
    with pytest.raises(
        ks.errors.ConfigError, match=r"^Old\.process takes \(key, value\), expected \(record\)"
    ) as caught:
        builder.stream("orders").process(Old)
    assert "write it as def process(self, record):" == caught.value.hint


def test_a_function_of_a_record_is_not_a_supplier_of_processors() -> None:
    """The hint names the operators that take a function of a record."""
    hint = _hint_of(lambda: ks.StreamsBuilder("slips").stream("orders").process(lambda record: record))  # type: ignore[call-overload]
    assert "makes a processor" in hint
    assert "map_values" in hint


def test_a_table_takes_its_materialized_after_the_topic_as_in_java() -> None:
    """table(topic, materialized) and globalTable(topic, materialized) are Java's short forms."""
    builder = ks.StreamsBuilder("slips")
    builder.table("customers", ks.Materialized.as_("customers").with_value_serde("long"))
    builder.global_table("products", ks.Materialized.as_("products"))
    driver = ks.TopologyTestDriver(builder.build())
    driver.create_input_topic("products").pipe_input("p", 5, at=0)
    assert driver.get_key_value_store("products").get("p") == 5
    assert driver.get_key_value_store("customers").get("p") is None


def test_the_first_argument_of_windows_may_be_given_by_position() -> None:
    """As in Java; a second one needs its name, which says what it is."""
    assert ks.TimeWindows.of("1h", grace="5m") == ks.TimeWindows.of(size="1h", grace="5m")
    assert ks.SessionWindows.of("5m") == ks.SessionWindows.of(gap="5m")
    assert ks.SlidingWindows.of("5m") == ks.SlidingWindows.of(difference="5m")
    assert ks.JoinWindows.of("5m") == ks.JoinWindows.of(difference="5m")


def test_a_frame_in_the_place_of_a_sample_is_answered_with_the_call_that_makes_one() -> None:
    """Sample(frame) was taken for a sample, and failed when it was shown."""
    frame = pd.DataFrame({"time": [0], "user": ["ann"]})
    stream = ks.StreamsBuilder("slips").stream("orders")
    assert "ks.Sample.from_dataframe(" in _hint_of(lambda: ks.Sample(frame))  # type: ignore[arg-type]
    assert "ks.Sample.from_dataframe(" in _hint_of(lambda: ks.head(stream, frame))
    assert _hint_of(lambda: ks.Sample.from_pandas(frame)) == 'did you mean "from_dataframe"?'  # type: ignore[attr-defined]
    assert _hint_of(lambda: ks.Sample.from_dataframe(frame, topic="t", timestamp="time", key="usr")) == (
        'did you mean "user"?'
    )


def test_a_sample_whose_records_have_no_partition_yet_says_that_keys_choose() -> None:
    """It showed partition -1."""
    sample = ks.Sample.from_records([("orders", -1, 0, 0, "ann", 1)])
    assert "partitions  by key: 1; skew 1.00" in str(sample.statistics())


def test_a_replay_is_asked_for_its_state_and_frames_where_they_are() -> None:
    """replay.store was answered with "step"."""
    builder = ks.StreamsBuilder("slips")
    builder.stream("in").to("out")
    run = ks.replay(builder.build(), ks.Sample.from_records([("in", 0, 0, 0, "a", 1)]))
    assert _hint_of(lambda: run.store("counts")) == 'did you mean "now.store"?'  # type: ignore[attr-defined]
    assert "output(topic).to_pandas" in _hint_of(lambda: run.to_pandas())  # type: ignore[attr-defined]


def test_a_list_of_something_else_is_refused_with_the_type_of_its_items() -> None:
    """It said that a list is not iterable."""
    with pytest.raises(ks.errors.ConfigError, match="records must be Iterable of TopicRecord, got a list of tuple"):
        ks.kafka.produce("localhost:1", [("orders", "a", 1)])  # type: ignore[list-item]


@pytest.mark.parametrize("text", ["to be", b"to be"])
def test_flat_map_values_refuses_text_that_it_would_split_into_letters(text: str | bytes) -> None:
    """Java requires an Iterable, and a String is not one."""
    builder = ks.StreamsBuilder("letters")
    builder.stream("lines").flat_map_values(lambda value: text).to("words")
    driver = ks.TopologyTestDriver(builder.build())
    with pytest.raises(ks.KStreamError, match="flat_map_values must return a list of values, got ") as caught:
        driver.create_input_topic("lines").pipe_input("a", "x", at=0)
    assert "v.split()" in "".join(caught.value.__notes__)


def test_a_closed_driver_refuses_records_and_can_still_be_read() -> None:
    """It once processed them with closed stores."""
    builder = ks.StreamsBuilder("closed")
    builder.stream("orders").to("copies")
    with ks.TopologyTestDriver(builder.build()) as driver:
        orders = driver.create_input_topic("orders")
        orders.pipe_input("a", 1, at=0)
    for call in (
        lambda: orders.pipe_input("a", 2, at=1),
        lambda: driver.pipe([ks.TopicRecord("orders", 0, 0, 1, "a", 2)]),
        lambda: driver.advance_wall_clock_time("1s"),
    ):
        assert "make a new TopologyTestDriver" in _hint_of(call)
    assert 1 == driver.create_output_topic("copies").read_value()
    driver.close()


def test_a_query_that_is_asked_for_its_health_or_alerts_says_where_they_are() -> None:
    """It offered "charts" for alerts, and nothing for health."""
    query = object.__new__(ks.Query)
    assert _hint_of(lambda: query.health) == 'did you mean "status"?'  # type: ignore[attr-defined]
    assert _hint_of(lambda: query.alerts) == 'did you mean "ks.monitoring.alerts"?'  # type: ignore[attr-defined]


def _shop() -> tuple[ks.StreamsBuilder, Any, ks.Sample]:
    """A builder with a sample, and its stream."""
    builder = ks.StreamsBuilder("shop")
    sales = builder.stream("sales")
    sales.group_by_key().count(store="sold").to_stream().to("totals")
    return builder, sales, ks.Sample.from_records([("sales", 0, 0, 5, "shoe", 1)])


def test_a_builder_instead_of_its_topology_is_answered_with_the_call() -> None:
    """`ks.replay(builder)` is what one writes in the first hour."""
    for call in (ks.replay, ks.testing.check):
        with pytest.raises(ks.errors.ConfigError) as caught:
            call(_shop()[0])  # type: ignore[operator]
        assert caught.value.hint == "pass the result of builder.build()"


def test_a_function_instead_of_its_topology_is_answered_with_the_call() -> None:
    """The command line takes a function that returns a topology; `ks.deploy` refused it without a hint."""

    def topology() -> ks.Topology:
        return _shop()[0].build()

    for call in (ks.replay, ks.testing.check, ks.TopologyTestDriver, lambda what: ks.deploy(what, checkpoint="c")):
        with pytest.raises(ks.errors.ConfigError, match=r'topology must be Topology, got type "function"') as caught:
            call(topology)  # type: ignore[arg-type]
        assert caught.value.hint == "pass what the function returns: write () after its name"


def test_a_number_instead_of_a_sample_is_taken_for_the_number_of_rows() -> None:
    """Pandas has `head(5)`; the hint is the call that works here."""
    builder, sales, sample = _shop()
    builder.sample = sample
    with pytest.raises(ks.errors.ConfigError) as caught:
        sales.head(1)
    assert caught.value.hint == "write head(n=1)"
    assert len(sales.head(n=1)) == 1


def test_a_mistyped_output_topic_is_answered_with_the_one_that_was_meant() -> None:
    """It once was an empty list; a topic that got no records still is one."""
    builder, _, sample = _shop()
    run = ks.replay(builder.build(), sample)
    with pytest.raises(ks.errors.EngineError, match='output topic "totls" does not exist') as caught:
        run.output("totls")
    assert caught.value.hint == 'did you mean "totals"?'
    assert (len(run.output("totals")), run.output("letters")) == (1, [])
    assert ks.replay(builder.build(), sample[:0]).output("totals") == []


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("why", "why_no_output(topic, key=…)"),
        ("why_not", "why_no_output(topic, key=…)"),
        ("dropped", "drops"),
        ("goto", "seek"),
        ("inputs_of", "provenance"),
    ],
)
def test_a_replay_is_asked_by_other_names(name: str, ours: str) -> None:
    """The nearest names by letters would be `why_cut` and `why_dropped`, or none."""
    builder, _, sample = _shop()
    with pytest.raises(ks.errors.UnknownNameError) as caught:
        getattr(ks.replay(builder.build(), sample), name)
    assert caught.value.__notes__[0] == f'Hint: did you mean "{ours}"?'


def test_a_key_in_the_place_of_a_join_is_answered_with_its_argument() -> None:
    """It is the second argument of this question, and the first that one has."""
    builder = ks.StreamsBuilder("shop")
    orders, paid = builder.stream("orders"), builder.stream("paid")
    orders.join(paid, lambda order, payment: payment, ks.JoinWindows.of("5m")).to("both")
    run = ks.replay(builder.build(), {"orders": [("o1", 1), ("o2", 2)], "paid": [("o1", 3)]})
    assert _hint_of(lambda: run.why_no_match("o2")) == 'write why_no_match(key="o2") for a key'
    assert "its partner came after it, and made the result" in str(run.why_no_output("both", key="o1"))
    assert "no partner was found (see why_no_match)" in str(run.why_no_output("both", key="o2"))


def test_records_by_topic_are_replayed_as_they_are_previewed() -> None:
    """Times are milliseconds or instants; a row of another shape, and a frame, are refused with words about records."""
    builder = ks.StreamsBuilder("shop")
    orders = builder.stream("orders")
    orders.map_values(lambda pieces: pieces + 1).to("more")
    topology, given = builder.build(), {"orders": [("a", 1), ("b", 2, "1970-01-01T00:00:09Z")]}
    made = [(each.key, each.value, each.timestamp) for each in ks.replay(topology, given).output("more")]
    assert made == [("a", 2, 0), ("b", 3, 9000)]
    assert ks.head(orders, given) == [("a", 1, 0), ("b", 2, 9000)]
    with pytest.raises(ks.errors.ConfigError, match=r'each record of "orders" must be \(key, value\) or .*, got 4'):
        ks.replay(topology, {"orders": [("a", 1, 2, 3)]})
    wrong: list[Any] = [{"orders": ["ab"]}, [("a", 1)], {"orders": pd.DataFrame()}]
    hints = [_hint_of(lambda each=each: ks.replay(topology, each)) for each in wrong]
    assert hints[:2] == ['name their topic: {"orders": [(key, value), …]}'] * 2
    assert hints[2].startswith("make a sample of it: ks.Sample.from_dataframe(")


@pytest.mark.parametrize("name", ["kafka.SchemaRegistry", "testing.diff", "spark.spark_session", "widgets.stepper"])
def test_a_name_of_another_namespace_is_answered_with_it(name: str) -> None:
    """Such as ``ks.SchemaRegistry``."""
    assert _hint_of(lambda: getattr(ks, name.partition(".")[2])) == f'did you mean "ks.{name}"?'


def test_frames_of_other_libraries_are_made_from_those_of_pandas() -> None:
    """Outputs and samples alike."""
    assert "polars.from_pandas(" in _hint_of(lambda: ks.Sample.from_records([]).to_polars())  # type: ignore[attr-defined]
    assert "pyarrow.Table.from_pandas(" in _hint_of(lambda: _drive_outputs().to_arrow())


def _drive_outputs() -> Any:
    builder, _, sample = _shop()
    return ks.replay(builder.build(), sample).output("totals")


def test_a_processor_that_returns_its_record_is_explained() -> None:
    """A record that `process` returns reaches nobody; a generator is refused with the call to write."""

    class Returned(ks.Processor):
        def process(self, record: ks.Record[Any, Any]) -> Any:
            return record

    class Yielded(ks.Processor):
        def process(self, record: ks.Record[Any, Any]) -> Any:
            yield record

    builder = ks.StreamsBuilder("shop")
    builder.stream("orders").process(Returned).to("out")
    answer = str(ks.replay(builder.build(), {"orders": [("a", 1), (None, 2)]}).why_no_output("out"))
    assert "2 records stopped at process" in answer  # a processor gets records with a null key as well
    assert "forwarded nothing; records reach others by self.context.forward(record), not by return" in answer
    assert _hint_of(lambda: builder.stream("orders").process(Yielded)) == (
        "call self.context.forward(record) instead of yield"
    )


def test_packages_outside_of_the_environment_are_not_the_users_code(tmp_path: Path) -> None:
    """Such as those that ``pip install --user`` and system packages are in."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "other.py").write_text("def fail():\n    raise KeyError(1)\n")
    lines = ("try:", "    other.fail()", "except KeyError as error:", "    print(user_line(error).code)")
    script = tmp_path / "script.py"
    script.write_text("\n".join(("import other", "from kstreamnb.source_location import user_line", *lines)))
    path = os.pathsep.join([str(packages), str(Path(ks.__file__).parents[1])])
    told = subprocess.run(
        [sys.executable, script], env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=True
    )
    assert told.stdout == b"other.fail()\n"


def test_a_class_for_json_is_answered_with_the_serde_to_write() -> None:
    """Python's own hint would be the only keyword, ``sort_keys``."""
    with pytest.raises(TypeError) as caught:
        ks.Serdes.json(dict)  # type: ignore[arg-type, call-arg]
    assert "ks.Serdes.serde_from(lambda order: " in (for_python(caught.value, "") or "")


@pytest.mark.parametrize(
    ("name", "hint"), [("sum", "reduce(lambda"), ("max", "reduce(max)"), ("mean", "a sum and a count")]
)
@pytest.mark.parametrize("windowed", [False, True])
def test_sums_and_means_of_other_libraries_are_answered_with_reduce_and_aggregate(
    name: str, hint: str, windowed: bool
) -> None:
    """Kafka Streams has no such methods, for groups and their windows alike."""
    grouped: Any = ks.StreamsBuilder("slips").stream("orders").group_by_key()
    if windowed:
        grouped = grouped.windowed_by(ks.TimeWindows.of("1m"))
    assert hint in _hint_of(lambda: getattr(grouped, name)())


def test_the_calls_named_by_the_hints_about_sums_work() -> None:
    """The largest and the sum of two values."""
    builder = ks.StreamsBuilder("slips")
    grouped = builder.stream("orders", value_serde="long").group_by_key()
    grouped.reduce(max, store="largest")
    grouped.reduce(lambda total, value: total + value, store="total")
    driver = ks.TopologyTestDriver(builder.build())
    for value in (5, 3):
        driver.create_input_topic("orders").pipe_input("a", value, at=0)
    assert (5, 8) == tuple(driver.get_key_value_store(name).get("a") for name in ("largest", "total"))


def test_a_branch_without_the_prefix_of_its_split_is_answered_with_its_name() -> None:
    """Names of branches begin with the name of the split, as in Java."""
    split = ks.StreamsBuilder("slips").stream("orders").split(name="to-").branch(lambda key, value: value > 9, name="a")
    branches = split.default_branch(name="rest")
    assert 'did you mean "to-a"?' == _hint_of(lambda: branches["a"])
    assert 'did you mean "to-rest"?' == _hint_of(lambda: branches["to-rset"])
    assert branches.get("a") is None


def test_a_sample_is_filtered_by_its_records_not_by_values() -> None:
    """A record is a tuple, whose error about indexes says nothing about values."""
    sample = ks.Sample.from_records([("orders", 0, 0, 0, "a", {"price": 1})])
    with pytest.raises(TypeError) as caught:
        sample.where(lambda value: value["price"] > 0)  # type: ignore[call-overload]
    assert "record.value[" in str(for_python(caught.value, 'sample.where(lambda value: value["price"] > 0)'))


def test_of_thousands_of_names_an_error_lists_the_nearest_ten() -> None:
    """A cluster has many topics: their list would hide what was wrong."""
    error = unknown("topic", "ordrs-7", [f"topic-{at}" for at in range(2000)] + ["orders-7"], error=UnknownTopicError)
    assert error.detail is not None
    assert error.detail.startswith("existing names: orders-7, ")
    assert error.detail.endswith(" and 1,991 more")
    assert 'did you mean "orders-7"?' == error.hint


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        (lambda orders: orders.where("pieces > 1"), "filter"),
        (lambda orders: orders.withColumn("total", 1), "map_values"),
        (lambda orders: orders.window("1h"), "group_by_key().windowed_by"),
        (lambda orders: orders.to_table().select("pieces"), "map_values"),
        (lambda orders: orders.to_table().to_pandas(), "head().to_pandas"),
        (lambda orders: orders.dropna(), "filter"),
        (lambda orders: orders.apply(len), "map_values"),  # Quix
        (lambda orders: orders.tumbling_window(60_000), "group_by_key().windowed_by"),
        (lambda orders: orders.to_topic("out"), "to"),
        (lambda orders: orders.key_on(len), "group_by"),  # Bytewax
        (lambda orders: orders.stateful_map(len), "process"),
        (lambda orders: orders.key_by(len), "group_by"),  # Flink
        (lambda orders: orders.union(orders), "merge"),
        (lambda orders: orders.sink_to("out"), "to"),
        (lambda orders: orders.execute(), "ks.deploy(topology, …)"),
        (lambda orders: orders.partition_by("id"), "select_key"),  # ksqlDB
        (lambda orders: orders.explode("items"), "flat_map_values"),
        (lambda orders: orders.group_by_key().agg({"price": "sum"}), "aggregate"),  # pandas
        (lambda orders: orders.group_by_key().session_window("30m"), "windowed_by"),
    ],
)
def test_methods_of_frames_are_answered_with_those_of_streams(slip: Callable[[Any], object], meant: str) -> None:
    """Habits from Spark, pandas and other libraries for streams."""
    assert _hint_of(lambda: slip(ks.StreamsBuilder("slips").stream("orders"))) == f'did you mean "{meant}"?'


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Application", "ks.StreamsBuilder("),
        ("Dataflow", "ks.StreamsBuilder("),
        ("sql", "there is no SQL"),
        ("KafkaSource", 'builder.stream("orders") reads a topic'),
        ("TumblingWindow", 'ks.TimeWindows.of("1h")'),
        ("deduplicate", '"Remove duplicates" on the page Patterns'),
        ("TopologyConfig", 'ks.StreamsBuilder("orders")'),  # Kafka Streams
        ("To", 'context.forward(record, "child")'),
    ],
)
def test_entrances_of_other_libraries_are_answered_with_ours(name: str, hint: str) -> None:
    """Those of Quix Streams, Bytewax and Flink."""
    assert hint in (_hint_of(lambda: getattr(ks, name)) or "")


def test_a_frame_is_not_a_list_of_topics() -> None:
    """Iterating over one gives the names of its columns."""
    frame = pd.DataFrame({"driver": [1], "fare": [9.5]})
    with pytest.raises(ks.errors.TopologyError, match='a list of names or a pattern, got type "DataFrame"') as caught:
        ks.StreamsBuilder("slips").stream(frame)  # type: ignore[arg-type]
    assert "ks.replay(topology, sample)" in str(caught.value.hint)


def test_a_name_that_is_near_none_of_a_few_is_answered_with_all_of_them() -> None:
    """With many names, the list would hide what was wrong."""
    with pytest.raises(ks.errors.UnknownNameError, match='SessionWindows has no "with_gap"') as caught:
        ks.SessionWindows.with_gap("30m")  # type: ignore[attr-defined]
    assert "existing names: grace_ms, of, " in str(caught.value.detail)
    with pytest.raises(ks.errors.UnknownNameError, match='a KStream has no "fare"') as caught:
        _ = ks.StreamsBuilder("slips").stream("rides").fare  # type: ignore[attr-defined]
    assert caught.value.detail is None


class Total:
    """An aggregator and an error handler as Java has them."""

    def apply(self, key: str, value: int, total: int) -> int:
        """Add the value."""
        return total + value


class Skip:
    """Skips records that fail."""

    def handle(self, context: ks.ErrorContext, error: BaseException) -> str:
        """Continue."""
        return "continue"


@pytest.mark.parametrize("given", [Total, Total()], ids=["class", "instance"])
def test_a_class_with_the_method_of_a_java_interface_is_passed_by_its_method(given: Any) -> None:
    """As its class, as an instance, and as a handler; the method itself is accepted."""
    grouped = ks.StreamsBuilder("slips").stream("orders").group_by_key()
    assert _hint_of(lambda: grouped.aggregate(int, given)) == "pass its method: Total(…).apply"
    assert grouped.aggregate(int, Total().apply)
    assert _hint_of(lambda: ks.Config(processing_handler=Skip)) == "pass its method: Skip(…).handle"
    assert _hint_of(lambda: ks.Config(processing_handler=Skip())) == "pass its method: Skip(…).handle"
    assert ks.Config(processing_handler=Skip().handle)


class Route:
    """A partitioner, a topic name extractor and a serializer as Java has them."""

    def extract(self, key: object, value: object, context: object) -> str:
        """Return the topic."""
        return "large"


class Place:
    """A partitioner of Kafka Streams 2 and 3."""

    def partition(self, topic: str, key: object, value: object, count: int) -> int:
        """Return the partition."""
        return 0


class Write:
    """A serializer without its deserializer."""

    def serialize(self, value: object) -> bytes:
        """Return the bytes."""
        return b""


def test_partitioners_topic_names_and_serializers_are_passed_by_their_methods() -> None:
    """These interfaces are often implemented by classes."""
    stream: Any = ks.StreamsBuilder("slips").stream("orders")
    assert _hint_of(lambda: stream.to("large", partitioner=Place())) == "pass its method: Place(…).partition"
    assert _hint_of(lambda: stream.to(Route())) == "pass its method: Route(…).extract"
    assert _hint_of(lambda: stream.to(5)) == 'name it: "orders"'
    serde: Any = ks.Serdes.serde_from
    assert _hint_of(lambda: serde(Write(), bytes.decode)) == "pass its method: Write(…).serialize"


@pytest.mark.parametrize("name", [b"orders", bytearray(), np.array([1]), pd.DataFrame(), ks.Serdes.string()])
def test_no_method_is_suggested_for_what_implements_no_interface(name: Any) -> None:
    """Bytes and arrays have a ``partition``, frames an ``apply`` and serdes a ``serialize``."""
    assert _hint_of(lambda: ks.StreamsBuilder("slips").stream("in").to(name)) == 'name it: "orders"'


@pytest.mark.parametrize("function", [b"orders", np.array([1]), ks.Serdes.string()])
def test_what_is_not_a_function_is_answered_with_one(function: Any) -> None:
    """Not with a method that takes other arguments."""
    hint = _hint_of(lambda: ks.StreamsBuilder("slips").stream("in").filter(function))
    assert hint == "write it as lambda key, value: …"


@pytest.mark.parametrize(
    "use",
    [
        lambda record: record.timestamp - timedelta(minutes=5),
        lambda record: record.timestamp < datetime.fromtimestamp(0, UTC),
        lambda record: datetime.fromtimestamp(0, UTC) >= record.timestamp,
    ],
)
def test_a_time_of_a_record_beside_a_datetime_is_answered_with_its_unit(use: Any) -> None:
    """Java's times of records are numbers, too, but its durations and instants have conversions."""
    processor = type("Late", (ks.Processor,), {"process": lambda self, record: use(record)})
    assert "epoch milliseconds" in _hint_of(lambda: _drive(processor))


@pytest.mark.parametrize(
    ("slip", "hint"),
    [
        (lambda: ks.SessionWindows.with_("5m"), 'did you mean "of"?'),
        (lambda: ks.Materialized.StoreType, "write store_type="),
        (lambda: ks.BuiltInDslStoreSuppliers, "write store_type="),
        (lambda: ks.kafka.SchemaRegistry({"schema.registry.url": "http://localhost"}), 'write "url"'),
    ],
)
def test_older_names_of_java_are_answered_with_ours(slip: Any, hint: str) -> None:
    """Some of them were removed in Kafka 4."""
    assert hint in _hint_of(slip)


class TopicSerde:
    """A serde as Java has it."""

    def serialize(self, topic: str, data: object) -> bytes:
        """Return the bytes."""
        return b""


def test_a_serde_of_the_users_own_is_answered_with_the_call_that_makes_one() -> None:
    """An object with Java's methods, and the name of a class."""
    builder = ks.StreamsBuilder("slips")
    assert "ks.Serdes.serde_from(" in _hint_of(lambda: builder.stream("orders", value_serde=TopicSerde()))  # type: ignore[arg-type]
    assert "ks.Serdes.serde_from(" in _hint_of(lambda: ks.Config.of({"default.value.serde": "shop.OrderSerde"}))


@pytest.mark.parametrize(
    ("gather", "hint"),
    [
        (lambda sample: [sample, sample], "add the samples of all topics: orders + users"),
        (lambda sample: {"orders": sample}, "add the samples of all topics: orders + users"),
        (lambda sample: {"orders": pd.DataFrame()}, "make a sample of it: ks.Sample.from_dataframe("),
    ],
)
def test_several_samples_are_answered_with_their_sum(gather: Callable[[ks.Sample], Any], hint: str) -> None:
    """A list or a dict of them, and a dict of frames as for ks.run."""
    builder = ks.StreamsBuilder("slips")
    builder.stream("orders").to("out")
    sample = ks.Sample.from_text("topic | key | value | time\norders | a | 1 | 0")
    assert _hint_of(lambda: ks.replay(builder.build(), gather(sample))).startswith(hint)


def test_the_questions_of_a_test_are_answered_by_a_replay_of_its_driver() -> None:
    """Guesses at the names of driver, stores and replay, and an output that is empty."""
    builder = ks.StreamsBuilder("slips")
    builder.table("orders", store="orders").to_stream().to("out")
    driver: Any = ks.TopologyTestDriver(builder.build())
    run: Any = ks.Replay.of(driver)
    assert _hint_of(lambda: driver.why_no_output("out")) == 'did you mean "ks.Replay.of(driver).why_no_output"?'
    assert _hint_of(lambda: driver.store("orders").items()) == 'did you mean "all"?'
    assert _hint_of(lambda: run.open_windows()) == 'did you mean "why_open"?'
    assert _hint_of(driver.create_output_topic("out").read_value).startswith("ks.Replay.of(driver).why_no_output(")
    assert str(run.why_dropped(key="ann")) == 'no record of key "ann" was dropped'
    compare: Any = ks.testing.assert_outputs_equal
    assert _hint_of(lambda: compare("topic", run)) == 'pass the records of a topic: replay.output("totals")'
    assert _hint_of(lambda: compare("topic", [run.output("out")])).startswith("add the outputs of topics: ")


def test_internal_topics_are_not_listed_as_outputs() -> None:
    """They hid the few names that a user knows."""
    builder = ks.StreamsBuilder("slips")
    builder.stream("orders").group_by(lambda key, value: value).count(store="n").to_stream().to("counts")
    run = ks.replay(builder.build(), ks.Sample.from_records([("orders", 0, 0, 0, "a", "b")]))
    with pytest.raises(ks.errors.EngineError) as caught:
        run.output("count")
    assert caught.value.detail == "existing names: counts"
    assert run.output("slips-n-repartition")


class _Watch(ks.Processor):
    def init(self, context: ks.ProcessorContext) -> None:
        """Pass the processor itself, as a Punctuator of Java."""
        super().init(context)
        context.schedule("1m", "stream_time", self)  # type: ignore[arg-type]

    def process(self, record: ks.Record[Any, Any]) -> None:
        """Do nothing."""

    def punctuate(self, now_ms: int) -> None:
        """Do nothing."""


def test_habits_of_a_java_application_are_answered_with_the_call_to_write() -> None:
    """A punctuator, a serde's functions with the topic, a global store's supplier, the topic in the old context."""
    builder, store = ks.StreamsBuilder("slips"), ks.Stores.in_memory_key_value_store("rates")
    builder.stream("orders").process(_Watch)
    serde_from: Any = ks.Serdes.serde_from
    add_global_store: Any = builder.add_global_store
    context: Any = ks.testing.MockProcessorContext()
    slips: dict[str, Callable[[], object]] = {
        "pass its method: self.punctuate": lambda: ks.TopologyTestDriver(builder.build()),
        "leave out the topic: write it as lambda value: …": lambda: serde_from(lambda topic, value: b"", bytes.decode),
        "write add_global_store(store, topic, supplier, consumed)": (
            lambda: add_global_store(store, "rates", ks.Consumed.with_("string", "long"), _Watch)
        ),
        'did you mean "record_metadata().topic"?': lambda: context.topic(),
    }
    assert {hint: _hint_of(slip) for hint, slip in slips.items()} == {hint: hint for hint in slips}


def test_an_extractor_is_named_with_its_own_line_and_a_hint() -> None:
    """Not with the line that declared the stream."""
    builder = ks.StreamsBuilder("slips")

    def paid_at(record: Any, _: int) -> int:
        return record.timestamp()  # type: ignore[no-any-return]

    builder.stream("orders", timestamp_extractor=paid_at).to("out")
    with pytest.raises(ks.errors.ProcessingError) as caught:
        ks.TopologyTestDriver(builder.build()).create_input_topic("orders").pipe_input("a", 1)
    assert caught.value.hint == "timestamp is an attribute: write it without ()"
    assert "return record.timestamp()" in str(caught.value.origin)
