"""Batched strategy: processes many input records level by level, with the result of record-by-record processing.

Tasks share nothing but topics. So the tasks of a level may process everything that all input records cause for them
before the next level runs, if they get their records in the order of record-by-record processing: by moment (input
record and depth), reading task, writing task and sequence. That requires levels such that no task feeds one of the same
or an earlier level (`Router.levels`), and that no global store changes meanwhile.

If one partition takes all records of a level, its task loops over them. If input records are of one topic, the tasks
of its partitions share a loop, which finds the partition of each record and uses the objects of its task. Otherwise
every partition is a coroutine that receives its next record. So rows and recorded events of a level come in processing
order without sorting.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import chain, count, groupby, islice, repeat
from operator import attrgetter, call, itemgetter, lt, sub
from typing import Any, NamedTuple

from kstreamnb.core.heap import collector_paused
from kstreamnb.errors import KStreamError
from kstreamnb.runtime.context.record_context import Batch, Partition, RecordPosition
from kstreamnb.runtime.task.task import Task
from kstreamnb.testdriver.execution.input_batch import InputBatch, NumbersByKey, least_head_order
from kstreamnb.testdriver.execution.router import Router
from kstreamnb.testdriver.execution.shared_loop import shared_loop
from kstreamnb.testdriver.execution.task_group import OutputRoute, ReadAs, TaskGroup
from kstreamnb.testdriver.execution.topic_log import OutputRow

_MANY = 16  # records for each partition, of which one without any costs little


def run(router: Router, tasks: TaskGroup, batch: InputBatch) -> None:
    """Process records level by level; raise the error of the first record that fails, after all records before it."""
    _BatchedRun(router, tasks).run(batch)


class _Arrivals(NamedTuple):
    """Records for the tasks of a level.

    Attributes:
        records: the records.
        partitions: the partitions that may have records.
        numbers: the index of each record's partition among them; empty if there is only one.
        moments: for each the number of the input record that caused it, times the number of levels, plus its depth.
        writers: returns the index of the task that wrote each; asked only if arrivals have to be sorted.
    """

    records: Sequence[Any]
    partitions: Sequence[Partition]
    numbers: Sequence[int]
    moments: Sequence[int]
    writers: Callable[[], Iterable[int]]

    def present(self) -> Iterable[int]:
        """Return the numbers of the partitions that have records, of all partitions if there are many records."""
        if type(self.numbers) is NumbersByKey and len(self.records) > _MANY * len(self.partitions):
            return range(len(self.partitions))
        return sorted(set(self.numbers)) if len(self.partitions) > 1 else (0,)

    def each(self) -> Iterable[int]:
        """Return the number of each record's partition."""
        return self.numbers if len(self.partitions) > 1 else repeat(0, len(self.records))

    def at(self, order: Sequence[int]) -> _Arrivals:
        """Return some of the arrivals in an order."""
        numbers = [self.numbers[at] for at in order] if self.numbers else ()
        records, moments = [self.records[at] for at in order], [self.moments[at] for at in order]
        return _Arrivals(records, self.partitions, numbers, moments, self.writers)


class _Pass:
    """The arrivals that a level has processed, and what came of each.

    Attributes:
        arrivals: the records.
        readers: by number of a partition, the index of the task that reads it.
        marks: how many rows had been written before each; empty if nobody asks.
    """

    def __init__(self, arrivals: _Arrivals, readers: Mapping[int, int], tasks: int) -> None:
        self.arrivals, self.readers, self._tasks = arrivals, readers, tasks
        self.marks = list[int]()

    @cached_property
    def tasks(self) -> Sequence[int]:
        """The index of the task that reads each arrival."""
        return list(map(self.readers.__getitem__, self.arrivals.each()))

    def writers(self, of: Iterable[int]) -> Iterable[int]:
        """Return the index of the task that reads each of some arrivals, and writes the rows that they cause."""
        return map(self.tasks.__getitem__, of)

    @cached_property
    def steps(self) -> list[int]:
        """The moment and task of each arrival as one number; arrivals are sorted by it."""
        size = self._tasks
        return [moment * size + task for moment, task in zip(self.arrivals.moments, self.tasks, strict=True)]

    @cached_property
    def causes(self) -> Sequence[int]:
        """For each row that was written, the arrival that caused it."""
        counts = list(map(sub, islice(self.marks, 1, None), self.marks))
        if counts.count(1) == len(counts):
            return range(len(counts))
        return list(chain.from_iterable(map(repeat, range(len(counts)), counts)))


