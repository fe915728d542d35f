"""Claims: which start of a deployment came last, so that an older one does not fence it when it restarts automatically.

Kafka fences the writer that opened its transactions earlier: an older deployment that opens them again, after a broker
was away, would end the newer one. Each start by a person therefore writes a claim first, and every automatic restart
reads the claim before it repairs or fences anything.

The claim of an exactly-once deployment is a record of its topic ``<application>-commits``, in a separate partition:
it works on any storage, also for copies of one checkpoint. Other deployments keep it in a file of their checkpoint
(`FileClaim`).
"""

from __future__ import annotations

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import NewPartitions

from kstreamnb.errors import BrokerError, UnknownTopicError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.batch_marker import last_value
from kstreamnb.kafka.client import Servers, client, connection, kafka_error
from kstreamnb.kafka.output_batch import commits_topic
from kstreamnb.kafka.storage.checkpoint_files import Claim

SHARED_PARTITIONS = 2
"""Partitions before those of the slots: the marker of whole batches, and the claims."""

_PARTITION = 1
_KEY = b"claim"
_SEND_S = 30.0
_CALL_S = 10.0


class TopicClaim(Claim):
    """A claim in the topic of the application's markers.

    Args:
        servers: ``host:port,…``, or settings with ``bootstrap.servers`` among them.
        application: id of the application.
        replicas: of the topic, if it has to be created; default -1, the broker's default.
        slots: those of the output; default 0.

    Raises:
        BrokerError: no broker answers.
    """

    def __init__(self, servers: Servers, application: str, replicas: int = -1, slots: int = 0) -> None:
        self._servers, self._topic = servers, commits_topic(application)
        admin = Admin(servers)
        create_commits_topic(admin, self._topic, replicas, slots)
        super().__init__(last_value(admin, self._topic, _PARTITION) or b"")

    def _read(self) -> bytes:
        try:
            return last_value(Admin(self._servers), self._topic, _PARTITION) or b""
        except UnknownTopicError:  # deleted by a reset
            return b""

    def _write(self, token: bytes) -> None:
        """Write a claim outside of transactions: it counts before anything is fenced.

        A claim that a retry writes twice says the same; librdkafka would take half a second to prevent that.
        """
        failures: list[KafkaError] = []

        def note(error: KafkaError | None, message: object) -> None:
            if error is not None:
                failures.append(error)

        producer = client(Producer, connection(self._servers))
        producer.produce(self._topic, token, _KEY, _PARTITION, on_delivery=note)
        if producer.flush(_SEND_S) or failures:
            error = failures[0] if failures else KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001
            raise kafka_error(f'claiming "{self._topic}"', error, self._servers)


def create_commits_topic(admin: Admin, topic: str, replicas: int = -1, slots: int = 0) -> None:
    """Create the topic of an application's markers and claims, with a partition for each slot of the output.

    A topic that has fewer partitions gets the missing ones.
    """
    count, config = SHARED_PARTITIONS + slots, {"cleanup.policy": "compact"}
    admin.create_topic(topic, partitions=count, replicas=replicas, config=config, exists_ok=True)
    if admin.topics([topic])[topic] >= count:
        return

    def create() -> None:
        admin.client.create_partitions([NewPartitions(topic, count)])[topic].result(_CALL_S)

    try:
        admin.retry(create, f'adding a partition to topic "{topic}"')
    except BrokerError:
        if admin.topics([topic])[topic] < count:  # else another start was sooner, or the answer was lost
            raise
