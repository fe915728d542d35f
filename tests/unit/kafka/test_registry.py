"""Serdes of the Schema Registry, against a registry in this process."""

from __future__ import annotations

import json
import pickle
import sys
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kstreamnb.core.codec import SerializedValue, decode, encode
from kstreamnb.errors import ConfigError, SerdeError
from kstreamnb.kafka.registry import SchemaRegistry, _module

pytest.importorskip("confluent_kafka")

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "sku", "type": "string"}, {"name": "quantity", "type": "int", "default": 1}],
    }
)
OLDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "sku", "type": "string"}]})
JSON_SCHEMA = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {"sku": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1}},
        "required": ["sku"],
    }
)


@dataclass
class Order:
    """A user's class."""

    sku: str
    quantity: int


def _as_dict(order, _context):
    return {"sku": order.sku, "quantity": order.quantity}


def _as_order(value, _context):
    return Order(**value)


def test_a_schema_may_be_a_dict_and_must_be_json():
    """A dict was refused; the name of a file, and a schema instead of the topic, were accepted."""
    registry = SchemaRegistry("mock://dicts")
    assert registry.avro("orders", AVRO) == registry.avro("orders", json.loads(AVRO))
    assert registry.json_schema("orders", JSON_SCHEMA) == registry.json_schema("orders", json.loads(JSON_SCHEMA))
    with pytest.raises(ConfigError, match="the schema is not JSON") as caught:
        registry.avro("orders", "orders.avsc")
    assert caught.value.hint == 'if it is in a file, pass its text: Path("orders.avsc").read_text()'
    with pytest.raises(ConfigError, match="the topic is missing before the schema"):
        registry.avro(AVRO)


def test_avro_values_survive_in_confluents_format():
    """One zero byte, four of the schema's id, then Avro."""
    serde = SchemaRegistry("mock://avro").avro("orders", AVRO)
    data = serde.serialize({"sku": "shoe", "quantity": 2})
    assert (0, b"\x08shoe\x04") == (data[0], data[5:])
    assert {"sku": "shoe", "quantity": 2} == serde.deserialize(data)
    assert (None, None) == (serde.serialize(None), serde.deserialize(None))


def test_a_reader_resolves_what_an_older_schema_wrote():
    """The writer's schema comes from the registry, defaults from the reader's."""
    registry = SchemaRegistry("mock://evolution")
    data = registry.avro("orders", OLDER).serialize({"sku": "shoe"})
    assert {"sku": "shoe", "quantity": 1} == registry.avro("orders", AVRO).deserialize(data)
    assert {"sku": "shoe"} == registry.avro("orders").deserialize(data)


def test_users_classes_become_dicts_and_back():
    """Two functions suffice; stores keep such values as bytes."""
    serde = SchemaRegistry("mock://class").avro("orders", AVRO, to_dict=_as_dict, from_dict=_as_order)
    wire = encode(serde, Order("shoe", 2))
    assert type(wire) is SerializedValue
    assert Order("shoe", 2) == decode(serde, wire)


def test_json_schema_is_checked_on_both_ways():
    """A value that violates the schema is refused with the client's message."""
    serde = SchemaRegistry("mock://json").json_schema("orders", JSON_SCHEMA)
    assert {"sku": "shoe", "quantity": 2} == serde.deserialize(serde.serialize({"sku": "shoe", "quantity": 2}))
    with pytest.raises(SerdeError, match='serde "json_schema<orders-value>" cannot write') as caught:
        serde.serialize({"sku": "shoe", "quantity": 0})
    assert "minimum" in caught.value.detail


CARD = "4111-1111"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (["null", "int"], "ValueError: a value (type <class 'str'>) do not match ['null', 'int'] on field sku"),
        ({"type": "enum", "name": "Sku", "symbols": ["A"]}, "ValueError: a value is not in list"),
        ("double", "could not convert string to float: a value"),
    ],
)
def test_an_error_of_the_registrys_client_quotes_no_value(kind, said):
    """Logs keep errors; a field and a type are enough to find the record."""
    schema = {"type": "record", "name": "Order", "fields": [{"name": "sku", "type": kind}]}
    circular = Order(CARD, 1)
    vars(circular)["itself"] = circular
    for convert, value in ((None, {"sku": CARD}), (None, OrderedDict(sku=CARD)), (_as_sku, circular)):
        serde = SchemaRegistry(f"mock://quiet-{len(said)}").avro("orders", json.dumps(schema), to_dict=convert)
        with pytest.raises(SerdeError) as caught:
            serde.serialize(value)
        assert said in caught.value.detail
        assert CARD not in "".join(caught.value.__notes__)


def test_an_error_of_json_schema_names_the_field_and_quotes_no_value():
    """Of what is written and of what is read."""
    serde = SchemaRegistry("mock://quiet").json_schema("orders", JSON_SCHEMA)
    head = serde.serialize({"sku": "shoe"})[:5]
    for call in (serde.serialize, lambda value: serde.deserialize(head + json.dumps(value).encode())):
        with pytest.raises(SerdeError) as caught:
            call({"sku": CARD, "quantity": CARD})
        assert "SerializationError: a value is not of type 'integer' at $.quantity" in caught.value.detail
        assert CARD not in "".join(caught.value.__notes__)


