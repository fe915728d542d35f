"""Values that serdes of a registry read: masked, kept in files, and replayed with the same serdes."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kstreamnb as ks
from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.serde import Serde
from kstreamnb.errors import ConfigError
from kstreamnb.kafka.registry import SchemaRegistry
from kstreamnb.samples.json_lines import read_lines, record_line

pytest.importorskip("confluent_kafka")

_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
_KINDS: dict[str, Any] = {
    "card": "string",
    "number": "long",
    "amount": _DECIMAL,
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "local": {"type": "long", "logicalType": "local-timestamp-millis"},
    "day": {"type": "int", "logicalType": "date"},
    "hour": {"type": "int", "logicalType": "time-millis"},
    "id": {"type": "string", "logicalType": "uuid"},
    "raw": {"type": "fixed", "name": "Raw", "size": 2},
    "prices": {"type": "array", "items": _DECIMAL},
    "to": {"type": "record", "name": "To", "fields": [{"name": "iban", "type": "string"}]},
    "limits": {"type": "map", "values": "long"},
}
AVRO = {"type": "record", "name": "Payment", "fields": [{"name": n, "type": kind} for n, kind in _KINDS.items()]}
PAYMENT = {
    "card": "4111",
    "number": 4111,
    "amount": Decimal("1.50"),
    "at": dt.datetime(2026, 1, 1, 12, 0, 0, 1, tzinfo=dt.UTC),
    "local": dt.datetime.fromisoformat("2026-01-01T12:00:00"),
    "day": dt.date(2026, 1, 1),
    "hour": dt.time(12, 30),
    "id": UUID(int=7),
    "raw": b"ab",
    "prices": [Decimal("0.10"), Decimal("2.00")],
    "to": {"iban": "DE12"},
    "limits": {"ann@example.com": 100},
}
FIELDS = [*(name for name in PAYMENT if name != "to"), "to.*"]


class Mode(IntEnum):
    """A number with a name."""

    ON = 1


@dataclass(frozen=True)
class Order:
    """A user's class."""

    card: str


DEEP: Any = json.loads("[" * 150 + "]" * 150)


def avro() -> Serde:
    """The serde of payments."""
    return SchemaRegistry("mock://captured").avro("payments", json.dumps(AVRO))


@cache
def message() -> Any:
    """A class as protoc generates it."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="payments.proto", package="shop", syntax="proto3")
    to, payment = file.message_type.add(name="To"), file.message_type.add(name="Payment")
    to.field.add(name="iban", number=1, type=9, label=1)
    for number, (name, kind, label) in enumerate([("card", 9, 1), ("number", 3, 1), ("raw", 12, 1), ("tags", 9, 3)], 1):
        payment.field.add(name=name, number=number, type=kind, label=label)
    payment.field.add(name="to", number=5, type=11, label=1, type_name=".shop.To")
    payment.field.add(name="others", number=6, type=11, label=3, type_name=".shop.To")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Payment"))


def payment_message() -> Any:
    """A message with every field."""
    fields = {"card": "4111", "number": 2**53 + 1, "raw": b"ab", "tags": ["a", "b"]}
    return message()(**fields, to={"iban": "DE12"}, others=[{"iban": "FR34"}, {}])


def captured(value: object, serde: Serde) -> ks.Sample:
    """A sample as `Sample.capture` makes it: the value comes from the serde's bytes."""
    record = ks.TopicRecord("payments", 0, 0, 5, "a", serde.deserialize(serde.serialize(value)))
    return ks.Sample((record,), serdes={"payments": (ks.Serdes.string(), serde)})


def replayed(sample: ks.Sample, serde: Serde) -> Any:
    """The value that a topology with the serde sees."""
    builder = ks.StreamsBuilder("payments")
    builder.stream("payments", value_serde=serde).to("out", value_serde=serde)
    return ks.replay(builder.build(), sample).output("out")[0].value


def json_lines(sample: ks.Sample, folder: Path) -> ks.Sample:
    """The sample after JSON lines."""
    sample.to_json_lines(folder / "lines")
    return ks.Sample.from_json_lines(folder / "lines")


def parquet(sample: ks.Sample, folder: Path) -> ks.Sample:
    """The sample after Parquet."""
    sample.to_parquet(folder / "file")
    return ks.Sample.from_parquet(folder / "file")


def text(sample: ks.Sample, folder: Path) -> ks.Sample:
    """The sample after a text table."""
    return ks.Sample.from_text(sample.to_text())


