"""murmur2 and the choice of partitions."""

from __future__ import annotations

import pytest

from kstreamnb.core.codec import SerializedValue, encode, key_partitioner, murmur2, partition_for
from kstreamnb.core.record import Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.errors import ConfigError


def test_keys_go_where_kafka_sends_them():
    """Ten keys are spread over four partitions as by a Java producer."""
    keys = [f"KEY-{n}" for n in range(10)]
    choose = key_partitioner(Serdes.string(), 4)
    assert [0, 2, 1, 3, 0, 0, 1, 1, 1, 1] == [partition_for(key.encode(), 4) for key in keys]
    assert [0, 2, 1, 3, 0, 0, 1, 1, 1, 1] == [choose(key) for key in keys] == [choose(key) for key in keys]


def test_the_hash_is_a_signed_number_of_32_bits():
    """The result is Java's int, negative values included."""
    hashes = [murmur2(bytes([n]) * n) for n in range(256)]
    assert min(hashes) < 0 < max(hashes)
    assert all(-(2**31) <= value < 2**31 for value in hashes)


def test_encoded_and_plain_keys_go_to_the_same_partition():
    """A key from Kafka lands in the partition of the same key created in process."""
    for serde, key in [(Serdes.string(), "shoe"), (Serdes.long(), 7), (Serdes.json(), 7), (Serdes.uuid(), None)]:
        choose = key_partitioner(serde, 24)
        data = serde.serialize(key)
        wire = None if data is None else SerializedValue(data)
        assert choose(encode(serde, key)) == choose(wire)


def test_equal_values_with_other_bytes_are_told_apart():
    """1, 1.0 and true are equal in Python, but not as JSON; 0.0 and -0.0 are two doubles."""
    for serde, keys in [(Serdes.json(), [1, 1.0, True]), (Serdes.double(), [0.0, -0.0])]:
        choose = key_partitioner(serde, 100)
        expected = [partition_for(serde.serialize(key), 100) for key in keys]
        assert expected == [choose(key) for key in keys]
        assert len(set(expected)) == len(keys)


def test_a_windowed_key_follows_its_inner_key():
    """All windows of a key are in the key's partition, whatever form the key has."""
    serde = Serdes.time_windowed(Serdes.string(), "10ms")
    choose = key_partitioner(serde, 100)
    for start in (0, 10, 500):
        window = Windowed("shoe", start, start + 10)
        assert partition_for(b"shoe", 100) == choose(window) == choose(SerializedValue(serde.serialize(window)))


def test_null_keys_and_single_partitions_go_to_partition_0():
    """Without a key there is no choice."""
    assert 0 == key_partitioner(Serdes.string(), 4)(None)
    assert 0 == key_partitioner(Serdes.string(), 1)("KEY-1")
    with pytest.raises(ConfigError, match="partitions must be at least 1, got 0"):
        key_partitioner(Serdes.string(), 0)


def test_more_keys_than_are_remembered_keep_their_partitions():
    """Clearing the cache of keys changes nothing."""
    choose = key_partitioner(Serdes.long(), 7)
    first = [choose(n) for n in range(70_000)]
    assert first[:100] == [choose(n) for n in range(100)]
