"""Views of a query's stores: one row, rows of all partitions, sessions, versions."""

from __future__ import annotations

import pytest

import kstreamnb as ks
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from kstreamnb.spark.state.store_view import StoreView, placements_of


@pytest.fixture
def driver() -> ks.TopologyTestDriver:
    """Stores of each kind after four records."""
    builder = ks.StreamsBuilder("kinds")
    stream = builder.stream("in", value_serde="long")
    grouped = stream.group_by_key()
    grouped.count(store="counts")
    grouped.windowed_by(ks.TimeWindows.of_size_with_no_grace("1h")).count(store="windows")
    grouped.windowed_by(ks.SessionWindows.of_inactivity_gap_with_no_grace("1h")).count(store="sessions")
    history = ks.Materialized(ks.Stores.persistent_versioned_key_value_store("versions", history="1h"))
    stream.to_table(value_serde="long", materialized=history)
    driver = ks.TopologyTestDriver(builder.build(), partitions=2)
    driver.pipe(ks.TopicRecord("in", -1, at, 5 + at, key, at) for at, key in enumerate("abca"))
    return driver


@pytest.fixture
def views(driver: ks.TopologyTestDriver) -> dict[str, StoreView]:
    """Views of them as a query gives them."""
    tasks = driver.tasks.by_id.values()
    names = ("counts", "windows", "sessions", "versions")
    return {name: StoreView(name, [task.stores[name] for task in tasks if name in task.stores]) for name in names}


def test_a_look_up_gives_the_row_of_the_partition_that_has_it(views: dict[str, StoreView]) -> None:
    """S0-56: a row that is a tuple is one row; an unknown key is None."""
    assert 2 == views["counts"]["a"] == views["windows"].fetch("a", 0)
    assert "a" in views["counts"]
    assert "z" not in views["counts"]
    assert (2, 3) == (views["sessions"].fetch_session("a", 5, 8), views["versions"].get("a").value)
    assert [None, None] == [views["counts"].get("z"), views["windows"].fetch("z", 0)]
    with pytest.raises(KeyError):
        views["counts"]["z"]


def test_every_kind_reads_as_it_does_in_the_driver(driver: ks.TopologyTestDriver, views: dict[str, StoreView]) -> None:
    """S0-56: the same rows in the same order, sessions and versions too."""
    counts, windows, sessions, versions = (views[name] for name in ("counts", "windows", "sessions", "versions"))
    assert [("a", 2), ("b", 1), ("c", 1)] == list(counts) == list(driver.get_key_value_store("counts").all())
    assert list(counts.reverse_range("a", "b")) == list(driver.get_key_value_store("counts").reverse_range("a", "b"))
    there = driver.get_window_store("windows")
    assert list(windows.all()) == list(there.all())
    assert [(0, 2)] == list(windows.fetch("a", 0, 10)) == list(there.fetch("a", 0, 10))
    assert list(sessions.all()) == list(driver.get_session_store("sessions").all())
    assert 3 == len(sessions)
    assert list(versions.history("a")) == list(driver.get_versioned_key_value_store("versions").history("a"))


def test_times_are_shown_to_those_who_ask(driver: ks.TopologyTestDriver) -> None:
    """S0-56: rows of timestamped stores are values, or values with their times."""
    parts = [task.stores["counts"] for task in driver.tasks.by_id.values() if "counts" in task.stores]
    assert ks.ValueAndTimestamp(2, 8) == StoreView("counts", parts, show="times")["a"]


def test_a_view_cannot_be_written(views: dict[str, StoreView]) -> None:
    """S2-49: there are no methods that write, and the error names the method."""
    with pytest.raises(
        AttributeError, match=r'a view of store "counts" has no "put"; it has get, reverse_all, range, '
    ):
        views["counts"].put("a", 1)


@pytest.mark.parametrize(
    ("store", "message", "hint"),
    [
        ("names", 'no task keeps rows of global store "names"', "declare it with builder.table"),
        ("nams", 'store "nams" does not exist', 'did you mean "names"?'),
    ],
)
def test_a_store_that_no_task_has_is_told_from_one_that_does_not_exist(store: str, message: str, hint: str) -> None:
    """A global table that nothing reads is in no task on Spark; the names include it."""
    builder = ks.StreamsBuilder("unread")
    builder.global_table("names-topic", store="names")
    builder.stream("in").to("out")
    application = plan_application(builder.build(), Config(), {"in": 1}, direct=False)
    with pytest.raises(ks.errors.StateError, match=message) as caught:
        placements_of(plan_deployment("unread", [application], 1), store)
    assert hint in (caught.value.hint or "")


def test_a_store_that_only_serves_an_operator_is_refused_as_in_the_driver() -> None:
    """The buffer of a suppression has no rows for users."""
    builder = ks.StreamsBuilder("buffered")
    windows = ks.TimeWindows.of_size_with_no_grace("1h")
    counts = builder.stream("in").group_by_key().windowed_by(windows).count()
    closes = ks.Suppressed.until_window_closes(ks.BufferConfig.unbounded())
    counts.suppress(closes.with_name("buffer")).to_stream().to("out")
    driver = ks.TopologyTestDriver(builder.build())
    (name,) = (name for name, spec in driver.topology.stores.items() if spec.kind == "internal")
    for read in (driver.store, lambda name: StoreView(name, [driver.get_state_store(name)])):
        with pytest.raises(ks.errors.StateError, match=f'store "{name}" serves an operator and has no view'):
            read(name)
