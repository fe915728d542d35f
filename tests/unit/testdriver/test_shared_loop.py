"""The partitions of a topic share one loop if there are many records, with the results of single ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serdes import Serdes
from kstreamnb.testdriver.execution.input_batch import InputBatch

Build = Callable[[ks.KStream], ks.KStream | None]


def doubled(stream: ks.KStream) -> ks.KStream:
    """A function that changes the value in place."""
    return stream.filter(lambda key, value: value["n"] % 3 > 0).map_values(lambda value: value.update(n=0) or value)


def counted(stream: ks.KStream) -> ks.KStream:
    """Counts by key."""
    return stream.group_by_key().count().to_stream()


def suppressed(stream: ks.KStream) -> ks.KStream:
    """Counts of closed windows, and the origins of those that wait."""
    windows = stream.group_by_key().windowed_by(ks.TimeWindows.of(size="40ms")).count()
    return windows.suppress(ks.Suppressed.until_window_closes()).to_stream()


def regrouped(stream: ks.KStream) -> ks.KStream:
    """Counts by another key, in a second level."""
    return stream.group_by(lambda key, _: key[-1]).count().to_stream()


def failing(stream: ks.KStream) -> ks.KStream:
    """A function that fails for a record in the middle."""
    return stream.map_values(lambda value: 1 // (value["n"] - 150))


RECORDS = [
    TopicRecord("in", 2 if n % 10 == 9 else -1, -1, 1000 + n, f"k{n % 23}", {"n": n, "all": [n] * (n % 5 == 0)})
    for n in range(300)
]


def run(
    build: Build, size: int, records: list[TopicRecord] = RECORDS, key_serde: ks.Serde[Any] | None = None
) -> dict[str, Any]:
    """Pipe records in parts of some size; return everything that follows from them."""
    builder = ks.StreamsBuilder("app")
    result = build(builder.stream("in", key_serde=key_serde))
    assert result is not None
    result.to("out")
    driver, error = ks.TopologyTestDriver(builder.build(), partitions=4, verify=False), ""
    try:
        for at in range(0, len(records), size):
            driver.pipe(records[at : at + size])
    except ks.errors.ProcessingError as failure:
        error = str(failure)
    return {
        "error": error,
        "out": driver.create_output_topic("out").read_records_to_list(),
        "stores": [{name: store.snapshot() for name, store in task.stores.items()} for task in driver.tasks.order],
        "offsets": {partition: offset for partition, offset in driver.tasks.offsets.items() if offset},
        "metrics": driver.metrics(),
        "stream times": [task.context.stream_time[0] for task in driver.tasks.order],
    }


@pytest.mark.parametrize("build", [doubled, counted, suppressed, regrouped, failing])
def test_many_records_have_the_results_of_single_ones(build: Build) -> None:
    """Outputs in order, rows with their origins, offsets and the error of a record that fails."""
    before = [(record.key, dict(record.value)) for record in RECORDS]
    single, many = run(build, 1), run(build, len(RECORDS))
    assert bool(many["error"]) == (build is failing)
    assert len(many["out"]) > 20
    assert many == single
    assert before == [(record.key, record.value) for record in RECORDS]


UPPER: ks.Serde[Any] = Serdes.serde_from(lambda key: key.upper().encode(), bytes.decode, name="upper")
READS_UPPER: ks.Serde[Any] = Serdes.serde_from(str.encode, lambda data: data.decode().upper(), name="reads upper")


@pytest.mark.parametrize(
    ("serde", "keys"),
    [
        (Serdes.long(), [7, 8, 7, -1, None]),
        (Serdes.json(), ["a", 1, 1.0, True, "ü", None]),
        (Serdes.string(), ["a", "ü", "b", None]),
        (UPPER, ["a", "A", "b"]),
        (READS_UPPER, ["a", "b", "c", "d"]),
    ],
    ids=["long", "json", "string", "changed by its serde", "changed when it is read"],
)
@pytest.mark.parametrize("build", [counted, doubled])
def test_keys_of_every_type_reach_their_partitions(build: Build, serde: ks.Serde[Any], keys: list[Any]) -> None:
    """A key has the same result as alone, even if its serde changes it."""
    records = [record._replace(key=keys[n % len(keys)]) for n, record in enumerate(RECORDS)]
    single, many = run(build, 1, records, serde), run(build, len(records), records, serde)
    assert len(many["out"]) > 20
    assert many == single


def test_a_key_that_its_serde_reads_as_another_type_is_not_written_again() -> None:
    """Records that name their partition are processed if no sink writes the key that was read."""
    serde: ks.Serde[Any] = Serdes.serde_from(str.encode, int)
    records = [record._replace(key=str(n), partition=n % 4) for n, record in enumerate(RECORDS)]

    def by_parity(stream: ks.KStream) -> ks.KStream:
        return stream.map(lambda key, value: ("odd" if key % 2 else "even", value["n"]))

    single, many = run(by_parity, 1, records, serde), run(by_parity, len(records), records, serde)
    assert len(many["out"]) == len(records)
    assert many == single


@pytest.mark.parametrize("build", [doubled, counted, suppressed, regrouped])
@pytest.mark.parametrize("time_of", [lambda n: 1000 + n // 3, lambda n: 1000 + n - n * 7 % 50], ids=["equal", "late"])
def test_records_with_equal_or_late_times_are_merged_by_partition(build: Build, time_of: Callable[[int], int]) -> None:
    """They have the results of single records in the order of that merge."""
    builder = ks.StreamsBuilder("app")
    builder.stream("in").to("out")
    router = ks.TopologyTestDriver(builder.build(), partitions=4, verify=False).router
    records = [record._replace(timestamp=time_of(n)) for n, record in enumerate(RECORDS)]
    merged = list(InputBatch.unserialized(router, ["in"], records).records)
    assert merged != records
    assert run(build, len(records), records) == run(build, 1, merged)


def test_a_partition_that_does_not_exist_is_refused() -> None:
    """The error names it, whichever loop finds it."""
    builder = ks.StreamsBuilder("app")
    builder.stream("in").to("out")
    driver = ks.TopologyTestDriver(builder.build(), partitions=2, verify=False)
    with pytest.raises(ks.errors.EngineError, match='topic "in" has no partition 9'):
        driver.pipe([TopicRecord("in", 9 if n == 250 else -1, -1, n, "k", n) for n in range(300)])


def test_a_topic_that_a_later_level_reads_has_the_results_of_single_records() -> None:
    """A join whose other side is regrouped reads its input in the second level, where records come as bytes."""

    def joined(size: int) -> list[Any]:
        builder = ks.StreamsBuilder("app")
        other = builder.stream("other").select_key(lambda key, _: key)
        pairs = builder.stream("in").join(other, lambda left, right: left["n"] - right["n"], ks.JoinWindows.of("20ms"))
        pairs.to("out")
        driver = ks.TopologyTestDriver(builder.build(), partitions=4, verify=False)
        driver.pipe([record._replace(topic="other") for record in RECORDS[:100]])
        for at in range(0, len(RECORDS), size):
            driver.pipe(RECORDS[at : at + size])
        return driver.create_output_topic("out").read_records_to_list()

    single, many = joined(1), joined(len(RECORDS))
    assert many == single
    assert len(many) > 20


@pytest.mark.parametrize(("build", "results"), [(regrouped, 200), (failing, 150)])
def test_a_record_without_a_partition_fails_when_its_turn_comes(build: Build, results: int) -> None:
    """Records before it reach all levels, and an earlier failure is the one that is raised."""
    builder = ks.StreamsBuilder("app")
    result = build(builder.stream("in"))
    assert result is not None
    result.to("out")
    driver = ks.TopologyTestDriver(builder.build(), partitions=4, verify=False)
    records = [record._replace(partition=9) if n == 200 else record for n, record in enumerate(RECORDS)]
    wanted = "ZeroDivisionError" if build is failing else 'topic "in" has no partition 9'
    with pytest.raises(ks.errors.KStreamError, match=wanted):
        driver.pipe(records)
    assert len(driver.create_output_topic("out").read_records_to_list()) == results


def test_after_a_failure_below_a_suppression_records_have_their_own_offsets() -> None:
    """A change that fails when it leaves the buffer leaves it again, and later ones keep where they came from."""
    seen: list[tuple[str, int]] = []

    class FailsOnce(ks.Processor[Any, Any, Any, Any]):
        def process(self, record: ks.Record[Any, Any]) -> None:
            metadata = self.context.record_metadata()
            assert metadata is not None
            seen.append((record.key, metadata.offset))
            if len(seen) == 1:
                raise ValueError(record.key)

    builder = ks.StreamsBuilder("app")
    builder.table("in").suppress(ks.Suppressed.until_time_limit("5ms")).to_stream().process(FailsOnce)
    topic = ks.TopologyTestDriver(builder.build(), verify=False).create_input_topic("in")
    topic.pipe_input("a", "1", at=0)
    with pytest.raises(ks.errors.ProcessingError):
        topic.pipe_input("b", "2", at=5)
    topic.pipe_input("c", "3", at=6)
    topic.pipe_input("d", "4", at=20)
    assert seen == [("a", 0), ("a", 0), ("b", 1), ("c", 2)]