@pytest.mark.parametrize("kept", [json_lines, parquet, text])
@pytest.mark.parametrize("mask", [False, True])
def test_logical_types_of_avro_are_masked_kept_and_replayed(
    kept: Callable[[ks.Sample, Path], ks.Sample], mask: bool, tmp_path: Path
) -> None:
    """Decimals, times, ids, bytes and maps; masks have the types of the schema, also after a sample is loaded."""
    sample = captured(PAYMENT, avro())
    loaded = kept(sample, tmp_path)
    if mask:
        sample, loaded = sample.redact(*FIELDS), loaded.redact(*FIELDS)
        masks = {"number": 0, "amount": 0, "raw": b"\0\0", "id": UUID(int=0), "to": {"iban": "***"}, "limits": {}}
        assert {**sample[0].value, **masks} == sample[0].value
        assert [] == [name for name, value in sample[0].value.items() if value == PAYMENT[name]]
    back = kept(sample, tmp_path)
    assert (sample, sample.content_hash) == (back, back.content_hash)
    assert sample == loaded
    assert sample[0].value == replayed(back, avro())
    assert "Decimal" not in repr(back)


@pytest.mark.parametrize("kept", [json_lines, parquet])
def test_messages_of_protobuf_are_masked_kept_and_replayed(
    kept: Callable[[ks.Sample, Path], ks.Sample], tmp_path: Path
) -> None:
    """Files hold them as dicts, which the registry's serde writes; a mask has the field's type, or clears the field."""
    serde = SchemaRegistry("mock://captured").protobuf("payments", message())
    sample = captured(payment_message(), serde)
    back = kept(sample, tmp_path)
    assert sample.content_hash == back.content_hash
    assert "4111" == back[0].value["card"]
    assert payment_message() == replayed(back, serde)
    masked = sample.redact("card", "number", "raw", "tags", "others.iban", "to")
    expected = message()(card="***", raw=b"\0\0", tags=["***", "***"], others=[{"iban": "***"}, {}])
    assert expected == sample.redact("card", "number", "raw", "tags.*", "others.iban", "to.*")[0].value
    assert 0 < sample.hash_keys("number", salt="s")[0].value.number != 2**53 + 1
    assert expected == masked[0].value == replayed(kept(masked, tmp_path), serde)
    assert payment_message() == sample[0].value


def test_objects_of_a_serde_of_functions_are_kept_as_its_bytes(tmp_path: Path) -> None:
    """After masking, these are the bytes of the masked object; the topology's serde reads them."""
    serde = ks.Serdes.serde_from(lambda value: value.SerializeToString(), message().FromString, name="payment")
    unknown = message().FromString(payment_message().SerializeToString() + b"\x7a\x044222")  # of a newer schema
    sample = captured(unknown, serde).redact("card", "to.iban")
    assert b"4222" in unknown.SerializeToString()
    assert b"4222" not in sample[0].value.SerializeToString()
    back = json_lines(sample, tmp_path)
    assert type(back[0].value) is SerializedValue
    assert sample.content_hash == back.content_hash == parquet(sample, tmp_path).content_hash
    assert ("***", "***") == (replayed(back, serde).card, replayed(back, serde).to.iban)


def test_a_users_class_is_kept_as_bytes_and_registers_no_schema(tmp_path: Path) -> None:
    """Its fields are not known, so it cannot be masked."""
    schema = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "card", "type": "string"}]})
    convert: dict[str, Any] = {"to_dict": lambda order, _: vars(order), "from_dict": lambda fields, _: Order(**fields)}
    serde = SchemaRegistry("mock://class-of-users").avro("payments", schema, **convert)
    sample = captured(Order("4111"), serde)
    assert Order("4111") == replayed(json_lines(sample, tmp_path), serde)
    pair = ks.Sample.from_records([("payments", 0, 0, 5, "a", ({"card": "4111"}, {}))])
    for each, kind in ((sample, "Order"), (pair, "tuple")):
        with pytest.raises(ConfigError, match=f'values of topic "payments" have type "{kind}", whose fields are not'):
            each.redact("card")
    unregistered = SchemaRegistry("mock://empty").avro("payments", schema, **convert)
    with pytest.raises(ks.errors.SerdeError, match='serde "avro<payments-value>" got no schema from its registry'):
        unregistered.portable(Order("4111"))