class _BatchedRun:
    """One pass of many input records through all levels.

    ``_end`` is the step that failed, as in `_Pass.steps`: nothing that comes after it is processed or kept.
    """

    def __init__(self, router: Router, tasks: TaskGroup) -> None:
        assert router.levels is not None
        self._router, self._tasks, self._levels = router, tasks, router.levels
        self._depths = max(self._levels) + 1
        self._feeds: list[list[_Arrivals]] = [[] for _ in range(self._depths)]
        self._rows: dict[str, list[tuple[_Pass, Sequence[int], list[OutputRow]]]] = {}
        self._end: int | None = None
        self._error: KStreamError | KeyboardInterrupt | None = None
        self._batches = list[_LevelBatch]()

    def run(self, batch: InputBatch) -> None:
        try:
            with collector_paused():
                self._feed_input(batch)
                for level, feeds in enumerate(self._feeds):
                    if feeds and (arrivals := self._merged(feeds)).records:
                        self._run_level(level, arrivals)
        finally:
            self._log_rows()
        if self._error is not None:
            raise self._error

    def _feed_input(self, batch: InputBatch) -> None:
        """Give input records to the levels that read them; the first takes them unserialized if its tasks can."""
        router, orders = self._router, self._tasks.order
        moments = range(0, len(batch) * self._depths, self._depths)
        every = _Arrivals(batch.records, batch.partitions, batch.numbers, moments, lambda: repeat(-1))
        readers = self._readers(every)
        levels = {number: self._levels[index] for number, index in readers.items()}
        for level in dict.fromkeys(levels.values()):
            own = [number for number in readers if levels[number] == level]
            as_given = level == 0 and all(orders[readers[n]].takes_records(*batch.partitions[n]) for n in own)
            feed = every
            if not (batch.records and as_given):  # a list of numbers: no loop is shared
                feed = every._replace(records=batch.input_records(router), numbers=list(batch.numbers))
            if len(own) < len(readers):
                feed = feed.at([at for at, number in enumerate(batch.numbers) if levels[number] == level])
            self._feeds[level].append(feed)

    def _readers(self, arrivals: _Arrivals) -> dict[int, int]:
        """Return by number of a partition that has records the index of the task that reads it."""
        present = {number: arrivals.partitions[number] for number in arrivals.present()}
        return {number: self._router.reader(topic).tasks[index] for number, (topic, index) in present.items()}

    def _pass(self, arrivals: _Arrivals) -> _Pass:
        return _Pass(arrivals, self._readers(arrivals), len(self._levels))

    def _merged(self, feeds: list[_Arrivals]) -> _Arrivals:
        """Merge the arrivals of a level by moment, reading task, writing task and sequence; end before what failed."""
        merged, moments = feeds[0], feeds[0].moments
        if len(feeds) > 1 or not (type(moments) is range or all(map(lt, moments, islice(moments, 1, None)))):
            merged = self._sorted(feeds)
        if self._end is not None:
            merged = merged.at(range(bisect_left(self._pass(merged).steps, self._end)))
        return merged

    def _sorted(self, feeds: list[_Arrivals]) -> _Arrivals:
        partitions = sorted(set(chain.from_iterable(feed.partitions for feed in feeds)))
        numbers_of = {partition: number for number, partition in enumerate(partitions)}
        records, numbers, moments, writers = list[Any](), list[int](), list[int](), list[int]()
        for feed in feeds:
            own = list(map(numbers_of.__getitem__, feed.partitions))
            records += feed.records
            numbers += map(own.__getitem__, feed.each())
            moments += feed.moments
            writers += islice(feed.writers(), len(feed.records))
        joined = _Arrivals(records, partitions, numbers, moments, feeds[0].writers)
        steps = self._pass(joined).steps
        keys = [step * len(self._levels) + writer + 1 for step, writer in zip(steps, writers, strict=True)]
        ordered: list[int] = []
        for _, same in groupby(sorted(range(len(keys)), key=keys.__getitem__), key=steps.__getitem__):
            ordered += least_head_order(list(same), records, numbers)
        return joined.at(ordered)

    def _run_level(self, level: int, arrivals: _Arrivals) -> None:
        tasks, passed = self._tasks, self._pass(arrivals)
        first = {partition: tasks.offsets.get(partition, 0) for partition in arrivals.partitions}
        batch = _LevelBatch({number: tasks.order[index] for number, index in passed.readers.items()}, arrivals, first)
        self._batches.append(batch)
        others, written = self._written(level)
        marks = passed.marks if self._has_to_mark(level, others, written) else None
        try:
            _process(batch, tasks.rows, marks)
        except (KStreamError, KeyboardInterrupt) as error:  # later levels end what this one did before
            self._error, self._end = error, passed.steps[max(batch.index(), 0)]
        finally:
            if marks is not None:
                marks.append(len(tasks.rows))
            for partition, taken in batch.counts.items():
                tasks.offsets[partition] = first[partition] + taken
            self._route(passed, tasks.take_rows(), written)
            for index in sorted(set(passed.readers.values())):
                tasks.log_changes(tasks.order[index])

    def _written(self, level: int) -> tuple[set[str | None], set[str | None]]:
        """Return topics that other levels and this one write; None stands for one that a record or handler names."""
        config, others, written = self._router.config, set[str | None](), set[str | None]()
        for own, topics in zip(self._levels, self._router.written, strict=True):
            (written if own == level else others).update(topics)
        handlers = config.deserialization_handler, config.processing_handler, config.production_handler
        if config.dead_letter_topic is not None or any(map(callable, handlers)):
            written.add(None)
        return others, written

    def _has_to_mark(self, level: int, others: set[str | None], written: set[str | None]) -> bool:
        """Return whether it matters which record caused a row of a level: it is read, sorted or converted."""
        converts = any(topic is None or self._router.writer_serdes(topic) is None for topic in written)
        return level + 1 < self._depths or converts or not others.isdisjoint(written)

    def _route(self, passed: _Pass, rows: list[OutputRow], written: set[str | None]) -> None:
        """Keep what a level wrote for the logs of its topics, and feed it to the levels that read it."""
        causes = passed.causes if passed.marks else ()
        fed: dict[int, list[str]] = {}
        topics = dict.fromkeys(map(itemgetter(0), rows[:1] if len(written) == 1 and None not in written else rows))
        for topic in topics:
            route = self._router.route(topic)
            for level in () if route is None else dict.fromkeys(map(self._levels.__getitem__, route.tasks.values())):
                fed.setdefault(level, []).append(topic)
            chosen, of = _rows_of((topic,), rows, causes, topics)
            chosen = self._converted(passed, chosen, of, (topic,), attrgetter("log_as"))
            self._rows.setdefault(topic, []).append((passed, of, chosen))
        for level, read in fed.items():
            chosen, of = _rows_of(read, rows, causes, topics)
            chosen = self._converted(passed, chosen, of, read, attrgetter("read_as"))
            partitions = [(topic, index) for topic in read for index in range(self._router.count(topic))]
            numbers_of = {partition: number for number, partition in enumerate(partitions)}
            numbers = [numbers_of[row[:2]] for row in chosen] if len(partitions) > 1 else ()
            moments = passed.arrivals.moments
            if type(of) is range and type(moments) is range:  # every record caused one row
                moments = range(moments.start + 1, moments.stop + 1, moments.step)[: len(of)]
            else:
                moments = [moments[at] + 1 for at in of]
            writers = partial(passed.writers, of)
            self._feeds[level].append(_Arrivals(chosen, partitions, numbers, moments, writers))

    def _converted(
        self,
        passed: _Pass,
        rows: list[OutputRow],
        causes: Sequence[int],
        topics: Iterable[str],
        form: Callable[[OutputRoute], ReadAs],
    ) -> list[OutputRow]:
        """Return rows in the form of a log or of readers, if any differs from that in which they are written."""
        writers = dict.fromkeys(passed.readers.values())
        outputs = {(index, topic): self._tasks.output(index, topic) for index in writers for topic in topics}
        if not any(map(form, outputs.values())):
            return rows
        of_each = ((outputs[passed.tasks[at], row[0]], row) for at, row in zip(causes, rows, strict=True))
        return [output.converted(row, form(output)) for output, row in of_each]

    def _log_rows(self) -> None:
        """Append rows to the logs of their topics: sorted if several levels wrote them, none after a failure."""
        for topic, parts in self._rows.items():
            log = self._tasks.logs[topic].rows
            logged = len(log)
            if len(parts) == 1 and (self._end is None or not parts[0][0].marks):
                log += parts[0][2]
            else:
                steps = (
                    (passed.steps[at], row) for passed, of, rows in parts for at, row in zip(of, rows, strict=True)
                )
                kept = [step for step in steps if self._end is None or step[0] <= self._end]
                log += map(itemgetter(1), sorted(kept, key=itemgetter(0)))
            if self._end is not None and (route := self._router.route(topic)) is not None and route.tasks:
                self._count_unread(topic, Counter(map(itemgetter(1), log[logged:])))

    def _count_unread(self, topic: str, logged: Counter[int]) -> None:
        """Count offsets of the rows of a topic that are in its log, and that an error left without a reader."""
        for batch in self._batches:
            taken = zip(range(batch.index() + 1), batch.arrivals.each(), batch.arrivals.moments, strict=False)
            numbers = (number for _, number, moment in taken if moment % self._depths)  # other records were piped
            logged.subtract(
                index for name, index in map(batch.arrivals.partitions.__getitem__, numbers) if name == topic
            )
        for index, unread in logged.items():
            self._tasks.offsets[topic, index] = self._tasks.offsets.get((topic, index), 0) + unread


