"""A deployed topology while it runs: what it is doing, what its stores hold, stop and start again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kstreamnb.errors import KStreamError
from kstreamnb.kafka.batch_offsets import count_between
from kstreamnb.kafka.checkpoint_lock import STARTED_SINCE, OwnerToken, SharedLock
from kstreamnb.spark.contracts import Companion, OffsetSource, QuerySink, StreamSettings
from kstreamnb.spark.execution.failures import TOO_SLOW, is_damage, jvm_gone, spark_failure
from kstreamnb.spark.jvm.session import require_session
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.query.active_queries import add_active, remove_active
from kstreamnb.spark.query.batch_handler import BatchAction, Relay, Watcher
from kstreamnb.spark.query.query_handle import QueryHandle
from kstreamnb.spark.query.query_status import QueryStatus, described
from kstreamnb.spark.query.signals import asked_to_end
from kstreamnb.spark.query.streaming_query import start_stream
from kstreamnb.spark.state.checkpoint_manifest import checkpoint_missing
from kstreamnb.spark.state.checkpoint_reader import batches_without_input, last_batch, settle
from kstreamnb.spark.state.checkpoint_recovery import entries_again, finish, roll_back
from kstreamnb.spark.state.live_stores import LiveStores, LiveView
from kstreamnb.spark.telemetry.metrics import BatchFigures, Metric, MetricsBook, lag_between
from kstreamnb.spark.telemetry.query_log import QueryLog
from kstreamnb.suggesting import Suggesting
from kstreamnb.topology.topology import Topology

__all__ = ["Query", "QueryStatus"]

_STOP_S = 4.5  # with what a busy machine adds stopping takes 5 s at most
_PUBLISH_S = 2.0
_LATE_S = 60.0
_LOOK_S = 0.1
_MOST_REVIVALS = 12  # in a row, without a batch between: two minutes


class Query(Suggesting):
    r"""A running topology; made by `deploy`. Printing it shows its state, positions and tasks.

    Attributes:
        application: the application's id.
        checkpoint: where state and positions are kept.
        topology: what runs.
        companions: what runs beside it, from each start on.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from kstreamnb import Sample, StreamsBuilder, deploy
        >>> from kstreamnb.kafka import Admin, local_broker, produce
        >>> builder = StreamsBuilder("visits")
        >>> counts = builder.stream("pages").group_by_key().count(store="counts")
        >>> sample = Sample.from_text("topic | key | value | time\npages | a | 1 | 5\npages | a | 2 | 6")
        >>> with local_broker() as broker, TemporaryDirectory() as checkpoint:
        ...     servers = broker.bootstrap_servers
        ...     Admin(servers).create_topic("pages")
        ...     sent = produce(servers, sample)
        ...     query = deploy(builder.build(), bootstrap_servers=servers, checkpoint=checkpoint)
        ...     done = query.await_input()
        ...     print(query.store("counts")["a"], query.status().lag, query.status().state)
        ...     query.stop()
        2 0 running
    """

    _elsewhere: ClassVar = {
        **dict.fromkeys(("cancel", "close", "end", "kill", "shutdown", "terminate"), "stop"),
        **dict.fromkeys(("join", "wait"), "await_termination"),
        **dict.fromkeys(("lag", "lastProgress", "progress", "state"), "status"),
    }

    def __init__(
        self,
        spark: SparkSession,
        deployment: Deployment,
        source: OffsetSource,
        sink: QuerySink,
        settings: StreamSettings,
    ) -> None:
        self.application, self.checkpoint = deployment.application.id, settings.checkpoint
        self.topology: Topology = deployment.application.topology
        self.spark, self.deployment = spark, deployment
        self.companions: list[Companion] = []
        self._source, self._settings = source, settings
        self._action = BatchAction(
            sink, LiveStores(spark, deployment, settings.checkpoint), QueryLog(self.application, deployment.key)
        )
        self._action.before = self._refuse_without_checkpoint
        self._streaming: QueryHandle | None = None
        self._ended = threading.Event()  # set when the last stream ends
        self._ended.set()
        self._lock: SharedLock | None = None
        self._stopped = self._starting = False
        self._reviving, self._revived = threading.RLock(), (-2, 0)  # the last batch then, and how often since

    @property
    def action(self) -> BatchAction:
        """What it does with each batch, for the kit's own parts."""
        return self._action

    @property
    def book(self) -> MetricsBook:
        """Counts since the query was made."""
        return self._action.book

    @property
    def last_error(self) -> KStreamError | None:
        """What ended the query, in the kit's form."""
        return self._action.error

    @property
    def checkpoint_gone(self) -> KStreamError | None:
        """The error of a query whose checkpoint is not there any more; None while all is well, and while it stops."""
        if self._lock is None or self._starting or self._stopped or self._lock.intact():
            return None
        return checkpoint_missing(self.checkpoint, self.application)

    def _refuse_without_checkpoint(self) -> None:
        error = self.checkpoint_gone
        if error is not None:
            raise error

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the stores that can be looked at."""
        return tuple(sorted({*self.topology.stores, *self.topology.global_stores}))

    def is_active(self) -> bool:
        """Whether the query is running."""
        if self._starting or (self._streaming is not None and self._streaming.active()):
            return True
        return self._revive()

    def exception(self) -> KStreamError | None:
        """What ended the query, None while it runs or when it was stopped."""
        if self._streaming is None or self.is_active():
            return None
        if self._action.error is None and not self._stopped:
            failed = self._why_ended(self._streaming)
            if failed is not None:
                self._action.failed(failed)
        if self._lock is not None:
            self._lock.release()
        return self._action.error

    def _why_ended(self, streaming: QueryHandle) -> KStreamError | None:
        found = streaming.exception()
        if streaming.gone:
            return jvm_gone(self.application)
        if found is not None:
            return self.checkpoint_gone or spark_failure(f'the query of "{self.application}"', found)
        return None if self._settings.trigger_ms is None else self._overtaken()  # in this session, Spark just stops it

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; says whether it has come. Raises what ended the query.

        SIGINT (an interrupt) and SIGTERM stop the query meanwhile, as `stop` does, where the main thread waits.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with asked_to_end() as asked:
            while self.is_active() and (end is None or time.monotonic() < end):
                left = _LOOK_S if end is None else min(_LOOK_S, max(0.0, end - time.monotonic()))
                if self._ended.wait(left):
                    asked.wait(0.02)  # it starts again, or is_active() says that it does not
                if asked.is_set():
                    self.stop()
        error = self.exception()
        if error is not None:
            raise error
        return not self.is_active()

    def await_input(self, timeout_s: float = 60.0) -> bool:
        """Wait until everything that is in the input topics now is processed. Raises what ended the query."""
        goal, end = self._source.end(), time.monotonic() + timeout_s
        while time.monotonic() < end:
            last, ended = self._action.last, self._ended.is_set() and not self.is_active()
            error = self.exception() if ended else None
            if error is not None:
                raise error
            if last.number >= 0 and not count_between(last.positions, goal):
                return True
            if ended:
                return False
            time.sleep(0.01)
        return False

    def status(self, *, lag: bool = True) -> QueryStatus:
        """What the query is doing now; without ``lag`` the broker is not asked, and the lag is -1."""
        error, last = self.exception(), self._action.last
        state = self._going() if self.is_active() else "failed" if error is not None else "stopped"
        durations = {} if self._streaming is None else self._streaming.durations_ms()
        waiting = self._waiting() if lag else -1
        text = None if error is None else str(error)
        return QueryStatus(state, last.number, waiting, last.positions, last.clock_ms, durations, text)

    def metrics(self) -> list[Metric]:
        """Counts, rates, latencies and lag under the names of Kafka Streams."""
        last = self._action.last
        end = self._source.glance() if last.number >= 0 else {}
        lag = None if end is None else lag_between(last.positions, end)
        return self.book.all(lag, self.status(lag=False).state)

    def recent(self) -> tuple[BatchFigures, ...]:
        """The last batches in figures, oldest first."""
        return tuple(self.book.recent)

    def watch(self, function: Watcher) -> Callable[[], None]:
        """Have a function called with the figures of every batch, in Spark's thread; the answer ends that."""
        self._action.watchers.append(function)

        def unwatch() -> None:
            with suppress(ValueError):
                self._action.watchers.remove(function)

        return unwatch

    def store(self, name: str, *, timestamps: bool = False) -> LiveView:
        """A store, read only, as of the last batch whenever it is read; works while the query is down, too.

        ``timestamps``: rows of timestamped stores are `ValueAndTimestamp` instead of plain values.

        Raises: StateError for an unknown store; JvmGoneError if the JVM, which reads checkpoints, is gone.
        """
        return LiveView(name, self._action.stores, self._waiting, timestamps=timestamps)

    def stop(self) -> None:
        """Stop after what is under way, within 5 s; the checkpoint stays."""
        self._stopped = True
        self._halt()

    def _halt(self) -> None:
        self._end_stream()
        if self._lock is not None:
            self._lock.release()
        if remove_active(self):
            self._action.journal.note("stopped", batch=self._action.last.number)

    def _end_stream(self) -> None:
        end = time.monotonic() + _STOP_S
        if self._action.busy.acquire(timeout=_PUBLISH_S):  # a batch that is being published comes to its end
            self._action.busy.release()
        else:
            self._action.sink.close()
        if self._streaming is not None:
            ending = threading.Thread(target=self._end, args=(self._streaming,), daemon=True)
            ending.start()
            ending.join(max(0.1, end - time.monotonic()))
        if self._action.busy.acquire(timeout=max(0.1, end - time.monotonic())):
            self._action.busy.release()
        self._action.sink.close()

    def restart(
        self, *, deployment: Deployment | None = None, source: OffsetSource | None = None, takes_over: bool = True
    ) -> Query:
        """Stop where it runs, and go on from the checkpoint; with another bundle and feed where topics have come.

        ``takes_over``: from a newer deployment, too; what restarts by itself leaves that one alone.
        """
        self._stopped = False
        return self._start(deployment=deployment, source=source, takes_over=takes_over)

    def _start(
        self, *, deployment: Deployment | None = None, source: OffsetSource | None = None, takes_over: bool = False
    ) -> Query:
        self._starting = True
        try:
            self._begin(deployment, source, takes_over=takes_over)
        except (PySparkException, Py4JError, ConnectionError) as error:  # Spark's text has a hundred lines and more
            self._halt()
            require_session(self.spark)
            raise spark_failure(f'starting "{self.application}"', error) from None
        finally:
            self._starting = False
        add_active(self)
        self._action.journal.note("started", checkpoint=self.checkpoint.name, batch=last_batch(self.checkpoint))
        if self._stopped:  # while it started
            self._halt()
        return self

    def _begin(self, deployment: Deployment | None, source: OffsetSource | None, *, takes_over: bool) -> None:
        if self._streaming is not None:
            self._halt()
            self._outlive(self._streaming)
            if self._lock is not None and not (self.checkpoint / "metadata").exists():  # Spark would begin anew
                raise checkpoint_missing(self.checkpoint, self.application)
        self._source = source or self._source
        if deployment is not None:
            self.deployment = deployment
            self._action.stores = LiveStores(self.spark, deployment, self.checkpoint)
        error = None if takes_over else self._overtaken()
        if error is not None:
            raise error
        finish(self.checkpoint)
        settle(self.checkpoint)
        self._action.resume(self.checkpoint)
        self._open(takes_over=takes_over)
        self._action.error = None
        self._action.stores.forget()
        self._lock = SharedLock(self.checkpoint)
        relay = Relay(self._action)
        self._streaming = QueryHandle(start_stream(self.spark, self.deployment, self._source, relay, self._settings))
        self._attend(self._streaming, relay)

    def _attend(self, streaming: QueryHandle, relay: Relay) -> None:
        """Start what runs beside the query, and what notices its end without asking again and again."""
        ended = self._ended = threading.Event()

        def await_end() -> None:
            streaming.await_end()  # why it ended is asked by who wants to know
            relay.let_go()
            ended.set()

        threading.Thread(target=await_end, daemon=True, name="kstreamnb-end").start()
        for companion in self.companions:
            lasts = (lambda: self._streaming is streaming,)
            threading.Thread(target=companion, args=lasts, daemon=True, name="kstreamnb-companion").start()

    def _open(self, *, takes_over: bool) -> None:
        """Open the sink, which fences older deployments; the owner token comes first, so that none fences back."""
        sink = self._action.sink
        before, sink.again = sink.owner, entries_again(self.checkpoint)
        sink.without_output = batches_without_input(self.checkpoint)
        owner = OwnerToken(self.checkpoint) if takes_over else None
        sink.owner = owner or before
        try:
            sink.open()
        except KStreamError:
            sink.owner = before
            if owner is not None:
                owner.withdraw()
            raise

    def _overtaken(self) -> KStreamError | None:
        """The error of a query whose checkpoint another one goes on from: it must neither repair nor fence anything."""
        owner = self._action.sink.owner
        if owner is None or owner.holds():
            return None
        from kstreamnb.kafka.transactional_writer import overtaken

        return overtaken(self.application, STARTED_SINCE)

    def _end(self, streaming: QueryHandle) -> None:
        late = streaming.stop()
        if late is not None:
            self._action.journal.warn("stops late", error=late)

    @staticmethod
    def _outlive(streaming: QueryHandle) -> None:
        """Wait for one that stops late: two cannot work on one checkpoint."""
        end = time.monotonic() + _LATE_S
        while streaming.active() and time.monotonic() < end:
            time.sleep(0.02)

    def fail(self, error: KStreamError) -> None:
        """End the query with an error."""
        self._action.failed(error)
        self._end_stream()

    def _revive(self) -> bool:
        """Start again where a process of Spark's own was too slow to start, which happens on a busy machine."""
        with self._reviving:
            if self._streaming is None or self._stopped or self._action.error is not None:
                return False
            if self._streaming.active():
                return True
            found = self._streaming.exception()
            if found is None:
                return False
            error = self.checkpoint_gone or self._overtaken()
            if error is not None:
                self._action.failed(error)
                return False
            if is_damage(found) and self._take_back():
                return True
            batch = self._action.last.number
            attempts = self._revived[1] if self._revived[0] == batch else 0
            if TOO_SLOW not in str(found) or attempts >= _MOST_REVIVALS:
                return False
            self._revived = batch, attempts + 1
            self._action.journal.warn("starts again", reason=TOO_SLOW, attempt=attempts + 1)
            return self._start_again()

    def _take_back(self) -> bool:
        """Rebuild damaged state from what the checkpoint has before it; says whether that was possible."""
        batches = roll_back(self.checkpoint)
        if batches is None:
            return False
        self._action.journal.warn("rebuilds damaged state", batches=f"{batches.start} to {batches.stop - 1}")
        return self._start_again()

    def _start_again(self) -> bool:
        """Start, though nobody has asked for it just now: who looks at the query finds why it could not."""
        try:
            self._start()
        except KStreamError as error:
            if TOO_SLOW in str(error):
                return True  # whoever looks next tries again
            self._action.failed(error)
            return False
        return True

    def _going(self) -> str:
        """What an active query is doing, in a word."""
        begins = self._starting or self._streaming is None or self._streaming.begins()
        return "starting" if begins else "running"

    def _waiting(self) -> int:
        """Records that wait, -1 where no broker says so; of a query that has not had a batch yet, none are known."""
        last = self._action.last
        if last.number < 0:
            return 0
        end = self._source.glance()
        return -1 if end is None else count_between(last.positions, end)

    def __str__(self) -> str:
        """State, positions and tasks now, as text."""
        status = self.status(lag=False)
        return described(self.deployment, status.state, status.batch, status.positions, self.book.tasks)

    def __repr__(self) -> str:
        status = self.status(lag=False)
        return f"<Query of {self.application}: {status.state}, batch {status.batch}>"
