"""The wire form: how keys and values lie in stores and in-process topics.

A value that is immutable and would come back from its bytes unchanged stays as it is and costs nothing; all
else is kept as bytes, so that what comes out is what went in, whatever the user does to the object meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes_scalar import StringSerde, WholeSerde

Wire: TypeAlias = Any
"""A plain value, `Encoded` bytes, or None."""


class Encoded(bytes):
    """Bytes that a serde has to read before a user sees the value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Encoded({bytes(self)!r})"


def encode(serde: Serde, value: Any) -> Wire:
    """The wire form of a value: itself where that is safe, else its bytes."""
    if value is None or type(value) is Encoded:  # bytes that came from elsewhere stay unread
        return value
    if type(value) in serde.plain and serde.keeps(value):
        return value
    data = serde.serialize(value)
    return None if data is None else Encoded(data)


def decode(serde: Serde, wire: Wire) -> Any:
    """The value of a wire form; a new object unless it is immutable."""
    return serde.deserialize(wire) if type(wire) is Encoded else wire


def to_bytes(serde: Serde, wire: Wire) -> bytes | None:
    """Kafka's bytes of a wire form."""
    return bytes(wire) if type(wire) is Encoded else serde.serialize(wire)


def encoder(serde: Serde) -> Callable[[Any], Wire]:
    """`encode` of one serde as a function, for use once a record."""
    if isinstance(serde, StringSerde):

        def encode_text(value: Any) -> Wire:
            return value if type(value) is str and value.isascii() else encode(serde, value)

        return encode_text
    if isinstance(serde, WholeSerde):
        least, most = -(1 << 8 * serde.width - 1), (1 << 8 * serde.width - 1) - 1

        def encode_whole(value: Any) -> Wire:
            return value if type(value) is int and least <= value <= most else encode(serde, value)

        return encode_whole

    plain, keeps, write = serde.plain, serde.keeps, serde.serialize

    def encode_value(value: Any) -> Wire:
        kind = type(value)
        if value is None or kind is Encoded or (kind in plain and keeps(value)):
            return value
        data = write(value)
        return None if data is None else Encoded(data)

    return encode_value


def decoder(serde: Serde) -> Callable[[Wire], Any]:
    """`decode` of one serde as a function, for use once a record."""
    read = serde.deserialize

    def decode_value(wire: Wire) -> Any:
        return read(wire) if type(wire) is Encoded else wire

    return decode_value
