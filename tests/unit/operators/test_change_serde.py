"""Bytes of table changes in repartition topics."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.codec import SerializedValue, decode, encode
from kstreamnb.core.record import Change
from kstreamnb.core.serdes import Serdes
from kstreamnb.errors import SerdeError
from kstreamnb.operators.derived_tables import ChangeSerde

TEXT = ChangeSerde(Serdes.string())


@pytest.mark.parametrize(
    ("change", "data"),
    [
        (Change("new"), "6e657701"),
        (Change(None, "old"), "6f6c6400"),
        (Change("new", "old"), "066e65776f6c6402"),
        (Change("n" * 100, "old"), "c801" + "6e" * 100 + "6f6c6402"),
    ],
)
def test_the_bytes_are_those_of_kafka(change: Change, data: str) -> None:
    """The last byte says which values are present; with both, the length of the new one comes first."""
    assert data == (TEXT.serialize(change) or b"").hex()
    assert change == TEXT.deserialize(bytes.fromhex(data))


def test_a_change_of_nothing_cannot_be_written_and_other_bytes_cannot_be_read() -> None:
    """Both errors carry Kafka's text, too."""
    with pytest.raises(SerdeError, match="neither an old nor a new value"):
        TEXT.serialize(Change(None))
    with pytest.raises(SerdeError, match="cannot read"):
        TEXT.deserialize(b"new\x09")
    with pytest.raises(SerdeError, match="truncated"):
        TEXT.deserialize(b"\x80\x02")
    with pytest.raises(SerdeError, match="too long"):  # its number would have seven million bits
        TEXT.deserialize(b"\x80" * 1_000_000 + b"\x01\x02")


def test_the_default_serde_stands_in_where_none_was_named() -> None:
    """Until then values cannot be serialized."""
    with pytest.raises(SerdeError, match="needs an inner serde"):
        ChangeSerde().serialize(Change("new"))
    assert ChangeSerde(Serdes.long()) == ChangeSerde().with_defaults(Serdes.string(), Serdes.long())
    assert TEXT == TEXT.with_defaults(Serdes.long(), Serdes.long())
    assert ("change<default>", "change<string>") == (ChangeSerde().name, TEXT.name)


values = st.none() | st.text(max_size=300)


@given(values, values)
def test_a_change_comes_back_as_it_was(new: Any, old: Any) -> None:
    """From the wire form as from its bytes."""
    change = Change(new, old)
    if change != Change(None):
        assert change == TEXT.deserialize(TEXT.serialize(change))
        assert change == decode(TEXT, encode(TEXT, change))


def test_changes_of_plain_values_cost_nothing_on_the_wire() -> None:
    """Others are serialized, so that nothing can change them in transit."""
    assert Change("new", "old") is encode(TEXT, change := Change("new", "old")) or change == encode(TEXT, change)
    assert type(encode(ChangeSerde(Serdes.json()), Change({"a": 1}))) is SerializedValue
    assert type(encode(TEXT, Change("new", None, False))) is SerializedValue
