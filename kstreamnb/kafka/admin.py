"""Topics and offsets of a cluster: create, delete, describe, look up; thin over librdkafka's admin client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ConfigSource,
    ListOffsetsResultInfo,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from kstreamnb.core.time import instant_ms
from kstreamnb.errors import BrokerError, UnknownTopicError, unknown
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.kafka.client import Servers, client, connection, kafka_error

__all__ = ["Admin", "TopicDescription"]

T = TypeVar("T")
_PAUSE_S = 0.1
_FINAL = {KafkaError._AUTHENTICATION, KafkaError._SSL}  # noqa: SLF001 - no patience helps who is turned away
_PASSING = {
    KafkaError._TRANSPORT,  # noqa: SLF001 - librdkafka's own codes have such names
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError.FENCED_LEADER_EPOCH,  # of a broker that has just come back: ahead of what it knows, or behind it
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,  # a topic that has just been made
}


@dataclass(frozen=True)
class TopicDescription:
    """What a cluster says of a topic: partitions, replicas, and the settings of its own."""

    name: str
    partitions: int
    replicas: int
    config: tuple[tuple[str, str], ...] = ()


class Admin:
    """Topics and offsets of a cluster.

    Units: ``patience_s`` is how many seconds a broker may be away before a call fails.

    Example:
        >>> from kstreamnb.kafka import local_broker
        >>> with local_broker() as broker:
        ...     admin = Admin(broker.bootstrap_servers)
        ...     admin.create_topic("orders", partitions=2)
        ...     admin.offsets(["orders"])
        {'orders': {0: 0, 1: 0}}
    """

    def __init__(self, servers: Servers, *, patience_s: float = 30.0) -> None:
        self.servers = servers
        self.patience_s = patience_s
        self._said: list[KafkaError] = []
        self.client = client(AdminClient, connection(servers, defaults={"error_cb": self._said.append}))
        self._call_s = min(10.0, patience_s)

    def __repr__(self) -> str:
        return f"<Admin of {connection(self.servers)['bootstrap.servers']}>"

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int = 1,
        config: Mapping[str, str] | None = None,
        exists_ok: bool = False,
    ) -> None:
        """Create a topic, and wait until clients can see it."""
        topic = NewTopic(name, partitions, replicas, config=dict(config or {}))
        try:
            self.client.create_topics([topic])[name].result(self.patience_s)
        except (KafkaException, TimeoutError) as error:
            if not (exists_ok and _code(error) == KafkaError.TOPIC_ALREADY_EXISTS):
                raise kafka_error(f'creating topic "{name}"', error, self.servers) from error
        self._until(lambda: name in self.topics(), f'topic "{name}" did not appear')

    def delete_topics(self, *names: str) -> None:
        """Delete topics; those that do not exist are passed over."""
        if not names:
            return
        for name, future in self.client.delete_topics(list(names)).items():
            try:
                future.result(self.patience_s)
            except (KafkaException, TimeoutError) as error:
                if _code(error) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise kafka_error(f'deleting topic "{name}"', error, self.servers) from error
        self._until(lambda: not set(names) & self.topics().keys(), f"topics {', '.join(names)} are still there")

    def topics(self) -> dict[str, int]:
        """Number of partitions of every topic, by name in alphabetical order."""
        found = self.retry(lambda: self.client.list_topics(timeout=self._call_s).topics, "listing topics")
        return {name: len(found[name].partitions) for name in sorted(found) if found[name].error is None}

    def describe(self, name: str) -> TopicDescription:
        """Partitions, replicas and settings of a topic."""
        found = self.client.list_topics(name, timeout=self._call_s).topics[name]
        if found.error is not None:
            raise kafka_error(f'describing topic "{name}"', found.error, self.servers)
        resource = ConfigResource(ResourceType.TOPIC, name)
        config = self.client.describe_configs([resource])[resource].result(self.patience_s)
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        changed = sorted((entry.name, entry.value) for entry in config.values() if entry.source == own)
        return TopicDescription(name, len(found.partitions), len(found.partitions[0].replicas), tuple(changed))

    def identities(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of those topics that are there; one that is created anew under its name has another id."""
        names = TopicCollection(sorted(topics))

        def asked() -> dict[str, str]:
            found = {}
            for name, future in self.client.describe_topics(names).items():
                try:
                    found[name] = str(future.result(self._call_s).topic_id)
                except KafkaException as error:
                    if _code(error) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
            return found

        return self.retry(asked, "describing topics")

    def offsets(self, topics: Iterable[str], at: Any = "latest", *, committed: bool = True) -> Offsets:
        """Offsets of topics: ``"earliest"``, ``"latest"``, or the first ones at or after an instant.

        With ``committed`` the latest offset is the last stable one: no open transaction is below it. Where no
        record is at or after the instant, the latest offset stands in.
        """
        names, latest = sorted(topics), OffsetSpec.latest()
        special = {"earliest": OffsetSpec.earliest(), "latest": latest}
        spec = special.get(at) if isinstance(at, str) else None
        found = self._look_up(names, spec or OffsetSpec.for_timestamp(instant_ms(at)), committed=committed)
        if any(offset < 0 for parts in found.values() for offset in parts.values()):
            ends = self._look_up(names, latest, committed=committed)
            found = {t: {p: n if n >= 0 else ends[t][p] for p, n in parts.items()} for t, parts in found.items()}
        return found

    def greatest_timestamps(self, topics: Iterable[str]) -> list[int]:
        """The greatest timestamp (ms) in each partition, in no particular order; -1 where there is no record."""
        answers = self.retry(lambda: self._ask(sorted(topics), OffsetSpec.max_timestamp()), "looking up times")
        return [found.timestamp for found in answers.values()]

    def _look_up(self, topics: list[str], spec: OffsetSpec, *, committed: bool) -> Offsets:
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        answers = self.retry(lambda: self._ask(topics, spec, level), "looking up offsets")
        result: Offsets = {name: {} for name in topics}
        for (topic, partition), found in sorted(answers.items()):
            result[topic][partition] = found.offset
        return result

    def _ask(
        self, topics: list[str], spec: OffsetSpec, level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[tuple[str, int], ListOffsetsResultInfo]:
        # Topics first: offsets alone keep the leader epoch of before a broker's restart for ever.
        known = self.client.list_topics(timeout=self._call_s).topics
        for name in topics:
            if name not in known or known[name].error is not None:
                raise unknown("topic", name, sorted(known), error=UnknownTopicError)
        asked = {TopicPartition(name, part): spec for name in topics for part in known[name].partitions}
        answers = self.client.list_offsets(asked, isolation_level=level) if asked else {}
        return {(place.topic, place.partition): future.result(self._call_s) for place, future in answers.items()}

    def retry(self, call: Callable[[], T], what: str) -> T:
        """Repeat a call that a broker's absence made fail, until patience ends."""
        end, why = time.monotonic() + self.patience_s, None
        while True:
            try:
                return call()
            except (KafkaException, TimeoutError) as error:
                why = self._why() or why
                if time.monotonic() > end or not _passing(error) or (why is not None and why.code() in _FINAL):
                    raise kafka_error(what, error, self.servers, why=why) from error
            time.sleep(_PAUSE_S)

    def _why(self) -> KafkaError | None:
        """What librdkafka has said of its connections last: a call that found no broker does not know the reason."""
        self.client.poll(0)
        said = [error for error in self._said if error.code() != KafkaError._ALL_BROKERS_DOWN]  # noqa: SLF001
        self._said.clear()
        return said[-1] if said else None

    def _until(self, reached: Callable[[], bool], complaint: str) -> None:
        end = time.monotonic() + self.patience_s
        while not reached():
            if time.monotonic() > end:
                raise BrokerError(complaint)
            time.sleep(0.02)


def _code(error: KafkaException | TimeoutError) -> int | None:
    """Kafka's code, None where nobody answered."""
    return error.args[0].code() if isinstance(error, KafkaException) else None


def _passing(error: KafkaException | TimeoutError) -> bool:
    """Whether an error may go away by itself."""
    if isinstance(error, TimeoutError):
        return True
    reason = error.args[0]
    return bool(reason.retriable() or reason.code() in _PASSING)
