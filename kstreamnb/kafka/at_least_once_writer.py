"""At-least-once publishing of batches: every record is acknowledged before the batch counts as done.

A batch that is replayed after a failure is sent again. No transaction, no marker: consumers see records at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from kstreamnb.errors import BrokerError
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.kafka.client import Servers, client, connection, kafka_error
from kstreamnb.kafka.output_batch import OutputBatch, OutputColumns
from kstreamnb.kafka.transactional_writer import send_all

__all__ = ["AtLeastOnceWriter"]

_TUNING = {
    "linger.ms": 5,
    "compression.type": "lz4",
    "enable.idempotence": True,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 1 << 20,
}


class AtLeastOnceWriter:
    """Sends the batches of one application; ``config`` are further settings of the producer.

    Units: ``patience_s`` is how many seconds a batch may take to be acknowledged.
    """

    def __init__(
        self,
        servers: Servers,
        application: str,
        *,
        config: Mapping[str, object] | None = None,
        patience_s: float = 120.0,
    ) -> None:
        self.servers, self.application, self.patience_s = servers, application, patience_s
        self._config = dict(config or {})
        self._producer: Producer | None = None
        self._group: Consumer | None = None

    def new_producer(self) -> Producer:
        """A producer; raises ConfigError for settings that it does not take."""
        return client(Producer, {**connection(self.servers, defaults=_TUNING), **self._config})

    def open(self) -> None:
        """Connect."""
        self.close()
        self._producer = self.new_producer()
        group = connection(self.servers, group_id=self.application, enable_auto_commit=False)
        self._group = client(Consumer, group)

    def close(self) -> None:
        """Let go of the connections."""
        group, self._group, self._producer = self._group, None, None
        if group is not None:
            group.close()

    def publish(
        self, batch: int, source: str, output: Iterable[OutputColumns], positions: Offsets | None = None
    ) -> OutputBatch:
        """Send one batch and wait for its acknowledgements; then commit the positions for tools that show lag."""
        if self._producer is None:
            self.open()
        assert self._producer is not None
        failures: list[KafkaError] = []

        def note(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(KafkaError(error.code(), f'{error.str()} (topic "{message.topic()}")'))

        count = 0
        for columns in output:
            try:
                send_all(self._producer, columns, note)
            except KafkaException as error:
                self.close()
                raise self._failure(error) from error
            count += len(columns.keys)
        left = self._producer.flush(self.patience_s)
        if left or failures:
            self.close()
            reason = failures[0] if failures else TimeoutError()
            raise self._failure(reason)
        self._commit(positions or {})
        return OutputBatch(batch, count)

    def _failure(self, error: Exception | KafkaError) -> BrokerError:
        again = "the batch is sent again after a restart"
        return kafka_error(f'publishing for "{self.application}"', error, self.servers, hint=again)

    def _commit(self, positions: Offsets) -> None:
        places = [TopicPartition(t, p, n) for t, parts in positions.items() for p, n in parts.items()]
        if not places or self._group is None:
            return
        try:
            self._group.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            raise kafka_error(f'committing positions of "{self.application}"', error, self.servers) from error
