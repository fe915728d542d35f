"""Foreign-key joins: orders (left) reference a customer (right) by a field of their value."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.codec import SerializedValue, by_home
from kstreamnb.core.operator import Forward
from kstreamnb.core.record import Change, Headers, TopicRecord
from kstreamnb.core.serdes import JsonSerde, Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.errors import EngineError, ProcessingError, TopologyError
from kstreamnb.operators.foreign_key import (
    ForeignTableJoin,
    Instruction,
    Response,
    ResponseSerde,
    Subscription,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
    SubscriptionSerde,
    TablePartitioner,
    subscription_prefix,
    value_hash,
)
from kstreamnb.operators.foreign_key_answers import SubscriptionResolve
from kstreamnb.operators.tables import MaterializedView, TableSource
from kstreamnb.runtime.context.handlers import RecordProduced
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from tests.unit.operators.fake_context import FakeContext

TEXT = Serdes.string()
SUBSCRIPTIONS = SubscriptionSerde().with_defaults(TEXT, TEXT)
RESPONSES = ResponseSerde().with_defaults(TEXT, TEXT)


def customer_of(order: str) -> str | None:
    """The first letter of an order is its customer."""
    return order[:1] or None


def pair(order: Any, customer: Any) -> str:
    """Both values as text, ``-`` for a missing one."""
    return f"{order}/{customer or '-'}"


class Orders:
    """Orders joined with customers; the internal topics are lists of real bytes that are read at once or on demand."""

    def __init__(self, *, left: bool, versioned: bool = False) -> None:
        kind: Any = "versioned" if versioned else "timestamped_key_value"
        subscriptions = StoreSpec(
            "subscriptions", "timestamped_key_value", key_serde=Serdes.bytes(), value_serde=SUBSCRIPTIONS
        )
        tables = [StoreSpec(name, kind, history_ms=100) for name in ("orders", "customers")]
        self.context = FakeContext(*tables, subscriptions, partition=3)
        self.sent: list[tuple[str | None, str]] = []
        bind = self.context.bind
        self._resolve = bind(SubscriptionResolve(MaterializedView("orders", versioned), pair, left), node="resolve")
        join = bind(SubscriptionJoin(MaterializedView("customers", versioned)), forward=self._response_topic())
        receive = bind(SubscriptionReceive("subscriptions"), forward=join._process)
        send = SubscriptionSend(customer_of, left=left, versioned=versioned)
        sender = bind(send, forward=self._subscription_topic(receive._process))
        self.order = bind(TableSource("orders", True), forward=sender._process)
        tell = bind(ForeignTableJoin("subscriptions", versioned=versioned), forward=self._response_topic())
        self.customer = bind(TableSource("customers", True), forward=tell._process)

    def _subscription_topic(self, receive: Any) -> Forward:
        def through(key: Any, message: Subscription, timestamp: int, headers: Headers) -> None:
            self.sent.append((key, message.instruction.name))
            receive(key, SUBSCRIPTIONS.deserialize(SUBSCRIPTIONS.serialize(message)), timestamp, headers)

        return through

    def _response_topic(self) -> Forward:
        def through(key: Any, message: Response, timestamp: int, headers: Headers) -> None:
            self.answer(key, RESPONSES.deserialize(RESPONSES.serialize(message)), timestamp, headers)

        return through

    def answer(self, key: Any, message: Response, timestamp: int, headers: Headers = ()) -> None:
        """Pass an answer to the left table's task."""
        self._resolve._process(key, message, timestamp, headers)


def test_an_order_meets_its_customer_whoever_comes_first() -> None:
    """The result has the later time if the order arrives, the customer's own time if the customer does."""
    t = Orders(left=False)
    assert t.order("1", "ab", 5) == []
    assert t.customer("a", "Ann", 3) == [("1", "ab/Ann", 3)]
    assert t.order("2", "ac", 1, (("h", b"x"),)) == [("2", "ac/Ann", 3, (("h", b"x"),))]
    assert t.customer("a", "Anna", 4) == [("1", "ab/Anna", 4), ("2", "ac/Anna", 4)]
    assert t.customer("a", None, 6) == [("1", None, 6), ("2", None, 6)]


