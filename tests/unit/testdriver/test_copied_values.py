"""Values between tasks of one process: copied if their bytes would say the same, and private to each reader."""

from __future__ import annotations

from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.core.codec import CopiedValue, SerializedValue
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.signatures import only_reads
from kstreamnb.state.codec import value_codec

BY_SHOP = "sales-by-shop-repartition"
FLAT: dict[str, Any] = {"shop": "Ulm", "pieces": 2, "price": 9.5, "gift": False, "note": None}


def topology() -> ks.Topology:
    """Sales by shop; the reader behind the repartition topic changes values in place before it writes them."""
    builder = ks.StreamsBuilder("sales")
    by_shop = builder.stream("sales").select_key(lambda _, sale: sale["shop"]).repartition(name="by-shop")
    by_shop.peek(lambda _, sale: sale.update(seen=True)).to("seen")
    return builder.build()


def written(driver: ks.TopologyTestDriver, topic: str) -> list[object]:
    """Return the values of a topic as its log holds them."""
    return [row[4] for row in driver.tasks.logs[topic].rows]


@pytest.mark.parametrize("number", [1, 20])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_reader_that_changes_a_value_changes_no_topic(number: int, partitions: int) -> None:
    """A flat JSON value stays a copy from task to task; its topic keeps what was written, and so does the input."""
    driver = ks.TopologyTestDriver(topology(), partitions=partitions)
    given = [TopicRecord("sales", -1, -1, at, "a", dict(FLAT)) for at in range(number)]
    driver.pipe(given)
    assert [CopiedValue] * number == list(map(type, written(driver, BY_SHOP)))
    assert [FLAT] * number == [record.value for record in driver.create_output_topic(BY_SHOP).read_records()]
    kept = written(driver, "seen")
    seen = driver.create_output_topic("seen").read_records()
    assert [FLAT | {"seen": True}] * number == [record.value for record in seen]
    seen[0].value.clear()
    assert FLAT | {"seen": True} == kept[0]
    assert [FLAT] * number == [record.value for record in given]


@pytest.mark.parametrize("more", [{"sizes": (38, 39)}, {"city": "Köln"}, {"count": 2**63}])
def test_a_value_that_a_copy_may_not_stand_for_is_serialized(more: dict[str, Any]) -> None:
    """Nested values, other letters and long numbers go through their bytes: a tuple comes back as a list."""
    driver = ks.TopologyTestDriver(topology(), partitions=1)
    driver.pipe([TopicRecord("sales", -1, -1, 0, "a", FLAT | more)])
    assert [SerializedValue] == list(map(type, written(driver, BY_SHOP)))
    decoded = {name: list(value) if type(value) is tuple else value for name, value in more.items()}
    assert repr(FLAT | decoded) == repr(driver.create_output_topic(BY_SHOP).read_value())


def test_observers_and_dead_letters_get_bytes() -> None:
    """Events show what a topic would hold, and a dead letter the bytes of the input that failed."""
    events: list[Any] = []
    ks.TopologyTestDriver(topology(), observe=events.append).pipe([TopicRecord("sales", -1, -1, 0, "a", dict(FLAT))])
    data = ks.Serdes.json().serialize(FLAT)
    assert data == next(event.value for event in events if type(event).__name__ == "RecordProduced")

    builder = ks.StreamsBuilder("sales")
    builder.stream("sales").map_values(lambda sale: sale.pop("shop") + 1).to("out")
    config = {"processing_handler": "continue", "dead_letter_topic": "letters"}
    driver = ks.TopologyTestDriver(builder.build(), config)
    driver.pipe([TopicRecord("sales", -1, -1, 0, "a", dict(FLAT))])
    assert data == driver.create_output_topic("letters", value_serde="bytes").read_value()


