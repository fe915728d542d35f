"""State in checkpoints: values are restored unchanged, and reading runs no code."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.record import RecordMetadata, Windowed
from kstreamnb.errors import CheckpointError
from kstreamnb.runtime.task.task import StateDelta
from kstreamnb.spark.execution.state_codec import (
    pack,
    pack_delta,
    split_delta,
    unpack,
    unpack_delta,
    unpack_entry,
    unpack_head,
    unpack_row,
)
from kstreamnb.state.codec import EncodedRow

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=1 << 64),
    st.floats(allow_nan=False),
    st.text(st.characters()),
    st.binary(),
    st.builds(SerializedValue, st.binary()),
    st.uuids(),
    st.builds(Windowed, st.text(), st.integers(), st.integers()),
    st.builds(RecordMetadata, st.text(), st.integers(), st.integers()),
    st.builds(lambda data, time: EncodedRow((SerializedValue(data), time)), st.binary(), st.integers(0, 1 << 62)),
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


def kinds(value: Any) -> Any:
    """The types of a value and of everything in it."""
    if isinstance(value, dict):
        return dict, [(kinds(key), kinds(each)) for key, each in value.items()]
    return type(value), [kinds(each) for each in value] if isinstance(value, tuple) else []


@given(values)
def test_values_come_back_with_their_types(value: Any) -> None:
    """Text with lone surrogates and integers of any size, without pickle."""
    back = unpack(pack(value))
    assert value == back
    assert kinds(value) == kinds(back)


def test_numbers_beyond_64_bits_of_earlier_versions_are_read() -> None:
    """Checkpoints have them as decimal digits."""
    assert unpack(b"\x03" + msgpack.packb(msgpack.ExtType(2, b"-1208925819614629174706176"))) == -(1 << 80)


class Evil:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("written", [pickle.dumps, lambda evil: pickle.dumps(evil, 0), pack], ids=["2", "none", "3"])
def test_reading_state_runs_no_code(tmp_path: Path, written: Callable[[object], bytes]) -> None:
    """Code in a checkpoint of any format is refused, by every reader."""
    evil = Evil(tmp_path / "ran")
    for content in (evil, (1, {"counts": {"a": evil}}, {}), ({"counts": {"a": evil}}, {})):
        for read in (unpack_delta, unpack_entry, unpack_head, unpack):
            with pytest.raises(CheckpointError):
                read(written(content))
    assert not (tmp_path / "ran").exists()


def test_objects_of_users_classes_are_read_from_a_trusted_checkpoint() -> None:
    """A user's serde may keep its values in stores unserialized."""
    delta = StateDelta({"days": {"a": (date(2024, 5, 1), 7)}}, {})
    assert delta == unpack_delta(pack_delta(delta), trust=True)
    with pytest.raises(CheckpointError, match="contains objects of a user's class, which only pickle can read"):
        unpack_delta(pack_delta(delta))


@pytest.mark.parametrize("data", [b"", b"\x04abc", pack(("a", 1))[:-1], b"\x03\xc1", b"\x80\x05."])
def test_damaged_state_is_an_error_of_the_checkpoint(data: bytes) -> None:
    """Refused, whatever a parser makes of it."""
    with pytest.raises(CheckpointError, match="state in the checkpoint"):
        unpack(data)


@given(
    st.dictionaries(
        st.text(), st.dictionaries(st.text() | st.integers() | st.tuples(st.text(), st.integers()), values)
    ),
    st.dictionaries(st.tuples(st.text(), st.text()), values, max_size=2),
)
def test_a_split_delta_has_the_rows_of_the_whole_delta(
    rows: dict[str, dict[Any, Any]], state_vars: dict[tuple[str, str], Any]
) -> None:
    data = pack_delta(StateDelta(rows, state_vars))
    split = split_delta(data)
    restored = {name: dict(zip(keys, map(unpack_row, each), strict=True)) for name, (keys, each) in split.rows.items()}
    assert StateDelta(restored, split.state_vars) == unpack_delta(data, trust=True)
    assert kinds(restored) == kinds(rows)


def test_a_damaged_delta_cannot_be_split() -> None:
    data = pack_delta(StateDelta({"counts": {"a": (1, 5), "b": (2, 5)}}, {}))
    for end in range(1, len(data)):
        with pytest.raises(CheckpointError, match="state in the checkpoint is damaged"):
            split_delta(data[:end])
