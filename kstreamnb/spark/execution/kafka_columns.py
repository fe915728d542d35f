"""Whole columns of keys and values between Kafka's bytes and wire form, for the serdes that allow it.

One call for a column costs a fraction of one call for each item. A column with anything unusual in it goes item by
item, which calls the handlers of errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kstreamnb.core.serde import LONG, Serde, StringSerde


def column_from_kafka(column: Sequence[bytes | None], serde: Serde | None) -> list[Any] | None:
    """Decode Kafka's bytes to plain values; None if they have to be decoded one by one.

    Example:
        >>> from kstreamnb.core.serdes import Serdes
        >>> column_from_kafka([b"a", b"b"], Serdes.string())
        ['a', 'b']
        >>> column_from_kafka([b"three bytes"], Serdes.long())
    """
    kind = type(serde)
    if kind is StringSerde:
        try:
            return [None if item is None else item.decode() for item in column]
        except UnicodeDecodeError:
            return None
    if serde == LONG and not {8} ^ {-1 if item is None else len(item) for item in column}:
        numbers: list[Any] = np.frombuffer(b"".join(column), ">i8").tolist()  # type: ignore[arg-type]
        return numbers
    return None


def column_to_kafka(column: Sequence[Any], serde: Serde | None) -> list[bytes | None] | None:
    """Encode plain values as Kafka's bytes; None if they have to be encoded one by one.

    Example:
        >>> from kstreamnb.core.serdes import Serdes
        >>> [data.hex() for data in column_to_kafka([1, 258], Serdes.long())]
        ['0000000000000001', '0000000000000102']
    """
    kind, kinds = type(serde), set(map(type, column))
    if kind is StringSerde and kinds == {str}:
        try:
            return [item.encode() for item in column]
        except UnicodeEncodeError:
            return None
    if serde == LONG and kinds == {int}:
        try:
            data = np.array(column, np.int64).astype(">i8").tobytes()
        except OverflowError:
            return None
        return [data[at : at + 8] for at in range(0, len(data), 8)]
    return None
