"""Keys and values of output topics as columns: the serde determines the type."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from kstreamnb.core.codec import decoder, to_bytes
from kstreamnb.core.serde import Serde
from kstreamnb.data_files import rows_of

_TYPES = dict(rows_of(__package__, "arrow_types.tsv"))
"""Names of Arrow types by those of serdes."""

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""The type of a column of headers."""


def _arrow_type(serde: Serde) -> pa.DataType:
    """Return the type of a column that a serde writes: bytes, as Kafka has them, for a serde of another kind."""
    inner = getattr(serde, "inner", None)
    if inner is not None and "windowed" in serde.name:
        return pa.struct([("key", _arrow_type(inner)), ("start", pa.int64()), ("end", pa.int64())])
    return pa.type_for_alias(_TYPES.get(serde.name, "binary"))


def arrow_column(wires: list[Any], serde: Serde) -> pa.Array:
    """Return a column of serialized values; JSON values are their text."""
    kind = _arrow_type(serde)
    if pa.types.is_binary(kind):
        return pa.array([None if wire is None else to_bytes(serde, wire) for wire in wires], kind)
    read = decoder(serde)
    values = [read(wire) for wire in wires]
    if serde.name == "json":
        values = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
    elif serde.name == "uuid":
        values = [None if value is None else str(value) for value in values]
    elif pa.types.is_struct(kind):
        values = [None if v is None else {"key": v.key, "start": v.start, "end": v.end} for v in values]
    return pa.array(values, kind)
