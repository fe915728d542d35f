"""Samples that can be shown: fields blanked out, keys replaced by their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kstreamnb.core.wire import Encoded
from kstreamnb.errors import ConfigError
from kstreamnb.samples.text import format_cell

if TYPE_CHECKING:  # its class lists these functions
    from kstreamnb.samples.sample import Sample

__all__ = ["hash_keys", "redact"]


def redact(self: Sample, *fields: str, replacement: Any = "***") -> Sample:
    """Blank out fields of dict values, such as ``"card"`` or ``"customer.name"``; also within lists.

    Records that could not be decoded lose their bytes, and headers lose their values: nobody knows what is in them.
    Raises ConfigError when a field is in no record, which is likely a wrong name.
    """
    if not fields:
        raise ConfigError("no field to redact is named")
    paths = {field: tuple(field.split(".")) for field in fields}
    missing = {field for field, path in paths.items() if not any(_has(record.value, path) for record in self.records)}
    if missing and self.records:
        raise ConfigError(f'no record has the field "{min(missing)}"')

    def blank(value: Any) -> Any:
        if type(value) is Encoded:
            return Encoded()
        for path in paths.values():
            value = _blank(value, path, replacement)
        return value

    records = tuple(
        record._replace(
            key=Encoded() if type(record.key) is Encoded else record.key,
            value=blank(record.value),
            headers=tuple((name, None) for name, _ in record.headers),
        )
        for record in self.records
    )
    return replace(self, records=records, notes=(*self.notes, f"redacted: {', '.join(fields)}"))


def _has(value: Any, path: tuple[str, ...]) -> bool:
    if isinstance(value, list):
        return any(_has(item, path) for item in value)
    if not isinstance(value, dict) or path[0] not in value:
        return False
    return len(path) == 1 or _has(value[path[0]], path[1:])


def _blank(value: Any, path: tuple[str, ...], replacement: Any) -> Any:
    if isinstance(value, list):
        return [_blank(item, path, replacement) for item in value]
    if not isinstance(value, dict) or path[0] not in value:
        return value
    rest = replacement if len(path) == 1 else _blank(value[path[0]], path[1:], replacement)
    return {**value, path[0]: rest}


def hash_keys(self: Sample, *fields: str, salt: str) -> Sample:
    """Replace keys, and the fields of dict values that hold keys too, by 16 hexadecimal digits of a keyed hash.

    Equal keys stay equal, so joins and counts stay; partitions stay those of the real keys.
    """
    if not salt:
        raise ConfigError("a hash without a salt can be undone by guessing", hint='give salt="…" and keep it')
    hashed = _hasher(salt)
    paths = [tuple(field.split(".")) for field in fields]

    def hide(value: Any) -> Any:
        for path in paths:
            value = _hide(value, path, hashed)
        return value

    records = tuple(
        record._replace(key=None if record.key is None else hashed(record.key), value=hide(record.value))
        for record in self.records
    )
    return replace(self, records=records, notes=(*self.notes, "keys hashed"))


def _hasher(salt: str) -> Callable[[Any], str]:
    secret = hashlib.sha256(salt.encode()).digest()

    def hashed(value: Any) -> str:
        return hashlib.blake2b(format_cell(value).encode(), digest_size=8, key=secret).hexdigest()

    return hashed


def _hide(value: Any, path: tuple[str, ...], hashed: Callable[[Any], str]) -> Any:
    if isinstance(value, list):
        return [_hide(item, path, hashed) for item in value]
    if not isinstance(value, dict) or value.get(path[0]) is None:
        return value
    rest = hashed(value[path[0]]) if len(path) == 1 else _hide(value[path[0]], path[1:], hashed)
    return {**value, path[0]: rest}
