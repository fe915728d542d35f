"""Users' processors in an application: alerts, a product counter with a punctuator, a reorder buffer."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from tests.semantics.scenario import Engine, Row, Scenario, WallClock, described

# --- S2-31: an alert from the DSL ---------------------------------------------------------------------------------


class PopularProductEmailAlert(ks.Processor[int, int, Any, Any]):
    """Mails a notice that a page has become popular; the outbox is a file."""

    def __init__(self, address: str, outbox: Path | None) -> None:
        self.address, self.outbox = address, outbox

    def process(self, record: ks.Record[int, int]) -> None:
        """Mail one alert."""
        if self.outbox is not None:
            with self.outbox.open("a") as file:
                file.write(f"{self.address}: page {record.key}\n")


def popular_products(outbox: Path | None = None) -> ks.Topology:
    """Alert at the thousandth view of a page."""
    builder = ks.StreamsBuilder()
    (
        builder.stream("ProductViewsTopic", key_serde="long", value_serde="long")
        .filter(lambda page, views: views == 1000)
        .process(partial(PopularProductEmailAlert, "alerts@yourcompany.com", outbox))
    )
    return builder.build()


PAGE_VIEWS = tuple(
    Row("ProductViewsTopic", page, views, 0) for page, views in ((1, 999), (1, 1000), (1, 1001), (2, 1000))
)


def test_a_popular_product_is_mailed_once(engine: Engine, tmp_path: Path) -> None:
    """S2-31: two pages reach a thousand views, two alerts are mailed."""
    outbox = tmp_path / "outbox"
    engine.run(Scenario(lambda: popular_products(outbox), PAGE_VIEWS))
    mails = [f"alerts@yourcompany.com: page {page}" for page in (1, 2)]
    assert sorted(outbox.read_text().splitlines()) == sorted(mails * engine.copies)


def test_a_processor_in_the_dsl_has_kafkas_name() -> None:
    """S2-31: source, filter and processor, numbered in order."""
    assert described("popular_products") == popular_products().describe()


# --- S2-32 to S2-35: the product counter --------------------------------------------------------------------------


class ProductCounter(ks.Processor[int, str, int, Any]):
    """Counts the views of each product; every second it forwards all counts and requests a commit."""

    kind = ks.PunctuationType.STREAM_TIME

    def init(self, context: ks.ProcessorContext) -> None:
        """Keep the context, get the store, start the punctuator."""
        super().init(context)
        self.counts = context.get_state_store("Counts")
        context.schedule("1000ms", self.kind, self.tell)

    def process(self, record: ks.Record[int, str]) -> None:
        """Count one view."""
        self.counts.put(record.key, (self.counts.get(record.key) or 0) + 1)

    def tell(self, now: int) -> None:
        """Forward every count."""
        for product, count in self.counts.all():
            self.context.forward(ks.Record(product, self.shown(count), now))
        self.context.commit()

    def shown(self, count: int) -> Any:
        """Return the message for a count."""
        return count


class WallClockCounter(ProductCounter):
    """The same by the wall clock."""

    kind = ks.PunctuationType.WALL_CLOCK_TIME


class TextCounter(ProductCounter):
    """The same with a mistake: it forwards counts as text."""

    def shown(self, count: int) -> Any:
        """The count as text."""
        return str(count)


class Silent(ks.Processor[Any, Any, Any, Any]):
    """Replaces PRINT: takes the counts and forwards nothing."""

    def process(self, record: ks.Record[Any, Any]) -> None:
        """Do nothing."""


def product_counter(counter: Any = ProductCounter) -> ks.Topology:
    """The hand-built topology: source, counter with its store, a printer and a sink of longs."""
    counts = ks.Stores.in_memory_key_value_store("Counts", key_serde="long", value_serde="long")
    return (
        ks.Topology()
        .add_source("SOURCE", "logs", key_serde="long", value_serde="string")
        .add_processor("PRODUCT_COUNTER", counter, "SOURCE")
        .add_state_store(counts, "PRODUCT_COUNTER")
        .add_processor("PRINT", Silent, "PRODUCT_COUNTER")
        .add_sink("SINK_COUNTER", "counter_topic", "PRODUCT_COUNTER", key_serde="long", value_serde="long")
    )


def views(*seen: tuple[int, str, int]) -> tuple[Row, ...]:
    """Views of products by browsers."""
    return tuple(Row("logs", product, browser, at) for product, browser, at in seen)


FIRST_SECOND = views((1, "firefox", 0), (2, "chrome", 100), (1, "safari", 999))
PRODUCTS = Scenario(
    product_counter,
    FIRST_SECOND + views((1, "opera", 1000), (2, "opera", 3500)),
    {"counter_topic": [(1, 1, 0), (1, 3, 1000), (2, 1, 1000), (1, 3, 3500), (2, 2, 3500)]},
)


def test_a_processor_counts_in_its_store(engine: Engine) -> None:
    """S2-32: the store holds the views before the next punctuation."""
    outcome = engine.run(Scenario(product_counter, FIRST_SECOND))
    assert outcome.store("Counts") == {1: 2, 2: 1}


def test_a_punctuator_tells_the_counts_every_second_of_stream_time(engine: Engine) -> None:
    """S2-33: it fires at 0, 1000 and 3500; the skipped seconds in between count as one."""
    engine.check(PRODUCTS)


def test_a_punctuator_of_the_wall_clock_fires_once_for_a_long_pause(engine: Engine) -> None:
    """S2-33: after two and a half seconds there is one call, with the clock's time."""
    rows = (*FIRST_SECOND, WallClock(2500))
    output = {"counter_topic": [(1, 2, 2500), (2, 1, 2500)]}
    engine.check(Scenario(lambda: product_counter(WallClockCounter), rows, output))