def orders_with_customers(**options: Any) -> ks.TopologyTestDriver:
    """Return a driver of orders that meet their customer, with rows that move, go, and are not flat."""
    builder = ks.StreamsBuilder("orders")
    orders, customers = builder.table("orders"), builder.table("customers", store="people")
    joined = orders.left_join(
        customers, lambda order, customer: {**order, "by": customer}, foreign_key=lambda order: order["customer"]
    )
    joined.to_stream().to("joined")
    driver = ks.TopologyTestDriver(builder.build(), verify=False, **options)
    records = []
    for at in range(60):
        order = {
            "customer": None if at % 11 == 0 else f"c{at * 7 % 5}",
            "n": at // 20,
            **({"at": [at]} if at % 4 else {}),
        }
        records.append(TopicRecord("orders", -1, -1, at, f"o{at % 9}", None if at % 13 == 0 else order))
        if at % 3 == 0:
            customer = None if at % 15 == 0 else {"name": f"Ann {at // 9}"}
            records.append(TopicRecord("customers", -1, -1, at, f"c{at % 5}", customer))
    driver.pipe(records)
    return driver


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_join_of_copies_writes_and_keeps_what_one_of_bytes_does(partitions: int) -> None:
    """A recorded driver keeps bytes and computes each hash: topics, also internal ones, and stores are the same."""

    def both() -> list[ks.TopologyTestDriver]:
        return [orders_with_customers(partitions=partitions, observe=observe) for observe in (None, [].append)]

    plain, recorded = both()
    (subscriptions,) = [name for name in plain.topology.stores if "SUBSCRIPTION" in name]
    stores = [task.stores["people"] for task in plain.tasks.order if "people" in task.stores]
    assert {CopiedValue} == {type(row[0]) for store in stores for row in store.raw.values()}
    assert len(plain.topology.internal_topics) == 2
    for topic in ("joined", *(f"orders-{name}" for name in plain.topology.internal_topics)):
        for serde in ("bytes", None):
            read = [driver.create_output_topic(topic, value_serde=serde).read_records() for driver in both()]
            assert read[0] == read[1] != []
    for name in ("people", subscriptions):
        rows = [list(driver.store(name).all()) for driver in (plain, recorded)]
        assert rows[0] == rows[1] != []
        assert repr(rows[0]) == repr(rows[1])


def test_a_row_read_from_a_store_is_private_to_its_reader() -> None:
    """A reader that changes a row changes neither the store nor the next answer of a join."""
    driver = orders_with_customers()
    people = driver.store("people")
    before = dict(people.all())
    for row in dict(people.all()).values():
        row.clear()
    assert before == dict(people.all())


def test_a_join_keeps_the_value_that_its_joiner_left_and_no_later_change() -> None:
    """The window store is written after the join, as in Kafka, and keeps a private copy."""

    def take(left: dict[str, Any], right: dict[str, Any]) -> list[int]:
        left["pieces"] += 1
        return [left["pieces"], right["pieces"]]

    builder = ks.StreamsBuilder("pairs")
    builder.stream("left").join(builder.stream("right"), take, ks.JoinWindows.of("1s")).to("out")
    driver = ks.TopologyTestDriver(builder.build(), partitions=1)
    topics = ["right", "left", "right", "right"]
    driver.pipe([TopicRecord(topic, -1, -1, at, "a", dict(FLAT)) for at, topic in enumerate(topics)])
    assert [[3, 2], [4, 2], [4, 2]] == [record.value for record in driver.create_output_topic("out").read_records()]


