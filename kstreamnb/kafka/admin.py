"""Administers topics and looks up offsets: a thin layer over librdkafka's admin client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeAlias, TypeVar

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ListOffsetsResultInfo,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicMetadata,
)

from kstreamnb.background import wait_until
from kstreamnb.core.arguments import check_arguments, expect, expect_texts
from kstreamnb.core.progress import under_way
from kstreamnb.core.time import Instant, duration_ms, instant_ms
from kstreamnb.errors import BrokerError, ConfigError, UnknownTopicError, unknown
from kstreamnb.kafka.batch_offsets import Offsets, PartitionId
from kstreamnb.kafka.client import (
    Servers,
    about_topic,
    client,
    codes,
    connection,
    is_unreachable,
    kafka_error,
    shown_servers,
)

T = TypeVar("T")
_Answers: TypeAlias = dict[PartitionId, ListOffsetsResultInfo]
_UNCOMMITTED, _COMMITTED = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED
_PAUSE_S = 0.1
_UNREACHABLE_S = 3.0
_KNOWN_S = 3.0  # how long the first attempt waits for a broker that has answered before
_ANSWERS = 5  # of each broker, on average, before a new topic counts as known: all but 1 of 150 have then answered
_MOST_ANSWERS = 30  # of a large cluster
_FINAL, _UNNAMED, _PASSING, _NO_ANSWER = map(codes, ("final", "unnamed", "passing", "no-answer"))


@dataclass(frozen=True)
class TopicDescription:
    """A topic: its partitions, replicas, and the settings that differ from the broker's."""

    name: str
    partitions: int
    replicas: int
    config: tuple[tuple[str, str], ...] = ()


