"""murmur2 and the choice of partitions."""

from __future__ import annotations

import pytest

from kstreamnb.core.codec import SerializedValue, encode, key_partitioner, murmur2, partition_for
from kstreamnb.core.record import Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.options import Repartitioned
from kstreamnb.errors import ConfigError
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology


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


def test_the_whole_bytes_of_a_windowed_key_choose_its_partition():
    """Windows of one key are in several partitions, whatever form the key has, unless the DSL writes them."""
    serde = Serdes.time_windowed(Serdes.string(), "10ms")
    choose, by_inner = key_partitioner(serde, 100), key_partitioner(serde, 100, by_inner=True)
    windows = [Windowed(key, start, start + 10) for key in ("shoe", "sch\u00f6n") for start in (0, 10, 500)]
    data = [serde.serialize(window) for window in windows]
    whole = [partition_for(each, 100) for each in data]
    assert whole == list(map(choose, windows)) == [choose(SerializedValue(each)) for each in data]
    assert len({*whole[:3]}) == 3
    inner = [partition_for(window.key.encode(), 100) for window in windows]
    assert inner == [by_inner(encode(serde, window)) for window in windows]
    assert inner == [by_inner(SerializedValue(each)) for each in data]


def test_only_sinks_of_the_dsl_choose_partitions_by_the_inner_key():
    """Kafka sets a partitioner for windowed keys in `to`, not for repartition topics nor in the Processor API."""
    keys, builder, topology = Serdes.time_windowed(Serdes.string(), "10ms"), StreamsBuilder(), Topology()
    builder.stream("in", key_serde=keys).repartition(Repartitioned(name="again")).to("out")
    topology.add_source("in", "in", key_serde=keys).add_sink("out", "out", "in", key_serde=keys)
    windows = [Windowed("shoe", start, start + 10) for start in range(0, 100, 10)]
    whole, inner = [partition_for(keys.serialize(each), 7) for each in windows], [partition_for(b"shoe", 7)] * 10
    assert len({*whole}) > 3
    config = {"application.id": "app", "default_value_serde": "string"}
    for observe in (None, lambda event: None):
        for application, topics in (
            (builder.build(), {"app-again-repartition": whole, "out": inner}),
            (topology, {"out": whole}),
        ):
            driver = TopologyTestDriver(application, config, partitions=7, observe=observe)
            driver.create_input_topic("in", keys, "string").pipe_key_value_list([(key, "v") for key in windows])
            for topic, expected in topics.items():
                written = driver.create_output_topic(topic, keys, "string").read_records()
                assert [*zip(windows, expected, strict=True)] == sorted((each.key, each.partition) for each in written)


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
