"""KIP-1271: rows with headers in key-value, window and session stores."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.core.record import AggregationWithHeaders, Headers, Record, ValueTimestampHeaders, Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import Stores, StoreSpec
from kstreamnb.errors import CheckpointError, ConfigError, StateError
from kstreamnb.spark.execution.state_codec import pack, unpack
from kstreamnb.spark.state.checkpoint_manifest import check_compatible, manifest_of
from kstreamnb.state.codec import RowWithHeaders, ValueWithHeaders, headers_size
from kstreamnb.state.make import make_store
from tests.spark.streams import placed
from tests.unit.state.stores_for_tests import StoreTask

TRACE: Headers = (("trace", b"7"), ("none", None), ("trace", b""))
SERDES: dict[str, Any] = {"key_serde": "string", "value_serde": "json"}
KEY_VALUE = Stores.persistent_timestamped_key_value_store_with_headers("s", **SERDES)
WINDOW = Stores.persistent_timestamped_window_store_with_headers("s", retention="1m", window_size="1s", **SERDES)
SESSION = Stores.persistent_session_store_with_headers("s", retention="1m", **SERDES)


def made(spec: StoreSpec) -> tuple[StoreTask, Any, Any]:
    """Create a task, its store, and the store as a user's processor gets it."""
    task = StoreTask()
    store = make_store(replace(spec, key_serde=Serdes.string(), value_serde=Serdes.json()), task)
    return task, store, store.for_user


def test_a_processor_gets_back_the_headers_that_it_put() -> None:
    """Whatever the type of the value; a row without headers has none."""
    _, _, store = made(KEY_VALUE)
    rows = {"a": ValueTimestampHeaders(1, 5, TRACE), "b": ValueTimestampHeaders({"x": [1]}, 6, TRACE)}
    rows["c"] = ValueTimestampHeaders("no headers", 7)
    for key, row in rows.items():
        store.put(key, row)
    assert rows == {key: store.get(key) for key in rows} == dict(store.all())
    assert rows["a"] == store.delete("a")
    assert store.get("a") is None
    store.put("b", ValueTimestampHeaders(None, 8, TRACE))  # no value, no row
    assert store.get("b") is None


def test_a_window_has_the_headers_of_its_row() -> None:
    """Read alone, by key, and by time."""
    _, _, store = made(WINDOW)
    row = ValueTimestampHeaders("x", 5, TRACE)
    store.put("a", row, 0)
    assert row == store.fetch("a", 0)
    assert [(0, row)] == list(store.fetch("a", 0, 10))
    assert [(Windowed("a", 0, 1000), row)] == list(store.fetch_all(0, 10))


def test_a_session_has_the_headers_of_its_aggregate() -> None:
    """A session that ends is removed with its headers while the others are read."""
    _, store, mine = made(SESSION)
    one, two = Windowed("a", 0, 5), Windowed("a", 9, 9)
    mine.put(one, AggregationWithHeaders(1, TRACE))
    mine.put(two, AggregationWithHeaders(2))
    assert AggregationWithHeaders(1, TRACE) == mine.fetch_session("a", 0, 5)
    assert [(one, AggregationWithHeaders(1, TRACE)), (two, AggregationWithHeaders(2))] == list(mine.fetch("a"))
    assert [(one, 1), (two, 2)] == list(store.fetch("a"))
    mine.remove(one)
    assert mine.fetch_session("a", 0, 5) is None
    mine.put(two, None)
    assert [] == list(mine.fetch("a"))


def test_a_session_store_with_headers_expects_aggregates_with_headers() -> None:
    """The error shows what to write."""
    _, _, store = made(SESSION)
    with pytest.raises(StateError, match=r"expects AggregationWithHeaders, got 3") as caught:
        store.put(Windowed("a", 0, 5), 3)
    assert "AggregationWithHeaders(3, record.headers)" in caught.value.hint


def test_headers_are_not_lost_in_silence() -> None:
    """A store without headers refuses a row that has some."""
    _, _, store = made(Stores.persistent_timestamped_key_value_store("s", **SERDES))
    with pytest.raises(StateError, match='store "s" keeps no headers'):
        store.put("a", ValueTimestampHeaders(1, 5, TRACE))
    store.put("a", ValueTimestampHeaders(1, 5))
    assert (1, 5) == store.get("a")


