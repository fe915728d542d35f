"""Stores given to operators: each operator accepts one family, and others are refused with Java's text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kstreamnb as ks
from tests.unit.state.stores_for_tests import OwnKeyValueStore, OwnSessionStore, OwnWindowStore

_WINDOW: dict[str, Any] = {"retention": "1h", "window_size": "10ms"}
_SUPPLIERS = (  # with Java's class in org.apache.kafka.streams.state, and its contents
    (ks.Stores.persistent_key_value_store("s"), "internals.RocksDBKeyValueBytesStoreSupplier", "KeyValue"),
    (ks.Stores.in_memory_key_value_store("s"), "internals.InMemoryKeyValueBytesStoreSupplier", "KeyValue"),
    (ks.Stores.persistent_timestamped_key_value_store("s"), "internals.RocksDBKeyValueBytesStoreSupplier", "KeyValue"),
    (ks.Stores.lru_map("s", 5), "Stores$1", "KeyValue"),
    (
        ks.Stores.persistent_versioned_key_value_store("s", history="1h"),
        "internals.RocksDbVersionedKeyValueBytesStoreSupplier",
        "KeyValue",
    ),
    (ks.Stores.persistent_window_store("s", **_WINDOW), "internals.RocksDbWindowBytesStoreSupplier", "Window"),
    (ks.Stores.in_memory_window_store("s", **_WINDOW), "internals.InMemoryWindowBytesStoreSupplier", "Window"),
    (
        ks.Stores.persistent_timestamped_window_store("s", **_WINDOW),
        "internals.RocksDbWindowBytesStoreSupplier",
        "Window",
    ),
    (ks.Stores.persistent_session_store("s", retention="1h"), "internals.RocksDbSessionBytesStoreSupplier", "Session"),
    (ks.Stores.in_memory_session_store("s", retention="1h"), "internals.InMemorySessionBytesStoreSupplier", "Session"),
)


def _count(builder: ks.StreamsBuilder, store: ks.Materialized, windows: Any = None) -> object:
    grouped: Any = builder.stream("in").group_by_key()
    return (grouped if windows is None else grouped.windowed_by(windows)).count(store)


def _table(builder: ks.StreamsBuilder, store: ks.Materialized) -> object:
    return builder.table("in", materialized=store)


def _global_table(builder: ks.StreamsBuilder, store: ks.Materialized) -> object:
    return builder.global_table("in", materialized=store)


def _hits(builder: ks.StreamsBuilder, store: ks.Materialized) -> object:
    return _count(builder, store, ks.TimeWindows.of(size="10ms"))


def _sliding(builder: ks.StreamsBuilder, store: ks.Materialized) -> object:
    return _count(builder, store, ks.SlidingWindows.of(difference="10ms"))


def _sessions(builder: ks.StreamsBuilder, store: ks.Materialized) -> object:
    return _count(builder, store, ks.SessionWindows.of(gap="10ms"))


_USES: tuple[tuple[Callable[[ks.StreamsBuilder, ks.Materialized], object], str, str], ...] = (
    (_count, "KeyValue", "key-value"),
    (_table, "KeyValue", "key-value"),
    (_global_table, "KeyValue", "key-value"),
    (_hits, "Window", "window"),
    (_sliding, "Window", "window"),
    (_sessions, "Session", "session"),
)
_PAIRS = [(*supplier, *use) for supplier in _SUPPLIERS for use in _USES]


@pytest.mark.parametrize(
    ("spec", "name", "declare", "needed", "word"),
    [(spec, name, declare, needed, word) for spec, name, kept, declare, needed, word in _PAIRS if kept != needed],
)
def test_a_store_of_another_kind_is_refused_with_the_text_of_java(
    spec: ks.StoreSpec, name: str, declare: Callable[..., object], needed: str, word: str
) -> None:
    """The text is that of Kafka Streams 4.3.1, which raises it when the topology starts."""
    builder = ks.StreamsBuilder("mixed")
    declare(builder, ks.Materialized(spec))
    with pytest.raises(ks.errors.ConfigError, match=f'expected a {word} store, got "s"') as refused:
        builder.build()
    given, wanted = (f"org.apache.kafka.streams.state.{each}" for each in (name, f"{needed}BytesStoreSupplier"))
    java = (
        f"class {given} cannot be cast to class {wanted} ({given} and {wanted} are in unnamed module of loader 'app')"
    )
    assert java == refused.value.java
    assert "At: test_store_kinds.py" in "\n".join(refused.value.__notes__)


@pytest.mark.parametrize(
    ("spec", "declare"),
    [
        (spec, declare)
        for spec, _, kept, declare, needed, _ in _PAIRS
        if kept == needed and (declare, spec.kind) != (_global_table, "versioned")  # these are refused elsewhere
    ],
)
def test_a_store_of_the_right_kind_is_taken(spec: ks.StoreSpec, declare: Callable[..., object]) -> None:
    """Timestamped or not, in memory or not, with versions or a limit."""
    builder = ks.StreamsBuilder("alike")
    declare(builder, ks.Materialized(spec))
    topology = builder.build()
    (kept,) = [*topology.stores.values(), *topology.global_stores.values()]
    assert ("s", spec.persistent, spec.max_entries) == (kept.name, kept.persistent, kept.max_entries)


@pytest.mark.parametrize("spec", [spec for spec, _, kept in _SUPPLIERS if kept != "Window"])
def test_a_stream_join_takes_window_stores_alone(spec: ks.StoreSpec) -> None:
    """Other stores retain no duplicates."""
    builder = ks.StreamsBuilder("joined")
    left, right = builder.stream("left"), builder.stream("right")
    windows = ks.JoinWindows.of(difference="5ms")
    left.join(right, lambda a, b: (a, b), windows, ks.StreamJoined().with_this_store_supplier(spec))
    with pytest.raises(ks.errors.TopologyError, match="must retain duplicates"):
        builder.build()


_TIMES = {
    ks.Stores.persistent_key_value_store: -1,
    ks.Stores.persistent_timestamped_key_value_store: 7,
    ks.Stores.in_memory_key_value_store: 7,
}


@pytest.mark.parametrize(("make", "time"), _TIMES.items())
def test_a_plain_persistent_store_forgets_the_times_of_a_tables_rows(make: Any, time: int) -> None:
    """As in Kafka Streams 4.3.1, a join takes the time of the other row; the changelog has each record's own time."""
    builder = ks.StreamsBuilder("forgetting")
    left = builder.table("left", materialized=ks.Materialized(make("s"), "string", "string"))
    right = builder.table("right", key_serde="string", value_serde="string", store="other")
    left.join(right, lambda a, b: a + b).to_stream().to("out", key_serde="string", value_serde="string")
    driver = ks.TopologyTestDriver(builder.build(), changelogs=True)
    driver.create_input_topic("left", "string", "string").pipe_input("k", "a", at=7)
    driver.create_input_topic("right", "string", "string").pipe_input("k", "b", at=5)
    (joined,) = driver.create_output_topic("out", "string", "string").read_records()
    assert (joined.value, joined.timestamp) == ("ab", max(time, 5))
    assert driver.store("s", timestamps=True).get("k") == ks.ValueAndTimestamp("a", time)
    (logged,) = driver.create_output_topic("forgetting-s-changelog", "string", "string").read_records()
    assert logged.timestamp == 7


