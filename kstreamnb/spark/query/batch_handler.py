"""The handling of each batch of a query: publish it, count it, notify watchers."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from kstreamnb.core.time import format_duration
from kstreamnb.errors import ApplicationStateError, BrokerError, KStreamError, SinkError
from kstreamnb.hints import reason_of
from kstreamnb.kafka.batch_offsets import Offsets, PartitionId, count_between
from kstreamnb.kafka.output_batch import OutputBatch
from kstreamnb.kafka.storage.checkpoint_files import CheckpointFiles
from kstreamnb.spark.contracts import QueryBatch, QuerySink
from kstreamnb.spark.execution.batch_output import BatchOutput
from kstreamnb.spark.execution.worker_progress import TaskPosition
from kstreamnb.spark.query.lifecycle import Actor, Lifecycle, LifecycleEvent, State
from kstreamnb.spark.query.pipeline import Pipeline
from kstreamnb.spark.state.checkpoint_reader import last_batch, last_begun
from kstreamnb.spark.state.live_stores import LiveStores
from kstreamnb.spark.telemetry.metrics import BatchFigures, MetricsBook
from kstreamnb.spark.telemetry.query_log import QueryLog

_AHEAD_MS = 2_000

BatchListener = Callable[[BatchFigures], object]


@dataclass(frozen=True)
class SlowBatch:
    """A batch that runs longer than it should: number, seconds so far, the tasks at work, and whether they advance.

    ``phase`` says what the batch does while no task is at work. ``stuck`` says that no task has moved to another record
    for the time after which a batch counts as slow, or that Spark has no executor. Otherwise it is False if no task is
    at work, or if the positions are not known, such as those of workers of a cluster.
    """

    number: int
    seconds: float
    positions: tuple[TaskPosition, ...] = ()
    stuck: bool = False
    phase: str = "starting"

    def __str__(self) -> str:
        at = "; ".join(map(str, self.positions)) or self.phase
        duration = format_duration(int(self.seconds) * 1000)
        return f"batch {self.number} {'is stuck' if self.stuck else 'runs'} for {duration}: {at}"


class BatchAction:
    """Hands batches to the sink, one at a time, and counts them.

    Attributes:
        last: the last published batch, without its output; number -1 before the first.
        told: the number of the last batch whose watchers have returned; -1 before the first.
        busy: held while a batch is published.
        pipeline: publishes a batch while Spark computes the next; None if Spark waits for each of them.
        slow: the batch that runs longer than it should; None if there is none.
        refusal: the error of a batch that failed, with which later ones are refused; None before.
        start: identifies the last start, because Spark calls streams ended whose last batch still waits here.
        watchers: functions that are called with the figures of each batch.
    """

    def __init__(
        self, sink: QuerySink, stores: LiveStores, log: QueryLog, lifecycle: Lifecycle, check: Callable[[], None]
    ) -> None:
        self.sink, self.stores, self.log, self.lifecycle = sink, stores, log, lifecycle
        self.book = MetricsBook(log.application)
        self.last = QueryBatch(-1, "", {}, 0, BatchOutput())
        self.told = -1
        self.watchers: list[BatchListener] = []
        self.busy = threading.Lock()
        self._turn = threading.Lock()  # held from the arrival of a batch until its watchers were called
        self._noting = threading.RLock()  # held until an error is in the log; its handlers may ask for the error
        self.pipeline: Pipeline | None = None
        self.slow: SlowBatch | None = None
        self._clock_ahead = False
        self.start = object()
        self.refusal: KStreamError | None = None
        self._gaps_end: dict[PartitionId, dict[int, int]] = {}  # of the last batch that had one, by its number
        self._read: Offsets = {}  # the input positions after the last batch that Spark computed
        self._check = check  # raises if a batch must not be published

    def resume(self, checkpoint: CheckpointFiles) -> None:
        """Set the last batch to the checkpoint's last committed one; called before a start."""
        self.refusal, self._read, self.start = None, {}, object()
        number = last_batch(checkpoint)
        if last_begun(checkpoint) > number:  # its process was killed, or the stop did not wait for it
            self.log.note("unfinished batch", batch=number + 1, effect="it runs again with the same input")
        if number < 0:
            return
        try:
            self.last = QueryBatch.of(number, checkpoint.last_line(f"offsets/{number}"), BatchOutput())
            self.told, self._read = number, self.last.positions
        except (OSError, ValueError, LookupError) as error:  # damaged: Spark repairs it, or ends with an error
            self.log.warn("checkpoint unread", batch=number, error=reason_of(error))

    def prepare(self, batch: int, source: str) -> str:
        """Return what executors need to know of a batch; raises if it must not be published."""
        try:
            self._check()
            return self.sink.prepare(batch, source)
        except KStreamError as error:
            self.failed(error)
            raise

    def publish(self, batch: QueryBatch, start: object = None) -> None:
        """Publish a batch, or hand it to the pipeline once the batch before is published; called in Spark's thread.

        A batch of an earlier start is refused; by default it is of the last one. One that moved the positions by one
        record at most is not handed over. Its record did not have to wait, the next will not either, and publishing
        beside Spark's work at the end of a batch would only take longer. Without live stores all are, because their
        watchers may read the checkpoint.
        """
        self._turn.acquire()
        self.busy.acquire()  # publish_now releases both, in whatever thread
        before, self._read = self._read, batch.positions
        alone = self.stores.deployment.options.live and count_between(before, batch.positions) <= 1
        pipeline = None if alone else self.pipeline
        try:
            if start not in (None, self.start):
                raise ApplicationStateError("the stream has ended")
            if self.refusal is not None:
                raise self.refusal
            if pipeline is not None:
                pipeline.put(batch)
        except BaseException:
            self.busy.release()
            self._turn.release()
            raise
        if pipeline is None and not self.publish_now(batch):
            assert self.refusal is not None
            raise self.refusal

    def publish_now(self, batch: QueryBatch, note: Callable[[], None] | None = None) -> bool:
        """Publish a batch whose turn it is, and notify everybody; returns False if that failed.

        Args:
            batch: the batch.
            note: notes in the checkpoint that it is published; by default Spark does, after this call.
        """
        self.stores.thread = threading.get_ident()
        try:
            try:
                done, figures = self._published(batch, note)
            except KStreamError as error:
                self.failed(error)
                return False
            finally:
                self.busy.release()
            self._tell(batch, done, figures)
            self.told = batch.number
            return True
        finally:
            self.stores.thread = None
            self._turn.release()

    def await_watchers(self, timeout_s: float = -1) -> bool:
        """Wait until the batch in hand is published and its watchers have returned; returns whether they have.

        ``timeout_s`` is seconds to wait at most; without limit by default.
        """
        if returned := self._turn.acquire(timeout=timeout_s):
            self._turn.release()
        return returned

    def is_caller(self) -> bool:
        """Return whether this thread handles a batch: a watcher or the sink runs, and the stream waits for it."""
        return self.stores.thread == threading.get_ident()

    def refuse_caller(self, method: str) -> None:
        """Raise ApplicationStateError in a thread that handles a batch: the method waits for the stream."""
        if self.is_caller():
            fact = f"{method}() waits for the batch whose watcher or sink calls it"
            raise ApplicationStateError(fact, hint="call it in another thread, such as the main one")

    def _published(self, batch: QueryBatch, note: Callable[[], None] | None) -> tuple[OutputBatch, BatchFigures]:
        began = time.perf_counter()
        try:
            self._check()
            done = self.sink.publish(batch)
            if note is not None:
                note()
        except KStreamError:
            raise
        except BaseException as error:  # a user's function may raise anything: Py4J passes on Exceptions alone
            raise self._of_sink(error, batch.number) from error
        figures = self.book.add(batch, done, time.perf_counter() - began)
        self.stores.take(batch.number, batch.output.deltas)
        self.last = replace(batch, output=BatchOutput())
        return done, figures

    def _tell(self, batch: QueryBatch, done: OutputBatch, figures: BatchFigures) -> None:
        self.lifecycle.apply(LifecycleEvent.READY, Actor.STREAM)
        self.log.batch(figures)
        self._tell_of_gaps(batch)
        self._tell_of_drops(batch)
        self._tell_of_clock(batch.clock_ms - figures.at_ms)
        restored = sum(report["state"] == "rebuild" for report in batch.output.reports)
        if restored:  # after a start; or an executor or a worker process has ended, and others run its tasks
            self.log.note("state restored", batch=batch.number, tasks=restored)
        if done.differs:
            self.log.warn("replay differs", batch=batch.number, hint="the topology is not deterministic")
        for watcher in list(self.watchers):
            try:
                watcher(figures)
            except BaseException as error:  # a watcher must not end the query; its error is logged
                self.log.warn("watcher failed", error=reason_of(error))

    def _tell_of_gaps(self, batch: QueryBatch) -> None:
        """Warn of records that the cluster removed before they were read, once, also if the batch runs again."""
        planned = json.loads(batch.source).get("skipped", {}) if '"skipped"' in batch.source else {}
        gaps = {(topic, int(part), gap[0]): gap[1] for topic, parts in planned.items() for part, gap in parts.items()}
        gaps |= {gap[:3]: gap[3] for gap in batch.output.removed}  # a read finds the gap of the plan, and maybe more
        for (topic, partition, first), after in sorted(gaps.items()):
            counted = max(first, self._gaps_end.get((topic, partition), {}).get(batch.number, first))
            if after > counted:
                self._gaps_end[topic, partition] = {batch.number: after}
                self.book.skipped += after - counted
                self.log.warn("offsets skipped", topic=topic, partition=partition, first=first, after=after)

    def _tell_of_drops(self, batch: QueryBatch) -> None:
        """Warn of skipped records, once for each node and reason."""
        drops = Counter[tuple[str, str]]()
        for report in batch.output.reports:
            drops.update(report["dropped"])
        for (node, reason), count in sorted(drops.items()):
            self.log.warn("records dropped", batch=batch.number, count=count, node=node, reason=reason)

    def _tell_of_clock(self, ahead_ms: int) -> None:
        """Warn once if the clock of punctuators is ahead of the machine's, which has gone back."""
        before, self._clock_ahead = self._clock_ahead, ahead_ms > _AHEAD_MS
        if self._clock_ahead and not before:
            self.log.warn("wall clock went back", by_ms=ahead_ms, effect="punctuators tick at half speed")

    def _of_sink(self, cause: BaseException, batch: int) -> SinkError:
        fact = f'the sink of "{self.log.application}" failed with {reason_of(cause)}'
        hint = "fix the sink and call query.restart(); the batch is delivered again"
        return SinkError(fact, detail=f"it was writing batch {batch}", hint=hint)

    def failed(self, error: KStreamError) -> None:
        """Record the reason why the stream ends; no further batch is accepted.

        A stop, or a restart, waits a short time for a batch, then closes the writer. That batch has not failed: it runs
        again.
        """
        self.refusal = error
        state = self.lifecycle.state
        ends = state is State.STOPPING and isinstance(error, ApplicationStateError | BrokerError)
        if state is not State.STARTING and not ends:  # the end of a stream that is starting notes its own
            self.note_failure(error, Actor.STREAM)

    def note_failure(self, error: KStreamError, actor: Actor) -> bool:
        """Record the error that ends the query; returns False if it has ended already, because the first failure
        counts.
        """
        with self._noting:
            accepted = self.lifecycle.apply(LifecycleEvent.FAIL, actor, error) is not None
            if accepted:
                self.log.failure(error)
        return accepted

    def failure(self) -> KStreamError | None:
        """Return the error that ended the query, once it is in the log: its caller may end the process."""
        with self._noting:
            return self.lifecycle.error
