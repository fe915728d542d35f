"""Samples that can be shared: fields blanked out, keys replaced by their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kstreamnb.core.arguments import expect, expect_texts
from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serdes import JsonSerde
from kstreamnb.errors import ConfigError
from kstreamnb.samples.storable import HELD
from kstreamnb.samples.text import format_cell

if TYPE_CHECKING:  # its class lists these functions
    from kstreamnb.samples.sample import Sample

MASK = "***"
_ZEROS = (UUID(int=0), Decimal(0), date(1970, 1, 1), time(0))
_JSON_ZEROS = (False, 0, 0.0, None)
_MASKABLE = tuple(HELD - {tuple})


def is_message(value: object) -> bool:
    """Return whether a value is a Protobuf message; Protobuf is optional."""
    return hasattr(type(value), "DESCRIPTOR")


def redact(self: Sample, *fields: str, replacement: object = MASK) -> Sample:
    """Blank out fields of dict values, such as ``"card"`` or ``"customer.name"``; also within lists.

    In values that a serde other than JSON has read, and for types that JSON does not have, the default replacement has
    the type of the value (``"***"``, 0, zero bytes, the time 0), so that the serde can write it; names within dicts
    stay, also those of Avro's maps. Records that could not be decoded lose their bytes, and headers lose their values,
    because their content is unknown.

    Args:
        fields: names of the fields to blank out, nested ones with dots. A name with a question mark, such as
            ``"iban?"``, may be missing in all records: the sample's notes say so.
        replacement: value that the fields get. Default: ``"***"``.

    Raises: ConfigError for a field that no record has, which is likely a wrong name, and for values without fields.
    """
    if not fields:
        raise ConfigError("no fields to redact were named")

    def masked(value: object, typed: bool) -> object:
        return _mask(value, typed) if replacement is MASK else replacement

    blank, missing = _changing(self, fields, masked)
    records = tuple(
        record._replace(
            key=SerializedValue() if type(record.key) is SerializedValue else record.key,
            value=type(record.value)() if type(record.value) in (SerializedValue, bytes) else blank(record),
            headers=tuple((name, None) for name, _ in record.headers),
        )
        for record in self.records
    )
    notes = f"redacted: {', '.join(fields)}", *(f'no record has "{field}"' for field in missing)
    return replace(self, records=records, notes=(*self.notes, *notes))


def hash_keys(self: Sample, *fields: str, salt: str) -> Sample:
    """Replace keys, and the fields of dict values that hold keys too, by 16 hexadecimal digits of a keyed hash.

    Equal keys stay equal, so joins and counts are preserved; partitions stay those of the real keys. Raises ConfigError
    if no record has a field.

    Args:
        fields: names of fields that hold keys too, such as "customer" or "order.customer"; with a question mark if all
            records may be without it.
        salt: secret text that keys the hash; not empty. Keep it to hash later samples in the same way.

    Raises: ConfigError for a field that no record has.
    """
    expect(salt, str, "salt")
    if not salt:
        raise ConfigError("a hash without a salt can be reversed by guessing", hint='pass salt="…", and keep it secret')
    secret = hashlib.sha256(salt.encode(errors="surrogatepass")).digest()

    def hashed(value: object, typed: bool = False) -> str | None:
        if value is None:
            return None
        return hashlib.blake2b(format_cell(value).encode(), digest_size=8, key=secret).hexdigest()

    hide, _ = _changing(self, fields, hashed)
    records = tuple(record._replace(key=hashed(record.key), value=hide(record)) for record in self.records)
    return replace(self, records=records, notes=(*self.notes, "keys hashed"))


def _mask(value: Any, typed: bool) -> Any:
    """Return the replacement of a value; it has the value's type for a schema, and if JSON does not have that type."""
    if typed and isinstance(value, dict):
        return {name: _mask(item, typed) for name, item in value.items()}
    if typed and isinstance(value, list):
        return [_mask(item, typed) for item in value]
    if isinstance(value, bytes):
        return bytes(len(value))  # a schema may want a fixed size
    if isinstance(value, datetime):
        return datetime(1970, 1, 1, tzinfo=value.tzinfo)
    return next((zero for zero in _ZEROS + _JSON_ZEROS * typed if type(zero) is type(value)), MASK)


