"""Stores of all partitions, merged: in the order that one store would have, forwards and backwards."""

from __future__ import annotations

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
