"""`TopologyTestDriver`: runs a topology in this process, record by record, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, ClassVar, Self

from kstreamnb.core.displayed import Displayed
from kstreamnb.core.formatting import format_time, pluralize
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import serde_named
from kstreamnb.core.time import Clock, duration_ms, instant_ms
from kstreamnb.errors import ConfigError, EngineError, StateError
from kstreamnb.recording.events import Event
from kstreamnb.recording.trace import Recording
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.task.task import Changelog
from kstreamnb.suggesting import Suggesting
from kstreamnb.testdriver.execution.partition_counts import given_partitions
from kstreamnb.testdriver.execution.router import Layout, Router
from kstreamnb.testdriver.execution.state_consistency import ChangelogFolds, StateCheck, differences
from kstreamnb.testdriver.execution.strategy import feed
from kstreamnb.testdriver.execution.task_group import TaskGroup
from kstreamnb.testdriver.input_topic import InputTopic
from kstreamnb.testdriver.output_topic import OutputTopic
from kstreamnb.testdriver.store_views import KeyValueView, SessionView, VersionedView, WindowView, view_of
from kstreamnb.topology.topology import Topology

__all__ = ["TopologyTestDriver"]

_CACHE_BYTES = 10_000_000
_RECORDS = (
    "give a Sample, or a list of TopicRecord; create_input_topic(topic).pipe_input(key, value) takes single values"
)


class TopologyTestDriver(Suggesting, Displayed):
    """Runs a topology deterministically: records in, records out, stores and clocks in hand.

    Args:
        topology: what ``builder.build()`` gave, or a `Topology` made by hand.
        config: a `Config`, or a mapping with its names or Kafka's dotted ones.
        partitions: partitions of topics by name, or one number for all; 1 where nothing is said. Records go to the
            partition that Kafka's producer would choose.
        task_layout: "split" makes a task for each sub-topology and partition, as in production; "single" makes one
            task for everything and one partition everywhere, as Kafka's own test driver does.
        wall_clock: where the wall clock starts: epoch milliseconds, ISO text or an aware datetime.
        cache: use record caches; they are flushed after every record, as in Kafka's test driver.
        changelogs: keep what goes to changelog topics, so that it can be read; costs time and memory.
        verify: after each call compare every store with what its changelog makes of it, and raise StateError if they
            differ; costs more of both. `verify_state` compares once, and with the input as well. Default:
            ``TopologyTestDriver.verify_by_default``, which is False unless a test suite sets it.
        observe: a `Recording` that keeps everything that happens inside the tasks, or a function that gets every event.

    Example:
        >>> topology = Topology().add_source("in", "orders").add_sink("out", "copies", "in")
        >>> with TopologyTestDriver(topology, partitions=2) as driver:
        ...     driver.create_input_topic("orders").pipe_input("shoe", 1, at=0)
        ...     driver.create_output_topic("copies").read_key_value()
        ('shoe', 1)
    """

    verify_by_default: ClassVar[bool] = False
    """The ``verify`` of drivers that are made without it; a test suite sets it once for all its drivers."""

    def __init__(
        self,
        topology: Topology,
        config: Config | Mapping[str, Any] | None = None,
        *,
        partitions: Mapping[str, int] | int | None = None,
        task_layout: Layout = "split",
        wall_clock: datetime | str | int = 0,
        cache: bool | None = None,
        changelogs: bool = False,
        verify: bool | None = None,
        observe: Recording | Callable[[Event], None] | None = None,
    ) -> None:
        if not isinstance(topology, Topology):
            raise ConfigError(
                f'type "{type(topology).__name__}" is no topology', hint="give what builder.build() gives"
            )
        if verify is None:
            verify = self.verify_by_default
        self.topology = topology
        self.config = Config.of(config)
        if cache is not None:
            self.config = replace(self.config, cache_max_bytes=_CACHE_BYTES if cache else 0)
        counts, default = given_partitions(topology, self.config, partitions)
        start = wall_clock if type(wall_clock) is int else instant_ms(wall_clock, "start of the wall clock")
        self.clock = Clock(start)
        self.router = Router(topology, self.config, partitions=counts, default_partitions=default, layout=task_layout)
        changelog: Changelog = "records" if changelogs or verify else "names"
        self.tasks = TaskGroup(self.router, self.clock, Recording.of(observe), changelog)
        self._folds = ChangelogFolds(self.tasks.by_id, self.tasks.logs, keep=changelogs) if verify else None
        self._options: dict[str, Any] = {
            "partitions": partitions,
            "task_layout": task_layout,
            "wall_clock": start,
            "changelogs": changelogs,
        }
        self._done: list[Callable[[TopologyTestDriver], None]] = []
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
        *,
        start: datetime | str | int | None = None,
        auto_advance: timedelta | str | None = None,
    ) -> InputTopic:
        """A topic to pipe records into; its serdes, or their names, are those with which the application reads it."""
        now = self.clock.now_ms if start is None else start if type(start) is int else instant_ms(start, "start")
        step = 0 if auto_advance is None else duration_ms(auto_advance, "advance between records")
        keys, values = _serde(key_serde), _serde(value_serde)

        def write(records: list[TopicRecord]) -> None:
            self._pipe_topic(topic, records, keys, values)

        return InputTopic(topic, write, now, step)

    def create_output_topic(
        self, topic: str, key_serde: Serde | str | None = None, value_serde: Serde | str | None = None
    ) -> OutputTopic:
        """A topic to read from; its serdes, or their names, are those with which the application writes it."""
        keys, values = _serde(key_serde), _serde(value_serde)

        def serdes() -> tuple[Serde, Serde]:
            found = self.router.writer_serdes(topic) or (self.config.default_key_serde, self.config.default_value_serde)
            return keys or found[0], values or found[1]

        return OutputTopic(topic, self._log, serdes)

    def pipe(self, records: Iterable[TopicRecord]) -> None:
        """Process records of any topics in the order of a merge by time, each to the end before the next.

        A record with a negative partition goes where its key belongs; offsets are counted anew.
        """
        records = _topic_records(records)
        self._done.append(lambda driver: driver.pipe(records))
        topics = dict.fromkeys(map(itemgetter(0), records))
        self._fed |= topics
        feed(self.router, self.tasks, topics, records)
        self._verify()

    def advance_wall_clock_time(self, by: timedelta | str) -> None:
        """Move the wall clock on and fire the punctuators that are due, each once."""
        self._done.append(lambda driver: driver.advance_wall_clock_time(by))
        self.clock.advance_to(self.clock.now_ms + duration_ms(by, "advance of the wall clock"))
        self.tasks.advance()
        self._verify()

    def produced_topic_names(self) -> set[str]:
        """Names of all topics written so far: outputs, repartition topics and changelogs."""
        return {name for name, log in self.tasks.logs.items() if log.rows or log.named}

    def get_all_state_stores(self) -> dict[str, Any]:
        """A view of every store by name."""
        return {name: self.get_state_store(name) for name in (*self.topology.stores, *self.topology.global_stores)}

    def get_state_store(self, name: str) -> Any:
        """A view of a store, whatever its kind; raises StateError when there is none of that name."""
        stores = self._stores(name)
        if not stores:
            known = ", ".join((*self.topology.stores, *self.topology.global_stores)) or "no stores"
            raise StateError(f'there is no store "{name}"', detail=f"there are {known}")
        found = self._view(name, show_time=True)
        return stores[0] if found is None else found

    def get_key_value_store(self, name: str) -> KeyValueView | None:
        """A key-value store with values alone, or None when there is none of that name and kind."""
        return self._view(name, "key_value", "timestamped_key_value", "lru")  # type: ignore[no-any-return]

    def get_timestamped_key_value_store(self, name: str) -> KeyValueView | None:
        """A timestamped key-value store with `ValueAndTimestamp` rows, or None."""
        return self._view(name, "timestamped_key_value", show_time=True)  # type: ignore[no-any-return]

    def get_versioned_key_value_store(self, name: str) -> VersionedView | None:
        """A versioned store, or None."""
        return self._view(name, "versioned")  # type: ignore[no-any-return]

    def get_window_store(self, name: str) -> WindowView | None:
        """A window store with values alone, or None."""
        return self._view(name, "window", "timestamped_window")  # type: ignore[no-any-return]

    def get_timestamped_window_store(self, name: str) -> WindowView | None:
        """A timestamped window store with `ValueAndTimestamp` rows, or None."""
        return self._view(name, "timestamped_window", show_time=True)  # type: ignore[no-any-return]

    def get_session_store(self, name: str) -> SessionView | None:
        """A session store, or None."""
        return self._view(name, "session")  # type: ignore[no-any-return]

    def metrics(self) -> dict[str, dict[str, int]]:
        """Metrics under Kafka's names, by task."""
        tasks = dict(self.tasks.by_id)
        if self.tasks.global_task is not None:
            tasks["global"] = self.tasks.global_task
        counters = {task_id: task.counters() for task_id, task in tasks.items()}
        return {
            "process-total": {task_id: found["consumed"] for task_id, found in counters.items()},
            "dropped-records-total": {task_id: sum(found["dropped"].values()) for task_id, found in counters.items()},
        }

    def commit(self) -> None:
        """Flush every cache, as a commit does."""
        self._done.append(TopologyTestDriver.commit)
        self.tasks.commit()
        self._verify()

    def verify_state(self) -> StateCheck:
        """Compare every store with what its changelog, and what the input so far, makes of it, row by row.

        For that everything is done again in a new driver: the functions of the topology run once more.

        Example:
            >>> from kstreamnb import StreamsBuilder
            >>> builder = StreamsBuilder("shop")
            >>> _ = builder.stream("orders").group_by_key().count(store="counts")
            >>> driver = TopologyTestDriver(builder.build())
            >>> driver.create_input_topic("orders").pipe_input("shoe", 1, at=0)
            >>> print(driver.verify_state())
            state is consistent: 1 store looked at
        """
        again = TopologyTestDriver(self.topology, self.config, verify=True, **self._options)
        folds, again._folds = again._folds, None
        self.repeat_in(again)
        found = [] if folds is None else list(folds.check())
        stores = 0
        for task_id, task in self.tasks.by_id.items():
            for name, store in task.stores.items():
                stores += 1
                found += differences(task_id, store, again.tasks.by_id[task_id].stores[name], "input")
        return StateCheck(tuple(found), stores)

    def _verify(self) -> None:
        if self._folds is not None:
            self._folds.ensure()

    def empty_copy(self, observe: Recording) -> TopologyTestDriver:
        """Return a driver of the same topology and options that has processed nothing and records what it does."""
        return TopologyTestDriver(self.topology, self.config, observe=observe, **self._options)

    def repeat_in(self, other: TopologyTestDriver) -> None:
        """Do in another driver everything that was done in this one; the functions of the topology run again."""
        for do in self._done:
            do(other)

    @property
    def fed_topics(self) -> tuple[str, ...]:
        """Topics that were piped into, in the order of their first record."""
        return tuple(self._fed)

    def close(self) -> None:
        """End the application: users' processors are closed."""
        self.tasks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _pipe_topic(
        self, topic: str, records: list[TopicRecord], key_serde: Serde | None = None, value_serde: Serde | None = None
    ) -> None:
        self._done.append(lambda driver: driver._pipe_topic(topic, records, key_serde, value_serde))  # noqa: SLF001 - itself
        self._fed[topic] = None
        feed(self.router, self.tasks, (topic,), records, key_serde, value_serde)
        self._verify()

    def _log(self, topic: str) -> Any:
        """What was written to a topic; raises EngineError for a changelog whose records were not kept."""
        log = self.tasks.logs.get(topic)
        if log is not None and log.named and not log.rows and not self._options["changelogs"]:
            hint = "make the driver with TopologyTestDriver(…, changelogs=True)"
            raise EngineError(f'records of changelog "{topic}" are not kept', hint=hint)
        return log

    def _stores(self, name: str) -> list[Any]:
        tasks = list(self.tasks.by_id.values())
        if self.tasks.global_task is not None:
            tasks.append(self.tasks.global_task)
        return [task.stores[name] for task in tasks if name in task.stores]

    def _view(self, name: str, *kinds: str, show_time: bool = False) -> Any:
        stores = self._stores(name)
        if not stores:
            return None
        kind = stores[0].spec.kind
        if kinds and kind not in kinds:
            return None
        return view_of(name, stores, show_time=show_time)


def _topic_records(records: Iterable[TopicRecord]) -> list[TopicRecord]:
    """Records to pipe; raises ConfigError when there is something else among them."""
    try:
        found = list(records)
    except TypeError:
        raise ConfigError(f'type "{type(records).__name__}" holds no records', hint=_RECORDS) from None
    for kind in dict.fromkeys(map(type, found)):
        if not issubclass(kind, TopicRecord):
            raise ConfigError(f'type "{kind.__name__}" is no record of a topic', hint=_RECORDS)
    return found


def _serde(given: Serde | str | None) -> Serde | None:
    return serde_named(given) if isinstance(given, str) else given
