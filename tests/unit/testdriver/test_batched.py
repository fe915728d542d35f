"""Records of several partitions in bulk: each task takes its own in turn, as if records were piped one by one."""

from __future__ import annotations

from typing import Any

import pytest

from kstreamnb import Processor, StreamsBuilder, TopologyTestDriver, replay
from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import ProcessingError

PARTITIONS, NUMBER = 3, 400
Seen = list[tuple[str | None, int, int, int]]


class Witness(Processor):
    """Records each record's origin, and fails at one."""

    def __init__(self, seen: Seen, fails_at: int) -> None:
        self._seen, self._fails_at = seen, fails_at

    def process(self, record: Any) -> None:
        """Record origin and time, then forward the record."""
        place = self.context.record_metadata()
        self._seen.append((place.topic, place.partition, place.offset, record.timestamp))
        if record.timestamp == self._fails_at:
            raise ValueError("no more")
        self.context.forward(record)


def counting(seen: Seen, fails_at: int = -1) -> Any:
    """Counts by key, by records of two topics that pass through a witness."""
    builder = StreamsBuilder("turns")
    both = builder.stream("a").merge(builder.stream("b"))
    both.process_values(lambda: Witness(seen, fails_at)).group_by_key().count(store="n").to_stream().to("out")
    return builder.build()


def rows(topics: str = "ab") -> list[TopicRecord]:
    """Records of two topics, some of them late and some at the same time."""
    times = [n // 2 if n % 7 else max(n // 2 - 40, 0) for n in range(NUMBER)]
    return [TopicRecord(topics[n % len(topics)], -1, -1, time, f"k{n % 11}", n) for n, time in enumerate(times)]


@pytest.mark.parametrize("topics", ["a", "ab"])
def test_a_bulk_over_partitions_gives_what_single_records_give(topics: str) -> None:
    """Output, its order and every record's origin equal those of records in merged order, one by one."""
    seen: list[Seen] = [[], []]
    many, single = (TopologyTestDriver(counting(notes), partitions=PARTITIONS) for notes in seen)
    many.pipe(rows(topics))
    order = replay(counting([]), rows(topics), PARTITIONS)
    for step in order.steps:
        if step.record is not None:
            single.pipe([step.record])
    outputs = [driver.create_output_topic("out").read_records() for driver in (many, single)]
    assert NUMBER == len(seen[0])
    assert seen[0] == seen[1]
    assert outputs[0] == outputs[1]


def test_a_failure_leaves_what_came_before_it() -> None:
    """The error names the record by topic, partition and offset; earlier records have their output, later ones none."""
    seen: Seen = []
    driver = TopologyTestDriver(counting(seen, fails_at=150), partitions=PARTITIONS)
    with pytest.raises(ProcessingError, match="no more") as caught:
        driver.pipe(rows())
    assert seen[-1] == caught.value.coordinates
    written = driver.create_output_topic("out").read_records()
    assert len(seen) - 1 == len(written)
    assert sum(driver.metrics()["process-total"].values()) == len(seen)


def test_a_recording_of_several_partitions_is_in_the_order_of_the_run() -> None:
    """Steps are recorded in the order in which records were taken, with the state after each."""
    seen: Seen = []
    found = replay(counting(seen), rows(), PARTITIONS)
    taken = [step.record for step in found.steps if step.record is not None]
    assert seen == [(record.topic, record.partition, record.offset, record.timestamp) for record in taken]
    first = next(number for number, step in enumerate(found.steps, 1) if step.record and step.record.key == "k5")
    assert "k5" not in [row.key for row in found.at(first - 1).store("n").rows]
    assert found.at(first).store("n")["k5"] == 1
