"""Built-in serdes: bytes equal to Java's, values equal after a round trip, errors that name the serde."""

from __future__ import annotations

import json
import math
import pickle
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.codec import partition_for
from kstreamnb.core.record import Windowed
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import Serdes, serde_named
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.errors import ConfigError, SerdeError
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver

GOLDEN = Path(__file__).parents[2] / "golden" / "vectors" / "serdes.jsonl"
_NUMBERS = {"float": float, "double": float, "long": int, "list<long>": json.loads}


def _value(line):
    """Return the Python value of a golden line."""
    name, value = line["serde"], line["value"]
    if value is None:
        return None
    if name.startswith("windowed"):
        return Windowed(*value)
    if name == "uuid":
        return UUID(value)
    if name == "bytes":
        return bytes.fromhex(value)
    return _NUMBERS.get(name, lambda same: same)(value)


def _golden():
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def test_bytes_and_partitions_equal_those_of_java():
    """Every golden value has Java's bytes and goes to Java's partition."""
    lines = _golden()
    assert len(lines) == 284
    for line in lines:
        data = serde_named(line["serde"]).serialize(_value(line))
        assert line["bytes"] == (None if data is None else data.hex()), line
        for count, partition in line.get("partition", {}).items():
            assert partition == partition_for(data, int(count)), line


def test_golden_bytes_are_read_back():
    """Java's bytes are read as the original value; a window's end needs its size."""
    for line in _golden():
        value, serde = _value(line), serde_named(line["serde"])
        if line["serde"] == "windowed<string> time":
            serde = Serdes.time_windowed(Serdes.string(), f"{value.end - value.start}ms")
        data = None if line["bytes"] is None else bytes.fromhex(line["bytes"])
        back = serde.deserialize(data)
        if line["serde"] == "float":
            assert math.isclose(value, back, rel_tol=1e-7)
        else:
            assert value == back


_VALUES = {
    "string": st.text(st.characters(exclude_categories=("Cs",))),
    "long": st.integers(-(2**63), 2**63 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "short": st.integers(-(2**15), 2**15 - 1),
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
    "boolean": st.booleans(),
    "uuid": st.uuids(),
    "bytes": st.binary(),
}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _VALUES["string"],
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_VALUES["string"], inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
@pytest.mark.parametrize("name", _VALUES)
def test_scalars_survive_a_round_trip(name, data):
    """A scalar serde reads back what it writes, also within lists with gaps."""
    value = data.draw(_VALUES[name])
    serde = Serdes.named(name)
    assert value == serde.deserialize(serde.serialize(value))
    items = data.draw(st.lists(st.none() | _VALUES[name], max_size=4))
    many = Serdes.list_serde(serde)
    assert items == many.deserialize(many.serialize(items))


def test_a_double_knows_one_not_a_number_and_a_float_all_of_them():
    """As in Java's serializers, the difference of infinities is the same key as any other NaN."""
    apart = math.copysign(math.nan, -1)
    assert bytes.fromhex("7ff8000000000000") == Serdes.double().serialize(apart) == Serdes.double().serialize(math.nan)
    assert bytes.fromhex("ffc00000") == Serdes.float().serialize(apart)


@given(_JSON)
def test_json_survives_a_round_trip(value):
    """JSON values are restored equal and of the same types."""
    serde = Serdes.json()
    back = serde.deserialize(serde.serialize(value))
    assert repr(value) == repr(back)


def test_json_bytes_are_compact_utf8_in_the_order_of_the_value():
    """No spaces, no escapes for letters, and the dict's order unless sorting is requested."""
    value = {"z": [1, 2.5, None], "a": "größe"}
    assert '{"z":[1,2.5,null],"a":"größe"}'.encode() == Serdes.json().serialize(value)
    assert b'{"a":1,"z":2}' == Serdes.json(sort_keys=True).serialize({"z": 2, "a": 1})


_ITEMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, -(2**63), 10**400, -0.0, 1e300, 5e-324]),
    st.floats(),
    st.text(st.characters()),
    st.lists(st.integers(), max_size=2),
    st.just((1,)),
    st.just(b"x"),
)


@given(st.dictionaries(st.one_of(st.text(st.characters()), st.integers()), _ITEMS, max_size=4))
def test_a_copy_stands_for_the_way_through_bytes_only_where_it_is_the_same(value) -> None:
    """A flat dict is copied: names, values, types and order are those that its bytes would restore."""
    serde = Serdes.json()
    twin = serde.copy_value(value)
    if twin is not None:
        assert twin is not value
        assert repr(serde.deserialize(serde.serialize(value))) == repr(twin)


