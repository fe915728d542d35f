"""Runs applications and topics as in production, step by step, in one process and on a simulated clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar, Literal

from kstreamnb.closing import Closing
from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.codec import encode, key_partitioner, to_bytes
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.core.time import Clock, duration_ms, instant_ms
from kstreamnb.errors import EngineError
from kstreamnb.replays.replay import Replay
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.partition_counts import resolve_partitions
from kstreamnb.simulation.cluster.application import Application
from kstreamnb.simulation.cluster.broker import Broker, Isolation
from kstreamnb.simulation.cluster.events import ThreadEvents
from kstreamnb.simulation.cluster.thread_context import Cluster
from kstreamnb.simulation.cluster.topic_reader import TopicReader
from kstreamnb.simulation.cluster.trace import ClusterTrace
from kstreamnb.testdriver.input_topic import InputTopic
from kstreamnb.testdriver.output_topic import OutputTopic
from kstreamnb.topology.topology import Topology


class ClusterDriver(Closing):
    """Runs applications as stream threads do: poll, process, commit, one call at a time.

    Unlike `TopologyTestDriver`, which processes each record completely and commits, this driver keeps records in topics
    and buffers. So it shows commit intervals, caches, transactions, idling tasks, full buffers, punctuations between
    loops over several records, crashes and restores. Only `advance_wall_clock_time` moves its wall clock.

    Args:
        topology: the first application; add others with `add_application`.
        config: its settings, such as ``processing_guarantee``, ``commit_interval``, ``max_task_idle``,
            ``buffered_records_per_partition`` and ``cache_max_bytes``. Default: `Config()`.
        partitions: partitions of topics by name, or one number for all; default 1.
        wall_clock: the initial wall-clock time: epoch milliseconds, ISO text or an aware datetime; default 0.
        trace: log every hop and store write as events, and record everything for `replay`; default True.
        verify: compare each store with its changelog and with the input after every commit; default
            ``ClusterDriver.verify_by_default``, which is False unless a test suite sets it.

    Example:
        >>> topology = Topology().add_source("in", "orders").add_sink("out", "copies", "in")
        >>> driver = ClusterDriver(topology, {"processing_guarantee": "exactly_once_v2", "commit_interval": "100ms"})
        >>> driver.create_input_topic("orders").pipe_input("shoe", 1, at=0)
        >>> driver.run_ready(), driver.create_output_topic("copies").queue_size()
        (1, 0)
        >>> driver.advance_wall_clock_time("100ms")
        >>> driver.create_output_topic("copies").read_key_value()
        ('shoe', 1)
    """

    verify_by_default: ClassVar[bool] = False
    """The default of ``verify``; a test suite sets it once for all its drivers."""

    def __init__(
        self,
        topology: Topology,
        config: Config | Mapping[str, object] | None = None,
        *,
        partitions: Mapping[str, int] | int | None = None,
        wall_clock: datetime | str | int = 0,
        trace: bool = True,
        verify: bool | None = None,
    ) -> None:
        check_arguments(ClusterDriver.__init__, locals())
        given, count = resolve_partitions(topology, Config.of(config), partitions)
        self.clock, self._broker = Clock(instant_ms(wall_clock, "start of the wall clock")), Broker()
        self.applications: dict[str, Application] = {}
        recorded, verifies = ClusterTrace() if trace else None, self.verify_by_default if verify is None else verify
        self._cluster = Cluster(self._broker, self.clock, default_partitions=count, trace=recorded, verifies=verifies)
        for topic, number in given.items():
            self._broker.create(topic, number)
        self.add_application(topology, config)

    @property
    def application(self) -> Application:
        """The first application."""
        return next(iter(self.applications.values()))

    @property
    def events(self) -> ThreadEvents:
        """All events, in order."""
        return ThreadEvents(self._cluster.events)

    def add_application(
        self, topology: Topology, config: Config | Mapping[str, object] | None = None, *, start: bool = True
    ) -> Application:
        """Add an application on the same topics, and start it unless ``start=False``.

        Args:
            topology: the topology to run.
            config: the application's settings. Default: `Config()`.
            start: start it now. Default: True.

        Raises: EngineError if its id is taken.
        """
        check_arguments(ClusterDriver.add_application, locals())
        chosen = Config.of(config)
        name = chosen.application_id or topology.name or "app"
        if name in self.applications:
            raise EngineError(f'application "{name}" already exists', hint="choose another application_id")
        made = self.applications[name] = Application(topology, chosen, self._cluster, start=start)
        return made

    def create_input_topic(
        self,
        topic: str,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        *,
        start: datetime | str | int | None = None,
        auto_advance: timedelta | str | None = None,
    ) -> InputTopic:
        """Return a topic to pipe records into; serdes default to those with which an application reads it.

        Args:
            topic: name of the topic.
            key_serde: serde of the keys. Default: that with which an application reads the topic.
            value_serde: serde of the values. Default: that with which an application reads the topic.
            start: event time of the first record that is piped without one. Default: now, on the simulated clock.
            auto_advance: time between two such records, such as "1s". Default: 0 ms.

        Raises: EngineError if no application reads the topic.
        """
        check_arguments(ClusterDriver.create_input_topic, locals())
        keys, values = (key_serde, value_serde) if key_serde and value_serde else self._read_serdes(topic)

        def write(records: list[TopicRecord]) -> None:
            self._append(topic, records, key_serde or keys, value_serde or values)

        return InputTopic(topic, write, self.clock.now_ms, start, auto_advance)

    def create_output_topic(
        self,
        topic: str,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        *,
        isolation: Isolation = "read_committed",
    ) -> OutputTopic:
        """Return a topic to read from its beginning; "read_uncommitted" also shows records that may yet be aborted.

        Args:
            topic: name of the topic.
            key_serde: serde of the keys. Default: that with which an application writes the topic.
            value_serde: serde of the values. Default: that with which an application writes the topic.
            isolation: "read_committed" or "read_uncommitted". Default: "read_committed".
        """
        check_arguments(ClusterDriver.create_output_topic, locals())
        reader = TopicReader(self._broker, topic, isolation)

        def serdes() -> tuple[Serde, Serde]:
            result = self._written_serdes(topic)
            return key_serde or result[0], value_serde or result[1]

        return OutputTopic(topic, lambda _: reader if topic in self._broker.topics else None, serdes)

    def replay(self) -> Replay:
        """Return the first application's replay; for others use ``driver.applications[name].replay()``.

        Example:
            >>> topology = Topology().add_source("in", "orders").add_sink("out", "copies", "in")
            >>> driver = ClusterDriver(topology, {"processing_guarantee": "exactly_once_v2"})
            >>> driver.create_input_topic("orders").pipe_input("shoe", 1, at=0)
            >>> driver.run_ready()
            1
            >>> driver.application.commit()
            >>> run = driver.replay()
            >>> [step.kind for step in run.steps], [len(run.at(step).output("copies")) for step in range(3)]
            (['record', 'commit'], [0, 0, 1])
        """
        return self.application.replay()

    def run_ready(self, limit: int | None = None) -> int:
        """Let all applications poll and process until nothing is ready; return the number of records processed.

        Args:
            limit: maximum number of records to process. Default: None, no limit.
        """
        check_arguments(ClusterDriver.run_ready, locals())
        done = 0
        while limit is None or done < limit:
            made = 0
            for application in self.applications.values():
                made += application.run_ready(None if limit is None else limit - done - made)
            done += made
            if not made:
                break
        return done

    def advance_wall_clock_time(self, by: timedelta | str) -> None:
        """Advance the wall clock, fire punctuators and make commits that are due.

        Args:
            by: duration such as "30s".
        """
        self.clock.advance_to(self.clock.now_ms + duration_ms(by, "advance of the wall clock"))
        for application in self.applications.values():
            application.tick()

    def delay(self, topic: str, partition: int = 0, *, lag: Literal["known", "unknown"] = "known") -> None:
        """Delay fetches from a partition until `deliver` is called; ``lag`` says if consumers know the lag meanwhile.

        Args:
            topic: name of the topic.
            partition: number of the partition. Default: 0.
            lag: "known" if consumers know that records wait there, else "unknown". Default: "known".
        """
        check_arguments(ClusterDriver.delay, locals())
        self._broker.partition(topic, partition)
        self._broker.held[topic, partition] = lag == "known"

    def deliver(self, topic: str, partition: int = 0) -> None:
        """Resume delayed fetches of a partition.

        Args:
            topic: name of the topic.
            partition: number of the partition. Default: 0.
        """
        check_arguments(ClusterDriver.deliver, locals())
        self._broker.held.pop((topic, partition), None)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Increase a topic's partition count, as ``kafka-topics --alter`` does; records stay in place.

        Args:
            topic: name of the topic.
            partitions: new number of partitions, greater than the current one.
        """
        check_arguments(ClusterDriver.add_partitions, locals())
        self._broker.add_partitions(topic, partitions)

    def produced_topic_names(self) -> set[str]:
        """Return the names of all topics with records."""
        return {topic for topic, result in self._broker.topics.items() if any(each.records for each in result)}

    def close(self) -> None:
        """Close all applications."""
        for application in self.applications.values():
            application.close()

    def _append(self, topic: str, records: list[TopicRecord], keys: Serde, values: Serde) -> None:
        self._broker.create(topic, self._cluster.default_partitions)
        partition_of = key_partitioner(keys, len(self._broker.topics[topic]))
        for _, partition, _, timestamp, key, value, headers in records:
            wire_key, wire_value = encode(keys, key), encode(values, value)
            data = to_bytes(keys, wire_key), to_bytes(values, wire_value)
            chosen = partition_of(wire_key) if partition < 0 else partition
            offset = self._broker.append(topic, chosen, timestamp, data, headers)
            if (trace := self._cluster.trace) is not None:
                trace.arrived[topic, chosen, offset] = len(trace.log)

    def _read_serdes(self, topic: str) -> tuple[Serde, Serde]:
        for application in self.applications.values():
            result = application.read_serdes(topic)
            if result is not None:
                return result
        sources = [source for each in self.applications.values() for source in each.topology.sources()]
        read = ", ".join(dict.fromkeys(topic for source in sources for topic in source.topics))
        raise EngineError(f'no application reads topic "{topic}"', hint=f"they read {read or 'no topics'}")

    def _written_serdes(self, topic: str) -> tuple[Serde, Serde]:
        config, every = self.application.config, self.applications.values()
        known = filter(None, (application.written_serdes(topic) for application in every))
        return next(known, (config.default_key_serde, config.default_value_serde))