@pytest.mark.parametrize("keep", [json_lines, parquet, lambda sample, _: sample.content_hash])
def test_a_value_that_no_file_can_hold_is_named(keep: Callable[[ks.Sample, Path], object], tmp_path: Path) -> None:
    """With topic, field and type; a file that exists is not touched."""
    (tmp_path / "lines").write_text("kept")
    sample = ks.Sample.from_records([("orders", 0, 7, 0, "a", {"items": [{"price": Order("4111")}]})])
    fact = r'field "value.items\[\].price" of topic "orders" has a value of type "Order", which cannot be written'
    with pytest.raises(ConfigError, match=fact) as caught:
        keep(sample, tmp_path)
    assert "offset 7" in str(caught.value.detail)
    assert "value_serde=" in str(caught.value.hint)
    assert "kept" == (tmp_path / "lines").read_text()


@pytest.mark.parametrize("keep", [json_lines, parquet])
@pytest.mark.parametrize("value", [("a", "b"), {"a": ("b", "c")}, [({},)], {1: 2}, {"w": ks.Windowed("a", 0, 1)}])
def test_files_refuse_a_value_that_would_be_read_as_another(
    value: object, keep: Callable[[ks.Sample, Path], object], tmp_path: Path
) -> None:
    """JSON makes lists of tuples, and text of names."""
    with pytest.raises(ConfigError, match="cannot be written"):
        keep(ks.Sample.from_records([("orders", 0, 7, 0, "a", value)]), tmp_path)


def test_a_dict_that_json_lines_use_for_literals_is_refused_with_its_field(tmp_path: Path) -> None:
    """NaN, which is not equal to itself, is written."""
    sample = ks.Sample.from_records([("orders", 0, 7, 0, "a", {"text": "x|y", "odd": {"$cell": "decimal:1"}})])
    fact = 'field "value.odd" of topic "orders" has a value of type "dict", which cannot be written as text'
    with pytest.raises(ConfigError, match=fact) as caught:
        json_lines(sample, tmp_path)
    assert caught.value.hint == 'give it names that are strings other than "$cell"'
    assert "nan" in repr(json_lines(ks.Sample.from_records([("t", 0, 0, 0, "a", {"n": float("nan")})]), tmp_path)[0])


@pytest.mark.parametrize("keep", [json_lines, parquet])
@pytest.mark.parametrize("value", [{}, {"to": {}}, [{}], float("nan"), {"n": [float("nan"), None]}, "\ud800", DEEP])
def test_values_for_which_parquet_or_utf8_has_no_type_are_kept(
    value: object, keep: Callable[[ks.Sample, Path], ks.Sample], tmp_path: Path
) -> None:
    """Empty dicts, NaN within others, half of a surrogate pair, and lists within lists within lists."""
    sample = ks.Sample.from_records([("orders", 0, 7, 0, "a", value), ("orders", 0, 8, 0, "a", value)])
    assert repr(list(sample)) == repr(list(keep(sample, tmp_path)))


@pytest.mark.parametrize(
    "fields",
    [
        {"timestamp": 2**63},
        {"headers": [("a", b"")]},
        {"headers": (["a", b""],)},
        {"value": "\ud83d\ude00"},
        {"value": [{"a": {"$cell": "long:5"}}]},
    ],
)
def test_json_lines_refuse_a_record_that_would_be_read_as_another(fields: dict[str, Any], tmp_path: Path) -> None:
    """Records made without `from_records`, and text that UTF-8 joins to one character."""
    sample = ks.Sample((ks.TopicRecord("orders", 0, 0, 0, "a", 1)._replace(**fields),))
    with pytest.raises((ConfigError, TypeError)):
        json_lines(sample, tmp_path)


_ODD = st.sampled_from(
    [(), (1,), "$cell", "decimal:1", "\ud83d", "\ude00", b"", Decimal("1.0"), Decimal("NaN"), dt.date(1, 1, 1)]
)
_PART = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | _ODD
    | st.sampled_from([Mode.ON, np.float64(1.5)])
)
_NAME = st.text() | st.just("$cell") | st.integers()


@given(st.recursive(_PART, lambda part: st.lists(part) | st.tuples(part) | st.dictionaries(_NAME, part), max_leaves=5))
def test_a_line_is_refused_or_read_back_as_the_same_record(value: object) -> None:
    """The check by types is as strong as reading each line."""
    record = ks.TopicRecord("orders", 0, 0, 0, "a", value)
    try:
        line = record_line(record)
    except ConfigError:
        return
    (back,) = read_lines([line.decode()])
    assert back == record or repr(back) == repr(record)


