"""Exactly-once publishing: one Kafka transaction for each batch, with a marker of the batch inside.

The marker is a record of the compacted topic ``<application>-commits``. It names the query and the batch and holds
checksums of the batch's input and output. A batch that the marker names is in Kafka already: its replay publishes
nothing. A marker is a record and not a group offset because it must neither expire nor vanish with an output topic.
The source offsets are committed under the group ``<application>`` too, for tools that show lag; nothing reads them.

The output can be divided into slots. Each slot then has separate transactions and a marker in a separate partition of
that topic, and the writer of the whole batch adds its marker once all slots are published.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from itertools import repeat

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from kstreamnb.core.time import format_duration
from kstreamnb.errors import ApplicationStateError, BrokerError, EngineError, FencedError, TransactionTimeoutError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.batch_marker import PublishedOutput, last_marker, summed
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.kafka.client import Servers, as_settings, client, connection, kafka_error, sendable_time
from kstreamnb.kafka.output_batch import BatchHistory, Marker, OutputBatch, OutputColumns, checksum_of
from kstreamnb.kafka.storage.checkpoint_files import Claim
from kstreamnb.kafka.storage.claims import SHARED_PARTITIONS, create_commits_topic

STARTED_SINCE = "it was started again since"
_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}  # noqa: SLF001
_PATIENCE_S = 600.0
_CALL_S = 5.0
_ABORT_S = 10.0
_CONNECT_S = 1.0
_PAUSE_S = 0.05
_SETTLE_S = 60.0
_FIRST_TIMEOUT_MS = 60_000
_MAX_TIMEOUT_MS = 15 * 60_000  # a broker's transaction.max.timeout.ms, unless its operator changed that
_TIMEOUT = "transaction.timeout.ms"
_TUNING = {
    "compression.type": "lz4",
    "linger.ms": 5,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 1 << 20,
    "retry.backoff.ms": 20,
    _TIMEOUT: _FIRST_TIMEOUT_MS,
    # With its re-bootstrap librdkafka forgets how to reach the group's coordinator once a broker was away: sending
    # offsets would wait forever. If all brokers are lost, the writer is opened again with the first addresses.
    "metadata.recovery.strategy": "none",
}
_unfinished: list[Producer] = []
# Producers whose transaction could be neither committed nor aborted: librdkafka ends the process with an assertion
# (txn_req_cnt > 0) if such a producer is freed while its coordinator adds partitions. Kept until an abort succeeds.


def overtaken(application: str, detail: str) -> FencedError:
    """Make the error of a deployment that another one has replaced."""
    return FencedError(
        f'a newer deployment of "{application}" has taken over',
        detail=detail,
        hint="let the other one run; or stop it and deploy this one again",
    )


class TransactionalWriter:
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
        config: the further settings.
        marker: the last batch that is known to be in Kafka, None before the first.
        again: by number, the input of older batches that may come again after their state was rolled back.
        settle_s: seconds that `open` waits for the end of transactions of earlier writers.
        without_output: numbers of batches that the checkpoint has, but that never had input, such as a rescaling.
        claim: read before each fencing; a writer without one fences any other.
    """

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
        self.servers, self.application, self.query = servers, application, query
        self.replicas, self.slots, self.slot = replicas, slots, slot
        self.marker_topic = f"{application}-commits"
        self._partition = 0 if slot is None else SHARED_PARTITIONS + slot
        self.marker: Marker | None = None
        self.again: Mapping[int, str] = {}
        self.without_output: Container[int] = ()
        self.claim: Claim | None = None
        self.config = dict(config or {})
        self._producer: Producer | None = None
        self._group: Consumer | None = None
        self._first_timeout_ms = self._timeout_ms = int(str(self._settings()[_TIMEOUT]))
        self.settle_s = _SETTLE_S
        self._publishing, self._closing = threading.RLock(), threading.Event()

    def _settings(self, **own: object) -> dict[str, object]:
        return connection({**as_settings(self.servers), **self.config}, defaults=_TUNING, **own)

    def _history(self) -> BatchHistory:
        lost = f'topic "{self.marker_topic}" is empty: it was deleted, or the cluster is another one'
        return BatchHistory(self.application, self.query, self.again, self.without_output, "Kafka", lost)

    def new_producer(self) -> Producer:
        """Make a producer that has fenced nobody yet; raises ConfigError for settings that librdkafka refuses."""
        id_ = transactional_id(self.application, self.slot)
        own = {"transactional_id": id_, "transaction_timeout_ms": self._timeout_ms}
        return client(Producer, self._settings(**own))

    def open(self, *, between: Callable[[str], None] = lambda step: None) -> Marker | None:
        """Fence every older writer of the application, then read and return the last marker.

        The other order would miss the last commit of the writer that is being fenced. A marker of another query, and
        a claim of a newer deployment, are refused before anything is fenced: that query continues. The writer of a slot
        looks for the claim afterwards: it may be of an older deployment and start late, and then must not publish; the
        newer one opens the slot again. ``between`` is called at "checked" and "fenced".
        """
        self.close()
        self._closing.clear()
        producer = self.new_producer()  # connects while the marker is searched; fences nobody yet
        admin = Admin(self.servers)
        if self.slot is None:
            create_commits_topic(admin, self.marker_topic, self.replicas, self.slots)
            self._history().refuse_foreign(last_marker(admin, self.marker_topic))
            self._refuse_overtaken()
        between("checked")
        try:
            self._await_broker(producer)
            _repeat(producer.init_transactions, 120.0)
        except KafkaException as error:
            raise self._error(error) from error
        between("fenced")
        if self.slot is not None:
            self._refuse_overtaken()
        self._await_end_of_transactions(admin)
        self.marker = self._last_marker(admin)
        with self._publishing:
            if self._closing.is_set():
                raise ApplicationStateError("the writer was closed while it was opened")
            self._producer = producer
            if self.slot is None:
                group = connection(self.servers, group_id=self.application, enable_auto_commit=False)
                self._group = client(Consumer, group)
        _unfinished[:] = [each for each in _unfinished if not _aborted(each)]
        return self.marker

    def _refuse_overtaken(self) -> None:
        if self.claim is not None and not self.claim.holds():
            raise overtaken(self.application, STARTED_SINCE)

    def _last_marker(self, admin: Admin) -> Marker | None:
        """Return the last marker; in the partition of a slot, that of an earlier query says nothing about this one."""
        marker = last_marker(admin, self.marker_topic, self._partition)
        foreign = self.slot is not None and marker is not None and marker.query != self.query
        return None if foreign else marker

    def take_over(self) -> None:
        """Make the application this query's, before its first batch: fence older writers, and write a marker of it.

        Raises:
            BrokerError: Kafka failed or refused.
        """
        producer = self.new_producer()
        create_commits_topic(Admin(self.servers), self.marker_topic, self.replicas)
        try:
            self._await_broker(producer)
            _repeat(producer.init_transactions, 120.0)
            producer.begin_transaction()
            producer.produce(self.marker_topic, json.dumps(asdict(Marker(self.query, -1, "", ""))), b"sink", 0)
            _repeat(producer.commit_transaction, _CALL_S)
        except KafkaException as error:
            self._drop(producer)
            raise self._error(error) from error

    def _await_end_of_transactions(self, admin: Admin) -> None:
        """Wait until no transaction is open on the marker topic; raise BrokerError if one never ends.

        Every earlier writer is fenced, so the coordinator ends its transaction now. If the cluster lost the end of one,
        its marker stays invisible, its batch would be published again, and the next commit would commit both.
        """
        end, topic, partition = time.monotonic() + self.settle_s, self.marker_topic, self._partition
        while True:
            first = admin.offsets([topic])[topic].get(partition)
            if first == admin.offsets([topic], committed=False)[topic].get(partition):
                return
            if time.monotonic() > end:
                raise BrokerError(
                    f'a transaction of "{self.application}" never ended',
                    detail=f'topic "{topic}" is open from offset {first}, though its writer is fenced',
                    hint="abort it with kafka-transactions.sh abort --topic "
                    f"{topic} --partition {partition} --start-offset {first}, then deploy again",
                )
            time.sleep(0.02)

    def _await_broker(self, producer: Producer) -> None:
        """Wait for a broker: librdkafka asks for its coordinator at once if one is connected, else 0.5 s later."""
        with suppress(KafkaException):  # `init_transactions` has more patience, and says what is wrong
            producer.list_topics(self.marker_topic, timeout=_CONNECT_S)

    def close(self) -> None:
        """Close the connections. A batch that another thread is publishing is aborted first."""
        self._closing.set()
        with self._publishing:
            group, self._group, self._producer = self._group, None, None
        if group is not None:
            group.close()

    def is_replay(self, batch: int, source: str) -> bool:
        """Tell whether Kafka has a batch already; raises CheckpointError or DataLossError as `publish` does."""
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
            TransactionTimeoutError: the transaction outlived its timeout; `open` with a longer one and publish again.
            CheckpointError, DataLossError: checkpoint and marker contradict each other.
            BrokerError: Kafka failed or refused; `open` and publish again if it is ``restartable``.
        """
        with self._publishing:
            producer = self._producer
            if producer is None:
                raise ApplicationStateError("the writer is not open", hint="call open() first")
            if self.is_replay(batch, source):
                return self._suppress(batch, in_slots or summed(output))
            begun = _now_s()
            try:
                between("begin")
                producer.begin_transaction()
                count, checksum = in_slots or self._produce(producer, output)
                marker = Marker(self.query, batch, checksum_of(source), checksum)
                self._send(producer, marker)
                between("produced")
                self._send_positions(producer, positions or {})
                between("offsets")
                _repeat(producer.commit_transaction, _CALL_S, closing=self._closing)
            except KafkaException as error:
                raise self._failure(producer, error, batch, _now_s() - begun) from error
            except BaseException:  # of the output, of a test, or Ctrl-C: the batch is published after a restart
                self._drop(producer)
                raise
            self.marker = marker
        between("committed")
        return OutputBatch(batch, count)

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
            begun = _now_s()
            try:
                producer.begin_transaction()
                count, _ = self._produce(producer, output)
                _repeat(producer.commit_transaction, _CALL_S, closing=self._closing)
            except KafkaException as error:
                raise self._failure(producer, error, -1, _now_s() - begun) from error
            return count

    def _suppress(self, batch: int, output: PublishedOutput) -> OutputBatch:
        last = self.marker
        differs = last is not None and last.batch == batch and last.output != output.checksum
        return OutputBatch(batch, output.records, suppressed=True, differs=differs)

    def _produce(self, producer: Producer, output: Iterable[OutputColumns]) -> PublishedOutput:
        return summed(output, lambda columns: send_all(producer, columns, closing=self._closing))

    def _send(self, producer: Producer, marker: Marker) -> None:
        """Hand the marker to the producer; if the batch has filled its queue, wait for room."""
        while True:
            try:
                producer.produce(self.marker_topic, json.dumps(asdict(marker)), b"sink", self._partition)
                return
            except BufferError:
                _refuse_closing(self._closing)
                producer.poll(0.05)

    def _send_positions(self, producer: Producer, positions: Offsets) -> None:
        partitions = [TopicPartition(t, p, n) for t, parts in positions.items() for p, n in parts.items()]
        if partitions and self._group is not None:
            group = self._group.consumer_group_metadata()
            _repeat(producer.send_offsets_to_transaction, partitions, group, _CALL_S, closing=self._closing)

    def _failure(self, producer: Producer, error: KafkaException, batch: int, seconds: float) -> EngineError:
        """End the transaction if that is still possible, and make the error that says what failed."""
        reason = self._drop(producer) or error.args[0]
        fenced = {reason.code(), error.args[0].code()} & _FENCED
        timeout_ms = self._timeout_ms
        # Kafka answers an expired transaction and a newer deployment with the same code. Time tells them apart; if a
        # newer deployment came as well, the owner token of the checkpoint or the marker says so when `open` is called.
        if fenced and seconds * 1000 >= timeout_ms:
            self._timeout_ms = min(max(_MAX_TIMEOUT_MS, timeout_ms), int(max(2 * timeout_ms, 2000 * seconds)))
            return TransactionTimeoutError(
                f'the transaction of batch {batch} of "{self.application}" outlived its timeout',
                detail=f"it took {seconds:,.0f} s, and {_TIMEOUT} is {format_duration(timeout_ms)}",
                hint='lower max_records, or raise the timeout: deploy(…, producer={"transaction.timeout.ms": …})',
            )
        return overtaken(self.application, f"Kafka says: {reason.str()}") if fenced else self._error(error)

    def _error(self, error: KafkaException) -> EngineError:
        reason = error.args[0]
        if reason.code() in _FENCED:
            return overtaken(self.application, f"Kafka says: {reason.str()}")
        if reason.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            self._timeout_ms = self._first_timeout_ms
        again = "the batch is published after a restart"
        return kafka_error(f'publishing for "{self.application}"', error, self.servers, hint=again)

    def _drop(self, producer: Producer) -> KafkaError | None:
        """Abort the open transaction and close; returns the error of the abort, None if it succeeded."""
        reason = None
        try:
            _repeat(producer.abort_transaction, _ABORT_S, patience_s=_ABORT_S)
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


def send_all(
    producer: Producer,
    columns: OutputColumns,
    on_delivery: Callable[[KafkaError | None, Message], None] | None = None,
    closing: threading.Event | None = None,
) -> None:
    """Hand records to a producer; if its queue is full, wait for room.

    Raises: KafkaException that names the topic if a record is larger than the producer may send;
        ApplicationStateError if ``closing`` is set.
    """
    _refuse_closing(closing)
    send = producer.produce
    stamps = np.where(columns.timestamps == 0, sendable_time(0), columns.timestamps).tolist()
    fields: list[Iterable[object]] = [
        columns.values,
        columns.keys,
        columns.partitions.tolist(),
        repeat(on_delivery),  # first of two names for one argument: with a None here the client ignores the other
        repeat(None),
        stamps,
    ]
    if columns.headers is not None:
        fields.append(map(list, columns.headers))
    for arguments in zip(repeat(columns.topic), *fields, strict=False):  # naming them doubles the cost of the call
        while True:
            try:
                send(*arguments)
                break
            except BufferError:  # full: delivered or timed out records make room
                _refuse_closing(closing)
                producer.poll(0.05)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                    raise
                size = f'topic "{columns.topic}", a value of {len(arguments[1] or b""):,} bytes'
                text = f"{error.args[0].str()} ({size})"
                raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, text)) from error


def _refuse_closing(closing: threading.Event | None) -> None:
    if closing is not None and closing.is_set():
        raise ApplicationStateError("the writer was closed while it published a batch")


def _repeat(
    call: Callable[..., object],
    *arguments: object,
    patience_s: float = _PATIENCE_S,
    closing: threading.Event | None = None,
) -> None:
    """Repeat a call of the transaction protocol until its outcome is known: no other call is allowed before that."""
    end = time.monotonic() + patience_s
    while True:
        try:
            call(*arguments)
            return
        except KafkaException as error:
            over = time.monotonic() > end or (closing is not None and closing.is_set())
            if over or not error.args[0].retriable():
                raise
        time.sleep(_PAUSE_S)  # with no broker in reach, some calls fail at once


def _aborted(producer: Producer) -> bool:
    """Try to end the transaction of a producer that was given up; tell whether the producer may be freed now."""
    try:
        producer.abort_transaction(_CONNECT_S)
    except KafkaException as error:
        return not error.args[0].retriable()
    return True


def _now_s() -> float:
    """Read a clock that also counts while the machine sleeps, as the clock of its broker does."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
