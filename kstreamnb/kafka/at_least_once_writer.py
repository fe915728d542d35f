"""At-least-once publishing of batches: every record is acknowledged before the batch counts as done.

A batch that is replayed after a failure is sent again. No transaction, no marker: consumers see records at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.kafka.client import about_topic, client, kafka_error
from kstreamnb.kafka.output_batch import OutputBatch, OutputColumns
from kstreamnb.kafka.producer import BATCH_TUNING, BatchWriter, flushed, send_all

_PATIENCE_S = 120.0  # for the next acknowledgement
_TUNING = {**BATCH_TUNING, "enable.idempotence": True}


class AtLeastOnceWriter(BatchWriter):
    """Sends the batches of one application.

    Attributes:
        fences: opening another one for the same application ends this one.
    """

    fences: ClassVar[bool] = False

    def new_producer(self) -> Producer:
        """Make a producer; raises ConfigError for settings that librdkafka refuses."""
        return client(Producer, self._settings(_TUNING))

    def open(self) -> None:
        """Connect."""
        self.close()
        self._closing.clear()
        self._producer, self._group = self.new_producer(), self._new_group()

    def publish(
        self, batch: int, source: str, output: Iterable[OutputColumns], positions: Offsets | None = None
    ) -> OutputBatch:
        """Send one batch and wait for its acknowledgements; then commit the positions for tools that show lag."""
        return OutputBatch(batch, self.write(output, positions))

    def write(self, output: Iterable[OutputColumns], positions: Offsets | None = None) -> int:
        """Write records, of a batch or of none, and wait for their acknowledgements; return their number."""
        with self._publishing:
            if self._producer is None:
                self.open()
            assert self._producer is not None
            try:
                count = self._send(self._producer, output)
                if (partitions := self._partitions(positions or {})) and self._group is not None:
                    self._group.commit(offsets=partitions, asynchronous=False)
            except KafkaException as error:
                self.close()
                what, again = f'publishing for "{self.application}"', "the batch is sent again after a restart"
                raise kafka_error(what, error, self.servers, hint=again) from error
        return count

    def _send(self, producer: Producer, output: Iterable[OutputColumns]) -> int:
        failures: list[KafkaException] = []

        def note(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(about_topic(error, message.topic()))

        count = 0
        for columns in output:
            send_all(producer, columns, note, self._closing)
            count += len(columns.keys)
        if flushed(producer, _PATIENCE_S, self._closing):
            raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT))  # noqa: SLF001 - librdkafka's own code
        if failures:
            raise failures[0]
        return count