class Admin:
    """Administers topics and looks up offsets of a cluster.

    Args:
        servers: ``host:port,…``, or settings with ``bootstrap.servers`` among them.
        patience_s: how many seconds a broker may be unreachable before a call fails; default 30. If none was ever
            reached and connections are refused, the first call fails after 3 s.

    Example:
        >>> from kstreamnb.kafka import local_broker
        >>> with local_broker() as broker:
        ...     admin = Admin(broker.bootstrap_servers)
        ...     admin.create_topic("orders", partitions=2)
        ...     admin.offsets(["orders"])
        {'orders': {0: 0, 1: 0}}
    """

    def __init__(self, servers: Servers, *, patience_s: float = 30.0) -> None:
        check_arguments(Admin.__init__, locals())
        self.servers = servers
        self.patience_s = patience_s
        self._errors: list[KafkaError] = []
        self._reached = False
        self.client = self._new_client()
        self._before: AdminClient | None = None
        self._call_s = min(10.0, patience_s)
        self._wait_s = min(1.0, patience_s)

    def _new_client(self) -> AdminClient:
        defaults = {"error_cb": self._errors.append}
        return client(AdminClient, connection(self.servers, defaults=defaults, allow_auto_create_topics=False))

    def __repr__(self) -> str:
        return f"<Admin of {shown_servers(self.servers)}>"

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int = -1,
        config: Mapping[str, object] | None = None,
        exists_ok: bool = False,
    ) -> None:
        """Create a topic, and wait until clients can see it.

        Args:
            name: its name.
            partitions: how many partitions; default 1.
            replicas: how many replicas; default -1, the broker's ``default.replication.factor``.
            config: settings that differ from the broker's, as strings, numbers or bools; those in ms also as timedelta.
                Default: none.
            exists_ok: accept a topic that exists already; default False.

        Raises: BrokerError or a kind of it if the topic exists already, or the broker refuses it or does not answer;
        ConfigError for a setting of another type.
        """
        check_arguments(Admin.create_topic, locals())
        texts = {key: _setting_text(key, value) for key, value in (config or {}).items()}
        before = self.retry(partial(self._listed, name), f'creating topic "{name}"').topics[name]
        topic, accepted = NewTopic(name, partitions, replicas, config=texts), exists_ok

        def create() -> None:
            nonlocal accepted
            try:
                self.client.create_topics([topic])[name].result(self._call_s)
            except (KafkaException, TimeoutError) as error:
                if not (accepted and _code(error) == KafkaError.TOPIC_ALREADY_EXISTS):
                    accepted = accepted or (before.error is not None and _passing(error))  # it may have been created
                    raise

        self.retry(create, f'creating topic "{name}"')
        self._until(lambda: self._is_known(name), f'topic "{name}" did not appear')

    def replication(self, topic: str) -> tuple[int, int]:
        """Return a topic's replication factor and the number of brokers in the cluster.

        Args:
            topic: name of the topic.
        """
        cluster = self.retry(partial(self._listed, topic), f'describing topic "{topic}"')
        partitions = cluster.topics[topic].partitions.values()
        return min((len(partition.replicas) for partition in partitions), default=0), len(cluster.brokers)

    def delete_topics(self, *names: str) -> None:
        """Delete topics; those that do not exist are ignored.

        Args:
            names: names of the topics.

        Raises: BrokerError or a kind of it if the broker refuses it or does not answer.
        """
        for name in names:
            expect(name, str, "name of a topic", hint='name them one by one: delete_topics("orders", "payments")')
        if not names:
            return

        def delete() -> None:
            for name, future in self.client.delete_topics(list(names)).items():
                try:
                    future.result(self._call_s)
                except KafkaException as error:
                    if _code(error) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise about_topic(error.args[0], name) from error

        what = "deleting topic " + ", ".join(f'"{name}"' for name in names)
        self.retry(partial(self._listed, names[0]), what)  # reports a broker that refuses connections soon
        self.retry(delete, what)
        self._until(lambda: not self.existing(names), f"topics {', '.join(names)} are still there")

    def topics(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """Return the number of partitions of every topic, by name in alphabetical order.

        Args:
            names: ask for these topics only; those that do not exist are left out. Default: every topic in the cluster.

        Raises: BrokerError if no broker answers; ConfigError for one name that is not in a list.
        """
        topics = dict[str, TopicMetadata]() if names is not None else self.retry(self._listed, "listing topics").topics
        for name in expect_texts(names or (), "names of topics"):
            topics |= self.retry(partial(self._listed, name), f'looking for topic "{name}"').topics
        return {name: len(topics[name].partitions) for name in sorted(topics) if topics[name].error is None}

    def describe(self, name: str) -> TopicDescription:
        """Return partitions, replicas and settings of a topic.

        Args:
            name: name of the topic.

        Raises: BrokerError or a kind of it if the topic does not exist, or the broker does not answer.
        """
        what = f'describing topic "{name}"'
        metadata = self.retry(lambda: self._metadata(name), what)
        if metadata is None:
            raise kafka_error(what, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), self.servers)
        resource = ConfigResource(ResourceType.TOPIC, name)
        config = self._configs([resource], what)[resource]
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        changed = sorted((entry.name, entry.value) for entry in config.values() if entry.source == own)
        return TopicDescription(name, len(metadata.partitions), len(metadata.partitions[0].replicas), tuple(changed))

    def settings(self, topics: Iterable[str], names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return settings of topics by topic and name, whether they were set or are the broker's defaults.

        Args:
            topics: the topics; for those that do not exist yet the defaults are returned.
            names: names of the settings, such as ``message.timestamp.after.max.ms``.
        """
        topics, names = expect_texts(topics, "topics"), expect_texts(names, "names of settings")
        resources = {topic: ConfigResource(ResourceType.TOPIC, topic) for topic in self.topics(topics)}
        if missing := [topic for topic in topics if topic not in resources]:
            cluster = self.retry(partial(self._listed, missing[0]), "listing brokers")
            resources |= dict.fromkeys(missing, ConfigResource(ResourceType.BROKER, str(min(cluster.brokers))))
        asked = self._configs({*resources.values()}, "looking up settings")
        values: dict[str, dict[str, str]] = {}
        for topic, resource in resources.items():
            entries = asked[resource]
            both = {name: entries.get(name) or entries.get(f"log.{name}") for name in names}
            values[topic] = {name: entry.value for name, entry in both.items() if entry is not None}
        return values

    def _configs(self, resources: Iterable[ConfigResource], what: str) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        def ask() -> dict[ConfigResource, dict[str, ConfigEntry]]:
            futures = {each: self.client.describe_configs([each])[each] for each in resources}
            return {each: future.result(self._call_s) for each, future in futures.items()}

        return self.retry(ask, what)

    def existing(self, topics: Iterable[str]) -> set[str]:
        """Return which of some topics exist.

        Args:
            topics: names of the topics.
        """
        names = expect_texts(topics, "topics")
        return {name for name in names if self.retry(partial(self._metadata, name), f'looking for topic "{name}"')}

    def identities(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of those topics that exist; a topic that is deleted and created again gets another id.

        Kafka's Python client keeps some 100 bytes of each topic for each call, so callers should rarely ask.

        Args:
            topics: names of the topics.
        """
        names = TopicCollection(sorted(expect_texts(topics, "topics")))

        def ask() -> dict[str, str]:
            ids = {}
            for name, future in self.client.describe_topics(names).items():
                try:
                    ids[name] = str(future.result(self._call_s).topic_id)
                except KafkaException as error:
                    if _code(error) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
            return ids

        return self.retry(ask, "describing topics")

    def offsets(self, topics: Iterable[str], at: Instant = "latest", *, committed: bool = True) -> Offsets:
        """Return offsets of topics by topic and partition.

        Args:
            topics: names of the topics.
            at: "earliest", "latest" (default), or an instant: the first offsets at or after it, or the latest if no
                record is that recent.
            committed: "latest" is the last stable offset, below which no transaction is open; default True.
        """
        names, latest = sorted(expect_texts(topics, "topics")), OffsetSpec.latest()
        special = {"earliest": OffsetSpec.earliest(), "latest": latest}
        spec = special.get(at) if isinstance(at, str) else None
        offsets = self._look_up(names, spec or OffsetSpec.for_timestamp(instant_ms(at)), committed=committed)
        if any(offset < 0 for parts in offsets.values() for offset in parts.values()):
            ends = self._look_up(names, latest, committed=committed)
            offsets = {t: {p: n if n >= 0 else ends[t][p] for p, n in parts.items()} for t, parts in offsets.items()}
        return offsets

    def open_transactions(self, partitions: Iterable[PartitionId]) -> dict[PartitionId, int]:
        """Return the partitions in which a transaction is open, each with the offset at which it begins.

        Args:
            partitions: topics and partitions to look at.

        Raises: BrokerError if the broker does not answer.
        """
        asked = {TopicPartition(*partition): OffsetSpec.latest() for partition in partitions}
        if not asked:
            return {}
        again = False

        def ask() -> list[_Answers]:
            nonlocal again
            if again:  # as in `_ask`: offset requests alone would use the leader epoch from before a broker's restart
                for topic in {each.topic for each in asked}:
                    self._metadata(topic)
            again = True
            # Ends first: what is appended between the answers must not look open.
            futures = [self.client.list_offsets(asked, isolation_level=level) for level in (_UNCOMMITTED, _COMMITTED)]
            return [self._answers(each) for each in futures]

        ends, stable = self.retry(ask, "looking for open transactions")
        return {each: answer.offset for each, answer in stable.items() if answer.offset < ends[each].offset}

    def greatest_timestamps(self, topics: Iterable[str]) -> list[int]:
        """Return the highest timestamp (ms) of each partition, in no particular order; -1 for an empty one.

        Brokers before Kafka 3.0 return that of the first record instead.

        Args:
            topics: names of the topics.

        Raises: UnknownTopicError if a topic does not exist, BrokerError if the broker does not answer.
        """
        names = sorted(expect_texts(topics, "topics"))
        answers = self.retry(lambda: self._ask(names, OffsetSpec.max_timestamp()), "looking up times")
        return [answer.timestamp for answer in answers.values()]

    def _look_up(self, topics: list[str], spec: OffsetSpec, *, committed: bool) -> Offsets:
        level = _COMMITTED if committed else _UNCOMMITTED
        answers = self.retry(lambda: self._ask(topics, spec, level), "looking up offsets")
        result: Offsets = {name: {} for name in topics}
        for (topic, partition), answer in sorted(answers.items()):
            result[topic][partition] = answer.offset
        return result

    def _ask(self, topics: list[str], spec: OffsetSpec, level: IsolationLevel = _UNCOMMITTED) -> _Answers:
        # Topics first: offset requests alone would use the leader epoch from before a broker's restart forever.
        asked = dict[TopicPartition, OffsetSpec]()
        for name in topics:
            metadata = self._metadata(name)
            if metadata is None:
                raise unknown("topic", name, self.topics(), error=UnknownTopicError)
            asked |= dict.fromkeys((TopicPartition(name, part) for part in metadata.partitions), spec)
        return self._answers(self.client.list_offsets(asked, isolation_level=level) if asked else {})

    def _is_known(self, topic: str) -> bool:
        """Return whether the brokers know a topic: any of them answers, and some may know a new topic later."""
        brokers = self.retry(partial(self._listed, topic), f'looking for topic "{topic}"').brokers
        asked = 1 if len(brokers) == 1 else min(_ANSWERS * len(brokers), _MOST_ANSWERS)
        return all(self.existing([topic]) for _ in range(asked))

    def _metadata(self, topic: str) -> TopicMetadata | None:
        """Return what the cluster knows of one topic, None if it does not exist; other topics add no cost."""
        metadata = self._listed(topic).topics[topic]
        if metadata.error is not None and metadata.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise about_topic(metadata.error, topic)
        return metadata if metadata.error is None else None

    def _answers(self, futures: Mapping[TopicPartition, Future[ListOffsetsResultInfo]]) -> _Answers:
        answers = {(each.topic, each.partition): future.result(self._call_s) for each, future in futures.items()}
        for (topic, partition), answer in answers.items():
            if answer.offset == OFFSET_INVALID:  # its leader went away meanwhile: librdkafka reports no error
                raise TimeoutError(f'no answer for partition {partition} of topic "{topic}"')
        return answers

    def retry(self, call: Callable[[], T], what: str) -> T:
        """Repeat a call that failed because no broker answered, until ``patience_s`` ends.

        Args:
            call: function without arguments that asks the broker.
            what: what it does, such as "listing topics", for the error.

        Raises: BrokerError if the last attempt failed, too.
        """
        with under_way(f"waiting for Kafka at {shown_servers(self.servers)}, {what}"):
            return self._repeated(call, what)

    def _repeated(self, call: Callable[[], T], what: str) -> T:
        began, why = time.monotonic(), None
        while True:
            try:
                result = call()
            except (KafkaException, TimeoutError) as error:
                why = self._reason() or why
                waited = time.monotonic() - began
                refused = why is not None and not self._reached and is_unreachable(why) and waited > _UNREACHABLE_S
                final = refused or (why is not None and why.code() in _FINAL)
                if final or not _passing(error) or waited > self.patience_s:
                    raise kafka_error(what, error, self.servers, why=why) from error
                if _code(error) is None or _code(error) in _NO_ANSWER:
                    self._change_client()
            else:
                self._reached, self._before = True, None
                self._wait_s = max(self._wait_s, min(_KNOWN_S, self._call_s))
                return result
            time.sleep(_PAUSE_S)

    def _change_client(self) -> None:
        """Ask next with another client: a new one, and in turn the one before it, and wait longer for its answer.

        If no broker was up when librdkafka asked for them, it never connects again (its issue 5301). The client before
        may know brokers that are not among the given addresses.
        """
        before = self._before
        self.client, self._before = (self._new_client(), self.client) if before is None else (before, None)
        self._wait_s = min(2 * self._wait_s, self._call_s)

    def _listed(self, *topic: str) -> ClusterMetadata:
        """Return what the cluster knows of one topic, or of all; what it waits for grows with each failure."""
        metadata = self.client.list_topics(*topic, timeout=self._wait_s)
        if not metadata.brokers:  # the broker that answered has been too slow for the cluster's controller
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "no broker is up"))  # noqa: SLF001
        return metadata

    def _reason(self) -> KafkaError | None:
        """Return librdkafka's last error about a connection: a call that found no broker does not know the reason."""
        self.client.poll(0)
        errors = [error for error in self._errors if error.code() != KafkaError._ALL_BROKERS_DOWN]  # noqa: SLF001
        self._errors.clear()
        if errors and "SSL alert" in (text := errors[-1].str()):  # the broker refuses the client's certificate
            return KafkaError(KafkaError._SSL, text)  # noqa: SLF001
        return errors[-1] if errors else None

    def _until(self, reached: Callable[[], bool], complaint: str) -> None:
        if not wait_until(reached, self.patience_s):
            raise BrokerError(complaint)