@pytest.mark.parametrize("value", ["text", "", {"a": 1, "b": 2}, 5, (5,)])
def test_a_value_without_a_time_is_refused_by_a_store_with_times(value: object) -> None:
    """A text is not taken apart, and nothing is stored."""
    _, _, store = made(Stores.persistent_timestamped_key_value_store("s", **SERDES))
    with pytest.raises(StateError, match='store "s" is timestamped, got type "') as caught:
        store.put("a", value)
    assert "ks.ValueAndTimestamp(value, record.timestamp)" in caught.value.hint
    assert store.get("a") is None


def test_the_changelog_has_the_headers_of_the_row_and_a_deletion_those_of_the_record() -> None:
    """The value's bytes are those of a store without headers."""
    task, store, mine = made(KEY_VALUE)
    mine.put("a", ValueTimestampHeaders(1, 5, TRACE))
    task.set_record(9, (("last", b"1"),))
    mine.delete("a")
    logged = [(*store.changelog_entry(key, row), time, headers) for key, row, time, headers in store.changes]
    assert [(b"a", b"1", 5, TRACE), (b"a", None, 9, (("last", b"1"),))] == logged


@pytest.mark.parametrize("spec", [KEY_VALUE, WINDOW, SESSION], ids=lambda spec: spec.kind)
def test_a_checkpoint_keeps_headers(spec: StoreSpec) -> None:
    """Rows survive the codec of checkpoints; text of any language and bytes that are no text too."""
    _, store, _ = made(spec)
    _, again, mine = made(spec)
    headers = (("källa", b"\xff\x00"), ("none", None))
    if spec is SESSION:
        store.for_user.put(Windowed("a", 0, 5), AggregationWithHeaders([1], headers))
    else:
        store.for_user.put("a", ValueTimestampHeaders([1], 5, headers), *([0] if spec is WINDOW else []))
    again.restore(unpack(pack(store.snapshot())))
    read = {KEY_VALUE: lambda: mine.get("a"), WINDOW: lambda: mine.fetch("a", 0)}.get(
        spec, lambda: mine.fetch_session("a", 0, 5)
    )
    assert read().headers == headers
    assert again.snapshot() == store.snapshot()


def test_rows_of_a_store_without_headers_are_rows_without_headers() -> None:
    """A checkpoint that was written before headers were switched on is read as it is."""
    for old, new in (
        (Stores.persistent_timestamped_key_value_store("s", **SERDES), KEY_VALUE),
        (Stores.persistent_session_store("s", retention="1m", **SERDES), SESSION),
    ):
        _, store, mine = made(old)
        _, again, reader = made(new)
        if old.kind == "session":
            mine.put(Windowed("a", 0, 5), 3)
        else:
            mine.put("a", (3, 5))
        again.restore(unpack(pack(store.snapshot())))
        row = reader.fetch_session("a", 0, 5) if old.kind == "session" else reader.get("a")
        assert (3, ()) == (row[0], row.headers)


def test_rows_that_differ_in_headers_alone_are_not_equal() -> None:
    """Undo and checks of state compare rows."""
    row = RowWithHeaders(1, 5, TRACE)
    assert row == RowWithHeaders(1, 5, TRACE) == pickle.loads(pickle.dumps(row))
    assert row != RowWithHeaders(1, 5, TRACE[:1])
    assert row != (1, 5)
    assert (1, 5) != row
    assert len({row, RowWithHeaders(1, 5, TRACE)}) == 1
    assert ValueWithHeaders(1, TRACE) == unpack(pack(ValueWithHeaders(1, TRACE)))


def test_the_size_of_headers_in_a_cache_is_that_of_kafkas_bytes() -> None:
    """Lengths of variable size before names and values, and one for all of them."""
    assert headers_size(()) == 1
    assert headers_size((("a", b"bc"),)) == 1 + 1 + (1 + 1) + (1 + 2)
    assert headers_size((("a", None),)) == 1 + 1 + (1 + 1) + 1
    assert headers_size((("a", bytes(64)),)) == 2 + 1 + (1 + 1) + (2 + 64)


def test_builders_of_stores_with_headers_take_what_can_keep_headers() -> None:
    """In-memory stores and those with headers; others are refused with what to write."""
    memory = Stores.in_memory_window_store("w", retention="1h", window_size="5m")
    spec = Stores.timestamped_window_store_with_headers_builder(memory, "string", "json", cached=True)
    assert (spec.kind, spec.headers, spec.cached) == ("timestamped_window", "kept", True)
    with pytest.raises(ConfigError, match='store "s" of kind session cannot store headers') as caught:
        Stores.session_store_with_headers_builder(
            Stores.persistent_session_store("s", retention="1m"), "string", "json"
        )
    assert "Stores.persistent_session_store_with_headers" in caught.value.hint
    with pytest.raises(ConfigError, match='"l" of kind lru cannot store headers'):
        Stores.timestamped_key_value_store_with_headers_builder(Stores.lru_map("l", 3), "string", "json")


