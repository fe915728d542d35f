"""`Query`: a deployed topology while it runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kstreamnb.background import wait_until
from kstreamnb.charts import Charts, CostPicture
from kstreamnb.core.displayed import MimeTypes
from kstreamnb.core.progress import under_way
from kstreamnb.errors import KStreamError, SparkError
from kstreamnb.kafka.batch_offsets import Offsets, count_between
from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.signals import asked_to_end
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.query.active_queries import add_active, remove_active
from kstreamnb.spark.query.batch_handler import BatchListener
from kstreamnb.spark.query.control import QueryControl
from kstreamnb.spark.query.hand_over import HandOver, hand_over
from kstreamnb.spark.query.lifecycle import ACTIVE, Actor, LifecycleEvent, State
from kstreamnb.spark.query.query_status import QueryDescription, QueryStatus, failure_line
from kstreamnb.spark.state.live_stores import LiveView
from kstreamnb.spark.telemetry.metrics import BatchFigures, Metric, MetricsBook, lag_between
from kstreamnb.spark.telemetry.query_charts import query_charts
from kstreamnb.spark.telemetry.query_cost import query_cost
from kstreamnb.state.query_views import detail
from kstreamnb.suggesting import Suggesting

_UNKNOWN = -1


class Query(Suggesting):
    r"""A running topology; made by `deploy`. Printing it shows its state, positions and tasks.

    Args:
        control: the stream with its session, source, sink and settings; starts and stops it.

    Attributes:
        application: the application's id.
        checkpoint: the folder of its state and positions, or its address.
        topology: the topology.

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
        ...     print(query.store("counts")["a"], query.status().batch, query.status().state)
        ...     query.stop()
        2 0 running
    """

    def __init__(self, control: QueryControl) -> None:
        self.control, self.spark, files = control, control.spark, control.files
        self.application, self.topology = control.application, control.deployment.application.topology
        self.checkpoint: Path | str = files.folder if isinstance(files, LocalFiles) else files.address

    @property
    def deployment(self) -> Deployment:
        """The tasks that run; replaced after topics were discovered."""
        return self.control.deployment

    @property
    def book(self) -> MetricsBook:
        """Return the query's counts since it was created."""
        return self.control.action.book

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the stores that can be read."""
        return tuple(sorted({*self.topology.stores, *self.topology.global_stores}))

    def is_active(self) -> bool:
        """Return True while the query starts, runs or stops."""
        handle = self.control.handle
        return self.control.lifecycle.state in ACTIVE or (handle is not None and handle.active())

    def exception(self) -> KStreamError | None:
        """Return the error that ended the query; None while it runs and after a stop."""
        return self.control.lifecycle.error

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the query; SIGINT (an interrupt), SIGTERM and SIGHUP stop it if the main thread waits.

        When it returns, the watchers of the last batch have returned; when it raises, the error is in the log.

        Args:
            timeout_s: seconds to wait at most; by default without limit.

        Returns:
            Whether the query has ended.

        Raises:
            KStreamError: the error that ended the query; not if Spark itself ended with the signal, which
                service managers send to all processes of a service.
        """
        self.control.action.refuse_caller("await_termination")
        end = time.monotonic() + (math.inf if timeout_s is None else timeout_s)
        with asked_to_end() as asked:
            while self.is_active() and time.monotonic() < end:
                wait_until(lambda: asked.is_set() or not self.is_active(), end - time.monotonic())
                if asked.is_set():
                    self.stop()
        if (error := self.control.action.failure()) and not (asked.is_set() and isinstance(error, SparkError)):
            raise error
        return not self.is_active()

    def await_input(self, timeout_s: float = 60.0) -> bool:
        """Wait until every record that the input topics contain now has been processed, and watchers know of it.

        Args:
            timeout_s: seconds to wait at most. Default: 60.

        Returns:
            Whether all of them are processed.

        Raises:
            KStreamError: the error that ended the query.
        """
        self.control.action.refuse_caller("await_input")
        goal, end = self.control.source.end(), time.monotonic() + timeout_s
        with under_way(f'waiting for the first batch of "{self.application}"'):
            wait_until(lambda: self.control.action.last.number >= 0 or not self.is_active(), timeout_s, pause_s=0.01)
        begun = count_between(self.control.action.last.positions, goal)

        def look() -> tuple[int, int | None]:
            return begun - count_between(self.control.action.last.positions, goal), begun or None

        with under_way("records", look=look):
            wait_until(lambda: self._reached(goal) or not self.is_active(), end - time.monotonic(), pause_s=0.01)
        if not self.is_active() and (error := self.control.action.failure()):
            raise error
        return self._reached(goal)

    def _reached(self, goal: Offsets) -> bool:
        """Return whether all offsets are processed, and the watchers of the last batch have returned."""
        last = self.control.action.last
        return 0 <= last.number <= self.control.action.told and not count_between(last.positions, goal)

    def status(self, *, lag: bool = True) -> QueryStatus:
        """Return the state of the query now.

        Args:
            lag: ask the broker for the number of waiting records, which is -1 otherwise. Default: True.
        """
        control = self.control
        last, state, error = control.action.last, self._state(), self.exception()
        durations = {} if control.handle is None else control.handle.durations_ms()
        text, slow = None if error is None else failure_line(error), control.action.slow
        progress = (last.number, self._waiting() if lag else _UNKNOWN, last.positions, last.clock_ms, durations)
        last_error = control.lifecycle.last_error
        return QueryStatus(
            state.shown,
            *progress,
            text,
            None if slow is None else str(slow),
            bool(slow and slow.stuck),
            application=self.application,
            last_error=None if last_error is None else failure_line(last_error),
            metrics=tuple(self.book.all(state=state.shown)),
            last=self.book.recent[-1] if self.book.recent else None,
            away=self.book.away,
        )

    def _state(self) -> State:
        lifecycle = self.control.lifecycle
        if lifecycle.state is State.LAUNCHED and self.control.idle():
            lifecycle.apply(LifecycleEvent.READY, Actor.STREAM)
        return lifecycle.state

    def metrics(self) -> list[Metric]:
        """Return counts, rates, latencies and lag under the names of Kafka Streams; no lag while it is unknown."""
        last, state = self.control.action.last, self._state()
        lag = None
        if last.number >= 0 and self.book.away is None:  # asking takes long then, and Prometheus does not wait
            end = self.control.source.glance()
            lag = None if end is None else lag_between(last.positions, end)
        handle = self.control.handle
        return self.book.all(lag, state.shown, {} if handle is None else handle.state_store_figures())

    def recent(self) -> tuple[BatchFigures, ...]:
        """Return the figures of the last batches, oldest first."""
        return tuple(self.book.recent)

    @property
    def charts(self) -> Charts:
        """Rates, batch time, state and drops of the last batches, and the lag at each look.

        The lag is read by `metrics`, as the panel does every second; times are UTC.
        """
        return query_charts(self.application, self.recent(), tuple(self.book.lags))

    @property
    def cost(self) -> CostPicture:
        """The graph painted by what its tasks cost since the query was made; ``ks.widgets.explorer`` takes it."""
        return query_cost(self.control.deployment.application.running, self.metrics())

    def watch(self, function: BatchListener) -> Callable[[], None]:
        """Call a function with the figures of every batch, in the thread that publishes it.

        Args:
            function: the function; its errors are logged and do not end the query. It may read stores and stop the
                query; methods that wait for the query refuse its thread.

        Returns:
            A function that ends the calls.
        """
        watchers = self.control.action.watchers
        watchers.append(function)

        def unwatch() -> None:
            with suppress(ValueError):
                watchers.remove(function)

        return unwatch

    def store(self, name: str, *, timestamps: bool = False, headers: bool = False) -> LiveView:
        """Return a read-only view of a store that shows the last batch at each read, also while the query is stopped.

        Args:
            name: the name of the store.
            timestamps: rows of timestamped stores are `ValueAndTimestamp` instead of plain values. Default: False.
            headers: rows of stores with headers are `ValueTimestampHeaders` or `AggregationWithHeaders`.
                Default: False.

        Raises:
            StateError: the store is unknown.
            JvmGoneError: the JVM, which reads checkpoints, is gone.
        """
        return LiveView(name, self.control.action.stores, self._waiting, detail(timestamps=timestamps, headers=headers))

    def hand_over(self, timeout_s: float = 60.0) -> HandOver:
        """Process what is in the input topics, stop, and leave everything that Kafka Streams needs to continue.

        It needs ``deploy(…, changelogs=True)``. Offsets are committed with stream times as Java commits them, and
        repartition topics exist. A later `deploy` over this checkpoint is refused once Java has processed more.

        Args:
            timeout_s: seconds to wait at most until the input is processed. Default: 60.

        Raises:
            ApplicationStateError: the query writes no changelogs, or could not process its input in time.
            KStreamError: the error that ended the query.
        """
        return hand_over(self, timeout_s)

    def stop(self) -> None:
        """Stop within 5 s, after the batch in progress and its watchers if possible; the checkpoint stays.

        A start that is in progress, such as one after new topics were found, ends without a stream. Nothing writes to
        the checkpoint afterwards, except executors on other machines, which keep stores for up to a minute.
        Within a watcher or a sink it returns at once, and the stream ends after the batch that they handle.
        """
        with under_way(f'stopping "{self.application}"'):
            self.control.stop()
        remove_active(self)

    def restart(self) -> Query:
        """Stop the query if it runs, and start it from its checkpoint.

        A newer deployment over the same checkpoint is fenced.

        Raises:
            KStreamError: the start failed.
        """
        self.control.action.refuse_caller("restart")
        with under_way(f'starting "{self.application}"'):
            self.control.start(Actor.USER, takes_over=True)
        add_active(self)
        return self

    def _waiting(self) -> int:
        """Return the number of waiting records; -1 if no broker answers, or before the first batch begins."""
        last = self.control.action.last
        if last.number < 0:
            return 0 if self.control.idle() else _UNKNOWN
        end = self.control.source.glance()
        return _UNKNOWN if end is None else count_between(last.positions, end)

    def __str__(self) -> str:
        """Return state, positions and tasks as text; asks no broker, so the lag is unknown."""
        return str(QueryDescription(self.status(lag=False), self.deployment))

    def _repr_mimebundle_(self, include: MimeTypes = None, exclude: MimeTypes = None) -> dict[str, str]:
        return QueryDescription(self.status(), self.deployment)._repr_mimebundle_(include, exclude)

    def __repr__(self) -> str:
        status = self.status(lag=False)
        why = f": {status.error}" if status.error else ""
        return f"<Query of {self.application}: {status.state}, batch {status.batch}{why}>"