def _changing(
    sample: Sample, fields: Sequence[str], change: Callable[[Any, bool], Any]
) -> tuple[Callable[[TopicRecord], Any], list[str]]:
    """Return a function from a record to its changed value, and the optional fields that no record has.

    ``typed`` is whether a serde other than JSON has read the values of the topic.

    Raises: ConfigError for a field that no record has, and for objects without known fields.
    """
    paths = {field: tuple(field.removesuffix("?").split(".")) for field in expect_texts(fields, "fields")}
    opaque = next((r for r in sample.records if not (isinstance(r.value, _MASKABLE) or is_message(r.value))), None)
    if opaque is not None and paths:
        fact = f'values of topic "{opaque.topic}" have type "{type(opaque.value).__name__}", whose fields are not known'
        raise ConfigError(fact, hint="capture the topic with a serde that reads dicts, such as one without from_dict=")
    missing = [field for field, path in paths.items() if not any(_has(record.value, path) for record in sample.records)]
    for field in missing if sample.records else ():
        if not field.endswith("?"):
            unread = sum(type(record.value) in (SerializedValue, bytes) for record in sample.records)
            detail = f"values that no serde has read: {unread:,} of {len(sample):,}" if unread else None
            hint = "decode them: pass value_serde= to Sample.capture()" if unread else None
            hint = hint or f'correct the name, or write "{field}?" for a field that older records do not have'
            raise ConfigError(f'no record has the field "{field}"', detail=detail, hint=hint)
    schemas = {topic: not isinstance(serdes[1], JsonSerde) for topic, serdes in sample.serdes.items()}

    def changed(record: TopicRecord) -> Any:
        value, typed = record.value, schemas.get(record.topic, False)
        for path in paths.values():
            try:
                value = _changed(value, path, lambda held: change(held, typed))
            except (TypeError, ValueError) as error:  # a field of a message takes one type only
                fact = f'field "{".".join(path)}" of topic "{record.topic}" cannot hold the replacement'
                raise ConfigError(fact, detail=str(error), hint="pass replacement= with a value of its type") from error
        return value

    return changed, missing


def _has(value: Any, path: tuple[str, ...]) -> bool:
    if isinstance(value, list):
        return any(_has(item, path) for item in value)
    if is_message(value):
        return _declares(value.DESCRIPTOR, path)
    if not isinstance(value, dict) or path[0] not in value:
        return False
    return len(path) == 1 or _has(value[path[0]], path[1:])


def _declares(descriptor: Any, path: tuple[str, ...]) -> bool:
    """Return whether messages of a type may have a field."""
    held = descriptor and descriptor.fields_by_name.get(path[0])
    return held is not None and (len(path) == 1 or _declares(held.message_type, path[1:]))


def _changed(value: Any, path: tuple[str, ...], change: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        return [_changed(item, path, change) for item in value]
    if is_message(value):
        return _changed_message(value, path, change)
    if not isinstance(value, dict) or path[0] not in value:
        return value
    held = value[path[0]]
    return {**value, path[0]: change(held) if len(path) == 1 else _changed(held, path[1:], change)}


def _changed_message(message: Any, path: tuple[str, ...], change: Callable[[Any], Any]) -> Any:
    """Return a copy of a message with a changed field, if the field is set; messages and maps in it are cleared."""
    made = type(message)()
    made.CopyFrom(message)
    made.DiscardUnknownFields()  # nobody can name them
    for kind, held in message.ListFields():
        if kind.name != path[0]:
            continue
        mine, several = getattr(made, kind.name), hasattr(held, "extend")
        if len(path) > 1 and (kind.message_type is None or several or is_message(held)):
            for each in mine if several else (mine,):
                if is_message(each):  # as in dicts, text and numbers have no fields
                    each.CopyFrom(_changed_message(each, path[1:], change))
            continue
        made.ClearField(kind.name)
        if kind.message_type is None and several:
            getattr(made, kind.name).extend(map(change, held))
        elif kind.message_type is None:
            setattr(made, kind.name, change(held))
    return made