def keeping(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Return the left value itself."""
    right["pieces"] += left["pieces"]
    return left


def reading(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Read both values only."""
    return {**left, "pieces": left["pieces"] + right["pieces"]}


@pytest.mark.parametrize(
    ("kind", "joiner"),
    [
        ("join", keeping),
        ("join", reading),
        ("join", lambda left, right: {"left": left, "right": {**right}}),
        ("left_join", lambda left, _: {**left}),
        ("left_join", lambda left, right: {"left": left, "right": right}),
        ("outer_join", lambda left, right: {"left": left, "right": right}),
    ],
)
def test_a_join_of_streams_gives_its_stored_values_only_to_joiners_that_read_them(joiner: Any, kind: str) -> None:
    """Whatever a joiner and the nodes after it do to the values, an observed run, which copies more, does the same."""

    def run(**options: Any) -> list[Any]:
        builder = ks.StreamsBuilder("pairs")
        left, right = (builder.stream(topic) for topic in ("left", "right"))
        pairs = getattr(left, kind)(right, joiner, ks.JoinWindows.of("1s"))
        pairs.peek(lambda _, pair: pair.update(seen=pair.get("seen", 0) + 1)).to("out")
        driver = ks.TopologyTestDriver(builder.build(), verify=False, **options)
        given = [
            TopicRecord(("left", "right")[at % 2], -1, -1, at * 300, "ab"[at // 5 % 2], {**FLAT, "pieces": at})
            for at in range(40)
        ]
        driver.pipe(given)
        assert list(range(40)) == [record.value["pieces"] for record in given]
        stores = [list(driver.store(name).all()) for name in driver.topology.stores if "SHARED" not in name]
        return [stores, driver.create_output_topic("out").read_records()]

    assert run() == run(observe=[].append)


@pytest.mark.parametrize(
    ("function", "reads"),
    [
        (reading, True),
        (keeping, False),
        (lambda one, _: one["n"] > 2 and one[0], True),
        (lambda one, _: dict(**one), True),
        (lambda one, _: one.pop("n"), False),
        (lambda one, _: one["n"].pop(), True),  # a flat dict has no value that could be changed
        (lambda one, _: lambda: one["n"], False),
        (lambda one, _: locals(), False),
        (len, False),
    ],
)
def test_a_function_that_only_reads_a_value_is_known_by_its_code(function: Any, reads: bool) -> None:
    """Anything but reading items is taken for a change."""
    assert reads is only_reads(function, 0)


def test_a_store_keeps_copies_of_its_first_rows_only() -> None:
    """Later rows are bytes, which take less memory; so is what is not a flat value."""
    few, many = value_codec(ks.Serdes.json(), range(10)), value_codec(ks.Serdes.json(), range(20_000))
    assert [CopiedValue, SerializedValue] == [type(codec.encode(FLAT)) for codec in (few, many)]
    assert FLAT == few.decode(few.encode(FLAT)) == many.decode(many.encode(FLAT))
    assert few.to_bytes(few.encode(FLAT)) == many.to_bytes(many.encode(FLAT))
    assert SerializedValue is type(few.encode({"sizes": [38]}))
    assert few.encode(None) is None


@pytest.mark.parametrize("number", [1, 20])
def test_a_count_reads_values_without_copies_and_refuses_the_same_ones(number: int) -> None:
    """A null value is not counted and a value that JSON cannot express fails, though no function sees the values."""
    builder = ks.StreamsBuilder("sales")
    builder.stream("sales").group_by_key().count(store="counts")
    driver = ks.TopologyTestDriver(builder.build(), verify=False)
    driver.pipe([TopicRecord("sales", -1, -1, at, "a", dict(FLAT)) for at in range(number)])
    driver.pipe([TopicRecord("sales", -1, -1, number + at, "a", None) for at in range(number)])
    assert number == driver.store("counts")["a"]
    with pytest.raises(ks.errors.KStreamError, match="cannot write"):
        driver.pipe([TopicRecord("sales", -1, -1, number, "a", {"price": float("nan")})] * number)


def test_functions_before_a_count_get_values_of_their_own() -> None:
    """Only a count that reads the source itself leaves values uncopied."""
    builder = ks.StreamsBuilder("sales")
    sales = builder.stream("sales")
    sales.foreach(lambda _, sale: sale.clear())
    sales.peek(lambda _, sale: sale.update(seen=True)).group_by_key().count()
    given = [TopicRecord("sales", -1, -1, at, "a", dict(FLAT)) for at in range(20)]
    ks.TopologyTestDriver(builder.build(), verify=False).pipe(given)
    assert [FLAT] * 20 == [record.value for record in given]


@pytest.mark.parametrize("number", [1, 20])
def test_a_partitioner_chooses_no_one_or_several_partitions_of_each_record(number: int) -> None:
    """Records are written to the chosen partitions in ascending order, or dropped, whether they come alone or not."""
    builder = ks.StreamsBuilder("sales")
    builder.stream("sales").to("out", partitioner=lambda topic, key, value, count: range(value % 3))
    driver = ks.TopologyTestDriver(builder.build(), partitions={"sales": 2, "out": 2}, verify=False)
    driver.pipe([TopicRecord("sales", -1, -1, at, "a", at + 1) for at in range(number)])
    expected = [(at + 1, partition) for at in range(number) for partition in range((at + 1) % 3)]
    assert expected == [(row[4], row[1]) for row in driver.tasks.logs["out"].rows]


def windowed_records(**config: str) -> ks.TopologyTestDriver:
    """A topic with windowed keys that is copied; one of two records has no key."""
    builder, windowed = ks.StreamsBuilder("sales"), ks.Serdes.time_windowed("string", "10ms")
    builder.stream("sales", key_serde=windowed).map_values(lambda value: value + 1).to("out")
    driver = ks.TopologyTestDriver(builder.build(), config, partitions=2, verify=False)
    driver.create_input_topic("sales").pipe_key_value_list([(ks.Windowed("a", 0, 10), 1)], start=0)
    driver.create_input_topic("sales").pipe_input(None, 2, at=1)
    return driver


def test_a_topic_with_windowed_keys_takes_no_record_without_a_key() -> None:
    """The key within the window chooses the partition, as in Kafka Streams: it fails like a user's partitioner."""
    with pytest.raises(ks.errors.ProcessingError, match='"out" has windowed keys, but a record has no key') as failed:
        windowed_records()
    assert "processor=KSTREAM-MAPVALUES-0000000001" in "".join(failed.value.__notes__)
    driver = windowed_records(processing_handler="continue")
    assert 1 == sum(driver.metrics()["dropped-records-total"].values())
    assert [2] == [row[4] for row in driver.tasks.logs["out"].rows]
