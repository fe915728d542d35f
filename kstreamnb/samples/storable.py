"""Records as files hold them: objects that serdes made become dicts or bytes; any other object is an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.record import TopicRecord, Windowed
from kstreamnb.core.serde import Serde
from kstreamnb.errors import ConfigError
from kstreamnb.samples.text import is_restored

SampleSerdes: TypeAlias = Mapping[str, tuple[Serde, Serde]]
"""The serdes of keys and values by topic."""

HELD = {dict, list, tuple, str, int, float, bool, type(None), bytes, SerializedValue, Windowed, Decimal, UUID}
HELD |= {datetime, date, time}


def storable(records: tuple[TopicRecord, ...], serdes: SampleSerdes) -> tuple[TopicRecord, ...]:
    """Return records with objects of their topics' serdes as what these write alike: dicts or bytes."""
    if all(type(record.key) in HELD and type(record.value) in HELD for record in records):
        return records
    known = ((record, serdes.get(record.topic)) for record in records)
    return tuple(
        record if pair is None else record._replace(key=_held(record.key, pair[0]), value=_held(record.value, pair[1]))
        for record, pair in known
    )


def _held(value: object, serde: Serde) -> object:
    form = value if type(value) in HELD else serde.portable(value)
    return SerializedValue(form) if type(form) is bytes and form is not value else form


@contextmanager
def naming_fields(records: Iterable[TopicRecord]) -> Iterator[None]:
    """Raise a ConfigError that names topic, field and type if a value cannot be written."""
    try:
        yield
    except (ConfigError, TypeError) as error:
        for record in records:
            for path, part in (*_parts("key", record.key), *_parts("value", record.value)):
                if not is_restored(part):
                    kind = f'a value of type "{type(part).__name__}"'
                    fact = f'field "{path}" of topic "{record.topic}" has {kind}, which cannot be written as text'
                    hint = "convert it to text, a number or a dict, or capture it with value_serde= or key_serde="
                    hint = 'give it names that are strings other than "$cell"' if isinstance(part, dict) else hint
                    detail = f"it is in the record at offset {record.offset}"
                    raise ConfigError(fact, detail=detail, hint=hint) from error
        raise


def _parts(path: str, value: Any) -> Iterator[tuple[str, object]]:
    """Yield the innermost parts of a value with their paths, and a dict with names that files do not have."""
    if isinstance(value, dict) and value.keys() != {"$cell"} and all(type(name) is str for name in value):
        for name, item in value.items():
            yield from _parts(f"{path}.{name}", item)
    elif type(value) is list:
        for item in value:
            yield from _parts(f"{path}[]", item)
    else:
        yield path, value