def _rows_of(
    read: Sequence[str], rows: list[OutputRow], causes: Sequence[int], topics: Mapping[str, None]
) -> tuple[list[OutputRow], Sequence[int]]:
    """Return the rows of some of the topics, and what caused each."""
    if len(read) == len(topics):
        return rows, causes
    chosen = [row for row in rows if row[0] in read]
    return chosen, [at for row, at in zip(rows, causes, strict=False) if row[0] in read]


def _process(batch: _LevelBatch, rows: Sequence[OutputRow], marks: list[int] | None) -> None:
    """Process the arrivals of a level: in one loop, or each by the coroutine of its partition."""
    partitions, readers = batch.arrivals.partitions, batch.readers
    if len(partitions) == 1 and readers[0].takes_records(*partitions[0]):
        readers[0].run_batch(*partitions[0], batch, batch.first[partitions[0]], marks)
        return
    with ExitStack() as stack:
        if _run_shared(batch, stack, marks):
            return
        if type(batch.arrivals.numbers) is NumbersByKey:
            batch.arrivals.numbers.check(range(len(batch.records)))
        loops = ((n, task.interleave(batch, partitions[n], batch.first[partitions[n]])) for n, task in readers.items())
        sends = {number: stack.enter_context(loop) for number, loop in loops}
        of_each = map(sends.__getitem__, batch.arrivals.each())
        if marks is None:
            deque(map(call, of_each, zip(batch.iterator, strict=True)), maxlen=0)
            return
        for record, send in zip(batch.iterator, of_each, strict=True):
            marks.append(len(rows))
            send((record,))


