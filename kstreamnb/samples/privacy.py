"""Samples that can be shared: fields blanked out, keys replaced by their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kstreamnb.core.arguments import expect, expect_texts
from kstreamnb.core.codec import SerializedValue
from kstreamnb.errors import ConfigError
from kstreamnb.samples.text import format_cell

if TYPE_CHECKING:  # its class lists these functions
    from kstreamnb.samples.sample import Sample


def redact(self: Sample, *fields: str, replacement: object = "***") -> Sample:
    """Blank out fields of dict values, such as ``"card"`` or ``"customer.name"``; also within lists.

    Records that could not be decoded lose their bytes, and headers lose their values, because their content is unknown.

    Args:
        fields: names of the fields to blank out, nested ones with dots.
        replacement: value that the fields get. Default: ``"***"``.

    Raises: ConfigError for a field that no record has, which is likely a wrong name.
    """
    if not fields:
        raise ConfigError("no fields to redact were named")
    blank = _changing(self, fields, lambda value: replacement)
    records = tuple(
        record._replace(
            key=SerializedValue() if type(record.key) is SerializedValue else record.key,
            value=SerializedValue() if type(record.value) is SerializedValue else blank(record.value),
            headers=tuple((name, None) for name, _ in record.headers),
        )
        for record in self.records
    )
    return replace(self, records=records, notes=(*self.notes, f"redacted: {', '.join(fields)}"))


def hash_keys(self: Sample, *fields: str, salt: str) -> Sample:
    """Replace keys, and the fields of dict values that hold keys too, by 16 hexadecimal digits of a keyed hash.

    Equal keys stay equal, so joins and counts are preserved; partitions stay those of the real keys. Raises ConfigError
    if no record has a field.

    Args:
        fields: names of fields that hold keys too, such as "customer" or "order.customer".
        salt: secret text that keys the hash; not empty. Keep it to hash later samples in the same way.

    Raises: ConfigError for a field that no record has.
    """
    expect(salt, str, "salt")
    if not salt:
        raise ConfigError("a hash without a salt can be reversed by guessing", hint='pass salt="…", and keep it secret')
    secret = hashlib.sha256(salt.encode(errors="surrogatepass")).digest()

    def hashed(value: object) -> str | None:
        if value is None:
            return None
        return hashlib.blake2b(format_cell(value).encode(), digest_size=8, key=secret).hexdigest()

    hide = _changing(self, fields, hashed)
    records = tuple(record._replace(key=hashed(record.key), value=hide(record.value)) for record in self.records)
    return replace(self, records=records, notes=(*self.notes, "keys hashed"))


def _changing(sample: Sample, fields: Sequence[str], change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that changes fields of a value; raises ConfigError for a field that no record has."""
    fields = expect_texts(fields, "fields")
    paths = {field: tuple(field.split(".")) for field in fields}
    for field, path in paths.items():
        if sample.records and not any(_has(record.value, path) for record in sample.records):
            raise ConfigError(f'no record has the field "{field}"')

    def changed(value: object) -> Any:
        for path in paths.values():
            value = _changed(value, path, change)
        return value

    return changed


def _has(value: object, path: tuple[str, ...]) -> bool:
    if isinstance(value, list):
        return any(_has(item, path) for item in value)
    if not isinstance(value, dict) or path[0] not in value:
        return False
    return len(path) == 1 or _has(value[path[0]], path[1:])


def _changed(value: object, path: tuple[str, ...], change: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        return [_changed(item, path, change) for item in value]
    if not isinstance(value, dict) or path[0] not in value:
        return value
    held = value[path[0]]
    return {**value, path[0]: change(held) if len(path) == 1 else _changed(held, path[1:], change)}