def test_a_mask_has_the_type_of_the_value_and_an_empty_dict_no_names() -> None:
    """Names within a dict may be data; with a star they stay, at every depth."""
    value = {"n": 5, "ok": True, "x": 0.5, "none": None, "l": [1, "a", {"b": 1}], "by": {"ann": {"iban": "DE"}}}
    sample = ks.Sample.from_records([("t", 0, 0, 0, "a", value), ("t", 0, 1, 0, "b", {"by": {"ben": {"iban": 7}}})])
    masks = {"n": 0, "ok": False, "x": 0.0, "none": None, "l": [0, "***", {}], "by": {}}
    assert masks == sample.redact(*value)[0].value
    within = sample.redact("by.*", "l.*", "n.*")
    assert {**value, "n": 0, "l": [0, "***", {"b": 0}], "by": {"ann": {"iban": "***"}}} == within[0].value
    assert {"by": {"ben": {"iban": 0}}} == within[1].value
    assert {"by": "***"} == sample.redact("by", replacement="***")[1].value
    with pytest.raises(ConfigError, match=r'no record has the field "bye\.\*"'):
        sample.redact("bye.*")


def test_a_text_with_a_bar_is_not_named_for_another_value(tmp_path: Path) -> None:
    """The value that cannot be written is."""
    sample = ks.Sample.from_records([("orders", 0, 7, 0, "a|b", {"text": "x|y", "order": Order("4111")})])
    with pytest.raises(ConfigError, match=r'field "value\.order" of topic "orders"'):
        json_lines(sample, tmp_path)


def test_a_path_into_text_of_a_message_masks_nothing_as_in_dicts() -> None:
    """Another topic has messages or dicts there."""
    other = ks.Sample.from_records([("orders", 0, 0, 0, "a", {"card": {"x": "4222"}, "tags": [{"x": "4333"}]})])
    sample = captured(payment_message(), SchemaRegistry("mock://captured").protobuf("payments", message())) + other
    masked = [record.value for record in sample.redact("card.x", "tags.x")]
    assert {"card": {"x": "***"}, "tags": [{"x": "***"}]} in masked
    assert payment_message() in masked


def test_a_replacement_of_another_type_than_a_messages_field_is_refused() -> None:
    """The error names topic and field."""
    sample = captured(payment_message(), SchemaRegistry("mock://captured").protobuf("payments", message()))
    with pytest.raises(ConfigError, match='field "card" of topic "payments" cannot hold the replacement'):
        sample.redact("card", replacement=5)
    for field in ("crad", "to.ibn", "card.x"):
        with pytest.raises(ConfigError, match=f'no record has the field "{field}"'):
            sample.redact(field)


@pytest.mark.parametrize("value", [SerializedValue(b"\0\1"), b"\0\1"])
def test_a_field_of_values_that_were_not_decoded_is_answered_with_value_serde(value: bytes) -> None:
    """Beside decoded ones, they lose their bytes."""
    sample = ks.Sample.from_records([("a", 0, 0, 0, "k", value), ("a", 0, 1, 0, "k", None)])
    with pytest.raises(ConfigError, match='no record has the field "card"') as caught:
        sample.redact("card")
    assert "values that no serde has read: 1 of 2" == caught.value.detail
    assert "decode them: pass value_serde= to Sample.capture()" == caught.value.hint
    both = sample + ks.Sample.from_records([("b", 0, 0, 0, "k", {"card": "4111"})])
    assert [b"", None, {"card": "***"}] == [record.value for record in both.redact("card")]


def test_a_field_that_older_records_do_not_have_is_marked_with_a_question_mark() -> None:
    """It is masked in records that have it, and the notes tell if none has; without the mark, it is an error."""
    old = ks.Sample.from_records([("payments", 0, 0, 0, "k", {"card": "4111"})])
    new = ks.Sample.from_records([("payments", 0, 1, 1, "k", {"card": "4222", "iban": "DE12"})])
    with pytest.raises(ConfigError, match='no record has the field "iban"') as caught:
        old.redact("card", "iban")
    assert 'write "iban?"' in str(caught.value.hint)
    assert ("redacted: card, iban?", 'no record has "iban?"') == old.redact("card", "iban?").notes
    both = (old + new).redact("card", "iban?")
    assert [{"card": "***"}, {"card": "***", "iban": "***"}] == [record.value for record in both]
    assert ("redacted: card, iban?",) == both.notes
    assert {"card": "4111"} == old.hash_keys("iban?", salt="s")[0].value


def test_words_that_begin_as_a_literal_stay_words() -> None:
    """Only text that can be read is a date or a number."""
    words = ["date:soon", "time: unknown", "decimal:", "datetime:x", "date:2026-01-01"]
    sample = ks.Sample.from_records([("t", 0, at, 0, word, word) for at, word in enumerate(words)])
    assert sample == ks.Sample.from_text(sample.to_text())
    assert ["date:soon"] == [record.value for record in ks.Sample.from_text("key | value\na | date:soon", topic="t")]