def _run_shared(batch: _LevelBatch, stack: ExitStack, marks: list[int] | None) -> bool:
    """Process the records of a topic in the loop that the tasks of its partitions share; return False without one."""
    numbers, partitions, tasks = batch.arrivals.numbers, batch.arrivals.partitions, list(batch.readers.values())
    if type(numbers) is not NumbersByKey or len(tasks) < len(partitions):
        return False
    loop, seen = shared_loop(tasks, partitions[0][0], marked=marks is not None)
    if loop is None:
        return False
    for task, each in zip(tasks, partitions, strict=True):
        stack.enter_context(task.in_turn(batch, each))
    times, finder = [list[int]() for _ in partitions], numbers.finder
    try:
        loop(batch.iterator, -1, finder.known, finder.find, list(batch.first.values()), times)
    finally:
        batch.counts = dict(zip(partitions, map(len, times), strict=True))
        for task, of_task in zip(tasks, times, strict=True):
            task.context.stream_time[0] = max(task.context.stream_time + of_task)
        if marks is not None:
            marks += seen
        seen.clear()
    return True


class _LevelBatch(Batch):
    """The arrivals of a level; ``first`` holds the offset of the first record of each partition."""

    def __init__(self, readers: Mapping[int, Task], arrivals: _Arrivals, first: Mapping[Partition, int]) -> None:
        super().__init__(arrivals.records, "", -1, "", None)
        self.readers, self.arrivals, self.first = readers, arrivals, first
        parts = arrivals.partitions
        self._positions = {n: (*parts[n], task.queue_of(*parts[n]).source) for n, task in readers.items()}
        self._numbers = arrivals.numbers

    def taken(self, topic: str, partition: int) -> int:
        """Return how many records of a partition were taken; correct only after the last one."""
        return self.counts.get((topic, partition), 0)

    def position_of(self, index: int) -> RecordPosition:
        """Return topic, partition, source node and offset of a record."""
        return *self._positions[self._numbers[index] if self._numbers else 0], self._offsets[index]

    @cached_property
    def counts(self) -> Mapping[Partition, int]:
        """How many records of each partition were taken; correct only after the last one."""
        done, partitions = self.index() + 1, self.arrivals.partitions
        taken = Counter(islice(self.arrivals.numbers, done)) if len(partitions) > 1 else {0: done}
        return {partitions[number]: records for number, records in taken.items()}

    @cached_property
    def _offsets(self) -> Sequence[int]:
        """The offset of every record; computed only for processors that ask for it."""
        if len(self.arrivals.partitions) == 1:
            return range(first := self.first[self.arrivals.partitions[0]], first + len(self.records))
        counters = [count(self.first[partition]) for partition in self.arrivals.partitions]
        return [next(counters[number]) for number in self.arrivals.each()]
