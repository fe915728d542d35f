"""Replays a sample: turns records into a `Replay`."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from kstreamnb.core.arguments import check_arguments, expect
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.time import instant_ms
from kstreamnb.errors import ConfigError
from kstreamnb.replays.replay import Replay
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.task.initial_state import InitialState
from kstreamnb.testdriver.execution.router import Layout
from kstreamnb.testdriver.sample_partitions import Partitions, partitions_for
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology

GivenRecords: TypeAlias = Iterable[TopicRecord] | Mapping[str, Iterable[tuple[Any, ...]]]
"""A sample, or records by topic, as ``(key, value)`` or ``(key, value, timestamp)``."""


def replay(
    topology: Topology,
    sample: GivenRecords | None = None,
    partitions: Partitions | None = None,
    *,
    config: Config | Mapping[str, object] | None = None,
    task_layout: Layout = "split",
    wall_clock: datetime | str | int = 0,
    cache: bool | None = None,
    stores: InitialState | None = None,
) -> Replay:
    r"""Run a sample through a topology, record everything, and return a `Replay`.

    Records are processed as by `TopologyTestDriver.pipe`: merged by time, each completely before the next.

    Args:
        topology: the topology to run.
        sample: records of topics that the topology reads, such as a `Sample`, or by topic, as ``(key, value)`` or
            ``(key, value, timestamp)``, as in `head`; default the ``sample`` of the topology's builder.
        partitions: partitions of topics by name, or one number for all; default: the fewest that include the partitions
            of all records, as for previews. With a number, a source with a pattern reads the topics of the sample.
        config: settings by Python's or Kafka's names. Default: `Config()`.
        task_layout: see `TopologyTestDriver`; default "split".
        wall_clock: the fixed wall-clock time: epoch milliseconds, ISO text or an aware datetime; default 0.
        cache: use record caches, flushed after every record; default as configured.
        stores: the initial state, as `read_changelogs` returns it; default empty stores.

    Raises: ConfigError without a sample; ProcessingError and other errors of the run, whose attribute ``replay`` holds
        the replay up to the error.

    Example:
        >>> from kstreamnb import Sample, StreamsBuilder
        >>> builder = StreamsBuilder("shop")
        >>> builder.stream("orders").filter(lambda key, pieces: pieces > 1).to("large")
        >>> sample = Sample.from_text("topic | key | value | time\norders | a | 1 | 0\norders | b | 3 | 5")
        >>> run = replay(builder.build(), sample)
        >>> print(run)
        replay of "shop": 2 records in, 1 out, 0 dropped; 1 task, step 2 of 2
        >>> replay(builder.build(), {"orders": [("a", 1), ("b", 3)]}).output("large")[0].value
        3
    """
    check_arguments(replay, locals())
    given = topology.sample if sample is None else sample
    if given is None:
        raise ConfigError("no sample was given", hint="write replay(topology, sample), or set builder.sample")
    records = records_of(given)
    counts = partitions_for(topology, records, partitions)
    driver = TopologyTestDriver(
        topology, config, partitions=counts, task_layout=task_layout, wall_clock=wall_clock, cache=cache, stores=stores
    )
    return Replay.of(driver, records)


def records_of(given: GivenRecords) -> list[TopicRecord]:
    """Return records in one list; without times, the times begin at 0 and are a millisecond apart.

    Example:
        >>> [(record.key, record.timestamp) for record in records_of({"orders": [("a", 1), ("b", 3, 7)]})]
        [('a', 0), ('b', 7)]
    """
    if not isinstance(given, Mapping):
        return list(given)
    records: list[TopicRecord] = []
    for topic, rows in given.items():
        expect(rows, list | tuple | ItemsView | Iterator, f'records of "{topic}"')
        for offset, row in enumerate(rows):
            if len(row) not in (2, 3):
                what = f'each record of "{topic}" must be (key, value) or (key, value, timestamp)'
                raise ConfigError(f"{what}, got {len(row)} elements")
            key, value, *at = row
            records.append(TopicRecord(topic, -1, offset, instant_ms(at[0]) if at else len(records), key, value))
    return records
