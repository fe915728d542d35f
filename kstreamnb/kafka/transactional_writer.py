"""Exactly-once publishing: one Kafka transaction for each batch, with a marker of the batch inside.

The marker is a record of the compacted topic ``<application>-commits``. It names the query and the batch and holds
checksums of the batch's input and output. A batch that the marker names is in Kafka already: its replay publishes
nothing. A marker is a record and not a group offset because it must neither expire nor vanish with an output topic.
The source offsets are committed under the group ``<application>`` too, for tools that show lag; nothing reads them.

A batch counts as published once its transaction has ended in each of its partitions. Where Kafka has lost that end, the
records are aborted, and published again; meanwhile the marker names these partitions.

The output can be divided into slots. Each slot then has separate transactions and a marker in a separate partition of
that topic, and the writer of the whole batch adds its marker once all slots are published.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import ClassVar

from confluent_kafka import KafkaError, KafkaException, Producer

from kstreamnb.core.time import format_duration
from kstreamnb.errors import ApplicationStateError, BrokerError, EngineError, TransactionTimeoutError
from kstreamnb.kafka.admin import Admin, write_refusal
from kstreamnb.kafka.batch_marker import MARKER_KEY, PublishedOutput, last_marker, marker_value, parsed_marker, summed
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.kafka.client import Servers, await_broker, client, kafka_error
from kstreamnb.kafka.output_batch import BatchHistory, Marker, OutputBatch, OutputColumns, checksum_of, commits_topic
from kstreamnb.kafka.producer import BATCH_TUNING, BatchWriter, refuse_closing, send_all
from kstreamnb.kafka.storage.claims import SHARED_PARTITIONS, create_commits_topic
from kstreamnb.kafka.transaction_end import (
    FirstRecords,
    awake_s,
    first_open_records,
    is_cut_off,
    is_over,
    named_partitions,
    never_ended,
    note_first,
    only_of,
    overtaken,
    repeat_call,
    send_offsets,
    still_open,
    unknown_end,
)

_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}  # noqa: SLF001
_CALL_S = 5.0
_ABORT_S = 10.0
_FENCE_S, _PATIENCE_S = 120.0, 600.0
_SETTLE_S = 60.0
_END_S = 5.0
_LOST_S = 1.0
_FIRST_TIMEOUT_MS = 60_000
_MAX_TIMEOUT_MS = 15 * 60_000  # a broker's transaction.max.timeout.ms, unless its operator changed that
_TIMEOUT = "transaction.timeout.ms"
_TUNING = {
    **BATCH_TUNING,
    "retry.backoff.ms": 20,
    _TIMEOUT: _FIRST_TIMEOUT_MS,
    # With its re-bootstrap librdkafka forgets how to reach the group's coordinator once a broker was away: sending
    # offsets would wait forever. If all brokers are lost, the writer is opened again with the first addresses.
    "metadata.recovery.strategy": "none",
}
_unfinished: list[Producer] = []
# Producers whose transaction could be neither committed nor aborted: librdkafka ends the process with an assertion
# (txn_req_cnt > 0) if such a producer is freed while its coordinator adds partitions. Kept until an abort succeeds.


class TransactionalWriter(BatchWriter):
    """Publishes the batches of one query of an application, each of them once.

    Args:
        servers: ``host:port,…``, or settings with ``bootstrap.servers`` among them.
        application: id of the application; names the transactions, the marker topic and the group.
        query: identity of the checkpoint.
        config: further settings of the producer, which replace those of ``servers``.
        replicas: of the marker topic, if it has to be created; default -1, the broker's default.
        slots: into how many slots the output is divided; default 0, this writer publishes it.
        slot: the slot that this writer publishes; default None, it is the writer of whole batches.

    Attributes:
        fences: opening another one for the same application ends this one.
        config: the further settings.
        marker: the last batch that is known to be in Kafka, None before the first.
        lost: the marker whose transaction has no end in Kafka; None if every transaction has ended.
        settle_s: seconds that `open` waits for the end of transactions of earlier writers.
    """

    fences: ClassVar[bool] = True

    def __init__(
        self,
        servers: Servers,
        application: str,
        query: str,
        *,
        config: Mapping[str, object] | None = None,
        replicas: int = -1,
        slots: int = 0,
        slot: int | None = None,
    ) -> None:
        super().__init__(servers, application, config=config)
        self.query, self.replicas, self.slots, self.slot = query, replicas, slots, slot
        self.marker_topic = commits_topic(application)
        self._partition = 0 if slot is None else SHARED_PARTITIONS + slot
        self.marker: Marker | None = None
        self.lost: Marker | None = None
        self._committed: int | None = None  # the batch whose commit Kafka has confirmed last, in whatever partitions
        self._resumed = False
        self._admin: Admin
        self._first_timeout_ms = self._timeout_ms = int(str(self._settings(_TUNING)[_TIMEOUT]))
        self.settle_s = _SETTLE_S

    def _history(self) -> BatchHistory:
        lost = f'topic "{self.marker_topic}" is empty: it was deleted, or this is a different cluster'
        return BatchHistory(self.application, self.query, self.again, self.without_output, "Kafka", lost)

    def new_producer(self) -> Producer:
        """Make a producer that has fenced nobody yet; raises ConfigError for settings that librdkafka refuses."""
        id_ = transactional_id(self.application, self.slot)
        own = {"transactional_id": id_, "transaction_timeout_ms": self._timeout_ms}
        return client(Producer, self._settings(_TUNING, **own))

    def open(self, *, between: Callable[[str], None] = lambda step: None) -> Marker | None:
        """Fence every older writer of the application, then read and return the last marker.

        The other order would miss the last commit of the writer that is being fenced. A marker of another query, and
        a claim of a newer deployment, are refused before anything is fenced: that query continues. The writer of a slot
        looks for the claim afterwards: it may be of an older deployment and start late, and then must not publish; the
        newer one opens the slot again. ``between`` is called at "checked" and "fenced".
        """
        self.close()
        self._closing.clear()
        made = [self.new_producer()]  # connects while the marker is searched; fences nobody yet
        self._admin = admin = Admin(self.servers)
        if self.slot is None:
            create_commits_topic(admin, self.marker_topic, self.replicas, self.slots)
            history, last = self._history(), last_marker(admin, self.marker_topic)
            history.refuse_foreign(last)
            self._refuse_overtaken()
            history.refuse_lost(last, self.finished + 1)
        between("checked")
        producer = self._fence(made.pop())
        between("fenced")
        if self.slot is not None:
            self._refuse_overtaken()
        self.lost, self._resumed = self._marker_without_end(), False
        self.marker = self._last_marker(admin)
        with self._publishing:
            if self._closing.is_set():
                raise ApplicationStateError("the writer was closed while it was opened")
            self._producer = producer
            if self.slot is None:
                self._group = self._new_group()
        _unfinished[:] = [each for each in _unfinished if not is_over(each)]
        return self.marker

    def _fence(self, producer: Producer) -> Producer:
        """Fence every older writer; return the producer that did, which is another one if this one was cut off.

        Only the argument may refer to the producer: one that was given up could fence its successor later.
        """
        end = time.monotonic() + _FENCE_S  # settings of the producer alone may be wrong: then no other one helps
        while True:
            try:
                await_broker(producer, self.marker_topic)
                self._repeat(producer, producer.init_transactions, _FENCE_S)
                return producer
            except KafkaException as error:
                failure = error
            if time.monotonic() > end or self._closing.is_set() or not self._is_cut_off(producer):  # see `repeat_call`
                raise self._error(failure) from failure
            del producer, failure
            producer = self.new_producer()

    def _refuse_overtaken(self) -> None:
        if self.claim is not None and not self.claim.holds():
            raise overtaken(self.application)

    def _last_marker(self, admin: Admin) -> Marker | None:
        """Return the last marker; in the partition of a slot, that of an earlier query says nothing about this one."""
        marker = last_marker(admin, self.marker_topic, self._partition)
        is_foreign = self.slot is not None and marker is not None and marker.query != self.query
        return None if is_foreign else marker

    def take_over(self) -> None:
        """Make the application this query's, before its first batch: fence older writers, and write a marker of it.

        Raises:
            BrokerError: Kafka failed or refused.
        """
        self._admin, written = Admin(self.servers), FirstRecords()
        create_commits_topic(self._admin, self.marker_topic, self.replicas)
        producer = self._fence(self.new_producer())
        try:
            producer.begin_transaction()
            self._send(producer, Marker(self.query, -1, "", ""), written)
            self._repeat(producer, producer.commit_transaction)
        except KafkaException as error:
            self._drop(producer)
            raise self._error(error) from error
        self._await_end(written, "the takeover")

    def _marker_without_end(self) -> Marker | None:
        """Return the marker of this query's transaction whose end the cluster has lost, None if there is none.

        Every earlier writer is fenced, so the coordinator has ended their transactions; a moment later the end is
        visible. Raises BrokerError if another transaction is open on the marker topic and does not end.
        """
        partition_id, began = (self.marker_topic, self._partition), time.monotonic()
        while open_ := self._admin.open_transactions([partition_id]):
            waited = time.monotonic() - began
            if waited > _LOST_S:
                _, value = first_open_records(self._admin, open_).get(partition_id, (None, None))
                lost = parsed_marker(value)
                if lost is not None and lost.query == self.query:
                    return lost
            if waited > self.settle_s:
                raise never_ended(self.application, partition_id, open_[partition_id])
            time.sleep(0.02)
        return None

    def is_replay(self, batch: int, source: str) -> bool:
        """Return whether Kafka has a batch already; raises CheckpointError or DataLossError as `publish` does."""
        return self._history().is_replay(self.marker, batch, source)

    def publish(
        self,
        batch: int,
        source: str,
        output: Iterable[OutputColumns],
        positions: Offsets | None = None,
        *,
        in_slots: PublishedOutput | None = None,
        between: Callable[[str], None] = lambda step: None,
    ) -> OutputBatch:
        """Publish one batch, suppress it if it is in Kafka already, or refuse it.

        Whatever ends this call, no transaction stays open.

        Args:
            batch: its number in the checkpoint.
            source: the batch's entry in the query's log of input offsets.
            output: its records.
            positions: the input offsets after it.
            in_slots: what its slots have published, instead of ``output``.
            between: called at "begin", "produced", "offsets" and "committed".

        Raises:
            FencedError: a newer deployment took over.
            TransactionTimeoutError: the transaction exceeded its timeout; `open` with a longer one and publish again.
            CheckpointError, DataLossError: checkpoint and marker contradict each other.
            BrokerError: Kafka failed or refused; `open` and publish again if it is ``restartable``.
        """
        with self._publishing:
            producer = self._producer
            if producer is None or self._closing.is_set():
                raise ApplicationStateError("the writer is not open", hint="call open() first")
            whole, replayed = in_slots, self.is_replay(batch, source)
            if not self._resumed:
                output = list(output)
                whole = in_slots or summed(output)
                output = self._resume(producer, self._marker_of(batch, source, whole), output)
                replayed = self.is_replay(batch, source)
            if replayed:
                return self._suppress(batch, whole or summed(output))
            begun, written = awake_s(), FirstRecords()
            try:
                between("begin")
                producer.begin_transaction()
                produced = self._produce(producer, output, written)
                marker = self._marker_of(batch, source, whole or produced)
                self._send(producer, marker, written)
                between("produced")
                self._send_positions(producer, positions or {})
                between("offsets")
                self._repeat(producer, producer.commit_transaction)
            except KafkaException as error:
                raise self._failure(producer, error, batch, awake_s() - begun, written) from error
            except BaseException:  # of the output, of a test, or Ctrl-C: the batch is published after a restart
                self._drop(producer)
                raise
            self._committed = batch
            self._await_end(written, f"batch {batch}")
            self.marker = marker
        between("committed")
        return OutputBatch(batch, (whole or produced).records)

    def _marker_of(self, batch: int, source: str, output: PublishedOutput) -> Marker:
        return Marker(self.query, batch, checksum_of(source), output.checksum)

    def _resume(self, producer: Producer, batch: Marker, output: list[OutputColumns]) -> list[OutputColumns]:
        """End the transactions that Kafka left open in the first batch after `open`; return the records to publish.

        An abort ends everything that the producer has open in a partition. Partitions in which the batch was committed
        keep it. A marker names the others before they are aborted, so that a crash in between loses nothing.
        """
        records, last, lost = FirstRecords(), self.marker, self.lost
        for columns in output:
            note_first(records, columns)
        begun = last is not None and last.batch == batch.batch
        wanted = sorted(records.keys() & last.lacking if begun and last is not None and last.lacking else records)
        counts = self._admin.topics({topic for topic, _ in wanted})
        written = {each: records[each] for each in wanted if each[1] < counts.get(each[0], 0)}
        left = still_open(self._admin, written, patience_s=_LOST_S)
        if left or lost is not None:
            committed = self._committed == batch.batch or (begun and last is not None and not last.lacking)
            unknown = not committed and left != wanted
            if lost is not None and (unknown or (lost.batch, lost.source) != (batch.batch, batch.source)):
                raise unknown_end(self.application, lost.batch, left, wanted)
            self._end(producer, batch, {each: records[each] for each in left}, committed=committed)
            wanted = left if committed else wanted
        self._resumed, self.lost = True, None
        return only_of(output, wanted)

    def _end(self, producer: Producer, batch: Marker, left: FirstRecords, *, committed: bool) -> None:
        """Abort the open part of a batch; if the rest is committed, first write a marker that names this part."""
        try:
            if committed:
                marker, written = replace(batch, lacking=tuple(sorted(left))), FirstRecords()
                producer.begin_transaction()
                self._send(producer, marker, written)
                self._repeat(producer, producer.commit_transaction)
                self._await_end(written, f"batch {batch.batch}")
                self.marker, self._committed = marker, None
            producer.begin_transaction()
            for (topic, partition), (key, value) in left.items():
                producer.produce(topic, value, key, partition)
            if not committed:
                self._send(producer, batch, left)
            while producer.flush(_CALL_S):
                refuse_closing(self._closing)
            self._repeat(producer, producer.abort_transaction)
        except KafkaException as error:
            raise self._failure(producer, error, batch.batch, 0.0, left) from error
        self._await_end(left, f"batch {batch.batch}")

    def _await_end(self, written: FirstRecords, what: str) -> None:
        """Wait until a transaction has ended in all its partitions; raises BrokerError if its end is missing."""
        left = still_open(self._admin, written, patience_s=_END_S, closing=self._closing)
        if left:
            fact = f'the transaction of {what} of "{self.application}" has not ended in Kafka'
            detail = f"it is open in {named_partitions(left)}"
            raise BrokerError(fact, detail=detail, hint="restart the query: it publishes what is missing")

    def write(self, output: Iterable[OutputColumns]) -> int:
        """Write records that belong to no batch, in a separate transaction; return their number.

        Raises:
            FencedError, CheckpointError, BrokerError: as `open` and `publish` raise them.
        """
        with self._publishing:
            if self._producer is None:
                self.open()
            producer = self._producer
            assert producer is not None
            begun, written = awake_s(), FirstRecords()
            try:
                producer.begin_transaction()
                count, _ = self._produce(producer, output, written)
                self._repeat(producer, producer.commit_transaction)
            except KafkaException as error:
                raise self._failure(producer, error, -1, awake_s() - begun, written) from error
            self._await_end(written, "these records")
            return count

    def _suppress(self, batch: int, output: PublishedOutput) -> OutputBatch:
        last = self.marker
        differs = last is not None and last.batch == batch and last.output != output.checksum
        return OutputBatch(batch, output.records, suppressed=True, differs=differs)

    def _produce(self, producer: Producer, output: Iterable[OutputColumns], written: FirstRecords) -> PublishedOutput:
        def send(columns: OutputColumns) -> None:
            note_first(written, columns)
            send_all(producer, columns, closing=self._closing)

        return summed(output, send)

    def _send(self, producer: Producer, marker: Marker, written: FirstRecords) -> None:
        """Hand the marker to the producer; if the batch has filled its queue, wait for room."""
        key, value = written[self.marker_topic, self._partition] = MARKER_KEY, marker_value(marker)
        while True:
            try:
                producer.produce(self.marker_topic, value, key, self._partition)
                return
            except BufferError:
                refuse_closing(self._closing)
                producer.poll(0.05)

    def _send_positions(self, producer: Producer, positions: Offsets) -> None:
        partitions = self._partitions(positions)
        if partitions and self._group is not None:
            group = self._group.consumer_group_metadata()
            send = partial(producer.send_offsets_to_transaction, partitions, group)
            patience_s = self._timeout_ms / 2000  # then it can still be aborted; a new producer finds the coordinator
            send_offsets(producer, send, patience_s, self._closing, partial(self._is_cut_off, producer))

    def _repeat(self, producer: Producer, call: Callable[[float], object], patience_s: float = _PATIENCE_S) -> None:
        """Repeat a call of a producer until its outcome is known, or the producer is cut off from the brokers."""
        cut_off = partial(self._is_cut_off, producer)
        repeat_call(call, _CALL_S, patience_s=patience_s, closing=self._closing, cut_off=cut_off)

    def _is_cut_off(self, producer: Producer) -> bool:
        return is_cut_off(producer, self.servers, self.marker_topic)

    def _failure(
        self, producer: Producer, error: KafkaException, batch: int, seconds: float, written: FirstRecords
    ) -> EngineError:
        """End the transaction if that is still possible, and make the error that says what failed."""
        timeout_ms = self._timeout_ms
        is_slow = error.args[0].code() == KafkaError._TIMED_OUT and len(producer) > 0  # noqa: SLF001 - a public code
        reason = self._drop(producer) or error.args[0]
        fenced = {reason.code(), error.args[0].code()} & _FENCED
        if is_slow:  # the broker limits the rate, or is slow: the next attempt has more time
            self._timeout_ms = min(max(_MAX_TIMEOUT_MS, timeout_ms), 2 * timeout_ms)
        # Kafka answers an expired transaction and a newer deployment with the same code. Time tells them apart; if a
        # newer deployment came as well, the owner token of the checkpoint or the marker says so when `open` is called.
        if fenced and seconds * 1000 >= timeout_ms:
            self._timeout_ms = min(max(_MAX_TIMEOUT_MS, timeout_ms), int(max(2 * timeout_ms, 2000 * seconds)))
            fact = f'the transaction of batch {batch} of "{self.application}" exceeded its timeout'
            detail = f"it took {seconds:,.0f} s, and {_TIMEOUT} is {format_duration(timeout_ms)}"
            hint = 'lower max_records, or raise the timeout: deploy(…, producer={"transaction.timeout.ms": …})'
            return TransactionTimeoutError(fact, detail=detail, hint=hint)
        if fenced:
            return overtaken(self.application, f"Kafka says: {reason.str()}")
        return write_refusal(self._admin, error, {topic for topic, _ in written}) or self._error(error)

    def _error(self, error: KafkaException) -> EngineError:
        reason = error.args[0]
        if reason.code() in _FENCED:
            return overtaken(self.application, f"Kafka says: {reason.str()}")
        if reason.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            self._timeout_ms = self._first_timeout_ms
        what = f'publishing for "{self.application}" as "{transactional_id(self.application, self.slot)}"'
        return kafka_error(what, error, self.servers, hint="the batch is published after a restart")

    def _drop(self, producer: Producer) -> KafkaError | None:
        """Abort the open transaction and close; returns the error of the abort, None if it succeeded."""
        reason = None
        try:
            repeat_call(producer.abort_transaction, _ABORT_S, patience_s=_ABORT_S)
        except KafkaException as error:
            reason = error.args[0]
            if not reason.fatal():
                _unfinished.append(producer)
        with suppress(KafkaException):  # the fatal error once more
            producer.poll(0)  # what librdkafka still reports goes to the log
        self.close()
        return None if reason is None or reason.code() == KafkaError._STATE else reason  # noqa: SLF001


def transactional_id(application: str, slot: int | None = None) -> str:
    """Return the id of the transactions of whole batches, or of a slot of the output."""
    return f"{application}.sink" if slot is None else f"{application}.sink.{slot}"