def write_refusal(admin: Admin, error: KafkaException, topics: set[str]) -> BrokerError | None:
    """Return the error about a topic that this user may not write to, None if another error caused the failure."""
    if not topics or _code(error) not in _UNNAMED:
        return None
    asked = admin.client.describe_topics(TopicCollection(sorted(topics)), include_authorized_operations=True)
    for name, future in asked.items():
        try:
            denied = AclOperation.WRITE not in future.result(admin.patience_s).authorized_operations
        except (KafkaException, TimeoutError) as failure:
            denied = _code(failure) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        if denied:
            refusal = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
            return kafka_error(f'publishing to topic "{name}"', refusal, admin.servers)
    return None


def _setting_text(name: str, value: object) -> str:
    """Return the value of a topic's setting as Kafka's text."""
    if isinstance(value, timedelta) and name.endswith(".ms"):
        return str(duration_ms(value, f'setting "{name}"'))
    if not isinstance(value, str | int | float):
        kinds = "text, a number, a bool" + (" or a timedelta" if name.endswith(".ms") else "")
        raise ConfigError(f'expected {kinds} for setting "{name}", got type "{type(value).__name__}"')
    return str(value).lower() if isinstance(value, bool) else str(value)


def _code(error: KafkaException | TimeoutError) -> int | None:
    """Return Kafka's code, None if no broker answered."""
    return error.args[0].code() if isinstance(error, KafkaException) else None


def _passing(error: KafkaException | TimeoutError) -> bool:
    """Return whether an error may be temporary."""
    if isinstance(error, TimeoutError):
        return True
    reason = error.args[0]
    fenced = reason.code() == KafkaError.INVALID_REPLICATION_FACTOR and "fenced" in reason.str()  # all brokers, for now
    return bool(fenced or reason.retriable() or reason.code() in _PASSING)
