"""When punctuators fire."""

from __future__ import annotations

import pytest

from kstreamnb.errors import ConfigError
from kstreamnb.runtime.context.punctuation import NEVER, PunctuationQueue, Schedule, first_due


def fired(times: list[int], interval: int, due: int) -> list[int]:
    """At which of some times a schedule fires."""
    queue = PunctuationQueue(heap_order=False)
    queue.add(Schedule("node", interval, lambda now: None, [due]))
    return [now for now in times if queue.fire(now, lambda schedule, now: None)]


def test_stream_time_starts_at_the_first_record_and_stays_on_multiples() -> None:
    """The first record fires it; then each multiple of the interval does, once however many passed."""
    assert [17, 20, 31, 55] == fired([17, 19, 20, 29, 31, 39, 55, 59], 10, first_due(10, "stream_time", None, 0))


@pytest.mark.parametrize(("start", "now", "due"), [(None, 7, 17), (20, 7, 20), (0, 20, 30), (4, 27, 34)])
def test_wall_clock_starts_later(start: int | None, now: int, due: int) -> None:
    """One interval from now, at the start, or at the first step from the start that is still in the future."""
    assert due == first_due(10, "wall_clock_time", start, now)


@pytest.mark.parametrize(
    ("interval", "start", "due"),
    [(10, 75, 85), (10, 70, 90), (10, 0, 90), (7, 5, 82), (100, 79, 179), (10, 80, 80), (10, 81, 81)],
)
def test_a_start_in_stream_time_that_has_passed_keeps_its_steps(interval: int, start: int, due: int) -> None:
    """At stream time 80 a schedule fires at its start or, if that has passed, at the next step from it, as in Java."""
    assert due == first_due(interval, "stream_time", start, 80)


@pytest.mark.parametrize(
    ("interval", "kind", "start"), [(0, "stream_time", None), (1, "stream_time", -1), (1, "moon", 0)]
)
def test_schedules_that_make_no_sense_are_refused(interval: int, kind: str, start: int | None) -> None:
    """An interval below a millisecond, a start before the epoch, an unknown clock."""
    with pytest.raises(ConfigError):
        first_due(interval, kind, start, 0)


def test_a_cancelled_schedule_keeps_its_place_and_never_fires() -> None:
    """Cancelling one does not hide the others."""
    queue, seen = PunctuationQueue(heap_order=True), []
    first, second = (Schedule(name, 10, seen.append, [due]) for name, due in (("a", 5), ("b", 6)))
    queue.add(first)
    queue.add(second)
    first.cancel()
    assert queue.fire(7, lambda schedule, now: seen.append(schedule.node))
    assert ["b"] == seen
    assert 16 == queue.due[0]
    second.cancel()
    assert not queue.fire(20, lambda schedule, now: seen.append(schedule.node))
    assert NEVER == queue.due[0]