class _OwnText(str):
    """Text of a user's own type, which JSON would turn into plain text."""


def test_most_flat_dicts_need_no_bytes() -> None:
    """Text, integers, floats, booleans and null are copied; nested, sorted or non-JSON values are serialized."""
    serde, flat = Serdes.json(), {"sku": "shoe", "n": 3, "price": 9.5, "new": True, "note": None}
    assert flat == serde.copy_value(flat)
    nested, no_number, far, odd = {"sizes": [38]}, {"n": math.nan}, {"n": 2**63}, {1: "a"}
    own_texts = {_OwnText("sku"): "shoe"}, {"sku": _OwnText("shoe")}
    refused = (nested, no_number, far, odd, *own_texts, {"n": math.inf}, {"größe": 1}, [1], "shoe", None)
    assert [None] * len(refused) == [serde.copy_value(value) for value in refused]
    assert Serdes.json(sort_keys=True).copy_value(flat) is None
    assert Serdes.string().copy_value("shoe") is None


@pytest.mark.parametrize(
    ("name", "value", "detail"),
    [
        ("string", 1, "it writes str"),
        ("string", "\ud800", "surrogates not allowed"),
        ("long", "1", "int from -2**63"),
        ("long", True, "int from -2**63"),
        ("long", 2**63, "out of range"),
        ("short", 40_000, "out of range"),
        ("integer", 1.0, "int from -2**31"),
        ("double", "1.0", "it writes float"),
        ("double", 2**53 + 1, "too many digits"),
        ("float", 1e300, "too large"),
        ("boolean", 1, "it writes bool"),
        ("uuid", "123", "uuid.UUID"),
        ("bytes", "text", "it writes bytes"),
        ("void", 0, "None only"),
        ("json", {"at": object()}, "dict with text as names"),
        ("json", Windowed("a", 0, 1), "dict with text as names"),
        ("list<long>", 5, "list of int from"),
        ("windowed<string> time", "key", "Windowed with a key of str"),
        ("windowed<string> session", Windowed(None, 0, 1), "its key has no bytes"),
    ],
)
def test_an_unwritable_value_is_refused_with_the_serdes_name_and_what_it_expects(name, value, detail):
    """The error names serde, type and expectation, never the value."""
    with pytest.raises(SerdeError, match=f'serde "{name}" cannot write a value of type') as caught:
        serde_named(name).serialize(value)
    assert detail in str(caught.value.detail)


@pytest.mark.parametrize(
    ("value", "fact", "hint"),
    [
        ({"km": math.nan}, 'NaN in field "km"', "write None instead"),
        ({"trip": {"legs": [{"km": 1}, {"km": -math.inf}]}}, 'infinity in field "trip.legs[1].km"', "write None"),
        ([math.nan], 'NaN in field "[0]"', "write None"),
        (math.nan, "NaN", "write None"),
        ({2026: 1}, 'a name of type "int"', "str(name)"),
        ({"years": {2026: 1}}, 'a name of type "int" in field "years"', "str(name)"),
        (
            {"trip": {"duration": timedelta(1)}},
            'a value of type "timedelta" in field "trip.duration"',
            "text or numbers",
        ),
        ({"km": np.float64(1)}, 'a value of type "float64" in field "km"', "float(…), int(…) or .item()"),
        ({"name": "\ud800"}, 'text with half of a surrogate pair in field "name"', "where it is read"),
    ],
)
def test_json_names_the_part_of_a_value_that_it_cannot_write(value, fact, hint):
    """The error names the reason and the path of the field, at the end of its message."""
    with pytest.raises(SerdeError) as caught:
        Serdes.json().serialize(value)
    assert f'serde "json" cannot write {fact}' == caught.value.message
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(("key", "name"), [(5, "long"), (0.5, "double"), (("a", 1), "json"), ({"a": 1}, "json")])
def test_a_key_of_another_type_is_answered_with_the_serde_that_writes_it(key, name):
    """The default serde of keys is for text only."""
    with pytest.raises(SerdeError) as caught:
        Serdes.string().serialize(key)
    assert f'key_serde="{name}"' in str(caught.value.hint)
    serde_named(name).serialize(key)


def test_json_refuses_a_value_that_contains_itself():
    """No part of it is wrong, so the error names its type alone."""
    value = {}
    value["again"] = [value]
    with pytest.raises(SerdeError, match='cannot write a value of type "dict"'):
        Serdes.json().serialize(value)