def test_a_value_of_the_wrong_type_is_refused_with_node_serde_and_topic(engine: Engine) -> None:
    """S2-34: text forwarded to a sink of longs: the error names the sink, its topic, the serde and the value's type."""
    with pytest.raises(ks.KStreamError) as failed:
        engine.run(Scenario(lambda: product_counter(TextCounter), FIRST_SECOND))
    told = "\n".join(said(failed.value))
    assert [
        word for word in ("PRODUCT_COUNTER", "SINK_COUNTER", "counter_topic", "long", "str") if word not in told
    ] == []


def said(error: BaseException | None) -> list[str]:
    """Return the messages of an error and its causes."""
    if error is None:
        return []
    return [str(error), *getattr(error, "__notes__", []), *said(error.__cause__)]


def test_a_topology_by_hand_is_described_as_kafka_does() -> None:
    """S2-35: five nodes, and the store at its processor."""
    assert described("product_counter") == product_counter().describe()


def test_mistakes_in_a_topology_by_hand_have_errors_of_their_own() -> None:
    """S2-35: an unknown parent, a duplicate name, an unused store, one processor instance for all tasks."""
    one = ProductCounter()
    with pytest.raises(ks.errors.TopologyError, match='"ABSENT"'):
        ks.Topology().add_processor("P", ProductCounter, "ABSENT")
    with pytest.raises(ks.errors.TopologyError, match='"SOURCE"'):
        product_counter().add_source("SOURCE", "other")
    with pytest.raises(ks.errors.TopologyError, match="twice"):
        ks.Topology().add_source("SOURCE", "logs").add_processor("P", lambda: one, "SOURCE")
    unattached = ks.Topology().add_source("SOURCE", "logs").add_processor("P", ProductCounter, "SOURCE")
    unattached.add_state_store(ks.Stores.in_memory_key_value_store("Counts"))
    refused = '^failed to initialize processor "P": it uses store "Counts", which is not connected to it'
    with pytest.raises(ks.errors.ProcessingError, match=refused) as failed:
        ks.TopologyTestDriver(unattached)
    assert 'uses store "Counts", which is not connected to it' in str(failed.value.__cause__)


# --- S3-25: order within a window ---------------------------------------------------------------------------------