@pytest.mark.parametrize("left", [False, True])
def test_each_change_of_an_order_gives_its_instructions(left: bool) -> None:
    """The messages for an insert, an update, another customer, no customer and a deletion."""
    t = Orders(left=left)
    told, found = "PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE", "PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE"
    gone, gone_told = "DELETE_KEY_NO_PROPAGATE", "DELETE_KEY_AND_PROPAGATE"
    sent = []
    for order in ("a1", "a2", "b1", "", "b2", None, None):
        t.sent.clear()
        t.order("1", order, 1)
        sent.append(list(t.sent))
    inner = [
        [("a", found)], [("a", found)], [("a", gone), ("b", told)], [("b", gone_told)], [("b", found)],
        [("b", gone_told)], [],
    ]  # fmt: skip
    outer = [
        [("a", told)], [("a", told)], [("a", gone), ("b", told)], [("b", gone), (None, told)], [("b", told)],
        [("b", gone), (None, told)], [],
    ]  # fmt: skip
    assert (outer if left else inner) == sent
    assert ([] if left else ["null foreign key"]) == t.context.reasons()


def test_a_left_join_keeps_orders_without_customer() -> None:
    """Without a known customer the result is the order alone; a deleted order produces a tombstone."""
    t = Orders(left=True)
    assert t.order("1", "ab", 5) == [("1", "ab/-", 5)]
    assert t.order("1", "", 6) == [("1", "/-", 6)]
    assert t.customer("a", "Ann", 7) == []
    assert t.order("1", None, 8) == [("1", None, 8)]
    assert t.order("1", None, 9) == []


def test_subscribers_hear_in_the_order_of_their_keys() -> None:
    """A customer's change reaches its orders in byte order of their keys, and no other customer's."""
    t = Orders(left=False)
    for key, order in (("2", "a"), ("10", "a"), ("1", "a"), ("3", "ab"), ("9", "b")):
        t.order(key, order, 1)
    assert [f[0] for f in t.customer("a", "Ann", 2)] == ["1", "10", "2", "3"]


def test_an_answer_to_a_value_that_is_gone_is_dropped() -> None:
    """The hash shows that the order has changed since the subscription."""
    t = Orders(left=False)
    t.order("1", "ab", 1)
    t.answer("1", Response(value_hash(b"older"), "Ann"), 2)
    assert t.context.forwarded == []
    assert t.context.reasons() == ["expired"]
    t.answer("1", Response(value_hash(b"ab"), "Ann"), 2)
    assert t.context.forwarded == [("1", "ab/Ann", 2)]


def test_out_of_order_changes_of_versioned_tables_are_dropped() -> None:
    """An older version of an order or a customer changes no result."""
    t = Orders(left=False, versioned=True)
    t.customer("a", "Ann", 10)
    assert t.order("1", "ab", 10) == [("1", "ab/Ann", 10)]
    assert t.order("1", "ax", 5) == t.customer("a", "Anna", 5) == []
    assert t.context.reasons() == ["out of order"] * 2


def test_null_keys_are_dropped_where_a_row_needs_one() -> None:
    """A customer without a key, and a subscription without a foreign key that requests no answer."""
    t = Orders(left=False)
    tell = t.context.bind(ForeignTableJoin("subscriptions"))
    receive = t.context.bind(SubscriptionReceive("subscriptions"))
    assert tell(None, Change("Ann"), 1) == []
    assert receive(None, Subscription(None, Instruction.DELETE_KEY_NO_PROPAGATE, "1", 0), 1) == []
    assert t.context.reasons() == ["null key", "null foreign key"]


def test_messages_have_the_bytes_of_kafka() -> None:
    """Version, flag for no hash, instruction, hash, primary key, partition; an answer has no partition."""
    digest = value_hash(b"value")
    known = Subscription(digest, Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE, "pk", 7)
    assert b"\x01\x03" + digest + b"pk" + struct.pack(">i", 7) == SUBSCRIPTIONS.serialize(known)
    deleted = Subscription(None, Instruction.DELETE_KEY_AND_PROPAGATE, "pk", 7)
    assert SUBSCRIPTIONS.serialize(deleted) == b"\x81\x01pk" + struct.pack(">i", 7)
    assert [known, deleted] == [SUBSCRIPTIONS.deserialize(SUBSCRIPTIONS.serialize(m)) for m in (known, deleted)]
    assert RESPONSES.serialize(Response(digest, "v", 7)) == b"\x00" + digest + b"v"
    assert RESPONSES.serialize(Response(None, None, 7)) == b"\x80"
    assert RESPONSES.deserialize(b"\x00" + digest) == Response(digest, None, None)
    assert subscription_prefix(b"ab") == b"\x00\x00\x00\x02ab"