@pytest.mark.parametrize(
    ("name", "data", "java"),
    [
        ("long", b"1", "Size of data received by LongDeserializer is not 8"),
        ("integer", b"12345", "Size of data received by IntegerDeserializer is not 4"),
        ("short", b"", "Size of data received by ShortDeserializer is not 2"),
        ("double", b"1", "Size of data received by Deserializer is not 8"),
        ("float", b"1", "Size of data received by Deserializer is not 4"),
        ("void", b"", "Data should be null for a VoidDeserializer."),
        ("string", b"\xff", None),
        ("boolean", b"\x02", "Unexpected byte received by BooleanDeserializer: 2"),
        ("boolean", b"\xff", "Unexpected byte received by BooleanDeserializer: -1"),
        ("boolean", b"", "Size of data received by BooleanDeserializer is not 1"),
        ("uuid", b"no", "Error parsing data into UUID"),
        ("uuid", b"123e4567e89b12d3a456426614174000", "Error parsing data into UUID"),
        ("json", b"{", None),
        ("json", b"NaN", None),
        ("list<long>", b"\x00\x00", "Unable to deserialize into a List"),
        ("list<string>", b"\x01\x00\x00\x00\x01\x00\x00\x00\x09a", "Unable to deserialize into a List"),
        ("list<string>", b"\x01\xff\xff\xff\xff", "Unable to deserialize into a List"),
        ("list<string>", b"\x01\x00\x00\x00\x01\xff\xff\xff\xfe", "Unable to deserialize into a List"),
        ("list<long>", b"\x00\xff\xff\xff\xff" + bytes(4), "Unable to deserialize into a List"),
        ("list<string>", b"\x07", "Invalid serialization strategy flag value"),
        (
            "list<string>",
            bytes(9),
            "Data is encoded as constant size entries, but configured inner deserializer is not a known fixed-size "
            "deserializer.",
        ),
        ("windowed<string> time", b"1234567", None),
        ("windowed<string> time", b"k" + b"\xff" * 8, "Window startMs time cannot be negative."),
        ("windowed<string> time", b"k\x7f" + b"\xff" * 7, "Window endMs must be greater than window startMs."),
        ("windowed<string> session", b"123456789012345", None),
        ("windowed<string> session", b"k" + bytes(8) + b"\xff" * 8, "Window startMs time cannot be negative."),
        (
            "windowed<string> session",
            b"k" + bytes(15) + b"\x01",
            "Window endMs time cannot be smaller than window startMs time.",
        ),
    ],
)
def test_unreadable_bytes_are_refused(name, data, java):
    """The error names the serde and the number of bytes, and Kafka's text if there is one."""
    with pytest.raises(SerdeError, match=f'serde "{name}" cannot read {len(data)} byte') as caught:
        serde_named(name).deserialize(data)
    assert java == caught.value.java


def test_a_list_never_has_a_negative_number_of_items():
    """With items of one width the number comes last; it is not taken for an empty list."""
    assert [] == Serdes.list_serde("long").deserialize(bytes(9))
    with pytest.raises(SerdeError, match="cannot read 0 bytes"):
        Serdes.list_serde("long").deserialize(bytes(5) + b"\xff" * 4)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("1-2-3-4-5", "00000001-0002-0003-0004-000000000005"),
        ("+a-0B-3-4-5", "0000000a-000b-0003-0004-000000000005"),
        ("1234567-81234-1234-1234-123456789012", "01234567-1234-1234-1234-123456789012"),
    ],
)
def test_a_uuid_is_read_as_in_java(text, read):
    """Leading zeros may be missing, and of a group that is too long the last digits count."""
    assert UUID(read) == Serdes.uuid().deserialize(text.encode())


@pytest.mark.parametrize("kind", ["time", "session"])
def test_empty_bytes_are_no_windowed_key(kind):
    """As in Kafka they are read as null, while an empty key within a window is a key."""
    serde = serde_named(f"windowed<string> {kind}")
    assert serde.deserialize(b"") is None
    assert "" == serde.deserialize(bytes(8 if kind == "time" else 16)).key


