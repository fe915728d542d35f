"""Checks a line of serde vectors: the bytes, reading them back, and the partition of a record with that key."""

from __future__ import annotations

import json
import uuid
from typing import Any

from kstreamnb.core.codec import partition_for
from kstreamnb.core.record import Windowed
from kstreamnb.core.serdes import Serdes, TimeWindowedSerde

__all__ = ["differences_of"]


def differences_of(vector: dict[str, Any]) -> list[str]:
    """Return the differences from Java's bytes and partitions."""
    serde, value = _serde(vector["serde"], vector["value"]), _value(vector["serde"], vector["value"])
    data = serde.serialize(value)
    expected = None if vector["bytes"] is None else bytes.fromhex(vector["bytes"])
    found = []
    if data != expected:
        found.append(f"bytes: expected {vector['bytes']} got {None if data is None else data.hex()}")
    back = serde.deserialize(expected)
    if serde.serialize(back) != expected or not (back == value or isinstance(value, float)):
        found.append(f"back: expected {value!r} got {back!r}")
    for count, partition in (vector.get("partition") or {}).items():
        if expected is not None and partition_for(expected, int(count)) != partition:
            found.append(f"partition of {count}: expected {partition} got {partition_for(expected, int(count))}")
    return found


def _serde(name: str, value: Any) -> Any:
    if name == "windowed<string> time":
        return TimeWindowedSerde(Serdes.string(), value[2] - value[1])
    return Serdes.named(name)


def _value(serde: str, value: Any) -> Any:
    if value is None:
        return None
    if "windowed" in serde:
        return Windowed(*value)
    if serde.startswith("list<"):
        items = json.loads(value) if isinstance(value, str) else value
        return [_value(serde[5:-1], item) for item in items]
    return _READ.get(serde, lambda text: text)(value)


_READ: dict[str, Any] = {
    "long": int,
    "integer": int,
    "short": int,
    "float": float,
    "double": float,
    "uuid": uuid.UUID,
    "bytes": bytes.fromhex,
}
