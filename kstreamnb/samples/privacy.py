"""Samples that can be shared: fields blanked out, keys replaced by their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kstreamnb.core.arguments import expect, expect_texts
from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.record import TopicRecord, Windowed
from kstreamnb.errors import ConfigError
from kstreamnb.samples.storable import HELD
from kstreamnb.samples.text import format_cell

if TYPE_CHECKING:  # its class lists these functions
    from kstreamnb.samples.sample import Sample

_ZEROS = (None, False, 0, 0.0, UUID(int=0), Decimal(0), date(1970, 1, 1), time(0))
_ROUNDS = 8
_MASKABLE = tuple(HELD - {tuple})


def is_message(value: object) -> bool:
    """Return whether a value is a Protobuf message; Protobuf is optional."""
    return hasattr(type(value), "DESCRIPTOR")


def redact(self: Sample, *fields: str, replacement: object = ...) -> Sample:
    """Blank out fields of dict values, such as ``"card"`` or ``"customer.name"``; also within lists.

    A mask has the type of the value, so that topologies and serdes read it as before: ``"***"``, 0, False, zero bytes,
    the time 0, a mask for each item of a list; None stays. A dict becomes empty, because its names may be data, as in
    Avro's maps: ``"customer.*"`` keeps the names and masks all values within it. Records that could not be decoded
    lose their bytes, and headers lose their values, because their content is unknown.

    Args:
        fields: names of the fields to blank out, nested ones with dots. A name with a question mark, such as
            ``"iban?"``, may be missing in all records: the sample's notes say so.
        replacement: value that the fields get. Default: a mask of the value's type.

    Raises: ConfigError for a field that no record has, which is likely a wrong name, and for values without fields.
    """
    if not fields:
        raise ConfigError("no fields to redact were named")
    blank, missing = _changing(self, fields, _mask if replacement is ... else lambda _: replacement)
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
    """Replace keys, and fields of dict values that hold keys, with a keyed hash.

    Equal keys stay equal, so joins and counts are preserved; partitions stay those of the real keys. Whole numbers,
    bools, UUIDs and bytes become others of the same type and size, different ones for different keys. Any other value
    becomes 16 hexadecimal digits. Values within dicts, lists and windowed keys are hashed too; the names of dicts stay.

    Args:
        fields: names of fields that hold keys too, such as "customer" or "order.customer"; with a question mark if all
            records may be without it.
        salt: secret text that keys the hash; not empty. Keep it to hash later samples in the same way.

    Raises: ConfigError for a field that no record has.
    """
    expect(salt, str, "salt")
    if not salt:
        raise ConfigError("a hash without a salt can be reversed by guessing", hint='pass salt="…", and keep it secret')
    hashed = _within(_hash_with(hashlib.sha256(salt.encode(errors="surrogatepass")).digest()))
    hide, _ = _changing(self, fields, hashed)
    records = tuple(record._replace(key=hashed(record.key), value=hide(record)) for record in self.records)
    return replace(self, records=records, notes=(*self.notes, "keys hashed"))


def _mask(value: Any) -> Any:
    """Return a value of the same type that reveals nothing."""
    if isinstance(value, list):
        return list(map(_mask, value))
    if isinstance(value, bytes):
        return bytes(len(value))  # a schema may want a fixed size
    if isinstance(value, datetime):
        return datetime(1970, 1, 1, tzinfo=value.tzinfo)
    empty = {} if isinstance(value, dict) else "***"
    return next((zero for zero in _ZEROS if type(zero) is type(value)), empty)


def _hash_with(secret: bytes) -> Callable[[Any], Any]:
    """Return a function from a key to its hash."""
    permuted = lru_cache(1 << 16)(partial(_permuted, secret))

    def hashed(value: Any) -> Any:
        if isinstance(value, Windowed):
            return value._replace(key=hashed(value.key))
        if isinstance(value, bool):
            return bool(permuted(value, 1))
        if type(value) is int:
            number = max(value, ~value)  # so that the sign stays
            bits = (32 << (number.bit_length() // 32).bit_length()) - 1  # 31, 63, 127 …: a field of 32 bits can hold 31
            return permuted(number, bits) if number == value else ~permuted(number, bits)
        if isinstance(value, UUID):
            return UUID(bytes=hashed(value.bytes))
        if isinstance(value, bytes):
            return type(value)(permuted(int.from_bytes(value), 8 * len(value)).to_bytes(len(value)))
        text = format_cell(value).encode()
        return None if value is None else hashlib.blake2b(text, digest_size=8, key=secret).hexdigest()

    return hashed


def _permuted(secret: bytes, number: int, bits: int) -> int:
    """Return a number of as many bits from a keyed Feistel network; different numbers give different results."""
    size, width = bits // 16 + 1, bits // 2  # of a half in bytes, and of the left one in bits
    left, right = divmod(number, 1 << bits - width)
    for turn in range(_ROUNDS):  # an even number, so halves of different widths are swapped back
        digest = hashlib.shake_256(b"%b %d %d " % (secret, bits, turn) + right.to_bytes(size)).digest(size)
        left, right = right, left ^ int.from_bytes(digest) % (1 << width)
        width = bits - width
    return left << bits - width | right


def _within(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that changes each value within dicts and lists, and any other value."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: changed(item) for name, item in value.items()}
        return list(map(changed, value)) if isinstance(value, list) else change(value)

    return changed


def _changing(
    sample: Sample, fields: Sequence[str], change: Callable[[Any], Any]
) -> tuple[Callable[[TopicRecord], Any], list[str]]:
    """Return a function from a record to its changed value, and the optional fields that no record has.

    Raises: ConfigError for a field that no record has, and for objects without known fields.
    """
    names = {field: field.removesuffix("?") for field in expect_texts(fields, "fields")}
    paths = {field: tuple(name.removesuffix(".*").split(".")) for field, name in names.items()}
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

    def changed(record: TopicRecord) -> Any:
        value = record.value
        for field, path in paths.items():
            try:
                value = _changed(value, path, _within(change) if names[field].endswith(".*") else change)
            except (TypeError, ValueError) as error:  # a field of a message takes one type only
                fact = f'field "{names[field]}" of topic "{record.topic}" cannot hold the replacement'
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
