"""Feeds input records to the tasks: chooses how, part by part, among sequential, interleaved and batched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import TypeAlias

from kstreamnb.core.heap import collector_paused
from kstreamnb.core.progress import pieces
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.testdriver.execution import batched, interleaved, sequential
from kstreamnb.testdriver.execution.input_batch import InputBatch
from kstreamnb.testdriver.execution.router import Router
from kstreamnb.testdriver.execution.task_group import TaskGroup

Strategy: TypeAlias = Callable[[Router, TaskGroup, InputBatch], None]
"""``run(router, tasks, batch)``: processes a batch to the end."""

_FEW = 4  # fewer records are processed faster one by one
_WARM_UP = 64  # records of several partitions after which most tasks know which changelogs they write


def feed(
    router: Router,
    tasks: TaskGroup,
    topics: Collection[str],
    records: Sequence[TopicRecord],
    key_serde: Serde | None = None,
    value_serde: Serde | None = None,
    times: Sequence[int] | None = None,
) -> None:
    """Process records in the order of a merge of their partitions.

    Args:
        router: where records go.
        tasks: the tasks that process them.
        topics: the topics of the records.
        records: records of these topics; a negative partition stands for the one that the key chooses.
        key_serde: the serde of the given keys; None for the one with which each topic is read.
        value_serde: the same for values.
        times: the times of the records, if known.

    Raises:
        EngineError: no source reads a topic, or a topic does not have a partition.
        ProcessingError: a node failed; the records before are processed.
    """
    given, many = key_serde is None and value_serde is None, len(records) >= _FEW
    with collector_paused() if many else nullcontext():
        if given and router.levels is not None and many:
            batch = InputBatch.unserialized(router, topics, records, times)
        else:
            batch = InputBatch.serialized(router.serialize(records, key_serde, value_serde))
    process(router, tasks, batch)


def process(router: Router, tasks: TaskGroup, batch: InputBatch) -> None:
    """Process a batch part by part, each with the strategy that fits it."""
    for part in _parts(router, batch):
        choose_strategy(router, tasks, part)(router, tasks, part)


def choose_strategy(router: Router, tasks: TaskGroup, batch: InputBatch) -> Strategy:
    """Return the fastest strategy that produces the result of record-by-record processing."""
    if len(batch) < _FEW or router.layout == "single" or router.merges_written:
        return sequential.run
    if any(router.reader(topic).is_global for topic in batch.topics) or batch.merges_by_event_time(router):
        return sequential.run
    in_turn = tasks.recorder is not None and (any(router.levels or ()) or not tasks.recorder.reorders)
    return interleaved.run if in_turn or router.levels is None else batched.run


def _parts(router: Router, batch: InputBatch) -> Iterator[InputBatch]:
    """Split a batch at points where the strategy may change or progress is reported."""
    if batch.merges_by_event_time(router):
        yield batch  # a merge by event time needs all records
    elif not any(router.reader(topic).is_global for topic in batch.topics):
        # The first records go alone: after them tasks know which changelogs they write, and process records in bulk.
        warm_up = _FEW if len(batch.partitions) == 1 else _WARM_UP
        for piece in pieces(range(len(batch)), "records"):
            rest = max(piece.start, min(warm_up, piece.stop))
            yield from filter(len, (batch[piece.start : rest], batch[rest : piece.stop]))
    else:
        records = batch.input_records(router)
        for piece in pieces(range(len(batch)), "records"):
            start = piece.start
            for _, group in groupby(records[start : piece.stop], lambda record: router.reader(record[0]).is_global):
                stop = start + sum(1 for _ in group)
                yield batch[start:stop]
                start = stop