def test_the_hash_is_murmur3_of_128_bits() -> None:
    """Every length of the remainder after whole blocks changes the hash, and equal values have equal hashes."""
    hashes = [value_hash(bytes(range(n))) for n in range(40)]
    assert {len(h) for h in hashes} == {16}
    assert len(set(hashes)) == 40
    assert hashes == [value_hash(bytes(range(n))) for n in range(40)]


_JAVA_HASHES = {
    0: "9d2764a018e329428c3cf3b035938518",
    9: "b79cc91e67eb164f7285936d18b5c4c8",
    16: "3b1ca826ba2a8ab100ff368af7e15570",
    31: "0fc8bff6b4d635a2db8b6c0ce90a3cd8",
    100: "ac5e6f34f01858a4773258770366c397",
}
"""Results of `Murmur3.hash128` of Kafka Streams 4.3.1, by the number of bytes."""


@pytest.mark.parametrize(("size", "expected"), _JAVA_HASHES.items())
def test_a_value_has_the_hash_that_kafka_streams_computes(size: int, expected: str) -> None:
    """Subscriptions of an application that was run by Kafka Streams hold its hashes."""
    assert value_hash(bytes((37 * n + 200) % 256 for n in range(size))).hex() == expected


def _changing(order: dict[str, object], customer: dict[str, object]) -> dict[str, object]:
    """Change both arguments, and return what they were."""
    result = {"order": order.pop("n"), "name": customer.pop("name", "gone")}
    order["joined"] = customer["joined"] = True
    return result


def _naming(order: dict[str, Any], customer: dict[str, Any]) -> dict[str, Any]:
    """Read both arguments only."""
    return {**order, "name": customer["name"]}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("serde", [Serdes.json(), JsonSerde(sort_keys=True)])
def test_a_joiner_that_changes_its_arguments_changes_no_row_and_no_other_result(recorded: bool, serde: Any) -> None:
    """Tasks of one process pass copies on instead of bytes; each result is computed from a separate copy."""
    builder = StreamsBuilder("fk")
    orders, customers = (builder.table(name, value_serde=serde) for name in ("orders", "customers"))
    orders.join(customers, _changing, foreign_key=lambda order: order["of"]).to_stream().to("out")
    events: list[object] = []
    driver = TopologyTestDriver(builder.build(), observe=events.append if recorded else None)
    records = [TopicRecord("orders", -1, -1, n, f"o{n}", {"n": n, "of": "c"}) for n in range(6)]
    named = [TopicRecord("customers", -1, -1, 10 + n, "c", {"name": name}) for n, name in enumerate(("Ann", "Bob"))]
    driver.pipe([*records, *named, TopicRecord("orders", -1, -1, 20, "o0", {"n": 7, "of": "c"})])
    got = [record.value for record in driver.create_output_topic("out").read_records_to_list()]
    assert got == [{"order": n, "name": name} for name in ("Ann", "Bob") for n in range(6)] + [
        {"order": 7, "name": "Bob"}
    ]
    published = [event for event in events if isinstance(event, RecordProduced) and event.topic.startswith("fk-")]
    assert {type(event.value) for event in published} == ({SerializedValue} if recorded else set())


@pytest.mark.parametrize("joiner", [_changing, _naming, lambda order, customer: {"order": order, "of": customer}])
def test_rows_of_a_join_change_neither_with_its_joiner_nor_with_the_nodes_after_it(joiner: Any) -> None:
    """A joiner that only reads its arguments gets the rows themselves; an observed run, which copies more, agrees."""

    def run(**options: Any) -> list[Any]:
        builder = StreamsBuilder("fk")
        orders, customers = builder.table("orders", store="kept-orders"), builder.table("customers", store="kept")
        joined = orders.join(customers, joiner, foreign_key=lambda order: order["of"]).to_stream()
        joined.peek(lambda _, value: value.update(seen=value.get("seen", 0) + 1)).to("out")
        driver = TopologyTestDriver(builder.build(), **options)
        given = [TopicRecord("orders", -1, -1, n, f"o{n % 3}", {"n": n, "of": f"c{n % 2}"}) for n in range(9)]
        named = [TopicRecord("customers", -1, -1, n, f"c{n % 2}", {"name": f"{n}"}) for n in range(4)]
        driver.pipe([*given[:5], *named[:2], *given[5:], *named[2:]])
        stores: list[Any] = [driver.store(name) for name in ("kept-orders", "kept")]
        rows = [[*store.all()] for store in stores]
        assert [value["n"] for _, value in rows[0]] == [6, 7, 8]
        return [rows, driver.create_output_topic("out").read_records()]

    assert run() == run(observe=[].append)


