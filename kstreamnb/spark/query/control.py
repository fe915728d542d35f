"""Starts, stops and recovers the stream of a query.

A start repairs the checkpoint, opens the sink and launches Spark's stream; a thread waits for the end of that
stream and decides what follows. `lifecycle` says what is allowed when, so no other flag is kept.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kstreamnb.background import background, clean_up, wait_until
from kstreamnb.errors import EngineError, KStreamError, SparkError
from kstreamnb.hints import reason_of
from kstreamnb.spark.contracts import Companion, OffsetSource, QuerySink, StreamSettings
from kstreamnb.spark.execution.failures import TOO_SLOW, TWO_WRITERS, is_damage, jvm_gone, spark_failure, worker_died
from kstreamnb.spark.execution.worker_progress import forget_positions, positions_folder, task_positions
from kstreamnb.spark.jvm.session import is_stopped, is_submitted, late_commits, require_session
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.query.batch_handler import BatchAction
from kstreamnb.spark.query.lifecycle import Actor, Lifecycle, LifecycleEvent, State
from kstreamnb.spark.query.pipeline import Pipeline
from kstreamnb.spark.query.query_handle import QueryHandle, release_stores
from kstreamnb.spark.query.streaming_query import start_stream
from kstreamnb.spark.state.checkpoint_manifest import checkpoint_missing, other_partitions
from kstreamnb.spark.state.checkpoint_reader import batches_without_input, begun_partitions, last_batch, settle
from kstreamnb.spark.state.checkpoint_recovery import entries_again, finish, roll_back
from kstreamnb.spark.state.live_stores import LiveStores
from kstreamnb.spark.telemetry.query_log import QueryLog

_STOP_S = 4.5  # on a busy machine a stop then takes 5 s at most
_PUBLISH_S = 2.0
_LATE_S = 60.0
_MOST_ATTEMPTS = 12  # consecutive, without a batch in between: two minutes
_LAUNCHED = frozenset({State.LAUNCHED, State.RUNNING})
_STARTED = _LAUNCHED | {State.STARTING}
_SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)


class QueryControl:
    """The stream of a query, with everything that belongs to its current start.

    Attributes:
        deployment: the tasks that run.
        source: the source of their records.
        settings: how the stream runs.
        action: the handler of its batches.
        lifecycle: its state.
        companions: functions that run during each start, each in a thread.
        handle: the stream of the last start; None before the first.
        starts: the number of starts by their cause.
    """

    def __init__(
        self, spark: SparkSession, deployment: Deployment, source: OffsetSource, sink: QuerySink, stream: StreamSettings
    ) -> None:
        self.application, self.files = deployment.application.id, stream.files
        self.spark, self.deployment, self.source, self.settings = spark, deployment, source, stream
        self.lifecycle = Lifecycle()
        stores = LiveStores(spark, deployment, self.files)
        log = QueryLog(self.application, deployment.key)
        self.action = BatchAction(sink, stores, log, self.lifecycle, self._require_checkpoint)
        self.companions: list[Companion] = []
        self.handle: QueryHandle | None = None
        self.starts: Counter[Actor] = Counter()
        self._starts = threading.RLock()  # held during a start
        self._halting = threading.RLock()  # held while a stream ends: what ends one must not close the sink of the next
        self._attempts = (-2, 0)  # the last batch at the last restart attempts, and their number

    # --- start ------------------------------------------------------------------------------------------------------
    def start(
        self,
        actor: Actor,
        *,
        takes_over: bool = False,
        deployment: Deployment | None = None,
        source: OffsetSource | None = None,
        after: QueryHandle | None = None,
    ) -> bool:
        """Start from the checkpoint; stops the current stream first.

        Args:
            actor: the cause.
            takes_over: fence a newer deployment, too, instead of leaving the checkpoint to it.
            deployment: replaces the tasks.
            source: replaces the source.
            after: start only if this is still the last stream.

        Returns:
            False if the lifecycle does not allow a start by this actor, or another start was sooner.
        """
        with self._starts:
            runs = self.lifecycle.state in _LAUNCHED
            if after not in (None, self.handle) or not self.lifecycle.apply(LifecycleEvent.START, actor):
                return False
            self.starts[actor] += 1
            self.action.book.restarts += actor is not Actor.USER
            if runs and actor is not Actor.QUERY:
                self.action.log.note("stopped", batch=self.action.last.number)
            self.deployment, self.source = deployment or self.deployment, source or self.source
            try:
                with self._halting:  # an interrupted start may still end its stream
                    pass
                if launched := self._launch(actor, takes_over=takes_over):
                    self.action.log.note("started", checkpoint=str(self.files), batch=last_batch(self.files))
                if not self.lifecycle.apply(LifecycleEvent.LAUNCH, Actor.QUERY):  # stopped meanwhile
                    self._halt()
                    self.lifecycle.apply(LifecycleEvent.HALT, Actor.QUERY)
                    if error := self.action.failure():  # of a companion
                        raise error
                if launched:
                    self._attend()
            except BaseException as error:
                failure = error if isinstance(error, KStreamError) else None
                noted = failure or EngineError(f"the start was interrupted: {reason_of(error)}")
                if not self.action.note_failure(noted, Actor.QUERY):
                    self.lifecycle.apply(LifecycleEvent.HALT, Actor.QUERY)
                if failure is None:  # the stream may run already
                    clean_up(partial(self._halt, starting=True))
                raise
            return True

    def _launch(self, actor: Actor, *, takes_over: bool) -> bool:
        """Launch the stream; again, unless the user waits for it, while Spark is too slow to start its processes.

        Returns False if the user has stopped the query meanwhile: Spark would end the stream of a later deployment over
        the same checkpoint.
        """
        while True:
            try:
                self._prepare(takes_over=takes_over)
                if self._is_stopped():
                    return False
                with ExitStack() as on_failure:
                    lock = self.files.hold()
                    on_failure.callback(lock.release)
                    last_stage = self.action.sink.on_executors()
                    stream = start_stream(self.spark, self.source, self.action, self.settings, last_stage)
                    ended = partial(release_stores, self.spark, stream)
                    self.handle = QueryHandle(stream, lock, ended, bounded=self.settings.trigger_ms is None)
                    on_failure.pop_all()
                self.action.pipeline = self._pipeline(self.handle)
                return True
            except _SPARK_ERRORS as error:  # Spark's text has a hundred lines and more
                self._halt(starting=True)
                require_session(self.spark)
                if actor is Actor.USER or not self._may_start_again(str(error)):
                    raise spark_failure(f'starting "{self.application}"', error) from None

    def _is_stopped(self) -> bool:
        """Return whether a start in progress was stopped: another deployment may have the checkpoint by now."""
        return self.lifecycle.state is not State.STARTING

    def _pipeline(self, handle: QueryHandle) -> Pipeline | None:
        """Return what publishes the batches of a stream beside it; None if Spark has to wait for each of them."""
        action = self.action
        commits = late_commits(self.spark, handle.streaming) if action.sink.pipelined else None

        def died(error: BaseException) -> None:
            action.failed(spark_failure(f'publishing for "{self.application}"', error))
            handle.stop()
            raise error

        return None if commits is None else Pipeline(commits, action.busy, action.publish_now, handle.stop, died)

    def _prepare(self, *, takes_over: bool) -> None:
        """Wait for the end of the previous stream, repair the checkpoint and open the sink."""
        if (handle := self.handle) is not None:
            self._halt(starting=True)
            wait_until(lambda: self._is_stopped() or not (handle.active() or self.action.busy.locked()), _LATE_S)
            if self._is_stopped():
                return
            if self.action.pipeline is not None:
                self.action.pipeline.end()
                self.action.pipeline = None
            if not self.files.exists("metadata"):  # Spark would start with empty state
                raise checkpoint_missing(self.files, self.application)
        if not takes_over and (error := self._overtaken()):
            raise error
        begun, expected = begun_partitions(self.files), self.deployment.spark_partitions
        if self.deployment.stateful and begun not in (None, expected):
            raise other_partitions(self.files, begun, expected)
        finish(self.files)
        settle(self.files)
        self.action.resume(self.files)
        self._open_sink(takes_over=takes_over)
        self.action.stores.forget(self.deployment)
        forget_positions(positions_folder(self.files))

    def _open_sink(self, *, takes_over: bool) -> None:
        """Open the sink, which fences older deployments; the claim comes first, so that none fences back."""
        sink = self.action.sink
        before, sink.again = sink.owner, entries_again(self.files)
        sink.without_output, sink.finished = batches_without_input(self.files), last_batch(self.files)
        owner = sink.claim(self.files) if takes_over else None
        sink.owner = owner or before
        try:
            sink.open()
        except KStreamError:
            sink.owner = before
            if owner is not None:
                owner.withdraw()
            raise

    def _attend(self) -> None:
        """Start the threads of one start: its companions, and the one that waits for the end of the stream.

        The error of any of them is the query's: it would seem to continue, unguarded.
        """
        handle, pipeline = self.handle, self.action.pipeline
        assert handle is not None

        def await_end() -> None:
            handle.await_end()
            if pipeline is not None:
                pipeline.end()
                self.action.await_watchers(-1 if handle.exception() is None else _LATE_S)
            self.on_end(handle)

        def end_died(error: BaseException) -> None:
            self.action.note_failure(spark_failure(f'the query of "{self.application}"', error), Actor.QUERY)
            raise error

        def companion_died(companion: Companion, error: BaseException) -> None:
            self.end_with(spark_failure(f'{type(companion).__name__} of "{self.application}"', error))

        background(await_end, "kstreamnb-end", died=end_died)
        for companion in self.companions:
            work = partial(companion, lambda: self.handle is handle)
            background(work, "kstreamnb-companion", died=partial(companion_died, companion))

    # --- end --------------------------------------------------------------------------------------------------------
    def on_end(self, handle: QueryHandle) -> None:
        """Decide what follows the end of a stream: the requested stop or failure, a recovery, or a failure."""
        cause = handle.exception()
        if handle is not self.handle or self.lifecycle.state not in _LAUNCHED:
            handle.lock.release()
            return
        error = self.action.refusal  # of a batch that failed before its start had returned, and ended the stream
        if error is None and cause is not None:
            error = self.lost() or self._seen_overtaken()
            if error is None and self._recovers(handle, cause):
                return
            error = error or self._failure(cause)
        elif error is None and handle.gone:
            error = jvm_gone(self.application)
        elif error is None and self.settings.trigger_ms is not None:
            error = self._seen_overtaken()  # by a newer deployment in this session: Spark just stops this one
        handle.lock.release()
        if error is not None:
            self.action.note_failure(error, Actor.QUERY)
        elif self.lifecycle.state in _LAUNCHED:
            self.action.log.note("stopped", batch=self.action.last.number)
            self.lifecycle.apply(LifecycleEvent.END, Actor.QUERY)

    def idle(self) -> bool:
        """Return whether the stream waits for records, and no batch is being published."""
        return self.handle is not None and self.handle.idle() and not self.action.busy.locked()

    def _failure(self, cause: Exception) -> KStreamError:
        what = f'the query of "{self.application}"'
        died = [str(each) for each in task_positions(positions_folder(self.files)) if not each.alive]
        return worker_died(what, cause, list(dict.fromkeys(died))) or spark_failure(what, cause)

    def _recovers(self, handle: QueryHandle, cause: Exception) -> bool:
        """Restart if the state can be rebuilt or the reason has passed; returns whether nothing is left to do."""
        batches = roll_back(self.files) if is_damage(cause) else None
        if batches is not None:
            self.action.log.warn("rebuilds damaged state", batches=f"{batches.start} to {batches.stop - 1}")
        elif not self._may_start_again(str(cause)):
            return False
        with suppress(KStreamError):  # `start` has recorded it; no caller waits for it here
            self.start(Actor.QUERY, after=handle)
        return True

    def _may_start_again(self, message: str) -> bool:
        """Return whether a start or stream failed for a passing reason, and not too often without a batch.

        The machine was busy; or an older deployment, which this one has fenced, had planned the next batch.
        """
        batch, reason = self.action.last.number, next((each for each in (TOO_SLOW, TWO_WRITERS) if each in message), "")
        attempts = self._attempts[1] if self._attempts[0] == batch else 0
        if not reason or attempts >= _MOST_ATTEMPTS:
            return False
        self._attempts = batch, attempts + 1
        self.action.log.warn("starts again", reason=reason, attempt=attempts + 1)
        return True

    def stop(self) -> None:
        """Stop within 5 s, for the user; a batch that is being published may finish, and its watchers may return.

        A start in progress launches no stream any more, and ends within that time unless it waits for a broker.
        """
        before = self.lifecycle.apply(LifecycleEvent.STOP, Actor.USER)
        if self.action.is_caller():  # the stream waits for this thread
            background(partial(self._finish_stop, before), "kstreamnb-stop")
        else:
            self._finish_stop(before)

    def _finish_stop(self, before: State | None) -> None:
        end = time.monotonic() + _STOP_S
        try:
            self._halt()
            if before is State.STARTING and self._starts.acquire(timeout=max(0.1, end - time.monotonic())):
                self._starts.release()
            if before is not None:
                self.action.log.note("stopped", batch=self.action.last.number)
        finally:
            if before not in (None, State.STARTING):  # else the start that is in progress halts
                self.lifecycle.apply(LifecycleEvent.HALT, Actor.QUERY)

    def end_with(self, error: KStreamError) -> None:
        """End the stream with an error, for a companion."""
        self.action.note_failure(error, Actor.COMPANION)
        self._halt()

    def _halt(self, *, starting: bool = False) -> None:
        """Stop the stream, after the batch that is being published and its watchers if they take no longer than 2 s.

        Waits instead if another thread stops it already. Does nothing if a later start has begun, unless it is that
        start which calls it.
        """
        end = time.monotonic() + _STOP_S
        if self._halting.acquire(timeout=-1 if starting else _STOP_S):
            try:
                if starting or self.lifecycle.state not in _STARTED:
                    self._end_stream(end)
            finally:
                self._halting.release()

    def _end_stream(self, end: float) -> None:
        """Stop the stream until a time of the monotonic clock."""
        action, ending = self.action, None
        try:
            if not action.await_watchers(min(_PUBLISH_S, max(0.0, end - time.monotonic()))):
                action.sink.close()
        finally:  # also after Ctrl-C: a stream that continued would publish for a query that shows as stopped
            if self.handle is not None:
                ending = background(partial(self._stop_stream, self.handle), "kstreamnb-stop-stream")
        if ending is not None:
            ending.join(max(0.1, end - time.monotonic()))
            if ending.is_alive():
                self._warn_late(effect="its tasks may still write to the checkpoint")
        action.await_watchers(max(0.1, end - time.monotonic()))
        action.sink.close()
        if self.handle is not None:
            self.handle.lock.release()

    def _stop_stream(self, handle: QueryHandle) -> None:
        if (late := handle.stop()) is not None:
            self._warn_late(error=late)

    def _warn_late(self, **fields: str) -> None:
        """Log that a stream stops late, unless its session was stopped or is gone: then nothing writes any more."""
        with suppress(Py4JError, OSError):
            if not is_stopped(self.spark):
                self.action.log.warn("stops late", **fields)

    # --- conditions that forbid a stream ----------------------------------------------------------------------------
    def lost(self) -> KStreamError | None:
        """Return the error of a running query whose session was stopped, or whose checkpoint is gone or replaced."""
        return self._stopped_session() or self._missing_checkpoint() if self.lifecycle.state in _LAUNCHED else None

    def _stopped_session(self) -> KStreamError | None:
        with suppress(Py4JError, OSError):  # the end of the stream tells that the JVM is gone
            if is_stopped(self.spark):
                detail = "spark-submit stops its session when it receives SIGTERM" if is_submitted() else None
                hint = "call query.stop() before spark.stop(); to continue, deploy with another session"
                return SparkError(f'the Spark session of "{self.application}" was stopped', detail=detail, hint=hint)
        return None

    def _missing_checkpoint(self) -> KStreamError | None:
        intact = self.handle is None or self.handle.lock.intact()
        return None if intact else checkpoint_missing(self.files, self.application)

    def _require_checkpoint(self) -> None:
        if error := self._missing_checkpoint():  # of a query that has failed, too: its last batch may be published now
            raise error

    def _seen_overtaken(self) -> KStreamError | None:
        """Return the same if it can be determined now: no answer of a broker proves nothing."""
        with suppress(EngineError):
            return self._overtaken()
        return None

    def _overtaken(self) -> KStreamError | None:
        """Return the error of a query whose checkpoint a newer deployment has: it must neither repair nor fence."""
        owner = self.action.sink.owner
        if owner is None or owner.holds():
            return None
        from kstreamnb.kafka.transaction_end import overtaken

        return overtaken(self.application)