class Telling(ks.Processor[Any, Any, Any, Any]):
    """Tells when it is created, initialized and closed."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name, self.told = name, told
        self.told.append(f"create {self.name}")

    def init(self, context: Any) -> None:
        """Tell."""
        self.told.append(f"init {self.name}")

    def close(self) -> None:
        """Tell."""
        self.told.append(f"close {self.name}")

    def process(self, record: Any) -> None:
        """Do nothing."""


def test_processors_are_created_initialized_and_closed_in_the_order_of_the_topology() -> None:
    """S2-32: parents before children, as in Kafka Streams; all are created before the first is initialized."""
    told: list[str] = []
    topology = ks.Topology()
    topology.add_source("source", "in")
    for name, parent in (("first", "source"), ("child", "first"), ("second", "source")):
        topology.add_processor(name, partial(Telling, name, told), parent)
    told.clear()  # each supplier was called twice, to check that it creates a new processor
    ks.TopologyTestDriver(topology).close()
    steps = ("create", "init", "close")
    assert told == [f"{step} {name}" for step in steps for name in ("first", "child", "second")]


def test_a_processor_can_forward_to_its_children_while_it_is_initialized() -> None:
    """As in Kafka Streams: the child exists, although its own `init` comes later."""
    told: list[str] = []

    class Forwards(Telling):
        def init(self, context: Any) -> None:
            super().init(context)
            context.forward(ks.Record("k", "v", 0))

    class Notes(Telling):
        def process(self, record: Any) -> None:
            self.told.append(f"process {record.key}")

    topology = (
        ks.Topology().add_source("source", "in").add_processor("first", partial(Forwards, "first", told), "source")
    )
    topology.add_processor("child", partial(Notes, "child", told), "first")
    ks.TopologyTestDriver(topology).close()
    assert told[-5:] == ["init first", "process k", "init child", "close first", "close child"]


def test_processors_are_closed_although_one_fails() -> None:
    """As in Kafka Streams, the failure is reported after the others are closed."""
    told: list[str] = []

    class Fails(Telling):
        def close(self) -> None:
            super().close()
            raise ValueError(self.name)

    topology = ks.Topology().add_source("source", "in").add_processor("bad", partial(Fails, "bad", told), "source")
    topology.add_processor("good", partial(Telling, "good", told), "source")
    with pytest.raises(ks.errors.ProcessingError, match='close of node "bad" failed with ValueError') as caught:
        ks.TopologyTestDriver(topology).close()
    assert told[-2:] == ["close bad", "close good"]
    assert caught.value.java == "failed to close processor bad"


class Reorder(ks.Processor[str, str, str, str]):
    """Keeps records for ten seconds of stream time and forwards them by time; late ones go to another sink."""

    def init(self, context: ks.ProcessorContext) -> None:
        """Get the stores and schedule a punctuator every ten seconds."""
        super().init(context)
        self.waiting, self.last = context.get_state_store("waiting"), context.get_state_store("last")
        context.schedule("10s", ks.PunctuationType.STREAM_TIME, self.release)

    def process(self, record: ks.Record[str, str]) -> None:
        """Keep a record, or divert it if later ones have been released."""
        if record.timestamp < (self.last.get("at") or 0):
            self.context.forward(record, "late")
        else:
            self.waiting.put(f"{record.timestamp:015d}", [record.key, record.value, record.timestamp])

    def release(self, now: int) -> None:
        """Forward records that are ten seconds old."""
        for place, (key, value, at) in self.waiting.all():
            if at > now - 10_000:
                break
            self.waiting.delete(place)
            self.last.put("at", at)
            self.context.forward(ks.Record(key, value, at), "sorted")


def reorder() -> ks.Topology:
    """Two sinks downstream of the buffer: in order, and too late."""
    return (
        ks.Topology()
        .add_source("source", "in")
        .add_processor("reorder", Reorder, "source")
        .add_state_store(ks.Stores.in_memory_key_value_store("waiting"), "reorder")
        .add_state_store(ks.Stores.in_memory_key_value_store("last"), "reorder")
        .add_sink("sorted", "sorted", "reorder")
        .add_sink("late", "late", "reorder")
    )


DISORDER = tuple(
    Row("in", key, key.upper(), seconds * 1000)
    for key, seconds in (("a", 3), ("b", 1), ("c", 2), ("d", 12), ("e", 9), ("f", 21), ("g", 40), ("h", 20))
)
SORTED = Scenario(
    reorder,
    DISORDER,
    {
        "sorted": [
            (key, key.upper(), at * 1000) for key, at in (("b", 1), ("c", 2), ("a", 3), ("e", 9), ("d", 12), ("f", 21))
        ],
        "late": [("h", "H", 20_000)],
    },
)


def test_a_buffer_puts_records_in_order_within_ten_seconds(engine: Engine) -> None:
    """S3-25: records are forwarded by time; a record older than those already forwarded is diverted."""
    engine.check(SORTED)


def test_a_topic_is_chosen_by_header_and_time() -> None:
    """The function gets the headers and the time of the record that is written, and where its input came from."""
    builder = ks.StreamsBuilder("routed")
    stream = builder.stream("in")
    stream.to(
        lambda key, value, metadata: f"{dict(metadata.headers)['route'].decode()}{metadata.timestamp}-{metadata.topic}"
    )
    with ks.TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in").pipe_input("k", 1, at=5, headers={"route": b"A"})
        assert [("k", 1)] == [
            (record.key, record.value) for record in driver.create_output_topic("A5-in").read_records()
        ]


def test_a_transformer_of_values_asks_its_context_for_time_and_headers() -> None:
    """It gets no record, so the context has what `ValueTransformerWithKey` finds there in Java."""

    class Stamp:
        def init(self, context: Any) -> None:
            self.context = context

        def transform(self, key: object, value: object) -> object:
            return f"{value}@{self.context.timestamp()} {dict(self.context.headers())}"

    builder = ks.StreamsBuilder("stamped")
    builder.table("in").transform_values(Stamp).to_stream().to("out")
    with ks.TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in").pipe_input("k", 1, at=21, headers={"n": b"1"})
        assert "1@21 {'n': b'1'}" == driver.create_output_topic("out").read_value()


@pytest.mark.parametrize("cache_bytes", [0, 100_000])
def test_a_transformer_of_values_gets_the_time_of_the_row(cache_bytes: int) -> None:
    """Not of the record that changed it or joins it; a row that is looked up has no position, as in Java."""

    class Stamp:
        def init(self, context: Any) -> None:
            self.context = context

        def transform(self, key: object, value: object) -> object:
            return f"{value}@{self.context.timestamp()} {self.context.record_metadata().topic}"

    builder = ks.StreamsBuilder("rows")
    stamped = builder.stream("in").group_by_key().count().transform_values(Stamp)
    stamped.to_stream().to("out")
    builder.stream("asks").left_join(stamped, lambda left, right: f"{left}:{right}").to("out")
    with ks.TopologyTestDriver(builder.build(), {"statestore.cache.max.bytes": cache_bytes}) as driver:
        for at in (50, 20):
            driver.create_input_topic("in").pipe_input("k", "x", at=at)
        driver.create_input_topic("asks").pipe_input("k", "q", at=70)
        driver.create_input_topic("asks").pipe_input("n", "q", at=71)
        values = driver.create_output_topic("out").read_values_to_list()
    assert ["1@50 in", "2@50 in", "q:2@50 None", "q:None@-1 None"] == values


def test_a_row_put_before_the_first_record_has_the_wall_clock_in_the_changelog() -> None:
    """Before the first record, no record has a time for it."""

    class Seeds(ks.Processor):
        def init(self, context: ks.ProcessorContext) -> None:
            super().init(context)
            context.get_state_store("seeds").put("k", "v")

        def process(self, record: ks.Record) -> None:
            """Take the record."""

    builder = ks.StreamsBuilder("app")
    builder.add_state_store(
        ks.Stores.key_value_store_builder(ks.Stores.in_memory_key_value_store("seeds"), "string", "string")
    )
    builder.stream("in").process(Seeds, "seeds")
    with ks.TopologyTestDriver(builder.build(), wall_clock=1000, changelogs=True) as driver:
        driver.create_input_topic("in").pipe_input("a", 1, at=5)
        assert 1000 == driver.create_output_topic("app-seeds-changelog", value_serde="string").read_record().timestamp


def test_a_processor_that_fills_a_global_store_has_no_punctuators() -> None:
    """Kafka Streams refuses them, too."""

    class Ticks(ks.Processor):
        def init(self, context: ks.ProcessorContext) -> None:
            context.schedule("1s", "stream_time", lambda now: None)

    builder = ks.StreamsBuilder("global")
    supplier = ks.Stores.in_memory_key_value_store("all")
    builder.add_global_store(ks.Stores.key_value_store_builder(supplier, "string", "string"), "in", Ticks)
    with pytest.raises(ks.errors.ProcessingError, match="fills a global store, so it has no punctuators"):
        ks.TopologyTestDriver(builder.build())


def test_a_processor_that_fills_a_global_store_has_the_task_id_of_kafka_and_no_children() -> None:
    """The error has the words of Kafka Streams about a forward to a named child."""

    class Asks(ks.Processor):
        def process(self, record: ks.Record) -> None:
            self.context.forward(record, self.context.task_id)

    builder = ks.StreamsBuilder("global")
    builder.add_global_store(ks.Stores.in_memory_key_value_store("all"), "in", Asks)
    with pytest.raises(ks.errors.ProcessingError, match='no child "-1_-1"') as failed:
        ks.TopologyTestDriver(builder.build()).create_input_topic("in").pipe_input("a", "1")
    cause = failed.value.__cause__
    assert isinstance(cause, ks.errors.ProcessingError)
    assert cause.java == "this should not happen: forward() not supported in global processor context."


def test_a_processor_that_fills_a_global_store_has_no_stream_time() -> None:
    """Kafka Streams refuses the question, as global records belong to no task."""

    class Asks(ks.Processor):
        def process(self, record: Any) -> None:
            self.context.current_stream_time_ms()

    builder = ks.StreamsBuilder("global")
    builder.add_global_store(ks.Stores.in_memory_key_value_store("all"), "in", Asks)
    with pytest.raises(ks.errors.ProcessingError, match="fills a global store, so it has no stream time"):
        ks.TopologyTestDriver(builder.build()).create_input_topic("in").pipe_input("a", "1")
