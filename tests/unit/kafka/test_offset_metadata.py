"""The metadata of committed offsets, which any program may have committed."""

from __future__ import annotations

import struct
import time
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.kafka.offset_metadata import OffsetMetadata, decode_metadata

MANY = 2**31 - 1


@given(st.binary(max_size=60))
def test_metadata_of_other_programs_are_those_of_nobody(data: bytes) -> None:
    """Any bytes are decoded, at worst to nothing."""
    assert isinstance(decode_metadata(b64encode(data).decode()), OffsetMetadata)
    assert isinstance(decode_metadata(data.decode("latin-1")), OffsetMetadata)


@pytest.mark.parametrize("size", [-12, -1, -13, MANY])
def test_a_name_of_an_impossible_length_ends_the_metadata(size: int) -> None:
    """With a length that leads back to itself, two billion entries would be read."""
    data = struct.pack(">bqiiq", 2, 5, MANY, size, 7) + bytes(64)
    begin = time.process_time()
    assert OffsetMetadata(5) == decode_metadata(b64encode(data).decode())
    assert time.process_time() - begin < 30