def test_an_error_about_a_large_value_takes_about_as_long_as_writing_it():
    """Applications that continue after such records would stop for a second at each: it took 480 times as long."""
    fields = [{"name": "sizes", "type": {"type": "array", "items": "int"}}, {"name": "sku", "type": "int"}]
    schema = {"type": "record", "name": "Order", "fields": fields}
    serde, sizes = SchemaRegistry("mock://large").avro("orders", schema), list(range(1_000_000, 1_020_000))

    def seconds(sku):
        began = time.process_time()
        with suppress(SerdeError):
            serde.serialize({"sizes": sizes, "sku": sku})
        return time.process_time() - began

    written, refused = (min(seconds(sku) for _ in range(3)) for sku in (1, CARD))
    assert refused < 100 * written


def _as_sku(order, _context):
    return {"sku": order.sku}


def test_protobuf_messages_survive():
    """A generated class, built here from its description."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="sku", number=1, type=9, label=1)
    message.field.add(name="quantity", number=2, type=5, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    serde = SchemaRegistry("mock://protobuf").protobuf("orders", order)
    data = serde.serialize(order(sku="shoe", quantity=2))
    assert (0, b"\n\x04shoe\x10\x02") == (data[0], data[-8:])
    assert order(sku="shoe", quantity=2) == serde.deserialize(data)
    with pytest.raises(SerdeError, match="cannot write"):
        serde.serialize({"size": "shoe"})
    assert data == serde.serialize(serde.portable(order(sku="shoe", quantity=2)))


@pytest.mark.parametrize("name", ["timestamp.Timestamp", "wrappers.Int64Value", "struct.Struct"])
def test_messages_of_protobuf_itself_are_values(name):
    """The registry's client has their descriptors already, and would add them once more."""
    module, _, kind = name.partition(".")
    message = getattr(pytest.importorskip(f"google.protobuf.{module}_pb2"), kind)
    serde = SchemaRegistry("mock://known").protobuf(f"orders-{module}", message)
    assert message() == serde.deserialize(serde.serialize(message()))
    if module == "timestamp":
        assert 5 == serde.deserialize(serde.serialize(message(seconds=5))).seconds


def test_bytes_without_a_schema_are_refused():
    """Data of another serde is named as such."""
    serde = SchemaRegistry("mock://bytes").avro("orders", AVRO)
    with pytest.raises(SerdeError, match='serde "avro<orders-value>" cannot read 4 bytes'):
        serde.deserialize(b"text")
    with pytest.raises(SerdeError) as caught:
        SchemaRegistry("mock://bytes").avro("orders").serialize({})
    assert "a serde without a schema cannot write" in caught.value.detail


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "credentials"),
        (404, "has the schema"),
        (409, "compatible with its earlier versions"),
        (500, "runs at this address"),
        (None, "runs at this address"),
    ],
)
def test_an_error_of_the_registry_is_not_the_fault_of_a_value(status, advice):
    """Both directions said to compare the value with the schema, or that another serde had written it."""

    class Refuse(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(status)

        do_POST = do_GET

        def log_message(self, *arguments):
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refuse)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    if status is None:
        server.shutdown()
        server.server_close()
    client = {"url": f"http://127.0.0.1:{server.server_port}", "max.retries": 0}
    serde = SchemaRegistry(client).avro("orders", AVRO)
    for use in (lambda: serde.serialize({"sku": "shoe", "quantity": 2}), lambda: serde.deserialize(b"\0\0\0\0\1\2")):
        with pytest.raises(SerdeError, match='serde "avro<orders-value>" got no schema from its registry') as caught:
            use()
        assert advice in caught.value.hint
    if status is not None:
        server.shutdown()
        server.server_close()


def test_a_serde_that_cannot_be_set_up_blames_no_value(monkeypatch):
    """A schema, an option or a setting that the client refuses, and a client that is not installed."""
    registry, value = SchemaRegistry("mock://invalid"), {"sku": "shoe", "quantity": 2}
    for serde in (
        registry.avro("orders", {"type": "rec"}),
        registry.avro("orders", AVRO, auto_regster_schemas=False),
        SchemaRegistry("registry:8081").avro("orders", AVRO),
    ):
        with pytest.raises(SerdeError, match='serde "avro<orders-value>" cannot be set up') as caught:
            serde.serialize(value)
        assert caught.value.hint == "check the schema, the options and the settings of the registry"
    _module.cache_clear()
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry.avro", None)
    with pytest.raises(SerdeError) as caught:
        SchemaRegistry("mock://missing").avro("orders", AVRO).serialize(value)
    _module.cache_clear()
    assert caught.value.hint == 'pip install "kstreamnb[registry]"'


def test_keys_have_a_subject_of_their_own():
    """The name contains topic and part."""
    assert "avro<orders-key>" == SchemaRegistry("mock://key").avro("orders", AVRO, is_key=True).name


def test_serdes_are_values_that_travel_and_hide_secrets():
    """They pickle, compare, and show no credentials."""
    registry = SchemaRegistry({"url": "mock://travel", "basic.auth.user.info": "me:hush"})
    serde = registry.avro("orders", AVRO)
    assert serde == pickle.loads(pickle.dumps(serde))
    assert "hush" not in repr(serde) + repr(registry)
    with pytest.raises(ConfigError, match='the schema registry needs a "url"'):
        SchemaRegistry({})
