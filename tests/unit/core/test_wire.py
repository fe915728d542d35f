"""The wire form: plain values cost nothing, all others are bytes, and round trips preserve values."""

from __future__ import annotations

import math

import pytest

from kstreamnb.core.codec import SerializedValue, decode, decoder, encode, encoder, to_bytes
from kstreamnb.core.record import Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.errors import SerdeError

PLAIN = [
    (Serdes.string(), "größe"),
    (Serdes.long(), 2**63 - 1),
    (Serdes.double(), 0.1),
    (Serdes.boolean(), True),
    (Serdes.bytes(), b"ab"),
    (Serdes.json(), "text"),
    (Serdes.json(), 10**30),
    (Serdes.json(), False),
    (Serdes.time_windowed(Serdes.string(), "10ms"), Windowed("a", 0, 10)),
]
ENCODED = [
    (Serdes.json(), {"a": [1]}),
    (Serdes.json(), [1, 2]),
    (Serdes.float(), 1.5),
    (Serdes.bytes(), bytearray(b"ab")),
    (Serdes.list_serde(Serdes.long()), [1, None]),
    (Serdes.session_windowed(Serdes.json()), Windowed([1], 0, 10)),
]


@pytest.mark.parametrize(("serde", "value"), PLAIN)
def test_immutable_values_stay_as_they_are(serde, value):
    """A plain value is its own wire form in both directions."""
    for wire in (encode(serde, value), encoder(serde)(value)):
        assert value is wire
        assert value is decode(serde, wire)
        assert serde.serialize(value) == to_bytes(serde, wire)


@pytest.mark.parametrize(("serde", "value"), ENCODED)
def test_other_values_are_kept_as_bytes(serde, value):
    """Mutable values, and those that a round trip would change, are encoded and decoded every time."""
    wire = encoder(serde)(value)
    assert type(wire) is SerializedValue
    assert wire == encode(serde, value) == to_bytes(serde, wire)
    assert type(to_bytes(serde, wire)) is bytes
    first, second = decode(serde, wire), decoder(serde)(wire)
    assert value == first == second
    assert first is not second or isinstance(first, (float, bytes))


def test_none_stays_none():
    """None has no bytes in either form."""
    assert (None, None, None) == (
        encode(Serdes.json(), None),
        decode(Serdes.json(), None),
        to_bytes(Serdes.json(), None),
    )


def test_a_mutated_object_does_not_change_what_was_encoded():
    """The wire form is a copy of a mutable value."""
    value = {"count": 1}
    wire = encode(Serdes.json(), value)
    value["count"] = 2
    assert {"count": 1} == decode(Serdes.json(), wire)


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (Serdes.long(), 2**63),
        (Serdes.string(), "\udcff"),
        (Serdes.string(), 5),
        (Serdes.json(), math.inf),
        (Serdes.json(), "\udcff"),
        (Serdes.short(), 2**15),
    ],
)
def test_values_without_bytes_are_refused_at_once(serde, value):
    """A value that cannot be serialized fails when it is written, not when it is read."""
    for write in (encoder(serde), lambda v: encode(serde, v)):
        with pytest.raises(SerdeError):
            write(value)


def test_a_window_of_another_size_comes_back_with_the_serdes_size():
    """A time-windowed key holds its start only, in both forms."""
    serde = Serdes.time_windowed(Serdes.string(), "10ms")
    assert Windowed("a", 0, 10) == decode(serde, encode(serde, Windowed("a", 0, 7)))