def test_a_users_functions_make_a_serde():
    """`serde_from` wraps two functions; their exceptions become the cause of a SerdeError."""
    serde = Serdes.serde_from(lambda v: str(v).encode(), lambda data: int(data), name="decimal")
    assert b"12" == serde.serialize(12)
    assert 12 == serde.deserialize(b"12")
    assert (None, None) == (serde.serialize(None), serde.deserialize(None))
    with pytest.raises(SerdeError, match='serde "decimal" cannot read 1 byte') as caught:
        serde.deserialize(b"x")
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(SerdeError, match='serde "wrong" cannot write'):
        Serdes.serde_from(str, str, name="wrong").serialize(1)


def test_serdes_are_values():
    """Serdes compare by value, hash and pickle, so that frozen topologies can hold them."""
    for name in ("string", "long", "json", "list<uuid>", "windowed<string> session"):
        serde = serde_named(name)
        assert name == serde.name == str(serde)
        assert serde == serde_named(name) == pickle.loads(pickle.dumps(serde))
        assert hash(serde) == hash(serde_named(name))


def test_an_unknown_name_says_what_there_is():
    """A near miss is suggested."""
    with pytest.raises(ConfigError, match='no built-in serde is called "strnig"') as caught:
        serde_named("strnig")
    assert 'did you mean "string"?' == caught.value.hint


def test_a_windowed_serde_takes_the_default_key_serde():
    """Without an inner serde it uses the application's, once that is known."""
    from kstreamnb.core.serdes import TimeWindowedSerde

    open_serde = TimeWindowedSerde(None, 10)
    assert "windowed<default> time" == open_serde.name
    assert Serdes.time_windowed(Serdes.long(), "10ms") == open_serde.with_defaults(Serdes.long(), Serdes.json())


@pytest.mark.parametrize(
    "data", [b"1e999", b'{"n":-1e999}', b'[1,{"n":1e400}]', b'"\\ud800"', b'{"\\udc00":1}', b'["a","\\ud800\\u0041"]']
)
def test_json_that_could_never_be_written_is_refused_at_reading(data: bytes) -> None:
    """The deserialization handler decides about the record, not the serializer of a sink or store."""
    with pytest.raises(SerdeError, match="cannot read"):
        Serdes.json().deserialize(data)


def test_json_with_large_numbers_and_whole_surrogate_pairs_is_read() -> None:
    """Values that were read can be written again."""
    serde = Serdes.json()
    for data in (b"1.7976931348623157e+308", b"-0.0", '"\U0001f600"'.encode()):
        assert serde.serialize(serde.deserialize(data)) == data
    assert serde.deserialize(b'"\\ud83d\\ude00"') == "\U0001f600"


def test_inner_serdes_are_given_by_name():
    """As everywhere else; a name that does not exist is refused at the call."""
    assert Serdes.time_windowed(Serdes.string(), "1h") == Serdes.time_windowed("string", "1h")
    assert Serdes.session_windowed(Serdes.long()) == Serdes.session_windowed("long")
    assert Serdes.list_serde(Serdes.long()) == Serdes.list_serde("long")
    with pytest.raises(ConfigError, match='no built-in serde is called "text"'):
        Serdes.time_windowed("text")
    with pytest.raises(ConfigError, match="a serde must be Serde, got 5"):
        Serdes.session_windowed(5)


def test_a_serde_with_the_methods_of_java_is_refused_where_its_class_is_written():
    """Java's methods also get the topic; the message says which arguments they have here."""
    with pytest.raises(ConfigError, match=r"Upper.serialize takes \(topic, data\), expected \(value\)") as caught:

        class Upper(Serde):
            def serialize(self, topic, data):
                return data.encode()

    assert "write it as def serialize(self, value):" == caught.value.hint
    with pytest.raises(ConfigError, match=r"Lower.deserialize takes \(topic, data\), expected \(data\)"):

        class Lower(Serde):
            def deserialize(self, topic, data):
                return data.decode()


def test_a_serde_with_the_interface_of_java_is_refused_where_its_class_is_written():
    """Nothing calls `serializer()`, so the first record once failed with an AttributeError."""
    with pytest.raises(ConfigError, match=r"nothing calls Upper.serializer\(\)") as caught:

        class Upper(Serde):
            def serializer(self):
                return str.encode

    assert "write serialize(self, value)" == caught.value.hint


class Plain(Serde):
    """A serde of a user without a name, whose function may fail or return text."""

    def serialize(self, value):
        return json.dumps(value) if value == "text" else json.dumps(value).encode()

    def deserialize(self, data):
        return json.loads(data)


