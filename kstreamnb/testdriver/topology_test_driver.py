"""`TopologyTestDriver`: runs a topology in this process, record by record, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter
from threading import RLock
from typing import Any, ClassVar, TypeAlias, TypeVar, get_args

from kstreamnb.closing import Closing
from kstreamnb.core.arguments import expect
from kstreamnb.core.displayed import Displayed
from kstreamnb.core.formatting import format_time, pluralize
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import serde_or_none
from kstreamnb.core.time import MAX_TIME_MS, Clock, duration_ms, instant_ms, time_ms
from kstreamnb.errors import ApplicationStateError, ConfigError, EngineError, StateError
from kstreamnb.hints import expect_known, unknown
from kstreamnb.recording.events import Event
from kstreamnb.recording.trace import Recording
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.partition_counts import resolve_partitions
from kstreamnb.runtime.task.initial_state import InitialState
from kstreamnb.runtime.task.task import Changelog, Task
from kstreamnb.state.query_views import Detail, detail
from kstreamnb.state.store import Store
from kstreamnb.suggesting import Suggesting
from kstreamnb.testdriver.execution.router import Layout, Router
from kstreamnb.testdriver.execution.state_consistency import ChangelogFolds, StateCheck, differences
from kstreamnb.testdriver.execution.strategy import feed
from kstreamnb.testdriver.execution.task_group import TaskGroup
from kstreamnb.testdriver.execution.topic_log import TopicLog
from kstreamnb.testdriver.input_topic import InputTopic
from kstreamnb.testdriver.output_topic import OutputTopic
from kstreamnb.testdriver.store_views import (
    AnyView,
    DisplayedKeyValueView,
    DisplayedSessionView,
    DisplayedVersionedView,
    DisplayedWindowView,
    StoreChange,
    view_of,
)
from kstreamnb.topology.topology import Topology

_CACHE_BYTES = 10_000_000
_RECORDS = "pass a Sample or a list of TopicRecord; for one value call create_input_topic(topic).pipe_input(key, value)"
StoreOrView: TypeAlias = AnyView | Store
"""A view, or a store that only serves an operator."""

ViewT = TypeVar("ViewT", bound=AnyView)


class TopologyTestDriver(Suggesting, Displayed, Closing):
    """Runs a topology deterministically in this process: feed records, read outputs, query stores, advance clocks.

    It keeps the records that it was given, because `ks.Replay.of` and `verify_state` process them once more, and those
    that it wrote until they are read.

    Args:
        topology: the result of ``builder.build()``, or a `Topology` made by hand.
        config: a `Config`, or a mapping with its names or Kafka's dotted ones. Default: a new `Config`.
        partitions: numbers of partitions by topic, or one number for all; 1 for topics that are not named. Records go
            to the partition that Kafka's producer would choose. Default: 1.
        task_layout: "split" makes a task for each sub-topology and partition, as in production; "single" makes a single
            task and one partition for each topic, as Kafka's own test driver does. Default: "split".
        wall_clock: the initial wall-clock time: epoch milliseconds, ISO text or an aware datetime. Default: 0, the
            epoch.
        cache: use record caches; they are flushed after every record, as in Kafka's test driver. Default: the config.
        changelogs: keep the records of changelog topics, so that they can be read; costs time and memory. Default:
            False.
        verify: after each call compare every store with one rebuilt from its changelog, and raise StateError if they
            differ; costs more time and memory. `verify_state` compares once, and with the input as well. Default:
            ``TopologyTestDriver.verify_by_default``, which is False unless a test suite sets it; False with ``stores``.
        observe: a `Recording` that keeps everything that happens inside the tasks, or a function that is called with
            every event. Default: None, nothing is recorded.
        stores: the initial state, as `read_changelogs` returns it. Default: empty stores.

    Attributes:
        router: where records of each topic go.
        tasks: the tasks that run, and the logs of their topics.
        lock: held by each call that processes records or changes stores; hold it to read stores in another thread.

    Raises:
        ConfigError: an argument or setting is not valid.
        TopologyError: topics that are read together have different numbers of partitions.

    Example:
        >>> topology = Topology().add_source("in", "orders").add_sink("out", "copies", "in")
        >>> with TopologyTestDriver(topology, partitions=2) as driver:
        ...     driver.create_input_topic("orders").pipe_input("shoe", 1, at=0)
        ...     driver.create_output_topic("copies").read_key_value()
        ('shoe', 1)
    """

    verify_by_default: ClassVar[bool] = False
    """The default of ``verify``; a test suite sets it once for all its drivers."""

    def __init__(
        self,
        topology: Topology,
        config: Config | Mapping[str, Any] | None = None,
        wall_clock: datetime | str | int = 0,
        *,
        partitions: Mapping[str, int] | int | None = None,
        task_layout: Layout = "split",
        cache: bool | None = None,
        changelogs: bool = False,
        verify: bool | None = None,
        observe: Recording | Callable[[Event], None] | None = None,
        stores: InitialState | None = None,
    ) -> None:
        expect(topology, Topology, "topology")
        expect_known("task layout", [task_layout], get_args(Layout), error=ConfigError)
        if not (observe is None or isinstance(observe, Recording) or callable(observe)):
            raise ConfigError(f'expected a Recording or a function, got type "{type(observe).__name__}"')
        if verify is None:
            verify = self.verify_by_default and stores is None  # the changelogs do not have what the stores begin with
        self.topology = topology
        self.config = Config.of(config)
        if cache is not None:
            self.config = replace(self.config, cache_max_bytes=_CACHE_BYTES if cache else 0)
        counts, default = resolve_partitions(topology, self.config, partitions)
        start = instant_ms(wall_clock, "start of the wall clock")
        self.clock = Clock(start)
        self.router = Router(topology, self.config, partitions=counts, default_partitions=default, layout=task_layout)
        changelog: Changelog = "records" if changelogs or verify else "names"
        self.tasks = TaskGroup(self.router, self.clock, Recording.of(observe), changelog)
        if stores is not None:
            stores.give_to(self.tasks.order)
        self._folds = ChangelogFolds(self.tasks.by_id, self.tasks.logs, keep=changelogs) if verify else None
        self._options: dict[str, Any] = {
            "partitions": partitions,
            "task_layout": task_layout,
            "wall_clock": start,
            "changelogs": changelogs,
            "stores": stores,
        }
        # Calls as tuples of a method and its arguments: closures would take more memory than the records.
        self._done: list[tuple[Any, ...]] = []
        self.lock, self._closed = RLock(), False
        self._fed: dict[str, None] = {}

    def __str__(self) -> str:
        name = f' of "{self.topology.name}"' if self.topology.name else ""
        tasks = pluralize(len(self.tasks.by_id), "task")
        return f"test driver{name}: {tasks}, wall clock {format_time(self.clock.now_ms)}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def create_input_topic(
        self,
        topic: str,
        key_serde: Serde | str | None = None,
        value_serde: Serde | str | None = None,
        start: datetime | str | int | None = None,
        auto_advance: timedelta | str | None = None,
    ) -> InputTopic:
        """Return a topic to pipe records into.

        Args:
            topic: a topic that a source of the topology reads.
            key_serde: the serde of the keys to pipe, or its name. Default: the one with which the topic is read.
            value_serde: the same for values. Default: that of the topology, as for keys.
            start: the first time of the topic's clock, which stamps records without a time: epoch milliseconds, ISO
                text or an aware datetime. Default: the wall clock.
            auto_advance: how far that clock advances after each record without a time, a duration. Default: not at all.

        Raises:
            EngineError: no source reads the topic.
            ConfigError: the start, the duration or a serde is not valid.
        """
        expect(topic, str, "name of a topic")
        self.router.reader(topic)
        keys, values = serde_or_none(key_serde), serde_or_none(value_serde)

        def write(records: list[TopicRecord]) -> None:
            self._feed({topic: None}, records, keys, values)

        return InputTopic(topic, write, self.clock.now_ms, start, auto_advance)

    def create_output_topic(
        self, topic: str, key_serde: Serde | str | None = None, value_serde: Serde | str | None = None
    ) -> OutputTopic:
        """Return a topic to read from.

        Args:
            topic: an output, repartition or changelog topic; or any topic if sinks choose theirs record by record.
            key_serde: the serde to read keys with, or its name. Default: the one with which the topic is written.
            value_serde: the same for values. Default: that of the topology, as for keys.

        Raises:
            ConfigError: a serde is not valid.
        """
        keys, values = serde_or_none(key_serde), serde_or_none(value_serde)

        def serdes() -> tuple[Serde, Serde]:
            config = self.config
            writer = self.router.output_serdes(topic) or (config.default_key_serde, config.default_value_serde)
            return keys or writer[0], values or writer[1]

        return OutputTopic(topic, self._log, serdes, self.produced_topic_names)

    def pipe(self, records: Iterable[TopicRecord]) -> None:
        """Process records of any topics, merged by event time, each completely before the next.

        Args:
            records: records of topics that the topology reads, such as a `Sample`. A negative partition stands for the
                one that the key determines; offsets are assigned.

        Raises:
            ConfigError: one of them is not a record.
            EngineError: no source reads a topic, or a topic does not have a partition.
            ProcessingError: a node failed; the records before it have been processed.
        """
        self._refuse_closed()
        records, times = _topic_records(records)
        self._feed(dict.fromkeys(map(itemgetter(0), records)), records, times=times)

    def advance_wall_clock_time(self, by: timedelta | str) -> None:
        """Advance the wall clock by a duration and fire the punctuators that are due, each once.

        Args:
            by: duration such as "30s".

        Raises: ApplicationStateError if the driver is closed, ConfigError for a string that is not a duration.
        """
        self._refuse_closed()
        with self.lock:
            self._done.append((TopologyTestDriver.advance_wall_clock_time, by))
            self.clock.advance_to(self.clock.now_ms + duration_ms(by, "advance of the wall clock"))
            self.tasks.advance()
            self._verify()

    def produced_topic_names(self) -> set[str]:
        """Return the names of all topics written so far: outputs, repartition topics and changelogs."""
        return {name for name, log in self.tasks.logs.items() if log.rows or log.named or log.removed}

    def store(self, name: str, *, timestamps: bool = False, headers: bool = False) -> AnyView:
        """Return a view of a store of any kind, over all partitions.

        Args:
            name: a store of the topology.
            timestamps: show rows of timestamped stores as `ValueAndTimestamp` instead of plain values. Default: False.
            headers: show rows of stores with headers as `ValueTimestampHeaders` or `AggregationWithHeaders`.
                Default: False.

        Raises:
            StateError: no store has this name, or it only serves an operator and has no rows for users.

        Example:
            >>> from kstreamnb import StreamsBuilder
            >>> builder = StreamsBuilder("shop")
            >>> _ = builder.stream("orders").group_by_key().count(store="counts")
            >>> driver = TopologyTestDriver(builder.build())
            >>> driver.create_input_topic("orders").pipe_input("shoe", 1, at=0)
            >>> driver.store("counts")["shoe"]
            1
        """
        view = self._view_of(name, detail(timestamps=timestamps, headers=headers))
        if view is None:
            hint = f'driver.get_state_store("{name}") returns the store of the first task as it is'
            raise StateError(f'store "{name}" serves an operator and has no view', hint=hint)
        return view

    def get_all_state_stores(self) -> dict[str, StoreOrView]:
        """Return a view of every store by name; stores that no processor uses do not exist."""
        used = {name for task in self._all_tasks for name in task.stores}
        names = (*self.topology.stores, *self.topology.global_stores)
        return {name: self.get_state_store(name) for name in names if name in used}

    def get_state_store(self, name: str) -> StoreOrView:
        """Return a view of a store with timestamps and headers; if the store only serves an operator, the store itself.

        Args:
            name: name of the store.

        Raises:
            StateError: no store has this name.
        """
        view = self._view_of(name, "headers")
        return self._stores(name)[0] if view is None else view  # an empty view is false

    def get_key_value_store(self, name: str) -> DisplayedKeyValueView:
        """Return a key-value store with plain values.

        Args:
            name: name of the store.

        Raises: StateError for an unknown name or another kind.
        """
        return self._view(name, DisplayedKeyValueView, "key_value", "timestamped_key_value", "lru")

    def get_timestamped_key_value_store(self, name: str) -> DisplayedKeyValueView:
        """Return a key-value store with `ValueAndTimestamp` rows.

        Args:
            name: name of the store.

        Raises: StateError for an unknown name or another kind.
        """
        return self._view(name, DisplayedKeyValueView, "timestamped_key_value", show="times")

    def get_timestamped_key_value_store_with_headers(self, name: str) -> DisplayedKeyValueView:
        """Return a key-value store with `ValueTimestampHeaders` rows.

        Args:
            name: name of the store.

        Raises:
            StateError: no store has this name, it has a different kind, or it keeps no headers.
        """
        return self._view(name, DisplayedKeyValueView, "timestamped_key_value", show="headers")

    def get_versioned_key_value_store(self, name: str) -> DisplayedVersionedView:
        """Return a versioned store.

        Args:
            name: name of the store.

        Raises: StateError for an unknown name or another kind.
        """
        return self._view(name, DisplayedVersionedView, "versioned")

    def get_window_store(self, name: str) -> DisplayedWindowView:
        """Return a window store with plain values.

        Args:
            name: name of the store.

        Raises: StateError for an unknown name or another kind.
        """
        return self._view(name, DisplayedWindowView, "window", "timestamped_window")

    def get_timestamped_window_store(self, name: str) -> DisplayedWindowView:
        """Return a window store with `ValueAndTimestamp` rows.

        Args:
            name: name of the store.

        Raises: StateError for an unknown name or another kind.
        """
        return self._view(name, DisplayedWindowView, "timestamped_window", show="times")

    def get_timestamped_window_store_with_headers(self, name: str) -> DisplayedWindowView:
        """Return a window store with `ValueTimestampHeaders` rows.

        Args:
            name: name of the store.

        Raises:
            StateError: no store has this name, it has a different kind, or it keeps no headers.
        """
        return self._view(name, DisplayedWindowView, "timestamped_window", show="headers")

    def get_session_store(self, name: str) -> DisplayedSessionView:
        """Return a session store.

        Args:
            name: name of the store.

        Raises: StateError for an unknown name or another kind.
        """
        return self._view(name, DisplayedSessionView, "session")

    def get_session_store_with_headers(self, name: str) -> DisplayedSessionView:
        """Return a session store with `AggregationWithHeaders` rows.

        Args:
            name: name of the store.

        Raises:
            StateError: no store has this name, it has a different kind, or it keeps no headers.
        """
        return self._view(name, DisplayedSessionView, "session", show="headers")

    def metrics(self) -> dict[str, dict[str, int]]:
        """Return counters of processed and dropped records, by Kafka's metric name and by task."""
        tasks = dict(self.tasks.by_id)
        if self.tasks.global_task is not None:
            tasks["global"] = self.tasks.global_task
        counters = {task_id: task.counters() for task_id, task in tasks.items()}
        return {
            "process-total": {task_id: count["consumed"] for task_id, count in counters.items()},
            "dropped-records-total": {task_id: sum(count["dropped"].values()) for task_id, count in counters.items()},
        }

    def commit(self) -> None:
        """Commit all tasks: flush every cache and process what it held."""
        with self.lock:
            self._done.append((TopologyTestDriver.commit,))
            self.tasks.commit()
            self._verify()

    def verify_state(self) -> StateCheck:
        """Compare every store, row by row, with its changelog and with a second run over the same input.

        The second run happens in a new driver, so the functions of the topology run once more.

        Example:
            >>> from kstreamnb import StreamsBuilder
            >>> builder = StreamsBuilder("shop")
            >>> _ = builder.stream("orders").group_by_key().count(store="counts")
            >>> driver = TopologyTestDriver(builder.build())
            >>> driver.create_input_topic("orders").pipe_input("shoe", 1, at=0)
            >>> print(driver.verify_state())
            state is consistent: 1 store compared
        """
        again = TopologyTestDriver(self.topology, self.config, verify=True, **self._options)
        folds, again._folds = again._folds, None
        self.repeat_in(again)
        rows = [] if folds is None else list(folds.check())
        stores = 0
        for task_id, task in self.tasks.by_id.items():
            for name, store in task.stores.items():
                stores += 1
                rows += differences(task_id, store, again.tasks.by_id[task_id].stores[name], "input")
        return StateCheck(tuple(rows), stores)

    def _verify(self) -> None:
        if self._folds is not None:
            self._folds.ensure()

    def empty_copy(self, observe: Recording) -> TopologyTestDriver:
        """Return a new driver with the same topology and options, which records what it does.

        Args:
            observe: the recording that the new driver fills.
        """
        return TopologyTestDriver(self.topology, self.config, observe=observe, **self._options)

    def repeat_in(self, other: TopologyTestDriver) -> None:
        """Repeat every call on another driver; the functions of the topology run again.

        Args:
            other: the driver that gets the same calls.
        """
        expect(other, TopologyTestDriver, "the other driver")
        for method, *given in self._done:
            method(other, *given)

    @property
    def fed_topics(self) -> tuple[str, ...]:
        """The topics into which records were piped, in the order of their first record."""
        return tuple(self._fed)

    def close(self) -> None:
        """Close all tasks and users' processors; after that the driver accepts no more records."""
        with self.lock:
            self._closed = True
            self.tasks.close()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ApplicationStateError("the driver is closed", hint="make a new TopologyTestDriver(topology)")

    def _feed(
        self,
        topics: dict[str, None],
        records: list[TopicRecord],
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        times: list[int] | None = None,
    ) -> None:
        with self.lock:
            self._refuse_closed()
            self._done.append((TopologyTestDriver._feed, topics, records, key_serde, value_serde))
            self._fed |= topics
            feed(self.router, self.tasks, topics, records, key_serde, value_serde, times)
            self._verify()

    def _log(self, topic: str) -> TopicLog | None:
        """Return the log of a topic; raise EngineError for a changelog whose records were not kept."""
        if self._folds is not None:
            self._folds.catch_up()
        log = self.tasks.logs.get(topic)
        if log is not None and log.named and not log.rows and not self._options["changelogs"]:
            hint = "make the driver with TopologyTestDriver(…, changelogs=True)"
            raise EngineError(f'records of changelog "{topic}" are not kept', hint=hint)
        return log

    @property
    def _all_tasks(self) -> list[Task]:
        return [*self.tasks.by_id.values(), *filter(None, (self.tasks.global_task,))]

    def _stores(self, name: str) -> list[Store]:
        """Return the stores of all partitions; raise StateError if no store has this name."""
        expect(name, str, "name of a store")
        stores = [task.stores[name] for task in self._all_tasks if name in task.stores]
        if not stores:
            known = [*self.topology.stores, *self.topology.global_stores]
            if name in known:
                fact = f'store "{name}" does not exist in any task, because no processor uses it'
                raise StateError(fact, hint="connect it to a processor, or remove it")
            raise unknown("store", name, known, error=StateError)
        return stores

    def _view_of(self, name: str, show: Detail) -> AnyView | None:
        """Return a view that a test may write through; None if the store has no rows for users."""
        view = view_of(name, self._stores(name), show=show)
        if view is not None:
            view.apply = partial(self._change, name)
        return view

    def _change(self, name: str, change: StoreChange) -> None:
        """Change a store between records, and remember that for a repetition."""
        with self.lock:
            self._refuse_closed()
            self._done.append((TopologyTestDriver._change, name, change))
            change(self._stores(name))

    def _view(self, name: str, view: type[ViewT], *kinds: str, show: Detail = "values") -> ViewT:
        stores = self._stores(name)
        kind = stores[0].spec.kind
        opened = self._view_of(name, show)
        if kind not in kinds or not isinstance(opened, view):
            expected = " or ".join(each.replace("_", " ") for each in kinds)
            hint = f'driver.store("{name}") returns a store of any kind'
            fact = f'expected a store of kind {expected}, got "{name}" of kind {kind.replace("_", " ")}'
            raise StateError(fact, hint=hint)
        if show == "headers" and not stores[0].keeps_headers:
            hint = 'set dsl_store_format to "headers", or use Stores.persistent_…_store_with_headers'
            raise StateError(f'store "{name}" keeps no headers', hint=hint)
        return opened


def _topic_records(records: Iterable[TopicRecord]) -> tuple[list[TopicRecord], list[int]]:
    """Return records to pipe, and their times; raise ConfigError if something else is among them."""
    try:
        every = list(records)
    except TypeError:
        raise ConfigError(f'expected records, got type "{type(records).__name__}"', hint=_RECORDS) from None
    # One pass over all records: each further one reads them from memory again.
    times = [at for r in every if type(r) is TopicRecord and type(at := r[3]) is int and at <= MAX_TIME_MS]
    if len(times) == len(every):
        return every, times
    for kind in dict.fromkeys(map(type, every)):
        if not issubclass(kind, TopicRecord):
            raise ConfigError(f'expected records of topics, got type "{kind.__name__}" among them', hint=_RECORDS)
    times = [time_ms(record[3], f"time of record {at}") for at, record in enumerate(every)]
    return [record._replace(timestamp=time) for record, time in zip(every, times, strict=True)], times