def test_a_count_in_a_plain_persistent_store_has_the_time_of_its_record() -> None:
    """Its rows have no times, so a late record's result is late as well, as in Kafka Streams."""
    builder = ks.StreamsBuilder("forgetting")
    counts = builder.stream("in").group_by_key().count(ks.Materialized(ks.Stores.persistent_key_value_store("s")))
    counts.to_stream().to("out")
    with ks.TopologyTestDriver(builder.build(), verify=False) as driver:
        for at in (10, 20, 5):
            driver.create_input_topic("in").pipe_input("k", "x", at=at)
        records = driver.create_output_topic("out").read_records_to_list()
    assert [(1, 10), (2, 20), (3, 5)] == [(record.value, record.timestamp) for record in records]


def test_windows_in_a_plain_persistent_store_cannot_be_emitted_on_close() -> None:
    """Kafka Streams 4.3.1 fails with the same text, since the rows have no times."""
    builder = ks.StreamsBuilder("forgetting")
    store = ks.Stores.persistent_window_store("s", retention="1h", window_size="10ms")
    hits = builder.stream("in").group_by_key().windowed_by(ks.TimeWindows.of(size="10ms"))
    hits.emit_strategy(ks.EmitStrategy.on_window_close()).count(ks.Materialized(store))
    driver = ks.TopologyTestDriver(builder.build())
    topic = driver.create_input_topic("in")
    topic.pipe_input("k", 1, at=1)
    with pytest.raises(ks.errors.ProcessingError, match='"s" keeps no times') as failed:
        topic.pipe_input("k", 1, at=20)
    assert "Timestamp may not be negative. Got: -1" in str(failed.value.__cause__.java)  # type: ignore[union-attr]


def test_a_builder_for_times_forgets_them_too_on_a_plain_persistent_store() -> None:
    """In memory, and with a user's own storage, rows keep them."""
    build, plain = ks.Stores.timestamped_key_value_store_builder, ks.Stores.persistent_key_value_store("s")
    own = ks.StoreSpec("s", "key_value", factory=lambda spec: {})
    assert [dict(build(spec, None, None).extra) for spec in (plain, own)] == [{"forgets_times": True}, {}]
    assert not build(ks.Stores.in_memory_key_value_store("s"), None, None).extra


@pytest.mark.parametrize("windows", [None, ks.TimeWindows.of("10ms"), ks.SessionWindows.of("10ms")])
def test_an_aggregation_keeps_its_rows_in_the_users_storage(windows: Any) -> None:
    """By key, by window and by session."""
    used = []

    def factory(spec: ks.StoreSpec) -> Any:
        used.append(spec.name)
        kinds = {"session": OwnSessionStore, "timestamped_window": OwnWindowStore}
        return kinds.get(spec.kind, OwnKeyValueStore)(spec)

    store = ks.Stores.in_memory_key_value_store("s", factory=factory)
    if windows is not None:
        is_session = isinstance(windows, ks.SessionWindows)
        make = ks.Stores.in_memory_session_store if is_session else ks.Stores.in_memory_window_store
        store = make("s", "1m", *(() if is_session else ("10ms",)), factory=factory)
    builder = ks.StreamsBuilder()
    grouped = builder.stream("in", key_serde="string").group_by_key()
    windowed = grouped if windows is None else grouped.windowed_by(windows)
    windowed.count(ks.Materialized(store)).to_stream().to("out")
    driver = ks.TopologyTestDriver(builder.build())
    topic = driver.create_input_topic("in")
    topic.pipe_input("k", 1, at=1)
    topic.pipe_input("k", 1, at=2)
    values = [record.value for record in driver.create_output_topic("out").read_records_to_list()]
    assert (used, values[-1]) == (["s"], 2)