def test_errors_of_a_users_serde_are_those_of_serdes():
    """They were Python's, named the node before the sink, and no handler got them."""
    assert (b'{"n": 1}', "Plain") == (Plain().serialize({"n": 1}), Plain().name)
    assert Plain().serialize(None) == b"null"  # it decides itself
    with pytest.raises(SerdeError, match='serde "Plain" cannot write a value of type "set"') as caught:
        Plain().serialize({1})
    assert "Object of type set is not JSON serializable" in caught.value.detail
    with pytest.raises(SerdeError, match='serde "Plain" cannot write a value of type "str"') as caught:
        Plain().serialize("text")
    assert "expected a bytes-like object, str found" in caught.value.detail


def test_a_failed_output_of_a_users_serde_goes_to_the_handler():
    """As that of any other serde."""
    builder = StreamsBuilder("shop")
    builder.stream("in").map_values(lambda value: {value}).to("sets", value_serde=Plain())
    driver = TopologyTestDriver(builder.build(), {"production.exception.handler": "continue"})
    driver.create_input_topic("in").pipe_value_list([1, 2])
    assert driver.create_output_topic("sets").is_empty()


def test_methods_of_a_serde_may_be_static_or_of_the_class():
    """They get no self, so they take one argument less."""

    class Upper(Serde):
        @staticmethod
        def serialize(value):
            return value.upper().encode()

        @classmethod
        def deserialize(cls, data):
            return data.decode()

    assert Upper().deserialize(Upper().serialize("a")) == "A"


@pytest.mark.parametrize("key", [1, 1.5])
def test_a_number_where_text_is_expected_is_answered_with_both_ways_out(key):
    """A cell 1 of a sample's table is a number, and so is an id of a frame; the serde of keys is text by default."""
    fitting = Serdes.long() if isinstance(key, int) else Serdes.double()
    with pytest.raises(SerdeError) as caught:
        Serdes.string().serialize(key)
    assert f'key_serde="{fitting.name}"' in caught.value.hint
    assert caught.value.hint.endswith(", or convert it to text with str(…)")
    assert str(key).encode() == Serdes.string().serialize(f"{key}")


@pytest.mark.parametrize("name", ["avro", "specificAvro", "protobuf", "json_schema", "jsonSchema"])
def test_a_serde_of_a_registry_is_answered_with_the_registry(name):
    """These have no name, because they need a topic and an address."""
    with pytest.raises(ConfigError) as caught:
        serde_named(name)
    assert "ks.kafka.SchemaRegistry(" in caught.value.hint


def test_a_users_serde_may_have_other_functions_and_raise_its_own_error():
    """A field called like a method of Java's was refused, and the error of an inner serde lost its field."""

    @dataclass(frozen=True)
    class Versioned(Serde):
        serializer: Callable[..., str] = json.dumps

        def deserializer(self):
            return json.loads

        def serialize(self, value):
            return Serdes.json().serialize({"version": 1, "value": value})

        def deserialize(self, data):
            return self.deserializer()(data)["value"]

    assert [1] == Versioned().deserialize(Versioned().serialize([1]))
    with pytest.raises(SerdeError, match='cannot write a value of type "object" in field "value"'):
        Versioned().serialize(object())


CARD = 4111_1111_1111_1111


@pytest.mark.parametrize("serde", [Serdes.string(), Serdes.json(), Serdes.list_serde(Serdes.string()), Serdes.uuid()])
def test_an_error_of_a_serde_quotes_no_record(serde):
    """Logs keep its text; a notebook shows the record."""
    calls = [(serde.serialize, value) for value in (CARD, [CARD], {CARD: CARD}, {"card": {CARD}})]
    texts = []
    for call, value in (*calls, (serde.deserialize, f"no card {CARD}".encode())):
        try:
            call(value)
        except SerdeError as error:
            texts.append("\n".join([str(error), *error.__notes__]))
    assert len(texts) >= 2
    assert not [text for text in texts if str(CARD) in text]


@pytest.mark.parametrize("name", ["string", "json", "long", "double"])
def test_a_number_that_python_cannot_write_is_refused_by_every_serde(name):
    """The handler decides about the record, as about any other that cannot be written."""
    with pytest.raises(SerdeError, match="cannot write"):
        getattr(Serdes, name)().serialize(10**5_000)


def test_a_list_of_many_nulls_is_read_in_linear_time():
    """One record of a megabyte would occupy a task for minutes."""
    count = 200_000
    data = struct.pack(f">bi{count}ii", 0, count, *range(count), count)
    begin = time.process_time()
    assert [None] * count == Serdes.list_serde("long").deserialize(data)
    assert time.process_time() - begin < 30, "the square of the length would take minutes"