def test_answers_go_home_and_questions_where_the_row_is() -> None:
    """Partitioners: the subscriber's partition, or the user's choice of exactly one."""
    assert by_home("t", "1", Response(None, None, 5), 8) == 5
    assert TablePartitioner(lambda topic, key, value, n: {2})("t", "1", Response(None, None, 5), 8) == 2
    assert TablePartitioner(lambda topic, key, value, n: None)("t", "1", None, 8) is None
    with pytest.raises(EngineError, match="chose 2 partitions"):
        TablePartitioner(lambda topic, key, value, n: {1, 2})("t", "1", None, 8)


def test_an_answer_to_a_partition_that_does_not_exist_is_refused() -> None:
    """Answers before it have gone home; the error names the partition."""
    builder = StreamsBuilder("homes")
    builder.stream("in", value_serde="json").to("out", value_serde="json", partitioner=by_home)
    driver = TopologyTestDriver(builder.build(), partitions={"out": 2})
    records = [TopicRecord("in", -1, -1, at, "k", [None, None, home]) for at, home in enumerate((1, 0, 1, 0, 2))]
    with pytest.raises(ProcessingError, match="chose partition 2"):
        driver.pipe(records)
    assert [record.partition for record in driver.create_output_topic("out").read_records_to_list()] == [1, 0, 1, 0]


updates = st.lists(
    st.tuples(st.booleans(), st.sampled_from("ab"), st.sampled_from([None, "", "a", "b", "a1", "b1"])), max_size=30
)


@pytest.mark.parametrize("left", [False, True])
@given(updates)
def test_the_joined_table_is_the_join_of_both_tables(left: bool, rows: list[tuple[bool, str, str | None]]) -> None:
    """After any updates, the folded result contains every order with its customer's row."""
    t = Orders(left=left)
    orders: dict[str, str] = {}
    customers: dict[str, str] = {}
    for time, (is_order, key, value) in enumerate(rows):
        value = value if is_order else (value or None)
        (t.order if is_order else t.customer)(key, value, time)
        table = orders if is_order else customers
        table.update({key: value}) if value is not None else table.pop(key, None)
    folded = {key: value for key, value, *_ in t.context.forwarded}
    expected = {
        key: pair(order, customers.get(customer_of(order) or ""))
        for key, order in orders.items()
        if left or (customer_of(order) or "") in customers
    }
    assert expected == {key: value for key, value in folded.items() if value is not None}


def test_a_foreign_value_without_bytes_joins_as_none() -> None:
    """Kafka's answer holds no value then; so no copy of the value may take the place of its bytes."""
    builder = StreamsBuilder("fk")
    orders, customers = (builder.table(name, value_serde=TEXT) for name in ("orders", "customers"))
    orders.left_join(customers, pair, foreign_key=customer_of).to_stream().to("out", value_serde=TEXT)
    driver = TopologyTestDriver(builder.build())
    rows = [("customers", "a", "Ann"), ("customers", "b", ""), ("orders", "1", "a1"), ("orders", "2", "b2")]
    driver.pipe([TopicRecord(topic, -1, -1, n, key, value) for n, (topic, key, value) in enumerate(rows)])
    records = driver.create_output_topic("out", value_serde=TEXT).read_records_to_list()
    assert [record.value for record in records] == ["a1/Ann", "b2/-"]


def test_the_functions_of_a_join_may_be_given_by_position_and_by_name() -> None:
    """In any combination, they make the same join."""
    ways: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((customer_of, pair), {}),
        ((customer_of,), {"joiner": pair}),
        ((pair,), {"foreign_key": customer_of}),
        ((), {"foreign_key": customer_of, "joiner": pair}),
    ]
    described = set()
    for functions, by_name in ways:
        builder = StreamsBuilder("fk")
        builder.table("orders").join(builder.table("customers"), *functions, **by_name).to_stream().to("out")
        described.add(builder.build().describe())
    assert len(described) == 1


def test_a_function_that_is_given_twice_is_refused() -> None:
    """By position and by name."""
    builder = StreamsBuilder("fk")
    with pytest.raises(TopologyError, match='"join" takes a joiner, or a foreign key and a joiner'):
        builder.table("orders").join(builder.table("customers"), customer_of, pair, joiner=pair)