class Remember(ks.Processor[str, Any, str, Any]):
    """Keeps the last record of each key with its headers, and forwards the one before."""

    def init(self, context: ks.ProcessorContext) -> None:
        """Get the store."""
        super().init(context)
        self.last = context.get_state_store("last")

    def process(self, record: Record[str, Any]) -> None:
        """Forward the previous record of the key."""
        old = self.last.get(record.key)
        self.last.put(record.key, ValueTimestampHeaders(record.value, record.timestamp, record.headers))
        if old is not None:
            self.context.forward(Record(record.key, *old))


def remembering() -> ks.StreamsBuilder:
    """A topology with a processor that remembers headers."""
    builder = ks.StreamsBuilder("shop")
    builder.add_state_store(Stores.persistent_timestamped_key_value_store_with_headers("last", **SERDES))
    builder.stream("in").process(Remember, "last").to("out")
    return builder


def test_the_driver_shows_values_times_or_headers() -> None:
    """By the names of Kafka's test driver, and as options of `store`."""
    driver = ks.TopologyTestDriver(remembering().build())
    orders = driver.create_input_topic("in")
    orders.pipe_input("a", 1, at=3, headers=TRACE)
    orders.pipe_input("a", 2, at=4)
    assert [("a", 1, 3, TRACE)] == [
        (each.key, each.value, each.timestamp, each.headers)
        for each in driver.create_output_topic("out").read_records()
    ]
    orders.pipe_input("b", 1, at=5, headers=TRACE)
    row = ValueTimestampHeaders(1, 5, TRACE)
    assert row == driver.get_timestamped_key_value_store_with_headers("last")["b"]
    assert row == driver.get_state_store("last")["b"] == driver.store("last", headers=True)["b"]
    assert (1, 5) == driver.get_timestamped_key_value_store("last")["b"]
    assert 1 == driver.get_key_value_store("last")["b"] == driver.store("last")["b"]
    assert () == driver.verify_state().rows
    frame = driver.store("last", headers=True).to_pandas()
    assert [(), TRACE] == list(frame["headers"])


def test_a_store_without_headers_is_not_shown_with_headers() -> None:
    """The error names the setting and the store to use."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("in").group_by_key().count(store="counts")
    driver = ks.TopologyTestDriver(builder.build())
    with pytest.raises(StateError, match='store "counts" keeps no headers'):
        driver.get_timestamped_key_value_store_with_headers("counts")
    with_headers = ks.TopologyTestDriver(builder.build(), {"dsl.store.format": "HEADERS"})
    with_headers.create_input_topic("in").pipe_input("a", 1, at=3, headers=TRACE)
    assert ValueTimestampHeaders(1, 3) == with_headers.get_timestamped_key_value_store_with_headers("counts")["a"]


def test_an_unknown_store_format_is_refused() -> None:
    """With the formats that there are."""
    with pytest.raises(ConfigError, match='"header"'):
        ks.TopologyTestDriver(remembering().build(), {"dsl.store.format": "header"})


def test_a_lost_store_is_restored_with_its_headers() -> None:
    """S0-24: an instance that lost its disk reads headers from the changelog."""
    builder = remembering()
    driver = ks.simulation.ClusterDriver(builder.build(), {"processing_guarantee": "at_least_once"})
    driver.create_input_topic("in").pipe_input("a", 1, at=3, headers=TRACE)
    driver.run_ready()
    driver.application.commit()
    driver.application.crash()
    driver.application.lose_store("last")
    driver.application.restart()
    driver.create_input_topic("in").pipe_input("a", 2, at=4)
    driver.run_ready()
    driver.application.commit()
    (record,) = driver.create_output_topic("out").read_records()
    assert (1, 3, TRACE) == (record.value, record.timestamp, record.headers)


def test_a_checkpoint_can_begin_to_keep_headers_but_not_stop() -> None:
    """Rows without headers are read by a store with them; the other way round headers would be lost."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("in").group_by_key().count(store="counts")
    topology = builder.build()
    default, headers = (manifest_of(placed(topology, 2, dsl_store_format=word)) for word in ("default", "headers"))
    check_compatible(default, headers)
    check_compatible(headers, headers)
    with pytest.raises(CheckpointError) as caught:
        check_compatible(headers, default)
    assert 'store "counts" of sub-topology 0 changed: headers kept → none' in caught.value.detail
