"""Holding changes back for a time, until their window has closed, or until the buffer is full."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb.core.record import Change, RecordMetadata, Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import ProcessingError
from kstreamnb.operators.tables import MaterializedView, Suppress, SuppressView
from tests.unit.operators.fake_context import FakeContext, Fed


def bind(wait_ms: int, *, key_serde: Any = None, **options: Any) -> tuple[FakeContext, Fed]:
    """A task that suppresses changes."""
    spec = StoreSpec("buffer", "internal", key_serde=key_serde or Serdes.string(), extra={"type": "suppress"})
    context = FakeContext(spec, StoreSpec("rows", "timestamped_key_value"))
    return context, context.bind(Suppress("buffer", wait_ms, **options))


def test_within_the_time_limit_only_the_last_change_of_a_key_comes_out() -> None:
    """It begins to wait at the first change, and carries its own time, headers and last old value."""
    _, feed = bind(10)
    assert [] == feed("a", Change("1"), 5) + feed("a", Change("2", "1"), 14, (("h", b""),))
    assert [("a", Change("2", "1"), 14, (("h", b""),))] == feed("b", Change("x"), 15)
    assert [] == feed("a", Change("3", "2"), 15)


def test_what_is_due_comes_out_by_time_and_key() -> None:
    """In whatever order it arrived."""
    _, feed = bind(10)
    feed("b", Change("1"), 5)
    feed("a", Change("1"), 5)
    feed("c", Change("1"), 4)
    assert ["c", "a", "b"] == [record[0] for record in feed("x", Change("1"), 20)]


def test_without_a_wait_every_change_passes() -> None:
    """Deletions as well."""
    _, feed = bind(0)
    assert [("a", Change(None, "1"), 5)] == feed("a", Change(None, "1"), 5)


def test_a_late_change_comes_out_at_once() -> None:
    """Its time has already passed."""
    _, feed = bind(10)
    feed("a", Change("1"), 30)
    assert [("b", Change("1"), 12)] == feed("b", Change("1"), 12)


def test_a_window_comes_out_when_it_has_closed_and_its_deletion_never() -> None:
    """The time of a change is the end of its window."""
    _, feed = bind(5, key_serde=Serdes.time_windowed(Serdes.string(), "10ms"), window_end=True, drop_tombstones=True)
    early, gone = Windowed("a", 0, 10), Windowed("b", 0, 10)
    assert [] == feed(early, Change("1"), 3) + feed(gone, Change("1"), 3) + feed(gone, Change(None, "1"), 4)
    assert [] == feed(Windowed("a", 10, 20), Change("1"), 14)
    assert [(early, Change("1"), 3)] == feed(Windowed("a", 10, 20), Change("2", "1"), 15)


def test_a_full_buffer_lets_the_first_changes_out_early() -> None:
    """By number of records, or by estimated bytes."""
    _, feed = bind(100, max_records=2)
    feed("b", Change("1"), 1)
    feed("a", Change("1"), 2)
    assert [] == feed("a", Change("2", "1"), 3)
    assert [("b", Change("1"), 1)] == feed("c", Change("1"), 4)
    _, feed = bind(100, max_bytes=1)
    assert [("a", Change("1"), 1)] == feed("a", Change("1"), 1)


def test_a_full_buffer_that_must_not_emit_fails_the_task() -> None:
    """The message states how full it is."""
    _, feed = bind(100, max_records=1, emit_early=False)
    feed("a", Change("1"), 1)
    with pytest.raises(ProcessingError, match="is full") as caught:
        feed("b", Change("1"), 2)
    assert "Currently [2/1] records" in str(caught.value.__notes__)


def test_a_change_that_comes_out_remembers_where_it_came_from() -> None:
    """Downstream sees the offset of the buffered record, then again that of the current record."""
    spec = StoreSpec("buffer", "internal", key_serde=Serdes.string(), extra={"type": "suppress"})
    context = FakeContext(spec)
    seen: list[Any] = []
    feed = context.bind(Suppress("buffer", 10), forward=lambda *record: seen.append(context.metadata()))
    feed("a", Change("1"), 5)
    feed("b", Change("1"), 16)
    assert [RecordMetadata("in", 0, 0)] == seen
    assert RecordMetadata("in", 0, 1) == context.metadata()


def test_a_buffered_row_is_seen_as_it_was_before() -> None:
    """Downstream must see only emitted rows; the time of earlier rows is unknown."""
    context, feed = bind(10)
    view = SuppressView(MaterializedView("rows"), "buffer")
    assert {"rows", "buffer"} == set(view.stores)
    get = view.bind(context)
    context.store("rows").put("a", ("1", 3))
    assert ("1", 3) == get("a")
    feed("a", Change("2", "1"), 5)
    feed("a", Change("3", "2"), 6)
    feed("b", Change("1"), 6)
    assert (("1", -1), None, None) == (get("a"), get("b"), get("c"))


def test_while_a_change_comes_out_its_row_is_still_seen_as_before() -> None:
    """A join of the table with itself finds emitted rows only."""
    spec = StoreSpec("buffer", "internal", key_serde=Serdes.string(), extra={"type": "suppress"})
    context = FakeContext(spec, StoreSpec("rows", "timestamped_key_value"))
    get = SuppressView(MaterializedView("rows"), "buffer").bind(context)
    seen: list[Any] = []
    feed = context.bind(Suppress("buffer", 0), forward=lambda key, *_: seen.append(get(key)))
    context.store("rows").put("a", ("2", 3))
    feed("a", Change("2", "1"), 3)
    assert [("1", -1)] == seen
    assert ("2", 3) == get("a")


def test_a_limit_below_nothing_lets_nothing_wait() -> None:
    """Every change is emitted at once, as in Kafka Streams; the buffer stays empty."""
    context, feed = bind(100, max_records=-1)
    assert [("a", Change("1"), 5)] == feed("a", Change("1"), 5)
    assert 0 == context.store("buffer").count()


def test_a_buffer_of_exactly_its_bytes_is_not_full() -> None:
    """One byte more releases the first change."""
    context, feed = bind(100)
    feed("a", Change("1"), 1)
    size = context.store("buffer").size_bytes()
    found = []
    for limit in (size, size - 1):
        _, feed = bind(100, max_bytes=limit)
        found.append(feed("a", Change("1"), 1))
    assert [[], [("a", Change("1"), 1)]] == found
