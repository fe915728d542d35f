"""Times of samples: missing ones, and numbers that cannot be timestamps, are refused with their line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.errors import ConfigError

LONGEST = 2**63 - 1


def text(folder: Path, time: str) -> ks.Sample:
    """A table whose second row has this time."""
    return ks.Sample.from_text(f"topic | key | value | time\norders | a | 1 | 5\norders | a | 2 | {time}")


def lines(folder: Path, time: Any) -> ks.Sample:
    """Records as JSON lines."""
    rows = [{"topic": "orders", "timestamp": each, "key": "a", "value": 1} for each in (5, time)]
    folder.joinpath("rows").write_text("\n".join(map(json.dumps, rows)))
    return ks.Sample.from_json_lines(folder / "rows")


def values(folder: Path, time: Any) -> ks.Sample:
    """Values as JSON lines, after an empty line."""
    folder.joinpath("rows").write_text("\n\n".join(json.dumps({"at": each}) for each in (5, time)))
    return ks.Sample.from_json_lines(folder / "rows", topic="orders", timestamp="at")


def tuples(folder: Path, time: Any) -> ks.Sample:
    """Plain tuples."""
    return ks.Sample.from_records([("orders", 0, at, each, "a", 1) for at, each in enumerate((5, time))])


def frame(folder: Path, time: Any) -> ks.Sample:
    """A pandas frame."""
    pandas = pytest.importorskip("pandas")
    return ks.Sample.from_dataframe(pandas.DataFrame({"at": [5, time]}), topic="orders", timestamp="at")


LINES: list[tuple[Callable[[Path, Any], ks.Sample], str]] = [
    (text, "line 3"),
    (lines, "line 2"),
    (values, "line 3"),
    (tuples, "record 1"),
    (frame, 'row 1 of column "at"'),
]


NUMBERS = [float("inf"), float("-inf"), float("nan"), 2**63, -(2**63) - 1, 1e300, 0.5]
REFUSED = [(*each, time) for each in LINES for time in NUMBERS]
REFUSED += [(*each, time) for each in LINES if each[0] is not text for time in (None, "")]


@pytest.mark.parametrize(("read", "line", "time"), [*REFUSED, (text, "line 3", "300000000000d")])
def test_a_time_that_none_can_be_is_refused_with_its_line(
    read: Callable[[Path, Any], ks.Sample], line: str, time: Any, tmp_path: Path
) -> None:
    """Missing, infinite, NaN, beyond 64 bits, or not whole."""
    with pytest.raises(ConfigError) as error:
        read(tmp_path, time)
    assert line in "\n".join([str(error.value), *getattr(error.value, "__notes__", ())])


@pytest.mark.parametrize("read", [read for read, _ in LINES], ids=lambda read: read.__name__)
@pytest.mark.parametrize("time", [LONGEST, -5, 0])
def test_the_times_of_java_are_read(read: Callable[[Path, Any], ks.Sample], time: int, tmp_path: Path) -> None:
    """Any 64-bit integer, negative ones included: sources drop these themselves."""
    assert [5, time] == [record.timestamp for record in read(tmp_path, time)]


def test_a_table_without_times_has_them_at_0() -> None:
    """If there is a time column, the first row needs a time: no earlier row provides one."""
    assert [0, 0] == [record.timestamp for record in ks.Sample.from_text("topic | key\norders | a\norders | b")]
    with pytest.raises(ConfigError, match=r"line 2 of the table has no time: orders \| a"):
        ks.Sample.from_text("topic | key | time\norders | a")
    with pytest.raises(ConfigError, match="line 2 of the table has no time"):
        ks.Sample.from_text("topic | time | key\norders | | a")


def test_numbers_of_numpy_are_times() -> None:
    """Records may come from arrays."""
    numpy = pytest.importorskip("numpy")
    (record,) = ks.Sample.from_records([("orders", 0, 0, numpy.int64(7), "a", 1)])
    assert (7, int) == (record.timestamp, type(record.timestamp))


WRONG: list[Any] = [float("inf"), float("nan"), 2**63, 1.5, True, "", None]


@pytest.mark.parametrize("time", WRONG)
def test_records_that_are_piped_or_forwarded_have_times_of_java_too(time: Any) -> None:
    """A record made by hand, one that a processor forwards, and what a timestamp extractor returns."""
    with pytest.raises(ConfigError, match="time of record 1 must be a 64-bit integer"):
        ks.TopologyTestDriver(copied()).pipe(
            [ks.TopicRecord("in", 0, at, each, "a", 1) for at, each in enumerate((5, time))]
        )
    with pytest.raises(ConfigError, match="timestamp of a record must be a 64-bit integer"):
        ks.Record("a", 1, 5).with_timestamp(time)
    driver = ks.TopologyTestDriver(copied(lambda record, latest: time))
    with pytest.raises(
        ks.errors.ProcessingError, match="the timestamp extractor failed: extracted time must be"
    ) as error:
        driver.create_input_topic("in").pipe_input("a", 1)
    assert "extracted time must be a 64-bit integer" in str(error.value.__cause__)


@pytest.mark.parametrize("time", [2**63, -(2**63) - 1])
def test_times_of_calls_have_64_bits(time: int) -> None:
    """The times of input topics, of simulated logs and of wall clocks."""
    driver, log = ks.TopologyTestDriver(copied()), ks.simulation.Log()
    log.create_topic("in")
    calls: list[Callable[[], object]] = [
        lambda: driver.create_input_topic("in").pipe_input("a", 1, at=time),
        lambda: driver.create_input_topic("in", start=time),
        lambda: log.append("in", "a", 1, at=time),
        lambda: ks.TopologyTestDriver(copied(), wall_clock=time),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match="must be a 64-bit integer"):
            call()


def copied(extractor: Any = None) -> ks.Topology:
    """A topology that copies records."""
    builder = ks.StreamsBuilder("copied")
    builder.stream("in", timestamp_extractor=extractor).to("out")
    return builder.build()


def typed(times: list[int]) -> ks.Sample:
    """A table with these times."""
    return ks.Sample.from_text("\n".join(["topic | time", *(f"orders | {time}" for time in times)]))


def listed(times: list[int]) -> ks.Sample:
    """Tuples with these times."""
    return ks.Sample.from_records([("orders", 0, at, time, "a", 1) for at, time in enumerate(times)])


@pytest.mark.parametrize("factor", [1000, 1_000_000])
@pytest.mark.parametrize("read", [typed, listed])
def test_microseconds_as_times_of_records_are_warned_of(read: Callable[[list[int]], ks.Sample], factor: int) -> None:
    """The warning names the topic and has the user's line; a few such times among others are not warned of."""
    times = [1_767_258_000_000 * factor, 1_767_254_400_000 * factor]
    text = rf'topic "orders" are after the year 5000.*divide them by {factor}$'
    with pytest.warns(UserWarning, match=text) as warned:
        read(times)
    assert warned[0].filename == __file__
    read([5, *times])


def test_seconds_as_times_of_records_are_warned_of_but_not_durations() -> None:
    """A table may say 30d after the epoch, which is a number of milliseconds that looks like seconds."""
    with pytest.warns(UserWarning, match='topic "orders" are within .* multiply them by 1000$'):
        ks.Sample.from_records([("orders", 0, 0, 1_767_258_000, "a", 1)])
    assert 30 * 86_400_000 == ks.Sample.from_text("topic | time\norders | 30d")[0].timestamp
