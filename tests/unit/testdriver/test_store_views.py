"""Stores of all partitions, merged: in the order that one store would have, forwards and backwards."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import kstreamnb as ks


def test_sessions_and_windows_of_several_partitions_are_read_backwards() -> None:
    """The reverse of what is read forwards, by key bytes and then by time."""
    builder = ks.StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    grouped.windowed_by(ks.SessionWindows.of(gap="5ms", grace="1s")).count(store="sessions")
    grouped.windowed_by(ks.TimeWindows.of(size="10ms", grace="1s")).count(store="windows")
    with ks.TopologyTestDriver(builder.build(), partitions=3) as driver:
        topic = driver.create_input_topic("in")
        for at, key in enumerate("abcdabcd"):
            topic.pipe_input(key, "x", at=at * 10)
        sessions, windows = driver.get_session_store("sessions"), driver.get_window_store("windows")
        assert sessions is not None
        assert windows is not None
        for forwards, backwards in (
            (sessions.find_sessions("a", 0, 100), sessions.backward_find_sessions("a", 0, 100)),
            (
                sessions.find_sessions_between("b", "d", 0, 100),
                sessions.backward_find_sessions_between("b", "d", 0, 100),
            ),
            (windows.fetch_keys("b", "d", 0, 100), windows.backward_fetch_keys("b", "d", 0, 100)),
        ):
            rows = list(forwards)
            assert len(rows) in (2, 6)
            assert rows[::-1] == list(backwards)
        for view in (sessions, windows):
            assert list(view.all()) == list(view)
            assert len(list(view)) == len(view) > 1


class Scanning(ks.Processor):
    """Forwards whether its store has a row, and whether it has one from "b" to "c"."""

    def process(self, record: ks.Record[Any, Any]) -> None:
        """Ask before and after the row is put."""
        store = self.context.get_state_store("rows")
        store.put(record.key, record.value)
        self.context.forward(record.with_value([bool(store.all()), bool(store.range("b", "c"))]))


def test_rows_that_were_found_are_true_and_none_are_false() -> None:
    """In a view over one or several partitions and in a processor; a length is answered with the call to write."""
    builder = ks.StreamsBuilder("found")
    builder.add_state_store(ks.Stores.in_memory_key_value_store("rows"))
    builder.stream("in").process(Scanning, "rows").to("out")
    for partitions in (1, 3):
        with ks.TopologyTestDriver(builder.build(), partitions=partitions) as driver:
            rows = driver.get_key_value_store("rows")
            assert not rows.all()
            driver.create_input_topic("in").pipe_input("a", 1)
            assert [[True, False]] == driver.create_output_topic("out").read_values_to_list()
            assert not rows.range("b", "c")
            found = rows.all()
            assert found
            assert [("a", 1)] == list(found)
            assert not found
            with pytest.raises(TypeError, match=r"write len\(list\(rows\)\)"):
                len(rows.all())  # type: ignore[arg-type]


def test_a_test_writes_rows_before_the_first_record() -> None:
    """A count continues from the row that was put, in the partition of its key, and so does a replay of the driver."""
    builder = ks.StreamsBuilder("seeded")
    builder.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    with ks.TopologyTestDriver(builder.build(), partitions=3) as driver:
        counts = driver.get_key_value_store("counts")
        counts.put_all([("a", 21), ("b", 1)])
        assert counts.delete("b") == 1
        driver.create_input_topic("in").pipe_input("a", "x", at=5)
        assert (22, None) == (counts.get("a"), counts.get("b"))
        again = ks.Replay.of(driver)
        assert [22] == [record.value for record in again.output("out")]
        assert again.now.store("counts").to_dict() == {"a": 22}


def test_rows_of_every_kind_of_store_are_written() -> None:
    """Windows, sessions and versions, with the times that they are put with."""
    builder = ks.StreamsBuilder("kinds")
    grouped = builder.stream("in").group_by_key()
    grouped.windowed_by(ks.SessionWindows.of(gap="5ms", grace="1s")).count(store="sessions")
    grouped.windowed_by(ks.TimeWindows.of(size="10ms", grace="1s")).count(store="windows")
    builder.table("table", store="versions", versioned="1m")
    with ks.TopologyTestDriver(builder.build(), partitions=2) as driver:
        sessions, windows = driver.get_session_store("sessions"), driver.get_window_store("windows")
        versions = driver.get_versioned_key_value_store("versions")
        sessions.put(ks.Windowed("a", 3, 7), 2)
        windows.put("a", 4, 10)
        versions.put("a", "old", 100)
        versions.put("a", "new", "1970-01-01T00:00:00.200Z")
        assert (2, 4) == (sessions.fetch_session("a", 3, 7), windows.fetch("a", 10))
        assert ("new", "old") == (versions.get("a").value, versions.get("a", 150).value)


def test_a_range_of_session_keys_may_be_open() -> None:
    """Two keys are a range, and a bound of None is open; a single key is never None."""
    builder = ks.StreamsBuilder("sessions")
    grouped = builder.stream("in").group_by_key()
    grouped.windowed_by(ks.SessionWindows.of(gap="5ms", grace="1s")).count(store="sessions")
    with ks.TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in").pipe_key_value_list([(key, 1) for key in "abc"])
        sessions = driver.get_session_store("sessions")
        assert ["b", "c"] == [session.key for session, _ in sessions.fetch("b", None)]
        assert ["b"] == [session.key for session, _ in sessions.fetch("b")]
        with pytest.raises(ks.errors.StateError, match="must not be None"):
            sessions.fetch(None)


def test_a_prefix_may_have_other_bytes_than_a_key() -> None:
    """A function makes them."""
    builder = ks.StreamsBuilder("prefixes")
    builder.stream("in", key_serde="long").group_by_key().count(store="counts")
    with ks.TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in").pipe_key_value_list([(1, 1), (1 << 40, 1)])
        rows = driver.get_key_value_store("counts").prefix_scan(0, serialize=lambda number: bytes(4))
        assert [(1, 1)] == list(rows)


def test_a_record_with_headers_may_take_the_clock_of_its_topic() -> None:
    """A time of None is that of a record without one."""
    builder = ks.StreamsBuilder("headers")
    builder.stream("in").to("out")
    with ks.TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", start=9).pipe_record_list([("a", 1, None, {"h": b"1"})])
        record = driver.create_output_topic("out").read_record()
        assert (9, (("h", b"1"),)) == (record.timestamp, record.headers)


def test_times_of_rows_are_instants() -> None:
    """Text with a zone and aware datetimes, as everywhere else; not only milliseconds."""
    builder = ks.StreamsBuilder("instants")
    builder.stream("in").group_by_key().windowed_by(ks.TimeWindows.of(size="1h")).count(store="windows")
    with ks.TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in").pipe_input("a", 1, at="2026-01-01T09:05Z")
        windows = driver.get_window_store("windows")
        assert windows.fetch("a", "2026-01-01T09:00Z") == 1
        assert windows.fetch("a", datetime(2026, 1, 1, 10, tzinfo=timezone(timedelta(hours=1)))) == 1
        assert len(list(windows.fetch_all("2026-01-01T00:00Z", "2026-01-02T00:00Z"))) == 1
        with pytest.raises(ks.errors.ConfigError, match="no time zone"):
            windows.fetch("a", "2026-01-01T09:00")


def test_a_displayed_store_has_times_only_if_its_rows_have_them() -> None:
    """Values alone have two columns, timestamped ones a third."""
    builder = ks.StreamsBuilder("counts")
    builder.stream("sales").group_by_key().count(store="counts")
    driver = ks.TopologyTestDriver(builder.build())
    driver.create_input_topic("sales").pipe_input("shoe", 1, 0)
    view = driver.get_timestamped_key_value_store("counts")
    assert ("key", "value", "time") == view.header
    assert [('"shoe"', "1", "0")] == list(view.table())
    plain = driver.get_key_value_store("counts")
    assert ("key", "value") == plain.header
    assert [('"shoe"', "1")] == list(plain.table())


def test_an_unknown_method_names_the_kind_of_store() -> None:
    """Users have never written the name of its class."""
    builder = ks.StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    grouped.count(store="counts")
    grouped.windowed_by(ks.TimeWindows.of(size="10ms", grace="1s")).count(store="windows")
    grouped.windowed_by(ks.SessionWindows.of(gap="5ms", grace="1s")).count(store="sessions")
    builder.table("rows", ks.Materialized("versions", versioned="1m"))
    driver = ks.TopologyTestDriver(builder.build())
    for store, kind in (
        ("counts", "key-value"), ("windows", "window"), ("sessions", "session"), ("versions", "versioned"),
    ):  # fmt: skip
        with pytest.raises(ks.errors.UnknownNameError, match=f'^a {kind} store has no "putt"'):
            _ = driver.store(store).putt
